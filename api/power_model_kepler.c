/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kepler's weight files (kepler-model-db). Three things are not in them and have to be told apart:
 *
 *   scale      a divisor (what the feature reaches), or, in files of an older trainer, its inverse,
 *              to be multiplied with. Features are counted a second, so that what they reach is
 *              above 1: a scale below 1 is a factor. A file that has both cannot be read.
 *   curve      three parameters are an exponential or a logarithm: only the file's name says which.
 *   diverged   some published regressions never converged. They say several times the watts that
 *              any such machine draws, or less than none, or less the more there is to do.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/power_model_impl.h"

/* Watts of a hardware thread that a model may add from no load to full. The thirstiest CPU class
 * (api/cpu_class.c) draws 8.6 W a thread, whole machine and idle included: twice that is wrong.
 * Memory of a socket with all its slots full is below 4 W a thread. Machines with few threads have
 * boards, disks and fans besides: of a platform only what is wrong by a factor is. Models of
 * counters are held to a narrower bound, for they describe machines that run in clusters today. */
#define PACKAGE_THREAD_W          16.0
#define DRAM_THREAD_W             4.0
#define PLATFORM_THREAD_W         64.0
#define PLATFORM_COUNTER_THREAD_W 24.0

/* What one thread does in a second when it is busy: cycles, and as many instructions. */
#define THREAD_HZ 3e9

/* A curve may sag by so much of its highest value, for fits have no sense of direction. */
#define SAG_MAX     0.02
#define CURVE_STEPS 32

static void refuse(struct kw_model *model, const char *why)
{
    if (model->refused[0] == '\0')
        (void)snprintf(model->refused, sizeof(model->refused), "%s", why);
}

/** A number of an object, 0 where it is not there. @return whether it is one, and finite. */
static bool number_of(const json_t *object, const char *key, double *ret)
{
    const json_t *value = json_object_get(object, key);

    *ret = json_number_value(value);
    return value == NULL || (json_is_number(value) && fabs(*ret) < 1e300);
}

/** Scale and offset of a feature. @param ret_factor whether its scale is a factor. */
static void take_scale(struct kw_model *model, const json_t *variable, double unit,
                       struct kw_model_feature *ret, bool *ret_factor, bool *ret_divisor)
{
    double scale = 0, mean = 0, variance = 0;

    if (!number_of(variable, "scale", &scale) || !number_of(variable, "mean", &mean) ||
        !number_of(variable, "variance", &variance) || scale < 0 || variance < 0) {
        refuse(model, "a scale, mean or variance is no number");
        return;
    }
    if (scale > 0) {
        *ret_factor = *ret_factor || scale < 1;
        *ret_divisor = *ret_divisor || scale > 1;
        ret->scale = scale < 1 ? 1 / scale : scale;
    } else if (variance > 0) {
        ret->scale = sqrt(variance);
        ret->offset = mean * unit;
    } else {
        refuse(model, "a feature has neither a scale nor a variance");
        return;
    }
    ret->scale *= unit;
}

static void take_features(struct kw_model *model, const json_t *variables)
{
    bool factor = false, divisor = false;
    const char *name;
    json_t *variable;

    json_object_foreach ((json_t *)variables, name, variable) {
        struct kw_model_feature *feature = &model->features[model->n];
        double unit = 1, weight_w = 0;
        const char *ours = kw_model_feature_name(name, &unit);
        if (model->n == KW_MODEL_FEATURES_MAX || strlen(name) > KW_MODEL_NAME_MAX) {
            refuse(model, "more features, or longer names, than kwatt reads");
            return;
        }
        (void)snprintf(feature->name, sizeof(feature->name), "%s", ours != NULL ? ours : name);
        if (!json_is_object(variable) || !number_of(variable, "weight", &weight_w)) {
            refuse(model, "a weight is no number");
            return;
        }
        take_scale(model, variable, unit, feature, &factor, &divisor);
        feature->weights_w[KW_TERM_LINEAR] = weight_w;
        model->n++;
    }
    if (factor && divisor)
        refuse(model, "scales below 1 and above 1: are they factors or divisors?");
    if (model->n == 0)
        refuse(model, "no features");
}

static void take_curve(struct kw_model *model, const json_t *weights, const char *file_name)
{
    size_t n = json_array_size(weights);

    if (n == 4)
        model->shape = KW_SHAPE_LOGISTIC;
    else if (n == 3 && strstr(file_name, "Exponential") != NULL)
        model->shape = KW_SHAPE_EXPONENTIAL;
    else if (n == 3 && strstr(file_name, "Logarithmic") != NULL)
        model->shape = KW_SHAPE_LOGARITHMIC;
    else
        refuse(model, n == 3 ? "three curve weights are an exponential or a logarithm: the file's "
                               "name has to say Exponential or Logarithmic"
                             : "a curve has three or four weights");
    for (size_t i = 0; i < n && i < 4; i++) {
        const json_t *weight = json_array_get(weights, i);
        if (!json_is_number(weight))
            refuse(model, "a curve weight is no number");
        model->curve[i] = json_number_value(weight);
    }
}

