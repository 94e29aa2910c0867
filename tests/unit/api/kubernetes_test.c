/* SPDX-License-Identifier: Apache-2.0 */
/* Pods, controllers and VPAs as an API server sends them, and as nobody should. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/owner.h"
#include "api/pod.h"
#include "api/vpa.h"
#include "tests/support/cmocka.h"

static const char pod_json[] =
    "{\"metadata\":{\"name\":\"web-1\",\"namespace\":\"shop\",\"uid\":\"u1\",\"labels\":{\"b\":"
    "\"2\",\"a\":\"1\"},"
    "\"ownerReferences\":[{\"kind\":\"Other\",\"name\":\"o\"},{\"apiVersion\":\"apps/"
    "v1\",\"controller\":true,"
    "\"kind\":\"ReplicaSet\",\"name\":\"web-abc\",\"uid\":\"u2\"}]},\"spec\":{\"nodeName\":\"n1\","
    "\"initContainers\":"
    "[{\"name\":\"setup\"},{\"name\":\"proxy\",\"restartPolicy\":\"Always\"}],\"containers\":[{"
    "\"name\":\"web\","
    "\"resources\":{\"requests\":{\"cpu\":\"250m\",\"memory\":\"64Mi\"}}},{\"name\":\"side\","
    "\"resources\":"
    "{\"requests\":{\"cpu\":\"lots\"}}}]},\"status\":{\"phase\":\"Running\",\"startTime\":\"2026-"
    "11-29T19:53:37Z\","
    "\"containerStatuses\":[{\"name\":\"web\","
    "\"containerID\":\"containerd://"
    "abc\",\"restartCount\":2,\"resources\":{\"requests\":{\"cpu\":\"300m\"}},"
    "\"lastState\":{\"terminated\":{\"reason\":\"OOMKilled\",\"finishedAt\":\"2026-11-29T19:53:"
    "37Z\","
    "\"containerID\":\"containerd://old\"}}},{\"name\":\"unknown\",\"containerID\":\"x://y\"}]}}";

static void test_pod(void **state)
{
    struct kw_pod pod;
    const char *why = NULL;

    (void)state;
    assert_int_equal(kw_pod_decode(pod_json, strlen(pod_json), &pod, &why), 0);
    assert_string_equal(pod.name, "web-1");
    assert_string_equal(pod.node, "n1");
    assert_int_equal(pod.phase, KW_POD_RUNNING);
    assert_true(pod.started_unix_ms == INT64_C(1795982017000));
    assert_true(pod.has_owner);
    assert_string_equal(pod.owner.kind, "ReplicaSet");
    assert_string_equal(pod.owner.uid, "u2");
    assert_string_equal(kw_labels_get(&pod.labels, "a"), "1");
    assert_string_equal(kw_labels_get(&pod.labels, "b"), "2");
    assert_int_equal(pod.n_containers, 4);
    assert_true(pod.containers[0].init && !pod.containers[0].sidecar);
    assert_true(pod.containers[1].init && pod.containers[1].sidecar);
    const struct kw_pod_container *web = &pod.containers[2], *side = &pod.containers[3];
    assert_string_equal(web->id, "abc");
    assert_string_equal(web->former_id, "old");
    assert_int_equal(web->restarts, 2);
    assert_int_equal(web->request_mcpu, 300); /* what it has now, not what the spec asks for */
    assert_int_equal(web->request_bytes, 64 << 20);
    assert_true(web->oom_killed);
    assert_true(web->oom_killed_unix_ms == INT64_C(1795982017000));
    assert_string_equal(side->id, "");
    assert_int_equal(side->request_mcpu, 0);
    assert_string_equal(pod.static_uid, "");
    assert_int_equal(pod.n_ephemeral, 0);
    kw_pod_clear(&pod);
}

/** A NUL in what is not looked at (anybody may annotate a pod with one) is nobody's affair; in what
 * is, the text would be cut. */
