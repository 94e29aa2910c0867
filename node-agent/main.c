/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "node-agent/agent.h"
#include "node-agent/check.h"
#include "node-agent/replay.h"

static int fail(const char *text)
{
    (void)fprintf(stderr, "kwatt-node-agent: %s\n", text);
    return 1;
}

static int replay(const struct agent_options *options)
{
    struct agent_replay replay = {0};
    struct kw_err err = {0};
    bool rows = options->replay_rows;
    int rc = rows ? agent_replay_run_rows(&replay, options->replay, stdout, &err)
                  : agent_replay_run(&replay, options->replay, options->replay_method, &err);

    if (rc == 0 && !rows) {
        rc = options->json ? agent_replay_print_json(&replay, stdout)
                           : agent_replay_print(&replay, stdout);
        (void)kw_err_set(&err, rc, "the result cannot be printed: %s", kw_errno_text(rc));
    }
    agent_replay_free(&replay);
    if (rc < 0)
        (void)fail(err.text);
    return rc == 0 ? 0 : rc == -EINVAL && !rows ? 2 : 1;
}

static int run(const struct agent_options *options)
{
    struct agent *agent = NULL;
    struct kw_err err = {0};

    int rc = agent_options_check(options, &err);
    if (rc < 0) {
        (void)fail(err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    if (options->check) {
        rc = agent_check(options, stdout);
        return rc == 0 ? 0 : fail(kw_errno_text(rc));
    }
    if (options->replay != NULL)
        return replay(options);
    rc = agent_new(options, stdout, &agent, &err);
    if (rc < 0) {
        (void)fail(err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    int code = agent_run(agent);
    agent_free(&agent);
    return code;
}

int main(int argc, char **argv, char **envp)
{
    struct agent_options options = {0};
    struct kw_err err = {0};
    int rc = kw_conf_load(&agent_program, argc, argv, envp, &options, stdout, NULL, &err);

    if (rc < 0) {
        (void)fail(err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    if (rc == KW_CONF_DONE)
        return 0;
    int code = run(&options);
    kw_conf_free(&agent_program, &options);
    return code;
}
