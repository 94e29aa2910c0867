/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of a pod. Each case runs through the scanner and through the tree reader of api/:
 * they must agree. */
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "extender/pod.h"
#include "extender/protocol.h"
#include "tests/support/cmocka.h"

struct want {
    uint64_t request_mcpu, expected_mcpu, expected_mw;
    enum kw_placement placement;
    uint32_t bad;
    bool mirror;
    uint64_t life_ms;
    const char *ns, *name;
    const char *kind, *owner;
};

static void check_pod(const char *reader, const char *pod, const struct kw_extender_pod *got,
                      const struct want *want)
{
    bool same =
        got->request_mcpu == want->request_mcpu && got->expected_mcpu == want->expected_mcpu &&
        got->expected_mw == want->expected_mw && got->placement == want->placement &&
        got->expected_life_ms == want->life_ms && got->bad_values == want->bad &&
        got->mirror == want->mirror && strcmp(got->ns, want->ns != NULL ? want->ns : "") == 0 &&
        strcmp(got->name, want->name != NULL ? want->name : "") == 0 &&
        strcmp(got->owner.kind, want->kind != NULL ? want->kind : "") == 0 &&
        strcmp(got->owner.name, want->owner != NULL ? want->owner : "") == 0;

    if (!same)
        fail_msg(
            "%s: %s\nrequest %llu expected %llu mcpu %llu mW placement %d bad %u ns '%s' of %s %s",
            reader, pod, (unsigned long long)got->request_mcpu,
            (unsigned long long)got->expected_mcpu, (unsigned long long)got->expected_mw,
            (int)got->placement, got->bad_values, got->ns, got->owner.kind, got->owner.name);
}

static void check(const char *pod, struct want want)
{
    struct kw_buf body = {0};
    struct ext_args args = {0};
    struct kw_extender_args reference = {0};
    const char *why = NULL;

    (void)kw_buf_addf(&body, "{\"Pod\":%s,\"NodeNames\":[]}", pod);
    if (ext_args_scan(body.data, body.len, NULL, EXT_ARGS_NAMES, &args, &why) < 0)
        fail_msg("scanner: %s: %s", pod, why);
    if (kw_extender_args_decode(body.data, body.len, &reference, &why) < 0)
        fail_msg("tree: %s: %s", pod, why);
    check_pod("scanner", pod, &args.pod, &want);
    check_pod("tree", pod, &reference.pod, &want);
    kw_extender_args_clear(&reference);
    ext_args_free(&args);
    kw_buf_free(&body);
}

#define R(cpu) "{\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}}"
#define SIDE(cpu) \
    "{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}}"
#define SPEC(text) "{\"spec\":{" text "}}"
#define CPU(value) \
    "{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":" value "}}}]}}"
#define ANNOTATED(text) "{\"metadata\":{\"annotations\":{" text "}}}"

static void test_requests(void **state)
{
    (void)state;
    check("{}", (struct want){0});
    check("null", (struct want){0});
    check(SPEC("\"containers\":[" R("100m") "," R("1.5") "]"), (struct want){.request_mcpu = 1600});
    check(
        SPEC("\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"9\"},\"requests\":{\"memory\":"
             "\"1Gi\",\"cpu\":\"2\"}}},{\"resources\":{}},{}]"),
        (struct want){.request_mcpu = 2000});
    check(SPEC("\"containers\":[" R("1") "],\"overhead\":{\"memory\":\"1Mi\",\"cpu\":\"250m\"}"),
          (struct want){.request_mcpu = 1250});
    check(SPEC("\"containers\":null,\"initContainers\":null,\"overhead\":null"), (struct want){0});
}

/* Kubernetes' rule: what starts first runs while later init containers run, in the order of the
 * list. */
