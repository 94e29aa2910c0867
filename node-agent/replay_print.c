/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "node-agent/replay.h"

#define J(uj) ((double)(uj)*1e-6)
#define S(ns) ((double)(ns)*1e-9)

static const char *const kind_names[2] = {"cpu", "dram"};

/* ---- what both print ---- */

/** Workloads by what the first method gave them, largest first, as places. @return NULL: ENOMEM. */
struct order {
    uint64_t uj;
    size_t place;
};

static int compare(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->uj != y->uj)
        return x->uj < y->uj ? 1 : -1;
    return (x->place > y->place) - (x->place < y->place);
}

static struct order *order_of(const struct agent_replay *replay, size_t n)
{
    struct order *order = calloc(n + 1, sizeof(*order));

    for (size_t i = 0; order != NULL && i < n; i++) {
        const struct agent_replay_workload *workload = &replay->methods[0].workloads[i];
        order[i] = (struct order){.uj = workload->uj[0] + workload->uj[1], .place = i};
    }
    if (order != NULL && n > 1)
        qsort(order, n, sizeof(*order), compare);
    return order;
}

static struct agent_replay_domain sum_of(const struct agent_replay_method *method)
{
    struct agent_replay_domain sum = {0};

    for (size_t slot = 0; slot < AGENT_SLOTS_MAX; slot++) {
        const struct agent_replay_domain *domain = &method->domains[slot];
        sum.measured_uj += domain->measured_uj;
        sum.idle_uj += domain->idle_uj;
        sum.system_uj += domain->system_uj;
        sum.pods_uj += domain->pods_uj;
        sum.unattributed_uj += domain->unattributed_uj;
        sum.unbalanced_uj += domain->unbalanced_uj;
    }
    return sum;
}

/** What is left of what was measured: 0. */
static int64_t balance_of(const struct agent_replay_domain *domain)
{
    return (int64_t)(domain->measured_uj - domain->idle_uj - domain->system_uj - domain->pods_uj -
                     domain->unattributed_uj);
}

/** @return workloads that have room; those of a window that was refused have none. */
static size_t workloads_of(const struct agent_replay *replay,
                           const struct agent_recording_party **ret)
{
    size_t n = agent_recording_parties(replay->recording, ret);

    return n < replay->cap ? n : replay->cap;
}

/* ---- for people ---- */

static void print_head(const struct agent_replay *replay, FILE *out)
{
    const struct agent_recording_header *header = agent_recording_header(replay->recording);
    const struct agent_replay_flags *flags = &replay->flags;
    double seconds = S(agent_recording_window(replay->recording)->t_ns);

    (void)fprintf(out, "%" PRIu64 " windows in %.1f s of node %s: meter %s%s, accounting %s\n",
                  replay->windows, seconds, header->node[0] != '\0' ? header->node : "?",
                  header->meter[0] != '\0' ? header->meter : "?",
                  header->estimated ? " (estimated)" : "",
                  header->accounting[0] != '\0' ? header->accounting : "?");
    const struct {
        uint64_t n;
        const char *text;
    } rows[] = {
        {flags->cut, "the last line has no end and was left out"},
        {flags->lost, "windows are missing: the recorder could not keep up"},
        {flags->usage_unknown, "times a package had energy and no CPU time was known"},
        {flags->without_domain, "times a domain was missing that had been there"},
        {flags->implausible, "times a domain drew more than twice what any of its kind does"},
        {flags->too_much_time, "times workloads had far more CPU time than the package has"},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        if (i == 0 && flags->cut)
            (void)fprintf(out, "note: %s\n", rows[0].text);
        else if (rows[i].n > 0)
            (void)fprintf(out, "note: %" PRIu64 " %s\n", rows[i].n, rows[i].text);
    }
}

static void print_domains(const struct agent_replay *replay, FILE *out)
{
    (void)fprintf(out, "\n%-18s %-12s %12s %12s %12s %12s %12s %10s %14s\n", "METHOD", "DOMAIN",
                  "MEASURED J", "IDLE J", "PODS J", "SYSTEM J", "NOBODY J", "BALANCE uJ", "IDLE W");
    for (size_t m = 0; m < replay->n_methods; m++) {
        for (size_t slot = 0; slot < AGENT_SLOTS_MAX; slot++) {
            const struct agent_replay_domain *domain = &replay->methods[m].domains[slot];
            char name[32], idle[48];
            if (!replay->seen[slot])
                continue;
            (void)snprintf(name, sizeof(name), "%zu %s", slot / 2, kind_names[slot % 2]);
            int len = snprintf(idle, sizeof(idle), "%.1f", (double)domain->idle_mw * 1e-3);
            if (domain->idle_sigma_mw > 0)
                (void)snprintf(idle + len, sizeof(idle) - (size_t)len, " +- %.1f",
                               (double)domain->idle_sigma_mw * 1e-3);
            (void)fprintf(out,
                          "%-18s %-12s %12.3f %12.3f %12.3f %12.3f %12.3f %10" PRId64 " %14s\n",
                          replay->methods[m].ops->name, name, J(domain->measured_uj),
                          J(domain->idle_uj), J(domain->pods_uj), J(domain->system_uj),
                          J(domain->unattributed_uj), balance_of(domain), idle);
        }
    }
}

