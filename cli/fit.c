/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each feature, in parts of the most it had, has four terms that rise (root, line, square, cube),
 * and all weights are 0 or more. The square and the cube are for power that goes with f V^2, the
 * root for what wakes up with the first thread. A recording of three programs cannot tell these
 * terms apart; a little ridge shares out what it cannot tell.
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

/* Of the mean power: rows that are further off count less. Two fifths of it were tried, and miss a
 * little more on programs that were not seen. */
#define FAR_PART 0.05
#define ROUNDS   8 /* of reweighting: it has settled by then */

/* Sweeps until no weight moves by more than that; the ridge makes hundreds enough. */
#define SWEEPS_MAX 20000
#define SETTLED_W  1e-7

struct equations {
    size_t n;
    double a[TERMS_MAX][TERMS_MAX], b[TERMS_MAX];
};

static bool is_used(const struct cli_recording *recording, const bool *use, size_t row)
{
    return use == NULL || use[recording->group[row]];
}

/** The terms of a row, the base first. */
static void terms_of(const struct kw_model *model, const double *x, double *ret)
{
    *ret++ = 1;
    for (size_t i = 0; i < model->n; i++) {
        double z = fmin(x[i] / model->features[i].scale, 1);
        ret[KW_TERM_ROOT] = sqrt(z);
        ret[KW_TERM_LINEAR] = z;
        ret[KW_TERM_SQUARE] = z * z;
        ret[KW_TERM_CUBE] = z * z * z;
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
static size_t take_features(const struct cli_recording *recording, const bool *use,
                            struct kw_model *ret)
{
    size_t n = 0;

    ret->n = recording->n_features;
    for (size_t i = 0; i < ret->n; i++) {
        (void)snprintf(ret->features[i].name, sizeof(ret->features[i].name), "%s",
                       recording->features[i]);
        ret->features[i].bounded = true;
    }
    for (size_t row = 0; row < recording->n; row++) {
        if (!is_used(recording, use, row))
            continue;
        n++;
        for (size_t i = 0; i < ret->n; i++)
            ret->features[i].scale = fmax(ret->features[i].scale, recording->x[row * ret->n + i]);
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
static void set_up(const struct cli_recording *recording, enum kw_model_part part, const bool *use,
                   const struct kw_model *model, const double *weights_w, double far_w,
                   struct equations *ret)
{
    double terms[TERMS_MAX] = {0}, counted = 0;

    *ret = (struct equations){.n = 1 + recording->n_features * KW_TERM__MAX};
    for (size_t row = 0; row < recording->n; row++) {
        if (!is_used(recording, use, row))
            continue;
        double power_w = recording->watts[row * KW_MODEL__MAX + part], off_w = power_w;
        terms_of(model, &recording->x[row * model->n], terms);
        for (size_t i = 0; i < ret->n; i++)
            off_w -= terms[i] * weights_w[i];
        double count = fabs(off_w) > far_w ? far_w / fabs(off_w) : 1;
        add_row(ret, terms, power_w, count);
        counted += count;
    }
    for (size_t i = 1; i < ret->n; i++)
        ret->a[i][i] += RIDGE * counted;
}

int cli_fit(const struct cli_recording *recording, enum kw_model_part part, const bool *use,
            struct kw_model *ret)
{
    struct kw_model model = {.present = true, .shape = KW_SHAPE_SUM};
    struct equations equations;
    double weights_w[TERMS_MAX] = {0}, far_w = HUGE_VAL;
    size_t n = take_features(recording, use, &model);

    if (n == 0)
        return -ENODATA;
    for (unsigned round = 0; round < ROUNDS; round++) {
        set_up(recording, part, use, &model, weights_w, far_w, &equations);
        solve(&equations, weights_w);
        far_w = FAR_PART * mean_w(recording, part, use);
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
                      .bounded = true,
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

/** Tells each group by a model of the others. @return 0; -ENODATA: not two groups. */
static int validate(const struct cli_recording *recording, enum kw_model_part part,
                    struct kw_model_error *ret)
{
    double sum_w = 0, mean_sum_w = 0;
    uint64_t all = 0;

    for (size_t g = 0; g < recording->n_groups; g++) {
        bool one[KW_MODEL_GROUPS_MAX] = {false}, others[KW_MODEL_GROUPS_MAX];
        struct kw_model model;
        for (size_t k = 0; k < recording->n_groups; k++)
            others[k] = k != g;
        one[g] = true;
        if (cli_fit(recording, part, others, &model) < 0)
            return -ENODATA;
        struct kw_model_group group = {0};
        group.mae_w = cli_fit_mae_w(recording, part, one, &model, &group.n_rows);
        if (group.n_rows == 0)
            continue; /* all of its rows lacked a value */
        memcpy(group.name, recording->groups[g], sizeof(group.name));
        model = mean_of(recording, part, others);
        mean_sum_w += (double)group.n_rows * cli_fit_mae_w(recording, part, one, &model, NULL);
        sum_w += (double)group.n_rows * group.mae_w;
        all += group.n_rows;
        ret->groups[ret->n_groups++] = group;
    }
    if (ret->n_groups < 2)
        return -ENODATA;
    ret->mae_w = sum_w / (double)all;
    ret->mean_mae_w = mean_sum_w / (double)all;
    return 0;
}

int cli_fit_validated(const struct cli_recording *recording, enum kw_model_part part,
                      const struct cli_fit_prior *prior, struct kw_model *ret)
{
    struct kw_model_error error = {.prior_mae_w = -1};
    int rc = validate(recording, part, &error);

    if (rc == 0)
        rc = cli_fit(recording, part, NULL, ret);
    if (rc < 0)
        return rc;
    if (prior != NULL && prior->threads > 0 && has_feature(recording, "cpu_time")) {
        struct kw_model model = model_of_prior(prior);
        error.prior_mae_w = cli_fit_mae_w(recording, part, NULL, &model, NULL);
    }
    ret->error = error;
    return 0;
}
