/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient-boosted trees as kwatt keeps them. XGBoost grows them (cli/boost.c); whoever reads a
 * model needs no more than this to ask them: comparisons and a sum, over arrays without pointers.
 *
 * What is read is checked once. Children stand behind their parent, so that going down ends; and
 * no leaf on the left of a node is above one on its right, whatever the feature, so that more work
 * never costs less.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "api/power_model_impl.h"

#define VALUE_MAX 1e30 /* of a feature: well within a float, which is what trees compare */
#define DEPTH_MAX 16   /* of a dumped tree */

/** The end of tree `t` in the nodes. */
static size_t end_of(const struct kw_model_trees *trees, size_t t)
{
    return t + 1 < trees->n ? trees->roots[t + 1] : trees->n_nodes;
}

double kw_trees_w(const struct kw_model_trees *trees, const double *x)
{
    double sum_w = 0;

    for (size_t t = 0; t < trees->n; t++) {
        const struct kw_model_node *node = &trees->nodes[trees->roots[t]];
        while (node->left != 0) {
            float value = (float)fmin(fmax(x[node->feature], -VALUE_MAX), VALUE_MAX);
            node = &trees->nodes[value < (float)node->value ? node->left : node->right];
        }
        sum_w += node->value;
    }
    return sum_w;
}

/** Whether one tree is sound. */
static bool is_sound(const struct kw_model_trees *trees, size_t begin, size_t end,
                     size_t n_features)
{
    double low_w[KW_MODEL_NODES_MAX], high_w[KW_MODEL_NODES_MAX]; /* of the leaves below */

    if (begin >= end)
        return false;
    for (size_t i = end; i-- > begin;) {
        const struct kw_model_node *node = &trees->nodes[i];
        if (node->left == 0 && node->right == 0) {
            if (!(node->value >= 0 && node->value <= KW_MODEL_MAX_W))
                return false;
            low_w[i] = high_w[i] = node->value;
            continue;
        }
        if (node->left <= i || node->left >= end || node->right <= i || node->right >= end ||
            node->feature >= n_features || !(fabs(node->value) <= KW_MODEL_SCALE_MAX) ||
            high_w[node->left] > low_w[node->right])
            return false;
        low_w[i] = low_w[node->left];
        high_w[i] = high_w[node->right];
    }
    return true;
}

bool kw_trees_are_sound(const struct kw_model_trees *trees, size_t n_features)
{
    bool good = trees->n > 0 && trees->n <= KW_MODEL_TREES_MAX && trees->n_nodes > 0 &&
                trees->n_nodes <= KW_MODEL_NODES_MAX && trees->roots[0] == 0;

    for (size_t t = 0; good && t < trees->n; t++)
        good = end_of(trees, t) <= trees->n_nodes &&
               is_sound(trees, trees->roots[t], end_of(trees, t), n_features);
    return good;
}

/* ---- kwatt's own ---- */

/** A whole number below `end`. */
static uint16_t index_of(struct kw_reader *reader, const json_t *value, size_t end)
{
    json_int_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < 0 || (size_t)number >= end) {
        kw_reader_fail(reader, -EBADMSG, "trees");
        return 0;
    }
    return (uint16_t)number;
}

static struct kw_model_node node_from_json(struct kw_reader *reader, const json_t *array,
                                           size_t first, size_t n_features)
{
    size_t n = json_array_size(array);
    const json_t *value = json_array_get(array, n == 1 ? 0 : 1);
    struct kw_model_node node = {.value = json_number_value(value)};

    if ((n != 1 && n != 4) || !json_is_number(value)) {
        kw_reader_fail(reader, -EBADMSG, "trees");
        return node;
    }
    if (n == 4) {
        node.feature = index_of(reader, json_array_get(array, 0), n_features);
        node.left = index_of(reader, json_array_get(array, 2), KW_MODEL_NODES_MAX - first);
        node.right = index_of(reader, json_array_get(array, 3), KW_MODEL_NODES_MAX - first);
        node.left = (uint16_t)(node.left + first);
        node.right = (uint16_t)(node.right + first);
        if (node.left == 0 || node.right == 0) /* would be taken for a leaf */
            kw_reader_fail(reader, -EBADMSG, "trees");
    }
    return node;
}

void kw_trees_from_json(struct kw_reader *reader, const json_t *array, size_t n_features,
                        struct kw_model_trees *ret)
{
    if (json_array_size(array) > KW_MODEL_TREES_MAX)
        kw_reader_fail(reader, -EBADMSG, "trees");
    for (size_t t = 0; reader->rc == 0 && t < json_array_size(array); t++) {
        const json_t *tree = json_array_get(array, t);
        size_t first = ret->n_nodes, n = json_array_size(tree);
        if (n == 0 || n > KW_MODEL_NODES_MAX - first) {
            kw_reader_fail(reader, -EBADMSG, "trees");
            return;
        }
        ret->roots[ret->n++] = (uint16_t)first;
        for (size_t i = 0; i < n; i++)
            ret->nodes[ret->n_nodes++] =
                node_from_json(reader, json_array_get(tree, i), first, n_features);
    }
    if (reader->rc == 0 && !kw_trees_are_sound(ret, n_features))
        kw_reader_fail(reader, -EBADMSG, "trees");
}

