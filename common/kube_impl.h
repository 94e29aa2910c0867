/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/kube.h"

/*
 * Inside of the Kubernetes client, shared by kube_config.c (where and as whom), kube_json.c (cuts
 * answers into objects), kube_client.c and kube_watch.c. Not for others, but for tests and fuzz
 * targets.
 */

/** How to reach the API server. NULL where not used; all texts owned. */
struct kw_kube_target {
    char *server; /**< base URL without trailing slash */
    bool tls;     /**< https */
    char *server_name;
    char *ca_file, *ca_pem;
    char *cert_file, *cert_pem;
    char *key_file, *key_pem;
    char *token, *token_file;
    char *username;
    int password_fd; /**< anonymous file that holds the password; -1: none */
};

#define KW_KUBE_TARGET_EMPTY ((struct kw_kube_target){.password_fd = -1})

/** Wipes secrets and frees. */
void kw_kube_target_free(struct kw_kube_target *target);

/** Reads the kubeconfig or the service account. @return as kw_kube_new. */
int kw_kube_target_load(const struct kw_kube_conf *conf, struct kw_kube_target *ret,
                        struct kw_err *err);

/** A kubeconfig that is already in memory. @param path names it in errors, and its folder is what
 * relative paths are relative to. @return 0; -EINVAL with file, line and key; -ENOMEM. */
int kw_kube_target_parse(const char *path, const char *bytes, size_t len, const char *context,
                         struct kw_kube_target *ret, struct kw_err *err);

/** Decodes standard base64 with padding; line breaks are passed over, nothing else is. @param ret
 * NUL-terminated; caller frees. @return 0; -EINVAL; -ENOMEM. */
int kw_kube_base64(const char *text, char **ret, size_t *ret_len);

/** What of a list's answer is not an item. Both texts owned; NULL where absent or empty. */
struct kw_kube_page {
    char *version;
    char *next; /**< continue token */
};

/** Frees both texts and leaves an empty page. */
void kw_kube_page_free(struct kw_kube_page *page);

/** Cuts a list into its items, without copying. @return 0; -EPROTO not a list; -ECANCELED fn
 * returned false; -ENOMEM. Items before a fault were delivered. */
int kw_kube_cut_list(const char *bytes, size_t len, kw_kube_item_fn fn, void *user,
                     struct kw_kube_page *ret, struct kw_err *err);

enum kw_kube_line_type {
    KW_KUBE_LINE_ADDED,
    KW_KUBE_LINE_MODIFIED,
    KW_KUBE_LINE_DELETED,
    KW_KUBE_LINE_BOOKMARK,
    KW_KUBE_LINE_ERROR,
    KW_KUBE_LINE__MAX
};

/* Resource versions are decimal numbers today; they are opaque by contract, so there is room. */
#define KW_KUBE_VERSION_BYTES 128

/** One line of a watch; spans point into it. */
struct kw_kube_line {
    enum kw_kube_line_type type;
    const char *object;
    size_t object_len;
    char version[KW_KUBE_VERSION_BYTES]; /**< of the object; "" for ERROR */
};

/** @return 0; -EPROTO with the cause. */
int kw_kube_cut_line(const char *bytes, size_t len, struct kw_kube_line *ret, struct kw_err *err);

/** Puts lines together from the pieces in which they arrive. Zero-initialised is empty. */
struct kw_kube_lines {
    struct kw_buf buf;
    size_t scanned; /**< bytes of `buf` that hold no newline */
};

/** One line without its end. @return 0 go on; anything else ends kw_kube_lines_feed with it. */
typedef int (*kw_kube_line_fn)(void *user, const char *bytes, size_t len);

/** Takes bytes and calls `fn` for each line that is complete, but for empty ones. @return 0; what
 * fn returned; -EFBIG a line above 32 MiB; -ENOMEM. */
int kw_kube_lines_feed(struct kw_kube_lines *lines, const char *bytes, size_t len,
                       kw_kube_line_fn fn, void *user);
void kw_kube_lines_free(struct kw_kube_lines *lines);

/** What a Status object says, fit for a log line. */
struct kw_kube_status {
    unsigned code; /**< 0 where it says none */
    char message[256];
};

/** Never fails: what is no Status object gives code 0 and the message "". */
void kw_kube_status_parse(const char *bytes, size_t len, struct kw_kube_status *ret);

/** The error of an HTTP status that is not 2xx. @param body Status object or anything. @return the
 * code that kw_kube_get documents. */
int kw_kube_status_error(const char *method, const char *server, const char *path, unsigned status,
                         const char *body, size_t len, struct kw_err *err);

/** Appends text to a URL, percent-encoded where it is no unreserved character (RFC 3986, 2.3).
 * @return as kw_buf_add. */
int kw_kube_url_encode(struct kw_buf *url, const char *text);

struct kw_http_client;
/** The HTTP client of a kw_kube, for streams. */
struct kw_http_client *kw_kube_http(struct kw_kube *kube);

/** Times of a watch; tests shorten them. */
struct kw_kube_watch_times {
    uint32_t idle_ms;  /**< a stream silent for so long is re-opened */
    uint32_t server_s; /**< timeoutSeconds asked for, up to twice that by jitter */
    uint32_t backoff_min_ms, backoff_max_ms;
};

/** kw_kube_watch_start with times of the caller's own. */
int kw_kube_watch_start_with(const struct kw_kube_conf *conf, const char *path, const char *query,
                             const struct kw_kube_watch_times *times, kw_kube_watch_fn fn,
                             void *user, struct kw_kube_watch **ret, struct kw_err *err);
