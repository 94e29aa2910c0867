/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes are found by their cgroups, so that whose they are is known as it is for CPU time: a v2
 * cgroup below the root counts, then a v1 one, then the root (node-agent/accounting.h). A process
 * that is seen twice, in hierarchies beside each other, counts where it was seen first.
 *
 * Between the list and the look a process may end and its number be used again, by one of another
 * workload. What is then divided wrongly is a share of this workload's energy, once; the next round
 * finds the process where it is.
 */
#include "node-agent/process_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "node-agent/cgroup_procs.h"

#define STAT_MAX 1024 /* 52 numbers and a name */

struct agent_process_watch {
    const char *procfs_root;
    bool part;
    size_t listed;
    struct agent_processes *processes;
    struct agent_pids pids;
    struct agent_party *parties;
    size_t cap_parties;
    struct agent_party system; /* at the last round, as sums */
    uint64_t boot_ns;          /* of the last round */
    /* of the round at hand */
    const struct agent_cgroup_mounts *mounts;
    const struct agent_booking *booking;
    enum agent_hierarchy hierarchy;
};

int agent_process_watch_new(const char *procfs_root, bool part, size_t listed,
                            struct agent_process_watch **ret)
{
    kw_cleanup(agent_process_watch_free) struct agent_process_watch *watch =
        calloc(1, sizeof(*watch));
    long ticks = sysconf(_SC_CLK_TCK);

    if (watch == NULL || agent_processes_new(KW_NS_PER_S / (uint64_t)(ticks > 0 ? ticks : 100),
                                             &watch->processes) < 0)
        return -ENOMEM;
    watch->procfs_root = procfs_root;
    watch->part = part;
    watch->listed = listed;
    *ret = KW_TAKE_PTR(watch);
    return 0;
}

void agent_process_watch_free(struct agent_process_watch **watch)
{
    struct agent_process_watch *owned = KW_TAKE_PTR(*watch);

    if (owned == NULL)
        return;
    agent_processes_free(&owned->processes);
    agent_pids_free(&owned->pids);
    free(owned->parties);
    free(owned);
}

/** The program's file: by its link where that may be read, else as the command line names it. */
static void read_exe(const struct agent_process_watch *watch, pid_t pid, char out[PATH_MAX])
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%d/exe", watch->procfs_root, (int)pid) <
        (int)sizeof(path)) {
        ssize_t n = readlink(path, out, PATH_MAX - 1);
        if (n > 0) {
            out[n] = '\0';
            return;
        }
    }
    out[0] = '\0';
    if (snprintf(path, sizeof(path), "%s/%d/cmdline", watch->procfs_root, (int)pid) >=
        (int)sizeof(path))
        return;
    ssize_t n = kw_file_read_at(AT_FDCWD, path, out, PATH_MAX);
    if ((n <= 0 && n != -EFBIG) || out[0] != '/')
        out[0] = '\0';
}

static void see(struct agent_process_watch *watch, struct agent_process *seen)
{
    char path[PATH_MAX], text[STAT_MAX], exe[PATH_MAX];
    struct agent_process *process = NULL;

    if (snprintf(path, sizeof(path), "%s/%d/stat", watch->procfs_root, (int)seen->pid) >=
        (int)sizeof(path))
        return;
    ssize_t n = kw_file_read_at(AT_FDCWD, path, text, sizeof(text));
    if (n <= 0 || agent_proc_stat_parse(text, (size_t)n, &seen->stat) < 0 ||
        agent_processes_see(watch->processes, seen, &process) < 0 || process->text != NULL)
        return;
    read_exe(watch, seen->pid, exe);
    (void)agent_process_text_new(seen->stat.comm, exe, &process->text);
}

static void see_all(struct agent_process_watch *watch, const char *path, struct agent_process *seen)
{
    if (agent_cgroup_procs_read(watch->mounts, watch->hierarchy, path, &watch->pids) < 0)
        return;
    for (size_t i = 0; i < watch->pids.n; i++) {
        seen->pid = watch->pids.ids[i];
        see(watch, seen);
    }
}

static void look_into(void *user, const struct agent_cgroup *cgroup)
{
    struct agent_process_watch *watch = user;
    bool v1 = (cgroup->key & AGENT_KEY_V1) != 0;
    struct agent_workload *workload = NULL;
    struct agent_process seen = {0};

    if (cgroup->gone_ns != 0 || v1 != (watch->hierarchy != AGENT_HIERARCHY_V2))
        return;
    agent_booking_owner(watch->booking, cgroup->key, &workload, &seen.container);
    if (workload != NULL) {
        seen.party = workload->number;
        seen.owner = workload->label;
        seen.names = workload->names;
    }
    see_all(watch, cgroup->path, &seen);
}

