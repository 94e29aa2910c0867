/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/check.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/redis.h"
#include "node-agent/accounting.h"
#include "node-agent/cgroups.h"
#include "node-agent/meter.h"
#include "node-agent/model_file.h"
#include "node-agent/roots.h"

/* A machine of four sockets with memory and a platform shows nine. */
#define CHECK_DOMAINS 12

/** One line; tabs and line ends inside the texts become blanks. An error's remedy follows its first
 * "; ". */
static void line(FILE *out, const char *state, const char *item, const char *text)
{
    const char *split = strstr(text, "; ");

    (void)fprintf(out, "%s\t%s\t", state, item);
    for (const char *at = text; *at != '\0'; at++) {
        if (at == split) {
            (void)fputc('\t', out);
            at++;
            continue;
        }
        (void)fputc(*at == '\t' || *at == '\n' ? ' ' : *at, out);
    }
    (void)fputs(split == NULL ? "\t\n" : "\n", out);
}

static void check_accounting(const struct agent_topology *topology, const struct agent_roots *roots,
                             FILE *out)
{
    struct agent_accounting_conf conf = {
        .topology = topology, .sysfs_root = roots->cgroup_sysfs, .procfs_root = roots->procfs};
    bool better = false;

    for (size_t i = 0; agent_accounting_backends[i] != NULL; i++) {
        const struct agent_accounting_ops *ops = agent_accounting_backends[i];
        struct kw_err err = {0};
        void *self = NULL;
        if (ops->open(&conf, &self, &err) == 0) {
            line(out, i == 0 || better ? "ok" : "degraded", ops->name,
                 i == 0               ? "CPU time per cgroup, exact to the slice"
                 : ops->merges_kernel ? "works, but kernel threads count as the root cgroup's"
                 : better             ? "works, used where the ones above do not"
                                      : "used instead of the ones above");
            ops->close(&self);
            better = true;
        } else {
            line(out, better ? "degraded" : "missing", ops->name, err.text);
        }
    }
}

static void check_cgroups(const struct agent_options *options, const struct agent_roots *roots,
                          FILE *out)
{
    struct agent_cgroups_conf conf = {.sysfs_root = roots->cgroup_sysfs,
                                      .procfs_root = roots->procfs,
                                      .cgroup_root = options->cgroup_root};
    struct agent_cgroups *cgroups = NULL;
    struct kw_err err = {0};

    if (agent_cgroups_new(&conf, &cgroups, &err) < 0) {
        line(out, "missing", "cgroups", err.text);
        return;
    }
    line(out, "ok", "cgroups", agent_cgroups_layout(cgroups));
    agent_cgroups_free(&cgroups);
}

/** @return whether hardware counters can be had. */
static bool check_counters(FILE *out)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_HW_CPU_CYCLES,
        .disabled = 1,
        .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd >= 0) {
        line(out, "ok", "hardware-counters", "cycles can be counted on CPU 0");
        (void)close(fd);
        return true;
    }
    if (errno == EACCES || errno == EPERM) {
        line(out, "degraded", "hardware-counters",
             "not allowed; run as root or with CAP_PERFMON, time is used alone");
    } else {
        line(out, "degraded", "hardware-counters",
             "this machine shows no PMU, as most virtual machines; time is used alone");
    }
    return false;
}

/** The power model that is asked for, and what it missed where it had not been trained. */
static void check_model(const struct agent_options *options, bool counters, FILE *out)
{
    struct kw_power_model *model = NULL;
    struct kw_err err = {0};
    char text[128] = "usable, but it does not say how much it misses";

    if (options->model_file == NULL)
        return;
    if (agent_model_read(options->model_file, counters, &model, &err) < 0) {
        line(out, "missing", "power-model", err.text);
        return;
    }
    const struct kw_model *package = &model->parts[KW_MODEL_PACKAGE];
    bool trees = package->shape == KW_SHAPE_TREES;
    if (package->error.n_groups > 0)
        (void)snprintf(text, sizeof(text),
                       "usable%s, missed %.1f W of the packages on programs it had not seen",
                       trees ? " (trees)" : "", package->error.mae_w);
    line(out, "ok", "power-model", text);
    free(model);
}

/** Domains as a text: how many, and the first of them by name and physical package. */
static void list_domains(const struct agent_domain *domains, size_t n, const char *note, char *out,
                         size_t size)
{
    size_t shown = n < CHECK_DOMAINS ? n : CHECK_DOMAINS;
    int used = snprintf(out, size, "%zu domains:", n);

    for (size_t k = 0; k < shown && used > 0 && (size_t)used < size; k++)
        used += snprintf(out + used, size - (size_t)used, " %s/%u", domains[k].name,
                         domains[k].package_id);
    if (n > shown && used > 0 && (size_t)used < size)
        used += snprintf(out + used, size - (size_t)used, " and %zu more", n - shown);
    if (used > 0 && (size_t)used < size)
        (void)snprintf(out + used, size - (size_t)used, ", %s", note);
}

