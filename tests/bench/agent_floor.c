/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that reading every cgroup can cost: the files given as arguments are kept open and read
 * once a pass, one pass a second, and nothing is done with what they say. Prints the CPU time per
 * pass in ns.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"

#define PASSES 10

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int main(int argc, char **argv)
{
    const struct timespec second = {.tv_sec = 1};
    struct rlimit files = {.rlim_cur = 65536, .rlim_max = 65536};
    kw_cleanup_free int *fds = calloc((size_t)argc, sizeof(int));
    char text[4096];
    uint64_t used_ns = 0;

    if (fds == NULL)
        return 1;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 1; i < argc; i++) {
        fds[i] = open(argv[i], O_RDONLY | O_CLOEXEC);
        if (fds[i] < 0) {
            perror(argv[i]);
            return 1;
        }
    }
    for (unsigned pass = 0; pass < PASSES; pass++) {
        (void)nanosleep(&second, NULL);
        uint64_t before_ns = cpu_ns();
        for (int i = 1; i < argc; i++) {
            if (kw_file_pread(fds[i], text, sizeof(text)) < 0) {
                perror(argv[i]);
                return 1;
            }
        }
        used_ns += cpu_ns() - before_ns;
    }
    printf("%" PRIu64 "\n", used_ns / PASSES);
    return 0;
}
