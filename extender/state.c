/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: the main one waits for signals; one reads Redis on a timer, and may wait for it as long
 * as it takes; one watches pods that start (extender/flights.h); the HTTP server's answer from what
 * was published last. They share the snapshot (pointer swap) and the counters (atomics), nothing
 * else. This file and flights.c are where the program logs.
 */
#include "extender/state.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/loop.h"
#include "extender/capping.h"
#include "extender/flights.h"
#include "extender/learnt.h"
#include "extender/refresh.h"
#include "extender/reload.h"
#include "extender/service.h"
#include "extender/tiering.h"

/** Head of a request: the scheduler's has 200 bytes, proxies and service meshes add a few hundred.
 */
#define MAX_HEADER_BYTES (16 * 1024)

struct ext_state {
    const struct ext_settings *settings; /**< as at the start */
    const struct ext_launch *launch;
    struct kw_log *log;
    struct kw_loop *loop;
    struct kw_source *signals;
    struct ext_service service;
    struct ext_capping *capping;
    struct ext_flights *flights;
    struct ext_typical typical;
    struct ext_tiering *tiering; /**< NULL: nodes are not labelled */
    struct kw_http_server *server;
    struct {
        pthread_t thread;
        bool started;
        struct kw_loop *loop;
        struct kw_source *timer;
        struct ext_refresh *refresh;
        struct ext_learnt *learnt;
        int64_t learn_ns;                /**< when profiles are read next */
        bool learn_failed;               /**< as it was told */
        _Atomic uint64_t stale_after_ns; /**< as the settings have it by now */
        bool was_up, was_tried, was_refused;
        struct kw_err told; /**< why Redis is away, as it was told last, */
        int64_t told_ns;    /**< and when */
        uint64_t skipped;   /**< records left out, as it was told; 0: none of all nodes */
    } reader;
};

static void free_snapshot(void *value)
{
    struct ext_snapshot *snapshot = value;

    ext_snapshot_free(&snapshot);
}

static void free_profiles(void *value)
{
    struct ext_profiles *profiles = value;

    ext_profiles_free(&profiles);
}

/** Takes over what can be changed while it serves. */
static int apply(struct ext_state *state, const struct ext_settings *settings)
{
    struct ext_policy policy = ext_reload_policy(settings);
    struct ext_cap_policy caps = ext_reload_caps(settings);
    int rc = ext_service_set_policy(&state->service, &policy);

    if (rc < 0)
        return rc;
    ext_flights_assume(state->flights, &policy.assumptions);
    ext_capping_set_policy(state->capping, &caps);
    if (state->tiering != NULL)
        ext_tiering_assume(state->tiering, settings->default_cpu_mcpu);
    state->reader.stale_after_ns = policy.stale_after_ns;
    kw_log_set_level(state->log, (enum kw_log_level)settings->log_level);
    return 0;
}

static void reload(struct ext_state *state)
{
    const struct ext_launch *launch = state->launch;
    struct ext_settings settings = {0};
    kw_cleanup(kw_buf_free) struct kw_buf later = {0};
    struct kw_err err = {0};
    int rc = kw_conf_load(&ext_program, launch->argc, launch->argv, launch->envp, &settings, stdout,
                          NULL, &err);

    if (rc == KW_CONF_RUN)
        rc = ext_reload_later(state->settings, &settings, &later);
    if (rc == 0)
        rc = apply(state, &settings);
    kw_conf_free(&ext_program, &settings);
    state->service.stats.config_refused = rc < 0;
    if (rc < 0)
        kw_log_warn(state->log, "the configuration stays as it was",
                    kw_str("error", err.text[0] != '\0' ? err.text : kw_errno_text(rc)));
    else
        kw_log_info(state->log, "read the configuration again");
    if (rc == 0 && later.len > 0)
        kw_log_warn(state->log, "changed, and of use after a restart alone",
                    kw_str("options", later.data));
}

static void on_signal(void *user, int signal_number)
{
    struct ext_state *state = user;

    if (signal_number == SIGTERM || signal_number == SIGINT) {
        kw_log_info(state->log, "stopping", kw_i64("signal", signal_number));
        kw_loop_stop(state->loop, 0);
    } else if (signal_number == SIGHUP) {
        reload(state);
    }
}

/** What keeps Redis away may change while it is away: said again so often at most. */
#define TELL_EVERY_NS (30 * (int64_t)KW_NS_PER_S)

static void tell_failure(struct ext_state *state, const char *message, const struct kw_err *err,
                         int64_t now_ns)
{
    kw_log_warn(state->log, message, kw_str("redis", ext_refresh_name(state->reader.refresh)),
                kw_str("error", err->text));
    state->reader.told = *err;
    state->reader.told_ns = now_ns;
}

