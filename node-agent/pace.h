/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * How many windows a published sample is made of. Attribution learns from many short windows; each
 * costs CPU time. Pure.
 */

/** Shorter windows are not offered: meters count in steps, and clock and counter are not read at
 * one instant. */
#define AGENT_WINDOW_MIN_NS UINT64_C(100000000)

/**
 * @param interval_ns between published samples. @param cost_ns CPU time of a window as measured; 0:
 * not known yet.
 * @param workloads that a window looks at: with more of them it may cost more.
 * @param now windows at present; kept where the better number is not much better. 0: none yet.
 * @return windows per interval, at least 1; each is interval_ns / that long.
 */
unsigned agent_pace_windows(uint64_t interval_ns, uint64_t cost_ns, size_t workloads, unsigned now);
