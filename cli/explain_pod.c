/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record carries all that its agent knows of the workload, so that one answer of the agent, or
 * one hash in Redis, is enough: whoever can read `kwatt top` can read this. In a cluster nobody has
 * to know which node a pod runs on: the records of all nodes are looked through, and one that runs
 * goes before one of the same name that ended elsewhere.
 */
#include "cli/explain_pod.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/explanation.h"
#include "cli/source.h"
#include "cli/text.h"
#include "common/cleanup.h"
#include "common/clock.h"

/** Widest first column. */
#define LABEL_WIDTH 22

static bool is_called(const struct kw_pod_record *record, const char *pod)
{
    size_t len = strlen(record->namespace_);

    if (strcmp(record->id, pod) == 0 || strcmp(record->name, pod) == 0)
        return true;
    return len > 0 && strncmp(pod, record->namespace_, len) == 0 && pod[len] == '/' &&
           strcmp(pod + len + 1, record->name) == 0;
}

/** Whether `a` is to be shown rather than `b`. */
static bool is_fresher(const struct kw_pod_record *a, const struct kw_pod_record *b)
{
    if ((a->ended_unix_ms == 0) != (b->ended_unix_ms == 0))
        return a->ended_unix_ms == 0;
    return a->started_unix_ms > b->started_unix_ms;
}

const struct kw_pod_record *cli_explain_pod_find(const struct kw_node_view *view, const char *pod,
                                                 size_t *ret_others)
{
    const struct kw_pod_record *found = NULL;
    size_t running = 0;

    for (size_t i = 0; i < view->n_pods; i++) {
        const struct kw_pod_record *record = &view->pods[i];
        if (!is_called(record, pod))
            continue;
        running += record->ended_unix_ms == 0;
        if (found == NULL || is_fresher(record, found))
            found = record;
    }
    *ret_others = running > 1 ? running - 1 : 0;
    return found;
}

static void label(struct kw_buf *out, const char *text)
{
    cli_text_fit(out, text, LABEL_WIDTH, false);
}

/** One line: a label, and what a node says, which may be anything. */
static void foreign_line(struct kw_buf *out, const char *name, const char *text, const char *more)
{
    label(out, name);
    cli_text_add(out, text);
    (void)kw_buf_addf(out, "%s\n", more);
}

static double per(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : (double)a / (double)b;
}

static void add_title(struct kw_buf *out, const struct kw_sample *sample,
                      const struct kw_pod_record *pod)
{
    const char *separator = "";

    if (pod->namespace_[0] != '\0') {
        cli_text_add(out, pod->namespace_);
        (void)kw_buf_adds(out, "/");
    }
    cli_text_add(out, pod->name);
    (void)kw_buf_adds(out, " (");
    cli_text_add(out, kw_workload_kind_names[pod->kind]);
    (void)kw_buf_adds(out, pod->ended_unix_ms == 0 ? ") on " : ", ended) on ");
    cli_text_add(out, sample->node);
    (void)kw_buf_adds(out, "\n");
    foreign_line(out, "Method", sample->method, "");
    foreign_line(out, "Meter", sample->meter, pod->estimated ? " (estimated)" : "");
    foreign_line(out, "Accounting", sample->accounting, "");
    cli_text_fit(out, "Quality", LABEL_WIDTH, false);
    for (unsigned flag = 0; flag < KW_QUALITY__MAX; flag++) {
        if ((sample->quality & KW_QUALITY_BIT(flag)) == 0)
            continue;
        (void)kw_buf_adds(out, separator);
        (void)kw_buf_adds(out, kw_quality_names[flag]);
        separator = ", ";
    }
    (void)kw_buf_adds(out, separator[0] == '\0' ? "nothing to complain of\n\n" : "\n\n");
}

static void add_power(struct kw_buf *out, const struct kw_pod_record *pod)
{
    char all[CLI_NUMBER_MAX], sigma[CLI_NUMBER_MAX], cpu[CLI_NUMBER_MAX], dram[CLI_NUMBER_MAX];

    cli_text_watts(all, pod->watts_mw);
    cli_text_watts(sigma, pod->sigma_mw);
    cli_text_watts(cpu, pod->watts_mw > pod->dram_mw ? pod->watts_mw - pod->dram_mw : 0);
    cli_text_watts(dram, pod->dram_mw);
    label(out, "Active power");
    (void)kw_buf_addf(out, "%s%s%s W  (CPU packages %s W, memory %s W)\n", all,
                      pod->sigma_uj > 0 ? " +- " : "", pod->sigma_uj > 0 ? sigma : "", cpu, dram);
    cli_text_joules(all, pod->active_uj);
    cli_text_joules(sigma, pod->sigma_uj);
    cli_text_joules(dram, pod->dram_uj);
    label(out, "Active energy");
    (void)kw_buf_addf(out, "%s%s%s J  (of it memory %s J)\n", all, pod->sigma_uj > 0 ? " +- " : "",
                      pod->sigma_uj > 0 ? sigma : "", dram);
    if (pod->sigma_uj == 0) {
        label(out, "");
        (void)kw_buf_addf(out, "this method does not say how sure it is\n");
    }
}

