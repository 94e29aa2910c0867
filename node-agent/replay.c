/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "node-agent/domain.h"

#define CHUNK (64u << 10)

/* CPU time and energy are not read at one instant. */
#define TIME_SLACK 2

void agent_replay_free(struct agent_replay *replay)
{
    for (size_t m = 0; m < replay->n_methods; m++) {
        struct agent_replay_method *method = &replay->methods[m];
        if (method->state != NULL)
            method->ops->close(&method->state);
        free(method->workloads);
        agent_replay_score_free(&method->scores[0]);
        agent_replay_score_free(&method->scores[1]);
    }
    agent_recording_free(&replay->recording);
    free(replay->cpu_ns);
    free(replay->truth_uj);
    free(replay->shares);
    *replay = (struct agent_replay){0};
}

static int add_method(struct agent_replay *replay, const struct agent_attribution_ops *ops)
{
    struct agent_replay_method *method = &replay->methods[replay->n_methods];

    if (replay->n_methods == AGENT_REPLAY_METHODS_MAX)
        return -ENOSPC;
    int rc = ops->open(AGENT_RECORDING_WORKLOADS_MAX, &method->state);
    if (rc < 0)
        return rc;
    method->ops = ops;
    replay->n_methods++;
    return 0;
}

/** Whether a name means something. */
static int check_methods(const char *methods, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf names = {0};
    bool known = methods == NULL || strcmp(methods, "all") == 0;

    for (size_t i = 0; agent_attributions[i] != NULL && !known; i++) {
        known = strcmp(methods, agent_attributions[i]->name) == 0;
        (void)kw_buf_addf(&names, ", %s", agent_attributions[i]->name);
    }
    return known ? 0
                 : kw_err_set(err, -EINVAL, "no method is called \"%.60s\"; there are: all%s",
                              methods, names.data != NULL ? names.data : "");
}

static int choose_methods(struct agent_replay *replay, const char *methods)
{
    const char *wanted =
        methods != NULL ? methods : agent_recording_header(replay->recording)->method;
    int rc = 0;

    for (size_t i = 0; agent_attributions[i] != NULL && rc == 0; i++) {
        if (strcmp(wanted, agent_attributions[i]->name) == 0 || strcmp(wanted, "all") == 0)
            rc = add_method(replay, agent_attributions[i]);
    }
    if (rc == 0 && replay->n_methods == 0) /* somebody else's recording */
        rc = add_method(replay, &agent_attribution_ratio_cpu);
    return rc;
}

/** Makes room for all workloads that the recording has so far. */
static int reserve(struct agent_replay *replay)
{
    const struct agent_recording_party *unused = NULL;
    size_t n = agent_recording_parties(replay->recording, &unused);

    if (n <= replay->cap)
        return 0;
    size_t cap = 2 * n + 64;
    uint64_t *cpu_ns = reallocarray(replay->cpu_ns, cap, sizeof(*cpu_ns));
    if (cpu_ns == NULL)
        return -ENOMEM;
    memset(cpu_ns + replay->cap, 0, (cap - replay->cap) * sizeof(*cpu_ns));
    replay->cpu_ns = cpu_ns;
    uint64_t(*truth_uj)[2] = reallocarray(replay->truth_uj, cap, sizeof(*truth_uj));
    if (truth_uj == NULL)
        return -ENOMEM;
    memset(truth_uj + replay->cap, 0, (cap - replay->cap) * sizeof(*truth_uj));
    replay->truth_uj = truth_uj;
    for (size_t m = 0; m < replay->n_methods; m++) {
        struct agent_replay_workload *workloads =
            reallocarray(replay->methods[m].workloads, cap, sizeof(*workloads));
        if (workloads == NULL)
            return -ENOMEM;
        memset(workloads + replay->cap, 0, (cap - replay->cap) * sizeof(*workloads));
        replay->methods[m].workloads = workloads;
    }
    replay->cap = cap;
    return 0;
}

/** Books an answer; one that does not add up is nobody's, as in the agent. */
static int book(struct agent_replay *replay, struct agent_replay_method *method,
                const struct agent_window *asked, const struct agent_split *split,
                const struct agent_recorded_truth *truth)
{
    struct agent_replay_domain *domain = &method->domains[asked->domain];
    unsigned kind = asked->dram ? 1 : 0;
    unsigned __int128 sum = (unsigned __int128)split->idle_uj + split->unattributed_uj;
    int rc = 0;

    for (size_t i = 0; i < asked->n; i++)
        sum += split->shares[i].active_uj;
    domain->measured_uj += asked->measured_uj;
    domain->idle_mw = split->idle_mw;
    domain->idle_sigma_mw = split->idle_sigma_mw;
    if (sum != asked->measured_uj) {
        domain->unattributed_uj += asked->measured_uj;
        domain->unbalanced_uj += asked->measured_uj;
        return 0;
    }
    domain->idle_uj += split->idle_uj;
    domain->unattributed_uj += split->unattributed_uj;
    for (size_t i = 0; i < asked->n && rc == 0; i++) {
        const struct agent_share *share = &split->shares[i];
        size_t place = agent_recording_place(replay->recording, asked->features[i].workload);
        *(i == 0 ? &domain->system_uj : &domain->pods_uj) += share->active_uj;
        method->workloads[place].uj[kind] += share->active_uj;
        method->workloads[place].sigma_uj += share->sigma_uj;
        if (truth[i].present)
            rc = agent_replay_score_add(&method->scores[kind], place, share->active_uj,
                                        truth[i].uj[kind], share->sigma_uj);
    }
    return rc;
}