static json_t *node_to_json(const struct kw_model_node *node, size_t first, int *rc)
{
    json_t *array = json_array();

    if (node->left == 0) {
        kw_put_element(rc, array, json_real(node->value));
        return array;
    }
    kw_put_element(rc, array, json_integer(node->feature));
    kw_put_element(rc, array, json_real(node->value));
    kw_put_element(rc, array, json_integer((json_int_t)(node->left - first)));
    kw_put_element(rc, array, json_integer((json_int_t)(node->right - first)));
    return array;
}

json_t *kw_trees_to_json(const struct kw_model_trees *trees, int *rc)
{
    json_t *array = json_array();

    for (size_t t = 0; t < trees->n; t++) {
        json_t *tree = json_array();
        for (size_t i = trees->roots[t]; i < end_of(trees, t); i++)
            kw_put_element(rc, tree, node_to_json(&trees->nodes[i], trees->roots[t], rc));
        kw_put_element(rc, array, tree);
    }
    return array;
}

/* ---- XGBoost's dump: {"split": "f0", "split_condition": x, "yes": id, "no": id, "children":
 * [...]} and {"leaf": watts}, each with its "nodeid" ---- */

static bool number_of(const json_t *object, const char *key, double *ret)
{
    const json_t *value = json_object_get(object, key);

    *ret = json_number_value(value);
    return json_is_number(value);
}

/** The child that one of a node's keys names. */
static const json_t *child_of(const json_t *object, const char *key)
{
    const json_t *id = json_object_get(object, key), *child;
    const json_t *children = json_object_get(object, "children");
    size_t i;

    json_array_foreach (children, i, child) {
        if (json_is_integer(id) && json_equal(json_object_get(child, "nodeid"), id))
            return child;
    }
    return NULL;
}

/** Takes a node and all below it behind those that are there. @param depth of the node. */
static int add_node(struct kw_model_trees *trees, const json_t *object, size_t n_features,
                    unsigned depth)
{
    const char *split = json_string_value(json_object_get(object, "split"));
    struct kw_model_node node = {0};

    if (trees->n_nodes == KW_MODEL_NODES_MAX || depth == DEPTH_MAX)
        return -E2BIG;
    size_t at = trees->n_nodes++;
    if (number_of(object, "leaf", &node.value)) {
        trees->nodes[at] = node;
        return 0;
    }
    if (split == NULL || split[0] != 'f' || split[1] < '0' || split[1] > '9' || split[2] != '\0' ||
        (size_t)(split[1] - '0') >= n_features ||
        !number_of(object, "split_condition", &node.value))
        return -EBADMSG;
    node.feature = (uint16_t)(split[1] - '0');
    node.left = (uint16_t)trees->n_nodes;
    int rc = add_node(trees, child_of(object, "yes"), n_features, depth + 1);
    node.right = (uint16_t)trees->n_nodes;
    if (rc == 0)
        rc = add_node(trees, child_of(object, "no"), n_features, depth + 1);
    trees->nodes[at] = node;
    return rc;
}

/** Lifts the leaves so that the lowest is 0. @return by how much it was below. */
static double lift(struct kw_model_trees *trees, size_t first)
{
    double lowest_w = HUGE_VAL;

    for (size_t i = first; i < trees->n_nodes; i++) {
        if (trees->nodes[i].left == 0)
            lowest_w = fmin(lowest_w, trees->nodes[i].value);
    }
    for (size_t i = first; i < trees->n_nodes; i++) {
        if (trees->nodes[i].left == 0)
            trees->nodes[i].value -= lowest_w;
    }
    return lowest_w;
}

int kw_model_add_xgboost(struct kw_model *model, const char *json, size_t len)
{
    struct kw_model_trees *trees = &model->trees;
    struct kw_reader reader = {0};
    size_t first = trees->n_nodes;

    if (trees->n == KW_MODEL_TREES_MAX)
        return -E2BIG;
    json_t *root = kw_reader_parse(&reader, json, len);
    int rc = root != NULL ? add_node(trees, root, model->n, 0) : reader.rc;
    json_decref(root);
    double lowest_w = rc == 0 ? lift(trees, first) : 0;
    if (rc == 0 && !is_sound(trees, first, trees->n_nodes, model->n))
        rc = -EBADMSG;
    if (rc < 0) {
        trees->n_nodes = first;
        return rc;
    }
    trees->roots[trees->n++] = (uint16_t)first;
    model->base_w += lowest_w;
    return 0;
}
