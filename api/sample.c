/* SPDX-License-Identifier: Apache-2.0 */
#include "api/sample.h"

#include <errno.h>

#include "api/codec.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static void add_energy(struct kw_energy *total, const struct kw_energy *part)
{
    total->measured_uj = add_saturating(total->measured_uj, part->measured_uj);
    total->idle_uj = add_saturating(total->idle_uj, part->idle_uj);
    total->pods_uj = add_saturating(total->pods_uj, part->pods_uj);
    total->system_uj = add_saturating(total->system_uj, part->system_uj);
    total->unattributed_uj = add_saturating(total->unattributed_uj, part->unattributed_uj);
}

uint64_t kw_sample_load_mcpu(const struct kw_sample *sample)
{
    return sample->has_work ? sample->work_mcpu : sample->used_mcpu;
}

struct kw_energy kw_sample_total(const struct kw_sample *sample)
{
    struct kw_energy total = {0};

    for (uint32_t i = 0; i < sample->n_packages && i < KW_PACKAGES_MAX; i++) {
        add_energy(&total, &sample->packages[i].cpu);
        if (sample->packages[i].has_dram)
            add_energy(&total, &sample->packages[i].dram);
    }
    return total;
}

int64_t kw_energy_error_uj(const struct kw_energy *energy)
{
    __int128 error = (__int128)energy->measured_uj - energy->idle_uj - energy->pods_uj -
                     energy->system_uj - energy->unattributed_uj;

    if (error > INT64_MAX)
        return INT64_MAX;
    if (error < INT64_MIN)
        return INT64_MIN;
    return (int64_t)error;
}

static json_t *energy_to_json(const struct kw_energy *energy, int *rc)
{
    json_t *object = json_object();

    kw_put_u64(rc, object, "measured_uj", energy->measured_uj);
    kw_put_u64(rc, object, "idle_uj", energy->idle_uj);
    kw_put_u64(rc, object, "pods_uj", energy->pods_uj);
    kw_put_u64(rc, object, "system_uj", energy->system_uj);
    kw_put_u64(rc, object, "unattributed_uj", energy->unattributed_uj);
    return object;
}

static void energy_from_json(struct kw_reader *reader, const json_t *object, struct kw_energy *ret)
{
    kw_get_u64(reader, object, "measured_uj", KW_REQUIRED, &ret->measured_uj);
    kw_get_u64(reader, object, "idle_uj", KW_REQUIRED, &ret->idle_uj);
    kw_get_u64(reader, object, "pods_uj", KW_REQUIRED, &ret->pods_uj);
    kw_get_u64(reader, object, "system_uj", KW_REQUIRED, &ret->system_uj);
    kw_get_u64(reader, object, "unattributed_uj", KW_OPTIONAL, &ret->unattributed_uj);
}

static json_t *packages_to_json(const struct kw_sample *sample, int *rc)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < sample->n_packages; i++) {
        const struct kw_package_sample *package = &sample->packages[i];
        json_t *object = json_object();

        kw_put_u64(rc, object, "package", package->package);
        kw_put(rc, object, "cpu", energy_to_json(&package->cpu, rc));
        if (package->has_dram)
            kw_put(rc, object, "dram", energy_to_json(&package->dram, rc));
        kw_put_element(rc, array, object);
    }
    return array;
}

static void packages_from_json(struct kw_reader *reader, const json_t *object,
                               struct kw_sample *ret)
{
    const json_t *array = kw_get(reader, object, "packages", JSON_ARRAY, KW_REQUIRED);
    size_t n = json_array_size(array);

    if (n > KW_PACKAGES_MAX) {
        kw_reader_fail(reader, -EBADMSG, "packages");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(array, i);
        struct kw_package_sample *package = &ret->packages[i];
        const json_t *energy;

        if (!json_is_object(element))
            kw_reader_fail(reader, -EBADMSG, "packages");
        kw_get_u32(reader, element, "package", KW_REQUIRED, &package->package);
        energy = kw_get(reader, element, "cpu", JSON_OBJECT, KW_REQUIRED);
        energy_from_json(reader, energy, &package->cpu);
        energy = kw_get(reader, element, "dram", JSON_OBJECT, KW_OPTIONAL);
        if (energy != NULL) {
            package->has_dram = true;
            energy_from_json(reader, energy, &package->dram);
        }
        for (size_t other = 0; other < i; other++) {
            if (ret->packages[other].package == package->package)
                kw_reader_fail(reader, -EBADMSG, "package");
        }
    }
    ret->n_packages = (uint32_t)n;
}

