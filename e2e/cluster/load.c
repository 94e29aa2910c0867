/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load for pods: busy until its own CPU time is what it was told to use of the time that passed,
 * so that it uses just that, whatever else runs. Ends at once on SIGTERM.
 *
 *   /load                  sleeps
 *   /load PERMILLE [S]     uses PERMILLE/1000 of one core, for S seconds (default: for good), then
 *                          ends with 0
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define REST_NS   2000000L
#define SECOND_NS 1000000000LL

static long long now_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void end(int number)
{
    (void)number;
    _exit(0);
}

int main(int argc, char **argv)
{
    long permille = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    long long until_ns = argc > 2 ? strtol(argv[2], NULL, 10) * SECOND_NS : 0;
    long long begin_ns = now_ns(CLOCK_MONOTONIC);

    (void)sigaction(SIGTERM, &(struct sigaction){.sa_handler = end}, NULL);
    while (permille <= 0)
        (void)pause();
    for (;;) {
        long long passed_ns = now_ns(CLOCK_MONOTONIC) - begin_ns;
        if (until_ns > 0 && passed_ns >= until_ns)
            return 0;
        if (now_ns(CLOCK_PROCESS_CPUTIME_ID) * 1000 < passed_ns * permille) {
            for (volatile int i = 0; i < 20000; i++)
                continue;
        } else {
            struct timespec rest = {.tv_nsec = REST_NS};
            (void)nanosleep(&rest, NULL);
        }
    }
}
