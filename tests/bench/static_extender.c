/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference of scheduler_bench.py: an extender that decodes nothing, from the HTTP library that
 * kwatt's extender uses. What a scheduler loses by asking this one is the price of asking at all.
 *
 * A scheduler that looks at a part of the nodes asks for other ones each time. /filter is answered
 * with the lists of the request as they are, since an answer with a node that was not named is
 * refused. Pod, Nodes and NodeNames come in this order (Go encodes fields as they are declared), so
 * all behind the mark of Nodes is the answer. /prioritize gives each name of the request a
 * constant: a score of a node that was not asked for is dropped by the scheduler, which is less
 * work than to keep it, so that an answer with other names would be no equal one. Whole nodes are
 * answered with the first of the fleet.
 *
 *   static_extender HOST:PORT NODES       /prioritize of whole nodes scores the first NODES of
 *                                         fleet.h; port 0: a free one, which it prints; runs until
 *                                         it is ended
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/http_server.h"
#include "common/num.h"
#include "tests/bench/fleet.h"

/** No text of a Pod holds it: quotes in texts are escaped. */
static const char mark[] = ",\"Nodes\":";

static void filter(void *user, const struct kw_http_request *request,
                   struct kw_http_response *response)
{
    static const char head[] = "{\"Nodes\":";
    static const char tail[] = ",\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},"
                               "\"Error\":\"\"}";
    struct kw_buf *out = response->body;
    const char *found = memmem(request->body, request->body_len, mark, sizeof(mark) - 1);

    (void)user;
    if (found == NULL || request->body[request->body_len - 1] != '}') {
        response->status = 400;
        return;
    }
    const char *lists = found + sizeof(mark) - 1;
    size_t len = (size_t)(request->body + request->body_len - 1 - lists);
    (void)kw_buf_reserve(out, sizeof(head) + len + sizeof(tail));
    (void)kw_buf_add(out, head, sizeof(head) - 1);
    (void)kw_buf_add(out, lists, len);
    (void)kw_buf_add(out, tail, sizeof(tail) - 1);
    response->content_type = "application/json";
}

/** The names of the request, without escapes, up to the end of their list. */
static void score_names(const char *at, const char *end, struct kw_buf *out)
{
    static const char head[] = "{\"Host\":";
    static const char tail[] = ",\"Score\": 5}";

    (void)kw_buf_adds(out, "[");
    while (at < end && *at == '"') {
        const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));
        if (quote == NULL)
            break;
        (void)kw_buf_add(out, head, sizeof(head) - 1);
        (void)kw_buf_add(out, at, (size_t)(quote + 1 - at));
        (void)kw_buf_add(out, tail, sizeof(tail) - 1);
        at = quote + 1;
        if (at < end && *at == ',') {
            (void)kw_buf_adds(out, ",");
            at++;
        }
    }
    (void)kw_buf_adds(out, "]");
}

static void prioritize(void *user, const struct kw_http_request *request,
                       struct kw_http_response *response)
{
    static const char names[] = "\"NodeNames\":[";
    const struct kw_buf *scores = user;
    const char *end = request->body + request->body_len;
    const char *found = memmem(request->body, request->body_len, names, sizeof(names) - 1);

    response->content_type = "application/json";
    if (found != NULL) {
        score_names(found + sizeof(names) - 1, end, response->body);
        return;
    }
    response->static_body = scores->data;
    response->static_len = scores->len;
}

static int make_scores(struct kw_buf *scores, unsigned nodes)
{
    (void)kw_buf_adds(scores, "[");
    for (unsigned i = 0; i < nodes; i++) {
        char name[FLEET_NAME_MAX];
        fleet_node_name(name, i);
        (void)kw_buf_addf(scores, "%s{\"Host\":\"%s\",\"Score\": 5}", i == 0 ? "" : ",", name);
    }
    (void)kw_buf_adds(scores, "]");
    return scores->failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct kw_buf scores = {0};
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};
    uint64_t nodes = 0;

    if (argc != 3 || kw_parse_u64(argv[2], 1, 100000, &nodes) < 0) {
        (void)fprintf(stderr, "usage: static_extender HOST:PORT NODES\n");
        return 2;
    }
    if (make_scores(&scores, (unsigned)nodes) < 0)
        return 1;
    const struct kw_http_route routes[] = {
        {"POST", "/filter", filter, NULL},
        {"POST", "/prioritize", prioritize, &scores},
    };
    struct kw_http_server_conf conf = {
        .listen = argv[1],
        .threads = 2,
        .max_body_bytes = (size_t)128 << 20,
        .max_header_bytes = 16384,
        .timeout_s = 120,
        .max_connections = 64,
        .routes = routes,
        .n_routes = 2,
    };
    if (kw_http_server_start(&conf, &server, &err) < 0) {
        (void)fprintf(stderr, "static_extender: %s\n", err.text);
        return 1;
    }
    printf("%u\n", kw_http_server_port(server));
    (void)fflush(stdout);
    for (;;)
        (void)pause();
}
