/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Power of a machine from what its CPUs did: written by `kwatt train` on a machine with a meter,
 * read by agents on machines without one. Kepler's weight files are read, too. Format:
 * docs/power-models.md.
 */

#define KW_MODEL_FEATURES_MAX 16
#define KW_MODEL_GROUPS_MAX   64
#define KW_MODEL_NAME_MAX     63 /* bytes of the name of a feature or group */
#define KW_MODEL_FILE_MAX     (1u << 20)
#define KW_MODEL_MAX_W        100000.0 /* nothing that is called a machine draws more */
#define KW_MODEL_TREES_MAX    128
#define KW_MODEL_NODES_MAX    1024 /* of all trees of a part */

/** What a model is of. */
enum kw_model_part {
    KW_MODEL_PACKAGE,  /**< all CPU packages together */
    KW_MODEL_DRAM,     /**< their memory */
    KW_MODEL_PLATFORM, /**< the whole machine */
    KW_MODEL__MAX
};

/** "package", "dram", "platform". */
extern const char *const kw_model_part_names[KW_MODEL__MAX];

/** Terms of a feature, z being the feature in parts of its scale. */
enum kw_model_term {
    KW_TERM_ROOT,        /**< z^(1/2) */
    KW_TERM_LINEAR,      /**< z */
    KW_TERM_SQUARE,      /**< z^2 */
    KW_TERM_CUBE,        /**< z^3 */
    KW_TERM_FOURTH_ROOT, /**< z^(1/4) */
    KW_TERM__MAX
};

/** How the watts follow. */
enum kw_model_shape {
    KW_SHAPE_SUM,         /**< base_w + the terms of all features */
    KW_SHAPE_EXPONENTIAL, /**< a e^(b z) + c; z of the first feature, as in all curves */
    KW_SHAPE_LOGARITHMIC, /**< a ln(b z + 1) + c */
    KW_SHAPE_LOGISTIC,    /**< a / (1 + e^(-k (z - z0))) + c, in the order a, z0, k, c */
    KW_SHAPE_TREES,       /**< base_w + a leaf of each tree */
    KW_SHAPE__MAX
};

/** What is said of a z outside of 0 and 1. */
enum kw_model_beyond {
    KW_BEYOND_AS_WITHIN, /**< the term's own law: foreign models, which are linear */
    KW_BEYOND_HELD,      /**< below 0 as at 0; above 1 as at 1, the most that was seen */
    KW_BEYOND_LOGARITHM, /**< above 1 by the logarithm, rising at 1 as the term does there */
    KW_BEYOND__MAX
};

struct kw_model_feature {
    char name[KW_MODEL_NAME_MAX + 1];
    double offset, scale; /**< z = (x - offset) / scale; scale > 0 */
    enum kw_model_beyond beyond;
    double weights_w[KW_TERM__MAX]; /**< by enum kw_model_term */
};

/** A node of a tree. Children stand behind their parent: whoever goes down arrives. */
struct kw_model_node {
    double value;         /**< a leaf's watts, from 0; else: a feature below it goes left */
    uint16_t left, right; /**< indices of nodes; both 0: a leaf */
    uint16_t feature;
};

/** Trees whose leaves are added up. No leaf on the left of a node is above one on its right. */
struct kw_model_trees {
    size_t n, n_nodes;
    uint16_t roots[KW_MODEL_TREES_MAX]; /**< ascending; a tree ends where the next one begins */
    struct kw_model_node nodes[KW_MODEL_NODES_MAX];
};

/** What the model missed where it had not been trained. */
struct kw_model_group {
    char name[KW_MODEL_NAME_MAX + 1];
    uint64_t n_rows;
    double mae_w; /**< mean absolute error of a model trained on all other groups */
};

struct kw_model_error {
    double mae_w;       /**< over all rows, each by a model that had not seen its group */
    double prior_mae_w; /**< the CPU class's prior on the same rows; below 0: not known */
    double mean_mae_w;  /**< always the mean of the other groups, on the same rows */
    size_t n_groups;    /**< 0: the file states no error */
    struct kw_model_group groups[KW_MODEL_GROUPS_MAX];
};

struct kw_model {
    bool present;
    char refused[256]; /**< where the file has the part, but it cannot be used: why; else "" */
    enum kw_model_shape shape;
    double curve[4]; /**< parameters of a curve */
    double base_w;
    size_t n;
    struct kw_model_feature features[KW_MODEL_FEATURES_MAX]; /**< of trees: without weights */
    struct kw_model_trees trees;
    struct kw_model_error error;
};

struct kw_power_model {
    bool foreign;     /**< from Kepler's weights */
    bool active_only; /**< what is above idle; not a machine's power */
    uint32_t threads; /**< hardware threads of the machine it was trained on; 0: not known */
    struct kw_model parts[KW_MODEL__MAX];
};

/**
 * What kwatt calls a feature of a recording or a weight file: "cpu_time" (CPU seconds a second),
 * "cycles", "instructions", "cache_misses" (a second each), under these names and Kepler's.
 * @param ret_unit one of the source's units in ours (0.001 for milliseconds).
 * @return static; NULL: none of kwatt's.
 */
const char *kw_model_feature_name(const char *name, double *ret_unit);

/** Watts at the features `x` (n of them, in the model's order). Finite, 0..KW_MODEL_MAX_W. Pure. */
double kw_model_watts(const struct kw_model *model, const double *x);

/** Whether what a model says depends on a feature. */
bool kw_model_needs(const struct kw_model *model, size_t feature);

/**
 * Adds a tree from the JSON that XGBoost dumps. It shares its features by number: "f0" is the
 * model's first. Its lowest leaf is taken into base_w, so that all leaves are from 0.
 * @return 0; -EBADMSG no such tree, or one that falls with a feature; -E2BIG; -ENOMEM. On failure
 * the model is as before.
 */
int kw_model_add_xgboost(struct kw_model *model, const char *json, size_t len);

/** Watts with nothing to do. */
double kw_model_idle_w(const struct kw_model *model);

/** Watts at the most that every feature had in the training; 0 where that is not known. */
double kw_model_top_w(const struct kw_model *model);

/**
 * Decodes a model of kwatt's or Kepler's weights.
 * @param file_name the file's; Kepler's say there, and nowhere else, which curve is meant
 *        ("...ExponentialRegressionTrainer...") and whether idle is left out ("DynPower").
 * @param ret parts that cannot be used are not present and say why.
 * @return 0; -EBADMSG, -EPROTONOSUPPORT, -ENOMEM with the reason in *ret_why (static).
 */
int kw_power_model_decode(const char *json, size_t len, const char *file_name,
                          struct kw_power_model *ret, const char **ret_why);

/** Encodes a model of kwatt's. @return 0; -EINVAL (it breaks a rule of the format, or is foreign);
 * -ENOMEM. Caller frees. */
int kw_power_model_encode(const struct kw_power_model *model, char **ret, size_t *ret_len);