static int take_domain(struct agent_replay *replay, const struct agent_recorded_package *package,
                       bool dram)
{
    const struct agent_recorded_window *window = agent_recording_window(replay->recording);
    struct agent_window asked = agent_recording_question(replay->recording, package, dram);
    uint64_t bound_mw = 2 * agent_domain_bound_mw(dram ? AGENT_DOMAIN_DRAM : AGENT_DOMAIN_CPU);
    int rc = 0;

    replay->seen[asked.domain] = true;
    if ((unsigned __int128)asked.measured_uj * 1000000 >
        (unsigned __int128)bound_mw * asked.interval_ns)
        replay->flags.implausible++;
    for (size_t m = 0; m < replay->n_methods && rc == 0; m++) {
        struct agent_replay_method *method = &replay->methods[m];
        struct agent_split split = {.shares = replay->shares};
        method->ops->split(method->state, &asked, &split);
        rc = book(replay, method, &asked, &split, window->truth + package->first);
    }
    return rc;
}

/** Adds to a sum that must not wrap. @return false: it would. */
static bool add(uint64_t *sum, uint64_t value)
{
    if (*sum > (uint64_t)INT64_MAX - value)
        return false;
    *sum += value;
    return true;
}

/** @return false: sums beyond what can be told. */
static bool take_times(struct agent_replay *replay, const struct agent_recorded_package *package)
{
    const struct agent_recorded_window *window = agent_recording_window(replay->recording);
    struct agent_window asked = agent_recording_question(replay->recording, package, false);
    unsigned __int128 all_ns = 0;
    bool fits = add(&replay->measured_uj, package->domains[AGENT_DOMAIN_CPU].uj) &&
                add(&replay->measured_uj, package->domains[AGENT_DOMAIN_DRAM].uj);

    for (size_t i = 0; i < package->n && fits; i++) {
        const struct agent_recorded_truth *truth = &window->truth[package->first + i];
        size_t place = agent_recording_place(replay->recording, asked.features[i].workload);
        fits = add(&replay->cpu_ns[place], asked.features[i].cpu_ns);
        all_ns += asked.features[i].cpu_ns;
        replay->has_truth = replay->has_truth || truth->present;
        for (size_t kind = 0; kind < 2 && fits; kind++)
            fits = add(&replay->truth_uj[place][kind], truth->uj[kind]);
    }
    if (asked.n_cpus > 0 &&
        all_ns > TIME_SLACK * (unsigned __int128)asked.n_cpus * window->interval_ns)
        replay->flags.too_much_time++;
    replay->flags.usage_unknown += !package->usage_known;
    return fits;
}

static int take_window(struct agent_replay *replay)
{
    const struct agent_recorded_window *window = agent_recording_window(replay->recording);
    bool here[AGENT_SLOTS_MAX] = {false};

    if (replay->rows != NULL) {
        agent_replay_rows_add(replay->rows, window);
        return 0;
    }
    int rc = reserve(replay);
    if (rc < 0)
        return rc;
    replay->windows++;
    replay->flags.lost += window->lost;
    for (size_t m = 0; m < replay->n_methods; m++) {
        struct agent_replay_method *method = &replay->methods[m];
        for (size_t i = 0; i < window->n_ended; i++)
            method->ops->forget(method->state, window->ended[i]);
        for (size_t kind = 0; kind < 2; kind++)
            agent_replay_score_window(&method->scores[kind], window->t_ns);
    }
    for (size_t p = 0; p < window->n_packages && rc == 0; p++) {
        const struct agent_recorded_package *package = &window->packages[p];
        if (!take_times(replay, package))
            return -EOVERFLOW;
        for (unsigned kind = 0; kind < 2 && rc == 0; kind++) {
            here[2 * package->package + kind] = package->domains[kind].present;
            if (package->domains[kind].present)
                rc = take_domain(replay, package, kind == 1);
        }
    }
    for (size_t slot = 0; slot < AGENT_SLOTS_MAX; slot++)
        replay->flags.without_domain += replay->seen[slot] && !here[slot];
    return rc;
}

