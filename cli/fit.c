/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each feature, in parts of the most it had, has four terms that rise (root, line, square, cube),
 * and all weights are 0 or more. The square and the cube are for power that goes with f V^2, the
 * root for what wakes up with the first thread. A recording of three programs cannot tell these
 * terms apart; a little ridge shares out what it cannot tell.
 *
 * Memory wakes up sooner than CPUs, so it has a fourth root besides, and its rows scatter more
 * about a power that is mostly idle. Programs differ in cache misses by tens of times, where in all
 * else the machine sets the most: of them alone memory's power goes on beyond the most that was
 * recorded.
 *
 * CPU time and instructions say little that cycles do not, and what they say of one program is
 * wrong of the next. Each stays only where groups that were left out are told better with it. Cache
 * misses always stay: programs that have none say nothing of those that do.
 *
 * The error that counts is that of programs which the model has not seen: rows of one program
 * resemble each other, so that leaving out rows at random says little. Groups are left out whole.
 *
 * Coordinate descent on the normal equations: at most 17 unknowns, and a bound at 0 is one fmax.
 * Rows that are far off count by their distance, not by its square (Huber 1964, by reweighting): a
 * recording has rows in which a program began or ended, and these are no program's power.
 */
#include "cli/fit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TERMS_MAX (1 + CLI_RECORDING_FEATURES_MAX * KW_TERM__MAX)

/* Of a row's square: below it, terms that rise alike swing against each other; ten times as much
 * begins to show in the error. */
#define RIDGE 1e-3

/* Of the mean power: rows that are further off count less. Of packages, two fifths of it were
 * tried, and miss a little more on programs that were not seen; of memory, a half. */
static const double far_parts[KW_MODEL__MAX] = {
    [KW_MODEL_PACKAGE] = 0.05, [KW_MODEL_DRAM] = 0.1, [KW_MODEL_PLATFORM] = 0.05};
#define ROUNDS 8 /* of reweighting: it has settled by then */

/* Choosing features: the groups are dealt into so many parts, each told by the others, and rows
 * beyond so many are passed over, for it is done again for each group whose error is stated. */
#define FOLDS      5
#define CHOOSE_MAX 4096

/* Sweeps until no weight moves by more than that; the ridge makes hundreds enough. */
#define SWEEPS_MAX 20000
#define SETTLED_W  1e-7

struct equations {
    size_t n;
    double a[TERMS_MAX][TERMS_MAX], b[TERMS_MAX];
};

/** What is fitted to which rows. */
struct task {
    const struct cli_recording *recording;
    enum kw_model_part part;
    const bool *use;   /* by group; NULL: all */
    unsigned features; /* bit by number in the recording */
    size_t stride;     /* every so many-th row */
};

static bool is_used(const struct cli_recording *recording, const bool *use, size_t row)
{
    return use == NULL || use[recording->group[row]];
}

/** The next row from `row` on that a task uses; recording->n: none. */
static size_t next_row(const struct task *task, size_t row)
{
    size_t rest = row % task->stride;

    row += rest == 0 ? 0 : task->stride - rest;
    while (row < task->recording->n && !is_used(task->recording, task->use, row))
        row += task->stride;
    return row < task->recording->n ? row : task->recording->n;
}

/** The features of a row that a task goes by. */
static void values_of(const struct task *task, size_t row, double *ret)
{
    const struct cli_recording *recording = task->recording;

    for (size_t i = 0; i < recording->n_features; i++) {
        if ((task->features & 1u << i) != 0)
            *ret++ = recording->x[row * recording->n_features + i];
    }
}

/** Whether a part has a term. */
static bool has_term(enum kw_model_part part, size_t term)
{
    return term != KW_TERM_FOURTH_ROOT || part == KW_MODEL_DRAM;
}

/** The terms of a row, the base first; 0 those that the part does not have. */
static void terms_of(const struct kw_model *model, enum kw_model_part part, const double *x,
                     double *ret)
{
    *ret++ = 1;
    for (size_t i = 0; i < model->n; i++) {
        double z = fmin(x[i] / model->features[i].scale, 1);
        ret[KW_TERM_ROOT] = sqrt(z);
        ret[KW_TERM_LINEAR] = z;
        ret[KW_TERM_SQUARE] = z * z;
        ret[KW_TERM_CUBE] = z * z * z;
        ret[KW_TERM_FOURTH_ROOT] = has_term(part, KW_TERM_FOURTH_ROOT) ? sqrt(sqrt(z)) : 0;
        ret += KW_TERM__MAX;
    }
}

