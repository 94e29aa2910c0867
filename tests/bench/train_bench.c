/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What power models miss on programs that they have not seen, on the recordings of one machine with
 * five kinds of load (../shared/data/power-models, not part of the repository; KWATT_SHARED names
 * its folder). kwatt trains on three kinds and is asked for the other two, in all ten ways of
 * choosing them: by a sum of terms, and by trees where the XGBoost library is installed. Beside it
 * stands the best of the models that Kepler's authors published for that machine, on the same rows:
 * theirs were trained on all five. Their own trees are pickled Python objects, which nothing but
 * their Python reads. What they state of them (models/v0.6/nx12/std_v0.6 of kepler-model-db) is of
 * rows of the same programs as those they were trained on, so ours are left out in the same way.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/boost.h"
#include "cli/fit.h"
#include "common/cleanup.h"
#include "common/file.h"

#define KINDS  5
#define SPLITS 10
#define FILES  64

static const char *const kinds[KINDS] = {"cpu", "regs", "l1cache", "stream", "sctp"};

/** A published model that can be used. */
struct published {
    char name[256];
    struct kw_power_model model;
};

static char folder[2048];
static struct published published[FILES];
static size_t n_published, n_refused;

static int skip(const char *why)
{
    printf("SKIP: %s in %s (KWATT_SHARED names the folder above data)\n", why, folder);
    return 77;
}

static bool load_recordings(const char *features, struct cli_recording *ret)
{
    if (features != NULL && cli_recording_choose(ret, features, NULL) < 0)
        abort();
    for (size_t i = 0; i < KINDS; i++) {
        kw_cleanup_free char *csv = NULL;
        struct kw_err err = {0};
        char path[4096];
        size_t len = 0;
        (void)snprintf(path, sizeof(path), "%s/recordings/nx12-%s.csv", folder, kinds[i]);
        if (kw_file_slurp(path, CLI_RECORDING_FILE_MAX, &csv, &len) < 0)
            return false;
        if (cli_recording_add(ret, csv, len, NULL, kinds[i], &err) < 0) {
            (void)fprintf(stderr, "%s: %s\n", path, err.text);
            abort();
        }
    }
    return true;
}

/** Whether a recording has all that a published model goes by. */
static bool goes_by(const struct kw_model *model, const struct cli_recording *recording)
{
    for (size_t i = 0; i < model->n; i++) {
        bool found = false;
        for (size_t k = 0; k < recording->n_features; k++)
            found = found || strcmp(recording->features[k], model->features[i].name) == 0;
        if (!found)
            return false;
    }
    return true;
}

static void load_published(void)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/weights", folder);
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL;
         entry != NULL && n_published < FILES; entry = readdir(dir)) {
        kw_cleanup_free char *json = NULL;
        struct published *next = &published[n_published];
        const char *why = "";
        size_t len = 0;
        if (strncmp(entry->d_name, "v06-nx12-", 9) != 0 ||
            strstr(entry->d_name, "AbsPower") == NULL)
            continue;
        (void)snprintf(path, sizeof(path), "%s/weights/%s", folder, entry->d_name);
        if (kw_file_slurp(path, KW_MODEL_FILE_MAX, &json, &len) < 0 ||
            kw_power_model_decode(json, len, entry->d_name, &next->model, &why) < 0)
            abort();
        for (size_t p = 0; p < KW_MODEL__MAX; p++) {
            if (next->model.parts[p].refused[0] != '\0')
                n_refused++;
        }
        (void)snprintf(next->name, sizeof(next->name), "%s", entry->d_name);
        n_published++;
    }
    if (dir != NULL)
        (void)closedir(dir);
}

/** The published model that misses least over all rows, of those that go by what is recorded. */
static const struct published *best_published(const struct cli_recording *recording,
                                              enum kw_model_part part)
{
    const struct published *best = NULL;
    double best_w = HUGE_VAL;

    for (size_t i = 0; i < n_published; i++) {
        const struct kw_model *model = &published[i].model.parts[part];
        if (!model->present || !goes_by(model, recording))
            continue;
        double mae_w = cli_fit_mae_w(recording, part, NULL, model, NULL);
        if (mae_w < best_w) {
            best = &published[i];
            best_w = mae_w;
        }
    }
    return best;
}

static void print(const char *name, double value_w, const struct published *reference,
                  double reference_w, bool bound)
{
    char theirs[64] = "";

    if (reference != NULL)
        (void)snprintf(theirs, sizeof(theirs), "%.*s", (int)strcspn(reference->name + 23, "."),
                       reference->name + 23); /* behind "v06-nx12-rapl-AbsPower-" */
    printf("{\"name\": \"train.%s\", \"value\": %.4g, \"unit\": \"W mean error\", \"reference\": "
           "{\"name\": \"Kepler's %s\", \"value\": %.4g}, \"ratio\": %.4g%s}\n",
           name, value_w, theirs, reference_w, value_w / reference_w,
           bound ? ", \"bound\": 1, \"better\": \"lower\"" : "");
}

static void fit(const struct cli_fitter *fitter, const struct cli_recording *recording,
                enum kw_model_part part, const bool *use, struct kw_model *ret)
{
    struct kw_err err = {0};

