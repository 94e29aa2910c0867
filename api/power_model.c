/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kwatt's own models are sums of non-negative terms of bounded features. Two things follow that a
 * free regression does not give: more work never costs less, and a program unlike all that were
 * seen in the training costs no more than the most that was seen, instead of what a line happens
 * to reach out there. Where that is known to be too little (what memory draws for cache misses, of
 * which one kind of load has ten times as many as another), a logarithm goes on from there.
 */
#include "api/power_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/power_model_impl.h"

/* The logarithm ends there: counters that say so much more are wrong. */
#define BEYOND_MAX 100.0

/* Schema of files that say something which readers of schema 1 would pass over: trees, a fourth
 * root, a logarithm. All others stay readable for older agents. */
#define SCHEMA_NEWER 2

static const char *const term_names[KW_TERM__MAX] = {"root_w", "linear_w", "square_w", "cube_w",
                                                     "fourth_root_w"};
static const double exponents[KW_TERM__MAX] = {0.5, 1, 2, 3, 0.25};
static const char *const beyond_names[KW_BEYOND__MAX] = {"", "held", "logarithm"};

const char *const kw_model_part_names[KW_MODEL__MAX] = {"package", "dram", "platform"};

const char *kw_model_feature_name(const char *name, double *ret_unit)
{
    static const struct {
        const char *theirs, *ours;
        double unit;
    } names[] = {
        {"cpu_time", "cpu_time", 1},
        {"bpf_cpu_time_ms", "cpu_time", 1e-3},
        {"bpf_cpu_time_us", "cpu_time", 1e-3}, /* called so, and milliseconds all the same */
        {"cycles", "cycles", 1},
        {"cpu_cycles", "cycles", 1},
        {"instructions", "instructions", 1},
        {"cpu_instructions", "instructions", 1},
        {"cache_misses", "cache_misses", 1},
        {"cache_miss", "cache_misses", 1},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].theirs, name) == 0) {
            *ret_unit = names[i].unit;
            return names[i].ours;
        }
    }
    return NULL;
}

static double part_of_scale(const struct kw_model_feature *feature, double x)
{
    double z = (x - feature->offset) / feature->scale;

    return feature->beyond == KW_BEYOND_AS_WITHIN ? z : fmax(z, 0);
}

/** A curve at z; beyond full scale as at full scale, for an exponential knows no end. */
static double curve_w(const struct kw_model *model, double z)
{
    const double *c = model->curve;

    z = fmin(fmax(z, 0), 1);
    switch (model->shape) {
    case KW_SHAPE_EXPONENTIAL: return c[0] * exp(c[1] * z) + c[2];
    case KW_SHAPE_LOGARITHMIC: return c[0] * log(c[1] * z + 1) + c[2];
    case KW_SHAPE_LOGISTIC: return c[0] / (1 + exp(-c[2] * (z - c[1]))) + c[3];
    default: return 0;
    }
}

/** All terms of a feature. */
static double terms_w(const struct kw_model_feature *feature, double z)
{
    const double *weights_w = feature->weights_w;
    double within = fmin(z, 1), root = sqrt(within), power_w = 0;
    const double terms[KW_TERM__MAX] = {root, within, within * within, within * within * within,
                                        sqrt(root)};
    bool on = z > 1 && feature->beyond == KW_BEYOND_LOGARITHM;
    double further = on ? log(fmin(z, BEYOND_MAX)) : 0;

    for (size_t k = 0; k < KW_TERM__MAX; k++)
        power_w += weights_w[k] * (terms[k] + exponents[k] * further);
    return power_w;
}

double kw_model_raw_w(const struct kw_model *model, const double *x)
{
    double power_w = model->base_w;

    if (model->shape == KW_SHAPE_TREES)
        return power_w + kw_trees_w(&model->trees, x);
    if (model->shape != KW_SHAPE_SUM)
        return model->n > 0 ? curve_w(model, part_of_scale(&model->features[0], x[0])) : 0;
    for (size_t i = 0; i < model->n; i++) {
        const struct kw_model_feature *feature = &model->features[i];
        double z = part_of_scale(feature, x[i]);
        power_w += feature->beyond == KW_BEYOND_AS_WITHIN ? feature->weights_w[KW_TERM_LINEAR] * z
                                                          : terms_w(feature, z);
    }
    return power_w;
}

