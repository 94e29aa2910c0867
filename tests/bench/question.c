/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/question.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "tests/bench/fleet.h"

/** As many as a kubelet reports. */
#define IMAGES 50

static void add_pod(struct kw_buf *out, unsigned mcpu)
{
    (void)kw_buf_addf(out,
                      "{\"metadata\":{\"name\":\"web-5d8\",\"namespace\":\"shop\","
                      "\"annotations\":{\"kwatt.io/placement\":\"efficient\"}},\"spec\":{"
                      "\"containers\":[{\"name\":\"c\",\"resources\":{\"requests\":{\"cpu\":"
                      "\"%um\",\"memory\":\"1Gi\"}},\"env\":[",
                      mcpu);
    for (unsigned i = 0; i < 40; i++)
        (void)kw_buf_addf(
            out, "%s{\"name\":\"SETTING_%u\",\"value\":\"a value of some \\\"length\\\"\"}",
            i > 0 ? "," : "", i);
    (void)kw_buf_adds(out, "]}]},\"status\":{\"phase\":\"Pending\"}}");
}

/** Most of a real Node's bytes are names of images. */
static void add_node(struct kw_buf *out, const char *name)
{
    (void)kw_buf_addf(
        out,
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"2f0f6f5e-0000-4000-8000-000000000000\","
        "\"labels\":{\"kubernetes.io/hostname\":\"%s\",\"kubernetes.io/arch\":\"amd64\"}},"
        "\"spec\":{},\"status\":{\"allocatable\":{\"cpu\":\"128\",\"memory\":\"512Gi\"},"
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],\"images\":[",
        name, name);
    for (unsigned i = 0; i < IMAGES; i++)
        (void)kw_buf_addf(out,
                          "%s{\"names\":[\"registry.example.org/some-team-%u/service-%u@sha256:"
                          "%064x\",\"registry.example.org/some-team-%u/service-%u:v1.2.3-%016x\"],"
                          "\"sizeBytes\":%u}",
                          i > 0 ? "," : "", i, i, i, i, i, i, 100000000 + i);
    (void)kw_buf_adds(out, "]}}");
}

/** The order of n nodes at a turn. */
static void arrange(unsigned *order, const struct question_nodes *nodes, unsigned turn)
{
    unsigned n = nodes->n;
    uint64_t seed = 1 + turn;

    for (unsigned i = 0; i < n; i++)
        order[i] = nodes->order == QUESTION_ROTATED ? (i + turn * (n / QUESTION_TURNS)) % n : i;
    for (unsigned left = n; nodes->order == QUESTION_SHUFFLED && left > 1; left--) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407; /* Knuth's MMIX */
        unsigned other = (unsigned)((seed >> 33) % left);
        unsigned kept = order[left - 1];
        order[left - 1] = order[other];
        order[other] = kept;
    }
}

int question_add(struct kw_buf *out, const char *path, const struct question_nodes *nodes,
                 unsigned turn)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    kw_cleanup_free unsigned *order = calloc(nodes->n + 1, sizeof(*order));
    char name[FLEET_NAME_MAX];
    bool whole = nodes->whole;

    if (order == NULL)
        return -ENOMEM;
    arrange(order, nodes, turn);

    (void)kw_buf_adds(&body, "{\"Pod\":");
    add_pod(&body, nodes->other_pods ? 1500 + 10 * turn : 1500);
    (void)kw_buf_adds(&body, whole ? ",\"Nodes\":{\"metadata\":{},\"items\":["
                                   : ",\"Nodes\":null,\"NodeNames\":[");
    for (unsigned i = 0; i < nodes->n; i++) {
        fleet_node_name(name, order[i] * (nodes->of / nodes->n));
        (void)kw_buf_adds(&body, i > 0 ? "," : "");
        if (whole)
            add_node(&body, name);
        else
            (void)kw_buf_addf(&body, "\"%s\"", name);
    }
    (void)kw_buf_adds(&body, whole ? "]},\"NodeNames\":null}" : "]}");
    (void)kw_buf_addf(
        out,
        "POST /%s HTTP/1.1\r\nHost: 127.0.0.1:9890\r\nUser-Agent: Go-http-client/1.1\r\n"
        "Content-Length: %zu\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n\r\n",
        path, body.len);
    return body.failed || kw_buf_add(out, body.data, body.len) < 0 ? -ENOMEM : 0;
}