static void add_features(struct kw_buf *out, const struct kw_pod_record *pod)
{
    double cpu_s = (double)pod->cpu_ns / (double)KW_NS_PER_S;

    (void)kw_buf_adds(out, "\nWhat it did, since the agent knows it\n");
    label(out, "  CPU time");
    (void)kw_buf_addf(out, "%.1f s\n", cpu_s);
    if (pod->shared_ns > 0) {
        label(out, "  SMT sibling busy");
        (void)kw_buf_addf(out, "%.1f s, %.0f %% of that\n",
                          (double)pod->shared_ns / (double)KW_NS_PER_S,
                          100 * per(pod->shared_ns, pod->cpu_ns));
    }
    if (pod->cycles == 0) {
        label(out, "  Counters");
        (void)kw_buf_addf(out, "none: CPU time is all that is known\n");
        return;
    }
    label(out, "  Instructions");
    (void)kw_buf_addf(out, "%.3g, %.2f a cycle, %.3g a CPU second\n", (double)pod->instructions,
                      per(pod->instructions, pod->cycles),
                      cpu_s > 0 ? (double)pod->instructions / cpu_s : 0);
    label(out, "  Cache misses");
    (void)kw_buf_addf(out, "%.3g, %.2f a thousand instructions\n", (double)pod->llc_misses,
                      1000 * per(pod->llc_misses, pod->instructions));
}

static void add_intensity(struct kw_buf *out, const char *name, const struct kw_intensity *value)
{
    if (value->sigma_permille > 0) {
        label(out, name);
        (void)kw_buf_addf(out, "%.2f +- %.2f\n", (double)value->permille / 1000,
                          (double)value->sigma_permille / 1000);
    }
}

static void add_intensities(struct kw_buf *out, const struct kw_pod_record *pod)
{
    (void)kw_buf_adds(out, "\nIntensity: what it draws, of what its features let expect here\n");
    add_intensity(out, "  CPU packages", &pod->cpu_intensity);
    add_intensity(out, "  Memory", &pod->dram_intensity);
    if (pod->cpu_intensity.sigma_permille == 0 && pod->dram_intensity.sigma_permille == 0) {
        label(out, "  -");
        (void)kw_buf_addf(
            out, "nothing is known: this method takes all work as equal, or has just begun\n");
    }
}

static void add_idle(struct kw_buf *out, const struct kw_sample *sample,
                     const struct kw_pod_record *pod)
{
    const struct {
        const char *name;
        uint64_t mw;
    } policies[] = {
        {"none", 0}, {"equal", pod->idle_equal_mw}, {"requests", pod->idle_requests_mw}};
    char watts[CLI_NUMBER_MAX], sigma[CLI_NUMBER_MAX];

    cli_text_watts(watts, sample->idle_mw);
    cli_text_watts(sigma, sample->idle_sigma_mw);
    (void)kw_buf_adds(out, "\nIdle power of the node, never part of the above: ");
    (void)kw_buf_adds(out, watts);
    (void)kw_buf_adds(out, " +- ");
    (void)kw_buf_adds(out, sigma);
    (void)kw_buf_adds(out, " W\n");
    for (size_t i = 0; i < KW_ARRAY_SIZE(policies); i++) {
        char name[LABEL_WIDTH + 1];
        (void)snprintf(name, sizeof(name), "  by policy %s", policies[i].name);
        cli_text_watts(watts, policies[i].mw);
        label(out, name);
        (void)kw_buf_addf(out, "%s W%s\n", watts,
                          strcmp(sample->idle_policy, policies[i].name) == 0 ? "  (in use)" : "");
    }
}

void cli_explain_pod_text(struct kw_buf *out, const struct kw_node_view *view,
                          const struct kw_pod_record *pod)
{
    add_title(out, &view->sample, pod);
    add_power(out, pod);
    add_features(out, pod);
    add_intensities(out, pod);
    add_idle(out, &view->sample, pod);
}

/** Adds what is told of a workload. */
static int tell(const struct kw_node_view *view, const struct kw_pod_record *pod, bool as_json,
                struct kw_buf *answer, struct kw_err *err)
{
    kw_cleanup_free char *json = NULL;
    size_t len = 0;