double kw_model_watts(const struct kw_model *model, const double *x)
{
    double power_w = kw_model_raw_w(model, x);

    return isnan(power_w) ? 0 : fmin(fmax(power_w, 0), KW_MODEL_MAX_W);
}

double kw_model_idle_w(const struct kw_model *model)
{
    const double nothing[KW_MODEL_FEATURES_MAX] = {0};

    return kw_model_watts(model, nothing);
}

bool kw_model_needs(const struct kw_model *model, size_t feature)
{
    bool needed = false;

    if (model->shape == KW_SHAPE_TREES) {
        for (size_t i = 0; i < model->trees.n_nodes; i++) {
            const struct kw_model_node *node = &model->trees.nodes[i];
            needed = needed || (node->left != 0 && node->feature == feature);
        }
        return needed;
    }
    if (model->shape != KW_SHAPE_SUM)
        return feature == 0;
    for (size_t k = 0; k < KW_TERM__MAX; k++)
        needed = needed || fpclassify(model->features[feature].weights_w[k]) != FP_ZERO;
    return needed;
}

double kw_model_top_w(const struct kw_model *model)
{
    double most[KW_MODEL_FEATURES_MAX];

    for (size_t i = 0; i < model->n; i++) {
        if (model->features[i].beyond == KW_BEYOND_AS_WITHIN)
            return 0;
        most[i] = model->features[i].offset + model->features[i].scale;
    }
    return kw_model_watts(model, most);
}

/* ---- kwatt's own ---- */

/** @param trees whether the part has trees: its features have no weights then. */
static void feature_from_json(struct kw_reader *reader, const json_t *object, bool trees,
                              struct kw_model_feature *ret)
{
    char beyond[16] = "held";

    if (!json_is_object(object))
        kw_reader_fail(reader, -EBADMSG, "features");
    kw_get_text(reader, object, "name", KW_REQUIRED, ret->name, sizeof(ret->name));
    kw_get_real(reader, object, "most", KW_REQUIRED, KW_MODEL_SCALE_MIN, KW_MODEL_SCALE_MAX,
                &ret->scale);
    ret->beyond = KW_BEYOND_HELD;
    if (trees)
        return;
    for (size_t k = 0; k < KW_TERM__MAX; k++)
        kw_get_real(reader, object, term_names[k],
                    k == KW_TERM_FOURTH_ROOT ? KW_OPTIONAL : KW_REQUIRED, 0, KW_MODEL_MAX_W,
                    &ret->weights_w[k]);
    kw_get_text(reader, object, "beyond", KW_OPTIONAL, beyond, sizeof(beyond));
    if (strcmp(beyond, beyond_names[KW_BEYOND_LOGARITHM]) == 0)
        ret->beyond = KW_BEYOND_LOGARITHM;
    else if (strcmp(beyond, beyond_names[KW_BEYOND_HELD]) != 0)
        kw_reader_fail(reader, -EBADMSG, "beyond");
}

static void error_from_json(struct kw_reader *reader, const json_t *object,
                            struct kw_model_error *ret)
{
    const json_t *groups = kw_get(reader, object, "groups", JSON_ARRAY, KW_REQUIRED);

    kw_get_real(reader, object, "mae_w", KW_REQUIRED, 0, KW_MODEL_MAX_W, &ret->mae_w);
    kw_get_real(reader, object, "mean_mae_w", KW_REQUIRED, 0, KW_MODEL_MAX_W, &ret->mean_mae_w);
    ret->prior_mae_w = -1;
    kw_get_real(reader, object, "prior_mae_w", KW_OPTIONAL, 0, KW_MODEL_MAX_W, &ret->prior_mae_w);
    if (json_array_size(groups) > KW_MODEL_GROUPS_MAX)
        kw_reader_fail(reader, -EBADMSG, "groups");
    for (size_t i = 0; reader->rc == 0 && i < json_array_size(groups); i++) {
        const json_t *element = json_array_get(groups, i);
        struct kw_model_group *group = &ret->groups[ret->n_groups++];
        if (!json_is_object(element))
            kw_reader_fail(reader, -EBADMSG, "groups");
        kw_get_text(reader, element, "name", KW_REQUIRED, group->name, sizeof(group->name));
        kw_get_u64(reader, element, "rows", KW_REQUIRED, &group->n_rows);
        kw_get_real(reader, element, "mae_w", KW_REQUIRED, 0, KW_MODEL_MAX_W, &group->mae_w);
    }
}

