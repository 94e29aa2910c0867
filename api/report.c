/* SPDX-License-Identifier: Apache-2.0 */
#include "api/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"

/** Digits that a double holds for sure: seconds and watts are printed to the nanosecond and
 * milliwatt. */
#define REAL_DIGITS 15

static json_t *totals_to_json(const struct kw_energy *total, int *rc)
{
    json_t *object = json_object();

    kw_put_u64(rc, object, "measured_uj", total->measured_uj);
    kw_put_u64(rc, object, "idle_uj", total->idle_uj);
    kw_put_u64(rc, object, "pods_uj", total->pods_uj);
    kw_put_u64(rc, object, "system_uj", total->system_uj);
    kw_put_u64(rc, object, "unattributed_uj", total->unattributed_uj);
    return object;
}

static json_t *system_to_json(const struct kw_system_sample *system, int *rc)
{
    json_t *object = json_object();

    if (system->has_kernel)
        kw_put_u64(rc, object, "kernel_uj", system->kernel_uj);
    if (system->has_interrupts)
        kw_put_u64(rc, object, "interrupts_uj", system->interrupts_uj);
    kw_put_u64(rc, object, "root_uj", system->root_uj);
    kw_put_u64(rc, object, "slices_uj", system->slices_uj);
    kw_put_u64(rc, object, "other_uj", system->other_uj);
    return object;
}

static json_t *containers_to_json(const struct kw_pod_record *pod, int *rc)
{
    json_t *array = json_array();

    for (size_t i = 0; i < pod->n_containers; i++) {
        const struct kw_container_record *container = &pod->containers[i];
        json_t *object = json_object();

        kw_put_text(rc, object, "id", container->id, KW_TEXT_MAX);
        kw_put_text(rc, object, "name", container->name, KW_TEXT_MAX);
        kw_put(rc, object, "cpu_s", json_real((double)container->cpu_ns / 1e9));
        kw_put_u64(rc, object, "active_uj", container->active_uj);
        kw_put_u64(rc, object, "memory_bytes", container->memory_bytes);
        kw_put_element(rc, array, object);
    }
    return array;
}

static const struct kw_advice *find_advice(const struct kw_report *report, const char *id)
{
    for (size_t i = 0; i < report->n_advices; i++) {
        if (strcmp(report->advices[i].workload, id) == 0)
            return &report->advices[i];
    }
    return NULL;
}

/** Mean over the observation, or the present EWMA where there is none. */
static double watts_of(const struct kw_report *report, const struct kw_pod_record *pod)
{
    if (report->duration_s > 0)
        return (double)pod->active_uj / 1e6 / report->duration_s;
    return (double)pod->watts_mw / 1e3;
}

/** What only pods have; what is unknown is left out. */
static void put_owner(const struct kw_pod_record *pod, json_t *object, int *rc)
{
    if (pod->owner_kind != NULL && pod->owner_kind[0] != '\0') {
        kw_put_text(rc, object, "owner_kind", pod->owner_kind, KW_TEXT_MAX);
        kw_put_text(rc, object, "owner_name", pod->owner_name, KW_TEXT_MAX);
    }
    if (pod->qos > KW_QOS_NONE && pod->qos < KW_QOS__MAX)
        kw_put_text(rc, object, "qos", kw_qos_names[pod->qos], KW_TEXT_MAX);
    if (pod->labels.n == 0)
        return;
    json_t *labels = json_object();
    for (size_t i = 0; i < pod->labels.n; i++)
        kw_put_text(rc, labels, pod->labels.items[i].key, pod->labels.items[i].value, KW_TEXT_MAX);
    kw_put(rc, object, "labels", labels);
}

