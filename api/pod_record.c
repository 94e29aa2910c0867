/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/names.h"
#include "api/selector_json.h"

const char *const kw_workload_kind_names[] = {
    [KW_WORKLOAD_POD] = "pod", [KW_WORKLOAD_CONTAINER] = "container", [KW_WORKLOAD_UNIT] = "unit",
    [KW_WORKLOAD_VM] = "vm",   [KW_WORKLOAD_CGROUP] = "cgroup",
};
_Static_assert(sizeof(kw_workload_kind_names) / sizeof(kw_workload_kind_names[0]) ==
                   KW_WORKLOAD__MAX,
               "a workload kind has no name");

const char *const kw_qos_names[] = {
    [KW_QOS_NONE] = "",
    [KW_QOS_GUARANTEED] = "Guaranteed",
    [KW_QOS_BURSTABLE] = "Burstable",
    [KW_QOS_BEST_EFFORT] = "BestEffort",
};
_Static_assert(sizeof(kw_qos_names) / sizeof(kw_qos_names[0]) == KW_QOS__MAX,
               "a class has no name");

void kw_pod_record_clear(struct kw_pod_record *record)
{
    for (size_t i = 0; i < record->n_containers; i++) {
        free(record->containers[i].id);
        free(record->containers[i].name);
    }
    free(record->containers);
    free(record->id);
    free(record->name);
    free(record->namespace_);
    free(record->owner_kind);
    free(record->owner_name);
    kw_labels_clear(&record->labels);
    free(record->requests_unit);
    free(record->image);
    free(record->uuid);
    free(record->runtime);
    free(record->cgroup);
    *record = (struct kw_pod_record){0};
}

/** What is 0 where it is unknown is left out: most workloads have no requests, and records are
 * many.
 */
static void write_known(struct kw_out *out, const char *key, uint64_t value)
{
    if (value > 0)
        kw_out_u64(out, key, value);
}

static void write_containers(const struct kw_pod_record *record, struct kw_out *out)
{
    kw_out_begin(out, "containers", '[');
    for (size_t i = 0; i < record->n_containers; i++) {
        const struct kw_container_record *container = &record->containers[i];

        kw_out_begin(out, NULL, '{');
        kw_out_text(out, "id", container->id, KW_TEXT_MAX);
        kw_out_text(out, "name", container->name, KW_TEXT_MAX);
        kw_out_u64(out, "cpu_ns", container->cpu_ns);
        kw_out_u64(out, "active_uj", container->active_uj);
        kw_out_u64(out, "memory_bytes", container->memory_bytes);
        write_known(out, "requests_total", container->requests_total);
        write_known(out, "request_mcpu", container->request_mcpu);
        write_known(out, "request_bytes", container->request_bytes);
        write_known(out, "limit_mcpu", container->limit_mcpu);
        write_known(out, "limit_bytes", container->limit_bytes);
        kw_out_end(out, '}');
    }
    kw_out_end(out, ']');
}

static void write_known_text(struct kw_out *out, const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0')
        kw_out_text(out, key, value, KW_TEXT_MAX);
}

/** What only pods have: owner, class and labels; what is unknown is left out. */
static void write_owner(const struct kw_pod_record *record, struct kw_out *out)
{
    if (record->owner_kind != NULL && record->owner_kind[0] != '\0') {
        kw_out_text(out, "owner_kind", record->owner_kind, KW_TEXT_MAX);
        kw_out_text(out, "owner_name", record->owner_name, KW_TEXT_MAX);
    }
    if (record->qos > KW_QOS_NONE && record->qos < KW_QOS__MAX)
        kw_out_text(out, "qos", kw_qos_names[record->qos], KW_TEXT_MAX);
    if (record->labels.n == 0)
        return;
    kw_out_begin(out, "labels", '{');
    for (size_t i = 0; i < record->labels.n; i++)
        kw_out_text(out, record->labels.items[i].key, record->labels.items[i].value, KW_TEXT_MAX);
    kw_out_end(out, '}');
}

