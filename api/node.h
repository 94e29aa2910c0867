/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/names.h"

/*
 * What placement reads of a Kubernetes Node: the labels and annotations of api/README.md. Each may
 * be a label or an annotation, and an annotation of the same name counts before the label, since a
 * label's value cannot hold a slash or a fraction.
 */

/** Longest power domain, "dc1/row2/rack7", with its NUL. */
#define KW_POWER_DOMAIN_MAX 256
/** Longest carbon zone with its NUL: a label's value. */
#define KW_CARBON_ZONE_MAX  64

/** The names that kwatt reads of a node. Bits of kw_node.bad. */
enum kw_node_key {
    KW_NODE_POWER_DOMAIN,
    KW_NODE_POWER_CAP_WATTS,
    KW_NODE_SLEEPABLE,
    KW_NODE_FALLING_ASLEEP,
    KW_NODE_ASLEEP,
    KW_NODE_SLEEP_WATTS,
    KW_NODE_WAKE_JOULES,
    KW_NODE_CARBON_ZONE,
    KW_NODE_KEY__MAX
};

/** "kwatt.io/power-domain", ...; index is enum kw_node_key. */
extern const char *const kw_node_key_names[KW_NODE_KEY__MAX];
/** What each must be, for people; index is enum kw_node_key. */
extern const char *const kw_node_key_wants[KW_NODE_KEY__MAX];

/** Kubernetes' own label of a zone: the carbon zone of a node that names none. */
#define KW_LABEL_TOPOLOGY_ZONE "topology.kubernetes.io/zone"

/** Written by the extender. */
#define KW_ANNOTATION_HEADROOM_WATTS "kwatt.io/headroom-watts"
#define KW_ANNOTATION_HEADROOM_TIME  "kwatt.io/headroom-time"

/** Written by the extender, too: how dear a pod is on the node, "0" (few watts) to "9". */
#define KW_LABEL_POWER_TIER "kwatt.io/power-tier"
#define KW_POWER_TIERS      10
/** Of kw_node.tier: the node has no such label, or one that says something else. */
#define KW_TIER_NONE        (-1)
#define KW_TIER_OTHER       (-2)

/** What a scheduler that goes by tiers adds for a node's, of 0..99; one without a tier counts as
 * tier 5. `kwatt scheduler-config --tiers` prints terms that come to the same sums. */
static inline int kw_tier_weight(int tier)
{
    return tier < 0 || tier >= KW_POWER_TIERS ? 44 : 11 * (KW_POWER_TIERS - 1 - tier);
}

/** A bad value is its default, and its bit in `bad` is set. */
struct kw_node {
    char name[KW_NODE_NAME_MAX + 1];
    char uid[64];                     /**< "" where there is none that fits */
    char domain[KW_POWER_DOMAIN_MAX]; /**< components between single slashes; "": none */
    char zone[KW_CARBON_ZONE_MAX];    /**< its own, or that of its topology; "": none */
    uint64_t cap_mw;                  /**< 0: none */
    bool sleepable;
    bool falling_asleep;      /**< somebody is about to put it to sleep: no pods */
    bool asleep;              /**< it sleeps, and is woken for pods that are bound to it */
    bool has_sleep, has_wake; /**< what follows is stated */
    uint64_t sleep_mw;        /**< what it draws asleep */
    uint64_t wake_mj;         /**< energy of waking it, in millijoules */
    bool has_headroom;        /**< an extender has written headroom-watts */
    uint64_t headroom_w;      /**< what it wrote */
    int64_t headroom_unix_ms; /**< when, as it wrote; 0: unknown */
    int8_t tier;              /**< 0..9 as its label says; KW_TIER_NONE; KW_TIER_OTHER */
    uint32_t bad;             /**< bits by enum kw_node_key */
};

/** Whether a text is a path of a power domain: components of letters, digits, '.', '-' and '_',
 * with single slashes between. */
bool kw_power_domain_ok(const char *text, size_t len);

/**
 * Reads a Node as the API server sends it.
 * @param ret untouched on error.
 * @param ret_why static text naming what is wrong, set on -EBADMSG; may be NULL.
 * @return 0; -EBADMSG no Node, or one without a name; -ENOMEM.
 */
int kw_node_decode(const char *json, size_t len, struct kw_node *ret, const char **ret_why);