static void add_row(struct equations *equations, const double *terms, double power_w, double count)
{
    for (size_t i = 0; i < equations->n; i++) {
        equations->b[i] += count * terms[i] * power_w;
        for (size_t k = 0; k < equations->n; k++)
            equations->a[i][k] += count * terms[i] * terms[k];
    }
}

static void solve(const struct equations *equations, double *weights_w)
{
    double moved_w = HUGE_VAL;

    for (unsigned sweep = 0; sweep < SWEEPS_MAX && moved_w > SETTLED_W; sweep++) {
        moved_w = 0;
        for (size_t i = 0; i < equations->n; i++) {
            double rest = equations->b[i];
            for (size_t k = 0; k < equations->n; k++)
                rest -= equations->a[i][k] * weights_w[k];
            double next_w = fmin(fmax(weights_w[i] + rest / equations->a[i][i], 0), KW_MODEL_MAX_W);
            moved_w = fmax(moved_w, fabs(next_w - weights_w[i]));
            weights_w[i] = next_w;
        }
    }
}

/** Names the features and sets their scales to the most that is seen. @return rows. */
static size_t take_features(const struct task *task, struct kw_model *ret)
{
    const struct cli_recording *recording = task->recording;
    double x[CLI_RECORDING_FEATURES_MAX] = {0};
    size_t n = 0;

    for (size_t i = 0; i < recording->n_features; i++) {
        struct kw_model_feature *feature = &ret->features[ret->n];
        if ((task->features & 1u << i) == 0)
            continue;
        (void)snprintf(feature->name, sizeof(feature->name), "%s", recording->features[i]);
        feature->beyond =
            task->part == KW_MODEL_DRAM && strcmp(recording->features[i], "cache_misses") == 0
                ? KW_BEYOND_LOGARITHM
                : KW_BEYOND_HELD;
        ret->n++;
    }
    for (size_t row = next_row(task, 0); row < recording->n; row = next_row(task, row + 1)) {
        values_of(task, row, x);
        for (size_t i = 0; i < ret->n; i++)
            ret->features[i].scale = fmax(ret->features[i].scale, x[i]);
        n++;
    }
    for (size_t i = 0; i < ret->n; i++) {
        if (ret->features[i].scale <= 0)
            ret->features[i].scale = 1; /* never moved: its terms are 0, and so are its weights */
    }
    return n;
}

/** Mean power of the rows of some groups. */
static double mean_w(const struct cli_recording *recording, enum kw_model_part part,
                     const bool *use)
{
    double sum_w = 0;
    size_t n = 0;

    for (size_t row = 0; row < recording->n; row++) {
        if (!is_used(recording, use, row))
            continue;
        sum_w += recording->watts[row * KW_MODEL__MAX + part];
        n++;
    }
    return n > 0 ? sum_w / (double)n : 0;
}

/** The normal equations, each row counted by how far the present weights are off it. @param far_w
 * HUGE_VAL: all alike. */
static void set_up(const struct task *task, const struct kw_model *model, const double *weights_w,
                   double far_w, struct equations *ret)
{
    const struct cli_recording *recording = task->recording;
    double terms[TERMS_MAX] = {0}, x[CLI_RECORDING_FEATURES_MAX] = {0}, counted = 0;

    *ret = (struct equations){.n = 1 + model->n * KW_TERM__MAX};
    for (size_t row = next_row(task, 0); row < recording->n; row = next_row(task, row + 1)) {
        double power_w = recording->watts[row * KW_MODEL__MAX + task->part], off_w = power_w;
        values_of(task, row, x);
        terms_of(model, task->part, x, terms);
        for (size_t i = 0; i < ret->n; i++)
            off_w -= terms[i] * weights_w[i];
        double count = fabs(off_w) > far_w ? far_w / fabs(off_w) : 1;
        add_row(ret, terms, power_w, count);
        counted += count;
    }
    for (size_t i = 1; i < ret->n; i++)
        ret->a[i][i] += RIDGE * counted;
}