static void print_truth(const struct agent_replay *replay, FILE *out)
{
    if (!replay->has_truth)
        return;
    (void)fprintf(out, "\n%-18s %-12s %15s %15s %18s\n", "METHOD", "DOMAIN", "TRUE ACTIVE J",
                  "MISATTRIBUTED %", "WITHIN 2 SIGMA %");
    for (size_t m = 0; m < replay->n_methods; m++) {
        for (size_t kind = 0; kind < 2; kind++) {
            const struct agent_score_sums *sums =
                agent_replay_score_sums(&replay->methods[m].scores[kind]);
            if (sums->count == 0)
                continue;
            (void)fprintf(out, "%-18s %-12s %15.3f %15.4g", replay->methods[m].ops->name,
                          kind_names[kind], J(sums->due_uj), 100 * agent_score_misattributed(sums));
            if (sums->sure)
                (void)fprintf(out, " %18.4g\n", 100 * (double)sums->inside / (double)sums->count);
            else
                (void)fprintf(out, " %18s\n", "states none");
        }
    }
}

static void print_workload(const struct agent_replay *replay, size_t place,
                           const struct agent_recording_party *party, FILE *out)
{
    (void)fprintf(out, "%12.3f", S(replay->cpu_ns[place]));
    for (size_t m = 0; m < replay->n_methods; m++) {
        const struct agent_replay_workload *workload = &replay->methods[m].workloads[place];
        (void)fprintf(out, " %18.3f", J(workload->uj[0] + workload->uj[1]));
        if (replay->n_methods == 1)
            (void)fprintf(out, " %12.3f", J(workload->sigma_uj));
    }
    if (replay->has_truth)
        (void)fprintf(out, " %12.3f", J(replay->truth_uj[place][0] + replay->truth_uj[place][1]));
    if (party->number == 0)
        (void)fprintf(out, "  the system\n");
    else if (party->text != NULL)
        (void)fprintf(out, "  %s\n", party->text);
    else
        (void)fprintf(out, "  %" PRIu64 "\n", party->number);
}

static int print_workloads(const struct agent_replay *replay, FILE *out)
{
    const struct agent_recording_party *parties = NULL;
    size_t n = workloads_of(replay, &parties);
    kw_cleanup_free struct order *order = order_of(replay, n);

    if (order == NULL)
        return -ENOMEM;
    (void)fprintf(out, "\n%12s", "CPU s");
    for (size_t m = 0; m < replay->n_methods; m++) {
        char title[40];
        (void)snprintf(title, sizeof(title), "%s J", replay->methods[m].ops->name);
        (void)fprintf(out, " %18s", title);
    }
    if (replay->n_methods == 1)
        (void)fprintf(out, " %12s", "SIGMA J");
    if (replay->has_truth)
        (void)fprintf(out, " %12s", "TRUE J");
    (void)fprintf(out, "  WORKLOAD\n");
    for (size_t i = 0; i < n; i++)
        print_workload(replay, order[i].place, &parties[order[i].place], out);
    return 0;
}

int agent_replay_print(const struct agent_replay *replay, FILE *out)
{
    print_head(replay, out);
    print_domains(replay, out);
    print_truth(replay, out);
    int rc = print_workloads(replay, out);
    return rc < 0 ? rc : fflush(out) == 0 && ferror(out) == 0 ? 0 : -EIO;
}

/* ---- JSON ---- */

static void put_text(struct kw_buf *out, const char *key, const char *text)
{
    (void)kw_buf_addf(out, "%s", key);
    (void)kw_buf_add_json(out, text, strlen(text));
}

static void put_method_domains(const struct agent_replay_method *method,
                               const struct agent_replay *replay, struct kw_buf *out)
{
    const char *comma = "";

    for (size_t slot = 0; slot < AGENT_SLOTS_MAX; slot++) {
        const struct agent_replay_domain *domain = &method->domains[slot];
        if (!replay->seen[slot])
            continue;
        (void)kw_buf_addf(out,
                          "%s{\"package\":%zu,\"domain\":\"%s\",\"measured_uj\":%" PRIu64
                          ",\"idle_uj\":%" PRIu64 ",\"pods_uj\":%" PRIu64 ",\"system_uj\":%" PRIu64
                          ",\"unattributed_uj\":%" PRIu64 ",\"conservation_error_uj\":%" PRId64
                          ",\"idle_mw\":%" PRIu64 ",\"idle_sigma_mw\":%" PRIu64 "}",
                          comma, slot / 2, kind_names[slot % 2], domain->measured_uj,
                          domain->idle_uj, domain->pods_uj, domain->system_uj,
                          domain->unattributed_uj, balance_of(domain), domain->idle_mw,
                          domain->idle_sigma_mw);
        comma = ",";
    }
}

