/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/** Reads a time as the Kubernetes API writes it, "2026-11-29T19:53:37Z" or with a fraction, which
 * is dropped. @return unix ms; 0 where it is no such time. */
int64_t kw_time_parse_ms(const char *text);
