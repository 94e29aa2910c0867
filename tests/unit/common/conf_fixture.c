/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/common/conf_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "tests/support/cmocka.h"

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

static int check_node(const char *text, struct kw_err *err)
{
    return strchr(text, '!') == NULL ? 0 : kw_err_set(err, -EINVAL, "a node of '!' is none");
}

#define AT(field) offsetof(struct kwt_settings, field)
static const struct kw_conf_option options[] = {
    {"redis", "KWATT_REDIS", "redis.url", KW_CONF_STRING, AT(redis_url), "redis://127.0.0.1:6379",
     0, 0, NULL, "URL",
     "Where to publish: redis://, rediss:// or unix:// with the path of a socket. The program goes "
     "on "
     "without it and connects when it is there.",
     "Redis", NULL},
    {"redis-timeout", "KWATT_REDIS_TIMEOUT", "redis.timeout", KW_CONF_DURATION_NS, AT(timeout_ns),
     "2s", 100 * KW_NS_PER_MS, 60 * KW_NS_PER_S, NULL, "TIME", "Longest wait for an answer.",
     "Redis", NULL},
    {"node", "KWATT_NODE", "node", KW_CONF_STRING, AT(node), NULL, 1, 63, NULL, "NAME",
     "Name of this node; default: the host name.", "Identity", check_node},
    {"shards", "KWATT_SHARDS", "feed.shards", KW_CONF_U64, AT(shards), "4", 1, 64, NULL, "N",
     "Streams of the feed.", "Feed", NULL},
    {"idle-share", NULL, "idleShare", KW_CONF_DOUBLE, AT(idle_share), "0.5", 0, 1, NULL, "X",
     "Share of idle power.", "Feed", NULL},
    {"max-body", "KWATT_MAX_BODY", "http.maxBody", KW_CONF_BYTES, AT(body_bytes), "4Mi", 1024,
     UINT64_MAX, NULL, "SIZE", "Largest request.", "HTTP", NULL},
    {"metrics", "KWATT_METRICS", "http.metrics", KW_CONF_BOOL, AT(metrics), "true", 0, 0, NULL,
     NULL, "Serve /metrics.", "HTTP", NULL},
    {"log-level", "KWATT_LOG_LEVEL", "logLevel", KW_CONF_CHOICE, AT(level), "info", 0, 0, levels,
     "LEVEL", "What to log.", "Log", NULL},
    {"redis-socket", NULL, "redis.tls.name", KW_CONF_STRING, AT(tls_name), "", 0, 0, NULL, "NAME",
     "A key that returns to an earlier group.", "Log", NULL},
    {"only-flag", NULL, NULL, KW_CONF_STRING, AT(only_flag), "x", 0, 0, NULL, "NAME", "No key.",
     "Log", NULL},
};

const struct kw_conf_program kwt_program = {
    .name = "kwatt-test",
    .synopsis = "[options] [FILE...]",
    .summary = "Tests the configuration.\nSecond line.\n\nNew paragraph.",
    .examples = "  kwatt-test --redis unix:///run/redis.sock",
    .options = options,
    .n_options = KW_ARRAY_SIZE(options),
    .positionals = true,
};

char kwt_config_path[64];

void kwt_write_config(const char *text)
{
    (void)snprintf(kwt_config_path, sizeof(kwt_config_path), "/tmp/kwatt-conf-%d.yaml",
                   (int)getpid());
    assert_int_equal(kw_file_write_atomic(kwt_config_path, text, strlen(text), 0600), 0);
}

void kwt_load_as(struct kwt_run *run, const struct kw_conf_program *as, const char *const *args,
                 const char *const *env)
{
    *run = (struct kwt_run){.argc = 1, .argv = {(char *)"kwatt-test"}, .first = 99};
    for (size_t i = 0; args != NULL && args[i] != NULL; i++)
        run->argv[run->argc++] = strcmp(args[i], "@") == 0 ? kwt_config_path : (char *)args[i];
    kw_cleanup_file FILE *out = open_memstream(&run->out, &run->out_len);
    assert_non_null(out);
    run->rc = kw_conf_load(as, run->argc, run->argv, (char *const *)env, &run->settings, out,
                           &run->first, &run->err);
}

void kwt_load(struct kwt_run *run, const char *const *args, const char *const *env)
{
    kwt_load_as(run, &kwt_program, args, env);
}

void kwt_done(struct kwt_run *run)
{
    kw_conf_free(&kwt_program, &run->settings);
    free(run->out);
}

void kwt_check_ok(const struct kwt_run *run)
{
    if (run->rc != KW_CONF_RUN)
        fail_msg("%d: %s", run->rc, run->err.text);
}

void kwt_check_refused(const struct kwt_run *run, const char *text)
{
    assert_string_equal(run->err.text, text);
    assert_int_equal(run->rc, -EINVAL);
    assert_memory_equal(&run->settings, &(struct kwt_settings){0}, sizeof(run->settings));
    assert_int_equal(run->out_len, 0);
}

int kwt_remove_config(void **state)
{
    (void)state;
    if (kwt_config_path[0] != '\0')
        (void)unlink(kwt_config_path);
    return 0;
}
