/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/meter.h"

/*
 * Meters that contradict each other: each reading is plausible by itself, and one of them is wrong.
 * Says so, and corrects nothing: nobody knows which. Pure.
 */

/** Readings are compared as means over so long: meters are not read at one instant, and some are
 * asked every few seconds only. */
#define AGENT_DOUBT_SPAN_NS UINT64_C(20000000000)

/** Spans in a row that must contradict each other. */
#define AGENT_DOUBT_SPANS 2

/** Zero-initialised: nothing seen. */
struct agent_doubt {
    uint64_t start_ns, last_ns; /**< of the span; of the last window; 0: none */
    uint64_t cpu_uj[AGENT_PACKAGES_MAX], dram_uj[AGENT_PACKAGES_MAX];
    unsigned __int128 platform_pj;
    bool platform_known; /**< in every window of the span */
    uint32_t platform_spans, dram_spans;
};

/** What was read in one window. */
struct agent_doubt_window {
    size_t n_packages;
    uint64_t cpu_uj[AGENT_PACKAGES_MAX], dram_uj[AGENT_PACKAGES_MAX];
    uint64_t platform_mw; /**< 0: unknown */
};

/**
 * Takes a window in, which ends now.
 * @return whether, in the last AGENT_DOUBT_SPANS spans, the CPU packages and their memory drew more
 * than the whole machine, or the memory of one package drew more than the package and ten times
 * what that of another package did.
 */
bool agent_doubt_take(struct agent_doubt *doubt, const struct agent_doubt_window *window,
                      uint64_t now_ns);
