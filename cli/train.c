/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kwatt train: a power model from recordings. A model is worth something where it beats what is
 * known without it, on programs that it has not seen: the prior of the CPU's class, and always the
 * same watts. What does not is not saved.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/cpu_class.h"
#include "cli/boost.h"
#include "cli/cli.h"
#include "cli/fit.h"
#include "cli/train_input.h"
#include "cli/train_redis.h"
#include "common/cleanup.h"
#include "common/conf.h"
#include "common/file.h"
#include "common/num.h"
#include "common/redis_rows.h"

#define CPU_MAX 64

/** What a model is made of. */
enum method { METHOD_TERMS, METHOD_TREES, METHOD__MAX };

static const char *const method_names[METHOD__MAX + 1] = {"terms", "trees", NULL};

struct settings {
    char *out, *features, *group_by, *cpu, *nodes;
    uint64_t threads, live_s, follow_s;
    struct kw_redis_access redis;
    unsigned method;
};

#define AT(field) offsetof(struct settings, field)

static const struct kw_conf_option rows[] = {
    {.flag = "out",
     .type = KW_CONF_STRING,
     .offset = AT(out),
     .min = 1,
     .max = 4095,
     .metavar = "FILE",
     .group = "Model",
     .help = "where the model goes, for kwatt-node-agent --model FILE; default: nowhere, and only\n"
             "its error is printed"},
    {.flag = "method",
     .type = KW_CONF_CHOICE,
     .offset = AT(method),
     .choices = method_names,
     .def = "terms",
     .metavar = "METHOD",
     .group = "Model",
     .help = "terms: a sum of rising terms of each feature; trees: gradient-boosted trees, which\n"
             "need the XGBoost library here (Debian: libxgboost0) and nothing where they are used"},
    {.flag = "features",
     .type = KW_CONF_STRING,
     .offset = AT(features),
     .metavar = "NAMES",
     .group = "Model",
     .help = "what the model goes by, separated by commas: cpu_time, cycles, instructions,\n"
             "cache_misses; default: those of the first recording, but for CPU time and\n"
             "instructions where terms tell unseen programs better without"},
    {.flag = "group-by",
     .type = KW_CONF_STRING,
     .offset = AT(group_by),
     .min = 1,
     .max = KW_MODEL_NAME_MAX,
     .metavar = "COLUMN",
     .group = "Model",
     .help = "column that says which program a row is of; default: each file is of one program"},
    {.flag = "live",
     .type = KW_CONF_U64,
     .offset = AT(live_s),
     .def = "0",
     .min = 0,
     .max = 86400,
     .metavar = "SECONDS",
     .group = "Recorded machine",
     .help =
         "record this machine, which has a meter, for so long and learn from that, too; let it\n"
         "do meanwhile what it usually does; 0: not"},
    {.flag = "threads",
     .type = KW_CONF_U64,
     .offset = AT(threads),
     .def = "0",
     .min = 0,
     .max = 65536,
     .metavar = "NUMBER",
     .group = "Recorded machine",
     .help =
         "its hardware threads; 0: as many as the recordings say, or the nodes of --redis, else\n"
         "as this machine has"},
    {.flag = "cpu",
     .type = KW_CONF_STRING,
     .offset = AT(cpu),
     .min = 1,
     .max = CPU_MAX - 1,
     .metavar = "VENDOR,FAMILY,MODEL",
     .group = "Recorded machine",
     .help = "its CPU as in /proc/cpuinfo, such as GenuineIntel,6,79, for the prior that the\n"
             "model has to beat; default: a generic server"},
    KW_REDIS_ROWS(struct settings, redis, "Redis", NULL,
                  "where no recording is named, nor --live: learn from what agents of nodes with\n"
                  "a meter published there, as long as it is kept: " KW_REDIS_URL_FORMS){
        .flag = "node",
        .type = KW_CONF_STRING,
        .offset = AT(nodes),
        .min = 1,
        .max = 16383,
        .metavar = "NAMES",
        .group = "Redis",
        .help = "nodes, separated by commas, all of one model of processors; default: all with a "
                "meter"},
    {.flag = "seconds",
     .type = KW_CONF_U64,
     .offset = AT(follow_s),
     .def = "0",
     .min = 0,
     .max = 604800,
     .metavar = "SECONDS",
     .group = "Redis",
     .help = "beyond what is kept, follow for so long what they publish"},
};