    if (fitter->fit(fitter->self, recording, part, use, ret, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

/** All splits of one part. @param features NULL: all that is recorded. @param each print each, and
 * hold their mean to a bound. */
static bool tell_part(const struct cli_fitter *fitter, enum kw_model_part part, const char *what,
                      const char *features, bool each, bool bound)
{
    kw_cleanup(cli_recording_free) struct cli_recording recording = {0};
    double sum_w = 0, reference_sum_w = 0, worst_w = 0, reference_worst_w = 0;
    char name[128];

    if (!load_recordings(features, &recording))
        return false;
    const struct published *reference = best_published(&recording, part);
    if (reference == NULL)
        return false;
    for (size_t a = 0; a < KINDS; a++) {
        for (size_t b = a + 1; b < KINDS; b++) {
            bool seen[KW_MODEL_GROUPS_MAX], unseen[KW_MODEL_GROUPS_MAX];
            struct kw_model model;
            for (size_t i = 0; i < KINDS; i++) {
                unseen[i] = i == a || i == b;
                seen[i] = !unseen[i];
            }
            fit(fitter, &recording, part, seen, &model);
            double mae_w = cli_fit_mae_w(&recording, part, unseen, &model, NULL);
            double reference_w =
                cli_fit_mae_w(&recording, part, unseen, &reference->model.parts[part], NULL);
            (void)snprintf(name, sizeof(name), "%s, unseen: %s and %s", what, kinds[a], kinds[b]);
            if (each)
                print(name, mae_w, reference, reference_w, false);
            sum_w += mae_w;
            reference_sum_w += reference_w;
            worst_w = fmax(worst_w, mae_w);
            reference_worst_w = fmax(reference_worst_w, reference_w);
        }
    }
    struct kw_model model;
    fit(fitter, &recording, part, NULL, &model);
    (void)snprintf(name, sizeof(name), "%s, trained on all five as theirs", what);
    print(name, cli_fit_mae_w(&recording, part, NULL, &model, NULL), reference,
          cli_fit_mae_w(&recording, part, NULL, &reference->model.parts[part], NULL), bound);
    (void)snprintf(name, sizeof(name), "%s, mean of ten splits", what);
    print(name, sum_w / SPLITS, reference, reference_sum_w / SPLITS, bound);
    (void)snprintf(name, sizeof(name), "%s, worst of ten splits", what);
    print(name, worst_w, reference, reference_worst_w, false);
    return true;
}

/** Every fifth row in turn is told by a model of all others: rows of programs that it knows. */
static void tell_known(const struct cli_fitter *fitter, enum kw_model_part part, const char *what,
                       const char *features, double stated_w)
{
    kw_cleanup(cli_recording_free) struct cli_recording recording = {0};
    struct kw_model model;
    struct kw_err err = {0};

    if (!load_recordings(features, &recording))
        return;
    for (size_t row = 0; row < recording.n; row++)
        recording.group[row] = (uint32_t)(row % KINDS);
    if (cli_fit_validated(&recording, part, fitter, NULL, &model, &err) < 0)
        abort();
    printf(
        "{\"name\": \"train.%s, other rows of the same programs\", \"value\": %.4g, \"unit\": \"W "
        "mean error\", \"reference\": {\"name\": \"Kepler's GradientBoostingRegressorTrainer, as "
        "its "
        "authors state\", \"value\": %.4g}, \"ratio\": %.4g}\n",
        what, model.error.mae_w, stated_w, model.error.mae_w / stated_w);
}

int main(void)
{
    const char *shared = getenv("KWATT_SHARED"), *source = getenv("KWATT_SOURCE_DIR");
    const struct cli_fitter terms = {.fit = cli_fit_terms};
    struct cli_boost *boost = NULL;
    struct kw_err err = {0};

    if (shared != NULL)
        (void)snprintf(folder, sizeof(folder), "%s/data/power-models", shared);
    else
        (void)snprintf(folder, sizeof(folder), "%s/../shared/data/power-models",
                       source != NULL ? source : ".");
    load_published();
    if (n_published == 0)
        return skip("no published models");
    if (!tell_part(&terms, KW_MODEL_PACKAGE, "packages, counters", NULL, true, true))
        return skip("no recordings");
    (void)tell_part(&terms, KW_MODEL_PACKAGE, "packages, CPU time alone", "cpu_time", false, true);
    (void)tell_part(&terms, KW_MODEL_DRAM, "memory, counters", NULL, true, true);
    if (cli_boost_open(&boost, &err) == 0) {
        const struct cli_fitter trees = {.fit = cli_boost_fit, .self = boost};
        (void)tell_part(&trees, KW_MODEL_PACKAGE, "packages, counters, trees", NULL, false, true);
        (void)tell_part(&trees, KW_MODEL_PACKAGE, "packages, CPU time alone, trees", "cpu_time",
                        false, true);
        (void)tell_part(&trees, KW_MODEL_DRAM, "memory, counters, trees", NULL, false, true);
        tell_known(&trees, KW_MODEL_PACKAGE, "packages, counters, trees", NULL, 4.684);
        tell_known(&trees, KW_MODEL_PACKAGE, "packages, CPU time alone, trees", "cpu_time", 12.80);
        tell_known(&trees, KW_MODEL_DRAM, "memory, counters, trees", NULL, 1.088);
        cli_boost_free(&boost);
    } else {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    printf("{\"name\": \"train.published parts of this machine refused as diverged\", \"value\": "
           "%zu, \"unit\": \"\"}\n",
           n_refused);
    return 0;
}
