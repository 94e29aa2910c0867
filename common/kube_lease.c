/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leader election.
 *
 * Problem: of several replicas exactly one may write, also while clocks differ, calls hang, the API
 * server restarts, or a replica is stopped in the middle of anything and goes on much later.
 *
 * Approach: that of client-go. The holder renews the lease every retry period by an update with
 * the resource version that it knows, so an update that lost a race is refused. The others look as
 * often, and may take the lease once they have seen its spec unchanged for the duration that it
 * says, by their own clock. That clock goes on while the machine sleeps.
 *
 * Invariant: held_until is a point of the holder's clock: the moment before the last renewal that
 * was accepted was sent, plus the renew deadline. Nobody can have seen that renewal earlier, so
 * nobody takes the lease before that moment plus its duration; the difference of both is what a
 * write that was begun in time has to end. kw_kube_lease_held compares with the clock at each call,
 * so it needs no thread to notice that time has passed: a replica that was stopped finds out by
 * itself. (Between that comparison and the bytes of a write a replica can be stopped, too: writers
 * therefore name the resource version that they have seen, and a newer object refuses them.)
 *
 * Cost: one small update every retry period by the holder, one read by each of the others.
 */
#include "common/kube_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/backoff.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/http_client.h"
#include "common/kube_impl.h"
#include "common/kube_lease_impl.h"
#include "common/worker.h"

#define SECRETS_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* The last call of a replica that ends; nobody should wait longer for it. */
#define RELEASE_TIMEOUT_MS 2000

struct kw_kube_lease {
    struct kw_kube_lease_settings settings;
    struct kw_kube_conf conf; /* texts are ours */
    char *namespace_, *name, *identity, *label, *path, *collection;
    void (*changed)(void *user);
    void *user;
    struct kw_kube *kube;
    struct kw_worker worker;
    atomic_uint_fast64_t held_until_ns; /* by kw_now_boot_ns; 0: not held */

    /* of the thread */
    struct kw_lease_object *seen; /* NULL before the first look */
    uint64_t seen_ns;             /* when its spec was first seen */
    bool gone;                    /* somebody deleted it since */

    struct kw_kube_lease_status status; /* under the worker's mutex */
};

bool kw_kube_lease_held(const struct kw_kube_lease *lease)
{
    return kw_now_boot_ns() < atomic_load(&lease->held_until_ns);
}

/* ---- what is known ---- */

/* Takes an object over. */
static void see(struct kw_kube_lease *lease, struct kw_lease_object *object)
{
    if (!kw_lease_object_same(lease->seen, object))
        lease->seen_ns = kw_now_boot_ns();
    kw_lease_object_free(&lease->seen);
    lease->seen = object;
    lease->gone = false;
}

/* Publishes what the last try came to, and tells where it is another. */
static void tell(struct kw_kube_lease *lease, int rc, const struct kw_err *err)
{
    struct kw_kube_lease_status status = {.held = kw_kube_lease_held(lease)};
    struct kw_lease_record record = {.holder = ""};

    if (lease->seen != NULL)
        kw_lease_object_read(lease->seen, &record);
    status.transitions = record.transitions;
    (void)snprintf(status.holder, sizeof(status.holder), "%s", record.holder);
    if (rc < 0)
        (void)snprintf(status.error, sizeof(status.error), "%.255s",
                       err->text[0] != '\0' ? err->text : kw_errno_text(rc));
    (void)pthread_mutex_lock(&lease->worker.mutex);
    status.known = lease->status.known || rc >= 0;
    bool changed = status.held != lease->status.held || status.known != lease->status.known ||
                   strcmp(status.holder, lease->status.holder) != 0 ||
                   (status.error[0] == '\0') != (lease->status.error[0] == '\0');
    lease->status = status;
    (void)pthread_mutex_unlock(&lease->worker.mutex);
    if (changed && lease->changed != NULL)
        lease->changed(lease->user);
}

/* ---- one try ---- */

/* Reads the lease anew. @return 1 seen; 0 there is none (any more); -errno */
static int look(struct kw_kube_lease *lease, struct kw_kube *kube, struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    struct kw_lease_object *object = NULL;

    int r = kw_kube_get(kube, lease->path, &body, err);
    if (r == -ENOENT) {
        lease->gone = lease->seen != NULL;
        return 0;
    }
    if (r < 0)
        return r;
    r = kw_lease_object_parse(body.data != NULL ? body.data : "", body.len, &object, err);
    if (r < 0)
        return r;
    see(lease, object);
    return 1;
}

