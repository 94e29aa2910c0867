/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/pod.h"
#include "api/selector.h"

/*
 * Controllers of pods: where to find one, which pods it selects, and who controls it in turn. Seven
 * kinds are known by name; any other is reached through discovery and its scale subresource.
 */

enum kw_owner_kind {
    KW_OWNER_DEPLOYMENT,
    KW_OWNER_REPLICA_SET,
    KW_OWNER_STATEFUL_SET,
    KW_OWNER_DAEMON_SET,
    KW_OWNER_JOB,
    KW_OWNER_CRON_JOB,
    KW_OWNER_REPLICATION_CONTROLLER,
    KW_OWNER_OTHER,
    KW_OWNER__MAX
};

/** "Deployment", ...; "" for OTHER. Index is enum kw_owner_kind. */
extern const char *const kw_owner_kind_names[KW_OWNER__MAX];

/** The kind alone decides, as in the stock VPA components. @return KW_OWNER_OTHER for a kind that
 * is not known. */
enum kw_owner_kind kw_owner_kind_of(const char *kind);

/** Longest path below. */
#define KW_KUBE_PATH_MAX 1024

/** Whether a text can stand in a path as a namespace or an object's name (RFC 1123 subdomain
 * characters, at most 253). */
bool kw_kube_name_ok(const char *name);

/** Path of an object of a known kind: "/apis/apps/v1/namespaces/NS/deployments/NAME". @return 0;
 * -EINVAL for another kind, or a name that is none. */
int kw_owner_path(char out[KW_KUBE_PATH_MAX], enum kw_owner_kind kind, const char *namespace_,
                  const char *name);

/** Path of the list of resources of a group version ("apps/v1", "v1"): discovery. @return 0 or
 * -EINVAL. */
int kw_discovery_path(char out[KW_KUBE_PATH_MAX], const char *api_version);

/** Path of an object, or of its scale subresource, of a kind found by discovery. @return 0 or
 * -EINVAL. */
int kw_resource_path(char out[KW_KUBE_PATH_MAX], const char *api_version, const char *namespace_,
                     const char *plural, const char *name, bool scale);

/** A controller, decoded. */
struct kw_owner {
    char *uid;
    bool has_owner;
    struct kw_owner_ref owner;
    struct kw_selector
        selector; /**< empty for kinds that are not known, and where the object has none */
};

/** Frees everything inside; leaves *owner zeroed. */
void kw_owner_clear(struct kw_owner *owner);

/** Decodes a controller of a kind; for KW_OWNER_OTHER its metadata alone. Contract as
 * kw_pod_decode. */
int kw_owner_decode(enum kw_owner_kind kind, const char *json, size_t len, struct kw_owner *ret,
                    const char **ret_why);

/** Decodes status.selector of a Scale; none is -EBADMSG. Contract as kw_pod_decode. */
int kw_scale_decode(const char *json, size_t len, struct kw_selector *ret, const char **ret_why);

/**
 * Finds a kind in an APIResourceList.
 * @param ret_plural name of the resource ("widgets"); caller frees.
 * @param ret_scale whether it has a scale subresource.
 * @return 0; -ENOENT no namespaced resource of that kind; -EBADMSG; -ENOMEM.
 */
int kw_discovery_find(const char *json, size_t len, const char *kind, char **ret_plural,
                      bool *ret_scale, const char **ret_why);
