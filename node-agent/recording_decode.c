/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording comes from anywhere. Each line is read in one pass into memory that is kept; every
 * count, number and text has a bound, so that a line can cost no more than its own length, and a
 * file no more than AGENT_RECORDING_NUMBERS_MAX workloads. What a line says twice, what goes back
 * in time, or what is no whole number in its range is refused with the key and the value; unknown
 * keys are passed over.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/utf8.h"
#include "node-agent/kin.h"
#include "node-agent/recording_impl.h"

/* What one window may say of times, and of one workload: beyond any machine, and far from where
 * sums overflow. */
#define TIME_MAX_NS UINT64_C(1000000000000000000)
#define CPU_MAX_NS  UINT64_C(1000000000000000)
#define COUNT_MAX   UINT64_C(100000000000000000)
#define NUMBER_MAX  UINT64_C(9007199254740991) /* 2^53 - 1 */
#define IDLE_MAX_MW UINT64_C(10000000)
#define MHZ_MAX     100000

int agent_recording_new(struct agent_recording **ret)
{
    kw_cleanup(agent_recording_free) struct agent_recording *recording =
        calloc(1, sizeof(*recording));

    if (recording == NULL || agent_recording_parties_new(&recording->parties) < 0)
        return -ENOMEM;
    *ret = KW_TAKE_PTR(recording);
    return 0;
}

void agent_recording_free(struct agent_recording **recording)
{
    struct agent_recording *owned = KW_TAKE_PTR(*recording);

    if (owned == NULL)
        return;
    agent_recording_parties_free(&owned->parties);
    free(owned->window.features);
    free(owned->window.truth);
    free(owned->window.ended);
    free(owned);
}

/* ---- windows ---- */

static bool take_domain(struct agent_recording_reader *reader, const char *name,
                        struct agent_recorded_domain *ret)
{
    static const char *const keys[] = {"uj", "interval_ns", "idle_prior_mw", "truth_idle_uj"};
    struct kw_json_token token;
    unsigned seen = 0;

    *ret = (struct agent_recorded_domain){.present = true,
                                          .interval_ns = reader->recording->window.interval_ns};
    if (!agent_line_enter(&reader->line, name, KW_JSON_OBJECT))
        return false;
    while (agent_line_next_key(&reader->line, &token)) {
        switch (agent_line_key(&reader->line, &token, keys, KW_ARRAY_SIZE(keys), &seen)) {
        case -1: return false;
        case 0:
            (void)agent_line_u64(&reader->line, keys[0], AGENT_RECORDING_UJ_MAX, &ret->uj);
            break;
        case 1: (void)agent_line_u64(&reader->line, keys[1], TIME_MAX_NS, &ret->interval_ns); break;
        case 2:
            (void)agent_line_u64(&reader->line, keys[2], IDLE_MAX_MW, &ret->idle_prior_mw);
            break;
        case 3:
            ret->has_truth =
                agent_line_u64(&reader->line, keys[3], AGENT_RECORDING_UJ_MAX, &ret->truth_idle_uj);
            break;
        default: (void)agent_line_skip(&reader->line);
        }
    }
    if (reader->line.rc == 0 && (seen & 1u) == 0)
        return agent_line_fail(&reader->line, -EBADMSG, "a domain has no \"uj\"");
    return reader->line.rc == 0;
}

/** Room for one more row. */
static bool grow_rows(struct agent_recording_reader *reader)
{
    struct agent_recorded_window *window = &reader->recording->window;

    if (window->n < window->cap)
        return true;
    size_t cap = window->cap == 0 ? 64 : 2 * window->cap;
    struct agent_features *features = reallocarray(window->features, cap, sizeof(*features));
    if (features == NULL)
        return agent_line_fail(&reader->line, -ENOMEM, "out of memory");
    window->features = features;
    struct agent_recorded_truth *truth = reallocarray(window->truth, cap, sizeof(*truth));
    if (truth == NULL)
        return agent_line_fail(&reader->line, -ENOMEM, "out of memory");
    window->truth = truth;
    window->cap = cap;
    return true;
}

