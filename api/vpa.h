/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * VerticalPodAutoscaler (autoscaling.k8s.io/v1): what a recommender reads of its spec, and the
 * status that a recommender alone writes.
 */

#define KW_VPA_API_VERSION "autoscaling.k8s.io/v1"
#define KW_VPA_PATH        "/apis/autoscaling.k8s.io/v1"

/** Bounds of what one object may make a reader do; a pod has at most as many containers
 * (api/pod.h). */
#define KW_VPA_ENTRIES_MAX 1024

/** CPU and memory, each of which may be absent. */
struct kw_resources {
    bool has_mcpu, has_bytes;
    uint64_t mcpu;  /**< millicores */
    uint64_t bytes; /**< memory */
};

/** One entry of resourcePolicy.containerPolicies. */
struct kw_vpa_policy {
    char *container; /**< name, or "*" for all without an entry of their own */
    bool off;        /**< mode Off: no recommendation */
    bool controls_cpu, controls_memory;
    struct kw_resources min; /**< what is absent or zero is no bound */
    struct kw_resources max;
};

enum kw_vpa_truth { KW_VPA_FALSE, KW_VPA_TRUE, KW_VPA_UNKNOWN, KW_VPA_TRUTH__MAX };

/** One entry of status.conditions. */
struct kw_vpa_condition {
    char *type;
    enum kw_vpa_truth truth;
    char *since; /**< lastTransitionTime as text (RFC 3339); "" if none */
    char *reason;
    char *message;
};

/** One entry of status.recommendation.containerRecommendations. */
struct kw_vpa_container {
    char *container;
    struct kw_resources target, lower, upper;
    struct kw_resources uncapped; /**< the target before minAllowed and maxAllowed */
};

/** Zero-initialised is an empty status. */
struct kw_vpa_status {
    int64_t observed_generation; /**< 0: absent */
    size_t n_conditions;
    struct kw_vpa_condition *conditions;
    size_t n_containers;
    struct kw_vpa_container *containers;
};

/** Modes of updatePolicy, for metrics; OTHER is one that this version does not know. */
enum kw_vpa_mode {
    KW_VPA_MODE_OFF,
    KW_VPA_MODE_INITIAL,
    KW_VPA_MODE_RECREATE, /**< the default */
    KW_VPA_MODE_IN_PLACE_OR_RECREATE,
    KW_VPA_MODE_IN_PLACE,
    KW_VPA_MODE_AUTO,
    KW_VPA_MODE_OTHER,
    KW_VPA_MODE__MAX
};

/** "Off", "Initial", ...; "Other". Index is enum kw_vpa_mode. */
extern const char *const kw_vpa_mode_names[KW_VPA_MODE__MAX];

struct kw_vpa {
    char *name;
    char *namespace_;
    char *uid;
    char *version; /**< resourceVersion; "" where absent */
    int64_t generation;
    char *target_api_version; /**< "" where absent */
    char *target_kind;
    char *target_name;
    enum kw_vpa_mode mode;
    size_t n_recommenders;
    char **recommenders; /**< names; none means the stock recommender */
    size_t n_policies;
    struct kw_vpa_policy *policies;
    struct kw_vpa_status status; /**< empty where it cannot be read: it is ours to write anew */
};

/** Frees everything inside; leaves *status zeroed. */
void kw_vpa_status_clear(struct kw_vpa_status *status);

/** Frees everything inside; leaves *vpa zeroed. */
void kw_vpa_clear(struct kw_vpa *vpa);

/**
 * Decodes a VPA. A bound that cannot be read (a negative quantity, say) counts as absent.
 * @param ret untouched on error; cleared by the caller.
 * @param ret_why static text naming the field, set on -EBADMSG; may be NULL.
 * @return 0; -EBADMSG; -ENOMEM.
 */
int kw_vpa_decode(const char *json, size_t len, struct kw_vpa *ret, const char **ret_why);

/** Whether spec.recommenders names this one. */
bool kw_vpa_names(const struct kw_vpa *vpa, const char *recommender);

/** Policy for a container: its own entry, else "*", else NULL. */
const struct kw_vpa_policy *kw_vpa_policy_for(const struct kw_vpa *vpa, const char *container);

/** Condition of a type, or NULL. */
const struct kw_vpa_condition *kw_vpa_condition(const struct kw_vpa_status *status,
                                                const char *type);

/** Whether two statuses say the same: amounts by value, conditions without their times. Order
 * counts. */
bool kw_vpa_status_equal(const struct kw_vpa_status *a, const struct kw_vpa_status *b);

/** Deep copy. @return 0 or -ENOMEM (then *ret is empty). */
int kw_vpa_status_copy(const struct kw_vpa_status *status, struct kw_vpa_status *ret);

/**
 * Encodes the JSON patch that makes this the whole status: an operation `add` on /status.
 * @param version resourceVersion that the object has to have still, or the API server refuses the
 * patch (409); NULL or "": whatever it has.
 * @param ret text, caller frees. @return 0; -ENOMEM; -EINVAL where a text is no UTF-8.
 */
int kw_vpa_status_patch(const struct kw_vpa_status *status, const char *version, char **ret,
                        size_t *ret_len);

/** Path of a VPA's status:
 * "/apis/autoscaling.k8s.io/v1/namespaces/NS/verticalpodautoscalers/NAME/status". @param size of
 * `out`. @return 0; -EINVAL for names that are none, or too long. */
int kw_vpa_status_path(char *out, size_t size, const char *namespace_, const char *name);
