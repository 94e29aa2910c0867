/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window of a node with 110 pods is written ten times a second on the thread that samples: digits
 * are made here and not by printf, and what is 0 or already known is left out.
 */
#include <string.h>

#include "node-agent/recording.h"

const char *const agent_recording_feature_names[AGENT_RECORDING_FEATURES] = {
    "cpu_ns", "shared_ns", "cycles", "instructions", "llc_misses"};

uint64_t *agent_recording_feature(struct agent_features *features, size_t i)
{
    uint64_t *const places[AGENT_RECORDING_FEATURES] = {&features->cpu_ns, &features->shared_ns,
                                                        &features->cycles, &features->instructions,
                                                        &features->llc_misses};

    return places[i];
}

static void put_number(struct kw_buf *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    (void)kw_buf_add(out, digits + at, sizeof(digits) - at);
}

/** @param key with all that stands before the number: `,"uj":` */
static void put(struct kw_buf *out, const char *key, uint64_t value)
{
    (void)kw_buf_adds(out, key);
    put_number(out, value);
}

static void put_text(struct kw_buf *out, const char *key, const char *text)
{
    (void)kw_buf_adds(out, key);
    (void)kw_buf_add_json(out, text, strlen(text));
}

static void put_has(struct kw_buf *out, unsigned has)
{
    static const char *const names[] = {"\"smt\"", "\"frequency\"", "\"counters\""};
    const char *comma = "";

    (void)kw_buf_adds(out, ",\"has\":[");
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((has & 1u << i) == 0)
            continue;
        (void)kw_buf_adds(out, comma);
        (void)kw_buf_adds(out, names[i]);
        comma = ",";
    }
    (void)kw_buf_adds(out, "]");
}

static void put_topology(struct kw_buf *out, const struct agent_recording_header *header,
                         const struct agent_topology *topology)
{
    const char *comma = "";

    put(out, ",\"cpus_online\":", header->n_online);
    (void)kw_buf_adds(out, ",\"packages\":[");
    for (unsigned p = 0; p < AGENT_PACKAGES_MAX; p++) {
        if (header->package_cpus[p] == 0)
            continue;
        (void)kw_buf_adds(out, comma);
        put(out, "{\"package\":", p);
        if (topology != NULL && p < topology->n_packages)
            put(out, ",\"id\":", topology->package_ids[p]);
        put(out, ",\"cpus\":", header->package_cpus[p]);
        (void)kw_buf_adds(out, "}");
        comma = ",";
    }
    (void)kw_buf_adds(out, "]");
    if (topology == NULL)
        return;
    comma = "";
    (void)kw_buf_adds(out, ",\"smt\":[");
    for (unsigned cpu = 0; cpu < topology->n_cpus; cpu++) {
        if (topology->cpu_core[cpu] == 0)
            continue;
        (void)kw_buf_adds(out, comma);
        put(out, "[", cpu);
        put(out, ",", topology->cpu_package[cpu]);
        put(out, ",", topology->cpu_core[cpu] - 1);
        (void)kw_buf_adds(out, "]");
        comma = ",";
    }
    (void)kw_buf_adds(out, "]");
}

void agent_recording_put_header(struct kw_buf *out, const struct agent_recording_header *header,
                                const struct agent_topology *topology)
{
    put(out, "{\"kwatt_recording\":", AGENT_RECORDING_SCHEMA);
    put_text(out, ",\"version\":", header->version);
    put_text(out, ",\"node\":", header->node);
    put(out, ",\"t_unix_ms\":", header->t_unix_ms > 0 ? (uint64_t)header->t_unix_ms : 0);
    put_text(out, ",\"cpu_model\":", header->cpu_model);
    put_text(out, ",\"meter\":", header->meter);
    (void)kw_buf_adds(out, header->estimated ? ",\"estimated\":true" : ",\"estimated\":false");
    put_text(out, ",\"accounting\":", header->accounting);
    put_text(out, ",\"method\":", header->method);
    put_has(out, header->has);
    (void)kw_buf_adds(out, ",\"features\":[");
    for (size_t i = 0; i < AGENT_RECORDING_FEATURES; i++)
        put_text(out, i > 0 ? "," : "", agent_recording_feature_names[i]);
    (void)kw_buf_adds(out, "]");
    put_topology(out, header, topology);
    (void)kw_buf_adds(out, "}\n");
}