static json_t *workload_to_json(const struct kw_report *report, const struct kw_pod_record *pod,
                                int *rc)
{
    json_t *object = json_object();
    const struct kw_advice *advice = find_advice(report, pod->id);

    kw_put_text(rc, object, "kind", kw_workload_kind_names[pod->kind], KW_TEXT_MAX);
    kw_put_text(rc, object, "id", pod->id, KW_TEXT_MAX);
    kw_put_text(rc, object, "name", pod->name, KW_TEXT_MAX);
    kw_put_text(rc, object, "namespace", pod->namespace_, KW_TEXT_MAX);
    put_owner(pod, object, rc);
    kw_put_text(rc, object, "cgroup", pod->cgroup, KW_TEXT_MAX);
    kw_put_bool(rc, object, "running", pod->ended_unix_ms == 0);
    kw_put(rc, object, "cpu_s", json_real((double)pod->cpu_ns / 1e9));
    kw_put_u64(rc, object, "active_uj", pod->active_uj);
    kw_put(rc, object, "watts", json_real(watts_of(report, pod)));
    kw_put_u64(rc, object, "memory_bytes", pod->memory_bytes);
    kw_put(rc, object, "containers", containers_to_json(pod, rc));
    kw_put(rc, object, "advice", advice != NULL ? kw_advice_to_json(advice, rc) : json_null());
    return object;
}

static int compare_pods(const void *a, const void *b)
{
    const struct kw_pod_record *left = *(const struct kw_pod_record *const *)a;
    const struct kw_pod_record *right = *(const struct kw_pod_record *const *)b;

    if (left->active_uj != right->active_uj)
        return left->active_uj > right->active_uj ? -1 : 1;
    return strcmp(left->id, right->id);
}

static json_t *workloads_to_json(const struct kw_report *report, int *rc)
{
    const struct kw_node_view *view = report->view;
    const struct kw_pod_record **sorted;
    json_t *array = json_array();

    if (view->n_pods == 0)
        return array;
    sorted = calloc(view->n_pods, sizeof(struct kw_pod_record *));
    if (sorted == NULL) {
        *rc = *rc != 0 ? *rc : -ENOMEM;
        return array;
    }
    for (size_t i = 0; i < view->n_pods; i++)
        sorted[i] = &view->pods[i];
    qsort(sorted, view->n_pods, sizeof(struct kw_pod_record *), compare_pods);
    for (size_t i = 0; i < view->n_pods; i++)
        kw_put_element(rc, array, workload_to_json(report, sorted[i], rc));
    free(sorted);
    return array;
}

int kw_report_encode(const struct kw_report *report, char **ret, size_t *ret_len)
{
    const struct kw_sample *sample = &report->view->sample;
    struct kw_energy total = kw_sample_total(sample);
    /* the energies are of the whole epoch, and so is what was wrong with them */
    uint32_t quality = sample->quality | sample->quality_epoch;
    bool estimated = (quality & KW_QUALITY_BIT(KW_QUALITY_ESTIMATED)) != 0;
    json_t *object = json_object();
    int rc = 0;

    kw_put_text(&rc, object, "version", report->version, KW_TEXT_MAX);
    if (report->duration_s > 0)
        kw_put(&rc, object, "duration_s", json_real(report->duration_s));
    kw_put_text(&rc, object, "node", sample->node, sizeof(sample->node) - 1);
    kw_put_text(&rc, object, "meter", sample->meter, sizeof(sample->meter) - 1);
    kw_put_bool(&rc, object, "estimated", estimated);
    kw_put_text(&rc, object, "method", sample->method, sizeof(sample->method) - 1);
    kw_put_text(&rc, object, "accounting", sample->accounting, sizeof(sample->accounting) - 1);
    kw_put(&rc, object, "quality", kw_quality_to_json(quality, &rc));
    kw_put(&rc, object, "totals", totals_to_json(&total, &rc));
    if (sample->system.present)
        kw_put(&rc, object, "system", system_to_json(&sample->system, &rc));
    kw_put_u64(&rc, object, "self_uj", sample->self_uj);
    kw_put(&rc, object, "conservation_error_uj", json_integer(kw_energy_error_uj(&total)));
    kw_put_u64(&rc, object, "departed_uj", report->view->departed_uj);
    kw_put(&rc, object, "workloads", workloads_to_json(report, &rc));

    char *text = NULL;
    size_t len = 0;
    rc = kw_put_end(rc, object, JSON_INDENT(2) | JSON_REAL_PRECISION(REAL_DIGITS), &text, &len);
    if (rc < 0)
        return rc;
    char *line = realloc(text, len + 2);
    if (line == NULL) {
        free(text);
        return -ENOMEM;
    }
    line[len] = '\n';
    line[len + 1] = '\0';
    *ret = line;
    *ret_len = len + 1;
    return 0;
}
