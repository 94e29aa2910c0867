/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/top_owner.h"

/*
 * What kube-scheduler and an extender say to each other (k8s.io/kube-scheduler/extender/v1), as far
 * as kwatt reads it. These codecs build a tree; the extender's hot path has a scanner of its own
 * (extender/protocol.h), which is held against them by a differential fuzz target. Clients of the
 * extender (tests, benchmarks) read its answers with them.
 */

/** Value of the annotation kwatt.io/placement. */
enum kw_placement {
    KW_PLACEMENT_EFFICIENT,   /**< default: where it adds the fewest watts */
    KW_PLACEMENT_PERFORMANCE, /**< where there is most room */
    KW_PLACEMENT_OFF,         /**< kwatt has no opinion */
    KW_PLACEMENT__MAX
};

/** "efficient", "performance", "off"; index is enum kw_placement. */
extern const char *const kw_placement_names[KW_PLACEMENT__MAX];

/** Annotation that the kubelet puts on the API server's image of a static pod. */
#define KW_ANNOTATION_MIRROR "kubernetes.io/config.mirror"

/** Largest CPU quantity taken for true, a million cores. A larger one is a bad value. */
#define KW_POD_MCPU_MAX    UINT64_C(1000000000)
/** Largest kwatt.io/expected-watts taken for true: a megawatt. */
#define KW_POD_MW_MAX      UINT64_C(1000000000)
/** Longest kwatt.io/expected-lifetime taken for true: ten years. */
#define KW_POD_LIFE_MS_MAX (UINT64_C(3650) * 24 * 3600 * 1000)
/** Longest text of a quantity in a pod; no sensible one has more than twenty characters. */
#define KW_POD_TEXT_MAX    63
/** Bytes for a namespace (a DNS label, at most 63) and its NUL. */
#define KW_NAMESPACE_MAX   64
/** Bytes for a uid (Kubernetes makes UUIDs) and its NUL. */
#define KW_POD_UID_MAX     64
/** Bytes for the name of a pod (a DNS subdomain, at most 253) and its NUL. */
#define KW_POD_NAME_MAX    254
/** Bytes for the value of a label (at most 63) and its NUL. */
#define KW_LABEL_VALUE_MAX 64
/** Bytes for a time as the API writes it, with room for a fraction of nanoseconds, and its NUL. */
#define KW_POD_TIME_MAX    40

/**
 * The part of a Pod that placement reads. A bad value (malformed, negative, of another type, too
 * large) is counted and its default used; it is never an error.
 */
struct kw_extender_pod {
    char uid[KW_POD_UID_MAX];   /**< "" where absent or too long */
    char ns[KW_NAMESPACE_MAX];  /**< "" where absent or no name of a namespace */
    char name[KW_POD_NAME_MAX]; /**< the same; of a pod to be made by a controller it may be absent
                                 */
    struct kw_top_owner owner;  /**< the workload that it is of; empty where none can be told */
    /**
     * Effective CPU request as Kubernetes computes it: the greater of what runs together at the end
     * (containers and restartable init containers) and at each init container, plus overhead; a
     * request of the pod as a whole stands in place of its containers' sum. 0: none. At most
     * KW_POD_MCPU_MAX.
     */
    uint64_t request_mcpu;
    uint64_t expected_mcpu;    /**< annotation expected-cpu; 0: absent or bad */
    uint64_t expected_mw;      /**< annotation expected-watts; 0: absent or bad */
    uint64_t expected_life_ms; /**< annotation expected-lifetime; 0: absent or bad */
    enum kw_placement placement;
    bool critical;       /**< annotation critical: soft caps are not for it */
    bool mirror;         /**< a static pod's image: annotation kubernetes.io/config.mirror */
    uint32_t bad_values; /**< how many values were replaced by their default */
};

/** Text without terminator, decoded; may hold NULs inside. */
struct kw_extender_name {
    char *text; /**< NUL after the last byte */
    size_t len;
};

/** ExtenderArgs: request of filter and prioritize. */
struct kw_extender_args {
    struct kw_extender_pod pod;
    bool has_names; /**< NodeNames given and not null */
    size_t n_names;
    struct kw_extender_name *names; /**< an element null is the empty name, as in Go */
    bool has_nodes;                 /**< Nodes given and not null */
    size_t n_nodes;
    struct kw_extender_name *nodes; /**< metadata.name of each item; "" where it has none */
};

/** Parses a CPU quantity. @return 0; -EINVAL not a quantity, negative, above KW_POD_MCPU_MAX, or
 * longer than KW_POD_TEXT_MAX. */
int kw_pod_parse_mcpu(const char *text, size_t len, uint64_t *ret_mcpu);

/** Parses a number of watts, written as a quantity ("12.5", "800m"). @return 0; -EINVAL as
 * kw_pod_parse_mcpu, above KW_POD_MW_MAX. */
int kw_pod_parse_mw(const char *text, size_t len, uint64_t *ret_mw);

/** Parses a duration ("90s", "5m", "1.5h", "7d"; a bare number is seconds). @return 0; -EINVAL
 * none, zero, or above KW_POD_LIFE_MS_MAX. */
int kw_pod_parse_life_ms(const char *text, size_t len, uint64_t *ret_ms);

/**
 * Reads a request. Names of fields are matched in any case (ASCII) at any depth, as Go does; keys
 * of maps (annotations, labels, resources) are not fields. null stands for absent anywhere; unknown
 * fields are passed over; of a field given twice the last counts.
 * @param ret to be cleared by the caller; untouched on error.
 * @param ret_why static text, set on -EBADMSG; may be NULL.
 * @return 0; -EBADMSG no JSON object, or one of the three fields (or an element of a list) has
 * another type; -ENOMEM.
 */
int kw_extender_args_decode(const char *json, size_t len, struct kw_extender_args *ret,
                            const char **ret_why);
void kw_extender_args_clear(struct kw_extender_args *args);

/** ExtenderFilterResult. */
struct kw_filter_result {
    bool has_names;
    size_t n_names;
    struct kw_extender_name *names; /**< NodeNames */
    size_t n_nodes;                 /**< items of Nodes; 0 where Nodes is null */
    size_t n_failed;                /**< entries of FailedNodes and FailedAndUnresolvableNodes */
    char *error;                    /**< "" for none */
};

/** Reads an answer of filter. @return as kw_extender_args_decode. */
int kw_filter_result_decode(const char *json, size_t len, struct kw_filter_result *ret,
                            const char **ret_why);
void kw_filter_result_clear(struct kw_filter_result *result);

/** One element of HostPriorityList. */
struct kw_host_priority {
    struct kw_extender_name host;
    int64_t score;
};

/** Reads an answer of prioritize: a bare array. @param ret freed with kw_host_priorities_free.
 * @return as kw_extender_args_decode. */
int kw_host_priorities_decode(const char *json, size_t len, struct kw_host_priority **ret,
                              size_t *ret_n, const char **ret_why);
void kw_host_priorities_free(struct kw_host_priority **priorities, size_t n);
