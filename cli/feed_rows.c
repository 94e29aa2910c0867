/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/feed_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/power_model.h"
#include "api/quality.h"

#define ROW_NS          UINT64_C(900000000) /* intervals of a second are a little shorter at times */
#define INTERVAL_MAX_NS UINT64_C(3600000000000) /* an agent's longest is shorter */
#define COUNT_MAX       1e15                    /* a second: no machine counts so fast */

/* What a row is not made of: energy that is missing, guessed or of another time than the work. A
 * counter that wrapped was carried on, and readings that were summed up are a meter, too. */
#define UNFIT                                                                     \
    (KW_QUALITY_BIT(KW_QUALITY_RESET) | KW_QUALITY_BIT(KW_QUALITY_GAP) |          \
     KW_QUALITY_BIT(KW_QUALITY_ESTIMATED) | KW_QUALITY_BIT(KW_QUALITY_STALE) |    \
     KW_QUALITY_BIT(KW_QUALITY_FROZEN) | KW_QUALITY_BIT(KW_QUALITY_IMPLAUSIBLE) | \
     KW_QUALITY_BIT(KW_QUALITY_INCOMPLETE) | KW_QUALITY_BIT(KW_QUALITY_DOUBTFUL))

static double rate(uint64_t before, uint64_t now, double seconds)
{
    return (double)(now - before) / seconds;
}

/** Whether nothing fell that never falls within an epoch: who forges records is not listened to. */
static bool has_grown(const struct kw_totals_sample *before, const struct kw_totals_sample *now)
{
    return now->cpu_uj >= before->cpu_uj && now->dram_uj >= before->dram_uj &&
           now->cpu_ns >= before->cpu_ns && now->cycles >= before->cycles &&
           now->instructions >= before->instructions && now->llc_misses >= before->llc_misses;
}

static struct cli_feed_row difference(const struct cli_feed_rows *rows,
                                      const struct kw_totals_sample *now)
{
    const struct kw_totals_sample *before = &rows->first;
    double seconds = (double)rows->span_ns * 1e-9;

    return (struct cli_feed_row){
        .cpu_time = rate(before->cpu_ns, now->cpu_ns, seconds) * 1e-9,
        .cycles = rate(before->cycles, now->cycles, seconds),
        .instructions = rate(before->instructions, now->instructions, seconds),
        .cache_misses = rate(before->llc_misses, now->llc_misses, seconds),
        .package_w = rate(before->cpu_uj, now->cpu_uj, seconds) * 1e-6,
        .dram_w = rate(before->dram_uj, now->dram_uj, seconds) * 1e-6,
    };
}

static bool is_plausible(const struct cli_feed_row *row)
{
    return row->package_w <= KW_MODEL_MAX_W && row->dram_w <= KW_MODEL_MAX_W &&
           row->cpu_time <= COUNT_MAX && row->cycles <= COUNT_MAX &&
           row->instructions <= COUNT_MAX && row->cache_misses <= COUNT_MAX;
}

static int append(struct cli_feed_rows *rows, const struct cli_feed_row *row)
{
    if (rows->n == rows->cap) {
        size_t cap = rows->cap == 0 ? 256 : 2 * rows->cap;
        struct cli_feed_row *grown = reallocarray(rows->rows, cap, sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        rows->rows = grown;
        rows->cap = cap;
    }
    rows->rows[rows->n++] = *row;
    return 0;
}

/** The next row begins where a sample ends. */
static void begin(struct cli_feed_rows *rows, const struct kw_sample *sample)
{
    rows->first = sample->totals;
    rows->span_ns = 0;
    rows->begun = true;
}

/** Whether a row has all that the first one has; that decides. */
static bool is_whole(struct cli_feed_rows *rows, const struct kw_totals_sample *now)
{
    bool counters = rows->first.has_counters && now->has_counters;
    bool dram = rows->first.has_dram && now->has_dram;

    if (rows->n == 0) {
        rows->has_counters = counters;
        rows->has_dram = dram;
    }
    return counters >= rows->has_counters && dram >= rows->has_dram;
}

/** What a sample adds to the row that is being made. @return 0 or -ENOMEM. */
static int extend(struct cli_feed_rows *rows, const struct kw_sample *sample)
{
    int rc = 0;

    rows->span_ns += sample->interval_ns;
    if (rows->span_ns < ROW_NS)
        return 0;
    struct cli_feed_row row = difference(rows, &sample->totals);
    if (has_grown(&rows->first, &sample->totals) && is_plausible(&row) &&
        is_whole(rows, &sample->totals))
        rc = append(rows, &row);
    else
        rows->n_left_out++;
    begin(rows, sample);
    return rc;
}

int cli_feed_rows_add(struct cli_feed_rows *rows, const struct kw_sample *sample)
{
    bool same = rows->n_samples > 0 && sample->epoch == rows->epoch;
    bool next = same && sample->seq == rows->seq + 1;
    bool estimated = (sample->quality & KW_QUALITY_BIT(KW_QUALITY_ESTIMATED)) != 0;
    bool unfit = (sample->quality & UNFIT) != 0 || sample->totals.apart ||
                 sample->interval_ns == 0 || sample->interval_ns > INTERVAL_MAX_NS;

    if (same && sample->seq <= rows->seq)
        return 0; /* a repetition */
    rows->n_samples++;
    rows->epoch = sample->epoch;
    rows->seq = sample->seq;
    if (estimated || !sample->totals.present || unfit) {
        rows->n_estimated += estimated;
        rows->n_without += !estimated && !sample->totals.present;
        rows->n_left_out += !estimated && sample->totals.present;
        rows->begun = false; /* what was missed may come with the next sample */
        return 0;
    }
    if (!rows->begun || !next) {
        rows->n_left_out += same && !next;
        begin(rows, sample);
        return 0;
    }
    return extend(rows, sample);
}

int cli_feed_rows_print(const struct cli_feed_rows *rows, bool counters, bool dram,
                        struct kw_buf *out)
{
    int rc =
        kw_buf_addf(out, "cpu_time%s,package_w%s\n",
                    counters ? ",cycles,instructions,cache_misses" : "", dram ? ",dram_w" : "");

    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        const struct cli_feed_row *row = &rows->rows[i];
        rc = kw_buf_addf(out, "%.6f", row->cpu_time);
        if (rc == 0 && counters)
            rc = kw_buf_addf(out, ",%.0f,%.0f,%.0f", row->cycles, row->instructions,
                             row->cache_misses);
        if (rc == 0)
            rc = kw_buf_addf(out, ",%.6f", row->package_w);
        if (rc == 0 && dram)
            rc = kw_buf_addf(out, ",%.6f", row->dram_w);
        if (rc == 0)
            rc = kw_buf_adds(out, "\n");
    }
    return rc;
}

void cli_feed_rows_free(struct cli_feed_rows *rows)
{
    free(rows->rows);
    memset(rows, 0, sizeof(*rows));
}
