/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/replay_rows.h"

#include <errno.h>
#include <inttypes.h>

#include "common/clock.h"

/* A meter that is silent for a window tells it with the next: its energy then covers another time
 * than the CPUs' work. More than this part of it apart, they say nothing of each other. */
#define APART_PART 0.05

int agent_replay_rows_begin(struct agent_replay_rows *rows,
                            const struct agent_recording_header *header, struct kw_err *err)
{
    rows->has = header->has;
    rows->threads = header->n_online;
    return header->estimated
               ? kw_err_set(err, -EINVAL,
                            "its energy comes from a model (meter: %s), not from a meter: a model "
                            "of that could learn nothing but the other one",
                            header->meter)
               : 0;
}

static void clear(struct agent_replay_rows *rows)
{
    *rows = (struct agent_replay_rows){.out = rows->out,
                                       .n = rows->n,
                                       .left_out = rows->left_out,
                                       .has = rows->has,
                                       .dram = rows->dram,
                                       .threads = rows->threads};
}

/** Power of all packages. @param dram of their memory. @return W; < 0: not known of all of this
 * second. */
static double watts(const struct agent_replay_rows *rows, bool dram)
{
    double sum_w = -1;

    for (size_t p = 0; p < AGENT_PACKAGES_MAX; p++) {
        double ns = (double)rows->ns[p][dram], span_ns = (double)rows->span_ns;
        if (rows->ns[p][0] == 0)
            continue;
        if (ns < (1 - APART_PART) * span_ns || ns > (1 + APART_PART) * span_ns)
            return -1;
        sum_w = (sum_w < 0 ? 0 : sum_w) + (double)rows->uj[p][dram] * 1e3 / ns;
    }
    return sum_w;
}

static void print_counters(const struct agent_replay_rows *rows, double seconds)
{
    (void)fprintf(rows->out, ",%.0f,%.0f,%.0f", (double)rows->cycles / seconds,
                  (double)rows->instructions / seconds, (double)rows->llc_misses / seconds);
}

static void print(struct agent_replay_rows *rows)
{
    double seconds = (double)rows->span_ns * 1e-9;
    double package_w = watts(rows, false), dram_w = watts(rows, true);
    bool counted = (rows->has & AGENT_HAS_COUNTERS) != 0;

    if (rows->n == 0)
        rows->dram = dram_w >= 0;
    if (rows->broken || package_w < 0 || (rows->dram && dram_w < 0)) {
        rows->left_out++;
        return;
    }
    if (rows->n == 0)
        (void)fprintf(rows->out, "cpu_time%s,package_w%s%s\n",
                      counted ? ",cycles,instructions,cache_misses" : "",
                      rows->dram ? ",dram_w" : "", rows->threads > 0 ? ",machine_threads" : "");
    (void)fprintf(rows->out, "%.6f", (double)rows->cpu_ns * 1e-9 / seconds);
    if (counted)
        print_counters(rows, seconds);
    (void)fprintf(rows->out, ",%.6f", package_w);
    if (rows->dram)
        (void)fprintf(rows->out, ",%.6f", dram_w);
    if (rows->threads > 0)
        (void)fprintf(rows->out, ",%u", rows->threads);
    (void)fputc('\n', rows->out);
    rows->n++;
}

static void add_package(struct agent_replay_rows *rows, const struct agent_recorded_window *window,
                        const struct agent_recorded_package *package)
{
    for (size_t i = 0; i < package->n; i++) {
        const struct agent_features *features = &window->features[package->first + i];
        rows->cpu_ns += features->cpu_ns;
        rows->cycles += features->cycles;
        rows->instructions += features->instructions;
        rows->llc_misses += features->llc_misses;
    }
    for (size_t kind = 0; kind < 2; kind++) {
        if (!package->domains[kind].present)
            continue;
        rows->uj[package->package][kind] += package->domains[kind].uj;
        rows->ns[package->package][kind] += package->domains[kind].interval_ns;
    }
    rows->broken = rows->broken || !package->usage_known;
}

void agent_replay_rows_add(struct agent_replay_rows *rows,
                           const struct agent_recorded_window *window)
{
    if (window->lost > 0 && rows->span_ns > 0) { /* it is not one second any more */
        rows->left_out++;
        clear(rows);
    }
    for (size_t p = 0; p < window->n_packages; p++)
        add_package(rows, window, &window->packages[p]);
    rows->broken = rows->broken || (rows->has & ~window->has & AGENT_HAS_COUNTERS) != 0;
    rows->span_ns += window->interval_ns;
    if (rows->span_ns < KW_NS_PER_S)
        return;
    print(rows);
    clear(rows);
}

int agent_replay_rows_end(struct agent_replay_rows *rows, struct kw_err *err)
{
    if (fflush(rows->out) != 0 || ferror(rows->out) != 0)
        return kw_err_set(err, -EIO, "the rows cannot be written");
    if (rows->n == 0)
        return kw_err_set(err, -ENODATA,
                          "no second in which both the energy of the packages and the work of "
                          "their CPUs are known (%" PRIu64 " lack one of them)",
                          rows->left_out);
    return 0;
}
