/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread does everything: it takes in what the watches brought, and in each loop reads Redis,
 * feeds the histograms and gives advice, to the VPAs' statuses or, without an API server, to Redis.
 * Watches have threads of their own that only fill a queue; HTTP threads only read the statistics
 * published last. Waiting for the API server or for Redis ends when a signal to stop comes.
 *
 * Loops: at once, again after a few seconds (so that a first advice does not wait for a whole
 * interval), then every interval; and a second after somebody made or changed a VPA.
 *
 * An outage is said once when it begins and once when it ends.
 *
 * Of several replicas all do all of this but the writing, so that whoever leads next knows as much.
 */
#include "vpa-recommender/recommender.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/http_server.h"
#include "common/loop.h"
#include "common/snapshot.h"
#include "vpa-recommender/leading.h"
#include "vpa-recommender/local.h"
#include "vpa-recommender/pages.h"
#include "vpa-recommender/vpa_client.h"

/** Second loop: by then every agent has published twice. */
#define SECOND_LOOP_NS (5 * KW_NS_PER_S)

/** After a change of a VPA: a user who applies a file of many gets one loop. */
#define HURRY_NS KW_NS_PER_S

#define HTTP_THREADS     2
#define HTTP_CONNECTIONS 64
#define HTTP_BODY_BYTES  4096
#define HTTP_HEAD_BYTES  8192
#define HTTP_TIMEOUT_S   30

/** Of the API server. */
enum view {
    VIEW_GOOD,
    VIEW_NO_CRDS, /**< it has no VPAs */
    VIEW_LOST,
};

struct rec_recommender {
    const struct rec_settings *settings;
    struct kw_log *log;
    struct kw_loop *loop;
    struct kw_source *signals, *timer, *wakeup;
    struct kw_http_server *server;
    struct kw_snapshot *snapshot; /**< of struct rec_stats */
    struct kw_redis *redis;
    struct rec_source source;
    struct rec_vpa_client *client; /**< NULL: no API server */
    struct rec_leading leading;
    struct rec_local local;
    struct rec_learning learning;
    struct rec_stats stats;
    uint64_t started_ns;
    bool redis_down, hurrying; /**< told already */
    bool learning_failed;      /**< told already */
    enum view view;            /**< as it was told */
    uint64_t strange_told;     /**< records of other versions when it was last told */
};

/* ---- HTTP ---- */

/** The statistics of the last loop, and who leads now. @return `ret`; NULL before the first loop.
 */
static const struct rec_stats *look(struct rec_recommender *recommender, struct rec_stats *ret)
{
    size_t slot;
    const struct rec_stats *stats = kw_snapshot_acquire(recommender->snapshot, &slot);
    bool any = stats != NULL;

    if (any)
        *ret = *stats;
    kw_snapshot_release(recommender->snapshot, slot);
    rec_leading_stats(&recommender->leading, ret);
    return any ? ret : NULL;
}

static void on_metrics(void *user, const struct kw_http_request *request,
                       struct kw_http_response *response)
{
    struct rec_recommender *recommender = user;
    enum kw_metrics_format format = kw_metrics_negotiate(request->accept);
    struct rec_stats stats;

    response->content_type = kw_metrics_content_type(format);
    if (rec_pages_metrics(look(recommender, &stats), format, response->body) < 0)
        response->status = 500;
}

static void answer(struct kw_http_response *response, bool good, const char *text)
{
    response->status = good ? 200 : 503;
    (void)kw_buf_adds(response->body, text);
}

static void on_healthz(void *user, const struct kw_http_request *request,
                       struct kw_http_response *response)
{
    struct rec_recommender *recommender = user;
    struct rec_stats stats;
    const char *why;

    (void)request;
    bool healthy = rec_pages_healthy(look(recommender, &stats), recommender->settings->interval_ns,
                                     recommender->started_ns, kw_now_ns(), &why);
    answer(response, healthy, why);
}

static void on_readyz(void *user, const struct kw_http_request *request,
                      struct kw_http_response *response)
{
    struct rec_recommender *recommender = user;
    struct rec_stats stats;
    const char *why;

    (void)request;
    bool ready = rec_pages_ready(look(recommender, &stats), &why);
    answer(response, ready, why);
}

/* ---- the loop ---- */

