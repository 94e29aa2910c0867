/* SPDX-License-Identifier: Apache-2.0 */
/* What a list says, what is kept of it, and how a list changes the directory. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/top_owner.h"
#include "common/cleanup.h"
#include "node-agent/ledger.h"
#include "node-agent/pod_directory.h"
#include "tests/support/cmocka.h"

static struct agent_pod_directory *directory;

static int setup(void **state)
{
    (void)state;
    return agent_pod_directory_new("team, app.kubernetes.io/name", &directory);
}

static int teardown(void **state)
{
    (void)state;
    agent_pod_directory_free(&directory);
    return 0;
}

/** @param format with '\'' for '"'. */
__attribute__((format(printf, 1, 2))) static int put(const char *format, ...)
{
    char json[4096];
    struct kw_pod pod;
    const char *why = NULL;
    va_list args;

    va_start(args, format);
    assert_true(vsnprintf(json, sizeof(json), format, args) < (int)sizeof(json));
    va_end(args);
    for (char *c = json; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    int rc = agent_pod_directory_decode(directory, json, strlen(json), &pod, &why);
    if (rc == -EBADMSG)
        assert_non_null(why);
    return rc < 0 ? rc : agent_pod_directory_put(directory, &pod);
}

#define PLAIN(uid, name)                                                  \
    "{'metadata':{'uid':'" uid "','name':'" name "','namespace':'shop'}," \
    "'spec':{'containers':[{'name':'main'}]}}"

static void test_what_is_kept(void **state)
{
    (void)state;
    assert_int_equal(
        put("{'metadata':{'uid':'u1','name':'web-7d4b9c8f6d-x2x4z','namespace':'shop',"
            "'creationTimestamp':'2026-11-29T19:53:37Z',"
            "'labels':{'team':'checkout','secret':'x','pod-template-hash':'7d4b9c8f6d'},"
            "'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet','controller':true,"
            "'name':'web-7d4b9c8f6d','uid':'r1'}]},"
            "'spec':{'containers':[{'name':'web','resources':{'requests':{'cpu':'250m'},"
            "'limits':{'cpu':'1','memory':'64Mi'}}}],'ephemeralContainers':[{'name':'debug'}]},"
            "'status':{'containerStatuses':[{'name':'web','containerID':'containerd://abc'}],"
            "'ephemeralContainerStatuses':[{'name':'debug','containerID':'containerd://def'}]}}"),
        0);
    const struct agent_pod_entry *entry = agent_pod_directory_find(directory, "u1");
    assert_non_null(entry);
    assert_string_equal(entry->pod.owner.kind, "Deployment");
    assert_string_equal(entry->pod.owner.name, "web");
    assert_int_equal(entry->pod.labels.n, 1);
    assert_string_equal(kw_labels_get(&entry->pod.labels, "team"), "checkout");
    assert_int_equal(entry->pod.containers[0].request_mcpu, 250);
    assert_int_equal(entry->pod.containers[0].limit_mcpu, 1000);
    assert_int_equal(entry->pod.containers[0].limit_bytes, 64 << 20);
    assert_int_equal(entry->pod.n_containers, 1);
    assert_int_equal(entry->pod.n_ephemeral, 1);
    assert_string_equal(entry->pod.containers[1].name, "debug");
    assert_string_equal(entry->pod.containers[1].id, "def");
    assert_null(agent_pod_directory_find(directory, "u2"));
}

/** A static pod's cgroup has its hash: the kubelet lists it under that, the API server its mirror.
 */
static void test_static_pods(void **state)
{
    (void)state;
    assert_int_equal(
        put("{'metadata':{'uid':'mirror','name':'etcd-node1','namespace':'kube-system',"
            "'annotations':{'kubernetes.io/config.hash':'2f0d3a4b5c6d7e8f9a0b1c2d3e4f5a6b',"
            "'kubernetes.io/config.mirror':'2f0d3a4b5c6d7e8f9a0b1c2d3e4f5a6b'},"
            "'ownerReferences':[{'apiVersion':'v1','kind':'Node','name':'node1','uid':'n',"
            "'controller':true}]},"
            "'spec':{'containers':[{'name':'etcd'}]}}"),
        0);
    const struct agent_pod_entry *entry =
        agent_pod_directory_find(directory, "2f0d3a4b5c6d7e8f9a0b1c2d3e4f5a6b");
    assert_non_null(entry);
    assert_string_equal(entry->pod.name, "etcd-node1");
    assert_string_equal(entry->pod.owner.kind, "");
    assert_ptr_equal(agent_pod_directory_find(directory, "mirror"), entry);
    /* the mirror is deleted by hand and made anew: the newer one counts */
    agent_pod_directory_remove(directory, "mirror", 5);
    assert_int_equal(
        put("{'metadata':{'uid':'mirror2','name':'etcd-again','namespace':'kube-system',"
            "'annotations':{'kubernetes.io/config.hash':'2f0d3a4b5c6d7e8f9a0b1c2d3e4f5a6b'}},"
            "'spec':{'containers':[]}}"),
        0);
    entry = agent_pod_directory_find(directory, "2f0d3a4b5c6d7e8f9a0b1c2d3e4f5a6b");
    assert_string_equal(entry->pod.name, "etcd-again");
    /* an annotation of another type harms nothing */
    assert_int_equal(put("{'metadata':{'uid':'odd','name':'odd','namespace':'a',"
                         "'annotations':{'kubernetes.io/config.hash':7}},"
                         "'spec':{'containers':[]}}"),
                     0);
}

static void test_owners(void **state)
{
    static const struct {
        const char *kind, *name, *label, *value, *top_kind, *top_name;
    } rows[] = {
        {"ReplicaSet", "web-7d4b", "pod-template-hash", "7d4b", "Deployment", "web"},
        {"ReplicaSet", "a-b-7d4b", "pod-template-hash", "7d4b", "Deployment", "a-b"},
        {"ReplicaSet", "web-7d4b", "pod-template-hash", "7d4", "ReplicaSet", "web-7d4b"},
        {"ReplicaSet", "web-7d4b", "rollouts-pod-template-hash", "7d4b", "Rollout", "web"},
        {"ReplicaSet", "web-7d4b", "x", "7d4b", "ReplicaSet", "web-7d4b"},
        {"ReplicaSet", "-7d4b", "pod-template-hash", "7d4b", "ReplicaSet", "-7d4b"},
        {"ReplicaSet", "7d4b", "pod-template-hash", "7d4b", "ReplicaSet", "7d4b"},
        {"ReplicaSet", "web", "pod-template-hash", "", "ReplicaSet", "web"},
        /* 2026-11-29T19:53:00Z is minute 29933033 */
        {"Job", "backup-29933033", "x", "", "CronJob", "backup"},
        {"Job", "backup-29933000", "x", "", "CronJob", "backup"},
        {"Job", "backup-29933034", "x", "", "Job", "backup-29933034"}, /* later than the pod */
        {"Job", "backup-29931000", "x", "", "Job", "backup-29931000"}, /* more than a day before */
        {"Job", "backup-1", "x", "", "Job", "backup-1"},
        {"Job", "29933033", "x", "", "Job", "29933033"},
        {"StatefulSet", "db", "x", "", "StatefulSet", "db"},
        {"DaemonSet", "agent", "x", "", "DaemonSet", "agent"},
        {"Widget", "w", "x", "", "Widget", "w"},
        {"Bad Kind", "w", "x", "", "", ""},
        {"Widget", "Not/A/Name", "x", "", "", ""},
        {"Widget", "", "x", "", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_label_pair pair = {(char *)rows[i].label, (char *)rows[i].value};
        struct kw_pod pod = {.has_owner = true,
                             .created_unix_ms = INT64_C(1795982017000),
                             .owner = {.kind = (char *)rows[i].kind, .name = (char *)rows[i].name},
                             .labels = {.n = 1, .items = &pair}};
        struct kw_top_owner owner;
        kw_top_owner_of(&pod, &owner);
        print_message("%s %s\n", rows[i].kind, rows[i].name);
        assert_string_equal(owner.kind, rows[i].top_kind);
        assert_string_equal(owner.name, rows[i].top_name);
    }
    struct kw_pod orphan = {.has_owner = false};
    struct kw_top_owner owner;
    kw_top_owner_of(&orphan, &owner);
    assert_string_equal(owner.kind, "");
}

static void test_versions(void **state)
{
    (void)state;
    uint64_t first = agent_pod_directory_version(directory);
    assert_int_equal(put(PLAIN("u1", "a")), 0);
    assert_int_equal(put(PLAIN("u2", "b")), 0);
    uint64_t second = agent_pod_directory_version(directory);
    assert_true(second > first);
    assert_int_equal(put(PLAIN("u1", "a")), 0); /* the same again */
    assert_true(agent_pod_directory_version(directory) == second);
    assert_int_equal(put(PLAIN("u1", "c")), 0);
    assert_true(agent_pod_directory_version(directory) > second);
    assert_true(agent_pod_directory_find(directory, "u2")->version <= second);
    assert_string_equal(agent_pod_directory_find(directory, "u1")->pod.name, "c");
    assert_int_equal(agent_pod_directory_count(directory), 2);
}

static void test_pods_that_left_stay_for_a_while(void **state)
{
    (void)state;
    agent_pod_directory_begin(directory);
    assert_int_equal(put(PLAIN("u1", "a")), 0);
    assert_int_equal(put(PLAIN("u2", "b")), 0);
    agent_pod_directory_begin(directory); /* the list began again: both are named anew, or gone */
    assert_int_equal(put(PLAIN("u2", "b")), 0);
    agent_pod_directory_end(directory, 1000);
    assert_int_equal(agent_pod_directory_rounds(directory), 1);
    assert_int_equal(agent_pod_directory_count(directory), 1);
    assert_non_null(agent_pod_directory_find(directory, "u1"));
    agent_pod_directory_begin(directory);
    assert_int_equal(put(PLAIN("u2", "b")), 0);
    agent_pod_directory_end(directory, 1000 + AGENT_DEPART_NS);
    assert_null(agent_pod_directory_find(directory, "u1"));
    assert_int_equal(put(PLAIN("u1", "a")), 0); /* and may come back */
    assert_int_equal(agent_pod_directory_count(directory), 2);
}

static void test_bounds(void **state)
{
    (void)state;
    for (unsigned i = 0; i < AGENT_PODS_MAX; i++)
        assert_int_equal(put("{'metadata':{'uid':'u%u','name':'p','namespace':'n'},"
                             "'spec':{'containers':[]}}",
                             i),
                         0);
    assert_int_equal(put(PLAIN("one-more", "p")), -ENOSPC);
    assert_int_equal(put(PLAIN("u7", "renamed")), 0);
    /* all leave at once: not all of them are kept */
    agent_pod_directory_begin(directory);
    agent_pod_directory_end(directory, 9);
    assert_int_equal(agent_pod_directory_count(directory), 0);
    size_t kept = 0;
    for (unsigned i = 0; i < AGENT_PODS_MAX; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof(uid), "u%u", i);
        kept += agent_pod_directory_find(directory, uid) != NULL;
    }
    assert_true(kept > 0 && kept <= 1024);
}

static void test_bad_pods_and_labels(void **state)
{
    struct agent_pod_directory *other = NULL;

    (void)state;
    assert_int_equal(put("[]"), -EBADMSG);
    assert_int_equal(put(PLAIN("", "a")), -EBADMSG);
    assert_int_equal(put(PLAIN("u1", "Not A Name")), -EBADMSG);
    assert_int_equal(put(PLAIN("u1", "")), -EBADMSG);
    assert_int_equal(put("{'metadata':{'uid':'u','name':'a','namespace':'n'},"
                         "'spec':{'containers':[{'name':'../x'}]}}"),
                     -EBADMSG);
    assert_int_equal(agent_pod_directory_count(directory), 0);
    assert_int_equal(agent_pod_directory_new("a b=c", &other), -EINVAL);
    assert_int_equal(agent_pod_directory_new("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", &other),
                     -EINVAL);
    assert_int_equal(agent_pod_directory_new(NULL, &other), 0);
    agent_pod_directory_free(&other);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_kept),
        TEST(test_static_pods),
        TEST(test_owners),
        TEST(test_versions),
        TEST(test_pods_that_left_stay_for_a_while),
        TEST(test_bounds),
        TEST(test_bad_pods_and_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
