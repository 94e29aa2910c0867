/* SPDX-License-Identifier: Apache-2.0 */
/* What kwatt explain --pod says of one workload, of all of them: some ten series for each. */
#include "common/cleanup.h"
#include "node-agent/metrics_labels.h"

/** A figure of a workload; families whose figure nobody has are left out. */
struct figure {
    const char *name, *help;
    enum kw_metric_type type;
    const char *label, *value; /**< NULL: no other label */
    unsigned decimals;
    bool goes_on; /**< is of the family of the one before */
    bool zeros;   /**< 0 is a figure, too, of what still runs */
    uint64_t (*get)(const struct agent_row *row);
};

static uint64_t sigma_mw(const struct agent_row *row)
{
    return row->sigma_mw;
}

static uint64_t sigma_uj(const struct agent_row *row)
{
    return row->sigma_uj;
}

static uint64_t intensity(const struct agent_row *row)
{
    return row->cpu_intensity.sigma_permille > 0 ? row->cpu_intensity.permille : 0;
}

static uint64_t dram_intensity(const struct agent_row *row)
{
    return row->dram_intensity.sigma_permille > 0 ? row->dram_intensity.permille : 0;
}

static uint64_t intensity_sigma(const struct agent_row *row)
{
    return row->cpu_intensity.sigma_permille;
}

static uint64_t dram_intensity_sigma(const struct agent_row *row)
{
    return row->dram_intensity.sigma_permille;
}

static uint64_t idle_equal_mw(const struct agent_row *row)
{
    return row->idle_equal_mw;
}

static uint64_t idle_requests_mw(const struct agent_row *row)
{
    return row->idle_requests_mw;
}

static uint64_t shared_ns(const struct agent_row *row)
{
    return row->counts.shared_ns;
}

static uint64_t cycles(const struct agent_row *row)
{
    return row->counts.cycles;
}

static uint64_t instructions(const struct agent_row *row)
{
    return row->counts.instructions;
}

static uint64_t llc_misses(const struct agent_row *row)
{
    return row->counts.llc_misses;
}

#define COUNTER KW_METRIC_COUNTER
#define GAUGE   KW_METRIC_GAUGE

static const struct figure figures[] = {
    {"kwatt_workload_sigma_watts", "Standard deviation of the workload's power, in watts.", GAUGE,
     NULL, NULL, 3, false, false, sigma_mw},
    {"kwatt_workload_sigma_joules", "Standard deviation of the workload's energy, in joules.",
     GAUGE, NULL, NULL, 6, false, false, sigma_uj},
    {"kwatt_workload_intensity",
     "What the workload is believed to draw of a zone, of what its work lets expect there.", GAUGE,
     "zone", "package", 3, false, false, intensity},
    {.goes_on = true, .label = "zone", .value = "dram", .decimals = 3, .get = dram_intensity},
    {"kwatt_workload_intensity_sigma", "Standard deviation of kwatt_workload_intensity.", GAUGE,
     "zone", "package", 3, false, false, intensity_sigma},
    {.goes_on = true, .label = "zone", .value = "dram", .decimals = 3, .get = dram_intensity_sigma},
    {"kwatt_workload_idle_watts",
     "Idle power of the node that each policy would give the workload, in watts; not part of what "
     "it draws.",
     GAUGE, "policy", "equal", 3, false, true, idle_equal_mw},
    {.goes_on = true,
     .label = "policy",
     .value = "requests",
     .decimals = 3,
     .zeros = true,
     .get = idle_requests_mw},
    {"kwatt_workload_cpu_shared_seconds_total",
     "CPU time of the workload with the SMT sibling busy, in seconds.", COUNTER, NULL, NULL, 9,
     false, false, shared_ns},
    {"kwatt_workload_cycles_total", "CPU cycles of the workload.", COUNTER, NULL, NULL, 0, false,
     false, cycles},
    {"kwatt_workload_instructions_total", "Instructions of the workload.", COUNTER, NULL, NULL, 0,
     false, false, instructions},
    {"kwatt_workload_cache_misses_total", "Last-level cache misses of the workload.", COUNTER, NULL,
     NULL, 0, false, false, llc_misses},
};

void agent_metrics_explain(struct kw_metrics_page *page, const struct agent_metrics_input *input)
{
    const struct figure *family = &figures[0];
    bool started = false;

    for (size_t f = 0; f < KW_ARRAY_SIZE(figures); f++) {
        const struct figure *figure = &figures[f];
        if (!figure->goes_on) {
            family = figure;
            started = false;
        }
        for (size_t i = 0; i < input->snapshot->n_rows; i++) {
            const struct agent_row *row = &input->snapshot->rows[i];
            struct agent_labels labels = {0};
            uint64_t value = figure->get(row);
            if (value == 0 && (!figure->zeros || row->ended_unix_ms != 0))
                continue;
            if (!started)
                kw_metrics_family(page, family->name, family->type, family->help);
            started = true;
            agent_labels_put_id(&labels, row);
            if (figure->label != NULL)
                agent_labels_put(&labels, figure->label, figure->value);
            kw_metrics_scaled(page, agent_labels_seal(&labels, input), value, figure->decimals);
        }
    }
}
