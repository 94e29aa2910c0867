/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/advice.h"
#include "api/node_view.h"
#include "common/err.h"
#include "common/http_client.h"
#include "common/redis.h"

/*
 * Where the tables' data come from: an agent's /v1/pods, or what agents and the recommender
 * published in Redis. What is read is decoded by api/; a record that is refused is passed over and
 * counted.
 */

/** Whether an address can be one of the forms below. @return 0 or -EINVAL with the cause. */
int cli_source_check(const char *address, struct kw_err *err);

/** Client for an agent or extender. @param address listen address ("127.0.0.1:9891", "unix:/path")
 * or an http:// or https:// URL. @param tls for the last; NULL: the defaults. @return 0, or -EINVAL
 * or -errno of a file with the cause. */
int cli_source_http_new(const char *address, const struct kw_http_client_tls *tls,
                        struct kw_http_client **ret, struct kw_err *err);

/** @param ret cleared by the caller with kw_node_view_clear. @return 0; -EAGAIN the agent has no
 * sample yet; -errno with the cause. */
int cli_source_agent_view(struct kw_http_client *client, struct kw_node_view *ret,
                          struct kw_err *err);

/** A list of advices. */
struct cli_advices {
    size_t n;
    struct kw_advice *items;
};

/** Frees all; leaves *advices zeroed. */
void cli_advices_clear(struct cli_advices *advices);

/** Reads the advices of a node. @return 0 or -errno with the cause. */
int cli_source_advices(struct kw_redis *redis, const char *node, struct cli_advices *ret,
                       struct kw_err *err);

/** Names of nodes. */
struct cli_names {
    size_t n;
    char **items;
};

/** Frees all; leaves *names zeroed. */
void cli_names_clear(struct cli_names *names);

/** Names of the nodes that ever published, sorted; names that are no node names are passed over.
 * @return 0 or -errno with the cause. */
int cli_source_nodes(struct kw_redis *redis, struct cli_names *ret, struct kw_err *err);

/**
 * View of a node out of Redis. departed_uj is what the records present leave of pods_uj, since the
 * agent publishes both in one batch. @return 0; -ENOENT no sample of that node; -EBADMSG,
 * -EPROTONOSUPPORT a sample that cannot be read; -errno.
 */
int cli_source_redis_view(struct kw_redis *redis, const char *node, struct kw_node_view *ret,
                          struct kw_err *err);