static bool take_features(struct agent_recording_reader *reader, struct agent_features *features)
{
    const struct agent_recording *recording = reader->recording;
    size_t column = 0;

    if (!agent_line_enter(&reader->line, "f", KW_JSON_ARRAY))
        return false;
    for (; !agent_line_list_ends(&reader->line); column++) {
        uint64_t value = 0;
        if (column == recording->n_columns)
            return agent_line_fail(&reader->line, -EBADMSG,
                                   "\"f\" is longer than the header's \"features\"");
        size_t feature = recording->columns[column];
        const char *name =
            feature == AGENT_RECORDING_NO_FEATURE ? "f" : agent_recording_feature_names[feature];
        if (!agent_line_u64(&reader->line, name, feature < 2 ? CPU_MAX_NS : COUNT_MAX, &value))
            return false;
        if (feature != AGENT_RECORDING_NO_FEATURE)
            *agent_recording_feature(features, feature) = value;
    }
    if (reader->line.rc == 0 && column < recording->n_columns)
        return agent_line_fail(&reader->line, -EBADMSG,
                               "\"f\" is shorter than the header's \"features\"");
    if (reader->line.rc == 0 && features->shared_ns > features->cpu_ns)
        return agent_line_fail(&reader->line, -EBADMSG, "\"shared_ns\" is more than \"cpu_ns\"");
    return reader->line.rc == 0;
}

static bool take_truth(struct agent_recording_reader *reader, struct agent_recorded_truth *ret)
{
    if (!agent_line_enter(&reader->line, "truth_uj", KW_JSON_ARRAY))
        return false;
    for (size_t i = 0; i < 2; i++) {
        if (!agent_line_u64(&reader->line, "truth_uj", AGENT_RECORDING_UJ_MAX, &ret->uj[i]))
            return false;
    }
    ret->present = true;
    return agent_line_list_ends(&reader->line) ||
           agent_line_fail(&reader->line, -EBADMSG, "\"truth_uj\" is not [CPU, DRAM]");
}

/** 16 hexadecimal digits are the agent's own number; any other text is as good a name. */
static uint64_t kin_of(const char *text)
{
    uint64_t kin = 0;

    if (text[0] == '\0')
        return 0;
    if (strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16) {
        for (size_t i = 0; i < 16; i++)
            kin = kin << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
        return kin;
    }
    return agent_number_of(KW_WORKLOAD_POD, text);
}

/** What a row tells of a workload. */
struct news {
    char *kind, *id, *name, *kin;
};

static void clear_news(struct news *news)
{
    free(news->kind);
    free(news->id);
    free(news->name);
    free(news->kin);
}

static bool take_news(struct agent_recording_reader *reader, const struct news *news, size_t row)
{
    struct agent_recording *recording = reader->recording;
    struct agent_features *features = &recording->window.features[row];
    struct agent_recording_party *party = NULL;
    int rc = agent_recording_parties_meet(recording->parties, features->workload, &party);

    if (rc == -E2BIG)
        return agent_line_fail(&reader->line, rc, "more than 262144 workloads in one recording");
    if (rc < 0)
        return agent_line_fail(&reader->line, rc, "out of memory");
    if (party->seen == recording->stamp) {
        reader->line.rc =
            kw_err_set(reader->line.err, -EBADMSG, "\"w\" is %llu twice in one package",
                       (unsigned long long)features->workload);
        return false;
    }
    party->seen = recording->stamp;
    if (news->kin != NULL)
        party->kin = kin_of(news->kin);
    features->kin = party->kin;
    if (news->id == NULL || news->id[0] == '\0')
        return true;
    rc = agent_recording_parties_name(party, news->kind, news->id, news->name);
    return rc == 0 || agent_line_fail(&reader->line, rc, "out of memory");
}

static bool take_row_keys(struct agent_recording_reader *reader, struct news *news, size_t row)
{
    static const char *const keys[] = {"w", "f", "truth_uj", "kind", "id", "name", "kin"};
    struct agent_recorded_window *window = &reader->recording->window;
    struct kw_json_token token;
    unsigned seen = 0;

    while (agent_line_next_key(&reader->line, &token)) {
        switch (agent_line_key(&reader->line, &token, keys, KW_ARRAY_SIZE(keys), &seen)) {
        case -1: return false;
        case 0:
            (void)agent_line_u64(&reader->line, keys[0], NUMBER_MAX,
                                 &window->features[row].workload);
            break;
        case 1: (void)take_features(reader, &window->features[row]); break;
        case 2: (void)take_truth(reader, &window->truth[row]); break;
        case 3: (void)agent_line_copy(&reader->line, keys[3], &news->kind); break;
        case 4: (void)agent_line_copy(&reader->line, keys[4], &news->id); break;
        case 5: (void)agent_line_copy(&reader->line, keys[5], &news->name); break;
        case 6: (void)agent_line_copy(&reader->line, keys[6], &news->kin); break;
        default: (void)agent_line_skip(&reader->line);
        }
    }
    if (reader->line.rc == 0 && (seen & 1u) == 0)
        return agent_line_fail(&reader->line, -EBADMSG, "a workload has no \"w\"");
    return reader->line.rc == 0;
}

