/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "api/codec.h"
#include "api/extender.h"
#include "api/kube_json.h"
#include "api/quantity.h"

const char *const kw_node_key_names[KW_NODE_KEY__MAX] = {
    [KW_NODE_POWER_DOMAIN] = "kwatt.io/power-domain",
    [KW_NODE_POWER_CAP_WATTS] = "kwatt.io/power-cap-watts",
    [KW_NODE_SLEEPABLE] = "kwatt.io/sleepable",
    [KW_NODE_FALLING_ASLEEP] = "kwatt.io/falling-asleep",
    [KW_NODE_ASLEEP] = "kwatt.io/asleep",
    [KW_NODE_SLEEP_WATTS] = "kwatt.io/sleep-watts",
    [KW_NODE_WAKE_JOULES] = "kwatt.io/wake-joules",
    [KW_NODE_CARBON_ZONE] = "kwatt.io/carbon-zone",
};
const char *const kw_node_key_wants[KW_NODE_KEY__MAX] = {
    [KW_NODE_POWER_DOMAIN] = "a path such as dc1/row2/rack7",
    [KW_NODE_POWER_CAP_WATTS] = "a number of watts above 0, at most a megawatt",
    [KW_NODE_SLEEPABLE] = "true or false",
    [KW_NODE_FALLING_ASLEEP] = "true or false",
    [KW_NODE_ASLEEP] = "true or false",
    [KW_NODE_SLEEP_WATTS] = "a number of watts, at most a megawatt",
    [KW_NODE_WAKE_JOULES] = "a number of joules, at most a million",
    [KW_NODE_CARBON_ZONE] = "a text of 1 to 63 characters",
};
_Static_assert(KW_NODE_KEY__MAX == 8, "a key without a name");

static bool is_domain_char(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

bool kw_power_domain_ok(const char *text, size_t len)
{
    bool in_component = false;

    for (size_t i = 0; i < len; i++) {
        bool slash = text[i] == '/';
        if (slash ? !in_component : !is_domain_char(text[i]))
            return false;
        in_component = !slash;
    }
    return in_component && len < KW_POWER_DOMAIN_MAX;
}

/** Value of a key, NULL where the node has none. */
static const json_t *value_of(const json_t *metadata, const char *key)
{
    const json_t *value = json_object_get(json_object_get(metadata, "annotations"), key);

    if (value == NULL || json_is_null(value))
        value = json_object_get(json_object_get(metadata, "labels"), key);
    return json_is_null(value) ? NULL : value;
}

/** Copies a text without NULs inside. @return whether it fits. */
static bool take_text(const json_t *value, char *out, size_t size)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);

    if (text == NULL || len == 0 || len >= size || strlen(text) != len)
        return false;
    memcpy(out, text, len + 1);
    return true;
}

static bool take_bool(const json_t *value, bool *ret)
{
    const char *text = json_string_value(value);

    if (text == NULL || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
        return false;
    *ret = text[0] == 't';
    return true;
}

static bool take_watts(const json_t *value, uint64_t *ret_mw)
{
    uint64_t mw = 0;
    const char *text = json_string_value(value);

    if (text == NULL || kw_pod_parse_mw(text, json_string_length(value), &mw) < 0 || mw == 0)
        return false;
    *ret_mw = mw;
    return true;
}

/** A number of watts or joules that may be 0, in thousandths. @param ret_given set with it. */
static bool take_thousandths(const json_t *value, uint64_t *ret, bool *ret_given)
{
    const char *text = json_string_value(value);

    *ret_given = text != NULL && kw_pod_parse_mw(text, json_string_length(value), ret) == 0;
    return *ret_given;
}

static bool take_domain(const json_t *value, char out[KW_POWER_DOMAIN_MAX])
{
    return json_is_string(value) &&
           kw_power_domain_ok(json_string_value(value), json_string_length(value)) &&
           take_text(value, out, KW_POWER_DOMAIN_MAX);
}

static bool take(enum kw_node_key key, const json_t *value, struct kw_node *node)
{
    switch (key) {
    case KW_NODE_POWER_DOMAIN: return take_domain(value, node->domain);
    case KW_NODE_POWER_CAP_WATTS: return take_watts(value, &node->cap_mw);
    case KW_NODE_SLEEPABLE: return take_bool(value, &node->sleepable);
    case KW_NODE_FALLING_ASLEEP: return take_bool(value, &node->falling_asleep);
    case KW_NODE_ASLEEP: return take_bool(value, &node->asleep);
    case KW_NODE_SLEEP_WATTS: return take_thousandths(value, &node->sleep_mw, &node->has_sleep);
    case KW_NODE_WAKE_JOULES: return take_thousandths(value, &node->wake_mj, &node->has_wake);
    case KW_NODE_CARBON_ZONE: return take_text(value, node->zone, sizeof(node->zone));
    case KW_NODE_KEY__MAX: break;
    }
    return false;
}

/** Where no zone is named for kwatt, that of the cloud or data centre is taken. */
static void take_topology_zone(const json_t *metadata, struct kw_node *node)
{
    const json_t *labels = json_object_get(metadata, "labels");

    if (node->zone[0] == '\0')
        (void)take_text(json_object_get(labels, KW_LABEL_TOPOLOGY_ZONE), node->zone,
                        sizeof(node->zone));
}

/** What an extender wrote; anybody may have changed it since. */
static void take_headroom(const json_t *metadata, struct kw_node *node)
{
    const json_t *annotations = json_object_get(metadata, "annotations");
    const json_t *watts = json_object_get(annotations, KW_ANNOTATION_HEADROOM_WATTS);
    const char *text = json_string_value(watts);

    node->has_headroom =
        text != NULL && kw_quantity_units(text, json_string_length(watts), &node->headroom_w) == 0;
    node->headroom_unix_ms =
        kw_time_from_json(json_object_get(annotations, KW_ANNOTATION_HEADROOM_TIME));
}

/** The same of its tier. */
static int8_t tier_of(const json_t *metadata)
{
    const json_t *value = json_object_get(json_object_get(metadata, "labels"), KW_LABEL_POWER_TIER);
    const char *text = json_string_value(value);

    if (value == NULL || json_is_null(value))
        return KW_TIER_NONE;
    if (text == NULL || json_string_length(value) != 1 || text[0] < '0' || text[0] > '9')
        return KW_TIER_OTHER;
    return (int8_t)(text[0] - '0');
}

int kw_node_decode(const char *json, size_t len, struct kw_node *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_node node = {0};
    json_t *root = kw_reader_parse(&reader, json, len);
    const json_t *metadata = kw_get(&reader, root, "metadata", JSON_OBJECT, KW_REQUIRED);

    if (reader.rc == 0 &&
        !take_text(json_object_get(metadata, "name"), node.name, sizeof(node.name)))
        kw_reader_fail(&reader, -EBADMSG, "metadata.name");
    if (reader.rc == 0) {
        (void)take_text(json_object_get(metadata, "uid"), node.uid, sizeof(node.uid));
        for (unsigned i = 0; i < KW_NODE_KEY__MAX; i++) {
            const json_t *value = value_of(metadata, kw_node_key_names[i]);
            if (value != NULL && !take((enum kw_node_key)i, value, &node))
                node.bad |= UINT32_C(1) << i;
        }
        take_topology_zone(metadata, &node);
        take_headroom(metadata, &node);
        node.tier = tier_of(metadata);
        *ret = node;
    }
    json_decref(root);
    return kw_reader_end(&reader, ret_why);
}
