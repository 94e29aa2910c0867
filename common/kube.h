/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

/*
 * Kubernetes API client. Objects travel as JSON bytes; api/ decodes them. Connection data comes
 * from a kubeconfig (client certificates, tokens, basic; an exec plugin is refused by name) or from
 * the pod's service account.
 */

struct kw_kube;

struct kw_kube_conf {
    const char
        *kubeconfig; /**< path; NULL: $KUBECONFIG is the caller's business, in-cluster is tried */
    const char *context; /**< NULL: current-context */
    const char
        *secrets_dir; /**< in-cluster files; NULL: /var/run/secrets/kubernetes.io/serviceaccount */
    const char *host, *port; /**< in-cluster; NULL: KUBERNETES_SERVICE_HOST, _PORT */
    int cancel_fd;           /**< as kw_http_client_conf */
    uint32_t timeout_ms;     /**< of a call; as kw_http_client_conf */
};

/** Reads the configuration; does not connect. @return 0; -ENOENT no kubeconfig and not in a
 * cluster; -EINVAL with file, line and key. */
int kw_kube_new(const struct kw_kube_conf *conf, struct kw_kube **ret, struct kw_err *err);
void kw_kube_free(struct kw_kube **kube);

/** "https://10.0.0.1:6443": for messages. */
const char *kw_kube_server(const struct kw_kube *kube);

/** GET of one object. @param ret_body JSON. @return 0; -ENOENT 404; -EACCES 401, 403; -EBUSY 429;
 * -EREMOTEIO other statuses (message of the Status object in err); as kw_http_client_call. */
int kw_kube_get(struct kw_kube *kube, const char *path, struct kw_buf *ret_body,
                struct kw_err *err);

/** POST, PUT, PATCH or DELETE. @param content_type of the body; for a JSON patch
 * "application/json-patch+json". @return as kw_kube_get; -EEXIST 409. */
int kw_kube_send(struct kw_kube *kube, const char *method, const char *path,
                 const char *content_type, const void *body, size_t body_len,
                 struct kw_buf *ret_body, struct kw_err *err);

/** One object of a list or watch, as JSON bytes (not NUL-terminated). Return false to stop. */
typedef bool (*kw_kube_item_fn)(void *user, const char *json, size_t len);

/** Cuts a list that came from elsewhere (a kubelet's) into its items, without copying. @return 0;
 * -EPROTO not a list; -ECANCELED fn returned false; -ENOMEM. Items before a fault were delivered.
 */
int kw_kube_items(const char *bytes, size_t len, kw_kube_item_fn fn, void *user,
                  struct kw_err *err);

/**
 * Lists in pages of 500; an expired continue token starts over, after `restart` was called.
 * @param path "/api/v1/pods"; @param query "fieldSelector=..." or NULL, already URL-encoded.
 * @param ret_version resourceVersion to watch from; caller frees; may be NULL.
 * @return as kw_kube_get; -ECANCELED where fn returned false.
 */
int kw_kube_list(struct kw_kube *kube, const char *path, const char *query, kw_kube_item_fn fn,
                 void (*restart)(void *user), void *user, char **ret_version, struct kw_err *err);

enum kw_kube_event {
    KW_KUBE_SYNC_BEGIN, /**< a full list follows as ADDED; objects not named until SYNC_END are gone
                         */
    KW_KUBE_SYNC_END,
    KW_KUBE_ADDED,
    KW_KUBE_MODIFIED,
    KW_KUBE_DELETED,
    KW_KUBE_DOWN, /**< a try failed: connection lost or refused; json is the cause as text; retried
                     with back-off */
    KW_KUBE_UP,   /**< after DOWN: the server answers again and the watch resumes without a new list
                     (with one: SYNC_BEGIN) */
    KW_KUBE__MAX
};

/**
 * Called on the watch's thread, never concurrently. `json` is the object (not NUL-terminated, valid
 * during the call), the text of DOWN, or NULL; objects of a list lack kind and apiVersion, those of
 * a watch have them.
 */
typedef void (*kw_kube_watch_fn)(void *user, enum kw_kube_event event, const char *json,
                                 size_t len);

struct kw_kube_watch;

/**
 * Keeps a collection in view: list, then watch with bookmarks from its resourceVersion; 410 Gone
 * (as a status or as an ERROR event) lists again; a silent or broken stream is re-opened with
 * jittered back-off. Runs on a thread of its own and calls `fn` there.
 */
int kw_kube_watch_start(const struct kw_kube_conf *conf, const char *path, const char *query,
                        kw_kube_watch_fn fn, void *user, struct kw_kube_watch **ret,
                        struct kw_err *err);

/** Stops the thread (within a second) and frees. */
void kw_kube_watch_free(struct kw_kube_watch **watch);