/* Sends a claim to what was seen. @param base NULL: there is no lease yet. @return 0; -EEXIST
 * another was faster; -errno */
static int claim(struct kw_kube_lease *lease, struct kw_kube *kube,
                 const struct kw_lease_object *base, enum kw_lease_claim what, struct kw_err *err)
{
    kw_cleanup(kw_lease_object_free) struct kw_lease_object *fresh = NULL;
    kw_cleanup(kw_buf_free) struct kw_buf reply = {0};
    kw_cleanup_free char *text = NULL;
    struct kw_lease_object *answered = NULL;
    size_t len = 0;
    struct timespec wall;
    int r = 0;

    (void)clock_gettime(CLOCK_REALTIME, &wall);
    if (base == NULL) {
        r = kw_lease_object_make(lease->namespace_, lease->name, &fresh);
        base = fresh;
    }
    if (r == 0)
        r = kw_lease_object_claim(base, what, lease->identity, lease->settings.duration_ns,
                                  (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000, &text,
                                  &len);
    if (r < 0)
        return kw_err_set(err, r, "lease: out of memory");
    uint64_t sent_ns = kw_now_boot_ns();
    r = kw_kube_send(kube, fresh != NULL ? "POST" : "PUT",
                     fresh != NULL ? lease->collection : lease->path, "application/json", text, len,
                     &reply, err);
    if (r < 0)
        return r;
    if (what == KW_LEASE_RELEASE)
        return 0;
    atomic_store(&lease->held_until_ns, sent_ns + lease->settings.renew_deadline_ns);
    /* where the answer cannot be read, the next claim is refused and then it is looked at anew */
    if (kw_lease_object_parse(reply.data != NULL ? reply.data : "", reply.len, &answered, NULL) ==
        0)
        see(lease, answered);
    return 0;
}

/* Acts on what was seen. @param ret_wait_ns as kw_lease_decide; left alone otherwise. @return 0;
 * -EEXIST look again; -errno */
static int act(struct kw_kube_lease *lease, uint64_t *ret_wait_ns, struct kw_err *err)
{
    /* a lease that was deleted is made anew by its holder, who may still write, or once it would
     * have been free */
    const struct kw_lease_object *base = lease->gone ? NULL : lease->seen;
    struct kw_lease_record record;

    if (lease->seen == NULL)
        return claim(lease, lease->kube, NULL, KW_LEASE_TAKE, err);
    kw_lease_object_read(lease->seen, &record);
    switch (kw_lease_decide(&record, lease->identity, lease->seen_ns, kw_now_boot_ns(),
                            lease->settings.duration_ns, ret_wait_ns)) {
    case KW_LEASE_STEP_TAKE: return claim(lease, lease->kube, base, KW_LEASE_TAKE, err);
    case KW_LEASE_STEP_RENEW: return claim(lease, lease->kube, base, KW_LEASE_RENEW, err);
    case KW_LEASE_STEP_WAIT: break;
    }
    atomic_store(&lease->held_until_ns, 0); /* it is another's */
    return 0;
}

/* One try. The holder renews what it knows without reading it first. @return as act */
static int attempt(struct kw_kube_lease *lease, uint64_t *ret_wait_ns, struct kw_err *err)
{
    int r;

    if (kw_kube_lease_held(lease) && lease->seen != NULL) {
        r = act(lease, ret_wait_ns, err);
        if (r != -EEXIST && r != -ENOENT)
            return r;
    }
    r = look(lease, lease->kube, err);
    if (r < 0)
        return r;
    r = act(lease, ret_wait_ns, err);
    /* a lost race is no failure: the next try sees who won it */
    return r == -EEXIST ? 0 : r;
}

/* ---- the thread ---- */

/* Replicas that started together do not ask together: up to a fifth more. */
static uint64_t with_jitter(uint64_t ns)
{
    return ns + ns / 5 * (kw_random_u32() % 1024) / 1024;
}

static bool ours(const struct kw_kube_lease *lease)
{
    struct kw_lease_record record;

    if (lease->seen == NULL || lease->gone)
        return false;
    kw_lease_object_read(lease->seen, &record);
    return strcmp(record.holder, lease->identity) == 0;
}

static void release(struct kw_kube_lease *lease)
{
    kw_cleanup(kw_kube_free) struct kw_kube *kube = NULL;
    struct kw_kube_conf conf = lease->conf;

    atomic_store(&lease->held_until_ns, 0);
    /* the first client was interrupted for good */
    conf.timeout_ms = RELEASE_TIMEOUT_MS;
    if (!ours(lease) || kw_kube_new(&conf, &kube, NULL) < 0)
        return;
    int r = claim(lease, kube, lease->seen, KW_LEASE_RELEASE, NULL);
    /* the renewal that was interrupted had arrived */
    if (r == -EEXIST && look(lease, kube, NULL) > 0 && ours(lease))
        (void)claim(lease, kube, lease->seen, KW_LEASE_RELEASE, NULL);
}

static void *run(void *user)
{
    struct kw_kube_lease *lease = user;

    while (!kw_worker_stopped(&lease->worker)) {
        uint64_t retry_ns = with_jitter(lease->settings.retry_ns);
        uint64_t until_free_ns = UINT64_MAX;
        struct kw_err err = {0};
        int r = attempt(lease, &until_free_ns, &err);
        if (kw_worker_stopped(&lease->worker))
            break;
        tell(lease, r, &err);
        if (kw_kube_lease_held(lease)) {
            /* where renewing fails, the end is told when it comes */
            uint64_t now = kw_now_boot_ns(), until = atomic_load(&lease->held_until_ns);
            kw_worker_wait_ns(&lease->worker,
                              until > now && until - now < retry_ns ? until - now : retry_ns);
            if (r < 0 && !kw_kube_lease_held(lease))
                tell(lease, r, &err);
        } else {
            /* free in between: the others wait as long, so the jitter decides */
            kw_worker_wait_ns(&lease->worker,
                              until_free_ns < retry_ns ? until_free_ns + retry_ns / 64 : retry_ns);
        }
    }
    release(lease);
    return NULL;
}

/* ---- life ---- */

static void free_lease(struct kw_kube_lease **lease)
{
    struct kw_kube_lease *old = *lease;

    *lease = NULL;
    if (old == NULL)
        return;
    kw_kube_free(&old->kube);
    kw_lease_object_free(&old->seen);
    kw_worker_destroy(&old->worker);
    free((char *)old->conf.kubeconfig);
    free((char *)old->conf.context);
    free((char *)old->conf.secrets_dir);
    free((char *)old->conf.host);
    free((char *)old->conf.port);
    free(old->namespace_);
    free(old->name);
    free(old->identity);
    free(old->label);
    free(old->path);
    free(old->collection);
    free(old);
}

static int check(const struct kw_kube_lease_settings *settings, struct kw_err *err)
{
    if (settings->renew_deadline_ns >= settings->duration_ns)
        return kw_err_set(
            err, -EINVAL,
            "leader election: the renew deadline has to be below the lease's duration");
    if (settings->retry_ns + settings->retry_ns / 5 >= settings->renew_deadline_ns)
        return kw_err_set(
            err, -EINVAL,
            "leader election: the retry period and a fifth have to be below the renew "
            "deadline");
    return 0;
}

/* The namespace of the pod, where there is one. @return NULL without */
static char *own_namespace(const struct kw_kube_conf *conf)
{
    char path[512], text[256];

    if (kw_path_join(path, sizeof(path),
                     conf->secrets_dir != NULL ? conf->secrets_dir : SECRETS_DIR,
                     "namespace") < 0 ||
        kw_file_read_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return NULL;
    text[strcspn(text, " \r\n")] = '\0';
    return strdup(text);
}

/* As client-go: a pod that is restarted under its name is another candidate. */
static char *make_identity(void)
{
    char host[65] = "";
    uint64_t random = 0;
    char *text = NULL;

    (void)gethostname(host, sizeof(host) - 1);
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        random = kw_now_boot_ns() ^ (uint64_t)getpid() << 40;
    return asprintf(&text, "%s_%016" PRIx64, host, random) < 0 ? NULL : text;
}

static char *copy(const char *text, bool *lost)
{
    char *ret = text != NULL ? strdup(text) : NULL;

    *lost = *lost || (text != NULL && ret == NULL);
    return ret;
}

static char *path_of(const struct kw_kube_lease *lease, const char *name, bool *lost)
{
    kw_cleanup(kw_buf_free) struct kw_buf path = {0};

    (void)kw_buf_adds(&path, "/apis/coordination.k8s.io/v1/namespaces/");
    (void)kw_kube_url_encode(&path, lease->namespace_);
    (void)kw_buf_adds(&path, "/leases");
    if (name != NULL) {
        (void)kw_buf_adds(&path, "/");
        (void)kw_kube_url_encode(&path, name);
    }
    *lost = *lost || path.failed;
    return path.failed ? NULL : KW_TAKE_PTR(path.data);
}

static int copy_conf(struct kw_kube_lease *lease, const struct kw_kube_lease_conf *conf,
                     struct kw_err *err)
{
    bool lost = false;

    lease->settings = conf->settings;
    lease->changed = conf->changed;
    lease->user = conf->user;
    lease->conf = (struct kw_kube_conf){
        .kubeconfig = copy(conf->kube.kubeconfig, &lost),
        .context = copy(conf->kube.context, &lost),
        .secrets_dir = copy(conf->kube.secrets_dir, &lost),
        .host = copy(conf->kube.host, &lost),
        .port = copy(conf->kube.port, &lost),
        /* as client-go: a call that hangs leaves time for another */
        .timeout_ms = (uint32_t)(conf->settings.renew_deadline_ns / 2 / KW_NS_PER_MS),
    };
    lease->namespace_ = conf->settings.namespace_ != NULL ? copy(conf->settings.namespace_, &lost)
                                                          : own_namespace(&conf->kube);
    if (lease->namespace_ == NULL && !lost)
        return kw_err_set(err, -EINVAL,
                          "leader election: outside of a pod the namespace of the lease has to be "
                          "given");
    lease->name = copy(conf->settings.name, &lost);
    lease->identity = conf->identity != NULL ? copy(conf->identity, &lost) : make_identity();
    if (lost || lease->identity == NULL)
        return kw_err_set(err, -ENOMEM, "lease: out of memory");
    lease->path = path_of(lease, lease->name, &lost);
    lease->collection = path_of(lease, NULL, &lost);
    if (asprintf(&lease->label, "%s/%s", lease->namespace_, lease->name) < 0)
        lease->label = NULL;
    return lost || lease->label == NULL ? kw_err_set(err, -ENOMEM, "lease: out of memory") : 0;
}

int kw_kube_lease_start(const struct kw_kube_lease_conf *conf, struct kw_kube_lease **ret,
                        struct kw_err *err)
{
    kw_cleanup(free_lease) struct kw_kube_lease *lease = calloc(1, sizeof(*lease));

    if (lease == NULL)
        return kw_err_set(err, -ENOMEM, "lease: out of memory");
    kw_worker_init(&lease->worker);
    int r = check(&conf->settings, err);
    if (r == 0)
        r = copy_conf(lease, conf, err);
    if (r == 0)
        r = kw_kube_new(&lease->conf, &lease->kube, err);
    if (r < 0)
        return r;
    r = kw_worker_start(&lease->worker, "kube-lease", run, lease);
    if (r < 0)
        return kw_err_set(err, r, "lease: thread: %s", kw_errno_text(r));
    *ret = KW_TAKE_PTR(lease);
    return 0;
}

void kw_kube_lease_stop(struct kw_kube_lease **lease)
{
    if (*lease == NULL)
        return;
    kw_worker_stop(&(*lease)->worker);
    kw_http_client_interrupt(kw_kube_http((*lease)->kube));
    kw_worker_join(&(*lease)->worker);
    free_lease(lease);
}

void kw_kube_lease_status(struct kw_kube_lease *lease, struct kw_kube_lease_status *ret)
{
    (void)pthread_mutex_lock(&lease->worker.mutex);
    *ret = lease->status;
    (void)pthread_mutex_unlock(&lease->worker.mutex);
    ret->held = kw_kube_lease_held(lease);
}

const char *kw_kube_lease_name(const struct kw_kube_lease *lease)
{
    return lease->label;
}