static void test_pods_with_nuls(void **state)
{
    static const char good[] =
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\",\"annotations\":{\"a\":"
        "\"x\\"
        "u0000y\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"env\":[{\"name\":\"E\",\"value\":\""
        "\\u0000\"}]}]},\"status\":{}}";
    static const char *const bad[] = {
        "{\"metadata\":{\"name\":\"p\\u0000q\",\"namespace\":\"n\",\"uid\":\"u\"}}",
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\\u0000\"}}",
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\",\"labels\":{\"l\":"
        "\"v\\u0000w\"}}}",
    };
    struct kw_pod pod;
    const char *why = NULL;

    (void)state;
    assert_int_equal(kw_pod_decode(good, strlen(good), &pod, &why), 0);
    assert_string_equal(pod.name, "p");
    assert_int_equal(pod.n_containers, 1);
    kw_pod_clear(&pod);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(kw_pod_decode(bad[i], strlen(bad[i]), &pod, &why), -EBADMSG);
}

static void test_bad_pods(void **state)
{
    static const char *const rows[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"metadata\":{},\"spec\":{}}",
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"},\"spec\":{\"containers\":[]}}",
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"c\"},\"spec\":{\"containers\":"
        "{}}}",
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"c\"},\"spec\":{\"containers\":"
        "[7]}}",
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"c\",\"labels\":{\"x\":1}},"
        "\"spec\":{\"containers\":[]}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kw_pod pod = {.name = (char *)"untouched"};
        const char *why = NULL;
        assert_int_equal(kw_pod_decode(rows[i], strlen(rows[i]), &pod, &why), -EBADMSG);
        assert_non_null(why);
        assert_string_equal(pod.name, "untouched");
    }
}

static void test_owner_paths(void **state)
{
    static const struct {
        enum kw_owner_kind kind;
        const char *name, *path;
    } rows[] = {
        {KW_OWNER_DEPLOYMENT, "web", "/apis/apps/v1/namespaces/shop/deployments/web"},
        {KW_OWNER_REPLICATION_CONTROLLER, "web",
         "/api/v1/namespaces/shop/replicationcontrollers/web"},
        {KW_OWNER_CRON_JOB, "web.1", "/apis/batch/v1/namespaces/shop/cronjobs/web.1"},
        {KW_OWNER_OTHER, "web", NULL},
        {KW_OWNER_JOB, "", NULL},
        {KW_OWNER_JOB, "..", NULL},
        {KW_OWNER_JOB, "../../secrets/x", NULL},
        {KW_OWNER_JOB, "a?b", NULL},
        {KW_OWNER_JOB, "a b", NULL},
        {KW_OWNER_JOB, "a\r\nx", NULL},
    };
    char path[KW_KUBE_PATH_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int rc = kw_owner_path(path, rows[i].kind, "shop", rows[i].name);
        assert_int_equal(rc, rows[i].path == NULL ? -EINVAL : 0);
        if (rows[i].path != NULL)
            assert_string_equal(path, rows[i].path);
    }
    assert_int_equal(kw_discovery_path(path, "example.com/v1"), 0);
    assert_string_equal(path, "/apis/example.com/v1");
    assert_int_equal(kw_discovery_path(path, "v1"), 0);
    assert_string_equal(path, "/api/v1");
    assert_int_equal(kw_discovery_path(path, ""), -EINVAL);
    assert_int_equal(kw_discovery_path(path, "a/b/c"), -EINVAL);
    assert_int_equal(kw_resource_path(path, "example.com/v1", "ns", "widgets", "w", true), 0);
    assert_string_equal(path, "/apis/example.com/v1/namespaces/ns/widgets/w/scale");
    for (enum kw_owner_kind i = 0; i < KW_OWNER_OTHER; i++)
        assert_int_equal(kw_owner_kind_of(kw_owner_kind_names[i]), i);
    assert_int_equal(kw_owner_kind_of("deployment"), KW_OWNER_OTHER);
}

