/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/simulate.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/conf.h"
#include "common/file.h"
#include "extender/sim_input.h"

struct settings {
    char *fleet, *pods;
    unsigned policy, output;
    uint64_t weight, interval_ns, late_ns, tier_age_ns, seed;
    double noise;
    bool resource_scores;
};

#define AT(field) offsetof(struct settings, field)

/** The last is all of them. */
static const char *const policies[] = {"spread", "pack",  "marginal", "peaks",
                                       "kwatt",  "tiers", "all",      NULL};
#define ALL EXT_SIM_POLICY__MAX

static const char *const outputs[] = {"table", "json", NULL};
enum { TABLE, JSON };

static const struct kw_conf_option rows[] = {
    {.flag = "fleet",
     .type = KW_CONF_STRING,
     .offset = AT(fleet),
     .min = 1,
     .max = 4095,
     .metavar = "FILE",
     .group = "Cluster",
     .help = "machines as CSV: node, work_units, load_pct, watts; a line for each point of a\n"
             "machine's curve (docs/placement.md lists all columns)"},
    {.flag = "pods",
     .type = KW_CONF_STRING,
     .offset = AT(pods),
     .min = 1,
     .max = 4095,
     .metavar = "FILE",
     .group = "Cluster",
     .help = "pods as CSV: pod, arrival_s, end_s, request_cores, use"},
    {.flag = "policy",
     .type = KW_CONF_CHOICE,
     .offset = AT(policy),
     .def = "all",
     .choices = policies,
     .metavar = "NAME",
     .group = "Placement",
     .help = "spread (the default plugins), pack (MostAllocated), marginal, peaks, kwatt,\n"
             "tiers (NodeAffinity by labels that kwatt writes), all"},
    {.flag = "weight",
     .type = KW_CONF_U64,
     .offset = AT(weight),
     .def = "3",
     .min = 1,
     .max = 100,
     .metavar = "NUMBER",
     .group = "Placement",
     .help = "of kwatt, tiers, marginal and peaks beside the scheduler's plugins"},
    {.flag = "resource-scores",
     .type = KW_CONF_BOOL,
     .offset = AT(resource_scores),
     .def = "true",
     .group = "Placement",
     .help =
         "beside kwatt, marginal and peaks, NodeResourcesFit and BalancedAllocation score, too;\n"
         "beside tiers it is NodeResourcesFit, as in the profile that scheduler-config prints"},
    {.flag = "tier-age",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(tier_age_ns),
     .def = "60s",
     .max = 3600 * KW_NS_PER_S,
     .metavar = "TIME",
     .group = "Placement",
     .help = "of tiers: least time between two changes of a node's label"},
    {.flag = "interval",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(interval_ns),
     .def = "5s",
     .min = KW_NS_PER_S / 10,
     .max = 600 * KW_NS_PER_S,
     .metavar = "TIME",
     .group = "Data",
     .help = "how often nodes are measured"},
    {.flag = "late",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(late_ns),
     .def = "0s",
     .max = 600 * KW_NS_PER_S,
     .metavar = "TIME",
     .group = "Data",
     .help = "how late that comes, unnoticed"},
    {.flag = "noise",
     .type = KW_CONF_DOUBLE,
     .offset = AT(noise),
     .def = "0",
     .max = 1,
     .metavar = "PART",
     .group = "Data",
     .help = "standard deviation of what is measured and of curves, 0.05: 5 %"},
    {.flag = "seed",
     .type = KW_CONF_U64,
     .offset = AT(seed),
     .def = "1",
     .min = 1,
     .max = UINT32_MAX,
     .metavar = "NUMBER",
     .group = "Data",
     .help = "of ties and noise; the same seed gives the same figures"},
    {.flag = "output",
     .type = KW_CONF_CHOICE,
     .offset = AT(output),
     .def = "table",
     .choices = outputs,
     .metavar = "FORM",
     .group = "Output",
     .help = "table or json"},
};

