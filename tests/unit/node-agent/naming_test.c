/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come late, change, and stay; and when they are asked for. */
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/kubelet.h"
#include "node-agent/naming.h"
#include "node-agent/pod_poll.h"
#include "tests/support/cmocka.h"

#define UID  "4eb0d6a3-17c5-4d21-9a67-0d5b3fb9c1e2"
#define S    KW_NS_PER_S
#define MAIN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BOX  "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define NEXT "1111111111111111111111111111111111111111111111111111111111111111"

static struct agent_ledger *ledger;
static struct agent_pod_directory *directory;
static struct agent_workload *workload;
static uint64_t now_ns;

static void attach(const char *path)
{
    struct agent_identity identity;
    kw_cleanup(agent_label_unref) struct agent_label *container = NULL;

    assert_true(agent_identity_from_path(path, &identity));
    assert_int_equal(agent_ledger_attach(ledger, &identity, path, 1000, &workload, &container), 0);
}

static int setup(void **state)
{
    (void)state;
    now_ns = 1000 * S;
    return agent_ledger_new(1, &ledger) < 0 ? -1 : agent_pod_directory_new("team", &directory);
}

static int teardown(void **state)
{
    (void)state;
    agent_pod_directory_free(&directory);
    agent_ledger_free(&ledger);
    return 0;
}

/** A list with one pod. @param id of its container; "" none yet. */
static void list(const char *name, const char *id)
{
    char json[1024];
    struct kw_pod pod;
    const char *why = NULL;

    (void)snprintf(
        json, sizeof(json),
        "{\"metadata\":{\"uid\":\"" UID "\",\"name\":\"%s\",\"namespace\":\"shop\","
        "\"labels\":{\"team\":\"a\"}},"
        "\"spec\":{\"initContainers\":[{\"name\":\"setup\"}],"
        "\"containers\":[{\"name\":\"web\",\"resources\":{\"limits\":{\"cpu\":\"2\"}}}]},"
        "\"status\":{\"containerStatuses\":[{\"name\":\"web\",\"containerID\":\"%s%s\"}]"
        "}}",
        name, id[0] != '\0' ? "containerd://" : "", id);
    agent_pod_directory_begin(directory);
    assert_int_equal(agent_pod_directory_decode(directory, json, strlen(json), &pod, &why), 0);
    assert_int_equal(agent_pod_directory_put(directory, &pod), 0);
    agent_pod_directory_end(directory, now_ns);
}

static void list_nothing(void)
{
    agent_pod_directory_begin(directory);
    agent_pod_directory_end(directory, now_ns);
}

static bool apply(void)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);

    return agent_naming_pods(directory, workloads, n, now_ns);
}

static const char *container_name(const char *id)
{
    for (size_t i = 0; i < workload->n_containers; i++) {
        const struct agent_container *container = &workload->containers[i];
        if (strcmp(container->label->id, id) == 0)
            return container->names != NULL ? container->names->name : "";
    }
    return NULL;
}

#define POD_PATH "/kubepods/burstable/pod" UID

static void test_a_name_that_comes_late(void **state)
{
    (void)state;
    attach(POD_PATH);
    assert_true(apply());
    assert_null(workload->names);
    attach(POD_PATH "/" BOX);
    attach(POD_PATH "/" MAIN);
    list("web-1", "");
    assert_true(apply()); /* of a list without ids */
    assert_string_equal(workload->names->name, "web-1");
    assert_string_equal(workload->names->namespace_, "shop");
    assert_string_equal(kw_labels_get(&workload->names->labels, "team"), "a");
    assert_string_equal(container_name(MAIN), "");
    list("web-1", MAIN);
    assert_false(apply()); /* only the sandbox lacks a name, and will for ever */
    assert_string_equal(container_name(MAIN), "web");
    assert_string_equal(container_name(BOX), "");
    assert_int_equal(workload->containers[0].names->limit_mcpu, 2000);
    /* restarted: another id */
    attach(POD_PATH "/" NEXT);
    now_ns += 100 * S;
    assert_false(apply()); /* two sandboxes, as far as anybody knows */
    agent_ledger_detach(workload, workload->containers[0].label, now_ns, 2);
    assert_true(apply()); /* but what the list calls running has ended */
    list("web-1", NEXT);
    assert_false(apply());
    assert_string_equal(container_name(NEXT), "web");
    assert_string_equal(container_name(MAIN), "web"); /* kept, though no list names it any more */
}

