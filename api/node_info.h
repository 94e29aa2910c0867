/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** What a node is. Written at the agent's start. */
struct kw_node_info {
    char node[254];
    char cpu_model[128];
    char kernel[128];
    char version[64]; /**< kwatt's */
    uint32_t packages;
    uint32_t cores;
    uint32_t threads;
};

/** Encode and decode as in api/sample.h. */
int kw_node_info_encode(const struct kw_node_info *info, char **ret, size_t *ret_len);
int kw_node_info_decode(const char *json, size_t len, struct kw_node_info *ret,
                        const char **ret_why);