/** Fits what a task says. @return 0; -ENODATA: no rows. */
static int fit(const struct task *task, struct kw_model *ret)
{
    struct kw_model model = {.present = true, .shape = KW_SHAPE_SUM};
    struct equations equations;
    double weights_w[TERMS_MAX] = {0}, far_w = HUGE_VAL;
    size_t n = take_features(task, &model);

    if (n == 0)
        return -ENODATA;
    for (unsigned round = 0; round < ROUNDS; round++) {
        set_up(task, &model, weights_w, far_w, &equations);
        solve(&equations, weights_w);
        far_w = far_parts[task->part] * mean_w(task->recording, task->part, task->use);
        if (far_w <= 0)
            break; /* nothing was ever drawn */
    }
    model.base_w = weights_w[0];
    for (size_t i = 0; i < model.n; i++)
        memcpy(model.features[i].weights_w, &weights_w[1 + i * KW_TERM__MAX],
               sizeof(model.features[i].weights_w));
    *ret = model;
    return 0;
}

/** Deals the groups of a task into at most FOLDS parts. @param ret_fold by group. @return parts. */
static size_t deal(const struct task *task, size_t ret_fold[KW_MODEL_GROUPS_MAX])
{
    size_t n = 0;

    for (size_t g = 0; g < task->recording->n_groups; g++)
        ret_fold[g] = task->use == NULL || task->use[g] ? n++ % FOLDS : SIZE_MAX;
    return n < FOLDS ? n : FOLDS;
}

/** Sum of what is missed where the groups of a task are told by each other. HUGE_VAL: not known. */
static double missed_w(const struct task *task, const size_t *fold, size_t n_folds)
{
    double sum_w = 0;

    for (size_t f = 0; f < n_folds; f++) {
        bool one[KW_MODEL_GROUPS_MAX] = {false}, others[KW_MODEL_GROUPS_MAX] = {false};
        struct task part = *task;
        struct kw_model model;
        uint64_t n = 0;
        for (size_t g = 0; g < task->recording->n_groups; g++) {
            one[g] = fold[g] == f;
            others[g] = fold[g] != f && fold[g] != SIZE_MAX;
        }
        part.use = others;
        if (fit(&part, &model) < 0)
            return HUGE_VAL;
        double mae_w = cli_fit_mae_w(task->recording, task->part, one, &model, &n);
        sum_w += mae_w * (double)n;
    }
    return sum_w;
}

/** The features of a task that the groups are told best with. */
static unsigned choose(const struct task *task)
{
    static const char *const doubtful[] = {"cpu_time", "instructions"};
    size_t fold[KW_MODEL_GROUPS_MAX], n_folds = deal(task, fold);
    struct task trial = *task;
    bool fewer = task->recording->n_groups > 1 && n_folds > 1 && !task->recording->chosen;

    trial.stride = 1 + task->recording->n / CHOOSE_MAX;
    double best_w = fewer ? missed_w(&trial, fold, n_folds) : 0;
    unsigned best = task->features;
    while (fewer) {
        unsigned from = best;
        fewer = false;
        for (size_t i = 0; i < task->recording->n_features; i++) {
            const char *name = task->recording->features[i];
            trial.features = from & ~(1u << i);
            if (trial.features == 0 || trial.features == from ||
                (strcmp(name, doubtful[0]) != 0 && strcmp(name, doubtful[1]) != 0))
                continue;
            double trial_w = missed_w(&trial, fold, n_folds);
            if (trial_w < best_w) {
                best_w = trial_w;
                best = trial.features;
                fewer = true;
            }
        }
    }
    return best;
}

int cli_fit(const struct cli_recording *recording, enum kw_model_part part, const bool *use,
            struct kw_model *ret)
{
    struct task task = {.recording = recording,
                        .part = part,
                        .use = use,
                        .features = (1u << recording->n_features) - 1,
                        .stride = 1};

    task.features = choose(&task);
    return fit(&task, ret);
}

int cli_fit_terms(void *self, const struct cli_recording *recording, enum kw_model_part part,
                  const bool *use, struct kw_model *ret, struct kw_err *err)
{
    int rc = cli_fit(recording, part, use, ret);

    (void)self;
    return rc < 0 ? kw_err_set(err, rc, "no rows") : 0;
}

