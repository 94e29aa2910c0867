/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/extender_beside.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/bench/question.h"

#define CROWD       8
#define CROWD_CALLS 3
#define CALLS_MAX   100000

/** A quarter of the httpTimeout that kwatt scheduler-config writes. */
#define BOUND_MS 50

static void use_every_cpu(pid_t pid)
{
    cpu_set_t all;
    char path[64];

    CPU_ZERO(&all);
    for (long i = 0; i < sysconf(_SC_NPROCESSORS_CONF) && i < CPU_SETSIZE; i++)
        CPU_SET((size_t)i, &all);
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        kwt_die(path);
    for (const struct dirent *at = readdir(tasks); at != NULL; at = readdir(tasks)) {
        pid_t task = (pid_t)strtol(at->d_name, NULL, 10);
        if (task > 0 && sched_setaffinity(task, sizeof(all), &all) != 0)
            kwt_die("sched_setaffinity");
    }
    (void)closedir(tasks);
}

/** One of the eight: on the machine of its own scheduler, were this not a benchmark, so that it
 * gives way here. */
static void ask_for_whole_nodes(uint16_t port, const struct kw_buf *request)
{
    struct keepalive client = {0};
    const char *body;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpriority(PRIO_PROCESS, 0, 10);
    keepalive_connect(&client, port);
    for (unsigned i = 0; i < CROWD_CALLS; i++)
        (void)keepalive_ask(&client, request, &body);
    keepalive_close(&client);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/** Asks every 2 ms while `at_work` processes are, or so often where it is 0. @return how often. */
static size_t ask(uint16_t port, const struct kw_buf *request, unsigned at_work, size_t calls,
                  uint64_t *ns)
{
    struct keepalive client = {0};
    const char *body;
    size_t n = 0;

    keepalive_connect(&client, port);
    while (n < CALLS_MAX && (at_work > 0 || n < calls)) {
        uint64_t from_ns = kw_now_ns();
        (void)keepalive_ask(&client, request, &body);
        ns[n++] = kw_now_ns() - from_ns;
        (void)poll(NULL, 0, 2);
        for (int status = 0; at_work > 0 && waitpid(-1, &status, WNOHANG) > 0; at_work--) {
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                kwt_die("a client with whole nodes");
        }
    }
    keepalive_close(&client);
    qsort(ns, n, sizeof(*ns), by_value);
    return n;
}

static double p99_ms(const uint64_t *sorted, size_t n)
{
    return (double)sorted[(size_t)((double)(n - 1) * 0.99 + 0.5)] / KW_NS_PER_MS;
}

void extender_beside_large(const struct extender_rig *p)
{
    static const char *const verbs[] = {"filter", "prioritize"};
    const struct question_nodes whole = {.n = 5000, .of = 5000, .whole = true};
    const struct question_nodes few = {.n = 10, .of = 5000};
    struct kw_buf large[2] = {0}, small = {0};
    kw_cleanup_free uint64_t *ns = calloc(CALLS_MAX, sizeof(*ns));

    if (ns == NULL || question_add(&small, "filter", &few, 0) < 0)
        kwt_die("out of memory");
    for (unsigned i = 0; i < KW_ARRAY_SIZE(verbs); i++) {
        if (question_add(&large[i], verbs[i], &whole, 0) < 0)
            kwt_die("out of memory");
    }
    use_every_cpu(p->extender);
    use_every_cpu(getpid());
    double alone_ms = p99_ms(ns, ask(p->port, &small, 0, 500, ns));
    for (unsigned i = 0; i < CROWD; i++) {
        pid_t pid = fork();
        if (pid < 0)
            kwt_die("fork");
        if (pid == 0) {
            ask_for_whole_nodes(p->port, &large[i % 2]);
            _exit(0);
        }
    }
    size_t n = ask(p->port, &small, CROWD, 0, ns);
    printf("{\"name\":\"extender.filter_10_beside_8_of_5000_nodes_p99_ms\",\"value\":%.3f,\"unit\":"
           "\"ms\",\"reference\":{\"name\":\"alone\",\"value\":%.3f},\"ratio\":%.1f,\"bound\":%d,"
           "\"bound_on\":\"value\",\"better\":\"lower\"}\n",
           p99_ms(ns, n), alone_ms, p99_ms(ns, n) / alone_ms, BOUND_MS);
    for (unsigned i = 0; i < KW_ARRAY_SIZE(large); i++)
        kw_buf_free(&large[i]);
    kw_buf_free(&small);
}
