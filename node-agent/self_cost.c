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