static json_t *platform_to_json(const struct kw_platform_sample *platform, int *rc)
{
    json_t *object = json_object();

    kw_put_u64(rc, object, "mw", platform->mw);
    kw_put_u64(rc, object, "age_ms", platform->age_ms);
    kw_put_text(rc, object, "source", platform->source, sizeof(platform->source) - 1);
    return object;
}

static json_t *system_to_json(const struct kw_system_sample *system, int *rc)
{
    json_t *object = json_object();

    if (system->has_kernel) {
        kw_put_u64(rc, object, "kernel_uj", system->kernel_uj);
        kw_put_u64(rc, object, "kernel_cpu_ns", system->kernel_cpu_ns);
    }
    if (system->has_interrupts) {
        kw_put_u64(rc, object, "interrupts_uj", system->interrupts_uj);
        kw_put_u64(rc, object, "interrupts_cpu_ns", system->interrupts_cpu_ns);
    }
    kw_put_u64(rc, object, "root_uj", system->root_uj);
    kw_put_u64(rc, object, "slices_uj", system->slices_uj);
    kw_put_u64(rc, object, "other_uj", system->other_uj);
    kw_put_u64(rc, object, "root_cpu_ns", system->root_cpu_ns);
    kw_put_u64(rc, object, "slices_cpu_ns", system->slices_cpu_ns);
    kw_put_u64(rc, object, "other_cpu_ns", system->other_cpu_ns);
    return object;
}

static void system_from_json(struct kw_reader *reader, const json_t *object,
                             struct kw_system_sample *ret)
{
    const json_t *system = kw_get(reader, object, "system", JSON_OBJECT, KW_OPTIONAL);

    if (system == NULL)
        return;
    ret->present = true;
    ret->has_kernel = kw_get(reader, system, "kernel_uj", JSON_INTEGER, KW_OPTIONAL) != NULL;
    kw_get_u64(reader, system, "kernel_uj", KW_OPTIONAL, &ret->kernel_uj);
    kw_get_u64(reader, system, "kernel_cpu_ns", KW_OPTIONAL, &ret->kernel_cpu_ns);
    ret->has_interrupts =
        kw_get(reader, system, "interrupts_uj", JSON_INTEGER, KW_OPTIONAL) != NULL;
    kw_get_u64(reader, system, "interrupts_uj", KW_OPTIONAL, &ret->interrupts_uj);
    kw_get_u64(reader, system, "interrupts_cpu_ns", KW_OPTIONAL, &ret->interrupts_cpu_ns);
    kw_get_u64(reader, system, "root_uj", KW_REQUIRED, &ret->root_uj);
    kw_get_u64(reader, system, "slices_uj", KW_REQUIRED, &ret->slices_uj);
    kw_get_u64(reader, system, "other_uj", KW_REQUIRED, &ret->other_uj);
    kw_get_u64(reader, system, "root_cpu_ns", KW_OPTIONAL, &ret->root_cpu_ns);
    kw_get_u64(reader, system, "slices_cpu_ns", KW_OPTIONAL, &ret->slices_cpu_ns);
    kw_get_u64(reader, system, "other_cpu_ns", KW_OPTIONAL, &ret->other_cpu_ns);
}

static json_t *totals_to_json(const struct kw_totals_sample *totals, int *rc)
{
    json_t *object = json_object();

    kw_put_u64(rc, object, "cpu_uj", totals->cpu_uj);
    if (totals->has_dram)
        kw_put_u64(rc, object, "dram_uj", totals->dram_uj);
    kw_put_u64(rc, object, "cpu_ns", totals->cpu_ns);
    if (totals->has_counters) {
        kw_put_u64(rc, object, "cycles", totals->cycles);
        kw_put_u64(rc, object, "instructions", totals->instructions);
        kw_put_u64(rc, object, "llc_misses", totals->llc_misses);
    }
    if (totals->apart)
        kw_put_bool(rc, object, "apart", true);
    return object;
}

static void totals_from_json(struct kw_reader *reader, const json_t *object,
                             struct kw_totals_sample *ret)
{
    const json_t *totals = kw_get(reader, object, "totals", JSON_OBJECT, KW_OPTIONAL);