static void model_from_json(struct kw_reader *reader, const json_t *object, struct kw_model *ret)
{
    const json_t *features = kw_get(reader, object, "features", JSON_ARRAY, KW_REQUIRED);
    const json_t *trees = kw_get(reader, object, "trees", JSON_ARRAY, KW_OPTIONAL);
    const json_t *error = kw_get(reader, object, "error", JSON_OBJECT, KW_OPTIONAL);

    ret->present = true;
    ret->shape = trees != NULL ? KW_SHAPE_TREES : KW_SHAPE_SUM;
    kw_get_real(reader, object, "base_w", KW_REQUIRED, 0, KW_MODEL_MAX_W, &ret->base_w);
    if (json_array_size(features) == 0 || json_array_size(features) > KW_MODEL_FEATURES_MAX)
        kw_reader_fail(reader, -EBADMSG, "features");
    for (size_t i = 0; reader->rc == 0 && i < json_array_size(features); i++) {
        feature_from_json(reader, json_array_get(features, i), trees != NULL,
                          &ret->features[ret->n]);
        for (size_t k = 0; k < ret->n; k++) {
            if (strcmp(ret->features[k].name, ret->features[ret->n].name) == 0)
                kw_reader_fail(reader, -EBADMSG, "a feature twice");
        }
        ret->n++;
    }
    if (trees != NULL)
        kw_trees_from_json(reader, trees, ret->n, &ret->trees);
    if (error != NULL)
        error_from_json(reader, error, &ret->error);
}

static void own_from_json(struct kw_reader *reader, const json_t *root, struct kw_power_model *ret)
{
    const json_t *parts = kw_get(reader, root, "power_model", JSON_OBJECT, KW_REQUIRED);
    uint64_t schema = 0;
    size_t n = 0;

    kw_get_u64(reader, root, "schema", KW_REQUIRED, &schema);
    if (schema != KW_SCHEMA && schema != SCHEMA_NEWER)
        kw_reader_fail(reader, -EPROTONOSUPPORT, "schema");
    kw_get_u32(reader, root, "threads", KW_OPTIONAL, &ret->threads);
    for (size_t p = 0; p < KW_MODEL__MAX; p++) {
        const json_t *part =
            kw_get(reader, parts, kw_model_part_names[p], JSON_OBJECT, KW_OPTIONAL);
        if (part != NULL) {
            model_from_json(reader, part, &ret->parts[p]);
            n++;
        }
    }
    if (n == 0)
        kw_reader_fail(reader, -EBADMSG, "power_model");
}

int kw_power_model_decode(const char *json, size_t len, const char *file_name,
                          struct kw_power_model *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_power_model *model = calloc(1, sizeof(*model));
    json_t *root = kw_reader_parse(&reader, json, len);

    if (model == NULL)
        kw_reader_fail(&reader, -ENOMEM, "out of memory");
    else if (root != NULL && json_object_get(root, "schema") != NULL)
        own_from_json(&reader, root, model);
    else if (root != NULL)
        kw_power_model_from_kepler(&reader, root, file_name, model);
    json_decref(root);
    if (reader.rc == 0)
        *ret = *model;
    free(model);
    return kw_reader_end(&reader, ret_why);
}

static bool is_sayable_feature(const struct kw_model_feature *feature)
{
    bool good = feature->beyond != KW_BEYOND_AS_WITHIN && feature->beyond < KW_BEYOND__MAX &&
                fpclassify(feature->offset) == FP_ZERO && feature->scale >= KW_MODEL_SCALE_MIN &&
                feature->scale <= KW_MODEL_SCALE_MAX;

    for (size_t k = 0; good && k < KW_TERM__MAX; k++)
        good = feature->weights_w[k] >= 0 && feature->weights_w[k] <= KW_MODEL_MAX_W;
    return good;
}

