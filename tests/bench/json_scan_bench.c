/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throughput of kw_json_skip on what kube-scheduler sends for 5000 nodes with nodeCacheCapable off:
 * 72 MB of Node objects, managedFields and image lists included. Reference of the same run: jansson
 * on the same bytes. The best of a few passes counts, since the machine is shared.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/buf.h"
#include "common/json_scan.h"

#define NODES           5000
#define IMAGES_PER_NODE 50 /* what a kubelet reports by default (nodeStatusMaxImages) */
#define PASSES          5

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void add_managed_fields(struct kw_buf *out, const char *manager)
{
    static const char *const conditions[] = {"DiskPressure", "MemoryPressure", "PIDPressure",
                                             "Ready"};

    (void)kw_buf_addf(
        out,
        "{\"manager\":\"%s\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":"
        "\"2026-01-02T03:04:05Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:status\":"
        "{\"f:conditions\":{",
        manager);
    for (unsigned i = 0; i < 4; i++)
        (void)kw_buf_addf(
            out,
            "%s\"k:{\\\"type\\\":\\\"%s\\\"}\":{\"f:lastHeartbeatTime\":{},\"f:message\":"
            "{},\"f:reason\":{},\"f:status\":{}}",
            i == 0 ? "" : ",", conditions[i]);
    (void)kw_buf_adds(out, "}}}}");
}

static void add_node(struct kw_buf *out, unsigned n)
{
    static const char *const managers[] = {"kubelet",       "kube-controller-manager",
                                           "cloud-manager", "node-problem-detector",
                                           "calico-node",   "gpu-operator"};

    (void)kw_buf_addf(
        out,
        "{\"metadata\":{\"name\":\"worker-%05u.zone-%u.cluster.example.internal\",\"uid\":"
        "\"0f76def6-1a12-48f1-9a9a-%012u\",\"resourceVersion\":\"%u\",\"labels\":{"
        "\"kubernetes.io/arch\":\"amd64\",\"kubernetes.io/os\":\"linux\","
        "\"topology.kubernetes.io/zone\":\"zone-%u\"},\"managedFields\":[",
        n, n % 3, n, n * 7, n % 3);
    for (unsigned i = 0; i < sizeof(managers) / sizeof(managers[0]); i++) {
        (void)kw_buf_adds(out, i == 0 ? "" : ",");
        add_managed_fields(out, managers[i]);
    }
    (void)kw_buf_addf(
        out,
        "]},\"spec\":{\"podCIDR\":\"10.%u.%u.0/24\"},\"status\":{\"capacity\":{\"cpu\":\"64\","
        "\"memory\":\"263856472Ki\",\"pods\":\"110\"},\"allocatable\":{\"cpu\":\"63500m\","
        "\"memory\":\"259662168Ki\",\"pods\":\"110\"},\"daemonEndpoints\":{"
        "\"kubeletEndpoint\":{\"Port\":10250}},\"images\":[",
        n >> 8 & 255, n & 255);
    for (unsigned i = 0; i < IMAGES_PER_NODE; i++)
        (void)kw_buf_addf(out,
                          "%s{\"names\":[\"registry.example.internal/team-%u/service-%u@sha256:"
                          "%064x\",\"registry.example.internal/team-%u/service-%u:v1.%u\"],"
                          "\"sizeBytes\":%u}",
                          i == 0 ? "" : ",", i % 9, i, n * 1000 + i, i % 9, i, i,
                          10000000 + n * 97 + i);
    (void)kw_buf_adds(out, "]}}");
}

static bool skip_pass(const struct kw_buf *doc)
{
    struct kw_json json;
    struct kw_json_token token;

    kw_json_begin(&json, doc->data, doc->len);
    return kw_json_skip(&json, NULL) == KW_JSON_OBJECT &&
           kw_json_next(&json, &token) == KW_JSON_END;
}

static bool next_pass(const struct kw_buf *doc)
{
    struct kw_json json;
    struct kw_json_token token;
    enum kw_json_type type;

    kw_json_begin(&json, doc->data, doc->len);
    do
        type = kw_json_next(&json, &token);
    while (type != KW_JSON_END && type != KW_JSON_ERROR);
    return type == KW_JSON_END;
}

static bool jansson_pass(const struct kw_buf *doc)
{
    json_t *tree = json_loadb(doc->data, doc->len, 0, NULL);
    bool ok = tree != NULL;

    json_decref(tree);
    return ok;
}

/* Best throughput of some passes in MB/s; 0 where a pass refused the document. */
static double throughput(const struct kw_buf *doc, bool (*pass)(const struct kw_buf *), int passes)
{
    double best_s = 1e9;

    for (int i = 0; i < passes; i++) {
        double start_s = now_s();

        if (!pass(doc))
            return 0;
        double took_s = now_s() - start_s;

        if (took_s < best_s)
            best_s = took_s;
    }
    return (double)doc->len / best_s / 1e6;
}

static void print_figure(const char *name, double value, double reference, const char *bound)
{
    (void)printf("{\"name\":\"%s\",\"value\":%.1f,\"unit\":\"MB/s\",\"reference\":{\"name\":"
                 "\"jansson\",\"value\":%.1f},\"ratio\":%.2f,\"bound\":%s,\"bound_on\":\"value\","
                 "\"better\":\"higher\"}\n",
                 name, value, reference, value / reference, bound);
}

int main(void)
{
    struct kw_buf doc = {0};
    double jansson;

    (void)kw_buf_adds(&doc, "{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"items\":[");
    for (unsigned n = 0; n < NODES; n++) {
        if (n > 0)
            (void)kw_buf_adds(&doc, ",");
        add_node(&doc, n);
    }
    (void)kw_buf_adds(&doc, "]}");
    if (doc.failed) {
        (void)fprintf(stderr, "json_scan_bench: out of memory\n");
        return 1;
    }
    jansson = throughput(&doc, jansson_pass, 2);
    /* 500 MB/s: 70 MB in 140 ms, below the 225 ms that the scheduler takes to write them */
    print_figure("json_scan.skip_mb_s", throughput(&doc, skip_pass, PASSES), jansson, "500");
    print_figure("json_scan.next_mb_s", throughput(&doc, next_pass, PASSES), jansson, "null");
    (void)fprintf(stderr, "json_scan_bench: %.1f MB of Node objects\n", (double)doc.len / 1e6);
    kw_buf_free(&doc);
    return 0;
}