    if (totals == NULL)
        return;
    ret->present = true;
    ret->has_dram = json_object_get(totals, "dram_uj") != NULL;
    ret->has_counters = json_object_get(totals, "cycles") != NULL;
    kw_get_u64(reader, totals, "cpu_uj", KW_REQUIRED, &ret->cpu_uj);
    kw_get_u64(reader, totals, "dram_uj", KW_OPTIONAL, &ret->dram_uj);
    kw_get_u64(reader, totals, "cpu_ns", KW_REQUIRED, &ret->cpu_ns);
    enum kw_need need = ret->has_counters ? KW_REQUIRED : KW_OPTIONAL;
    kw_get_u64(reader, totals, "cycles", need, &ret->cycles);
    kw_get_u64(reader, totals, "instructions", need, &ret->instructions);
    kw_get_u64(reader, totals, "llc_misses", need, &ret->llc_misses);
    kw_get_bool(reader, totals, "apart", KW_OPTIONAL, &ret->apart);
}

static void platform_from_json(struct kw_reader *reader, const json_t *object,
                               struct kw_platform_sample *ret)
{
    const json_t *platform = kw_get(reader, object, "platform", JSON_OBJECT, KW_OPTIONAL);

    if (platform == NULL)
        return;
    ret->present = true;
    kw_get_u64(reader, platform, "mw", KW_REQUIRED, &ret->mw);
    kw_get_u64(reader, platform, "age_ms", KW_OPTIONAL, &ret->age_ms);
    kw_get_text(reader, platform, "source", KW_OPTIONAL, ret->source, sizeof(ret->source));
}

json_t *kw_sample_to_json(const struct kw_sample *sample, int *rc)
{
    json_t *object = kw_put_document(rc);

    if (sample->n_packages > KW_PACKAGES_MAX) {
        *rc = *rc != 0 ? *rc : -EINVAL;
        return object;
    }
    kw_put_text(rc, object, "node", sample->node, sizeof(sample->node) - 1);
    kw_put_text(rc, object, "boot_id", sample->boot_id, sizeof(sample->boot_id) - 1);
    kw_put_u64(rc, object, "epoch", sample->epoch);
    kw_put_u64(rc, object, "seq", sample->seq);
    kw_put_time_ms(rc, object, "t_unix_ms", sample->t_unix_ms);
    kw_put_u64(rc, object, "interval_ns", sample->interval_ns);
    kw_put(rc, object, "packages", packages_to_json(sample, rc));
    if (sample->platform.present)
        kw_put(rc, object, "platform", platform_to_json(&sample->platform, rc));
    if (sample->system.present)
        kw_put(rc, object, "system", system_to_json(&sample->system, rc));
    if (sample->totals.present)
        kw_put(rc, object, "totals", totals_to_json(&sample->totals, rc));
    kw_put_u64(rc, object, "watts_mw", sample->watts_mw);
    kw_put_u64(rc, object, "used_mcpu", sample->used_mcpu);
    if (sample->has_work)
        kw_put_u64(rc, object, "work_mcpu", sample->work_mcpu);
    kw_put_u64(rc, object, "allocatable_mcpu", sample->allocatable_mcpu);
    kw_put_u64(rc, object, "idle_mw", sample->idle_mw);
    kw_put_u64(rc, object, "idle_sigma_mw", sample->idle_sigma_mw);
    kw_put(rc, object, "quality", kw_quality_to_json(sample->quality, rc));
    kw_put(rc, object, "quality_epoch", kw_quality_to_json(sample->quality_epoch, rc));
    kw_put_text(rc, object, "meter", sample->meter, sizeof(sample->meter) - 1);
    kw_put_text(rc, object, "method", sample->method, sizeof(sample->method) - 1);
    kw_put_text(rc, object, "idle_policy", sample->idle_policy, sizeof(sample->idle_policy) - 1);
    kw_put_u64(rc, object, "idle_unshared_uj", sample->idle_unshared_uj);
    kw_put_text(rc, object, "accounting", sample->accounting, sizeof(sample->accounting) - 1);
    kw_put_u64(rc, object, "self_cpu_ns", sample->self_cpu_ns);
    kw_put_u64(rc, object, "self_rss_bytes", sample->self_rss_bytes);
    kw_put_u64(rc, object, "self_uj", sample->self_uj);
    return object;
}