/** Whether the format can say it. */
static bool is_sayable(const struct kw_model *model)
{
    bool good = (model->shape == KW_SHAPE_SUM || model->shape == KW_SHAPE_TREES) && model->n > 0 &&
                model->n <= KW_MODEL_FEATURES_MAX && model->base_w >= 0 &&
                model->base_w <= KW_MODEL_MAX_W && model->error.n_groups <= KW_MODEL_GROUPS_MAX;

    for (size_t i = 0; good && i < model->n; i++)
        good = is_sayable_feature(&model->features[i]);
    return good && (model->shape == KW_SHAPE_SUM || kw_trees_are_sound(&model->trees, model->n));
}

/** Whether a reader of schema 1 would take the part for something else than it is. */
static bool is_newer(const struct kw_model *model)
{
    bool newer = model->shape == KW_SHAPE_TREES;

    for (size_t i = 0; i < model->n; i++)
        newer = newer || model->features[i].beyond == KW_BEYOND_LOGARITHM ||
                model->features[i].weights_w[KW_TERM_FOURTH_ROOT] > 0;
    return newer;
}

static json_t *error_to_json(const struct kw_model_error *error, int *rc)
{
    json_t *object = json_object(), *groups = json_array();

    kw_put(rc, object, "mae_w", json_real(error->mae_w));
    kw_put(rc, object, "mean_mae_w", json_real(error->mean_mae_w));
    if (error->prior_mae_w >= 0)
        kw_put(rc, object, "prior_mae_w", json_real(error->prior_mae_w));
    for (size_t i = 0; i < error->n_groups; i++) {
        json_t *group = json_object();
        kw_put_text(rc, group, "name", error->groups[i].name, KW_MODEL_NAME_MAX);
        kw_put_u64(rc, group, "rows", error->groups[i].n_rows);
        kw_put(rc, group, "mae_w", json_real(error->groups[i].mae_w));
        kw_put_element(rc, groups, group);
    }
    kw_put(rc, object, "groups", groups);
    return object;
}

static json_t *feature_to_json(const struct kw_model_feature *feature, bool trees, int *rc)
{
    json_t *object = json_object();

    kw_put_text(rc, object, "name", feature->name, KW_MODEL_NAME_MAX);
    kw_put(rc, object, "most", json_real(feature->scale));
    if (trees)
        return object;
    for (size_t k = 0; k < KW_TERM__MAX; k++) {
        if (k != KW_TERM_FOURTH_ROOT || feature->weights_w[k] > 0)
            kw_put(rc, object, term_names[k], json_real(feature->weights_w[k]));
    }
    if (feature->beyond == KW_BEYOND_LOGARITHM)
        kw_put_text(rc, object, "beyond", beyond_names[feature->beyond], KW_MODEL_NAME_MAX);
    return object;
}

static json_t *model_to_json(const struct kw_model *model, int *rc)
{
    bool trees = model->shape == KW_SHAPE_TREES;
    json_t *object = json_object(), *features = json_array();

    kw_put(rc, object, "base_w", json_real(model->base_w));
    for (size_t i = 0; i < model->n; i++)
        kw_put_element(rc, features, feature_to_json(&model->features[i], trees, rc));
    kw_put(rc, object, "features", features);
    if (trees)
        kw_put(rc, object, "trees", kw_trees_to_json(&model->trees, rc));
    if (model->error.n_groups > 0)
        kw_put(rc, object, "error", error_to_json(&model->error, rc));
    return object;
}

int kw_power_model_encode(const struct kw_power_model *model, char **ret, size_t *ret_len)
{
    int rc = model->foreign || model->active_only ? -EINVAL : 0;
    json_t *root = kw_put_document(&rc), *parts = json_object();
    bool newer = false;

    if (model->threads > 0)
        kw_put_u64(&rc, root, "threads", model->threads);
    for (size_t p = 0; p < KW_MODEL__MAX; p++) {
        if (!model->parts[p].present)
            continue;
        newer = newer || is_newer(&model->parts[p]);
        if (!is_sayable(&model->parts[p]) && rc == 0)
            rc = -EINVAL;
        if (rc == 0)
            kw_put(&rc, parts, kw_model_part_names[p], model_to_json(&model->parts[p], &rc));
    }
    if (json_object_size(parts) == 0 && rc == 0)
        rc = -EINVAL;
    if (newer)
        kw_put_u64(&rc, root, "schema", SCHEMA_NEWER);
    kw_put(&rc, root, "power_model", parts);
    return kw_put_end(rc, root, JSON_INDENT(1) | JSON_REAL_PRECISION(17), ret, ret_len);
}
