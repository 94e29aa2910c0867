/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ways to the same directory. The kubelet is asked by a thread here, only when somebody misses
 * a name, and never more often than node-agent/pod_poll.h allows. The API server is watched by the
 * thread of common/kube.h, which calls back. With `auto` the watch begins when the kubelet has
 * refused us, or failed FALL_BACK times; the kubelet is then left alone.
 *
 * The lock is held for the time of a pod's entry or of a sample's look-ups, never over a request or
 * while JSON is decoded.
 */
#include "node-agent/pod_source.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/owner.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/kube.h"
#include "node-agent/pod_poll.h"

#define TOKEN_FILE "/var/run/secrets/kubernetes.io/serviceaccount/token"

/* A kubelet that restarts is back by then. */
#define FALL_BACK 4

struct agent_pod_source {
    struct agent_pod_source_conf conf;
    struct agent_kubelet *kubelet; /* NULL: not asked */
    struct kw_kube_watch *watch;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    /* under lock */
    struct agent_pod_directory *directory;
    struct agent_pod_poll poll;
    bool stopping;
    /* of the thread that fills the directory */
    bool reachable, said, said_bad, said_full;
};

/** Says once that names cannot be had, and once that they can. */
static void say(struct agent_pod_source *source, const char *from, bool reachable,
                const char *cause)
{
    if (source->said && reachable == source->reachable)
        return;
    source->said = true;
    source->reachable = reachable;
    if (reachable)
        kw_log_info(source->conf.log, "names of pods", kw_str("from", from));
    else
        kw_log_warn(source->conf.log, "names of pods cannot be had; they go by their uid meanwhile",
                    kw_str("from", from), kw_str("cause", cause));
}

/** Enters a pod. Never fails: what cannot be entered stays without a name, and that is said once.
 */
static void enter(struct agent_pod_source *source, const char *json, size_t len, bool deleted)
{
    struct kw_pod pod;
    const char *why = "";
    int rc = agent_pod_directory_decode(source->directory, json, len, &pod, &why);

    if (rc < 0) {
        if (!source->said_bad)
            kw_log_warn(
                source->conf.log, "a pod's description was not understood",
                kw_str("field", rc == -EBADMSG && why != NULL ? why : strerrordesc_np(-rc)));
        source->said_bad = true;
        return;
    }
    (void)pthread_mutex_lock(&source->lock);
    if (deleted) {
        agent_pod_directory_remove(source->directory, pod.uid, kw_now_ns());
        kw_pod_clear(&pod);
    } else {
        rc = agent_pod_directory_put(source->directory, &pod);
    }
    (void)pthread_mutex_unlock(&source->lock);
    if (rc < 0 && !source->said_full)
        kw_log_warn(source->conf.log, "more pods than can be named", kw_u64("most", AGENT_PODS_MAX),
                    kw_errno(rc));
    source->said_full = source->said_full || rc < 0;
}

static void begin_list(struct agent_pod_source *source)
{
    (void)pthread_mutex_lock(&source->lock);
    agent_pod_directory_begin(source->directory);
    (void)pthread_mutex_unlock(&source->lock);
}

static void end_list(struct agent_pod_source *source)
{
    (void)pthread_mutex_lock(&source->lock);
    agent_pod_directory_end(source->directory, kw_now_ns());
    (void)pthread_mutex_unlock(&source->lock);
}

/* ------------------------------------------------------------------ API server */

static void on_event(void *user, enum kw_kube_event event, const char *json, size_t len)
{
    struct agent_pod_source *source = user;
    char cause[256];

    switch (event) {
    case KW_KUBE_SYNC_BEGIN: begin_list(source); break;
    case KW_KUBE_SYNC_END:
        end_list(source);
        say(source, "the API server", true, "");
        break;
    case KW_KUBE_UP: say(source, "the API server", true, ""); break;
    case KW_KUBE_ADDED:
    case KW_KUBE_MODIFIED: enter(source, json, len, false); break;
    case KW_KUBE_DELETED: enter(source, json, len, true); break;
    case KW_KUBE_DOWN:
        (void)snprintf(cause, sizeof(cause), "%.*s", (int)(len < 255 ? len : 255), json);
        say(source, "the API server", false, cause);
        break;
    case KW_KUBE__MAX: break;
    }
}