    if (!as_json) {
        cli_explain_pod_text(answer, view, pod);
        return 0;
    }
    int rc = kw_explanation_encode(view, pod, &json, &len);
    if (rc == 0)
        rc = kw_buf_add(answer, json, len);
    if (rc == 0)
        rc = kw_buf_adds(answer, "\n");
    return rc == 0 ? 0 : kw_err_set(err, rc, "the answer cannot be written");
}

/** Adds the answer. @return 0; -ENOENT the view does not have the workload. */
static int answer_from(const struct kw_node_view *view, const struct cli_explain_pod *asked,
                       struct kw_buf *answer, size_t *ret_others, struct kw_err *err)
{
    const struct kw_pod_record *pod = cli_explain_pod_find(view, asked->pod, ret_others);

    return pod != NULL
               ? tell(view, pod, asked->json, answer, err)
               : kw_err_set(err, -ENOENT, "nothing called %.200s runs there, or did so lately",
                            asked->pod);
}

void cli_explain_pod_merge(struct cli_explain_found *found, struct kw_node_view *view,
                           const char *pod)
{
    size_t others = 0;
    const struct kw_pod_record *here = cli_explain_pod_find(view, pod, &others);

    if (here == NULL)
        return;
    found->running += here->ended_unix_ms == 0 ? others + 1 : 0;
    if (found->pod != NULL && !is_fresher(here, found->pod))
        return;
    kw_node_view_clear(&found->view);
    found->view = *view;
    found->pod = here;
    *view = (struct kw_node_view){0};
}

void cli_explain_found_clear(struct cli_explain_found *found)
{
    kw_node_view_clear(&found->view);
    *found = (struct cli_explain_found){0};
}

/** Looks through all nodes, and finds nothing where none has it: a pod of the same name may have
 * ended on one and run on another. */
static int find_in_redis(struct kw_redis *redis, const struct cli_names *nodes, const char *pod,
                         struct cli_explain_found *ret, struct kw_err *err)
{
    if (nodes->n == 0)
        return kw_err_set(err, -ENOENT, "no agent has published there");
    for (size_t i = 0; i < nodes->n; i++) {
        kw_cleanup(kw_node_view_clear) struct kw_node_view view = {0};
        int rc = cli_source_redis_view(redis, nodes->items[i], &view, err);
        if (rc == 0)
            cli_explain_pod_merge(ret, &view, pod);
        else if (rc != -ENOENT && rc != -EBADMSG && rc != -EPROTONOSUPPORT)
            return rc; /* one node's bad record hides that node, not the others */
    }
    return 0;
}

static int answer_from_redis(struct kw_redis *redis, const struct cli_explain_pod *asked,
                             struct kw_buf *answer, size_t *ret_others, struct kw_err *err)
{
    kw_cleanup(cli_names_clear) struct cli_names nodes = {0};
    kw_cleanup(cli_explain_found_clear) struct cli_explain_found found = {0};
    kw_cleanup(kw_node_view_clear) struct kw_node_view view = {0};

    kw_redis_retry_now(redis);
    if (asked->node != NULL) {
        int rc = cli_source_redis_view(redis, asked->node, &view, err);
        return rc == 0 ? answer_from(&view, asked, answer, ret_others, err) : rc;
    }
    int rc = cli_source_nodes(redis, &nodes, err);
    if (rc == 0)
        rc = find_in_redis(redis, &nodes, asked->pod, &found, err);
    if (rc < 0)
        return rc;
    if (found.pod == NULL)
        return kw_err_set(err, -ENOENT, "no node has anything called %.200s", asked->pod);
    *ret_others = found.running > 1 ? found.running - 1 : 0;
    return tell(&found.view, found.pod, asked->json, answer, err);
}

int cli_explain_pod(const struct cli_io *io, const struct cli_origin_choice *choice,
                    const struct cli_explain_pod *asked, struct kw_buf *answer, struct kw_err *err)
{
    kw_cleanup(cli_origin_close) struct cli_origin origin = {0};
    kw_cleanup(kw_node_view_clear) struct kw_node_view view = {0};
    size_t others = 0;
    int rc = cli_origin_open(io, choice, &origin, err);

    if (rc == 0 && origin.agent == NULL) {
        rc = answer_from_redis(origin.redis, asked, answer, &others, err);
    } else if (rc == 0) {
        rc = cli_origin_agent_view(&origin, &view, err);
        rc = rc == 0 ? answer_from(&view, asked, answer, &others, err) : rc;
    }
    if (rc == 0 && others > 0)
        (void)fprintf(io->err, "kwatt explain: %zu more are called that; name one by its id\n",
                      others);
    return rc;
}