void kw_sample_from_json(struct kw_reader *reader, const json_t *object, struct kw_sample *ret)
{
    *ret = (struct kw_sample){0};
    kw_get_schema(reader, object);
    kw_get_text(reader, object, "node", KW_REQUIRED, ret->node, sizeof(ret->node));
    kw_get_text(reader, object, "boot_id", KW_OPTIONAL, ret->boot_id, sizeof(ret->boot_id));
    kw_get_u64(reader, object, "epoch", KW_REQUIRED, &ret->epoch);
    kw_get_u64(reader, object, "seq", KW_REQUIRED, &ret->seq);
    kw_get_time_ms(reader, object, "t_unix_ms", KW_REQUIRED, &ret->t_unix_ms);
    kw_get_u64(reader, object, "interval_ns", KW_REQUIRED, &ret->interval_ns);
    packages_from_json(reader, object, ret);
    platform_from_json(reader, object, &ret->platform);
    system_from_json(reader, object, &ret->system);
    totals_from_json(reader, object, &ret->totals);
    kw_get_u64(reader, object, "watts_mw", KW_REQUIRED, &ret->watts_mw);
    kw_get_u64(reader, object, "used_mcpu", KW_REQUIRED, &ret->used_mcpu);
    ret->has_work = json_object_get(object, "work_mcpu") != NULL;
    kw_get_u64(reader, object, "work_mcpu", KW_OPTIONAL, &ret->work_mcpu);
    kw_get_u64(reader, object, "allocatable_mcpu", KW_REQUIRED, &ret->allocatable_mcpu);
    kw_get_u64(reader, object, "idle_mw", KW_REQUIRED, &ret->idle_mw);
    kw_get_u64(reader, object, "idle_sigma_mw", KW_OPTIONAL, &ret->idle_sigma_mw);
    kw_quality_from_json(reader, kw_get(reader, object, "quality", JSON_ARRAY, KW_OPTIONAL),
                         &ret->quality);
    kw_quality_from_json(reader, kw_get(reader, object, "quality_epoch", JSON_ARRAY, KW_OPTIONAL),
                         &ret->quality_epoch);
    kw_get_text(reader, object, "meter", KW_REQUIRED, ret->meter, sizeof(ret->meter));
    kw_get_text(reader, object, "method", KW_OPTIONAL, ret->method, sizeof(ret->method));
    kw_get_text(reader, object, "idle_policy", KW_OPTIONAL, ret->idle_policy,
                sizeof(ret->idle_policy));
    kw_get_u64(reader, object, "idle_unshared_uj", KW_OPTIONAL, &ret->idle_unshared_uj);
    kw_get_text(reader, object, "accounting", KW_OPTIONAL, ret->accounting,
                sizeof(ret->accounting));
    kw_get_u64(reader, object, "self_cpu_ns", KW_OPTIONAL, &ret->self_cpu_ns);
    kw_get_u64(reader, object, "self_rss_bytes", KW_OPTIONAL, &ret->self_rss_bytes);
    kw_get_u64(reader, object, "self_uj", KW_OPTIONAL, &ret->self_uj);
}

int kw_sample_encode(const struct kw_sample *sample, char **ret, size_t *ret_len)
{
    int rc = 0;
    json_t *object = kw_sample_to_json(sample, &rc);

    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

int kw_sample_encode_digest(const struct kw_sample *sample, char **ret, size_t *ret_len)
{
    int rc = 0;
    json_t *object = kw_put_document(&rc);

    kw_put_text(&rc, object, "node", sample->node, sizeof(sample->node) - 1);
    kw_put_u64(&rc, object, "epoch", sample->epoch);
    kw_put_u64(&rc, object, "seq", sample->seq);
    kw_put_time_ms(&rc, object, "t_unix_ms", sample->t_unix_ms);
    kw_put_u64(&rc, object, "interval_ns", sample->interval_ns);
    kw_put(&rc, object, "packages", json_array());
    if (sample->platform.present)
        kw_put(&rc, object, "platform", platform_to_json(&sample->platform, &rc));
    if (sample->totals.present)
        kw_put(&rc, object, "totals", totals_to_json(&sample->totals, &rc));
    kw_put_u64(&rc, object, "watts_mw", sample->watts_mw);
    kw_put_u64(&rc, object, "used_mcpu", sample->used_mcpu);
    if (sample->has_work)
        kw_put_u64(&rc, object, "work_mcpu", sample->work_mcpu);
    kw_put_u64(&rc, object, "allocatable_mcpu", sample->allocatable_mcpu);
    kw_put_u64(&rc, object, "idle_mw", sample->idle_mw);
    kw_put(&rc, object, "quality", kw_quality_to_json(sample->quality, &rc));
    kw_put_text(&rc, object, "meter", sample->meter, sizeof(sample->meter) - 1);
    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

int kw_sample_decode(const char *json, size_t len, struct kw_sample *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_sample sample;
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        kw_sample_from_json(&reader, root, &sample);
    json_decref(root);
    if (reader.rc == 0)
        *ret = sample;
    return kw_reader_end(&reader, ret_why);
}
