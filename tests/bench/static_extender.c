/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference of scheduler_bench.py: an extender that reads nothing and answers a constant, from
 * the HTTP library that kwatt's extender uses. What a scheduler loses by asking this one is the
 * price of asking at all.
 *
 *   static_extender HOST:PORT NODES       nodes are named node-00000, node-00001, ...; runs until
 *                                         it is ended
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/http_server.h"
#include "common/num.h"

struct answers {
    struct kw_buf filter, prioritize;
};

static void answer(const struct kw_buf *text, struct kw_http_response *response)
{
    response->content_type = "application/json";
    response->static_body = text->data;
    response->static_len = text->len;
}

static void filter(void *user, const struct kw_http_request *request,
                   struct kw_http_response *response)
{
    const struct answers *answers = user;

    (void)request;
    answer(&answers->filter, response);
}

static void prioritize(void *user, const struct kw_http_request *request,
                       struct kw_http_response *response)
{
    const struct answers *answers = user;

    (void)request;
    answer(&answers->prioritize, response);
}

static void make_answers(struct answers *answers, uint64_t nodes)
{
    (void)kw_buf_adds(&answers->filter, "{\"Nodes\":null,\"NodeNames\":[");
    (void)kw_buf_adds(&answers->prioritize, "[");
    for (uint64_t i = 0; i < nodes; i++) {
        const char *comma = i == 0 ? "" : ",";
        (void)kw_buf_addf(&answers->filter, "%s\"node-%05lu\"", comma, i);
        (void)kw_buf_addf(&answers->prioritize, "%s{\"Host\":\"node-%05lu\",\"Score\":5}", comma,
                          i);
    }
    (void)kw_buf_adds(&answers->filter,
                      "],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");
    (void)kw_buf_adds(&answers->prioritize, "]");
}

int main(int argc, char **argv)
{
    struct answers answers = {0};
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};
    uint64_t nodes = 0;

    if (argc != 3 || kw_parse_u64(argv[2], 1, 100000, &nodes) < 0) {
        (void)fprintf(stderr, "usage: static_extender HOST:PORT NODES\n");
        return 2;
    }
    make_answers(&answers, nodes);
    if (answers.filter.failed || answers.prioritize.failed)
        return 1;
    const struct kw_http_route routes[] = {
        {"POST", "/filter", filter, &answers},
        {"POST", "/prioritize", prioritize, &answers},
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
    for (;;)
        (void)pause();
}