static void test_owner_selectors(void **state)
{
    static const struct {
        enum kw_owner_kind kind;
        const char *spec;
        int rc;
        bool match;
    } rows[] = {
        {KW_OWNER_DEPLOYMENT, "{\"selector\":{\"matchLabels\":{\"a\":\"1\"}}}", 0, true},
        {KW_OWNER_DEPLOYMENT, "{\"selector\":{\"matchLabels\":{\"a\":\"2\"}}}", 0, false},
        {KW_OWNER_DEPLOYMENT,
         "{\"selector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":["
         "\"1\"]},"
         "{\"key\":\"b\",\"operator\":\"Exists\"},{\"key\":\"c\",\"operator\":\"DoesNotExist\"},"
         "{\"key\":\"b\",\"operator\":\"NotIn\",\"values\":[\"9\"]}]}}",
         0, true},
        {KW_OWNER_DEPLOYMENT, "{\"selector\":{}}", 0, false},
        {KW_OWNER_DEPLOYMENT, "{}", 0, false},
        {KW_OWNER_REPLICATION_CONTROLLER, "{\"selector\":{\"a\":\"1\",\"b\":\"2\"}}", 0, true},
        {KW_OWNER_CRON_JOB,
         "{\"jobTemplate\":{\"spec\":{\"template\":{\"metadata\":{\"labels\":{\"a\":\"1\"}}}}}}", 0,
         true},
        {KW_OWNER_CRON_JOB, "{\"jobTemplate\":7}", 0, false},
        {KW_OWNER_DEPLOYMENT, "{\"selector\":{\"matchLabels\":{\"a\":1}}}", -EBADMSG, false},
        {KW_OWNER_DEPLOYMENT,
         "{\"selector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Like\"}]}}", -EBADMSG,
         false},
        {KW_OWNER_DEPLOYMENT, "7", -EBADMSG, false},
        {KW_OWNER_OTHER, "7", 0, false},
    };
    struct kw_label_pair pairs[] = {{(char *)"a", (char *)"1"}, {(char *)"b", (char *)"2"}};
    struct kw_labels labels = {.n = 2, .items = pairs};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kw_owner owner = {0};
        char text[1024];
        (void)snprintf(text, sizeof(text), "{\"metadata\":{\"uid\":\"u\"},\"spec\":%s}",
                       rows[i].spec);
        assert_int_equal(kw_owner_decode(rows[i].kind, text, strlen(text), &owner, NULL),
                         rows[i].rc);
        assert_int_equal(kw_selector_match(&owner.selector, &labels), rows[i].match);
        assert_false(owner.has_owner);
        kw_owner_clear(&owner);
    }
}

static void test_scale_and_discovery(void **state)
{
    static const char list[] =
        "{\"resources\":[{\"name\":\"widgets/status\",\"kind\":\"Widget\",\"namespaced\":true},"
        "{\"name\":\"widgets\",\"kind\":\"Widget\",\"namespaced\":true},"
        "{\"name\":\"widgets/scale\",\"kind\":\"Scale\",\"namespaced\":true},"
        "{\"name\":\"globes\",\"kind\":\"Globe\",\"namespaced\":false},"
        "{\"name\":\"plains\",\"kind\":\"Plain\",\"namespaced\":true},7]}";
    struct kw_selector selector = {0};
    char *plural = NULL;
    bool scale = false;

    (void)state;
    assert_int_equal(kw_discovery_find(list, strlen(list), "Widget", &plural, &scale, NULL), 0);
    assert_string_equal(plural, "widgets");
    assert_true(scale);
    free(plural);
    assert_int_equal(kw_discovery_find(list, strlen(list), "Plain", &plural, &scale, NULL), 0);
    assert_false(scale);
    free(plural);
    assert_int_equal(kw_discovery_find(list, strlen(list), "Globe", &plural, &scale, NULL),
                     -ENOENT);
    assert_int_equal(kw_discovery_find("{}", 2, "Globe", &plural, &scale, NULL), -EBADMSG);

    static const char good[] = "{\"status\":{\"selector\":\"app=x\"}}";
    static const char empty[] = "{\"status\":{\"selector\":\"\"}}";
    static const char bad[] = "{\"status\":{\"selector\":\"app in (\"}}";
    assert_int_equal(kw_scale_decode(good, strlen(good), &selector, NULL), 0);
    assert_int_equal(selector.n, 1);
    kw_selector_clear(&selector);
    const char *why = NULL;
    assert_int_equal(kw_scale_decode(empty, strlen(empty), &selector, &why), -EBADMSG);
    assert_string_equal(why, "status.selector is empty");
    assert_int_equal(kw_scale_decode(bad, strlen(bad), &selector, &why), -EBADMSG);
}

