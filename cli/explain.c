/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two questions. Why a pod was placed where it is: the extender keeps its last decisions and writes
 * them for people itself; this asks it, and shows what it says. Each of several extenders knows
 * what it was asked itself. Where a pod's watts come from: cli/explain_pod.h.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/explain_pod.h"
#include "cli/source.h"
#include "common/cleanup.h"
#include "common/conf.h"
#include "common/http_rows.h"
#include "common/redis_rows.h"

struct settings {
    char *extender, *pod, *agent, *node, *state_dir;
    bool json;
    struct kw_redis_access redis;
    struct kw_http_client_tls tls;
};

#define AT(field) offsetof(struct settings, field)

static const struct kw_conf_option rows[] = {
    {.flag = "extender",
     .type = KW_CONF_STRING,
     .offset = AT(extender),
     .check = cli_source_check,
     .def = "127.0.0.1:9890",
     .min = 1,
     .max = 255,
     .metavar = "ADDRESS",
     .group = "Extender",
     .help = "the extender to ask: HOST:PORT, unix:PATH or a URL. Of several, each knows the pods\n"
             "that it was asked about itself"},
    {.flag = "pod",
     .type = KW_CONF_STRING,
     .offset = AT(pod),
     .min = 1,
     .max = 4095,
     .metavar = "NAMESPACE/NAME",
     .group = "Watts",
     .help = "where its watts come from. Also a name, or the id of any workload"},
    {.flag = "agent",
     .env = "KWATT_AGENT",
     .type = KW_CONF_STRING,
     .offset = AT(agent),
     .check = cli_source_check,
     .metavar = "URL",
     .group = "Watts",
     .help = "agent to ask; default: that of the kwatt up that runs, else " CLI_DEFAULT_AGENT},
    KW_REDIS_ROWS(struct settings, redis, "Watts", NULL,
                  "look the pod up in what a cluster's nodes publish there: " KW_REDIS_URL_FORMS){
        .flag = "node",
        .type = KW_CONF_STRING,
        .offset = AT(node),
        .metavar = "NAME",
        .group = "Watts",
        .help = "with --redis: the node that it runs on; default: all are looked through"},
    {.flag = "state-dir",
     .env = "KWATT_STATE_DIR",
     .type = KW_CONF_STRING,
     .offset = AT(state_dir),
     .metavar = "DIR",
     .group = "Watts",
     .help = "state folder of the kwatt up to look for"},
    KW_HTTP_CLIENT_TLS_ROWS(struct settings, tls, "HTTPS", "the extender's or agent's"){
        .flag = "json",
        .type = KW_CONF_BOOL,
        .offset = AT(json),
        .def = "false",
        .group = "Output",
        .help = "one JSON document; [decisions], the latest first, and in a dry run {dry_run}"},
};

static const struct kw_conf_program program = {
    .name = "kwatt explain",
    .synopsis = "[options] [[NAMESPACE/]POD]",
    .summary =
        "Says why pods were placed where they were: how many nodes kube-scheduler proposed, what\n"
        "the pod was expected to use, the watts that it would add, and the nodes that kwatt found\n"
        "best. kube-scheduler adds the scores of its own plugins and decides. An extender keeps\n"
        "its last 256 answers; without a pod all of them are shown, the latest first, and in a dry "
        "run\n"
        "the watts that kwatt's best nodes would have saved so far.\n"
        "With --pod it says where a pod's watts come from: what it did, how much more or less it\n"
        "draws than that lets expect, how sure that is, and what it would get of the idle power.",
    .examples = "  kwatt explain\n"
                "  kwatt explain shop/web-5d8 --extender 10.0.0.90:9890\n"
                "  kwatt explain --pod shop/web-5d8 --redis redis://redis:6379\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
    .positionals = true,
};

/** Whether a text can be a pod's name, with or without its namespace. */
static bool is_pod(const char *text)
{
    const char *slash = strchr(text, '/');

    if (slash != NULL && (slash == text || slash[1] == '\0' || strchr(slash + 1, '/') != NULL))
        return false;
    return *text != '\0' && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-./") == strlen(text);
}