void agent_recording_put_begin(struct kw_buf *out, const struct agent_recorded_window *window,
                               bool has_is_new)
{
    put(out, "{\"t_ns\":", window->t_ns);
    put(out, ",\"interval_ns\":", window->interval_ns);
    if (window->lost > 0)
        put(out, ",\"lost\":", window->lost);
    if (has_is_new)
        put_has(out, window->has);
    if (window->n_ended > 0) {
        (void)kw_buf_adds(out, ",\"ended\":");
        for (size_t i = 0; i < window->n_ended; i++)
            put(out, i > 0 ? "," : "[", window->ended[i]);
        (void)kw_buf_adds(out, "]");
    }
    (void)kw_buf_adds(out, ",\"packages\":[");
}

static void put_domain(struct kw_buf *out, const char *key,
                       const struct agent_recorded_domain *domain)
{
    if (!domain->present)
        return;
    (void)kw_buf_adds(out, key);
    put(out, "{\"uj\":", domain->uj);
    put(out, ",\"interval_ns\":", domain->interval_ns);
    put(out, ",\"idle_prior_mw\":", domain->idle_prior_mw);
    if (domain->has_truth)
        put(out, ",\"truth_idle_uj\":", domain->truth_idle_uj);
    (void)kw_buf_adds(out, "}");
}

void agent_recording_put_package(struct kw_buf *out, const struct agent_recorded_package *package,
                                 bool first)
{
    put(out, first ? "{\"package\":" : ",{\"package\":", package->package);
    if (package->mhz > 0)
        put(out, ",\"mhz\":", package->mhz);
    put_domain(out, ",\"cpu\":", &package->domains[AGENT_DOMAIN_CPU]);
    put_domain(out, ",\"dram\":", &package->domains[AGENT_DOMAIN_DRAM]);
    if (package->usage_known)
        (void)kw_buf_adds(out, ",\"workloads\":[");
}

void agent_recording_put_package_end(struct kw_buf *out,
                                     const struct agent_recorded_package *package)
{
    (void)kw_buf_adds(out, package->usage_known ? "]}" : "}");
}

void agent_recording_put_row(struct kw_buf *out, const struct agent_features *features,
                             const struct agent_recorded_truth *truth,
                             const struct agent_recording_new *news, bool first)
{
    const uint64_t values[AGENT_RECORDING_FEATURES] = {features->cpu_ns, features->shared_ns,
                                                       features->cycles, features->instructions,
                                                       features->llc_misses};
    uint64_t all = 0;

    put(out, first ? "{\"w\":" : ",{\"w\":", features->workload);
    if (news->is_new && news->id != NULL) {
        put_text(out, ",\"kind\":", kw_workload_kind_names[news->kind]);
        put_text(out, ",\"id\":", news->id);
        if (news->name != NULL && news->name[0] != '\0')
            put_text(out, ",\"name\":", news->name);
    }
    if (news->kin_is_new)
        (void)kw_buf_addf(out, ",\"kin\":\"%016llx\"", (unsigned long long)features->kin);
    for (size_t i = 0; i < AGENT_RECORDING_FEATURES; i++)
        all |= values[i];
    if (all != 0) {
        for (size_t i = 0; i < AGENT_RECORDING_FEATURES; i++)
            put(out, i > 0 ? "," : ",\"f\":[", values[i]);
        (void)kw_buf_adds(out, "]");
    }
    if (truth != NULL && truth->present) {
        put(out, ",\"truth_uj\":[", truth->uj[0]);
        put(out, ",", truth->uj[1]);
        (void)kw_buf_adds(out, "]");
    }
    (void)kw_buf_adds(out, "}");
}

void agent_recording_put_end(struct kw_buf *out)
{
    (void)kw_buf_adds(out, "]}\n");
}
