/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kalman_model.h"

#include <math.h>
#include <string.h>

#define SCALED AGENT_COEFFICIENTS

/* Variance gained in a second. The level is that of all coefficients together: programs change what
 * they do, and more of that shows in the sum than can be said of one of them. Without it (tried: 0)
 * the filter looks for such a change among small differences of CPU time. */
#define SELF_DRIFT 3e-3
#define COUNTED_DRIFT                                                           \
    1e-3 /* of a workload whose instructions are counted: those tell some of it \
          */
#define IDLE_DRIFT  1e-5
#define COEF_DRIFT  1e-6
#define LEVEL_DRIFT 1e-3
#define COEF_MOST   1.0  /* variance of a coefficient */
#define DRIFT_MOST  60.0 /* times SELF_DRIFT, where errors say that workloads changed */

#define NOISE_W    0.2
#define NOISE_MAX  0.2  /* of a window's energy */
#define METER_PART 0.01 /* what of the noise is the meter's own */

/* Errors are added up over a second before they are judged: what lasts counts for more than what
 * comes and goes. Drift follows them within SHORT_S, noise within LONG_S; a single block counts no
 * more than it would at so many sigmas squared. */
#define BLOCK_S    1.0
#define SHORT_S    3.0
#define LONG_S     60.0
#define STRAIN_MAX 50.0
#define USUAL_MAX  9.0

/* What the model misses of one workload for as long as a window lasts, of the noise. */
#define OWN_COUNTERS 0.2
#define OWN_TIME     0.5

/* Errors that are usually smaller than expected say that what was learnt is surer, not what is
 * still the prior's: of a state whose variance is a part p of the prior's, p^KNOWN of it is kept.
 */
#define USUAL_MIN 0.02
#define KNOWN     1.3

#define EXPECTED_MIN  0.25 /* of what prior coefficients say: no program is as frugal */
#define INTENSITY_MIN (-1.0)
#define INTENSITY_MAX 100.0
#define COEF_MAX      50.0
#define BELIEF_MIN    0.02

#define REFERENCE_GHZ 3.0
#define GHZ_MIN       0.4
#define GHZ_MAX       8.0

/* The unit is taken from a window's energy as far as idle power is known better than that. */
#define UNIT_SIGMA 0.5
#define UNIT_MAX   5.0
#define UNIT_LEAST 0.01 /* of the energy has to be expected of workloads */

static double square(double x)
{
    return x * x;
}

/** Frequency that a workload ran at. Not the machine's mean: that has noise in common for all of
 * them, and on a machine that is busy throughout it is most of what moves (tried: 1 % of it made
 * the error without counters half as large again; only what it is off its usual one at the load, by
 * more than 5 or 8 %: a tenth better on a machine that throttles, and as much worse where idle
 * power is not known and on 64 cores). */
static double ghz_of(const struct agent_model *model, const struct agent_features *features)
{
    if ((model->window->has & AGENT_HAS_COUNTERS) == 0 || features->cpu_ns == 0)
        return REFERENCE_GHZ;
    return fmin(fmax((double)features->cycles / (double)features->cpu_ns, GHZ_MIN), GHZ_MAX);
}

/** What the power of a workload's time bends with. */
static double bend_of(const struct agent_model *model, double ghz)
{
    const struct agent_window *window = model->window;

    if ((window->has & AGENT_HAS_COUNTERS) != 0)
        return log(ghz / REFERENCE_GHZ);
    return window->n_cpus > 0 ? -fmin(model->busy_s / model->seconds / window->n_cpus, 1) : 0;
}

void agent_model_take(struct agent_model *model, size_t i)
{
    const struct agent_features *features = &model->window->features[i];
    struct agent_part *part = &model->parts[i];
    double unit = model->view->unit > 0 ? model->view->unit : 1;
    double ghz = ghz_of(model, features);

    agent_features_joules(model->window, features, ghz, part->f);
    part->scaled = 0;
    for (size_t j = 0; j < SCALED; j++) {
        part->f[j] *= unit;
        part->scaled += part->f[j];
    }
    part->wake = model->threads_s > 0
                     ? model->awake_s * (double)features->cpu_ns * 1e-9 / model->threads_s
                     : 0;
    /* misses are memory's, at its own pace */
    part->bent = (part->scaled - part->f[SCALED - 1]) * bend_of(model, ghz);
}

