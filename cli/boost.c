/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is 5 MB of C++ with a thread pool of its own. It stays out of every program but this
 * one, and out of this one until trees are asked for: no header, no link, but dlopen and the ten
 * functions below, whose C interface is the same from 1.0 to 2.x.
 *
 * Trees rise with every feature (monotone_constraints). Free ones were tried: they tell packages by
 * counters worse, and by CPU time alone better, since sockets that idle differently are told apart
 * by where CPU time falls; but a model by which less work costs more would be gamed.
 */
#include "cli/boost.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/* The name of a library that was built from source, and Debian's, which is tried first. */
static const char *const libraries[] = {"libxgboost.so", "libxgboost.so.0"};
#define PACKAGE "libxgboost0"

/* Of fifty settings (50 and 100 trees, depth 2 to 4, steps 0.1 and 0.3) one that misses least on
 * packages and on memory where each kind of load is left out in turn; they hardly differ. */
#define TREES 50
#define DEPTH "2"
#define STEP  "0.3"

typedef void *handle;

struct cli_boost {
    void *library;
    const char *(*last_error)(void);
    int (*matrix_new)(const float *data, uint64_t rows, uint64_t columns, float missing,
                      handle *ret);
    int (*matrix_set)(handle matrix, const char *field, const float *values, uint64_t n);
    int (*matrix_free)(handle matrix);
    int (*booster_new)(const handle *matrices, uint64_t n, handle *ret);
    int (*booster_set)(handle booster, const char *name, const char *value);
    int (*booster_update)(handle booster, int round, handle matrix);
    int (*booster_dump)(handle booster, const char *names, int stats, const char *format,
                        uint64_t *ret_n, const char ***ret);
    int (*booster_predict)(handle booster, handle matrix, int options, unsigned trees, int training,
                           uint64_t *ret_n, const float **ret);
    int (*booster_free)(handle booster);
};

/** What is grown of some rows. */
struct grove {
    const struct cli_boost *boost;
    handle matrix, booster;
    size_t n_rows;
    float mean_w; /* that the trees add to */
};