static void test_init_containers(void **state)
{
    (void)state;
    check(SPEC("\"initContainers\":[" R("3") "," R("2") "],\"containers\":[" R("1") "]"),
          (struct want){.request_mcpu = 3000});
    check(SPEC("\"initContainers\":[" R("500m") "],\"containers\":[" R("1") "]"),
          (struct want){.request_mcpu = 1000});
    check(SPEC("\"initContainers\":[" SIDE("500m") "],\"containers\":[" R("1") "]"),
          (struct want){.request_mcpu = 1500});
    check(SPEC("\"initContainers\":[" SIDE("1") "," R("2") "],\"containers\":[" R("1") "]"),
          (struct want){.request_mcpu = 3000});
    check(SPEC("\"initContainers\":[" R("2") "," SIDE("1") "],\"containers\":[" R("500m") "]"),
          (struct want){.request_mcpu = 2000});
    check(SPEC("\"initContainers\":[" SIDE("1") "," R("2") "," SIDE("1") "," R(
              "1500m") "],"
                       "\"containers\":[" R("1") "],\"overhead\":{\"cpu\":\"100m\"}"),
          (struct want){.request_mcpu = 3600});
    check(
        SPEC(
            "\"initContainers\":[{\"restartPolicy\":\"Never\",\"resources\":{\"requests\":{\"cpu\":"
            "\"2\"}}}],\"containers\":[" R("1") "]"),
        (struct want){.request_mcpu = 2000});
    /* resources of the pod as a whole stand in place of the sum; overhead is still added */
    check(SPEC("\"resources\":{\"requests\":{\"cpu\":\"4\"}},\"containers\":[" R(
              "1") "],"
                   "\"overhead\":{\"cpu\":\"100m\"}"),
          (struct want){.request_mcpu = 4100});
}

static void test_quantities(void **state)
{
    (void)state;
    check(CPU("\"1n\""), (struct want){.request_mcpu = 1});
    check(CPU("\"0\""), (struct want){0});
    check(CPU("\"1e3\""), (struct want){.request_mcpu = 1000000});
    check(CPU("\"\\u0031\""), (struct want){.request_mcpu = 1000});
    check(CPU("2"), (struct want){.request_mcpu = 2000});
    check(CPU("-0"), (struct want){0});
    check(CPU("null"), (struct want){0});
    check(CPU("1.5"), (struct want){.bad = 1});
    check(CPU("-1"), (struct want){.bad = 1});
    check(CPU("\"-1\""), (struct want){.bad = 1});
    check(CPU("\"\""), (struct want){.bad = 1});
    check(CPU("\"1 \""), (struct want){.bad = 1});
    check(CPU("\"1\\u0000\""), (struct want){.bad = 1});
    check(CPU("\"lots\""), (struct want){.bad = 1});
    check(CPU("[[1]]"), (struct want){.bad = 1});
    check(CPU("true"), (struct want){.bad = 1});
    check(CPU("\"1E\""), (struct want){.bad = 1});
    check(CPU("1000001"), (struct want){.bad = 1});
    check(CPU("\"1000000\""), (struct want){.request_mcpu = KW_POD_MCPU_MAX});
    check(SPEC("\"containers\":[" R("1000000") "," R("1000000") "]"),
          (struct want){.request_mcpu = KW_POD_MCPU_MAX});
    check(CPU("\"0000000000000000000000000000000000000000000000000000000000000001\""),
          (struct want){.bad = 1});
}