static const char vpa_json[] =
    "{\"metadata\":{\"name\":\"v\",\"namespace\":\"n\",\"uid\":\"u\",\"generation\":7},\"spec\":{"
    "\"targetRef\":"
    "{\"apiVersion\":\"apps/"
    "v1\",\"kind\":\"Deployment\",\"name\":\"d\"},\"recommenders\":[{\"name\":\"kwatt\"}],"
    "\"updatePolicy\":{\"updateMode\":\"InPlaceOrRecreate\"},\"resourcePolicy\":{"
    "\"containerPolicies\":["
    "{\"containerName\":\"*\",\"mode\":\"Off\"},{\"containerName\":\"web\",\"controlledResources\":"
    "[\"memory\"],"
    "\"minAllowed\":{\"cpu\":1,\"memory\":\"1Gi\"},\"maxAllowed\":{\"cpu\":\"-3\"}}]}},\"status\":"
    "{\"observedGeneration\":6,\"conditions\":[{\"type\":\"A\",\"status\":\"True\","
    "\"lastTransitionTime\":"
    "\"2026-11-29T19:53:37Z\",\"reason\":\"r\",\"message\":\"m\"}],\"recommendation\":{"
    "\"containerRecommendations\":"
    "[{\"containerName\":\"web\",\"target\":{\"cpu\":\"247m\",\"memory\":\"250Mi\"},\"lowerBound\":"
    "{\"cpu\":\"25m\"},"
    "\"upperBound\":{\"cpu\":\"474487m\",\"memory\":\"22091500000\"},\"uncappedTarget\":{\"cpu\":"
    "\"0.247\"}}]}}}";

static void test_vpa(void **state)
{
    struct kw_vpa vpa;
    const char *why = NULL;

    (void)state;
    assert_int_equal(kw_vpa_decode(vpa_json, strlen(vpa_json), &vpa, &why), 0);
    assert_int_equal(vpa.generation, 7);
    assert_int_equal(vpa.mode, KW_VPA_MODE_IN_PLACE_OR_RECREATE);
    assert_true(kw_vpa_names(&vpa, "kwatt"));
    assert_false(kw_vpa_names(&vpa, "default"));
    assert_true(kw_vpa_policy_for(&vpa, "anything")->off);
    const struct kw_vpa_policy *web = kw_vpa_policy_for(&vpa, "web");
    assert_false(web->off || web->controls_cpu);
    assert_true(web->controls_memory);
    assert_int_equal(web->min.mcpu, 1000);
    assert_int_equal(web->min.bytes, 1 << 30);
    assert_false(web->max.has_mcpu); /* negative: absent */
    assert_int_equal(vpa.status.observed_generation, 6);
    assert_int_equal(vpa.status.containers[0].uncapped.mcpu, 247);
    assert_true(vpa.status.containers[0].upper.bytes == UINT64_C(22091500000));
    assert_string_equal(kw_vpa_condition(&vpa.status, "A")->message, "m");
    assert_null(kw_vpa_condition(&vpa.status, "B"));

    struct kw_vpa_status copy;
    assert_int_equal(kw_vpa_status_copy(&vpa.status, &copy), 0);
    assert_true(kw_vpa_status_equal(&vpa.status, &copy));
    copy.conditions[0].since[0] = '3'; /* times do not count */
    assert_true(kw_vpa_status_equal(&vpa.status, &copy));
    copy.containers[0].lower.mcpu++;
    assert_false(kw_vpa_status_equal(&vpa.status, &copy));
    kw_vpa_status_clear(&copy);
    kw_vpa_clear(&vpa);
}