static void refresh_failed(struct ext_state *state, int rc, const struct kw_err *err,
                           int64_t now_ns)
{
    struct ext_stats *stats = &state->service.stats;

    if (rc == -EAGAIN || rc == -ECANCELED)
        return; /* the back-off lasts and nothing was tried, or the program is stopping */
    stats->redis_failures++;
    stats->redis_up = false;
    if (state->reader.was_up)
        tell_failure(state, "lost Redis: its nodes turn stale, and then neutral", err, now_ns);
    else if (!state->reader.was_tried)
        tell_failure(state, "Redis is not there yet: scores are neutral until it is", err, now_ns);
    else if (strcmp(state->reader.told.text, err->text) != 0 &&
             now_ns - state->reader.told_ns >= TELL_EVERY_NS)
        tell_failure(state, "Redis is away for another reason now", err, now_ns);
    state->reader.was_up = false;
    state->reader.was_tried = true;
}

static void refresh_done(struct ext_state *state, struct ext_refresh_result *result,
                         const struct ext_instant *now)
{
    struct ext_stats *stats = &state->service.stats;
    uint64_t skipped = 0;

    ext_flights_publish(state->flights, result->snapshot, now->now_ns);
    for (unsigned i = 0; i < EXT_SKIP__MAX; i++) {
        stats->skipped[i] += result->skipped[i];
        skipped += result->skipped[i];
    }
    stats->refreshes++;
    stats->refreshed_ns = now->now_ns;
    stats->redis_up = true;
    if (!state->reader.was_up)
        kw_log_info(state->log, "reading nodes from Redis",
                    kw_str("redis", ext_refresh_name(state->reader.refresh)),
                    kw_u64("nodes", ext_flights_last(state->flights)->n));
    stats->whole_refreshes += result->whole;
    if (result->whole)
        (void)malloc_trim(0); /* the reading of all nodes took more than what is kept of it */
    if (result->refused && !state->reader.was_refused)
        kw_log_warn(state->log, "Redis does not give kwatt:v1:feed:*: all nodes are read each time",
                    kw_str("error", result->said));
    state->reader.was_refused = result->refused;
    if (skipped > 0 && skipped != state->reader.skipped)
        kw_log_warn(state->log, "records left out; /metrics says why", kw_u64("records", skipped),
                    kw_str("redis_said", result->said));
    if (skipped > 0 || result->whole) /* the feeds alone do not have what all nodes have */
        state->reader.skipped = skipped;
    state->reader.was_up = state->reader.was_tried = true;
}

/** How often profiles are looked for: they are written about every ten minutes. */
#define LEARN_EVERY_NS (2 * (int64_t)KW_NS_PER_S)

static void learn(struct ext_state *state, const struct ext_instant *now)
{
    struct ext_stats *stats = &state->service.stats;
    uint64_t skipped[EXT_PROFILE_SKIP__MAX] = {0};
    struct kw_err err = {0};

    if (now->now_ns < state->reader.learn_ns)
        return;
    int rc = ext_learnt_step(state->reader.learnt, now, skipped, &err);
    if (rc <= 0)
        state->reader.learn_ns = now->now_ns + LEARN_EVERY_NS;
    for (unsigned i = 0; i < EXT_PROFILE_SKIP__MAX; i++)
        stats->profiles_skipped[i] += skipped[i];
    stats->profiles = ext_learnt_count(state->reader.learnt);
    if (rc >= 0 || rc == -EAGAIN) {
        state->reader.learn_failed = state->reader.learn_failed && rc < 0;
        return;
    }
    stats->profile_failures++;
    /* where Redis is gone, its nodes tell so */
    if (rc == -EREMOTEIO && !state->reader.learn_failed)
        kw_log_warn(state->log,
                    "profiles of workloads cannot be read: their pods are expected to use what "
                    "they request",
                    kw_str("error", err.text));
    state->reader.learn_failed = state->reader.learn_failed || rc == -EREMOTEIO;
}

static void on_timer(void *user, uint64_t expirations)
{
    struct ext_state *state = user;
    struct ext_refresh_result result = {0};
    struct kw_err err = {0};
    const struct ext_instant now = {.now_ns = (int64_t)kw_now_ns(), .unix_ms = kw_now_unix_ms()};

    (void)expirations;
    ext_capping_reload(state->capping);
    ext_refresh_set_stale_after(state->reader.refresh, state->reader.stale_after_ns);
    int rc = ext_refresh_once(state->reader.refresh, ext_flights_last(state->flights), &now,
                              &result, &err);
    if (rc < 0)
        refresh_failed(state, rc, &err, now.now_ns);
    else
        refresh_done(state, &result, &now);
    if (rc == 0)
        learn(state, &now);
    if (rc < 0 && rc != -ECANCELED)
        ext_flights_publish(state->flights, NULL, now.now_ns); /* time goes on without Redis */
    ext_capping_round(state->capping, ext_flights_last(state->flights), now.now_ns);
}

