/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent would use is asked of the agent itself (kwatt-node-agent --check probes for real):
 * a second implementation would sooner or later say something else. What is around it is checked
 * here.
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/findings.h"
#include "cli/programs.h"
#include "cli/screen.h"
#include "cli/spawn.h"
#include "cli/state.h"
#include "common/cleanup.h"
#include "common/conf.h"
#include "common/kube.h"
#include "common/redis_rows.h"

/** Loading and verifying the BPF programs takes a second on a slow machine. */
#define AGENT_TIMEOUT_MS   20000
#define AGENT_OUTPUT_BYTES (64u << 10)

struct settings {
    bool json;
    struct kw_redis_access redis;
    char *kubeconfig, *sysfs, *procfs;
};

#define AT(field) offsetof(struct settings, field)

static const struct kw_conf_option rows[] = {
    {.flag = "json",
     .type = KW_CONF_BOOL,
     .offset = AT(json),
     .def = "false",
     .group = "Output",
     .help = "print one JSON document"},
    KW_REDIS_ROWS(struct settings, redis, "What to check", NULL,
                  "Redis to reach: " KW_REDIS_URL_FORMS "; default: the private one of kwatt up"){
        .flag = "kubeconfig",
        .type = KW_CONF_STRING,
        .offset = AT(kubeconfig),
        .metavar = "FILE",
        .group = "What to check",
        .help = "cluster to reach; default: none"},
    {.flag = "sysfs",
     .env = "KWATT_SYSFS",
     .type = KW_CONF_STRING,
     .offset = AT(sysfs),
     .metavar = "DIR",
     .group = "What to check",
     .help = "root of sysfs; default: /sys"},
    {.flag = "procfs",
     .env = "KWATT_PROCFS",
     .type = KW_CONF_STRING,
     .offset = AT(procfs),
     .metavar = "DIR",
     .group = "What to check",
     .help = "root of procfs; default: /proc"},
};

static const struct kw_conf_program program = {
    .name = "kwatt check",
    .synopsis = "[options]",
    .summary =
        "Says what this machine offers for measuring: each line is ok, degraded (something else "
        "is\n"
        "used) or missing, with the remedy. Exit status 1 only where nothing could run at all.",
    .examples = "  kwatt check\n  sudo kwatt check --json\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
};

/** Asks the agent. @return whether it can run at all; -ENOMEM. */
static int check_agent(const struct cli_io *io, const struct settings *settings,
                       struct cli_findings *findings)
{
    char own_dir[PATH_MAX] = "/", path[PATH_MAX], check[] = "--check", detail[128];
    char sysfs[PATH_MAX + 16], procfs[PATH_MAX + 16];
    char *argv[5] = {path, check};
    struct kw_buf out = {0};
    size_t n = 0, argc = 2;
    int status = 0, rc;

    (void)cli_programs_own_dir(own_dir);
    if (cli_programs_find(io, own_dir, "kwatt-node-agent", path) < 0)
        return cli_findings_add(findings, CLI_MISSING, "node agent",
                                "kwatt-node-agent is neither beside kwatt nor in PATH",
                                "install it beside kwatt");
    if (settings->sysfs != NULL) {
        (void)snprintf(sysfs, sizeof(sysfs), "--sysfs=%s", settings->sysfs);
        argv[argc++] = sysfs;
    }
    if (settings->procfs != NULL) {
        (void)snprintf(procfs, sizeof(procfs), "--procfs=%s", settings->procfs);
        argv[argc++] = procfs;
    }
    rc = cli_spawn_capture(argv, io->envp, AGENT_TIMEOUT_MS, AGENT_OUTPUT_BYTES, &out, &status);
    if (rc == 0)
        rc = cli_findings_parse(findings, out.data != NULL ? out.data : "", out.len, &n);
    kw_buf_free(&out);
    if (rc == -ENOMEM)
        return rc;
    if (rc == 0 && n > 0)
        return 1;
    if (rc < 0)
        (void)snprintf(detail, sizeof(detail), "kwatt-node-agent --check failed: %s",
                       kw_errno_text(rc));
    else
        (void)snprintf(detail, sizeof(detail), "kwatt-node-agent --check said nothing (%s %d)",
                       WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return cli_findings_add(findings, CLI_MISSING, "node agent", detail,
                            "run kwatt-node-agent --check to see why");
}

static int check_redis(const struct cli_io *io, const struct settings *settings,
                       struct cli_findings *findings)
{
    const struct kw_redis_conf conf = {.access = settings->redis};
    struct kw_redis *redis = NULL;
    struct kw_err err = {0};
    char path[PATH_MAX], detail[600];
    int rc;

