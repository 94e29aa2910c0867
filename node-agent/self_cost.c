/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/self_cost.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/num.h"

uint64_t agent_self_cpu_ns(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return 0;
    return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * KW_NS_PER_S +
           ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000;
}

uint64_t agent_thread_cpu_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t agent_self_rss_bytes(void)
{
    /* "size resident shared ..." in pages; the agent's own /proc, not the one being watched */
    char text[128];
    uint64_t pages = 0;
    long page = sysconf(_SC_PAGESIZE);

    if (kw_file_read_at(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) < 0 || page <= 0)
        return 0;
    const char *resident = text + strcspn(text, " ");
    resident += strspn(resident, " ");
    if (kw_parse_u64_span(resident, strcspn(resident, " \n"), 0, UINT64_MAX / (uint64_t)page,
                          &pages) < 0)
        return 0;
    return pages * (uint64_t)page;
}

void agent_self_cost_begin(struct agent_self_cost *cost)
{
    *cost = (struct agent_self_cost){.base_ns = agent_self_cpu_ns()};
    cost->last_ns = cost->base_ns;
}

void agent_self_cost_add(struct agent_self_cost *cost, uint64_t active_uj, uint64_t busy_ns)
{
    uint64_t now_ns = agent_self_cpu_ns();
    uint64_t own_ns = now_ns > cost->last_ns ? now_ns - cost->last_ns : 0;
    uint64_t gained_uj = active_uj > cost->active_uj ? active_uj - cost->active_uj : 0;

    /* the process's clock and the accounting's differ by what the last slice holds */
    if (own_ns > busy_ns)
        own_ns = busy_ns;
    if (busy_ns > 0)
        cost->uj += (uint64_t)((unsigned __int128)gained_uj * own_ns / busy_ns);
    cost->last_ns = now_ns;
    cost->active_uj = active_uj;
}