static void publish(struct rec_recommender *recommender, uint64_t began_ns)
{
    struct rec_stats *stats = &recommender->stats;
    struct rec_stats *copy = malloc(sizeof(*copy));

    stats->loops++;
    stats->loop_end_ns = kw_now_ns();
    stats->loop_ns = stats->loop_end_ns - began_ns;
    stats->interval_ns = recommender->settings->interval_ns;
    for (size_t i = 0; i < REC_RECORD__MAX; i++)
        stats->fates[i] = recommender->source.fates[i];
    rec_learning_stats(&recommender->learning, stats);
    if (recommender->client != NULL)
        rec_vpa_client_stats(recommender->client, stats);
    else
        rec_local_stats(&recommender->local, stats);
    if (copy == NULL)
        return; /* the old ones stay; health fails if this goes on */
    *copy = *stats;
    kw_snapshot_publish(recommender->snapshot, copy);
}

static void tell_redis(struct rec_recommender *recommender, int rc, const struct kw_err *err)
{
    recommender->stats.redis_up = rc == 0;
    recommender->stats.redis_errors += rc < 0;
    if (rc < 0 && rc != -EAGAIN && !recommender->redis_down) {
        kw_log_warn(recommender->log, "Redis cannot be read; the last advice stays",
                    kw_str("redis", kw_redis_name(recommender->redis)), kw_str("error", err->text));
        recommender->redis_down = true;
    } else if (rc == 0 && recommender->redis_down) {
        kw_log_info(recommender->log, "Redis is back",
                    kw_str("redis", kw_redis_name(recommender->redis)));
        recommender->redis_down = false;
    }
    if (recommender->source.fates[REC_RECORD_SCHEMA] > 0 && recommender->strange_told == 0)
        kw_log_warn(recommender->log,
                    "some agents write records of another schema version; those are left out");
    recommender->strange_told = recommender->source.fates[REC_RECORD_SCHEMA];
}

/** Says what became of the view, once each time that it is another. */
static void tell_api(struct rec_recommender *recommender, enum view view, const char *text)
{
    struct kw_log *log = recommender->log;
    struct kw_field server = kw_str("server", rec_vpa_client_server(recommender->client));
    enum view before = recommender->view;

    recommender->view = view;
    if (view == before)
        return;
    if (view == VIEW_LOST)
        kw_log_warn(log, "the API server cannot be used; statuses stay as they are", server,
                    kw_str("error", text));
    else if (view == VIEW_NO_CRDS)
        kw_log_warn(log,
                    "the VPA's CRDs are not installed, so there is nothing to recommend for; they "
                    "are looked for again and again",
                    server, kw_str("error", text));
    else if (before == VIEW_NO_CRDS)
        kw_log_info(log, "the VPA's CRDs are there", server);
    else
        kw_log_info(log, "the API server is back", server);
}

/** Profiles are for placement: their failure is nothing to the VPAs. */
static void learn(struct rec_recommender *recommender, int64_t now_unix_ms)
{
    struct kw_err err = {0};
    int rc = rec_vpa_client_learn(recommender->client, &recommender->learning, now_unix_ms, &err);

    if (rc == -ECANCELED || rc == -EAGAIN)
        return;
    if (rc < 0 && !recommender->learning_failed)
        kw_log_warn(recommender->log, "profiles of workloads cannot be learnt",
                    kw_str("error", err.text));
    recommender->learning_failed = rc < 0;
}

static void loop_cluster(struct rec_recommender *recommender, int64_t now_unix_ms)
{
    struct rec_vpa_client *client = recommender->client;
    struct kw_err err = {0};

    int matched = rec_vpa_client_match(client, now_unix_ms, &err);
    if (matched == -ECANCELED)
        return;
    if (matched < 0)
        kw_log_warn(recommender->log, "targets could not be found out", kw_str("error", err.text));
    err = (struct kw_err){0};
    int rc = rec_vpa_client_feed(client, &recommender->source, now_unix_ms, &err);
    if (rc == -ECANCELED)
        return;
    tell_redis(recommender, rc, &err);
    if (matched == -ENOMEM) /* half of the pods would read as "no pods" */
        return;
    err = (struct kw_err){0};
    rc = rec_vpa_client_write(client, now_unix_ms, &err);
    if (rc < 0 && rc != -ECANCELED)
        kw_log_warn(recommender->log, "a status could not be written", kw_str("error", err.text));
    if (rc != -ECANCELED && !recommender->redis_down)
        learn(recommender, now_unix_ms);
}

