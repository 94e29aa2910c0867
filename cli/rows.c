/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/** Less than a joule of an ended workload is clutter: a busy machine ends hundreds in a minute. */
#define ENDED_LEAST_UJ UINT64_C(1000000)

const char *const cli_sort_names[] = {
    [CLI_SORT_WATTS] = "watts",   [CLI_SORT_CPU] = "cpu",   [CLI_SORT_MEMORY] = "memory",
    [CLI_SORT_JOULES] = "joules", [CLI_SORT_NAME] = "name", [CLI_SORT__MAX] = NULL,
};
_Static_assert(KW_ARRAY_SIZE(cli_sort_names) == CLI_SORT__MAX + 1, "a sort has no name");

bool cli_rows_comparable(const struct kw_node_view *view, const struct kw_node_view *before)
{
    return before != NULL && before->sample.epoch == view->sample.epoch &&
           before->sample.t_unix_ms < view->sample.t_unix_ms &&
           strcmp(before->sample.node, view->sample.node) == 0;
}

/** Counters do not fall within an epoch; a forged record that does counts as no change. */
static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/** Microjoules in milliseconds are milliwatts; nanoseconds of CPU in 1000 of them thousandths.
 * @return 0 without a window. */
static uint64_t per_ms(uint64_t amount, int64_t window_ms)
{
    return window_ms > 0 ? amount / (uint64_t)window_ms : 0;
}

struct cli_summary cli_summary_make(const struct kw_node_view *view,
                                    const struct kw_node_view *before)
{
    const struct kw_sample *sample = &view->sample;
    struct kw_energy total = kw_sample_total(sample), old = {0};
    bool estimated = (sample->quality & KW_QUALITY_BIT(KW_QUALITY_ESTIMATED)) != 0;
    int64_t since_ms = (int64_t)sample->epoch;

    if (cli_rows_comparable(view, before)) {
        old = kw_sample_total(&before->sample);
        since_ms = before->sample.t_unix_ms;
    }
    int64_t window_ms = sample->t_unix_ms - since_ms;
    return (struct cli_summary){
        .node = sample->node,
        .meter = sample->meter,
        .method = sample->method,
        .accounting = sample->accounting,
        .estimated = estimated,
        .measured_mw = per_ms(grown(total.measured_uj, old.measured_uj), window_ms),
        .idle_mw = per_ms(grown(total.idle_uj, old.idle_uj), window_ms),
        .pods_mw = per_ms(grown(total.pods_uj, old.pods_uj), window_ms),
        .system_mw = per_ms(grown(total.system_uj, old.system_uj), window_ms),
        .unattributed_mw = per_ms(grown(total.unattributed_uj, old.unattributed_uj), window_ms),
        .used_mcpu = sample->used_mcpu,
        .allocatable_mcpu = sample->allocatable_mcpu,
        .measured_uj = total.measured_uj,
    };
}

static int compare_records(const void *a, const void *b)
{
    const struct kw_pod_record *left = *(const struct kw_pod_record *const *)a;
    const struct kw_pod_record *right = *(const struct kw_pod_record *const *)b;

    return strcmp(left->id, right->id);
}

static int compare_advices(const void *a, const void *b)
{
    const struct kw_advice *left = *(const struct kw_advice *const *)a;
    const struct kw_advice *right = *(const struct kw_advice *const *)b;

    return strcmp(left->workload, right->workload);
}

static int compare_id_to_advice(const void *id, const void *element)
{
    return strcmp(id, (*(const struct kw_advice *const *)element)->workload);
}