/** What else there is to say of its present power. */
static void write_causes(const struct kw_pod_record *record, struct kw_out *out)
{
    write_known(out, "dram_mw", record->dram_mw);
    write_known(out, "sigma_mw", record->sigma_mw);
    if (record->cpu_intensity.sigma_permille > 0) {
        kw_out_u64(out, "intensity_permille", record->cpu_intensity.permille);
        kw_out_u64(out, "intensity_sigma_permille", record->cpu_intensity.sigma_permille);
    }
    if (record->dram_intensity.sigma_permille > 0) {
        kw_out_u64(out, "dram_intensity_permille", record->dram_intensity.permille);
        kw_out_u64(out, "dram_intensity_sigma_permille", record->dram_intensity.sigma_permille);
    }
    write_known(out, "idle_equal_mw", record->idle_equal_mw);
    write_known(out, "idle_requests_mw", record->idle_requests_mw);
}

void kw_pod_record_write(const struct kw_pod_record *record, struct kw_out *out)
{
    if ((unsigned)record->kind >= KW_WORKLOAD__MAX || record->id == NULL || record->id[0] == '\0' ||
        record->n_containers > KW_CONTAINERS_MAX) {
        out->rc = out->rc != 0 ? out->rc : -EINVAL;
        return;
    }
    kw_out_begin(out, NULL, '{');
    kw_out_u64(out, "schema", KW_SCHEMA);
    kw_out_text(out, "kind", kw_workload_kind_names[record->kind], KW_TEXT_MAX);
    kw_out_text(out, "id", record->id, KW_TEXT_MAX);
    kw_out_text(out, "name", record->name, KW_TEXT_MAX);
    kw_out_text(out, "namespace", record->namespace_, KW_TEXT_MAX);
    write_owner(record, out);
    write_known_text(out, "image", record->image);
    write_known_text(out, "uuid", record->uuid);
    kw_out_text(out, "runtime", record->runtime, KW_TEXT_MAX);
    kw_out_text(out, "cgroup", record->cgroup, KW_TEXT_MAX);
    kw_out_u64(out, "epoch", record->epoch);
    kw_out_time_ms(out, "started_unix_ms", record->started_unix_ms);
    kw_out_time_ms(out, "ended_unix_ms", record->ended_unix_ms);
    kw_out_time_ms(out, "t_unix_ms", record->t_unix_ms);
    kw_out_u64(out, "cpu_ns", record->cpu_ns);
    write_known(out, "shared_ns", record->shared_ns);
    write_known(out, "cycles", record->cycles);
    write_known(out, "instructions", record->instructions);
    write_known(out, "llc_misses", record->llc_misses);
    kw_out_u64(out, "active_uj", record->active_uj);
    kw_out_u64(out, "dram_uj", record->dram_uj);
    write_known(out, "idle_uj", record->idle_uj);
    kw_out_u64(out, "sigma_uj", record->sigma_uj);
    kw_out_u64(out, "watts_mw", record->watts_mw);
    write_causes(record, out);
    kw_out_u64(out, "memory_bytes", record->memory_bytes);
    if (record->requests_unit != NULL && record->requests_unit[0] != '\0') {
        kw_out_u64(out, "requests_total", record->requests_total);
        kw_out_text(out, "requests_unit", record->requests_unit, KW_TEXT_MAX);
    }
    kw_out_bool(out, "estimated", record->estimated);
    write_containers(record, out);
    kw_out_end(out, '}');
}

static void kind_from_json(struct kw_reader *reader, const json_t *object,
                           enum kw_workload_kind *ret)
{
    const json_t *value = kw_get(reader, object, "kind", JSON_STRING, KW_REQUIRED);

    if (value == NULL)
        return;
    for (unsigned kind = 0; kind < KW_WORKLOAD__MAX; kind++) {
        if (strcmp(json_string_value(value), kw_workload_kind_names[kind]) == 0) {
            *ret = (enum kw_workload_kind)kind;
            return;
        }
    }
    kw_reader_fail(reader, -EBADMSG, "kind");
}