static const struct kw_conf_program program = {
    .name = "kwatt train",
    .synopsis = "[options] [RECORDING...]",
    .summary =
        "Makes a power model, for machines without a meter, from recordings of one that has a\n"
        "meter: CSV with columns cpu_time, cycles, instructions, cache_misses (a second each) and\n"
        "package_w, dram_w, platform_w; what kwatt-node-agent --record wrote; this machine,\n"
        "--live; or what agents published in Redis. Prints what the model misses on programs that "
        "it has not seen, and saves it only\n"
        "where that is less than without a model (docs/power-models.md).",
    .examples =
        "  kwatt train --threads 32 --out model.json compile.csv database.csv video.csv\n"
        "  kwatt train --out model.json monday.jsonl tuesday.jsonl\n"
        "  kwatt train --live 3600 --out model.json\n"
        "  kwatt train --redis redis://redis:6379 --node worker-1,worker-2 --seconds 3600 \\\n"
        "      --out model.json\n"
        "  kwatt train --method trees --out model.json a.csv b.csv c.csv\n"
        "  kwatt train --features cpu_time --group-by program recording.csv\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
    .positionals = true,
};

/** Reads --cpu. @return 0 or -EINVAL. */
static int take_cpu(const char *cpu, struct cli_fit_prior *ret, struct kw_err *err)
{
    const char *family = cpu != NULL ? strchr(cpu, ',') : NULL;
    const char *model = family != NULL ? strchr(family + 1, ',') : NULL;
    char vendor[CPU_MAX] = "";
    uint64_t family_number = 0, model_number = 0;

    if (cpu != NULL && (model == NULL ||
                        kw_parse_u64_span(family + 1, (size_t)(model - family - 1), 0, 65535,
                                          &family_number) < 0 ||
                        kw_parse_u64(model + 1, 0, 65535, &model_number) < 0))
        return kw_err_set(err, -EINVAL, "--cpu: \"%s\" is no VENDOR,FAMILY,MODEL", cpu);
    if (cpu != NULL)
        (void)snprintf(vendor, sizeof(vendor), "%.*s", (int)(family - cpu), cpu);
    const struct kw_cpu_class *class =
        kw_cpu_class_of(vendor, (unsigned)family_number, (unsigned)model_number);
    ret->idle_mw = class->idle_mw;
    ret->full_mw = class->full_mw;
    return 0;
}

/** Whether Redis is what is learnt from: KWATT_REDIS in the environment does not mix into
 * recordings. */
static bool is_from_redis(const struct settings *settings, size_t n)
{
    return settings->redis.url != NULL && n == 0 && settings->live_s == 0;
}

static int read_all(const struct cli_io *io, const struct settings *settings, char **paths,
                    size_t n, struct cli_recording *recording, uint32_t *ret_threads,
                    struct kw_err *err)
{
    const struct cli_train_redis redis = {
        .access = &settings->redis, .nodes = settings->nodes, .follow_s = settings->follow_s};
    int rc =
        settings->features != NULL ? cli_recording_choose(recording, settings->features, err) : 0;

    if (rc == 0 && is_from_redis(settings, n))
        return cli_train_add_redis(io, &redis, recording, ret_threads, err);
    if (rc == 0)
        rc = cli_train_check_files(paths, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = cli_train_add_file(io, paths[i], settings->group_by, recording, err);
    if (rc == 0 && settings->live_s > 0)
        rc = cli_train_add_live(io, settings->live_s, recording, err);
    if (rc == 0 && recording->threads > 0)
        *ret_threads = recording->threads;
    return rc;
}

/** What is asked for together and does not go together. */
static int check_sources(const struct settings *settings, size_t n, struct kw_err *err)
{
    bool redis = is_from_redis(settings, n);

    if (!redis && (settings->nodes != NULL || settings->follow_s > 0))
        return kw_err_set(err, -EINVAL,
                          "--node and --seconds are for --redis, without recordings and --live");
    if (n == 0 && settings->live_s == 0 && !redis)
        return kw_err_set(err, -EINVAL, "no recording; kwatt train --help explains");
    if (redis && settings->group_by != NULL)
        return kw_err_set(err, -EINVAL, "--group-by is for CSV: nodes have no such column");
    return 0;
}

/** Prints what a model misses, and why it is of no use where it is not. @return whether it is. */
static bool judge(FILE *out, enum kw_model_part part, const struct kw_model *model)
{
    const struct kw_model_error *error = &model->error;
    /* the class prior is of packages, and of whole machines where nothing better is known */
    bool has_prior = error->prior_mae_w >= 0 && part != KW_MODEL_DRAM;
    const char *verdict = error->mae_w >= error->mean_mae_w
                              ? "no better than always the same watts: not used"
                          : has_prior && error->mae_w >= error->prior_mae_w
                              ? "no better than the prior of the CPU's class: not used"
                              : "";

    (void)fprintf(out, "%s: misses %.2f W on what it has not seen (always the same watts: %.2f W",
                  kw_model_part_names[part], error->mae_w, error->mean_mae_w);
    if (has_prior)
        (void)fprintf(out, ", prior of the class: %.2f W", error->prior_mae_w);
    (void)fprintf(out, ")%s%s\n", verdict[0] != '\0' ? ", " : "", verdict);
    for (size_t i = 0; i < error->n_groups; i++)
        (void)fprintf(out, "  %8.2f W on %s (%llu rows)\n", error->groups[i].mae_w,
                      error->groups[i].name, (unsigned long long)error->groups[i].n_rows);
    (void)fprintf(out, "  goes by");
    for (size_t i = 0; i < model->n; i++)
        (void)fprintf(out, "%s %s", i > 0 ? "," : "", model->features[i].name);
    (void)fprintf(out, "\n");
    return verdict[0] == '\0';
}

/** Fits all parts that are recorded. @return how many are of use; -errno. */
static int fit_all(const struct cli_recording *recording, const struct cli_fitter *fitter,
                   const struct cli_fit_prior *prior, FILE *out, struct kw_power_model *ret,
                   struct kw_err *err)
{
    int n = 0;