static int begin(struct agent_replay *replay, const char *methods, struct kw_err *err)
{
    const struct agent_recording_header *header = agent_recording_header(replay->recording);

    replay->begun = true;
    return replay->rows != NULL ? agent_replay_rows_begin(replay->rows, header, err)
                                : choose_methods(replay, methods);
}

static int take_line(struct agent_replay *replay, const char *line, size_t len, const char *methods,
                     struct kw_err *err)
{
    int rc = agent_recording_take(replay->recording, line, len, err);

    replay->line++;
    if (rc == AGENT_RECORDING_HEADER)
        rc = begin(replay, methods, err);
    else if (rc == AGENT_RECORDING_WINDOW)
        rc = take_window(replay);
    if (rc == -EOVERFLOW)
        (void)kw_err_set(err, rc, "the sums of energy or CPU time are beyond 2^63");
    if (rc < 0 && err->code == 0)
        (void)kw_err_set(err, rc, "%s", kw_errno_text(rc));
    return rc < 0
               ? kw_err_wrap(err, "%s: line %llu", replay->file, (unsigned long long)replay->line)
               : 0;
}

/** Takes all whole lines of what was read, and keeps the rest. */
static int take_lines(struct agent_replay *replay, struct kw_buf *text, const char *methods,
                      struct kw_err *err)
{
    size_t begin = 0;
    int rc = 0;

    for (;;) {
        const char *end = memchr(text->data + begin, '\n', text->len - begin);
        if (end == NULL)
            break;
        size_t len = (size_t)(end - text->data) - begin;
        rc = take_line(replay, text->data + begin, len, methods, err);
        if (rc < 0)
            return rc;
        begin += len + 1;
    }
    memmove(text->data, text->data + begin, text->len - begin);
    text->len -= begin;
    if (text->len > AGENT_RECORDING_LINE_MAX)
        return kw_err_set(err, -E2BIG, "%s: line %llu is longer than 16 MiB", replay->file,
                          (unsigned long long)replay->line + 1);
    return 0;
}

static int read_all(struct agent_replay *replay, FILE *in, const char *methods, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};
    int rc = 0;

    for (;;) {
        if (kw_buf_reserve(&text, CHUNK) < 0)
            return kw_err_set(err, -ENOMEM, "%s: out of memory", replay->file);
        size_t n = fread(text.data + text.len, 1, CHUNK, in);
        text.len += n;
        if (n > 0)
            rc = take_lines(replay, &text, methods, err);
        if (rc < 0)
            return rc;
        if (n == 0)
            break;
    }
    if (ferror(in) != 0)
        return kw_err_set(err, -errno, "%s: %s", replay->file, kw_errno_text(errno));
    /* of a line without its end nobody knows what is missing */
    replay->flags.cut = text.len > 0;
    if (!replay->begun)
        return kw_err_set(err, -ENODATA, "%s: no recording: it has no whole line", replay->file);
    for (size_t m = 0; m < replay->n_methods; m++) {
        agent_replay_score_end(&replay->methods[m].scores[0]);
        agent_replay_score_end(&replay->methods[m].scores[1]);
    }
    return 0;
}

static int run(struct agent_replay *replay, const char *methods, struct kw_err *err)
{
    bool standard = strcmp(replay->file, "-") == 0;
    kw_cleanup_file FILE *opened = standard ? NULL : fopen(replay->file, "re");

    if (!standard && opened == NULL)
        return kw_err_set(err, -errno, "%s: %s", replay->file, kw_errno_text(errno));
    if (standard)
        replay->file = "standard input";
    replay->shares = calloc(AGENT_RECORDING_WORKLOADS_MAX, sizeof(*replay->shares));
    if (replay->shares == NULL || agent_recording_new(&replay->recording) < 0)
        return kw_err_set(err, -ENOMEM, "%s: out of memory", replay->file);
    return read_all(replay, standard ? stdin : opened, methods, err);
}

int agent_replay_run(struct agent_replay *replay, const char *file, const char *methods,
                     struct kw_err *err)
{
    *replay = (struct agent_replay){.file = file};
    int rc = check_methods(methods, err);
    return rc == 0 ? run(replay, methods, err) : rc;
}

int agent_replay_run_rows(struct agent_replay *replay, const char *file, FILE *out,
                          struct kw_err *err)
{
    struct agent_replay_rows rows = {.out = out};

    *replay = (struct agent_replay){.file = file, .rows = &rows};
    int rc = run(replay, NULL, err);
    if (rc == 0) {
        rc = agent_replay_rows_end(&rows, err);
        if (rc < 0)
            (void)kw_err_wrap(err, "%s", replay->file);
    }
    replay->rows = NULL;
    return rc;
}