/** A class that is not known is as good as none: it comes from a newer agent. */
static void qos_from_json(struct kw_reader *reader, const json_t *object, enum kw_qos *ret)
{
    const json_t *value = kw_get(reader, object, "qos", JSON_STRING, KW_OPTIONAL);

    for (unsigned qos = 0; value != NULL && qos < KW_QOS__MAX; qos++) {
        if (strcmp(json_string_value(value), kw_qos_names[qos]) == 0)
            *ret = (enum kw_qos)qos;
    }
}

static int compare_containers(const void *a, const void *b)
{
    const struct kw_container_record *left = a, *right = b;

    return strcmp(left->id, right->id);
}

/** The struct promises order by id; a document may come in any order, but names no container twice.
 */
static void containers_from_json(struct kw_reader *reader, const json_t *object,
                                 struct kw_pod_record *ret)
{
    const json_t *array = kw_get(reader, object, "containers", JSON_ARRAY, KW_OPTIONAL);
    size_t n = json_array_size(array);

    if (n == 0)
        return;
    if (n > KW_CONTAINERS_MAX) {
        kw_reader_fail(reader, -EBADMSG, "containers");
        return;
    }
    ret->containers = calloc(n, sizeof(*ret->containers));
    if (ret->containers == NULL) {
        kw_reader_fail(reader, -ENOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(array, i);
        struct kw_container_record *container = &ret->containers[i];

        ret->n_containers++;
        if (!json_is_object(element))
            kw_reader_fail(reader, -EBADMSG, "containers");
        kw_get_copy(reader, element, "id", KW_REQUIRED, &container->id);
        kw_get_copy(reader, element, "name", KW_OPTIONAL, &container->name);
        kw_get_u64(reader, element, "cpu_ns", KW_REQUIRED, &container->cpu_ns);
        kw_get_u64(reader, element, "active_uj", KW_REQUIRED, &container->active_uj);
        kw_get_u64(reader, element, "memory_bytes", KW_OPTIONAL, &container->memory_bytes);
        kw_get_u64(reader, element, "requests_total", KW_OPTIONAL, &container->requests_total);
        kw_get_u64(reader, element, "request_mcpu", KW_OPTIONAL, &container->request_mcpu);
        kw_get_u64(reader, element, "request_bytes", KW_OPTIONAL, &container->request_bytes);
        kw_get_u64(reader, element, "limit_mcpu", KW_OPTIONAL, &container->limit_mcpu);
        kw_get_u64(reader, element, "limit_bytes", KW_OPTIONAL, &container->limit_bytes);
    }
    if (reader->rc != 0)
        return;
    qsort(ret->containers, n, sizeof(*ret->containers), compare_containers);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(ret->containers[i - 1].id, ret->containers[i].id) == 0)
            kw_reader_fail(reader, -EBADMSG, "containers");
    }
}

static void causes_from_json(struct kw_reader *reader, const json_t *object,
                             struct kw_pod_record *ret)
{
    kw_get_u64(reader, object, "shared_ns", KW_OPTIONAL, &ret->shared_ns);
    kw_get_u64(reader, object, "cycles", KW_OPTIONAL, &ret->cycles);
    kw_get_u64(reader, object, "instructions", KW_OPTIONAL, &ret->instructions);
    kw_get_u64(reader, object, "llc_misses", KW_OPTIONAL, &ret->llc_misses);
    kw_get_u64(reader, object, "dram_mw", KW_OPTIONAL, &ret->dram_mw);
    kw_get_u64(reader, object, "sigma_mw", KW_OPTIONAL, &ret->sigma_mw);
    kw_get_u64(reader, object, "intensity_permille", KW_OPTIONAL, &ret->cpu_intensity.permille);
    kw_get_u64(reader, object, "intensity_sigma_permille", KW_OPTIONAL,
               &ret->cpu_intensity.sigma_permille);
    kw_get_u64(reader, object, "dram_intensity_permille", KW_OPTIONAL,
               &ret->dram_intensity.permille);
    kw_get_u64(reader, object, "dram_intensity_sigma_permille", KW_OPTIONAL,
               &ret->dram_intensity.sigma_permille);
    kw_get_u64(reader, object, "idle_equal_mw", KW_OPTIONAL, &ret->idle_equal_mw);
    kw_get_u64(reader, object, "idle_requests_mw", KW_OPTIONAL, &ret->idle_requests_mw);
}