    ret->threads = prior->threads;
    for (size_t p = 0; p < KW_MODEL__MAX; p++) {
        struct kw_model *model = &ret->parts[p];
        if ((recording->parts & 1u << p) == 0)
            continue;
        int rc = cli_fit_validated(recording, (enum kw_model_part)p, fitter, prior, model, err);
        if (rc < 0)
            return rc;
        model->present = judge(out, (enum kw_model_part)p, model);
        n += model->present;
    }
    return n;
}

/** Fits by the method that is asked for. @return as fit_all. */
static int fit_by(enum method method, const struct cli_recording *recording,
                  const struct cli_fit_prior *prior, FILE *out, struct kw_power_model *ret,
                  struct kw_err *err)
{
    struct cli_boost *boost = NULL;
    struct cli_fitter fitter = {.fit = cli_fit_terms};
    int rc = method == METHOD_TREES ? cli_boost_open(&boost, err) : 0;

    if (rc < 0)
        return rc;
    if (boost != NULL)
        fitter = (struct cli_fitter){.fit = cli_boost_fit, .self = boost};
    rc = fit_all(recording, &fitter, prior, out, ret, err);
    cli_boost_free(&boost);
    return rc;
}

static int save(const struct kw_power_model *model, const char *path, FILE *out, struct kw_err *err)
{
    kw_cleanup_free char *json = NULL;
    size_t len = 0;
    int rc = kw_power_model_encode(model, &json, &len);

    if (rc == 0)
        rc = kw_file_write_atomic(path, json, len, 0644);
    if (rc < 0)
        return kw_err_set(err, rc, "%s: %s", path, kw_errno_text(rc));
    (void)fprintf(out, "saved: %s\n", path);
    return 0;
}

static int train(const struct cli_io *io, const struct settings *settings, char **paths, size_t n,
                 struct kw_err *err)
{
    FILE *out = io->out;
    kw_cleanup(cli_recording_free) struct cli_recording recording = {0};
    kw_cleanup_free struct kw_power_model *model = calloc(1, sizeof(*model));
    struct cli_fit_prior prior = {.threads = (uint32_t)settings->threads};
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = online > 0 ? (uint32_t)online : 1;

    if (model == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    int rc = check_sources(settings, n, err);
    if (rc == 0)
        rc = take_cpu(settings->cpu, &prior, err);
    if (rc == 0)
        rc = read_all(io, settings, paths, n, &recording, &threads, err);
    if (rc < 0)
        return rc;
    if (prior.threads == 0)
        prior.threads = threads;
    if (recording.n_skipped > 0)
        (void)fprintf(out, "%zu rows lack a value and are passed over\n", recording.n_skipped);
    if (recording.timed && recording.n_groups == 1 && recording.n < CLI_TRAIN_PARTS)
        return kw_err_set(err, -ENODATA, "too short: %zu rows, %d at least; record for longer",
                          recording.n, CLI_TRAIN_PARTS);
    if (cli_recording_cut(&recording, CLI_TRAIN_PARTS))
        (void)fprintf(out, "one recording only: its error is of other times of the same recording, "
                           "not of programs that the model has not seen\n");
    rc = fit_by((enum method)settings->method, &recording, &prior, out, model, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return kw_err_set(err, -EDOM, "nothing is saved: no model is better than none");
    return settings->out != NULL ? save(model, settings->out, out, err) : 0;
}

int cli_train(const struct cli_io *io, int argc, char **argv)
{
    struct settings settings = {0};
    struct kw_err err = {0};
    size_t first = 0;
    int rc = kw_conf_load(&program, argc, argv, io->envp, &settings, io->out, &first, &err);

    if (rc == KW_CONF_DONE)
        return 0;
    if (rc == 0)
        rc = train(io, &settings, &argv[first], (size_t)argc - first, &err);
    kw_conf_free(&program, &settings);
    if (rc < 0) {
        (void)fprintf(io->err, "kwatt train: %s\n", err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    if (fflush(io->out) != 0) {
        (void)fprintf(io->err, "kwatt train: cannot write the output\n");
        return 1;
    }
    return 0;
}