static bool take_row(struct agent_recording_reader *reader, struct agent_recorded_package *package)
{
    struct agent_recorded_window *window = &reader->recording->window;
    size_t row = window->n;

    if (package->n == AGENT_RECORDING_WORKLOADS_MAX)
        return agent_line_fail(&reader->line, -E2BIG, "more than 16384 workloads in one package");
    if (!grow_rows(reader) || !agent_line_enter(&reader->line, "workloads", KW_JSON_OBJECT))
        return false;
    window->features[row] = (struct agent_features){0};
    window->truth[row] = (struct agent_recorded_truth){0};
    kw_cleanup(clear_news) struct news news = {0};
    if (!take_row_keys(reader, &news, row) || !take_news(reader, &news, row))
        return false;
    if ((package->n == 0) != (window->features[row].workload == 0))
        return agent_line_fail(&reader->line, -EBADMSG,
                               "the first workload of a package is the system, \"w\": 0");
    window->n++;
    package->n++;
    return true;
}

static bool take_rows(struct agent_recording_reader *reader, struct agent_recorded_package *package)
{
    if (!agent_line_enter(&reader->line, "workloads", KW_JSON_ARRAY))
        return false;
    reader->recording->stamp++;
    while (!agent_line_list_ends(&reader->line)) {
        if (!take_row(reader, package))
            return false;
    }
    if (reader->line.rc == 0 && package->n == 0)
        return agent_line_fail(&reader->line, -EBADMSG, "\"workloads\" lacks the system, \"w\": 0");
    package->usage_known = true;
    return reader->line.rc == 0;
}

static bool take_package(struct agent_recording_reader *reader)
{
    static const char *const keys[] = {"package", "mhz", "cpu", "dram", "workloads"};
    struct agent_recorded_window *window = &reader->recording->window;
    struct agent_recorded_package package = {.package = AGENT_PACKAGES_MAX, .first = window->n};
    struct kw_json_token token;
    uint64_t number = 0;
    unsigned seen = 0;

    if (!agent_line_enter(&reader->line, "packages", KW_JSON_OBJECT))
        return false;
    while (agent_line_next_key(&reader->line, &token)) {
        switch (agent_line_key(&reader->line, &token, keys, KW_ARRAY_SIZE(keys), &seen)) {
        case -1: return false;
        case 0:
            if (agent_line_u64(&reader->line, keys[0], AGENT_PACKAGES_MAX - 1, &number))
                package.package = (unsigned)number;
            break;
        case 1:
            if (agent_line_u64(&reader->line, keys[1], MHZ_MAX, &number))
                package.mhz = (unsigned)number;
            break;
        case 2: (void)take_domain(reader, keys[2], &package.domains[AGENT_DOMAIN_CPU]); break;
        case 3: (void)take_domain(reader, keys[3], &package.domains[AGENT_DOMAIN_DRAM]); break;
        case 4: (void)take_rows(reader, &package); break;
        default: (void)agent_line_skip(&reader->line);
        }
    }
    if (reader->line.rc == 0 && package.package == AGENT_PACKAGES_MAX)
        return agent_line_fail(&reader->line, -EBADMSG,
                               "an element of \"packages\" has no \"package\"");
    for (size_t i = 0; i < window->n_packages && reader->line.rc == 0; i++) {
        if (window->packages[i].package == package.package)
            return agent_line_fail(&reader->line, -EBADMSG,
                                   "a \"package\" is given twice in one window");
    }
    if (reader->line.rc == 0)
        window->packages[window->n_packages++] = package;
    return reader->line.rc == 0;
}

static bool take_ended(struct agent_recording_reader *reader)
{
    struct agent_recorded_window *window = &reader->recording->window;

    if (!agent_line_enter(&reader->line, "ended", KW_JSON_ARRAY))
        return false;
    while (!agent_line_list_ends(&reader->line)) {
        if (window->n_ended == window->cap_ended) {
            size_t cap = window->cap_ended == 0 ? 64 : 2 * window->cap_ended;
            uint64_t *ended = reallocarray(window->ended, cap, sizeof(*ended));
            if (ended == NULL)
                return agent_line_fail(&reader->line, -ENOMEM, "out of memory");
            window->ended = ended;
            window->cap_ended = cap;
        }
        if (!agent_line_u64(&reader->line, "ended", NUMBER_MAX, &window->ended[window->n_ended]))
            return false;
        window->n_ended++;
    }
    return reader->line.rc == 0;
}

