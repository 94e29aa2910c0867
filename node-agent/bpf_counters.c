/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/bpf_counters.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf/sched.h"
#include "common/cleanup.h"
#include "common/err.h"

_Static_assert(KW_SCHED_COUNTERS == AGENT_COUNTER__MAX, "both sides count the same");

const struct agent_counter_event agent_counter_events[AGENT_COUNTER__MAX] = {
    [AGENT_COUNTER_CYCLES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    [AGENT_COUNTER_INSTRUCTIONS] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    [AGENT_COUNTER_LLC_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
};

static int open_event(const struct agent_counter_event *event, unsigned cpu, int leader)
{
    /* the group is enabled as one: a member that joins a running one may not count */
    struct perf_event_attr attr = {
        .type = event->type, .config = event->config, .size = sizeof(attr), .disabled = leader < 0};
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, leader, PERF_FLAG_FD_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int agent_bpf_counters_open(int map_fd, unsigned cpu, const struct agent_counter_event *events)
{
    kw_cleanup_close int leader = open_event(&events[0], cpu, -1);
    uint32_t first = cpu * KW_SCHED_COUNTERS;
    int n = 1;

    if (leader < 0)
        return leader;
    for (uint32_t i = 1; i < AGENT_COUNTER__MAX; i++) {
        uint32_t place = first + i;
        kw_cleanup_close int fd = open_event(&events[i], cpu, leader);
        /* a PMU that lacks this one, or has no room for it beside the others */
        if (fd < 0)
            break;
        if (bpf_map_update_elem(map_fd, &place, &fd, BPF_ANY) < 0)
            return -errno;
        n++;
    }
    if (ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) < 0)
        return -errno;
    /* the leader last: its first reading says that the others are there */
    return bpf_map_update_elem(map_fd, &first, &leader, BPF_ANY) < 0 ? -errno : n;
}

int agent_bpf_counters_try(const uint16_t *cpus, unsigned n,
                           const struct agent_counter_event *events, char *why, size_t why_bytes)
{
    /* CPU numbers ascend */
    kw_cleanup_close int map_fd =
        bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, NULL, sizeof(uint32_t), sizeof(uint32_t),
                       KW_SCHED_COUNTERS * (cpus[n - 1] + 1u), NULL);
    int r = map_fd < 0 ? -errno : -ENODEV;

    for (unsigned i = 0; i < n && r == -ENODEV; i++)
        r = agent_bpf_counters_open(map_fd, cpus[i], events);
    if (r >= 0)
        return 0;
    (void)snprintf(why, why_bytes, "%s",
                   r == -ENOENT || r == -EOPNOTSUPP || r == -ENODEV
                       ? "this machine shows no PMU, as most virtual machines"
                   : r == -EACCES || r == -EPERM ? "not allowed; needs CAP_PERFMON"
                                                 : kw_errno_text(r));
    return r;
}