static void put_method_truth(const struct agent_replay_method *method, struct kw_buf *out)
{
    const char *comma = "";

    for (size_t kind = 0; kind < 2; kind++) {
        const struct agent_score_sums *sums = agent_replay_score_sums(&method->scores[kind]);
        if (sums->count == 0)
            continue;
        (void)kw_buf_addf(out,
                          "%s\"%s\":{\"active_uj\":%.0f,\"misattributed\":%.9g,"
                          "\"square_error\":%.9g,\"workload_seconds\":%" PRIu64,
                          comma, kind_names[kind], sums->due_uj, agent_score_misattributed(sums),
                          sums->square_error / (double)sums->count, sums->count);
        if (sums->sure)
            (void)kw_buf_addf(out, ",\"within_2_sigma\":%.9g",
                              (double)sums->inside / (double)sums->count);
        (void)kw_buf_adds(out, "}");
        comma = ",";
    }
}

static void put_workload(const struct agent_replay_method *method, size_t place,
                         const struct agent_recording_party *party, struct kw_buf *out)
{
    const struct agent_replay_workload *workload = &method->workloads[place];

    (void)kw_buf_addf(out, "{\"w\":%" PRIu64, party->number);
    if (party->text != NULL)
        put_text(out, ",\"workload\":", party->text);
    (void)kw_buf_addf(out,
                      ",\"cpu_uj\":%" PRIu64 ",\"dram_uj\":%" PRIu64 ",\"sigma_uj\":%" PRIu64 "}",
                      workload->uj[0], workload->uj[1], workload->sigma_uj);
}

static int put_methods(const struct agent_replay *replay, struct kw_buf *out)
{
    const struct agent_recording_party *parties = NULL;
    size_t n = workloads_of(replay, &parties);
    kw_cleanup_free struct order *order = order_of(replay, n);

    if (order == NULL)
        return -ENOMEM;
    for (size_t m = 0; m < replay->n_methods; m++) {
        const struct agent_replay_method *method = &replay->methods[m];
        (void)kw_buf_addf(out, "%s{\"method\":\"%s\",\"unbalanced_uj\":%" PRIu64 ",\"domains\":[",
                          m > 0 ? "," : "", method->ops->name, sum_of(method).unbalanced_uj);
        put_method_domains(method, replay, out);
        (void)kw_buf_adds(out, "],\"truth\":{");
        put_method_truth(method, out);
        (void)kw_buf_adds(out, "},\"workloads\":[");
        for (size_t i = 0; i < n; i++) {
            (void)kw_buf_adds(out, i > 0 ? "," : "");
            put_workload(method, order[i].place, &parties[order[i].place], out);
        }
        (void)kw_buf_adds(out, "]}");
    }
    return 0;
}

int agent_replay_print_json(const struct agent_replay *replay, FILE *out)
{
    const struct agent_recording_header *header = agent_recording_header(replay->recording);
    const struct agent_replay_flags *flags = &replay->flags;
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};

    put_text(&text, "{\"node\":", header->node);
    put_text(&text, ",\"meter\":", header->meter);
    put_text(&text, ",\"accounting\":", header->accounting);
    put_text(&text, ",\"recorded_method\":", header->method);
    (void)kw_buf_addf(&text,
                      ",\"estimated\":%s,\"windows\":%" PRIu64 ",\"duration_s\":%.3f"
                      ",\"flags\":{\"cut\":%s,\"lost\":%" PRIu64 ",\"usage_unknown\":%" PRIu64
                      ",\"without_domain\":%" PRIu64 ",\"implausible\":%" PRIu64
                      ",\"too_much_time\":%" PRIu64 "},\"methods\":[",
                      header->estimated ? "true" : "false", replay->windows,
                      S(agent_recording_window(replay->recording)->t_ns),
                      flags->cut ? "true" : "false", flags->lost, flags->usage_unknown,
                      flags->without_domain, flags->implausible, flags->too_much_time);
    int rc = put_methods(replay, &text);
    (void)kw_buf_adds(&text, "]}\n");
    if (rc < 0 || text.failed)
        return -ENOMEM;
    return fwrite(text.data, 1, text.len, out) == text.len && fflush(out) == 0 ? 0 : -EIO;
}