/* What is written reads back as the same value. */
static void test_patch(void **state)
{
    struct kw_vpa vpa, again;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(kw_vpa_decode(vpa_json, strlen(vpa_json), &vpa, NULL), 0);
    assert_int_equal(kw_vpa_status_patch(&vpa.status, NULL, &text, &len), 0);
    json_t *patch = json_loadb(text, len, 0, NULL);
    assert_int_equal(json_array_size(patch), 1);
    const json_t *operation = json_array_get(patch, 0);
    assert_string_equal(json_string_value(json_object_get(operation, "op")), "add");
    assert_string_equal(json_string_value(json_object_get(operation, "path")), "/status");
    json_t *whole = json_loads(vpa_json, 0, NULL);
    assert_int_equal(json_object_set(whole, "status", json_object_get(operation, "value")), 0);
    char *dumped = json_dumps(whole, 0);
    assert_int_equal(kw_vpa_decode(dumped, strlen(dumped), &again, NULL), 0);
    assert_true(kw_vpa_status_equal(&vpa.status, &again.status));
    kw_vpa_clear(&again);
    free(dumped);
    free(text);
    json_decref(whole);
    json_decref(patch);

    /* nothing known: no recommendation at all, not an empty list */
    struct kw_vpa_status empty = {0};
    assert_int_equal(kw_vpa_status_patch(&empty, "", &text, &len), 0);
    assert_string_equal(text,
                        "[{\"op\":\"add\",\"path\":\"/status\",\"value\":{\"conditions\":[]}}]");
    free(text);
    assert_int_equal(kw_vpa_status_patch(&empty, "42", &text, &len), 0);
    assert_string_equal(text,
                        "[{\"op\":\"add\",\"path\":\"/metadata/resourceVersion\",\"value\":\"42\"},"
                        "{\"op\":\"add\",\"path\":\"/status\",\"value\":{\"conditions\":[]}}]");
    free(text);
    kw_vpa_clear(&vpa);
}

