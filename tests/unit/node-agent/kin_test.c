/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "node-agent/kin.h"
#include "tests/support/cmocka.h"

static uint64_t of(enum kw_workload_kind kind, const char *id, const struct agent_names *names)
{
    const struct agent_label label = {.kind = kind, .id = (char *)id};

    return agent_kin_of(&label, names);
}

static struct agent_names owned(const char *namespace_, const char *kind, const char *owner,
                                const char *name)
{
    return (struct agent_names){.namespace_ = (char *)namespace_,
                                .owner_kind = (char *)kind,
                                .owner_name = (char *)owner,
                                .name = (char *)name};
}

static void test_pods(void **state)
{
    const struct agent_names a = owned("shop", "Deployment", "web", "web-1");
    const struct agent_names b = owned("shop", "Deployment", "web", "web-2");
    const struct agent_names other = owned("shop", "StatefulSet", "web", "web-0");
    const struct agent_names elsewhere = owned("test", "Deployment", "web", "web-1");
    const struct agent_names joined = owned("shopD", "eployment", "web", "web-1");
    const struct agent_names alone = owned("shop", "", "", "web-1");

    (void)state;
    assert_true(of(KW_WORKLOAD_POD, "1", &a) == of(KW_WORKLOAD_POD, "2", &b));
    assert_true(of(KW_WORKLOAD_POD, "1", &a) != of(KW_WORKLOAD_POD, "1", &other));
    assert_true(of(KW_WORKLOAD_POD, "1", &a) != of(KW_WORKLOAD_POD, "1", &elsewhere));
    assert_true(of(KW_WORKLOAD_POD, "1", &a) != of(KW_WORKLOAD_POD, "1", &joined));
    assert_true(of(KW_WORKLOAD_POD, "1", &alone) == of(KW_WORKLOAD_POD, "9", &alone));
    assert_true(of(KW_WORKLOAD_POD, "1", &alone) != of(KW_WORKLOAD_POD, "1", &a));
    assert_true(of(KW_WORKLOAD_POD, "1", NULL) == 0);
}

static void test_others(void **state)
{
    const struct agent_names named = {.name = (char *)"db"};

    (void)state;
    assert_true(of(KW_WORKLOAD_UNIT, "/a.service", NULL) != 0);
    assert_true(of(KW_WORKLOAD_UNIT, "/a.service", NULL) ==
                of(KW_WORKLOAD_UNIT, "/a.service", NULL));
    assert_true(of(KW_WORKLOAD_UNIT, "/a", NULL) != of(KW_WORKLOAD_CGROUP, "/a", NULL));
    assert_true(of(KW_WORKLOAD_CONTAINER, "c0ffee", NULL) == 0);
    assert_true(of(KW_WORKLOAD_CONTAINER, "1", &named) == of(KW_WORKLOAD_CONTAINER, "2", &named));
}

/** It is kept beyond the agent's life: the numbers stay what they are. */
static void test_stable(void **state)
{
    (void)state;
    assert_true(of(KW_WORKLOAD_UNIT, "/a.service", NULL) == UINT64_C(0xb8c553a908fb08e6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_stable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