static void *run_reader(void *user)
{
    struct ext_state *state = user;

    int rc = kw_loop_run(state->reader.loop);
    if (rc < 0)
        kw_log_error(state->log, "the reader of Redis stopped", kw_errno(rc));
    return NULL;
}

static int start_reader(struct ext_state *state, struct kw_err *err)
{
    const struct ext_settings *settings = state->settings;
    const struct kw_redis_conf conf = {
        .access = settings->redis,
        .timeout_ms = (uint32_t)(settings->redis_timeout_ns / KW_NS_PER_MS),
    };
    int rc = ext_refresh_new(&conf, settings->stale_after_ns, &state->reader.refresh, err);

    state->reader.stale_after_ns = settings->stale_after_ns;

    if (rc == 0)
        rc = ext_learnt_new(&conf, state->service.profiles, &state->reader.learnt, err);
    if (rc < 0)
        return rc;
    rc = kw_loop_new(&state->reader.loop);
    if (rc == 0)
        rc = kw_loop_add_timer(state->reader.loop, 0, settings->refresh_ns, on_timer, state,
                               &state->reader.timer);
    if (rc == 0)
        rc = -pthread_create(&state->reader.thread, NULL, run_reader, state);
    if (rc < 0)
        return kw_err_set(err, rc, "cannot start the reader of Redis");
    state->reader.started = true;
    return 0;
}

static void on_tls(void *user, enum kw_http_tls_event event, const char *text)
{
    kw_log_write(user, (enum kw_log_level)kw_http_tls_sayings[event].level,
                 kw_http_tls_sayings[event].message, KW_FIELDS(kw_str("detail", text)));
}

static int start_server(struct ext_state *state, struct kw_err *err)
{
    const struct ext_settings *settings = state->settings;
    struct kw_http_route routes[EXT_ROUTES_MAX];
    const struct kw_http_server_conf conf = {
        .listen = settings->listen,
        .threads = (unsigned)settings->threads,
        .max_body_bytes = settings->max_body_bytes,
        .max_header_bytes = MAX_HEADER_BYTES,
        .timeout_s = (unsigned)(settings->idle_timeout_ns / KW_NS_PER_S),
        .max_connections = (unsigned)settings->max_connections,
        .routes = routes,
        .n_routes = ext_service_routes(&state->service, routes),
        .tls = {.files = settings->tls, .report = on_tls, .user = state->log},
    };
    int rc = kw_http_server_start(&conf, &state->server, err);

    if (rc < 0)
        return rc;
    kw_log_info(state->log, "serving", kw_str("listen", settings->listen),
                kw_u64("port", kw_http_server_port(state->server)),
                kw_str("tls", kw_http_server_tls(state->server)));
    if (kw_http_server_untried(state->server) != NULL)
        kw_log_warn(state->log,
                    "kwatt was not tried with this libmicrohttpd; malformed heads are "
                    "left to its strict mode",
                    kw_str("version", kw_http_server_untried(state->server)));
    return 0;
}

static int start_capping(struct ext_state *state, struct kw_err *err)
{
    const struct ext_settings *settings = state->settings;
    const struct kw_kube_conf kube = {.kubeconfig = settings->kubeconfig};
    const struct ext_capping_conf conf = {
        .policy = ext_reload_caps(settings),
        .file = settings->caps_file,
        .zones = settings->zones_file,
        .pods_are_watched = settings->watch_pods,
        .write_headroom = settings->write_headroom,
        .write_events = settings->write_events,
        .decisions = state->service.decisions,
        .stats = &state->service.stats,
        .log = state->log,
    };

    if (!settings->watch_nodes && (settings->write_headroom || settings->write_events))
        return kw_err_set(err, -EINVAL, "--%s wants --watch-nodes",
                          settings->write_headroom ? "write-headroom" : "events");
    if (!settings->watch_nodes && settings->zones_file != NULL)
        return kw_err_set(
            err, -EINVAL,
            "--zones wants --watch-nodes: the API server says which zone a node is in");
    int rc = ext_capping_new(&conf, &state->capping, err);
    if (rc < 0)
        return rc;
    state->service.tally = ext_capping_tally(state->capping);
    state->service.waiters = ext_capping_waiters(state->capping);
    return settings->watch_nodes ? ext_capping_watch(state->capping, &kube, err) : 0;
}