static void test_annotations(void **state)
{
    (void)state;
    check(ANNOTATED("\"kwatt.io/placement\":\"off\""),
          (struct want){.placement = KW_PLACEMENT_OFF});
    check(ANNOTATED("\"kwatt.io/placement\":\"performance\",\"kwatt.io/expected-cpu\":\"250m\","
                    "\"kwatt.io/expected-watts\":\"12.5\""),
          (struct want){
              .placement = KW_PLACEMENT_PERFORMANCE, .expected_mcpu = 250, .expected_mw = 12500});
    check(ANNOTATED("\"kwatt.io\\/placement\":\"o\\u0066f\""),
          (struct want){.placement = KW_PLACEMENT_OFF});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":\"1.5h\""), (struct want){.life_ms = 5400000});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":\"90\""), (struct want){.life_ms = 90000});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":null"), (struct want){0});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":\"soon\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":\"0s\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":\"-1m\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":\"99999d\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":\"5\\u0000m\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/expected-lifetime\":60"), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/placement\":\"fast\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/placement\":\"\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/placement\":{\"a\":[]}"), (struct want){.bad = 1});
    check(ANNOTATED("\"kwatt.io/placement\":null"), (struct want){0});
    check(ANNOTATED("\"kwatt.io/expected-cpu\":\"0\",\"kwatt.io/expected-watts\":\"-3\""),
          (struct want){.bad = 2});
    check(ANNOTATED("\"kwatt.io/expected-cpu\":7,\"kwatt.io/expected-watts\":\"hot\""),
          (struct want){.bad = 2});
    check(ANNOTATED("\"kwatt.io/expected-watts\":\"2M\""), (struct want){.bad = 1});
    check(ANNOTATED("\"kubernetes.io/config.mirror\":\"x\""), (struct want){.mirror = true});
    check("{\"metadata\":{\"namespace\":\"orchard\",\"labels\":{\"namespace\":\"no\"}}}",
          (struct want){.ns = "orchard"});
    check("{\"metadata\":{\"namespace\":7,\"name\":[]}}", (struct want){0});
    check("{\"metadata\":{\"name\":\"p\\u0065ar\",\"namespace\":\"orchard\"}}",
          (struct want){.ns = "orchard", .name = "pear"});
    check("{\"metadata\":{\"name\":\"a\",\"name\":\"b\"}}", (struct want){.name = "b"});
    check("{\"metadata\":{\"namespace\":\"a\\u0000b\"}}", (struct want){0});
    /* fields in any case, as Go takes them; what a map holds is no field */
    check("{\"METADATA\":{\"Namespace\":\"orchard\",\"NAME\":\"pear\",\"Annotations\":{"
          "\"kwatt.io/expected-cpu\":\"1\",\"Kwatt.io/Placement\":\"off\"}},"
          "\"Spec\":{\"CONTAINERS\":[{\"Resources\":{\"REQUESTS\":{\"cpu\":\"2\",\"CPU\":\"7\"}}}],"
          "\"initcontainers\":[{\"restartpolicy\":\"Always\",\"resources\":{\"Requests\":{\"cpu\":"
          "\"1\"}}}],\"OverHead\":{\"cpu\":\"100m\"}}}",
          (struct want){
              .ns = "orchard", .name = "pear", .request_mcpu = 3100, .expected_mcpu = 1000});
    check("{\"metadata\":{\"name\":\"a\",\"Name\":\"b\"}}", (struct want){.name = "b"});
}

#define OWNED(by, more) "{\"metadata\":{\"ownerReferences\":[" by "]" more "}}"
#define BY(kind, name) \
    "{\"apiVersion\":\"x/v1\",\"kind\":\"" kind "\",\"name\":\"" name "\",\"controller\":true}"
#define HASH(value) ",\"labels\":{\"a\":\"b\",\"pod-template-hash\":\"" value "\"}"
#define MADE        ",\"creationTimestamp\":\"2026-11-29T19:53:37Z\""

/* What api/top_owner.h says of a pod that was decoded whole: tests/unit/node-agent
 * pod_directory_test.c has the table. */