void agent_model_find_unit(struct agent_model *model)
{
    const struct agent_filter *filter = model->view->filter;
    double resting = agent_filter_mean(filter, AGENT_STATE_IDLE) * model->seconds +
                     agent_filter_mean(filter, AGENT_STATE_WAKE) * model->awake_s;
    double active = model->measured - resting, scaled = 0;
    double unsure = model->seconds * sqrt(agent_filter_variance(filter, AGENT_STATE_IDLE) +
                                          agent_filter_variance(filter, AGENT_STATE_WAKE));

    for (size_t i = 0; i < model->n; i++)
        scaled += model->parts[i].scaled;
    if (active <= 0 || scaled < UNIT_LEAST * model->measured)
        return;
    double unit = fmin(fmax(active / scaled, 1 / UNIT_MAX), UNIT_MAX);
    model->view->unit = pow(unit, 1 / (1 + square(unsure / active / UNIT_SIGMA)));
    for (size_t i = 0; i < model->n; i++)
        agent_model_take(model, i);
}

/** Mean intensity of the workloads that ran. */
static double like_of(const struct agent_model *model)
{
    double sum = 0, scaled = 0;

    for (size_t i = 0; i < model->n; i++) {
        const struct agent_part *part = &model->parts[i];
        sum += part->scaled * agent_filter_mean(model->view->filter, part->state);
        scaled += part->scaled;
    }
    return scaled > 0 ? sum / scaled : model->view->like;
}

void agent_model_expect(struct agent_model *model)
{
    const struct agent_filter *filter = model->view->filter;
    double coef[SCALED], bend = agent_filter_mean(filter, AGENT_STATE_BEND);
    double wake_w = agent_filter_mean(filter, AGENT_STATE_WAKE);

    for (size_t j = 0; j < SCALED; j++)
        coef[j] = agent_filter_mean(filter, AGENT_STATE_CORE + j);
    double untold = model->alike ? 0 : 1 - model->view->told;

    model->view->like = like_of(model);
    model->raw = model->expected = 0;
    for (size_t i = 0; i < model->n; i++) {
        struct agent_part *part = &model->parts[i];
        double intensity = agent_filter_mean(filter, part->state);
        part->raw = intensity * part->scaled + bend * part->bent + wake_w * part->wake;
        for (size_t j = 0; j < SCALED; j++)
            part->raw += coef[j] * part->f[j];
        double believed = part->raw - untold * (intensity - model->view->like) * part->scaled;
        part->expected = fmax(believed, EXPECTED_MIN * part->scaled);
        model->raw += part->raw;
        model->expected += part->expected;
    }
}

/** Slopes of the active energy of all workloads by each state. */
static void set_slopes(struct agent_model *model)
{
    double *slope = model->slope;

    memset(slope, 0, agent_filter_count(model->view->filter) * sizeof(double));
    for (size_t i = 0; i < model->n; i++) {
        const struct agent_part *part = &model->parts[i];
        for (size_t j = 0; j < SCALED; j++)
            slope[AGENT_STATE_CORE + j] += part->f[j];
        slope[AGENT_STATE_WAKE] += part->wake;
        slope[AGENT_STATE_BEND] += part->bent;
        slope[part->state] += part->scaled;
    }
}

static double noise_of(const struct agent_model *model)
{
    const struct agent_filter *filter = model->view->filter;
    double idle = agent_filter_mean(filter, AGENT_STATE_IDLE) * model->seconds;
    /* of what is expected, so that a window whose meter read low does not count for more */
    double level = fmax(idle + model->expected, 0.1 * model->measured);

    return model->view->noise * square(level) + square(NOISE_W * model->seconds);
}

