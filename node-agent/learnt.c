/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/learnt.h"

#include <errno.h>

#include "common/clock.h"

#define MAGIC   "kwatt learnt"
#define VERSION 2

/* Clocks of machines are set: a moment in the future is none. */
#define AHEAD_MS 60000

static void archive_machine(struct agent_archive *archive, const char *method,
                            const struct agent_learnt_machine *machine)
{
    const struct {
        uint64_t value;
        const char *why;
    } numbers[] = {{machine->n_packages, "it is of a machine with other packages"},
                   {machine->n_cores, "it is of a machine with other cores"},
                   {machine->n_online, "it is of a machine with other CPUs"},
                   {machine->has, "it was learnt from other features"},
                   {machine->idle_mw, "idle power was configured otherwise"}};

    agent_archive_same(archive, method, "it is of another method");
    agent_archive_same(archive, machine->cpu_model, "it is of another kind of CPU");
    agent_archive_same(archive, machine->meter, "it is of another meter");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t value = numbers[i].value;
        agent_archive_u64(archive, &value, UINT64_MAX, "");
        if (value != numbers[i].value)
            agent_archive_fail(archive, numbers[i].why);
    }
}

static void archive_head(struct agent_archive *archive, uint64_t *t_unix_ms)
{
    uint64_t version = VERSION;

    agent_archive_same(archive, MAGIC, "it is something else");
    agent_archive_u64(archive, &version, UINT64_MAX, "");
    if (version != VERSION)
        agent_archive_fail(archive, "it is of another version");
    agent_archive_u64(archive, t_unix_ms, INT64_MAX, "its time is out of range");
}

int agent_learnt_save(const struct agent_attribution_ops *method, void *state,
                      struct agent_curve_feed *curve, const struct agent_learnt_machine *machine,
                      int64_t now_unix_ms, struct kw_buf *out)
{
    struct agent_archive archive = {.out = out};
    uint64_t t_unix_ms = now_unix_ms > 0 ? (uint64_t)now_unix_ms : 0;

    if (method->archive == NULL)
        return -ENOTSUP;
    archive_head(&archive, &t_unix_ms);
    archive_machine(&archive, method->name, machine);
    method->archive(state, &archive);
    agent_curve_feed_archive(curve, &archive);
    int rc = agent_archive_end(&archive);
    return rc == 0 && out->len > AGENT_LEARNT_MAX_BYTES ? -E2BIG : rc;
}

int agent_learnt_load(const struct agent_attribution_ops *method, size_t max_workloads,
                      const struct agent_learnt_machine *machine, int64_t now_unix_ms,
                      const void *bytes, size_t len,
                      bool (*is_there)(void *user, uint64_t workload), void *user, void **ret,
                      struct agent_curve_feed *curve, int64_t *ret_age_ms, struct kw_err *err)
{
    struct agent_archive archive = {
        .loading = true, .at = bytes, .left = len, .is_there = is_there, .user = user};
    struct agent_curve_feed read = *curve;
    uint64_t t_unix_ms = 0;
    void *state = NULL;

    if (method->archive == NULL)
        return -ENOTSUP;
    archive_head(&archive, &t_unix_ms);
    int64_t age_ms = now_unix_ms - (int64_t)t_unix_ms;
    if (age_ms > AGENT_LEARNT_MAX_S * INT64_C(1000))
        agent_archive_fail(&archive, "it is too old");
    if (age_ms < -AHEAD_MS)
        agent_archive_fail(&archive, "it is of the future");
    archive_machine(&archive, method->name, machine);
    int rc = method->open(max_workloads, &state);
    if (rc < 0)
        return kw_err_set(err, rc, "%s", kw_errno_text(rc));
    method->archive(state, &archive);
    agent_curve_feed_archive(&read, &archive);
    rc = agent_archive_end(&archive);
    if (rc < 0) {
        method->close(&state);
        return kw_err_set(err, rc, "%s", archive.why);
    }
    *ret = state;
    *ret_age_ms = age_ms > 0 ? age_ms : 0;
    agent_curve_feed_age(&read, (uint64_t)*ret_age_ms * KW_NS_PER_MS);
    *curve = read;
    return 0;
}