static int start_flights(struct ext_state *state, struct kw_err *err)
{
    const struct ext_settings *settings = state->settings;
    const struct ext_flights_conf conf = {.assumptions = ext_reload_policy(settings).assumptions,
                                          .profiles = state->service.profiles,
                                          .capping = state->capping,
                                          .decisions = state->service.decisions,
                                          .out = state->service.snapshot,
                                          .typical = &state->typical,
                                          .stats = &state->service.stats,
                                          .log = state->log};
    const struct kw_kube_conf kube = {.kubeconfig = settings->kubeconfig};
    int rc = ext_flights_new(&conf, &state->flights);

    if (rc < 0)
        return kw_err_set(err, rc, "cannot start");
    return settings->watch_pods ? ext_flights_watch(state->flights, &kube, err) : 0;
}

static int start_tiering(struct ext_state *state, struct kw_err *err)
{
    const struct ext_settings *settings = state->settings;
    const struct ext_tiering_conf conf = {.settings = settings->tiers,
                                          .kube = {.kubeconfig = settings->kubeconfig},
                                          .snapshot = state->service.snapshot,
                                          .capping = state->capping,
                                          .typical = &state->typical,
                                          .default_mcpu = settings->default_cpu_mcpu,
                                          .stats = &state->service.stats,
                                          .log = state->log};

    if (!settings->tiers.enabled)
        return settings->tiers.lease.enabled
                   ? kw_err_set(err, -EINVAL, "--leader-elect is of use with --power-tiers alone")
                   : 0;
    if (!settings->watch_nodes)
        return kw_err_set(err, -EINVAL, "--power-tiers wants --watch-nodes");
    return ext_tiering_new(&conf, &state->tiering, err);
}

static int start(struct ext_state *state, struct kw_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, 0};
    const struct ext_settings *settings = state->settings;
    const struct ext_policy policy = ext_reload_policy(settings);
    unsigned threads = (unsigned)settings->threads + KW_HTTP_THREADS_BESIDE;

    int rc = ext_service_init(&state->service, threads, &policy);
    if (rc == 0) /* tiers are made of it, too */
        rc = kw_snapshot_new(threads + 1, free_snapshot, &state->service.snapshot);
    if (rc == 0) /* the watch of pods reads them, too */
        rc = kw_snapshot_new(threads + 1, free_profiles, &state->service.profiles);
    if (rc == 0)
        rc = kw_loop_new(&state->loop);
    if (rc == 0)
        rc = kw_loop_add_signals(state->loop, signals, on_signal, state, &state->signals);
    if (rc < 0)
        return kw_err_set(err, rc, "cannot start");
    rc = start_capping(state, err);
    if (rc == 0)
        rc = start_flights(state, err);
    if (rc == 0)
        rc = start_reader(state, err);
    if (rc == 0)
        rc = start_tiering(state, err);
    return rc < 0 ? rc : start_server(state, err);
}

int ext_state_new(const struct ext_settings *settings, const struct ext_launch *launch,
                  struct kw_log *log, struct ext_state **ret, struct kw_err *err)
{
    struct ext_state *state = calloc(1, sizeof(*state));

    if (state == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    /* One heap for all threads: requests allocate nothing, so none waits for another, while what
     * the reading of all nodes leaves in heaps of threads' own was 1.3 to 2 MiB at 15000 nodes. */
    (void)mallopt(M_ARENA_MAX, 1);
    state->settings = settings;
    state->launch = launch;
    state->log = log;
    int rc = start(state, err);
    if (rc < 0) {
        ext_state_free(&state);
        return rc;
    }
    *ret = state;
    return 0;
}

int ext_state_run(struct ext_state *state)
{
    return kw_loop_run(state->loop);
}

void ext_state_free(struct ext_state **state)
{
    struct ext_state *s = *state;

    if (s == NULL)
        return;
    kw_http_server_free(&s->server);
    ext_tiering_free(&s->tiering);
    if (s->reader.started) {
        ext_refresh_cancel(s->reader.refresh);
        kw_loop_stop(s->reader.loop, 0);
        (void)pthread_join(s->reader.thread, NULL);
    }
    kw_loop_free(&s->reader.loop);
    ext_refresh_free(&s->reader.refresh);
    ext_learnt_free(&s->reader.learnt);
    ext_flights_free(&s->flights);
    ext_capping_free(&s->capping);
    kw_snapshot_free(&s->service.snapshot);
    kw_snapshot_free(&s->service.profiles);
    ext_service_clear(&s->service);
    kw_loop_free(&s->loop);
    free(s);
    *state = NULL;
}