static bool take_window(struct agent_recording_reader *reader)
{
    static const char *const keys[] = {"t_ns", "interval_ns", "lost", "has", "ended", "packages"};
    struct agent_recorded_window *window = &reader->recording->window;
    uint64_t before_ns = window->t_ns;
    struct kw_json_token token;
    unsigned seen = 0;

    window->n = window->n_packages = window->n_ended = 0;
    window->t_ns = window->interval_ns = window->lost = 0;
    window->has = reader->recording->header.has;
    if (!agent_line_enter(&reader->line, "the line", KW_JSON_OBJECT))
        return false;
    while (agent_line_next_key(&reader->line, &token)) {
        switch (agent_line_key(&reader->line, &token, keys, KW_ARRAY_SIZE(keys), &seen)) {
        case -1: return false;
        case 0: (void)agent_line_u64(&reader->line, keys[0], TIME_MAX_NS, &window->t_ns); break;
        case 1:
            (void)agent_line_u64(&reader->line, keys[1], TIME_MAX_NS, &window->interval_ns);
            break;
        case 2: (void)agent_line_u64(&reader->line, keys[2], UINT32_MAX, &window->lost); break;
        case 3: (void)agent_recording_read_has(reader, &window->has); break;
        case 4: (void)take_ended(reader); break;
        case 5:
            if ((seen & 2u) == 0)
                return agent_line_fail(&reader->line, -EBADMSG,
                                       "\"interval_ns\" must come before \"packages\"");
            if (!agent_line_enter(&reader->line, keys[5], KW_JSON_ARRAY))
                return false;
            while (!agent_line_list_ends(&reader->line) && take_package(reader))
                ;
            break;
        default: (void)agent_line_skip(&reader->line);
        }
    }
    if (reader->line.rc == 0 && (seen & 3u) != 3u)
        return agent_line_fail(&reader->line, -EBADMSG,
                               "a window needs \"t_ns\" and \"interval_ns\"");
    if (reader->line.rc == 0 && window->t_ns <= before_ns) {
        reader->line.rc =
            kw_err_set(reader->line.err, -EBADMSG,
                       "\"t_ns\" is %llu, not above that of the window before, %llu",
                       (unsigned long long)window->t_ns, (unsigned long long)before_ns);
    }
    return reader->line.rc == 0;
}

int agent_recording_take(struct agent_recording *recording, const char *line, size_t len,
                         struct kw_err *err)
{
    struct agent_recording_reader reader = {.recording = recording, .line = {.err = err}};
    struct kw_json_token token;
    bool first = !recording->begun;

    size_t mark = first ? kw_utf8_mark(line, len) : 0;
    line += mark;
    len -= mark;
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\r' || line[len - 1] == '\t'))
        len--;
    if (len == 0)
        return AGENT_RECORDING_BLANK;
    if (len > AGENT_RECORDING_LINE_MAX)
        return kw_err_set(err, -E2BIG, "the line is longer than 16 MiB");
    kw_json_begin(&reader.line.json, line, len);
    if (first ? !agent_recording_read_header(&reader) : !take_window(&reader))
        return reader.line.rc;
    if (kw_json_next(&reader.line.json, &token) != KW_JSON_END)
        return kw_err_set(err, -EBADMSG, "there is more on the line than one object");
    recording->begun = true;
    return first ? AGENT_RECORDING_HEADER : AGENT_RECORDING_WINDOW;
}

/* ---- what was read ---- */

const struct agent_recording_header *agent_recording_header(const struct agent_recording *recording)
{
    return &recording->header;
}

const struct agent_recorded_window *agent_recording_window(const struct agent_recording *recording)
{
    return &recording->window;
}

size_t agent_recording_parties(const struct agent_recording *recording,
                               const struct agent_recording_party **ret)
{
    return agent_recording_parties_all(recording->parties, ret);
}

size_t agent_recording_place(const struct agent_recording *recording, uint64_t number)
{
    return agent_recording_parties_place(recording->parties, number);
}

struct agent_window agent_recording_question(const struct agent_recording *recording,
                                             const struct agent_recorded_package *package,
                                             bool dram)
{
    const struct agent_recorded_domain *domain = &package->domains[dram ? 1 : 0];
    unsigned cpus = recording->header.package_cpus[package->package];

    return (struct agent_window){
        .domain = 2 * package->package + (dram ? 1 : 0),
        .dram = dram,
        .has = recording->window.has,
        .n_cpus = cpus > 0 ? cpus : recording->header.n_online,
        .mhz = package->mhz,
        .interval_ns = domain->interval_ns,
        .measured_uj = domain->uj,
        .idle_prior_mw = domain->idle_prior_mw,
        .n = package->n,
        .features = recording->window.features + package->first,
    };
}