double cli_fit_mae_w(const struct cli_recording *recording, enum kw_model_part part,
                     const bool *use, const struct kw_model *model, uint64_t *ret_rows)
{
    size_t from[KW_MODEL_FEATURES_MAX];
    double x[KW_MODEL_FEATURES_MAX] = {0}, sum_w = 0;
    uint64_t n = 0;

    for (size_t i = 0; i < model->n; i++) {
        from[i] = SIZE_MAX;
        for (size_t k = 0; k < recording->n_features; k++) {
            if (strcmp(model->features[i].name, recording->features[k]) == 0)
                from[i] = k;
        }
    }
    for (size_t row = 0; row < recording->n; row++) {
        if (!is_used(recording, use, row))
            continue;
        for (size_t i = 0; i < model->n; i++) {
            if (from[i] != SIZE_MAX)
                x[i] = recording->x[row * recording->n_features + from[i]];
        }
        sum_w += fabs(kw_model_watts(model, x) - recording->watts[row * KW_MODEL__MAX + part]);
        n++;
    }
    if (ret_rows != NULL)
        *ret_rows = n;
    return n > 0 ? sum_w / (double)n : 0;
}

/** A model that says the same always: the mean of some groups. */
static struct kw_model mean_of(const struct cli_recording *recording, enum kw_model_part part,
                               const bool *use)
{
    return (struct kw_model){.present = true, .base_w = mean_w(recording, part, use)};
}

/** The class prior as a model: idle to full by CPU time. */
static struct kw_model model_of_prior(const struct cli_fit_prior *prior)
{
    double threads = prior->threads, idle_w = prior->idle_mw * 1e-3;

    return (struct kw_model){
        .present = true,
        .base_w = idle_w * threads,
        .n = 1,
        .features = {{.name = "cpu_time",
                      .scale = threads,
                      .beyond = KW_BEYOND_HELD,
                      .weights_w[KW_TERM_LINEAR] = (prior->full_mw * 1e-3 - idle_w) * threads}},
    };
}

static bool has_feature(const struct cli_recording *recording, const char *name)
{
    for (size_t i = 0; i < recording->n_features; i++) {
        if (strcmp(recording->features[i], name) == 0)
            return true;
    }
    return false;
}

/** Tells each group by a model of the others. @return 0; -ENODATA: not two groups; as the fitter.
 */
static int validate(const struct cli_recording *recording, enum kw_model_part part,
                    const struct cli_fitter *fitter, struct kw_model_error *ret, struct kw_err *err)
{
    double sum_w = 0, mean_sum_w = 0;
    uint64_t all = 0;

    for (size_t g = 0; g < recording->n_groups; g++) {
        bool one[KW_MODEL_GROUPS_MAX] = {false}, others[KW_MODEL_GROUPS_MAX];
        struct kw_model model = {0};
        struct kw_model_group group = {0};
        for (size_t k = 0; k < recording->n_groups; k++)
            others[k] = k != g;
        one[g] = true;
        (void)cli_fit_mae_w(recording, part, one, &model, &group.n_rows);
        if (group.n_rows == 0)
            continue; /* all of its rows lacked a value */
        if (group.n_rows == recording->n)
            break; /* nobody is left to tell it by */
        int rc = fitter->fit(fitter->self, recording, part, others, &model, err);
        if (rc < 0)
            return rc;
        group.mae_w = cli_fit_mae_w(recording, part, one, &model, NULL);
        memcpy(group.name, recording->groups[g], sizeof(group.name));
        model = mean_of(recording, part, others);
        mean_sum_w += (double)group.n_rows * cli_fit_mae_w(recording, part, one, &model, NULL);
        sum_w += (double)group.n_rows * group.mae_w;
        all += group.n_rows;
        ret->groups[ret->n_groups++] = group;
    }
    if (ret->n_groups < 2)
        return kw_err_set(err, -ENODATA,
                          "one program only: a model's error shows on programs that it has not "
                          "seen, so give recordings of two at least");
    ret->mae_w = sum_w / (double)all;
    ret->mean_mae_w = mean_sum_w / (double)all;
    return 0;
}

int cli_fit_validated(const struct cli_recording *recording, enum kw_model_part part,
                      const struct cli_fitter *fitter, const struct cli_fit_prior *prior,
                      struct kw_model *ret, struct kw_err *err)
{
    struct kw_model_error error = {.prior_mae_w = -1};
    int rc = validate(recording, part, fitter, &error, err);

    if (rc == 0)
        rc = fitter->fit(fitter->self, recording, part, NULL, ret, err);
    if (rc < 0)
        return rc;
    if (prior != NULL && prior->threads > 0 && has_feature(recording, "cpu_time")) {
        struct kw_model model = model_of_prior(prior);
        error.prior_mae_w = cli_fit_mae_w(recording, part, NULL, &model, NULL);
    }
    ret->error = error;
    return 0;
}