/** Whether an answer can be shown on a terminal. */
static bool is_text(const struct kw_buf *answer)
{
    for (size_t i = 0; i < answer->len; i++) {
        char c = answer->data[i];
        if (c != '\n' && (c < ' ' || c > '~'))
            return false;
    }
    return true;
}

static int ask(const struct settings *settings, const char *pod, struct kw_buf *answer,
               struct kw_err *err)
{
    char path[600];
    struct kw_http_call call = {.method = "GET", .path = path};
    kw_cleanup(kw_http_client_free) struct kw_http_client *client = NULL;
    unsigned status = 0;

    (void)snprintf(path, sizeof(path), "/explain?as=%s%s%s", settings->json ? "json" : "text",
                   pod == NULL ? "" : "&pod=", pod == NULL ? "" : pod);
    int rc = cli_source_http_new(settings->extender, &settings->tls, &client, err);
    if (rc == 0)
        rc = kw_http_client_call(client, &call, &status, answer, err);
    if (rc < 0)
        return rc;
    if (status == 404 && answer->len == 0)
        return kw_err_set(err, -ENOENT,
                          "the extender at %s was not asked about %s lately; others may have been",
                          settings->extender, pod == NULL ? "any pod" : pod);
    if (status != 200)
        return kw_err_set(err, -EPROTO, "%s answers with status %u: is that an extender?",
                          settings->extender, status);
    if (!settings->json && !is_text(answer))
        return kw_err_set(err, -EPROTO, "the answer of %s is no plain text", settings->extender);
    return 0;
}

/** What the arguments ask for beside being well formed. */
static int check(const struct settings *settings, const char *decided, size_t n, struct kw_err *err)
{
    if (n > 1)
        return kw_err_set(err, -EINVAL, "one pod at a time");
    if (decided != NULL && settings->pod != NULL)
        return kw_err_set(err, -EINVAL,
                          "either POD, for why it is where it is, or --pod, for its watts");
    if (decided != NULL && !is_pod(decided))
        return kw_err_set(err, -EINVAL, "\"%.100s\" is no name of a pod", decided);
    if (settings->node != NULL && (settings->redis.url == NULL || settings->agent != NULL))
        return kw_err_set(err, -EINVAL, "--node needs --redis: an agent knows its own node only");
    return 0;
}

static int ask_for_watts(const struct cli_io *io, const struct settings *settings,
                         struct kw_buf *answer, struct kw_err *err)
{
    const struct cli_origin_choice choice = {.redis = &settings->redis,
                                             .tls = &settings->tls,
                                             .agent = settings->agent,
                                             .state_dir = settings->state_dir};
    const struct cli_explain_pod asked = {
        .pod = settings->pod, .node = settings->node, .json = settings->json};

    return cli_explain_pod(io, &choice, &asked, answer, err);
}

int cli_explain(const struct cli_io *io, int argc, char **argv)
{
    struct settings settings = {0};
    struct kw_err err = {0};
    kw_cleanup(kw_buf_free) struct kw_buf answer = {0};
    size_t first = 0;
    int rc = kw_conf_load(&program, argc, argv, io->envp, &settings, io->out, &first, &err);

    if (rc == KW_CONF_DONE)
        return 0;
    const char *pod = rc == 0 && (size_t)argc > first ? argv[first] : NULL;
    if (rc == 0)
        rc = check(&settings, pod, (size_t)argc - first, &err);
    int status = rc < 0 ? 2 : 0;
    if (rc == 0)
        rc = settings.pod != NULL ? ask_for_watts(io, &settings, &answer, &err)
                                  : ask(&settings, pod, &answer, &err);
    if (rc < 0)
        (void)fprintf(io->err, "kwatt explain: %s\n", err.text);
    else
        (void)fwrite(answer.data == NULL ? "" : answer.data, 1, answer.len, io->out);
    if (rc == 0 && fflush(io->out) != 0) {
        (void)fprintf(io->err, "kwatt explain: cannot write the result\n");
        rc = -EIO;
    }
    kw_conf_free(&program, &settings);
    return rc < 0 && status == 0 ? 1 : status;
}
