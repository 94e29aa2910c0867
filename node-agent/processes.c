/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two tables, of this round and of the last, each an array sorted by number: a process that is
 * found in the old one with the same start takes its sums along. What stays behind in the old one
 * has ended. A process that moved to another workload keeps what it drew in the first.
 *
 * Time is what the kernel counts in ticks, so that a process may seem to have used a little more or
 * less than it did. Where processes seem to have used more than their workload the energy goes to
 * them alone; where less, the rest is of those that were not seen. Shares are apportioned by
 * largest remainder: nothing is lost or made.
 */
#include "node-agent/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/attribution.h"

struct table {
    size_t n, cap;
    struct agent_process *items;
};

struct agent_processes {
    uint64_t tick_ns;
    uint64_t boot_ns, last_boot_ns; /* begin of this round and of the last */
    struct table now, old;
    size_t cap; /* of what follows; the last three have one place more, and are one piece */
    const struct agent_process **order;
    uint64_t *weights, *given, *scratch;
};

int agent_process_text_new(const char *comm, const char *exe, struct agent_process_text **ret)
{
    struct agent_process_text *text = calloc(1, sizeof(*text));

    if (text == NULL)
        return -ENOMEM;
    text->refs = 1;
    text->comm = agent_label_text(comm);
    text->exe = agent_label_text(exe);
    if (text->comm == NULL || text->exe == NULL) {
        agent_process_text_unref(&text);
        return -ENOMEM;
    }
    *ret = text;
    return 0;
}

struct agent_process_text *agent_process_text_ref(struct agent_process_text *text)
{
    if (text != NULL)
        text->refs++;
    return text;
}

void agent_process_text_unref(struct agent_process_text **text)
{
    struct agent_process_text *owned = KW_TAKE_PTR(*text);

    if (owned == NULL || --owned->refs > 0)
        return;
    free(owned->comm);
    free(owned->exe);
    free(owned);
}

int agent_processes_new(uint64_t tick_ns, struct agent_processes **ret)
{
    struct agent_processes *processes = calloc(1, sizeof(*processes));

    if (processes == NULL)
        return -ENOMEM;
    processes->tick_ns = tick_ns;
    *ret = processes;
    return 0;
}

static void drop(struct agent_process *process)
{
    agent_label_unref(&process->owner);
    agent_label_unref(&process->container);
    agent_names_unref(&process->names);
    agent_process_text_unref(&process->text);
}

static void clear(struct table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        if (!table->items[i].taken)
            drop(&table->items[i]);
    }
    table->n = 0;
}

void agent_processes_free(struct agent_processes **processes)
{
    struct agent_processes *owned = KW_TAKE_PTR(*processes);

    if (owned == NULL)
        return;
    clear(&owned->now);
    clear(&owned->old);
    free(owned->now.items);
    free(owned->old.items);
    free(owned->order);
    free(owned->weights);
    free(owned);
}

void agent_processes_begin(struct agent_processes *processes, uint64_t boot_ns)
{
    struct table old = processes->old;

    clear(&old); /* what ended in the last round */
    processes->old = processes->now;
    processes->now = old;
    processes->last_boot_ns = processes->boot_ns;
    processes->boot_ns = boot_ns;
}

static int compare_pids(const void *a, const void *b)
{
    const struct agent_process *left = a, *right = b;

    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    return (left->order > right->order) - (left->order < right->order);
}