static const struct kw_conf_program program = {
    .name = "kwatt simulate placement",
    .synopsis = "--fleet FILE --pods FILE [options]",
    .summary =
        "Says what a cluster would draw under several schedulers: machines with their power\n"
        "curves, pods that come and go, and the code that kwatt scores with. Memory, replicas\n"
        "(column workload), sleep and prices of energy count where the files have them.",
    .examples =
        "  kwatt simulate placement --fleet fleet.csv --pods pods.csv\n"
        "  kwatt simulate placement --fleet fleet.csv --pods pods.csv --policy kwatt -o json\n"
        "  kwatt simulate placement --fleet fleet.csv --pods pods.csv --noise 0.05 --interval "
        "60s\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
};

static int read_file(const char *path, const char *flag,
                     int (*read)(const char *csv, size_t len, struct ext_sim_input *input,
                                 struct kw_err *err),
                     struct ext_sim_input *input, struct kw_err *err)
{
    kw_cleanup_free char *csv = NULL;
    size_t len = 0;

    if (path == NULL)
        return kw_err_set(err, -EINVAL, "--%s is not given; --help explains", flag);
    int rc = kw_file_slurp(path, EXT_SIM_FILE_MAX, &csv, &len);
    if (rc < 0)
        (void)kw_err_set(err, rc, "%s", kw_errno_text(rc));
    else
        rc = read(csv, len, input, err);
    return rc < 0 ? kw_err_wrap(err, "%s", path) : 0;
}

static double last_end_s(const struct ext_sim_input *input)
{
    double last_s = 0;

    for (size_t i = 0; i < input->n_pods; i++)
        last_s = fmax(last_s, input->pods[i].end_s);
    return last_s;
}

static double kwh(double uj)
{
    return uj / 3.6e12;
}

static void write_row(const struct settings *settings, const char *policy,
                      const struct ext_sim_result *result, const struct ext_sim_result *base,
                      bool first, FILE *out)
{
    bool has_base = base->energy_uj > 0;
    double saved = has_base ? 100 * (1 - result->energy_uj / base->energy_uj) : 0;

    if (settings->output == JSON) {
        (void)fprintf(
            out,
            "%s{\"policy\":\"%s\",\"energy_uj\":%.0f,\"priced_uj\":%.0f,\"mean_mw\":%.0f,"
            "\"peak_mw\":%.0f,\"over_85_permille\":%.1f,\"work_mcpu_s\":%.0f,\"unplaced\":"
            "%zu,\"waited\":%zu,\"wakes\":%zu",
            first ? "" : ",", policy, result->energy_uj, result->priced_uj, result->mean_mw,
            result->peak_mw, result->over_permille, result->work_mcpu_s, result->unplaced,
            result->waited, result->wakes);
        if (has_base)
            (void)fprintf(out, ",\"saved_percent\":%.2f", saved);
        (void)fprintf(out, "}");
        return;
    }
    if (first)
        (void)fprintf(out, "%-9s %12s %8s %11s %11s %9s %9s %7s %6s\n", "POLICY", "ENERGY kWh",
                      "SAVED %", "MEAN W", "PEAK W", "OVER 85%", "UNPLACED", "WAITED", "WAKES");
    char text[32] = "-";
    if (has_base)
        (void)snprintf(text, sizeof(text), "%.1f", saved);
    (void)fprintf(out, "%-9s %12.3f %8s %11.1f %11.1f %8.1f%% %9zu %7zu %6zu\n", policy,
                  kwh(result->energy_uj), text, result->mean_mw * 1e-3, result->peak_mw * 1e-3,
                  result->over_permille / 10, result->unplaced, result->waited, result->wakes);
}

static struct ext_sim_conf conf_of(const struct settings *settings, enum ext_sim_policy policy,
                                   double to_s)
{
    struct ext_sim_conf conf = ext_sim_defaults(policy, to_s);

    conf.profile = settings->resource_scores ? EXT_SIM_PROFILE_DEFAULT : EXT_SIM_PROFILE_QUIET;
    conf.weight = (unsigned)settings->weight;
    conf.interval_s = (double)settings->interval_ns / (double)KW_NS_PER_S;
    conf.late_s = (double)settings->late_ns / (double)KW_NS_PER_S;
    conf.tier_age_s = (double)settings->tier_age_ns / (double)KW_NS_PER_S;
    conf.noise = settings->noise;
    conf.seed = settings->seed;
    return conf;
}

