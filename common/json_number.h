/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Range of JSON numbers, decided on their decimal digits: exact, without a conversion and without a
 * locale. For json_scan.c only.
 */

/** Whether an integer ("-12", valid JSON syntax, no leading zero) lies in [INT64_MIN, INT64_MAX].
 */
bool kw_json_integer_fits(const char *text, size_t len);

/** Whether a number with a fraction or an exponent (valid JSON syntax) rounds to a finite double.
 */
bool kw_json_real_fits(const char *text, size_t len);