    if (settings->redis.url == NULL) {
        if (cli_programs_in_path(io, "redis-server", path) < 0)
            return cli_findings_add(
                findings, CLI_DEGRADED, "redis",
                "redis-server is not installed: kwatt up measures, but nothing is "
                "scored or recommended",
                "apt install redis-server, or give kwatt up --redis URL");
        (void)snprintf(detail, sizeof(detail), "%.500s is there for kwatt up", path);
        return cli_findings_add(findings, CLI_OK, "redis", detail, "");
    }
    rc = kw_redis_new(&conf, &redis, &err);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "PING", NULL);
    if (rc == 0)
        rc = kw_redis_exec(redis, NULL, &err);
    if (rc == 0) {
        (void)snprintf(detail, sizeof(detail), "%.500s answers", kw_redis_name(redis));
        rc = cli_findings_add(findings, CLI_OK, "redis", detail, "");
    } else {
        rc = cli_findings_add(findings, CLI_MISSING, "redis", err.text,
                              "check the URL, the network and the password file");
    }
    kw_redis_free(&redis);
    return rc;
}

static int check_kube(const struct settings *settings, struct cli_findings *findings)
{
    const struct kw_kube_conf conf = {.kubeconfig = settings->kubeconfig};
    struct kw_kube *kube = NULL;
    struct kw_buf body = {0};
    struct kw_err err = {0};
    char detail[300];
    int rc;

    if (settings->kubeconfig == NULL)
        return cli_findings_add(
            findings, CLI_OK, "kubernetes",
            "no cluster asked for (--kubeconfig FILE): workloads are this machine's", "");
    rc = kw_kube_new(&conf, &kube, &err);
    if (rc == 0)
        rc = kw_kube_get(kube, "/version", &body, &err);
    if (rc == 0) {
        (void)snprintf(detail, sizeof(detail), "%.250s answers", kw_kube_server(kube));
        rc = cli_findings_add(findings, CLI_OK, "kubernetes", detail, "");
    } else {
        rc = cli_findings_add(findings, CLI_MISSING, "kubernetes", err.text,
                              "check the file, its context and the API server");
    }
    kw_buf_free(&body);
    kw_kube_free(&kube);
    return rc;
}

static int check_state(const struct cli_io *io, struct cli_findings *findings)
{
    struct cli_running running = {0};
    char dir[PATH_MAX], detail[600];

    if (cli_state_default_dir(io, dir, sizeof(dir)) == 0 && cli_state_find(dir, &running) == 0)
        (void)snprintf(detail, sizeof(detail), "runs, pid %d, agent at %.300s", (int)running.pid,
                       running.agent);
    else
        (void)snprintf(detail, sizeof(detail), "none runs here");
    return cli_findings_add(findings, CLI_OK, "kwatt up", detail, "");
}

int cli_check(const struct cli_io *io, int argc, char **argv)
{
    struct settings settings = {0};
    struct cli_findings findings = {0};
    struct cli_screen screen;
    struct kw_buf out = {0};
    struct kw_err err = {0};
    int rc = kw_conf_load(&program, argc, argv, io->envp, &settings, io->out, NULL, &err);
    int can_run;

    if (rc == KW_CONF_DONE)
        return 0;
    if (rc < 0) {
        (void)fprintf(io->err, "kwatt check: %s\n", err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    can_run = check_agent(io, &settings, &findings);
    rc = can_run < 0 ? can_run : check_redis(io, &settings, &findings);
    if (rc == 0)
        rc = check_kube(&settings, &findings);
    if (rc == 0)
        rc = check_state(io, &findings);
    kw_conf_free(&program, &settings);
    cli_screen_init(&screen, io, false);
    if (settings.json)
        cli_findings_json(&findings, &out);
    else
        cli_findings_table(&findings, screen.color, &out);
    cli_findings_clear(&findings);
    if (rc < 0 || out.failed) {
        (void)fprintf(io->err, "kwatt check: out of memory\n");
        kw_buf_free(&out);
        return 1;
    }
    (void)fwrite(out.data, 1, out.len, io->out);
    kw_buf_free(&out);
    return fflush(io->out) == 0 && can_run > 0 ? 0 : 1;
}