static struct agent_process *find_old(const struct agent_processes *processes, pid_t pid)
{
    size_t low = 0, high = processes->old.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct agent_process *process = &processes->old.items[middle];
        if (process->pid == pid)
            return process;
        if (process->pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static int grow(struct table *table)
{
    if (table->n < table->cap)
        return 0;
    if (table->cap >= AGENT_PROCESSES_MAX)
        return -ENOSPC;
    size_t cap = table->cap == 0 ? 64 : 2 * table->cap;
    struct agent_process *items = reallocarray(table->items, cap, sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    table->items = items;
    table->cap = cap;
    return 0;
}

/** CPU time since the last round. */
static uint64_t used_ns(const struct agent_processes *processes, const struct agent_process *old,
                        const struct agent_proc_stat *stat)
{
    uint64_t before_ticks = old != NULL ? old->stat.used_ticks : 0;

    /* one that was there before, and not seen: what it used then is not of this round */
    if (old == NULL && (processes->last_boot_ns == 0 ||
                        stat->start_ticks < processes->last_boot_ns / processes->tick_ns))
        return 0;
    return stat->used_ticks > before_ticks ? (stat->used_ticks - before_ticks) * processes->tick_ns
                                           : 0;
}

int agent_processes_see(struct agent_processes *processes, const struct agent_process *seen,
                        struct agent_process **ret)
{
    struct agent_process *old = find_old(processes, seen->pid);
    int rc = grow(&processes->now);

    if (rc < 0)
        return rc;
    if (old != NULL && old->stat.start_ticks != seen->stat.start_ticks)
        old = NULL; /* its number is used again */
    if (old != NULL && old->taken)
        return -EEXIST;
    struct agent_process *process = &processes->now.items[processes->now.n];
    *process = (struct agent_process){.pid = seen->pid};
    if (old != NULL) {
        *process = *old;
        old->taken = true;
        agent_label_unref(&process->owner);
        agent_label_unref(&process->container);
        agent_names_unref(&process->names);
        if (strcmp(old->stat.comm, seen->stat.comm) != 0)
            agent_process_text_unref(&process->text);
    }
    process->round_ns = used_ns(processes, old, &seen->stat);
    process->cpu_ns += process->round_ns;
    process->party = seen->party;
    process->stat = seen->stat;
    process->owner = seen->owner != NULL ? agent_label_ref(seen->owner) : NULL;
    process->container = seen->container != NULL ? agent_label_ref(seen->container) : NULL;
    process->names = agent_names_ref(seen->names);
    process->order = processes->now.n++;
    *ret = process;
    return 0;
}

/** One place for each number: the first that was seen. */
static void unite(struct table *table)
{
    size_t kept = 0;

    qsort(table->items, table->n, sizeof(*table->items), compare_pids);
    for (size_t i = 0; i < table->n; i++) {
        if (kept > 0 && table->items[kept - 1].pid == table->items[i].pid)
            drop(&table->items[i]);
        else
            table->items[kept++] = table->items[i];
    }
    table->n = kept;
}

static int reserve(struct agent_processes *processes)
{
    size_t cap = processes->now.cap;

    if (cap <= processes->cap)
        return 0;
    uint64_t *weights = calloc(3 * (cap + 1), sizeof(*weights));
    const struct agent_process **order = calloc(cap, sizeof(const struct agent_process *));
    if (weights == NULL || order == NULL) {
        free(weights);
        free(order);
        return -ENOMEM;
    }
    free(processes->weights);
    free(processes->order);
    processes->weights = weights;
    processes->given = weights + cap + 1;
    processes->scratch = processes->given + cap + 1;
    processes->order = order;
    processes->cap = cap;
    return 0;
}

static int compare_parties(const void *a, const void *b)
{
    const struct agent_process *left = *(const struct agent_process *const *)a;
    const struct agent_process *right = *(const struct agent_process *const *)b;

    return (left->party > right->party) - (left->party < right->party);
}

static int compare_numbers(const void *a, const void *b)
{
    const struct agent_party *left = a, *right = b;

    return (left->number > right->number) - (left->number < right->number);
}

/** Divides an energy of one workload among `n` of its processes; `weights` has one place more. */
static void divide(struct agent_processes *processes, size_t n, uint64_t uj)
{
    memset(processes->given, 0, (n + 1) * sizeof(*processes->given));
    if (uj > 0)
        (void)agent_apportion(uj, processes->weights, n + 1, processes->given, processes->scratch);
}

/** Mean power. */
static uint64_t mw_of(uint64_t uj, uint64_t interval_ns)
{
    return interval_ns == 0 ? 0 : (uint64_t)((unsigned __int128)uj * 1000000 / interval_ns);
}

static void share_party(struct agent_processes *processes, const struct agent_party *party,
                        const struct agent_process **of, size_t n, uint64_t interval_ns)
{
    struct table *now = &processes->now;
    uint64_t seen_ns = 0;

    for (size_t i = 0; i < n; i++) {
        processes->weights[i] = of[i]->round_ns;
        seen_ns += of[i]->round_ns;
    }
    processes->weights[n] = party->cpu_ns > seen_ns ? party->cpu_ns - seen_ns : 0;
    divide(processes, n, party->cpu_uj);
    for (size_t i = 0; i < n; i++) {
        struct agent_process *process = &now->items[of[i] - now->items];
        process->cpu_uj += processes->given[i];
        process->cpu_mw = mw_of(processes->given[i], interval_ns);
    }
    divide(processes, n, party->dram_uj);
    for (size_t i = 0; i < n; i++) {
        struct agent_process *process = &now->items[of[i] - now->items];
        process->dram_uj += processes->given[i];
        process->dram_mw = mw_of(processes->given[i], interval_ns);
    }
}

int agent_processes_share(struct agent_processes *processes, struct agent_party *parties, size_t n,
                          uint64_t interval_ns)
{
    struct table *now = &processes->now;
    int rc = reserve(processes);

    unite(now);
    for (size_t i = 0; i < now->n; i++)
        now->items[i].cpu_mw = now->items[i].dram_mw = 0;
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < now->n; i++)
        processes->order[i] = &now->items[i];
    if (now->n > 0)
        qsort(processes->order, now->n, sizeof(const struct agent_process *), compare_parties);
    if (n > 0)
        qsort(parties, n, sizeof(*parties), compare_numbers);
    for (size_t i = 0, at = 0; i < n; i++) {
        while (at < now->n && processes->order[at]->party < parties[i].number)
            at++;
        size_t end = at;
        while (end < now->n && processes->order[end]->party == parties[i].number)
            end++;
        share_party(processes, &parties[i], processes->order + at, end - at, interval_ns);
        at = end;
    }
    return 0;
}

static int compare_powers(const void *a, const void *b)
{
    const struct agent_process *left = *(const struct agent_process *const *)a;
    const struct agent_process *right = *(const struct agent_process *const *)b;
    uint64_t left_mw = left->cpu_mw + left->dram_mw, right_mw = right->cpu_mw + right->dram_mw;
    uint64_t left_uj = left->cpu_uj + left->dram_uj, right_uj = right->cpu_uj + right->dram_uj;

    if (left_mw != right_mw)
        return left_mw > right_mw ? -1 : 1;
    if (left_uj != right_uj)
        return left_uj > right_uj ? -1 : 1;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

size_t agent_processes_list(struct agent_processes *processes,
                            const struct agent_process *const **ret)
{
    size_t n = processes->now.n <= processes->cap ? processes->now.n : 0;

    for (size_t i = 0; i < n; i++)
        processes->order[i] = &processes->now.items[i];
    if (n > 0)
        qsort(processes->order, n, sizeof(const struct agent_process *), compare_powers);
    *ret = processes->order;
    return n;
}