static int start_watch(struct agent_pod_source *source, struct kw_err *err)
{
    const struct kw_kube_conf conf = {.kubeconfig = source->conf.kubeconfig};
    const char *node = source->conf.kubelet.node;
    char query[320];

    if (!kw_kube_name_ok(node))
        return kw_err_set(err, -EINVAL, "\"%s\" is no name of a Kubernetes node", node);
    (void)snprintf(query, sizeof(query), "fieldSelector=spec.nodeName%%3D%s", node);
    return kw_kube_watch_start(&conf, "/api/v1/pods", query, on_event, source, &source->watch, err);
}

/* ------------------------------------------------------------------ kubelet */

static bool on_item(void *user, const char *json, size_t len)
{
    enter(user, json, len, false);
    return true;
}

static int ask_kubelet(struct agent_pod_source *source, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    int rc = agent_kubelet_pods(source->kubelet, &body, err);

    if (rc < 0)
        return rc;
    begin_list(source);
    rc = kw_kube_items(body.data != NULL ? body.data : "", body.len, on_item, source, err);
    if (rc < 0) /* what it named is kept, what it did not is not taken for gone */
        return rc;
    end_list(source);
    return 0;
}

/** Whether to go on asking the kubelet after a failure. */
static bool stay(struct agent_pod_source *source, int rc)
{
    struct kw_err err = {0};

    if (source->conf.pods != AGENT_PODS_AUTO ||
        (rc != -EACCES && source->poll.failures < FALL_BACK))
        return true;
    if (start_watch(source, &err) < 0) {
        kw_log_warn(source->conf.log, "the API server cannot be watched instead",
                    kw_str("cause", err.text));
        return true;
    }
    kw_log_info(source->conf.log, "watching this node's pods at the API server instead");
    return false;
}

static bool poll_once(struct agent_pod_source *source)
{
    const char *from = agent_kubelet_name(source->kubelet);
    struct kw_err err = {0};
    uint64_t began_ns = kw_now_ns();
    int rc = ask_kubelet(source, &err);

    (void)pthread_mutex_lock(&source->lock);
    agent_pod_poll_done(&source->poll, rc < 0, began_ns, kw_now_ns());
    bool stopping = source->stopping;
    (void)pthread_mutex_unlock(&source->lock);
    if (stopping)
        return false;
    say(source, from, rc == 0, err.text);
    return rc == 0 || stay(source, rc);
}

static void *run(void *user)
{
    struct agent_pod_source *source = user;
    bool going = true;

    while (going) {
        (void)pthread_mutex_lock(&source->lock);
        for (;;) {
            uint64_t next_ns = agent_pod_poll_next(&source->poll);
            if (source->stopping || next_ns <= kw_now_ns())
                break;
            struct timespec until = {.tv_sec = (time_t)(next_ns / KW_NS_PER_S),
                                     .tv_nsec = (long)(next_ns % KW_NS_PER_S)};
            (void)pthread_cond_timedwait(&source->woken, &source->lock, &until);
        }
        going = !source->stopping;
        (void)pthread_mutex_unlock(&source->lock);
        going = going && poll_once(source);
    }
    return NULL;
}

/** Signals belong to the owner's loop. */
static int start_thread(struct agent_pod_source *source)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = -pthread_create(&source->thread, NULL, run, source);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    source->has_thread = rc == 0;
    return rc;
}

/* ------------------------------------------------------------------ life */

static struct agent_pod_source *allocate(const struct agent_pod_source_conf *conf)
{
    struct agent_pod_source *source = calloc(1, sizeof(*source));
    pthread_condattr_t attributes;