/** Pointers to n structs of `size`, sorted. @return NULL for none and on ENOMEM (*ret_rc). */
static const void **sorted_index(const void *items, size_t n, size_t size,
                                 int (*compare)(const void *, const void *), int *ret_rc)
{
    const void **index;

    if (n == 0)
        return NULL;
    index = calloc(n, sizeof(void *));
    if (index == NULL) {
        *ret_rc = -ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        index[i] = (const char *)items + i * size;
    qsort(index, n, sizeof(void *), compare);
    return index;
}

static void add_advice(struct cli_row *row, const struct kw_advice *advice)
{
    row->has_advice = advice->n_containers > 0;
    for (size_t i = 0; i < advice->n_containers; i++) {
        if (__builtin_add_overflow(row->advice_mcpu, advice->containers[i].target_mcpu,
                                   &row->advice_mcpu) ||
            __builtin_add_overflow(row->advice_bytes, advice->containers[i].target_bytes,
                                   &row->advice_bytes))
            row->has_advice = false;
    }
}

/** A bare cgroup is known by its path: many are called "system" or "c0". */
static const char *name_of(const struct kw_pod_record *pod)
{
    if (pod->kind == KW_WORKLOAD_CGROUP && pod->id[0] == '/' && pod->id[1] != '\0')
        return pod->id + 1;
    return pod->name[0] != '\0' ? pod->name : pod->id;
}

static struct cli_row make_row(const struct kw_pod_record *pod, const struct kw_pod_record *old,
                               int64_t since_ms)
{
    int64_t window_ms = pod->t_unix_ms - (old != NULL ? old->t_unix_ms : since_ms);
    uint64_t cpu_ns = grown(pod->cpu_ns, old != NULL ? old->cpu_ns : 0);
    uint64_t active_uj = grown(pod->active_uj, old != NULL ? old->active_uj : 0);

    return (struct cli_row){
        .name = name_of(pod),
        .namespace_ = pod->namespace_,
        .image = pod->image,
        .kind = kw_workload_kind_names[pod->kind],
        .id = pod->id,
        .running = pod->ended_unix_ms == 0,
        .used_mcpu = per_ms(cpu_ns / 1000, window_ms),
        .active_mw = per_ms(active_uj, window_ms),
        .active_uj = pod->active_uj,
        .memory_bytes = pod->memory_bytes,
    };
}

/** A part of what no workload claims. */
struct part {
    const char *name;
    uint64_t uj, old_uj, cpu_ns, old_cpu_ns;
};

#define PARTS 5

/** One row for each part that ever drew or ran. @return their number. */
static size_t part_rows(const struct kw_node_view *view, const struct kw_node_view *before,
                        struct cli_row rows[PARTS])
{
    static const struct kw_system_sample nothing;
    bool comparable = cli_rows_comparable(view, before);
    const struct kw_system_sample *now = &view->sample.system;
    const struct kw_system_sample *old = comparable ? &before->sample.system : &nothing;
    const struct part parts[PARTS] = {
        {"(kernel threads)", now->kernel_uj, old->kernel_uj, now->kernel_cpu_ns,
         old->kernel_cpu_ns},
        {"(interrupts)", now->interrupts_uj, old->interrupts_uj, now->interrupts_cpu_ns,
         old->interrupts_cpu_ns},
        {now->has_kernel ? "(root cgroup)" : "(kernel and root cgroup)", now->root_uj, old->root_uj,
         now->root_cpu_ns, old->root_cpu_ns},
        {"(slices)", now->slices_uj, old->slices_uj, now->slices_cpu_ns, old->slices_cpu_ns},
        {"(other cgroups)", now->other_uj, old->other_uj, now->other_cpu_ns, old->other_cpu_ns},
    };
    int64_t since_ms = comparable ? before->sample.t_unix_ms : (int64_t)view->sample.epoch;
    int64_t window_ms = view->sample.t_unix_ms - since_ms;
    size_t n = 0;

    for (size_t i = 0; i < PARTS; i++) {
        if (parts[i].uj == 0 && parts[i].cpu_ns == 0)
            continue;
        rows[n++] = (struct cli_row){
            .name = parts[i].name,
            .namespace_ = "",
            .kind = "system",
            .id = "",
            .running = true,
            .used_mcpu = per_ms(grown(parts[i].cpu_ns, parts[i].old_cpu_ns) / 1000, window_ms),
            .active_mw = per_ms(grown(parts[i].uj, parts[i].old_uj), window_ms),
            .active_uj = parts[i].uj,
        };
    }
    return n;
}

/** All of it, of an agent that tells no parts. Its CPU time is what the others leave. */
static struct cli_row system_row(const struct kw_node_view *view, const struct kw_node_view *before,
                                 const struct cli_row *rows, size_t n)
{
    struct cli_summary summary = cli_summary_make(view, before);
    uint64_t others_mcpu = 0;

    for (size_t i = 0; i < n; i++)
        others_mcpu += rows[i].used_mcpu;
    return (struct cli_row){
        .name = "(kernel and root cgroup)",
        .namespace_ = "",
        .kind = "system",
        .id = "",
        .running = true,
        .used_mcpu = grown(summary.used_mcpu, others_mcpu),
        .active_mw = summary.system_mw,
        .active_uj = kw_sample_total(&view->sample).system_uj,
    };
}

int cli_rows_make(const struct kw_node_view *view, const struct kw_node_view *before,
                  const struct kw_advice *advices, size_t n_advices, struct cli_row **ret,
                  size_t *ret_n)
{
    int rc = 0;
    bool comparable = cli_rows_comparable(view, before);
    size_t n_before = comparable ? before->n_pods : 0;
    kw_cleanup_free const void **old =
        sorted_index(comparable ? before->pods : NULL, n_before, sizeof(struct kw_pod_record),
                     compare_records, &rc);
    kw_cleanup_free const void **advice_index =
        sorted_index(advices, n_advices, sizeof(struct kw_advice), compare_advices, &rc);
    struct cli_row *rows = calloc(view->n_pods + PARTS, sizeof(*rows)); /* and the system */
    size_t n = 0;

    if (rc < 0 || rows == NULL) {
        free(rows);
        return -ENOMEM;
    }
    for (size_t i = 0; i < view->n_pods; i++) {
        const struct kw_pod_record *pod = &view->pods[i];
        if (pod->ended_unix_ms != 0 && pod->active_uj < ENDED_LEAST_UJ)
            continue;
        const struct kw_pod_record *const *match =
            n_before > 0 ? bsearch(&pod, old, n_before, sizeof(void *), compare_records) : NULL;
        const struct kw_advice *const *advice =
            n_advices > 0
                ? bsearch(pod->id, advice_index, n_advices, sizeof(void *), compare_id_to_advice)
                : NULL;
        /* the same window for all, so that they add up; who came within it began at 0 */
        int64_t since_ms = comparable ? before->sample.t_unix_ms : (int64_t)view->sample.epoch;
        rows[n] = make_row(pod, match != NULL ? *match : NULL, since_ms);
        if (advice != NULL)
            add_advice(&rows[n], *advice);
        n++;
    }
    size_t n_parts = view->sample.system.present ? part_rows(view, before, rows + n) : 0;
    if (n_parts == 0) {
        rows[n] = system_row(view, before, rows, n);
        n_parts = 1;
    }
    *ret = rows;
    *ret_n = n + n_parts;
    return 0;
}

static int compare_names(const struct cli_row *left, const struct cli_row *right)
{
    int order = strcmp(left->namespace_, right->namespace_);

    if (order == 0)
        order = strcmp(left->name, right->name);
    return order != 0 ? order : strcmp(left->id, right->id);
}

static uint64_t sort_key(const struct cli_row *row, enum cli_sort sort)
{
    switch (sort) {
    case CLI_SORT_WATTS: return row->active_mw;
    case CLI_SORT_CPU: return row->used_mcpu;
    case CLI_SORT_MEMORY: return row->memory_bytes;
    case CLI_SORT_JOULES: return row->active_uj;
    case CLI_SORT_NAME:
    case CLI_SORT__MAX: break;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b, void *user)
{
    const struct cli_row *left = a, *right = b;
    enum cli_sort sort = *(const enum cli_sort *)user;
    uint64_t left_key = sort_key(left, sort), right_key = sort_key(right, sort);

    if (left_key != right_key)
        return left_key > right_key ? -1 : 1;
    /* in one interval many rates are 0: the energy so far keeps the order steady */
    if (sort == CLI_SORT_WATTS && left->active_uj != right->active_uj)
        return left->active_uj > right->active_uj ? -1 : 1;
    return compare_names(left, right);
}

void cli_rows_sort(struct cli_row *rows, size_t n, enum cli_sort sort)
{
    if (n > 1)
        qsort_r(rows, n, sizeof(*rows), compare_rows, &sort);
}
