/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP side of the service. The scheduler pastes its verb behind a urlPrefix that may carry a path
 * of its own (http://kwatt/clusters/a), and proxies add theirs, so a POST is told by the last
 * component of its path.
 */
#include <string.h>

#include "common/clock.h"
#include "extender/service.h"

/** The verb that a path ends with. @return EXT_VERB__MAX for none. */
static enum ext_verb verb_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *last = slash == NULL ? path : slash + 1;

    for (unsigned i = 0; i < EXT_VERB__MAX; i++) {
        if (strcmp(last, ext_verb_names[i]) == 0)
            return (enum ext_verb)i;
    }
    return EXT_VERB__MAX;
}

static void not_found(struct kw_http_response *response)
{
    response->status = 404;
    (void)kw_buf_adds(response->body, "no such path\n");
}

static void on_post(void *user, const struct kw_http_request *request,
                    struct kw_http_response *response)
{
    struct ext_service *service = user;
    enum ext_verb verb = verb_of(request->path);
    uint64_t from_ns = kw_now_ns();
    struct ext_lent lent = {.body = request->own};
    size_t slot;

    if (verb == EXT_VERB__MAX) {
        not_found(response);
        return;
    }
    const struct ext_snapshot *snapshot = kw_snapshot_acquire(service->snapshot, &slot);
    response->status = ext_service_lend(service, verb, snapshot, (int64_t)from_ns, request->body,
                                        request->body_len, response->body, &lent);
    kw_snapshot_release(service->snapshot, slot);
    response->static_body = lent.bytes;
    response->static_len = lent.len;
    response->held = lent.held;
    if (response->status == 200)
        response->content_type = "application/json";
    kw_histogram_observe_ns(service->stats.latency[verb], kw_now_ns() - from_ns);
}

static void on_other_get(void *user, const struct kw_http_request *request,
                         struct kw_http_response *response)
{
    (void)user;
    if (verb_of(request->path) == EXT_VERB__MAX) {
        not_found(response);
        return;
    }
    response->status = 405;
    response->allow = "POST";
    (void)kw_buf_adds(response->body, "this is for POST\n");
}

static struct ext_policy policy_of(struct ext_service *service)
{
    struct ext_policy policy = {0};
    size_t slot;
    const struct ext_policy *present = kw_snapshot_acquire(service->policies, &slot);

    if (present != NULL)
        policy = *present;
    kw_snapshot_release(service->policies, slot);
    return policy;
}

static struct ext_census take_census(struct ext_service *service, int64_t now_ns)
{
    struct ext_census census = {0};
    const uint64_t stale_after_ns = policy_of(service).stale_after_ns;
    size_t slot;
    const struct ext_snapshot *snapshot = kw_snapshot_acquire(service->snapshot, &slot);

    for (size_t i = 0; snapshot != NULL && i < snapshot->n; i++) {
        const struct ext_node *node = &snapshot->nodes[i];
        census.known++;
        census.stale += ext_is_stale(node->fresh_ns, node->interval_ns, now_ns, stale_after_ns);
        census.unpriced += !node->has_curve;
    }
    kw_snapshot_release(service->snapshot, slot);
    return census;
}

static void on_metrics(void *user, const struct kw_http_request *request,
                       struct kw_http_response *response)
{
    struct ext_service *service = user;
    int64_t now_ns = (int64_t)kw_now_ns();
    struct ext_census census = take_census(service, now_ns);
    enum kw_metrics_format format = kw_metrics_negotiate(request->accept);

    response->content_type = kw_metrics_content_type(format);
    if (ext_stats_page(&service->stats, &census, now_ns, format, response->body) < 0)
        response->status = 503;
}

static void on_health(void *user, const struct kw_http_request *request,
                      struct kw_http_response *response)
{
    (void)user;
    (void)request;
    (void)kw_buf_adds(response->body, "ok\n");
}

/** Ready as soon as it answers: without Redis the answers are neutral, and neutral is better than
 * none. */
static void on_ready(void *user, const struct kw_http_request *request,
                     struct kw_http_response *response)
{
    struct ext_service *service = user;
    struct ext_census census = take_census(service, (int64_t)kw_now_ns());

    (void)request;
    (void)kw_buf_addf(response->body,
                      "ok\nredis: %s\nnodes: %llu known, %llu stale, %llu unpriced\n",
                      service->stats.redis_up ? "up" : "down", (unsigned long long)census.known,
                      (unsigned long long)census.stale, (unsigned long long)census.unpriced);
}

/** ?pod=NAMESPACE/NAME or ?pod=NAME, &as=text. */
static void on_explain(void *user, const struct kw_http_request *request,
                       struct kw_http_response *response)
{
    struct ext_service *service = user;
    const char *as = kw_http_request_query(request, "as");
    bool text = as != NULL && strcmp(as, "text") == 0;
    const struct ext_dry_run dry_run = {.pods = service->stats.dry_compared,
                                        .saved_mw = service->stats.dry_saved_mw};
    int n = ext_decisions_page(service->decisions, kw_http_request_query(request, "pod"),
                               text ? EXT_FORM_TEXT : EXT_FORM_JSON,
                               policy_of(service).dry_run ? &dry_run : NULL, response->body);

    if (n < 0) {
        response->status = 503;
        return;
    }
    if (!text)
        response->content_type = "application/json";
    else if (n == 0)
        response->status = 404;
}

size_t ext_service_routes(struct ext_service *service, struct kw_http_route routes[EXT_ROUTES_MAX])
{
    const struct kw_http_route all[] = {
        {"GET", "/healthz", on_health, service},  {"GET", "/readyz", on_ready, service},
        {"GET", "/metrics", on_metrics, service}, {"GET", "/explain", on_explain, service},
        {"POST", "/*", on_post, service},         {"GET", "/*", on_other_get, service},
    };

    _Static_assert(sizeof(all) / sizeof(*all) <= EXT_ROUTES_MAX, "the table has room");
    memcpy(routes, all, sizeof(all));
    return sizeof(all) / sizeof(*all);
}
