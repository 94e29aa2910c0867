/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Strict numbers, in one place: the whole text must be the number; no leading blank, no sign where
 * none is meant, no overflow. strtol, atoi and friends are banned elsewhere.
 */

/** Decimal u64. @return 0; -EINVAL not a number; -ERANGE outside [min, max]. *ret untouched on
 * error. */
int kw_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret);

/** Like kw_parse_u64 on `len` bytes that need no terminator (a span of a file or a reply). */
int kw_parse_u64_span(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *ret);

/** Decimal i64 with optional '-'. @return as kw_parse_u64. */
int kw_parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret);

/** Finite decimal floating number ("0.25", "1e-3"). @return as kw_parse_u64. */
int kw_parse_double(const char *text, double min, double max, double *ret);

/**
 * Duration with unit, to nanoseconds: "250us" "100ms" "1.5s" "5m" "2h" "7d"; a bare number is
 * seconds. @return as kw_parse_u64, limits in nanoseconds.
 */
int kw_parse_duration_ns(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns);

/** Size with optional unit, to bytes: "512", "64k", "64Ki", "10M", "10Mi", "1Gi". @return as
 * kw_parse_u64. */
int kw_parse_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret_bytes);

/** "true|yes|on|1" / "false|no|off|0". @return 0 or -EINVAL. */
int kw_parse_bool(const char *text, bool *ret);
