/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/exporter.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/metrics_page.h"
#include "node-agent/view.h"

/* A loop that missed this many samples hangs; a machine under load does not. */
#define MISSED_MAX 5
#define GRACE_NS   (2 * KW_NS_PER_S)

struct agent_exporter {
    const struct kw_node_info *info;
    const struct agent_topology *topology;
    struct kw_snapshot *snapshots;
    const struct agent_publisher *publisher;
    struct agent_metrics_more more;
    struct kw_log *log;
    uint64_t interval_ns;
    atomic_uint_fast64_t beat_ns;
    struct kw_http_server *server;
};

static void answer(struct kw_http_response *response, unsigned status, const char *text)
{
    response->status = status;
    (void)kw_buf_adds(response->body, text);
}

static void handle_metrics(void *user, const struct kw_http_request *request,
                           struct kw_http_response *response)
{
    struct agent_exporter *exporter = user;
    struct agent_metrics_input input = {
        .info = exporter->info, .topology = exporter->topology, .more = exporter->more};
    enum kw_metrics_format format = kw_metrics_negotiate(request->accept);
    size_t slot = 0;

    if (exporter->publisher != NULL) {
        input.has_redis = true;
        agent_publisher_counts(exporter->publisher, &input.batches_written, &input.batches_failed);
    }
    input.snapshot = kw_snapshot_acquire(exporter->snapshots, &slot);
    response->content_type = kw_metrics_content_type(format);
    if (agent_metrics_write(&input, format, response->body) < 0) {
        kw_buf_reset(response->body);
        answer(response, 503, "out of memory\n");
    }
    kw_snapshot_release(exporter->snapshots, slot);
}

static void handle_pods(void *user, const struct kw_http_request *request,
                        struct kw_http_response *response)
{
    struct agent_exporter *exporter = user;
    kw_cleanup_free char *json = NULL;
    size_t len = 0, slot = 0;
    int rc = -ENODATA;

    (void)request;
    const struct agent_snapshot *snapshot = kw_snapshot_acquire(exporter->snapshots, &slot);
    if (snapshot != NULL)
        rc = agent_view_encode(snapshot, exporter->info, &json, &len);
    kw_snapshot_release(exporter->snapshots, slot);
    if (rc == 0)
        rc = kw_buf_add(response->body, json, len);
    if (rc == 0) {
        response->content_type = "application/json";
        return;
    }
    kw_buf_reset(response->body);
    if (rc == -ENODATA) {
        answer(response, 503, "no sample yet\n");
        return;
    }
    kw_log_error(exporter->log, "the view cannot be written", kw_errno(rc));
    answer(response, 500, "the view cannot be written\n");
}

static void handle_healthz(void *user, const struct kw_http_request *request,
                           struct kw_http_response *response)
{
    struct agent_exporter *exporter = user;
    uint64_t now_ns = kw_now_ns();
    uint64_t beat_ns = atomic_load(&exporter->beat_ns);

    (void)request;
    if (now_ns > beat_ns && now_ns - beat_ns > MISSED_MAX * exporter->interval_ns + GRACE_NS)
        answer(response, 503, "the sampling loop hangs\n");
    else
        answer(response, 200, "ok\n");
}

static void handle_readyz(void *user, const struct kw_http_request *request,
                          struct kw_http_response *response)
{
    struct agent_exporter *exporter = user;
    size_t slot = 0;

    (void)request;
    if (kw_snapshot_acquire(exporter->snapshots, &slot) != NULL)
        answer(response, 200, "ok\n");
    else
        answer(response, 503, "no sample yet\n");
    kw_snapshot_release(exporter->snapshots, slot);
}

static void on_tls(void *user, enum kw_http_tls_event event, const char *text)
{
    kw_log_write(user, (enum kw_log_level)kw_http_tls_sayings[event].level,
                 kw_http_tls_sayings[event].message, KW_FIELDS(kw_str("detail", text)));
}

int agent_exporter_start(const struct agent_exporter_conf *conf, struct agent_exporter **ret,
                         struct kw_err *err)
{
    struct agent_exporter *exporter = calloc(1, sizeof(*exporter));

    if (exporter == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    exporter->info = conf->info;
    exporter->topology = conf->topology;
    exporter->snapshots = conf->snapshots;
    exporter->publisher = conf->publisher;
    exporter->more = conf->more;
    exporter->log = conf->log;
    exporter->interval_ns = conf->interval_ns;
    atomic_init(&exporter->beat_ns, kw_now_ns());
    const struct kw_http_route routes[] = {
        {"GET", "/metrics", handle_metrics, exporter},
        {"GET", "/healthz", handle_healthz, exporter},
        {"GET", "/readyz", handle_readyz, exporter},
        {"GET", "/v1/pods", handle_pods, exporter},
    };
    struct kw_http_server_conf server = {
        .listen = conf->listen,
        .threads = AGENT_EXPORTER_THREADS,
        .max_body_bytes = 1024,   /* nothing here takes a body */
        .max_header_bytes = 8192, /* scrapers send little */
        .timeout_s = 10,
        .max_connections = 64,
        .routes = routes,
        .n_routes = KW_ARRAY_SIZE(routes),
        .tls = {.files = conf->tls, .report = on_tls, .user = conf->log},
    };
    int rc = kw_http_server_start(&server, &exporter->server, err);
    if (rc < 0) {
        free(exporter);
        return rc;
    }
    *ret = exporter;
    return 0;
}

const char *agent_exporter_untried_library(const struct agent_exporter *exporter)
{
    return kw_http_server_untried(exporter->server);
}

const char *agent_exporter_tls(const struct agent_exporter *exporter)
{
    return kw_http_server_tls(exporter->server);
}

void agent_exporter_beat(struct agent_exporter *exporter, uint64_t now_ns)
{
    atomic_store(&exporter->beat_ns, now_ns);
}

uint16_t agent_exporter_port(const struct agent_exporter *exporter)
{
    return kw_http_server_port(exporter->server);
}

void agent_exporter_stop(struct agent_exporter **exporter)
{
    struct agent_exporter *owned = KW_TAKE_PTR(*exporter);

    if (owned == NULL)
        return;
    kw_http_server_free(&owned->server);
    free(owned);
}