static double innovation_of(const struct agent_model *model)
{
    return model->measured - model->raw -
           agent_filter_mean(model->view->filter, AGENT_STATE_IDLE) * model->seconds;
}

/** Follows how large errors are, of what they were expected to be. */
static void follow_errors(struct agent_kalman_view *view, double seconds, double error,
                          double expected)
{
    view->block_error += error;
    view->block_expected += expected;
    view->block_s += seconds;
    if (view->block_s < BLOCK_S)
        return;
    double strain = square(view->block_error) / view->block_expected;
    double fade = 1 - exp(-view->block_s / SHORT_S), fade_long = 1 - exp(-view->block_s / LONG_S);
    view->strain += fade * (fmin(strain, STRAIN_MAX) - view->strain);
    strain = fmin(strain, USUAL_MAX);
    view->noise *= 1 + fade_long * (strain - 1);
    view->noise = fmin(fmax(view->noise, view->noise_min), square(NOISE_MAX));
    view->blocks++;
    view->usual += fmax(1 / view->blocks, fade_long) * (strain - view->usual);
    view->block_error = view->block_expected = view->block_s = 0;
}

/** Workloads of one owner that change do so together: what sets them apart is theirs from the
 * start, and can only be found, not grow. @param moved root of the variance that each state gained.
 */
static void drift_together(struct agent_filter *filter, const uint64_t *kin, const double *moved)
{
    for (size_t i = AGENT_STATE_FIRST; i < agent_filter_count(filter); i++) {
        if (kin[i] == 0 || moved[i] <= 0)
            continue;
        for (size_t j = AGENT_STATE_FIRST; j < i; j++) {
            if (kin[j] == kin[i])
                agent_filter_tie(filter, i, j, moved[i] * moved[j]);
        }
    }
}

/** Each coefficient by itself, and all of them together. */
static void drift_machine(struct agent_filter *filter, double boost, double seconds)
{
    for (size_t j = AGENT_STATE_CORE; j < AGENT_STATE_CORE + SCALED; j++) {
        agent_filter_drift(filter, j, COEF_DRIFT * seconds, COEF_MOST);
        double grown = agent_filter_drift(filter, j, LEVEL_DRIFT * boost * seconds, COEF_MOST);
        for (size_t i = AGENT_STATE_CORE; i < j; i++)
            agent_filter_tie(filter, i, j, grown);
    }
}

static void drift(struct agent_model *model)
{
    struct agent_filter *filter = model->view->filter;
    double idle_w = agent_filter_mean(filter, AGENT_STATE_IDLE), seconds = model->seconds;
    double boost = fmin(fmax(square(model->view->strain), 1), DRIFT_MOST);
    bool counters = (model->window->has & AGENT_HAS_COUNTERS) != 0;
    double self = (counters ? COUNTED_DRIFT : SELF_DRIFT) * boost * seconds;

    agent_filter_drift(filter, AGENT_STATE_IDLE, IDLE_DRIFT * square(idle_w) * seconds,
                       square(idle_w) + 0.01);
    drift_machine(filter, boost, seconds);
    if (model->alike)
        return;
    memset(model->times, 0, agent_filter_count(filter) * sizeof(double));
    for (size_t i = 0; i < model->n; i++) {
        const struct agent_part *part = &model->parts[i];
        if (part->scaled > 0)
            model->times[part->state] = sqrt(
                agent_filter_drift(filter, part->state, self, 2 * square(AGENT_INTENSITY_SIGMA)));
    }
    drift_together(filter, model->kin, model->times);
}