/** Adds to a text which of the domains cannot be read. @return how many. */
static size_t list_unreadable(const struct agent_meter_ops *ops, void *self,
                              const struct agent_domain *domains, size_t n, char *out, size_t size)
{
    kw_cleanup_free struct agent_reading *readings = calloc(n + 1, sizeof(*readings));
    size_t bad = 0, first = 0, used = strlen(out);

    if (readings == NULL)
        return 0;
    (void)ops->read(self, NULL, readings);
    for (size_t i = n; i > 0; i--) {
        if (readings[i - 1].error == 0)
            continue;
        bad++;
        first = i - 1;
    }
    if (bad == 0)
        return 0;
    const char *cause = readings[first].error == -ENODATA ? "it shows no value"
                                                          : kw_errno_text(readings[first].error);
    if (bad == 1)
        (void)snprintf(out + used, size - used, ", but %s/%u cannot be read: %s",
                       domains[first].name, domains[first].package_id, cause);
    else
        (void)snprintf(out + used, size - used,
                       ", but %zu of them cannot be read, the first is %s/%u: %s", bad,
                       domains[first].name, domains[first].package_id, cause);
    return bad;
}

/** Opens a meter and says what it shows. @return whether it opened. */
static bool check_meter(const struct agent_meter_conf *conf, const struct agent_meter_ops *ops,
                        const char *kind, const char *note, FILE *out)
{
    const struct agent_domain *domains = NULL;
    char item[64], text[1024];
    struct kw_err err = {0};
    void *self = NULL;

    (void)snprintf(item, sizeof(item), "%s-%s", kind, ops->name);
    if (ops->open(conf, &self, &err) < 0) {
        line(out, "missing", item, err.text);
        return false;
    }
    size_t n = ops->domains(self, &domains);
    size_t left_out = ops->left_out != NULL ? ops->left_out(self) : 0;
    list_domains(domains, n, note, text, sizeof(text));
    size_t bad = list_unreadable(ops, self, domains, n, text, sizeof(text));
    if (left_out > 0) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used,
                       ", and %zu that there is no room for; their energy is not counted",
                       left_out);
    }
    line(out, left_out > 0 || bad > 0 ? "degraded" : "ok", item, text);
    ops->close(&self);
    return true;
}

static void check_meters(const struct agent_options *options, const struct agent_topology *topology,
                         FILE *out)
{
    struct agent_meter_conf conf = {
        .topology = topology,
        .sysfs_root = options->sysfs_root,
        .idle_mw = (uint64_t)(options->idle_w * 1000),
        .full_mw = (uint64_t)(options->full_w * 1000),
    };
    const char *asked = options->meter == 0 ? NULL : agent_meter_choices[options->meter];
    const char *used = NULL;

    for (size_t i = 0; agent_meters[i] != NULL; i++) {
        const struct agent_meter_ops *ops = agent_meters[i];
        bool candidate =
            asked != NULL ? strcmp(asked, ops->name) == 0 : used == NULL && !ops->on_request;
        char item[64], note[96];
        (void)snprintf(item, sizeof(item), "meter-%s", ops->name);
        if (candidate)
            (void)snprintf(note, sizeof(note), "in use");
        else if (asked != NULL)
            (void)snprintf(note, sizeof(note), "not asked for");
        else
            (void)snprintf(note, sizeof(note), "not needed: %s is preferred", used);
        if (ops->on_request && !candidate) {
            (void)snprintf(note, sizeof(note),
                           "not tried: only where it is asked for by --meter %s", ops->name);
            line(out, "ok", item, note);
        } else if (ops->estimated && candidate) {
            line(out, "degraded", item,
                 options->model_file != NULL
                     ? "watts are estimated by the power model, in use; use a machine that shows "
                       "a meter"
                     : "watts are estimated from the CPU's class, in use; use a machine that "
                       "shows a meter, or --model FILE");
            used = ops->name;
        } else if (check_meter(&conf, ops, "meter", note, out) && candidate) {
            used = ops->name;
        }
    }
    for (size_t i = 0; agent_platform_meters[i] != NULL; i++)
        (void)check_meter(&conf, agent_platform_meters[i], "platform",
                          "published beside the packages", out);
}

int agent_check_meters(const struct agent_options *options, FILE *out)
{
    struct agent_topology topology;
    int rc = agent_topology_read(options->sysfs_root, options->procfs_root, &topology);

    if (rc < 0)
        return rc;
    check_meters(options, &topology, out);
    return ferror(out) ? -EIO : 0;
}

static void check_redis(const struct agent_options *options, FILE *out)
{
    const struct kw_redis_conf conf = {.access = options->redis};
    struct kw_redis *redis = NULL;
    struct kw_err err = {0};

    if (options->redis.url == NULL)
        return;
    int rc = kw_redis_new(&conf, &redis, &err);
    if (rc == 0)
        rc = kw_redis_queue_texts(redis, "PING", NULL);
    if (rc == 0)
        rc = kw_redis_exec(redis, NULL, &err);
    if (rc == 0)
        line(out, "ok", "redis", kw_redis_name(redis));
    else
        line(out, "missing", "redis", err.text[0] != '\0' ? err.text : kw_errno_text(rc));
    kw_redis_free(&redis);
}

int agent_check(const struct agent_options *options, FILE *out)
{
    struct agent_topology topology;
    struct agent_roots roots;
    int rc = agent_roots_find(options, &roots);

    if (rc == 0)
        rc = agent_topology_read(options->sysfs_root, options->procfs_root, &topology);
    if (rc < 0)
        return rc;
    check_accounting(&topology, &roots, out);
    check_cgroups(options, &roots, out);
    check_model(options, check_counters(out), out);
    check_meters(options, &topology, out);
    check_redis(options, out);
    return ferror(out) ? -EIO : 0;
}
