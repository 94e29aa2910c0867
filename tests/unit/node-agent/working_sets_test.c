/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "node-agent/working_sets.h"
#include "tests/support/cgroups_fixture.h"
#include "tests/support/cmocka.h"

#define S UINT64_C(1000000000)

static struct kwt_cgroups fixture;
static struct agent_ledger *ledger;
static struct agent_workload *busy, *idle;
static size_t cursor;

static struct agent_workload *attach(const char *path)
{
    struct agent_identity *identity = calloc(1, sizeof(*identity));
    struct agent_workload *workload = NULL;
    struct agent_label *label = NULL;

    assert_non_null(identity);
    identity->kind = KW_WORKLOAD_CGROUP;
    (void)snprintf(identity->id, sizeof(identity->id), "%s", path);
    (void)snprintf(identity->workload_path, sizeof(identity->workload_path), "%s", path);
    assert_int_equal(agent_ledger_attach(ledger, identity, path, 1000, &workload, &label), 0);
    agent_label_unref(&label);
    free(identity);
    return workload;
}

static void set_memory(const char *bytes)
{
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/busy/memory.current", bytes);
    kwt_tree_write(&fixture.tree, "sys/fs/cgroup/idle/memory.current", bytes);
}

/** A sample every 15 s, by which time each has had its turn. */
static void read_at(uint64_t now_ns)
{
    const uint64_t used_ns[1] = {1};

    agent_ledger_use(ledger, busy, NULL, used_ns, NULL);
    agent_working_sets_read(ledger, fixture.cgroups, &cursor, now_ns, 15 * S);
}

static void test_what_did_not_run_is_read_less_often(void **state)
{
    (void)state;
    kwt_cgroups_make(&fixture, kwt_mountinfo_v2);
    kwt_cgroups_mkdir(&fixture, "/busy");
    kwt_cgroups_mkdir(&fixture, "/idle");
    set_memory("1000\n");
    kwt_cgroups_open(&fixture, "/");
    assert_int_equal(agent_ledger_new(1, &ledger), 0);
    busy = attach("/busy");
    idle = attach("/idle");
    read_at(100 * S); /* new ones at once */
    assert_int_equal(busy->memory_bytes, 1000);
    assert_int_equal(idle->memory_bytes, 1000);
    set_memory("2000\n");
    for (unsigned t_s = 115; t_s < 160; t_s += 15) {
        read_at(t_s * S);
        assert_int_equal(busy->memory_bytes, 2000);
        assert_int_equal(idle->memory_bytes, 1000);
    }
    read_at(160 * S); /* once in a minute all the same */
    assert_int_equal(idle->memory_bytes, 2000);
    set_memory("3000\n");
    const uint64_t used_ns[1] = {1};
    agent_ledger_use(ledger, idle, NULL, used_ns, NULL);
    read_at(175 * S); /* it ran */
    assert_int_equal(idle->memory_bytes, 3000);
    agent_ledger_free(&ledger);
    kwt_cgroups_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_did_not_run_is_read_less_often),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
