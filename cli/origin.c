/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/origin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "cli/source.h"
#include "cli/state.h"

/** The kwatt up of a state folder, or of the one that it took instead. */
static void find_running(const char *dir, struct cli_running *ret)
{
    char other[PATH_MAX];

    if (cli_state_find(dir, ret) == 0)
        return;
    for (unsigned n = 0; cli_state_fallback_dir(dir, n, other, sizeof(other)) == 0; n++) {
        if (cli_state_find(other, ret) == 0)
            return;
    }
}

int cli_origin_open(const struct cli_io *io, const struct cli_origin_choice *choice,
                    struct cli_origin *ret, struct kw_err *err)
{
    struct kw_redis_conf conf = {.access = *choice->redis};
    struct cli_running running = {0};
    char dir[PATH_MAX] = "";
    const char *agent = choice->agent;

    if (choice->redis->url != NULL && agent == NULL)
        return kw_redis_new(&conf, &ret->redis, err);
    if (agent == NULL) {
        if (choice->state_dir != NULL)
            (void)snprintf(dir, sizeof(dir), "%s", choice->state_dir);
        else
            (void)cli_state_default_dir(io, dir, sizeof(dir));
        find_running(dir, &running);
        agent = running.agent[0] != '\0' ? running.agent : CLI_DEFAULT_AGENT;
        conf = (struct kw_redis_conf){.access.url = running.redis};
        /* its Redis has the advices; without them the table has two empty columns */
        if (running.redis[0] != '\0')
            (void)kw_redis_new(&conf, &ret->redis, NULL);
    }
    (void)snprintf(ret->agent_name, sizeof(ret->agent_name), "%s", agent);
    return cli_source_http_new(agent, choice->tls, &ret->agent, err);
}

void cli_origin_close(struct cli_origin *origin)
{
    kw_http_client_free(&origin->agent);
    kw_redis_free(&origin->redis);
}

int cli_origin_agent_view(const struct cli_origin *origin, struct kw_node_view *ret,
                          struct kw_err *err)
{
    int rc = cli_source_agent_view(origin->agent, ret, err);

    if (rc == 0 || rc == -EAGAIN)
        return rc;
    char cause[256];
    (void)snprintf(cause, sizeof(cause), "%.255s", err->text);
    return kw_err_set(
        err, rc,
        "no agent answers at %.100s: %s; start one with kwatt up, or name another with "
        "--agent URL, or a cluster's Redis with --redis URL",
        origin->agent_name, cause);
}
