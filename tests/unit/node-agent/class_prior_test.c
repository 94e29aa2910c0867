/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "node-agent/class_prior.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

static struct agent_topology cpu(const char *vendor, unsigned family, unsigned model)
{
    struct agent_topology topology;

    kwt_meter_topology(&topology, 2, vendor);
    topology.cpu_family = family;
    topology.cpu_model_number = model;
    return topology;
}

static void test_classes(void **state)
{
    struct agent_topology broadwell = cpu("GenuineIntel", 6, 79);
    struct agent_topology rome = cpu("AuthenticAMD", 23, 49);
    struct agent_topology unknown = cpu("CentaurHauls", 7, 1);

    (void)state;
    assert_string_equal(agent_class_prior(&broadwell)->name, "Broadwell");
    assert_int_equal(agent_class_prior(&broadwell)->idle_mw, 710);
    assert_string_equal(agent_class_prior(&rome)->name, "EPYC 2nd Gen");
    assert_string_equal(agent_class_prior(&unknown)->name, "generic server");
}

static void test_power_of_a_package(void **state)
{
    struct agent_topology topology = cpu("GenuineIntel", 6, 79);
    uint64_t idle_mw = 0, full_mw = 0;

    (void)state;
    agent_package_power_mw(&topology, 1, 0, 0, &idle_mw, &full_mw);
    assert_int_equal(idle_mw, 1420);
    assert_int_equal(full_mw, 7180);
    agent_package_power_mw(&topology, 1, 10000, 5000, &idle_mw, &full_mw);
    assert_int_equal(idle_mw, 5000);
    assert_int_equal(full_mw, 5000); /* never below idle */
    agent_package_power_mw(&topology, 7, 10000, 0, &idle_mw, NULL);
    assert_int_equal(idle_mw, 5000); /* a package that the topology does not know */
}

static void test_hotplug_slots(void **state)
{
    struct agent_topology topology = cpu("GenuineIntel", 6, 79);

    (void)state;
    topology.n_cpus = 64; /* possible; four are online */
    assert_int_equal(agent_package_threads(&topology, 1), 1);
    topology.n_online = 0;
    assert_int_equal(agent_package_threads(&topology, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_power_of_a_package),
        cmocka_unit_test(test_hotplug_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