    if (source == NULL)
        return NULL;
    source->conf = *conf;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&source->lock, NULL);
    (void)pthread_cond_init(&source->woken, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return source;
}

/** What `auto` means here: Kubernetes is there where somebody says how to reach it. */
static enum agent_pods choose(const struct agent_pod_source_conf *conf)
{
    if (conf->pods != AGENT_PODS_AUTO)
        return conf->pods;
    if (conf->kubelet.address != NULL)
        return AGENT_PODS_KUBELET;
    return conf->kubeconfig != NULL || access(TOKEN_FILE, R_OK) == 0 ? AGENT_PODS_API
                                                                     : AGENT_PODS_OFF;
}

static int start_kubelet(struct agent_pod_source *source, struct kw_err *err)
{
    if (source->conf.kubelet.address == NULL)
        return kw_err_set(err, -EINVAL, "--pods=kubelet needs --kubelet ADDRESS");
    int rc = agent_kubelet_new(&source->conf.kubelet, &source->kubelet, err);
    if (rc < 0)
        return rc;
    rc = start_thread(source);
    return rc == 0 ? 0 : kw_err_set(err, rc, "no thread: %s", strerrordesc_np(-rc));
}

int agent_pod_source_start(const struct agent_pod_source_conf *conf, struct agent_pod_source **ret,
                           struct kw_err *err)
{
    enum agent_pods chosen = choose(conf);

    *ret = NULL;
    if (chosen == AGENT_PODS_OFF)
        return 0;
    kw_cleanup(agent_pod_source_stop) struct agent_pod_source *source = allocate(conf);
    if (source == NULL)
        return kw_err_set(err, -ENOMEM, "names of pods: out of memory");
    int rc = agent_pod_directory_new(conf->labels, &source->directory);
    if (rc < 0)
        return kw_err_set(err, rc, "--pod-labels \"%s\": %s", conf->labels,
                          rc == -EINVAL ? "expected up to 16 label keys, separated by commas"
                                        : strerrordesc_np(-rc));
    rc = chosen == AGENT_PODS_API ? start_watch(source, err) : start_kubelet(source, err);
    if (rc < 0 && conf->pods == AGENT_PODS_AUTO) {
        /* nobody asked for it by name: the agent goes on without */
        say(source, "Kubernetes", false, err->text);
        return 0;
    }
    if (rc < 0) {
        (void)kw_err_wrap(err, "names of pods");
        return rc;
    }
    *ret = KW_TAKE_PTR(source);
    return 0;
}

struct agent_pod_directory *agent_pod_source_acquire(struct agent_pod_source *source)
{
    (void)pthread_mutex_lock(&source->lock);
    return source->directory;
}

void agent_pod_source_release(struct agent_pod_source *source, bool wanted)
{
    if (wanted && !source->poll.wanted) {
        source->poll.wanted = true;
        (void)pthread_cond_signal(&source->woken);
    }
    (void)pthread_mutex_unlock(&source->lock);
}

void agent_pod_source_stop(struct agent_pod_source **source)
{
    struct agent_pod_source *owned = KW_TAKE_PTR(*source);

    if (owned == NULL)
        return;
    (void)pthread_mutex_lock(&owned->lock);
    owned->stopping = true;
    (void)pthread_cond_signal(&owned->woken);
    (void)pthread_mutex_unlock(&owned->lock);
    if (owned->kubelet != NULL)
        agent_kubelet_interrupt(owned->kubelet);
    if (owned->has_thread)
        (void)pthread_join(owned->thread, NULL);
    kw_kube_watch_free(&owned->watch);
    agent_kubelet_free(&owned->kubelet);
    agent_pod_directory_free(&owned->directory);
    (void)pthread_mutex_destroy(&owned->lock);
    (void)pthread_cond_destroy(&owned->woken);
    free(owned);
}