static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/** What the system used and drew since the last round. */
static struct agent_party system_party(struct agent_process_watch *watch,
                                       const struct agent_ledger *ledger)
{
    struct agent_party sums = {.number = AGENT_PARTY_SYSTEM}, before = watch->system;
    const struct agent_system_parts *parts = agent_ledger_system(ledger);

    for (unsigned part = 0; part < AGENT_SYSTEM__MAX; part++)
        sums.cpu_ns += parts->cpu_ns[part];
    for (unsigned slot = 0; slot < AGENT_SLOTS_MAX; slot++) {
        uint64_t uj = agent_ledger_total(ledger, slot)->system_uj;
        if (slot % 2 == 0)
            sums.cpu_uj += uj;
        else
            sums.dram_uj += uj;
    }
    watch->system = sums;
    return (struct agent_party){.number = AGENT_PARTY_SYSTEM,
                                .cpu_ns = grown(sums.cpu_ns, before.cpu_ns),
                                .cpu_uj = grown(sums.cpu_uj, before.cpu_uj),
                                .dram_uj = grown(sums.dram_uj, before.dram_uj)};
}

/** What each workload used and drew since the last round. @return parties; 0: no memory. */
static size_t make_parties(struct agent_process_watch *watch, const struct agent_ledger *ledger)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);

    if (n + 1 > watch->cap_parties) {
        size_t cap = n + n / 4 + 16;
        struct agent_party *parties = reallocarray(watch->parties, cap, sizeof(*parties));
        if (parties == NULL)
            return 0;
        watch->parties = parties;
        watch->cap_parties = cap;
    }
    for (size_t i = 0; i < n; i++) {
        struct agent_workload *workload = workloads[i];
        struct agent_looked *looked = &workload->looked;
        watch->parties[i] =
            (struct agent_party){.number = workload->number,
                                 .cpu_ns = grown(workload->cpu_ns, looked->cpu_ns),
                                 .cpu_uj = grown(workload->cpu_uj, looked->cpu_uj),
                                 .dram_uj = grown(workload->dram_uj, looked->dram_uj)};
        *looked = (struct agent_looked){workload->cpu_ns, workload->cpu_uj, workload->dram_uj};
    }
    watch->parties[n] = system_party(watch, ledger);
    return n + 1;
}

static void see_everything(struct agent_process_watch *watch, const struct agent_cgroups *cgroups)
{
    struct agent_process system = {.party = AGENT_PARTY_SYSTEM};

    for (int h = AGENT_HIERARCHY_V2; h <= AGENT_HIERARCHY_CPUACCT; h++) {
        watch->hierarchy = (enum agent_hierarchy)h;
        agent_cgroups_each(cgroups, look_into, watch);
    }
    for (int h = AGENT_HIERARCHY_V2; h <= AGENT_HIERARCHY_CPUACCT && !watch->part; h++) {
        watch->hierarchy = (enum agent_hierarchy)h;
        see_all(watch, "", &system);
    }
}

void agent_process_watch_show(struct agent_process_watch *watch,
                              const struct agent_cgroups *cgroups,
                              const struct agent_booking *booking, struct agent_ledger *ledger,
                              uint64_t boot_ns, struct agent_snapshot *snapshot)
{
    const struct agent_process *const *processes = NULL;
    uint64_t interval_ns = watch->boot_ns != 0 ? grown(boot_ns, watch->boot_ns) : 0;
    uint64_t drawn_uj[2] = {0};

    watch->mounts = agent_cgroups_mounts(cgroups);
    watch->booking = booking;
    agent_processes_begin(watch->processes, boot_ns);
    see_everything(watch, cgroups);
    size_t n = make_parties(watch, ledger);
    (void)agent_processes_share(watch->processes, watch->parties, n, interval_ns);
    watch->boot_ns = boot_ns;
    for (unsigned slot = 0; slot < AGENT_SLOTS_MAX; slot++) {
        const struct kw_energy *total = agent_ledger_total(ledger, slot);
        drawn_uj[slot % 2] += total->pods_uj + total->system_uj;
    }
    n = agent_processes_list(watch->processes, &processes);
    (void)agent_snapshot_fill_processes(snapshot, processes, n, watch->listed, drawn_uj);
}