int cli_boost_open(struct cli_boost **ret, struct kw_err *err)
{
    struct cli_boost *boost = calloc(1, sizeof(*boost));

    if (boost == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    const struct {
        const char *name;
        void *to;
    } functions[] = {
        {"XGBGetLastError", &boost->last_error},
        {"XGDMatrixCreateFromMat", &boost->matrix_new},
        {"XGDMatrixSetFloatInfo", &boost->matrix_set},
        {"XGDMatrixFree", &boost->matrix_free},
        {"XGBoosterCreate", &boost->booster_new},
        {"XGBoosterSetParam", &boost->booster_set},
        {"XGBoosterUpdateOneIter", &boost->booster_update},
        {"XGBoosterDumpModelEx", &boost->booster_dump},
        {"XGBoosterPredict", &boost->booster_predict},
        {"XGBoosterFree", &boost->booster_free},
    };
    const char *why = NULL;
    for (size_t i = KW_ARRAY_SIZE(libraries); boost->library == NULL && i-- > 0;) {
        boost->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        why = boost->library == NULL ? dlerror() : NULL;
    }
    for (size_t i = 0; why == NULL && i < KW_ARRAY_SIZE(functions); i++) {
        void *function = dlsym(boost->library, functions[i].name);
        if (function == NULL)
            why = functions[i].name;
        memcpy(functions[i].to, &function, sizeof(function));
    }
    if (why != NULL) {
        (void)kw_err_set(err, -ENOENT,
                         "trees need the XGBoost library, which cannot be loaded (%.200s); Debian "
                         "has it in the package " PACKAGE,
                         why);
        cli_boost_free(&boost);
        return -ENOENT;
    }
    *ret = boost;
    return 0;
}

/* The library stays: its threads do not end with it. */
void cli_boost_free(struct cli_boost **boost)
{
    free(KW_TAKE_PTR(*boost));
}

static int failed(const struct cli_boost *boost, struct kw_err *err)
{
    return kw_err_set(err, -EIO, "XGBoost: %.200s", boost->last_error());
}

/** The rows of some groups as the library takes them. */
static int take_rows(struct grove *grove, const struct cli_recording *recording,
                     enum kw_model_part part, const bool *use, struct kw_err *err)
{
    size_t columns = recording->n_features, n = 0;
    kw_cleanup_free float *x = calloc(recording->n * columns + 1, sizeof(*x));
    kw_cleanup_free float *watts = calloc(recording->n + 1, sizeof(*watts));
    double sum_w = 0;

    if (x == NULL || watts == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    for (size_t row = 0; row < recording->n; row++) {
        if (use != NULL && !use[recording->group[row]])
            continue;
        for (size_t i = 0; i < columns; i++)
            x[n * columns + i] = (float)recording->x[row * columns + i];
        watts[n] = (float)recording->watts[row * KW_MODEL__MAX + part];
        sum_w += watts[n++];
    }
    if (n == 0)
        return kw_err_set(err, -ENODATA, "no rows");
    grove->n_rows = n;
    grove->mean_w = (float)(sum_w / (double)n);
    if (grove->boost->matrix_new(x, n, columns, NAN, &grove->matrix) != 0 ||
        grove->boost->matrix_set(grove->matrix, "label", watts, n) != 0)
        return failed(grove->boost, err);
    return 0;
}

/** One thread and the exact method: nothing is left to chance. */
static int set_up(struct grove *grove, size_t n_features, struct kw_err *err)
{
    char rising[2 * CLI_RECORDING_FEATURES_MAX + 2], mean[32];
    const char *const settings[][2] = {
        {"verbosity", "0"},
        {"nthread", "1"},
        {"seed", "0"},
        {"tree_method", "exact"},
        {"max_depth", DEPTH},
        {"eta", STEP},
        {"monotone_constraints", rising},
        {"base_score", mean},
    };

    (void)snprintf(rising, sizeof(rising), "(%.*s)", (int)(2 * n_features - 1), "1,1,1,1");
    (void)snprintf(mean, sizeof(mean), "%.9g", (double)grove->mean_w);
    if (grove->boost->booster_new(&grove->matrix, 1, &grove->booster) != 0)
        return failed(grove->boost, err);
    for (size_t i = 0; i < KW_ARRAY_SIZE(settings); i++) {
        if (grove->boost->booster_set(grove->booster, settings[i][0], settings[i][1]) != 0)
            return failed(grove->boost, err);
    }
    return 0;
}

static int grow(struct grove *grove, const struct cli_recording *recording, enum kw_model_part part,
                const bool *use, struct kw_err *err)
{
    int rc = take_rows(grove, recording, part, use, err);

    if (rc == 0)
        rc = set_up(grove, recording->n_features, err);
    for (int round = 0; rc == 0 && round < TREES; round++) {
        if (grove->boost->booster_update(grove->booster, round, grove->matrix) != 0)
            rc = failed(grove->boost, err);
    }
    return rc;
}

static void clear(struct grove *grove)
{
    if (grove->booster != NULL)
        (void)grove->boost->booster_free(grove->booster);
    if (grove->matrix != NULL)
        (void)grove->boost->matrix_free(grove->matrix);
}

/** Names the features, with the most that each had. */
static void take_features(const struct cli_recording *recording, const bool *use,
                          struct kw_model *ret)
{
    ret->n = recording->n_features;
    for (size_t i = 0; i < ret->n; i++) {
        struct kw_model_feature *feature = &ret->features[i];
        (void)snprintf(feature->name, sizeof(feature->name), "%s", recording->features[i]);
        feature->beyond = KW_BEYOND_HELD;
        for (size_t row = 0; row < recording->n; row++) {
            if (use == NULL || use[recording->group[row]])
                feature->scale = fmax(feature->scale, recording->x[row * ret->n + i]);
        }
        if (feature->scale <= 0)
            feature->scale = 1; /* never moved: no tree goes by it */
    }
}

/** What was grown, as trees of kwatt's. @param ret names its features already. */
static int take_trees(const struct grove *grove, struct kw_model *ret, struct kw_err *err)
{
    const char **trees = NULL;
    uint64_t n = 0;
    int rc = 0;

    if (grove->boost->booster_dump(grove->booster, "", 0, "json", &n, &trees) != 0)
        return failed(grove->boost, err);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        rc = kw_model_add_xgboost(ret, trees[i], strlen(trees[i]));
        if (rc < 0)
            (void)kw_err_set(err, rc, "XGBoost: tree %llu cannot be used: %s",
                             (unsigned long long)i, kw_errno_text(rc));
    }
    ret->base_w = fmax(ret->base_w, 0); /* nothing gives power back */
    return rc;
}

int cli_boost_fit(void *self, const struct cli_recording *recording, enum kw_model_part part,
                  const bool *use, struct kw_model *ret, struct kw_err *err)
{
    struct grove grove = {.boost = self};
    kw_cleanup_free struct kw_model *model = calloc(1, sizeof(*model));

    if (model == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    int rc = grow(&grove, recording, part, use, err);
    model->present = true;
    model->shape = KW_SHAPE_TREES;
    model->base_w = (double)grove.mean_w;
    take_features(recording, use, model);
    if (rc == 0)
        rc = take_trees(&grove, model, err);
    if (rc == 0)
        *ret = *model;
    clear(&grove);
    return rc;
}

int cli_boost_predict(struct cli_boost *boost, const struct cli_recording *recording,
                      enum kw_model_part part, float *ret_w, struct kw_err *err)
{
    struct grove grove = {.boost = boost};
    const float *watts = NULL;
    uint64_t n = 0;
    int rc = grow(&grove, recording, part, NULL, err);

    if (rc == 0 && boost->booster_predict(grove.booster, grove.matrix, 0, 0, 0, &n, &watts) != 0)
        rc = failed(boost, err);
    if (rc == 0 && n != grove.n_rows)
        rc = kw_err_set(err, -EIO, "XGBoost: not as many predictions as rows");
    if (rc == 0)
        memcpy(ret_w, watts, n * sizeof(*ret_w));
    clear(&grove);
    return rc;
}