static void run_loop(struct rec_recommender *recommender)
{
    uint64_t began_ns = kw_now_ns();
    int64_t now_unix_ms = kw_now_unix_ms();
    struct kw_err err = {0};

    recommender->hurrying = false;
    if (recommender->client != NULL) {
        loop_cluster(recommender, now_unix_ms);
    } else {
        int rc = rec_local_loop(&recommender->local, now_unix_ms, &err);
        if (rc == -ECANCELED)
            return;
        tell_redis(recommender, rc, &err);
    }
    publish(recommender, began_ns);
}

/** Takes in what the watches brought. @return whether a loop is wanted soon. */
static bool drain(struct rec_recommender *recommender)
{
    struct kw_err err = {0};
    enum rec_drained drained = rec_vpa_client_drain(recommender->client, &err);
    bool synced = rec_vpa_client_synced(recommender->client);

    if (drained == REC_DRAINED_DOWN)
        tell_api(recommender, err.code == -ENOENT ? VIEW_NO_CRDS : VIEW_LOST, err.text);
    else if (rec_vpa_client_up(recommender->client))
        tell_api(recommender, VIEW_GOOD, NULL);
    if (synced && !recommender->stats.synced)
        kw_log_info(recommender->log, "VPAs and pods are in view");
    recommender->stats.synced = synced;
    return drained == REC_DRAINED_CHANGED;
}

static void on_wakeup(void *user)
{
    struct rec_recommender *recommender = user;

    bool elected = rec_leading_tell(&recommender->leading, recommender->log);
    if ((!drain(recommender) && !elected) || recommender->hurrying)
        return;
    recommender->hurrying = true;
    (void)kw_source_set_timer(recommender->timer, HURRY_NS, recommender->settings->interval_ns);
}

static void on_timer(void *user, uint64_t expirations)
{
    struct rec_recommender *recommender = user;
    uint64_t interval_ns = recommender->settings->interval_ns;

    (void)expirations;
    if (recommender->client != NULL)
        (void)drain(recommender);
    run_loop(recommender);
    if (recommender->stats.loops == 1)
        (void)kw_source_set_timer(recommender->timer,
                                  interval_ns < SECOND_LOOP_NS ? interval_ns : SECOND_LOOP_NS,
                                  interval_ns);
}

static void on_signal(void *user, int signal_number)
{
    struct rec_recommender *recommender = user;

    kw_log_info(recommender->log, "asked to stop", kw_i64("signal", signal_number));
    kw_loop_stop(recommender->loop, 0);
}

/* ---- life ---- */

static void wake(void *user)
{
    struct rec_recommender *recommender = user;

    kw_loop_wakeup_send(recommender->wakeup);
}