void kw_pod_record_from_json(struct kw_reader *reader, const json_t *object,
                             struct kw_pod_record *ret)
{
    *ret = (struct kw_pod_record){0};
    kw_get_schema(reader, object);
    kind_from_json(reader, object, &ret->kind);
    kw_get_copy(reader, object, "id", KW_REQUIRED, &ret->id);
    if (ret->id != NULL && ret->id[0] == '\0')
        kw_reader_fail(reader, -EBADMSG, "id");
    kw_get_copy(reader, object, "name", KW_OPTIONAL, &ret->name);
    kw_get_copy(reader, object, "namespace", KW_OPTIONAL, &ret->namespace_);
    kw_get_copy(reader, object, "owner_kind", KW_OPTIONAL, &ret->owner_kind);
    kw_get_copy(reader, object, "owner_name", KW_OPTIONAL, &ret->owner_name);
    qos_from_json(reader, object, &ret->qos);
    kw_labels_from_json(reader, kw_get(reader, object, "labels", JSON_OBJECT, KW_OPTIONAL),
                        &ret->labels);
    kw_get_copy(reader, object, "image", KW_OPTIONAL, &ret->image);
    kw_get_copy(reader, object, "uuid", KW_OPTIONAL, &ret->uuid);
    kw_get_copy(reader, object, "runtime", KW_OPTIONAL, &ret->runtime);
    kw_get_copy(reader, object, "cgroup", KW_OPTIONAL, &ret->cgroup);
    kw_get_u64(reader, object, "epoch", KW_REQUIRED, &ret->epoch);
    kw_get_time_ms(reader, object, "started_unix_ms", KW_OPTIONAL, &ret->started_unix_ms);
    kw_get_time_ms(reader, object, "ended_unix_ms", KW_OPTIONAL, &ret->ended_unix_ms);
    kw_get_time_ms(reader, object, "t_unix_ms", KW_REQUIRED, &ret->t_unix_ms);
    kw_get_u64(reader, object, "cpu_ns", KW_REQUIRED, &ret->cpu_ns);
    kw_get_u64(reader, object, "active_uj", KW_REQUIRED, &ret->active_uj);
    kw_get_u64(reader, object, "dram_uj", KW_OPTIONAL, &ret->dram_uj);
    causes_from_json(reader, object, ret);
    kw_get_u64(reader, object, "idle_uj", KW_OPTIONAL, &ret->idle_uj);
    kw_get_u64(reader, object, "sigma_uj", KW_OPTIONAL, &ret->sigma_uj);
    kw_get_u64(reader, object, "watts_mw", KW_OPTIONAL, &ret->watts_mw);
    kw_get_u64(reader, object, "memory_bytes", KW_OPTIONAL, &ret->memory_bytes);
    kw_get_u64(reader, object, "requests_total", KW_OPTIONAL, &ret->requests_total);
    kw_get_copy(reader, object, "requests_unit", KW_OPTIONAL, &ret->requests_unit);
    kw_get_bool(reader, object, "estimated", KW_OPTIONAL, &ret->estimated);
    containers_from_json(reader, object, ret);
    if (reader->rc != 0)
        kw_pod_record_clear(ret);
}

int kw_pod_record_encode(const struct kw_pod_record *record, char **ret, size_t *ret_len)
{
    struct kw_out out = {0};

    kw_pod_record_write(record, &out);
    return kw_out_take(&out, ret, ret_len);
}

int kw_pod_record_decode(const char *json, size_t len, struct kw_pod_record *ret,
                         const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_pod_record record;
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        kw_pod_record_from_json(&reader, root, &record);
    json_decref(root);
    if (reader.rc == 0)
        *ret = record;
    return kw_reader_end(&reader, ret_why);
}
