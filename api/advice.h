/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Advice of the recommender for a workload that no VPA covers (a machine without an API server):
 * the same numbers that a VPA's status would carry.
 */

struct kw_container_advice {
    char name[254]; /**< container's name or id; the workload's id where it has no containers */
    uint64_t target_mcpu, lower_mcpu, upper_mcpu;
    uint64_t target_bytes, lower_bytes, upper_bytes; /**< memory; 0: never measured, so no advice */
};

struct kw_advice {
    char workload[4096]; /**< workload id (api/pod_record.h) */
    int64_t t_unix_ms;
    uint64_t samples;   /**< CPU samples behind it */
    uint64_t history_s; /**< first to last sample */
    size_t n_containers;
    struct kw_container_advice *containers;
};

/** Frees the containers; leaves *advice zeroed. */
void kw_advice_clear(struct kw_advice *advice);

/** Encode and decode as in api/sample.h; a decoded advice is cleared by its caller. */
int kw_advice_encode(const struct kw_advice *advice, char **ret, size_t *ret_len);
int kw_advice_decode(const char *json, size_t len, struct kw_advice *ret, const char **ret_why);
