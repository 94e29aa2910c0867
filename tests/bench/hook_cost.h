/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What BPF programs cost a run, by the kernel's own statistics, and empty programs beside them. */

/** Time and runs of one program; zero-initialised but for its descriptor. */
struct bench_cost {
    int fd;
    uint64_t run_ns, runs;
};

/** @return nanoseconds a run since the last call; negative on error, and where it did not run. */
double bench_cost_step(struct bench_cost *cost);

/** The newest program of that name: the one that was loaded a moment ago. @return a descriptor that
 * the caller closes; -1: none. */
int bench_find_program(const char *name);

/** Empty programs that are attached. */
struct bench_empty;

/** Attaches programs of tests/bench/hook_empty.bpf.c. @param name the first one's, then more, ended
 * by NULL. @return NULL where the kernel does not take them. */
struct bench_empty *bench_empty_attach(const char *name, ...) __attribute__((sentinel));

/** Descriptor of one of them; it goes with the program. */
int bench_empty_fd(const struct bench_empty *empty, const char *name);

/** NULL-safe, nulls. */
void bench_empty_detach(struct bench_empty **empty);

/** Sorts the values. */
double bench_median(double *values, size_t n);

/** One figure. @param bound on the ratio, as text; "null": none. */
void bench_print_ratio(const char *name, double value_ns, double empty_ns, const char *bound);
