/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Kubernetes resource quantities ("250m", "1Gi", "1e3", "0.5"), as k8s.io/apimachinery
 * resource.Quantity reads and prints them: sign, decimal digits, and one of n u m k M G T P E Ki Mi
 * Gi Ti Pi Ei or eN.
 */

/** Parses to thousandths, rounded up as the API does ("1n" is 1), so that CPU is in mcpu. @return
 * 0; -EINVAL; -ERANGE negative or above 2^63-1. */
int kw_quantity_milli(const char *text, size_t len, uint64_t *ret_milli);

/** Parses to whole units, rounded up, so that memory is in bytes. @return as kw_quantity_milli. */
int kw_quantity_units(const char *text, size_t len, uint64_t *ret_units);

#define KW_QUANTITY_MAX 32

/** CPU as the API prints it: "587m", "2". */
void kw_quantity_format_mcpu(char out[KW_QUANTITY_MAX], uint64_t mcpu);

/** Memory in binary suffixes where exact ("250Mi"), plain bytes else, as the VPA recommender >= 1.5
 * prints it. */
void kw_quantity_format_bytes(char out[KW_QUANTITY_MAX], uint64_t bytes);