static int start_client(struct rec_recommender *recommender, struct kw_err *err)
{
    const struct rec_settings *settings = recommender->settings;
    int rc = rec_leading_start(&recommender->leading, settings, wake, recommender, err);
    struct rec_vpa_client_conf conf = {
        .kube = {.kubeconfig = settings->kubeconfig, .context = settings->context},
        .recommender = settings->recommender_name,
        .namespace_ = settings->vpa_object_namespace,
        .lease = recommender->leading.lease,
        .timeout_ms = kw_lease_timeout_ms(&settings->lease),
        .interval_ns = settings->interval_ns,
        .sample_interval_ms = settings->sample_interval_ns / KW_NS_PER_MS,
        .cancel_fd = kw_source_fd(recommender->signals),
        .wake = wake,
        .user = recommender,
    };

    if (rc == 0)
        rc = rec_vpa_client_new(&conf, &recommender->client, err);
    if (rc == 0) {
        kw_log_info(recommender->log, "taking the VPAs that name this recommender",
                    kw_str("server", rec_vpa_client_server(recommender->client)),
                    kw_str("recommender", settings->recommender_name));
        return 0;
    }
    if (rc != -ENOENT || settings->kubeconfig != NULL)
        return rc;
    kw_log_info(recommender->log,
                "no API server: no --kubeconfig, and not in a cluster. Advice for the workloads of "
                "this machine goes to Redis, where kwatt top shows it");
    recommender->local.workloads = rec_workloads_new();
    if (recommender->local.workloads == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    recommender->local.source = &recommender->source;
    recommender->local.sample_interval_ms = settings->sample_interval_ns / KW_NS_PER_MS;
    return 0;
}

static void on_tls(void *user, enum kw_http_tls_event event, const char *text)
{
    kw_log_write(user, (enum kw_log_level)kw_http_tls_sayings[event].level,
                 kw_http_tls_sayings[event].message, KW_FIELDS(kw_str("detail", text)));
}

static int start_server(struct rec_recommender *recommender, struct kw_err *err)
{
    const struct kw_http_route routes[] = {
        {"GET", "/metrics", on_metrics, recommender},
        {"GET", "/healthz", on_healthz, recommender},
        {"GET", "/readyz", on_readyz, recommender},
    };
    const struct kw_http_server_conf conf = {
        .listen = recommender->settings->listen,
        .threads = HTTP_THREADS,
        .max_body_bytes = HTTP_BODY_BYTES,
        .max_header_bytes = HTTP_HEAD_BYTES,
        .timeout_s = HTTP_TIMEOUT_S,
        .max_connections = HTTP_CONNECTIONS,
        .routes = routes,
        .n_routes = KW_ARRAY_SIZE(routes),
        .tls = {.files = recommender->settings->tls, .report = on_tls, .user = recommender->log},
    };

    int rc = kw_http_server_start(&conf, &recommender->server, err);
    if (rc < 0)
        return rc;
    kw_log_info(recommender->log, "serving", kw_str("listen", conf.listen),
                kw_u64("port", kw_http_server_port(recommender->server)),
                kw_str("tls", kw_http_server_tls(recommender->server)));
    if (kw_http_server_untried(recommender->server) != NULL)
        kw_log_warn(recommender->log,
                    "kwatt was not tried with this libmicrohttpd; malformed "
                    "heads are left to its strict mode",
                    kw_str("version", kw_http_server_untried(recommender->server)));
    return 0;
}

static int start_loop(struct rec_recommender *recommender)
{
    static const int signals[] = {SIGTERM, SIGINT, 0};

    int rc = kw_loop_new(&recommender->loop);
    if (rc == 0)
        rc = kw_loop_add_signals(recommender->loop, signals, on_signal, recommender,
                                 &recommender->signals);
    if (rc == 0)
        rc = kw_loop_add_wakeup(recommender->loop, on_wakeup, recommender, &recommender->wakeup);
    if (rc == 0)
        rc = kw_loop_add_timer(recommender->loop, 0, recommender->settings->interval_ns, on_timer,
                               recommender, &recommender->timer);
    /* each HTTP thread holds one snapshot at a time */
    return rc == 0 ? kw_snapshot_new(HTTP_THREADS, free, &recommender->snapshot) : rc;
}

int rec_recommender_new(const struct rec_settings *settings, struct kw_log *log,
                        struct rec_recommender **ret, struct kw_err *err)
{
    kw_cleanup(rec_recommender_free) struct rec_recommender *recommender =
        calloc(1, sizeof(*recommender));
    struct kw_redis_conf redis = {
        .access = settings->redis,
        .timeout_ms = (uint32_t)(settings->redis_timeout_ns / KW_NS_PER_MS),
    };

    if (recommender == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    recommender->settings = settings;
    recommender->log = log;
    recommender->started_ns = kw_now_ns();
    int rc = start_loop(recommender);
    if (rc < 0)
        return kw_err_set(err, rc, "cannot make the event loop");
    redis.cancel_fd = kw_source_fd(recommender->signals);
    rc = kw_redis_new(&redis, &recommender->redis, err);
    if (rc < 0)
        return rc;
    recommender->source.redis = recommender->redis;
    recommender->learning.source.redis = recommender->redis;
    rc = start_server(recommender, err);
    if (rc == 0)
        rc = start_client(recommender, err);
    if (rc < 0)
        return rc;
    *ret = KW_TAKE_PTR(recommender);
    return 0;
}

int rec_recommender_run(struct rec_recommender *recommender)
{
    return kw_loop_run(recommender->loop);
}

void rec_recommender_free(struct rec_recommender **recommender)
{
    struct rec_recommender *old = *recommender;

    *recommender = NULL;
    if (old == NULL)
        return;
    kw_http_server_free(&old->server);
    rec_learning_clear(&old->learning);
    rec_vpa_client_free(&old->client);
    kw_kube_lease_stop(&old->leading.lease); /* after the last write */
    rec_workloads_free(&old->local.workloads);
    kw_redis_free(&old->redis);
    kw_snapshot_free(&old->snapshot);
    kw_source_free(&old->timer);
    kw_source_free(&old->wakeup);
    kw_source_free(&old->signals);
    kw_loop_free(&old->loop);
    free(old);
}
