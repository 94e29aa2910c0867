/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock recommender's daily peaks. Three of its traits are kept on purpose: a peak carries the
 * time of its window's end, which lies ahead; the window of an instance starts with its first
 * sample, not at midnight; and a running peak is replaced in the histogram by taking the old value
 * out again. Two are not: a window that began with a use of 0 never took another peak there, so 0
 * is no measurement here; and an out-of-memory kill is too old when it lies a day before the newest
 * sample, not before the window's end, which dropped fresh kills (kubernetes/autoscaler 8548,
 * mended upstream after 1.7.1).
 */
#include "vpa-recommender/memory_peaks.h"

/** Each peak counts the same, whatever the length of its window's observation. */
#define PEAK_WEIGHT 1.0

/** The stock bump after a kill: at least 100 MiB, at least 20 %. */
#define OOM_BUMP_BYTES (UINT64_C(100) << 20)

/** Uses beyond this are in the histogram's last bucket anyway; keeps sums away from 2^64. */
#define BYTES_MAX (UINT64_C(1) << 50)

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void enter(struct rec_memory_peaks *peaks, struct rec_histogram *histogram, uint64_t bytes,
                  int64_t t_ms, bool oom)
{
    if (!peaks->started) {
        peaks->started = true;
        peaks->window_end_ms = t_ms;
    }
    if (t_ms > peaks->last_ms)
        peaks->last_ms = t_ms;
    if (t_ms >= peaks->window_end_ms) {
        int64_t windows = (t_ms - peaks->window_end_ms) / REC_MEMORY_WINDOW_MS + 1;
        peaks->window_end_ms += windows * REC_MEMORY_WINDOW_MS;
        peaks->usage_bytes = 0;
        peaks->oom_bytes = 0;
    }
    uint64_t old = larger(peaks->usage_bytes, peaks->oom_bytes);
    if (bytes <= old)
        return;
    if (old > 0)
        rec_histogram_subtract(histogram, (double)old, PEAK_WEIGHT, peaks->window_end_ms);
    rec_histogram_add(histogram, (double)bytes, PEAK_WEIGHT, peaks->window_end_ms);
    if (oom)
        peaks->oom_bytes = bytes;
    else
        peaks->usage_bytes = bytes;
}

bool rec_memory_peaks_add(struct rec_memory_peaks *peaks, struct rec_histogram *histogram,
                          uint64_t bytes, int64_t t_ms)
{
    if (peaks->started && t_ms < peaks->last_ms)
        return false;
    if (bytes > 0)
        enter(peaks, histogram, bytes < BYTES_MAX ? bytes : BYTES_MAX, t_ms, false);
    return true;
}

bool rec_memory_peaks_oom(struct rec_memory_peaks *peaks, struct rec_histogram *histogram,
                          uint64_t request_bytes, int64_t t_ms)
{
    if (peaks->started && t_ms < peaks->last_ms - REC_MEMORY_WINDOW_MS)
        return false;
    uint64_t used =
        larger(request_bytes < BYTES_MAX ? request_bytes : BYTES_MAX, peaks->usage_bytes);
    enter(peaks, histogram, larger(used + OOM_BUMP_BYTES, used + used / 5), t_ms, true);
    return true;
}