static void test_owners(void **state)
{
    (void)state;
    check(OWNED(BY("ReplicaSet", "press-7d4b"), HASH("7d4b")),
          (struct want){.kind = "Deployment", .owner = "press"});
    check("{\"Metadata\":{\"ownerreferences\":[{\"Kind\":\"ReplicaSet\",\"Name\":\"press-7d4b\","
          "\"Controller\":true}],\"Labels\":{\"pod-template-hash\":\"7d4b\"}}}",
          (struct want){.kind = "Deployment", .owner = "press"});
    check(OWNED(BY("ReplicaSet", "press-7d4b"), HASH("\\u0037d4b")),
          (struct want){.kind = "Deployment", .owner = "press"});
    check(OWNED(BY("ReplicaSet", "press-7d4b"), HASH("7d4c")),
          (struct want){.kind = "ReplicaSet", .owner = "press-7d4b"});
    check(OWNED(BY("ReplicaSet", "press-7d4b"), ",\"labels\":{\"pod-template-hash\":7}"),
          (struct want){.kind = "ReplicaSet", .owner = "press-7d4b"});
    check(OWNED(BY("ReplicaSet", "a-1"), ",\"labels\":{\"rollouts-pod-template-hash\":\"1\"}"),
          (struct want){.kind = "Rollout", .owner = "a"});
    check(OWNED(BY("Job", "backup-29933033"), MADE),
          (struct want){.kind = "CronJob", .owner = "backup"});
    check(OWNED(BY("Job", "backup-29933033"), ""),
          (struct want){.kind = "Job", .owner = "backup-29933033"});
    check(OWNED(BY("Job", "backup-29933033"), ",\"creationTimestamp\":null"),
          (struct want){.kind = "Job", .owner = "backup-29933033"});
    check(OWNED(BY("DaemonSet", "d"), ""), (struct want){.kind = "DaemonSet", .owner = "d"});
    check(OWNED(BY("StatefulSet", "s"), MADE), (struct want){.kind = "StatefulSet", .owner = "s"});
    check(OWNED("7,null,[],{}," BY("Widget", "w") "," BY("DaemonSet", "second"), ""),
          (struct want){.kind = "Widget", .owner = "w"});
    check(OWNED("{\"kind\":\"Widget\",\"name\":\"w\"}", ""), (struct want){0});
    check(OWNED("{\"kind\":\"Widget\",\"name\":\"w\",\"controller\":\"true\"}", ""),
          (struct want){0});
    check(OWNED(BY("Node", "barn-a"), ""), (struct want){0});
    check(OWNED(BY("Widget", "Not/A/Name"), ""), (struct want){0});
    check(OWNED(BY("Wid get", "w"), ""), (struct want){0});
    check(OWNED("{\"kind\":[],\"name\":{},\"controller\":true}", ""), (struct want){0});
    check("{\"metadata\":{\"ownerReferences\":{},\"labels\":[],\"creationTimestamp\":{}}}",
          (struct want){0});
    check(OWNED(BY("DaemonSet", "d"), ",\"ownerReferences\":[]"), (struct want){0});
}

/* Fields of Kubernetes' own that are of no expected type are passed over: the API server vouches
 * for them. */
static void test_other_types(void **state)
{
    (void)state;
    check("{\"metadata\":[{\"annotations\":{}}],\"spec\":\"x\"}", (struct want){0});
    check(SPEC("\"containers\":{\"resources\":1},\"initContainers\":7,\"overhead\":[1]"),
          (struct want){0});
    check(SPEC("\"containers\":[7,null,[{}],\"x\"," R("1") "]"),
          (struct want){.request_mcpu = 1000});
    check(SPEC("\"containers\":[{\"resources\":[],\"resources2\":{}}]"), (struct want){0});
    check("{\"metadata\":{\"annotations\":[\"kwatt.io/placement\",\"off\"]}}", (struct want){0});
    check("{\"spec\":{\"template\":{\"spec\":{\"containers\":[" R("5") "]}}}}", (struct want){0});
}

static void test_given_twice(void **state)
{
    (void)state;
    check(SPEC("\"containers\":[" R("1") "],\"containers\":[" R("x") "," R("2") "]"),
          (struct want){.request_mcpu = 2000, .bad = 1});
    check(SPEC("\"containers\":[" R("x") "],\"containers\":[]"), (struct want){0});
    check("{\"metadata\":{\"annotations\":{\"kwatt.io/placement\":\"off\"}},\"metadata\":{}}",
          (struct want){0});
    check("{\"spec\":{\"containers\":[" R("1") "]},\"spec\":null}", (struct want){0});
    check(CPU("\"1\",\"cpu\":\"2\""), (struct want){.request_mcpu = 2000});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),    cmocka_unit_test(test_init_containers),
        cmocka_unit_test(test_quantities),  cmocka_unit_test(test_annotations),
        cmocka_unit_test(test_other_types), cmocka_unit_test(test_given_twice),
        cmocka_unit_test(test_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