/** Hardware threads that are busy at full scale, as far as the features tell; 0: they do not. */
static double threads_of(const struct kw_model *model, bool *ret_counters)
{
    size_t n = model->shape == KW_SHAPE_SUM ? model->n : 1;
    double threads = 0;

    *ret_counters = false;
    for (size_t i = 0; i < n; i++) {
        const struct kw_model_feature *feature = &model->features[i];
        if (strcmp(feature->name, "cpu_time") == 0)
            threads = fmax(threads, feature->scale);
        if (strcmp(feature->name, "cycles") != 0 && strcmp(feature->name, "instructions") != 0)
            continue;
        *ret_counters = true;
        threads = fmax(threads, feature->scale / THREAD_HZ);
    }
    return threads;
}

/** What a sum adds at full scale of what kwatt knows to be activity. */
static double added_w(const struct kw_model *model)
{
    double power_w = 0, unit;

    for (size_t i = 0; i < model->n; i++) {
        double weight_w = model->features[i].weights_w[KW_TERM_LINEAR];
        if (weight_w > 0 && kw_model_feature_name(model->features[i].name, &unit) != NULL)
            power_w += weight_w;
    }
    return power_w;
}

static double raw_at(const struct kw_model *model, double part)
{
    double x[KW_MODEL_FEATURES_MAX] = {0};

    x[0] = model->features[0].offset + part * model->features[0].scale;
    return kw_model_raw_w(model, x);
}

/** Whether a curve rises as it should. */
static void check_curve(struct kw_model *model)
{
    double highest_w = raw_at(model, 0);
    char text[sizeof(model->refused)];

    for (unsigned i = 0; i <= CURVE_STEPS; i++) {
        double power_w = raw_at(model, (double)i / CURVE_STEPS);
        if (!(fabs(power_w) <= KW_MODEL_MAX_W) || power_w < highest_w - SAG_MAX * fabs(highest_w)) {
            (void)snprintf(text, sizeof(text),
                           "diverged: %.4g W at %u %% of its own full load, after %.4g W at less",
                           power_w, 100 * i / CURVE_STEPS, highest_w);
            refuse(model, text);
            return;
        }
        highest_w = fmax(highest_w, power_w);
    }
}

static void check(struct kw_model *model, enum kw_model_part part, bool active_only)
{
    const double nothing[KW_MODEL_FEATURES_MAX] = {0};
    char text[sizeof(model->refused)];
    bool counters = false;

    if (model->refused[0] != '\0')
        return;
    if (model->shape != KW_SHAPE_SUM)
        check_curve(model);
    double idle_w = kw_model_raw_w(model, nothing);
    double threads = threads_of(model, &counters);
    double added =
        model->shape == KW_SHAPE_SUM ? added_w(model) : raw_at(model, 1) - raw_at(model, 0);
    double bound_w = part == KW_MODEL_PACKAGE ? PACKAGE_THREAD_W
                     : part == KW_MODEL_DRAM  ? DRAM_THREAD_W
                     : counters               ? PLATFORM_COUNTER_THREAD_W
                                              : PLATFORM_THREAD_W;
    if (!(fabs(idle_w) <= KW_MODEL_MAX_W) || (!active_only && idle_w <= 0)) {
        (void)snprintf(text, sizeof(text), "diverged: %.4g W with nothing to do", idle_w);
        refuse(model, text);
    }
    if (threads > 0 && !(added <= bound_w * threads)) {
        (void)snprintf(text, sizeof(text),
                       "diverged: adds %.4g W at the full load of %.3g hardware threads, %.3g W "
                       "each; none draws more than %g W",
                       added, threads, added / threads, bound_w);
        refuse(model, text);
    }
}

static void take_part(struct kw_model *model, const json_t *component, const char *file_name)
{
    const json_t *weights = json_object_get(component, "All_Weights");
    const json_t *categories = json_object_get(weights, "Categorical_Variables");
    const json_t *curve = json_object_get(weights, "CurveFit_Weights");

    if (!json_is_object(weights)) {
        refuse(model, "it has no All_Weights");
        return;
    }
    if (json_object_size(categories) > 0)
        refuse(model, "weights of categories, which kwatt does not read");
    take_features(model, json_object_get(weights, "Numerical_Variables"));
    if (curve != NULL && json_array_size(curve) > 0)
        take_curve(model, curve, file_name);
    else if (!number_of(weights, "Bias_Weight", &model->base_w))
        refuse(model, "Bias_Weight is no number");
}

void kw_power_model_from_kepler(struct kw_reader *reader, const json_t *root, const char *file_name,
                                struct kw_power_model *ret)
{
    const char *name = json_string_value(json_object_get(root, "model_name"));
    size_t n = 0;

    if (name == NULL)
        name = file_name;
    ret->foreign = true;
    ret->active_only = strcasestr(name, "DynPower") != NULL;
    for (size_t p = 0; p < KW_MODEL__MAX; p++) {
        const json_t *component = json_object_get(root, kw_model_part_names[p]);
        struct kw_model *model = &ret->parts[p];
        if (component == NULL)
            continue;
        n++;
        take_part(model, component, name);
        check(model, (enum kw_model_part)p, ret->active_only);
        model->present = model->refused[0] == '\0';
    }
    if (n == 0)
        kw_reader_fail(reader, -EBADMSG, "neither kwatt's power model nor Kepler's weights");
}
