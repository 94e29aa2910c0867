/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What power models miss on programs that they have not seen, on the recordings of one machine with
 * five kinds of load (../shared/data/power-models, not part of the repository; KWATT_SHARED names
 * its folder). kwatt trains on three kinds and is asked for the other two, in all ten ways of
 * choosing them. Beside it stands the best of the models that Kepler's authors published for that
 * machine, on the same rows: theirs were trained on all five.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/** All splits of one part. @param features NULL: all that is recorded. */
static bool tell_part(enum kw_model_part part, const char *what, const char *features, bool each)
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
            if (cli_fit(&recording, part, seen, &model) < 0)
                abort();
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
    if (cli_fit(&recording, part, NULL, &model) < 0)
        abort();
    (void)snprintf(name, sizeof(name), "%s, trained on all five as theirs", what);
    print(name, cli_fit_mae_w(&recording, part, NULL, &model, NULL), reference,
          cli_fit_mae_w(&recording, part, NULL, &reference->model.parts[part], NULL), true);
    (void)snprintf(name, sizeof(name), "%s, mean of ten splits", what);
    print(name, sum_w / SPLITS, reference, reference_sum_w / SPLITS, each);
    (void)snprintf(name, sizeof(name), "%s, worst of ten splits", what);
    print(name, worst_w, reference, reference_worst_w, false);
    return true;
}

int main(void)
{
    const char *shared = getenv("KWATT_SHARED"), *source = getenv("KWATT_SOURCE_DIR");

    if (shared != NULL)
        (void)snprintf(folder, sizeof(folder), "%s/data/power-models", shared);
    else
        (void)snprintf(folder, sizeof(folder), "%s/../shared/data/power-models",
                       source != NULL ? source : ".");
    load_published();
    if (n_published == 0)
        return skip("no published models");
    if (!tell_part(KW_MODEL_PACKAGE, "packages, counters", NULL, true))
        return skip("no recordings");
    (void)tell_part(KW_MODEL_PACKAGE, "packages, CPU time alone", "cpu_time", false);
    (void)tell_part(KW_MODEL_DRAM, "memory, counters", NULL, false);
    printf("{\"name\": \"train.published parts of this machine refused as diverged\", \"value\": "
           "%zu, \"unit\": \"\"}\n",
           n_refused);
    return 0;
}