static void test_a_name_that_changes_and_one_that_stays(void **state)
{
    (void)state;
    attach(POD_PATH "/" MAIN);
    list("web-1", MAIN);
    assert_false(apply());
    struct agent_names *before = workload->names;
    list("web-1", MAIN);
    assert_false(apply());
    assert_ptr_equal(workload->names, before); /* nothing new, nothing allocated */
    list("web-2", MAIN);
    assert_false(apply());
    assert_string_equal(workload->names->name, "web-2");
    agent_ledger_detach(workload, workload->containers[0].label, now_ns, 1);
    list_nothing();
    now_ns += 20 * 60 * S;
    list_nothing();
    assert_null(agent_pod_directory_find(directory, UID));
    assert_false(apply()); /* it has ended: nobody is asked */
    assert_string_equal(workload->names->name, "web-2");
}

/** A pod that no list names asks ever less often; one that only lacks containers stops. */
static void test_who_asks_how_often(void **state)
{
    unsigned asked = 0;

    (void)state;
    attach(POD_PATH);
    for (unsigned second = 0; second < 3600; second++, now_ns += S) {
        if (apply()) {
            asked++;
            list_nothing();
        }
    }
    assert_in_range(asked, 15, 24); /* 1, 2, 4 ... 256 s, and again each 256 s */
    attach(POD_PATH "/" BOX);
    asked = 0;
    for (unsigned second = 0; second < 3600; second++, now_ns += S) {
        if (apply()) {
            asked++;
            list("web-1", NEXT);
        }
    }
    assert_in_range(asked, 6, 8);
}

/** Two pods of one uid, by path: a container outside its pod's folder belongs to it all the same.
 */
static void test_the_class_comes_from_the_path(void **state)
{
    (void)state;
    attach(POD_PATH);
    assert_int_equal(workload->label->qos, KW_QOS_BURSTABLE);
}

static void test_poll(void **state)
{
    struct agent_pod_poll poll = {0};

    (void)state;
    assert_true(agent_pod_poll_next(&poll) == 0);
    agent_pod_poll_done(&poll, false, 100 * S, 100 * S + S / 1000);
    uint64_t end_ns = 100 * S + S / 1000;
    assert_true(agent_pod_poll_next(&poll) == end_ns + 300 * S);
    poll.wanted = true;
    assert_true(agent_pod_poll_next(&poll) == end_ns + S);
    /* a list that takes 50 ms is asked for every 5 s at most */
    agent_pod_poll_done(&poll, false, 200 * S, 200 * S + S / 20);
    poll.wanted = true;
    assert_true(agent_pod_poll_next(&poll) == 200 * S + S / 20 + 5 * S);
    for (unsigned i = 1; i < 40; i++) {
        agent_pod_poll_done(&poll, true, 300 * S, 300 * S);
        poll.wanted = true;
        uint64_t wait_ns = agent_pod_poll_next(&poll) - 300 * S;
        assert_true(wait_ns == (i < 9 ? S << i : 300 * S));
    }
    agent_pod_poll_done(&poll, true, 300 * S, 400 * S); /* a try that took 100 s */
    assert_true(agent_pod_poll_next(&poll) == 700 * S);
}

static void test_kubelet_addresses(void **state)
{
    static const struct {
        const char *address, *url;
    } rows[] = {
        {"10.0.0.7", "https://10.0.0.7:10250"},
        {"10.0.0.7:1234", "https://10.0.0.7:1234"},
        {"node-7", "https://node-7:10250"},
        {"https://node-7", "https://node-7:10250"},
        {"https://node-7:10251", "https://node-7:10251"},
        {"fd00::7", "https://[fd00::7]:10250"},
        {"[fd00::7]", "https://[fd00::7]:10250"},
        {"[fd00::7]:99", "https://[fd00::7]:99"},
        {"https://[fd00::7]:99", "https://[fd00::7]:99"},
        {"", NULL},
        {"http://node-7:10255", NULL},
        {"https://node-7/path", NULL},
        {"[fd00::7", NULL},
    };
    char url[64];

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        int rc = agent_kubelet_url(rows[i].address, url, sizeof(url));
        print_message("%s\n", rows[i].address);
        assert_int_equal(rc == 0, rows[i].url != NULL);
        if (rc == 0)
            assert_string_equal(url, rows[i].url);
    }
    assert_true(agent_kubelet_url("10.0.0.7", url, 10) < 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_name_that_comes_late), TEST(test_a_name_that_changes_and_one_that_stays),
        TEST(test_who_asks_how_often),     TEST(test_the_class_comes_from_the_path),
        cmocka_unit_test(test_poll),       cmocka_unit_test(test_kubelet_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
