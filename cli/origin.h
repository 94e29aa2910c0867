/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/node_view.h"
#include "cli/cli.h"
#include "common/err.h"
#include "common/http_client.h"
#include "common/redis.h"

/*
 * Which agent or Redis a command asks: what it was told, else the `kwatt up` that runs here, else
 * the agent of this machine.
 */

#define CLI_DEFAULT_AGENT "http://127.0.0.1:9891"

/** What a command was told. Borrowed texts; NULL: nothing. */
struct cli_origin_choice {
    const struct kw_redis_access *redis;
    const struct kw_http_client_tls *tls;
    const char *agent, *state_dir;
};

struct cli_origin {
    struct kw_http_client *agent; /**< NULL: Redis is asked */
    struct kw_redis *redis;       /**< beside an agent: where its advices are; NULL: nowhere */
    char agent_name[300];         /**< for messages */
};

/** @param ret zeros; closed by the caller in any case. @return 0, or -EINVAL or -errno with the
 * cause. */
int cli_origin_open(const struct cli_io *io, const struct cli_origin_choice *choice,
                    struct cli_origin *ret, struct kw_err *err);

/** Frees both; leaves *origin without them. */
void cli_origin_close(struct cli_origin *origin);

/** View of the agent's node. @return as cli_source_agent_view, with the remedy. */
int cli_origin_agent_view(const struct cli_origin *origin, struct kw_node_view *ret,
                          struct kw_err *err);