/** What is under way, for somebody who waits at a terminal; -1 elsewhere. */
struct progress {
    int terminal;
    unsigned n, n_policies;
    uint64_t begun_ns;
};

static void show_progress(struct progress *progress, const char *policy,
                          const struct ext_sim_input *input)
{
    if (progress->terminal >= 0)
        (void)dprintf(progress->terminal,
                      "\r\033[Kpolicy %u of %u: %s, %zu pods on %zu nodes (%llu s so far)",
                      ++progress->n, progress->n_policies, policy, input->n_pods, input->n_nodes,
                      (unsigned long long)((kw_now_ns() - progress->begun_ns) / KW_NS_PER_S));
}

static void erase_progress(const struct progress *progress)
{
    if (progress->terminal >= 0)
        (void)dprintf(progress->terminal, "\r\033[K");
}

static int run_all(const struct settings *settings, const struct ext_sim_input *input,
                   struct progress *progress, FILE *out, struct kw_err *err)
{
    struct ext_sim_result base = {0}, result;
    double to_s = last_end_s(input);
    bool first = true;

    for (unsigned policy = 0; policy < EXT_SIM_POLICY__MAX; policy++) {
        if (settings->policy != ALL && settings->policy != policy)
            continue;
        struct ext_sim_conf conf = conf_of(settings, policy, to_s);
        show_progress(progress, ext_sim_policy_names[policy], input);
        int rc = ext_sim_run(input, &conf, &result, NULL);
        erase_progress(progress);
        if (rc < 0)
            return kw_err_set(err, rc, "%s", kw_errno_text(rc));
        if (policy == EXT_SIM_SPREAD)
            base = result;
        write_row(settings, ext_sim_policy_names[policy], &result, &base, first, out);
        first = false;
    }
    return 0;
}

/** @param messages where progress is shown if it is a terminal. */
static int simulate(const struct settings *settings, FILE *out, FILE *messages, struct kw_err *err)
{
    kw_cleanup(ext_sim_input_free) struct ext_sim_input input = {0};
    int fd = fileno(messages); /* -1: a stream in memory */
    struct progress progress = {.terminal = fd >= 0 && isatty(fd) ? fd : -1,
                                .n_policies = settings->policy == ALL ? EXT_SIM_POLICY__MAX : 1,
                                .begun_ns = kw_now_ns()};
    int rc = read_file(settings->fleet, "fleet", ext_sim_read_fleet, &input, err);

    if (rc == 0)
        rc = read_file(settings->pods, "pods", ext_sim_read_pods, &input, err);
    if (rc < 0)
        return rc;
    if (settings->output == JSON)
        (void)fprintf(out, "{\"nodes\":%zu,\"pods\":%zu,\"seconds\":%.0f,\"policies\":[",
                      input.n_nodes, input.n_pods, last_end_s(&input));
    rc = run_all(settings, &input, &progress, out, err);
    if (rc == 0 && settings->output == JSON)
        (void)fprintf(out, "]}\n");
    return rc;
}

/** -o as kubectl has it. */
static void spell_out(int argc, char **argv)
{
    static char output[] = "--output";

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = output;
    }
}

int ext_simulate(int argc, char **argv, char *const *envp, FILE *out, FILE *err)
{
    struct settings settings = {0};
    struct kw_err why = {0};

    spell_out(argc, argv);
    int rc = kw_conf_load(&program, argc, argv, envp, &settings, out, NULL, &why);
    if (rc == KW_CONF_DONE)
        return 0;
    if (rc == 0)
        rc = simulate(&settings, out, err, &why);
    kw_conf_free(&program, &settings);
    if (rc < 0) {
        (void)fprintf(err, "kwatt simulate placement: %s\n", why.text);
        return rc == -ENOMEM ? 1 : 2;
    }
    if (fflush(out) != 0) {
        (void)fprintf(err, "kwatt simulate placement: cannot write the output\n");
        return 1;
    }
    return 0;
}