bool agent_model_learn(struct agent_model *model, double belief)
{
    struct agent_filter *filter = model->view->filter;
    double innovation = model->error = innovation_of(model);

    drift(model);
    set_slopes(model);
    model->slope[AGENT_STATE_IDLE] = model->seconds;
    double noise = noise_of(model);
    double weighed = noise / fmax(belief, BELIEF_MIN);
    double expected = agent_filter_update(filter, model->slope, innovation, weighed);
    if (expected < 0)
        return false;
    follow_errors(model->view, model->seconds, innovation, expected - weighed + noise);
    agent_filter_clamp(filter, AGENT_STATE_IDLE, 0, 1e9);
    agent_filter_clamp(filter, AGENT_STATE_WAKE, 0, 1e9);
    for (size_t j = AGENT_STATE_CORE; j < AGENT_STATE_CORE + SCALED; j++)
        agent_filter_clamp(filter, j, -COEF_MAX, COEF_MAX);
    for (size_t i = AGENT_STATE_REST; i < agent_filter_count(filter); i++)
        agent_filter_clamp(filter, i, INTENSITY_MIN, INTENSITY_MAX);
    return true;
}

/** States that one workload's energy goes by, and its slopes by them. */
#define OWN (SCALED + 3)

static void own_slopes(const struct agent_part *part, size_t at[OWN], double slope[OWN])
{
    for (size_t j = 0; j < SCALED; j++) {
        at[j] = AGENT_STATE_CORE + j;
        slope[j] = part->f[j];
    }
    at[SCALED] = AGENT_STATE_WAKE;
    slope[SCALED] = part->wake;
    at[SCALED + 1] = AGENT_STATE_BEND;
    slope[SCALED + 1] = part->bent;
    at[SCALED + 2] = part->state;
    slope[SCALED + 2] = part->scaled;
}

/** Of a_k = A w_k / W with A = E - idle dt, to first order
 *   da_k = A/W (dw_k - share_k dW) - share_k dt didle + share_k dE
 * @param all variance of W; model->times is the covariance of all states with it. */
static double share_variance(const struct agent_model *model, const struct agent_part *part,
                             double all)
{
    const struct agent_filter *filter = model->view->filter;
    double idle = agent_filter_mean(filter, AGENT_STATE_IDLE) * model->seconds;
    double share = part->expected / model->expected;
    double factor = fmax(model->measured - idle, 0) / model->expected;
    double slope[OWN], own = 0, with_all = 0, with_idle = 0;
    size_t at[OWN];

    own_slopes(part, at, slope);
    for (size_t a = 0; a < OWN; a++) {
        with_all += slope[a] * model->times[at[a]];
        with_idle += slope[a] * agent_filter_covariance(filter, AGENT_STATE_IDLE, at[a]);
        for (size_t b = 0; b < OWN; b++)
            own += slope[a] * slope[b] * agent_filter_covariance(filter, at[a], at[b]);
    }
    return square(factor) * (own - 2 * share * with_all + square(share) * all) -
           2 * factor * share * model->seconds *
               (with_idle - share * model->times[AGENT_STATE_IDLE]) +
           square(share) *
               (square(model->seconds) * agent_filter_variance(filter, AGENT_STATE_IDLE) +
                square(METER_PART * model->measured));
}

void agent_model_variances(struct agent_model *model)
{
    const struct agent_filter *filter = model->view->filter;
    bool counters = (model->window->has & AGENT_HAS_COUNTERS) != 0;
    double usual = fmin(fmax(model->view->usual, USUAL_MIN), 1);
    double missed =
        (counters ? OWN_COUNTERS : OWN_TIME) * usual * model->view->noise * square(model->measured);
    double all = 0, squares = 0;

    set_slopes(model);
    agent_filter_times(filter, model->slope, model->times);
    for (size_t i = 0; i < agent_filter_count(filter); i++)
        all += model->slope[i] * model->times[i];
    for (size_t i = 0; i < model->n; i++)
        squares += square(model->parts[i].expected);
    for (size_t i = 0; i < model->n; i++) {
        struct agent_part *part = &model->parts[i];
        part->variance = 0;
        if (part->expected <= 0)
            continue;
        double known = agent_filter_variance(filter, part->state) / square(AGENT_INTENSITY_SIGMA);
        double honest = usual + (1 - usual) * pow(fmin(known, 1), KNOWN);
        part->variance = fmax(honest * share_variance(model, part, all), 0) +
                         missed * square(part->expected) / squares;
    }
}