static void test_bad_vpas(void **state)
{
    static const struct {
        const char *json;
        int rc;
    } rows[] = {
        {"{}", -EBADMSG},
        {"{\"metadata\":{\"name\":\"v\",\"namespace\":\"n\"},\"spec\":{}}", -EBADMSG},
        {"{\"metadata\":{\"name\":\"v\",\"namespace\":\"n\"},\"spec\":{\"targetRef\":{\"name\":"
         "\"x\"}}}",
         -EBADMSG},
        {"{\"metadata\":{\"name\":\"v\",\"namespace\":\"n\"},\"spec\":{\"targetRef\":{\"kind\":"
         "\"K\","
         "\"name\":\"x\"},\"recommenders\":[{}]}}",
         -EBADMSG},
        /* a status that cannot be read is no obstacle: it is written anew */
        {"{\"metadata\":{\"name\":\"v\",\"namespace\":\"n\"},\"spec\":{\"targetRef\":{\"kind\":"
         "\"K\","
         "\"name\":\"x\"}},\"status\":{\"conditions\":[{}]}}",
         0},
        {"{\"metadata\":{\"name\":\"v\",\"namespace\":\"n\"},\"spec\":{\"targetRef\":{\"kind\":"
         "\"K\","
         "\"name\":\"x\"}},\"status\":{\"conditions\":7,\"recommendation\":[]}}",
         0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kw_vpa vpa;
        const char *why = NULL;
        assert_int_equal(kw_vpa_decode(rows[i].json, strlen(rows[i].json), &vpa, &why), rows[i].rc);
        if (rows[i].rc == 0) {
            assert_int_equal(vpa.status.n_conditions, 0);
            assert_int_equal(vpa.mode, KW_VPA_MODE_RECREATE);
            kw_vpa_clear(&vpa);
        } else {
            assert_non_null(why);
        }
    }
    char path[64];
    assert_int_equal(kw_vpa_status_path(path, sizeof(path), "n", "v"), -EINVAL); /* does not fit */
    char room[KW_KUBE_PATH_MAX];
    assert_int_equal(kw_vpa_status_path(room, sizeof(room), "n", "a/b"), -EINVAL);
    assert_int_equal(kw_vpa_status_path(room, sizeof(room), "n", "v"), 0);
    assert_string_equal(room,
                        "/apis/autoscaling.k8s.io/v1/namespaces/n/verticalpodautoscalers/v/status");
}

/** Calls fn with each item of a recorded list; @return how many, -1 where there is no recording. */
static int each_item(const char *file, void (*fn)(const char *json, size_t len))
{
    const char *shared = getenv("KWATT_SHARED"), *source = getenv("KWATT_SOURCE_DIR");
    char path[4096];

    if (shared != NULL)
        (void)snprintf(path, sizeof(path), "%s/data/kubernetes/%s", shared, file);
    else
        (void)snprintf(path, sizeof(path), "%s/../shared/data/kubernetes/%s",
                       source == NULL ? "." : source, file);
    json_t *list = json_load_file(path, 0, NULL);
    if (list == NULL)
        return -1;
    const json_t *items = json_object_get(list, "items");
    size_t i, n = json_array_size(items);
    json_t *item;
    json_array_foreach (items, i, item) {
        char *text = json_dumps(item, 0);
        fn(text, strlen(text));
        free(text);
    }
    json_decref(list);
    return (int)n;
}

static void recorded_pod(const char *json, size_t len)
{
    struct kw_pod pod;
    assert_int_equal(kw_pod_decode(json, len, &pod, NULL), 0);
    assert_true(pod.n_containers > 0 && *pod.uid != '\0' && *pod.node != '\0');
    kw_pod_clear(&pod);
}

static void recorded_vpa(const char *json, size_t len)
{
    struct kw_vpa vpa;
    assert_int_equal(kw_vpa_decode(json, len, &vpa, NULL), 0);
    assert_int_equal(vpa.status.n_containers, 1);
    assert_int_equal(vpa.status.containers[0].upper.mcpu, 474487);
    assert_true(kw_vpa_policy_for(&vpa, "side")->off);
    kw_vpa_clear(&vpa);
}

static void recorded_replica_set(const char *json, size_t len)
{
    struct kw_owner owner;
    assert_int_equal(kw_owner_decode(KW_OWNER_REPLICA_SET, json, len, &owner, NULL), 0);
    assert_true(owner.has_owner && owner.selector.n > 0);
    kw_owner_clear(&owner);
}

static void test_recordings(void **state)
{
    (void)state;
    int pods = each_item("pods-list.json", recorded_pod);
    if (pods < 0) {
        (void)printf("SKIP: no recordings of Kubernetes beside the repository\n");
        skip();
    }
    assert_true(pods > 10);
    assert_true(each_item("vpa-list.json", recorded_vpa) > 0);
    assert_true(each_item("replicasets.json", recorded_replica_set) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pod),
        cmocka_unit_test(test_pods_with_nuls),
        cmocka_unit_test(test_bad_pods),
        cmocka_unit_test(test_owner_paths),
        cmocka_unit_test(test_owner_selectors),
        cmocka_unit_test(test_scale_and_discovery),
        cmocka_unit_test(test_vpa),
        cmocka_unit_test(test_patch),
        cmocka_unit_test(test_bad_vpas),
        cmocka_unit_test(test_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
