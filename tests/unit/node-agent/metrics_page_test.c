/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node-agent/metrics_page.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/snapshot_rig.h"

static struct agent_snapshot_pool *pool;
static struct agent_snapshot *snapshot;
static struct kw_buf page;

/* CPU 2 is offline; packages have the ids 0 and 3. */
static const struct agent_topology topology = {
    .n_cpus = 4,
    .n_online = 3,
    .n_packages = 2,
    .package_ids = {0, 3},
    .cpu_package = {0, 0, 0, 1},
    .cpu_core = {1, 5, 0, 1},
    .cpu_model = "A \"fast\" CPU @ 2 GHz",
    .cpu_vendor = "GenuineIntel",
};

static int setup(void **state)
{
    (void)state;
    if (agent_snapshot_pool_new(&pool) < 0)
        return -1;
    snapshot = kwt_snapshot_make(pool);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_snapshot_recycle(snapshot);
    agent_snapshot_pool_free(&pool);
    kw_buf_free(&page);
    return 0;
}

static void write_page(enum kw_metrics_format format, bool sampled)
{
    struct agent_metrics_input input = {.snapshot = sampled ? snapshot : NULL,
                                        .info = &kwt_snapshot_info,
                                        .topology = &topology,
                                        .has_redis = true,
                                        .batches_written = 12};

    kw_buf_reset(&page);
    assert_int_equal(agent_metrics_write(&input, format, &page), 0);
}

static void assert_line(const char *line)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "\n%s\n", line);
    if (strstr(page.data, text) == NULL)
        fail_msg("no line %s in\n%s", line, page.data);
}

static void test_parts_of_the_system(void **state)
{
    (void)state;
    snapshot->sample.system = (struct kw_system_sample){.present = true,
                                                        .has_kernel = true,
                                                        .kernel_uj = 1,
                                                        .root_uj = 3,
                                                        .has_interrupts = true,
                                                        .interrupts_uj = 9};
    write_page(KW_METRICS_TEXT, true);
    assert_line("kwatt_system_joules_total{part=\"kernel\",node_name=\"node-1\"} 0.000001");
    assert_line("kwatt_system_joules_total{part=\"root\",node_name=\"node-1\"} 0.000003");
    assert_line("kwatt_system_joules_total{part=\"interrupts\",node_name=\"node-1\"} 0.000009");
    /* not told apart: no series rather than a zero */
    snapshot->sample.system = (struct kw_system_sample){.present = true, .root_uj = 4};
    write_page(KW_METRICS_TEXT, true);
    assert_null(strstr(page.data, "part=\"kernel\""));
    assert_null(strstr(page.data, "part=\"interrupts\""));
    assert_line("kwatt_system_joules_total{part=\"root\",node_name=\"node-1\"} 0.000004");
}

/** Prometheus' own linter has nothing to say. */
static void lint(void)
{
    static const char promtool[] = "/usr/bin/promtool";
    int status = 0, ends[2];

    if (access(promtool, X_OK) != 0) {
        print_message("left out: promtool is not installed\n");
        return;
    }
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[0], 0);
        (void)close(ends[1]);
        (void)execl(promtool, "promtool", "check", "metrics", (char *)NULL);
        _exit(127);
    }
    (void)close(ends[0]);
    assert_int_equal(write(ends[1], page.data, page.len), (ssize_t)page.len);
    (void)close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_joules_are_exact(void **state)
{
    (void)state;
    write_page(KW_METRICS_TEXT, true);
    assert_line(
        "kepler_pod_cpu_joules_total{pod_id=\"pod-uid\",pod_name=\"web\",pod_namespace=\"\","
        "state=\"running\",zone=\"package\",node_name=\"node-1\"} 9007199254.740993");
    assert_line(
        "kepler_pod_cpu_joules_total{pod_id=\"pod-uid\",pod_name=\"web\",pod_namespace=\"\","
        "state=\"running\",zone=\"dram\",node_name=\"node-1\"} 0.000007");
    assert_line(
        "kwatt_pod_cpu_seconds_total{pod_id=\"pod-uid\",pod_name=\"web\",pod_namespace=\"\","
        "state=\"running\",node_name=\"node-1\"} 1.234567890");
    assert_line("kwatt_workload_idle_joules_total{kind=\"pod\",id=\"pod-uid\",name=\"web\","
                "namespace=\"\",policy=\"equal\",node_name=\"node-1\"} 0.000060");
    assert_line("kwatt_idle_unshared_joules_total{node_name=\"node-1\"} 0.000040");
}

static void test_zones(void **state)
{
    (void)state;
    write_page(KW_METRICS_TEXT, true);
    assert_line("kepler_node_cpu_joules_total{zone=\"package\","
                "path=\"/sys/class/powercap/intel-rapl:0/energy_uj\",node_name=\"node-1\"} "
                "9007199254.741100");
    assert_line("kepler_node_cpu_watts{zone=\"dram\","
                "path=\"/sys/class/powercap/intel-rapl:1/energy_uj\",node_name=\"node-1\"} 2.000");
    assert_line(
        "kepler_node_cpu_idle_joules_total{zone=\"package\","
        "path=\"/sys/class/powercap/intel-rapl:2/energy_uj\",node_name=\"node-1\"} 0.000003");
    assert_line("kwatt_node_marginal_watts_per_core{node_name=\"node-1\"} 10.000");
    assert_line("kwatt_sample_quality{flag=\"wrapped\",node_name=\"node-1\"} 1");
    assert_line("kwatt_redis_batches_total{node_name=\"node-1\"} 12");
}

/** Only where the agent has set one. */
static void test_power_limit(void **state)
{
    (void)state;
    write_page(KW_METRICS_TEXT, true);
    assert_null(strstr(page.data, "kwatt_node_power_limit_watts"));
    snapshot->limit_uw = 239875000;
    write_page(KW_METRICS_TEXT, true);
    assert_line("kwatt_node_power_limit_watts{node_name=\"node-1\"} 239.875000");
}

/** What Kepler's dashboards list nodes by. */
static void test_cpus(void **state)
{
    (void)state;
    write_page(KW_METRICS_TEXT, true);
    assert_line("kepler_node_cpu_info{processor=\"0\",vendor_id=\"GenuineIntel\","
                "model_name=\"A \\\"fast\\\" CPU @ 2 GHz\",physical_id=\"0\",core_id=\"0\","
                "node_name=\"node-1\"} 1");
    assert_line("kepler_node_cpu_info{processor=\"3\",vendor_id=\"GenuineIntel\","
                "model_name=\"A \\\"fast\\\" CPU @ 2 GHz\",physical_id=\"3\",core_id=\"0\","
                "node_name=\"node-1\"} 1");
    assert_non_null(strstr(page.data, "processor=\"1\""));
    assert_null(strstr(page.data, "processor=\"2\""));
    assert_non_null(strstr(page.data, "\nkepler_build_info{arch=\""));
}

static void test_kinds(void **state)
{
    (void)state;
    write_page(KW_METRICS_TEXT, true);
    assert_line("kepler_container_cpu_joules_total{container_id=\"c0ffee\","
                "container_name=\"c0ffee\",runtime=\"containerd\",pod_id=\"\","
                "state=\"terminated\",zone=\"package\",node_name=\"node-1\"} 0.000001");
    assert_line("kwatt_unit_cpu_joules_total{unit=\"a\\\"b\\\\c.service\","
                "cgroup=\"/a\\\"b\\\\c.service\",state=\"running\",zone=\"package\","
                "node_name=\"node-1\"} 0.000002");
    assert_null(strstr(page.data, "kepler_vm_cpu"));
}

/* What the machine's files and processes say of workloads that are no pods. */
static void test_names_of_others(void **state)
{
    struct agent_names container = {.name = (char *)"web", .image = (char *)"nginx:\"1\""};
    struct agent_names machine = {.name = (char *)"db", .uuid = (char *)"u-1", .vm = true};

    (void)state;
    assert_int_equal(agent_names_new(&container, &snapshot->rows[1].names), 0);
    assert_int_equal(agent_names_new(&machine, &snapshot->rows[2].names), 0);
    write_page(KW_METRICS_TEXT, true);
    assert_line("kwatt_container_info{container_id=\"c0ffee\",container_name=\"web\","
                "image=\"nginx:\\\"1\\\"\",runtime=\"containerd\",node_name=\"node-1\"} 1");
    assert_line("kepler_vm_cpu_joules_total{vm_id=\"u-1\",vm_name=\"db\",hypervisor=\"kvm\","
                "cgroup=\"/a\\\"b\\\\c.service\",state=\"running\",zone=\"package\","
                "node_name=\"node-1\"} 0.000002");
    assert_null(strstr(page.data, "kwatt_unit_cpu_joules_total"));
}

/* Containers of pods are listed where that is asked for; the one that is a workload of its own is
 * listed once. */
static void test_containers(void **state)
{
    struct agent_metrics_input input = {
        .snapshot = snapshot, .info = &kwt_snapshot_info, .topology = &topology};
    static const char of_pod[] = "kepler_container_cpu_joules_total{container_id=\"bbb\"";
    static const char own[] = "\nkepler_container_cpu_seconds_total{container_id=\"c0ffee\"";

    (void)state;
    snapshot->containers[1].active_uj = 3000005;
    snapshot->containers[1].dram_uj = 5;
    snapshot->containers[1].cpu_mw = 750;
    write_page(KW_METRICS_TEXT, true);
    assert_null(strstr(page.data, of_pod));
    input.more.containers = true;
    kw_buf_reset(&page);
    assert_int_equal(agent_metrics_write(&input, KW_METRICS_OPENMETRICS, &page), 0);
#define BBB                                                                               \
    "container_id=\"bbb\",container_name=\"\",runtime=\"containerd\",pod_id=\"pod-uid\"," \
    "state=\"running\""
    assert_line("kepler_container_cpu_joules_total{" BBB
                ",zone=\"package\",node_name=\"node-1\"} 3.000000");
    assert_line("kepler_container_cpu_joules_total{" BBB
                ",zone=\"dram\",node_name=\"node-1\"} 0.000005");
    assert_line("kepler_container_cpu_watts{" BBB ",zone=\"package\",node_name=\"node-1\"} 0.750");
    assert_line("kepler_container_cpu_seconds_total{" BBB ",node_name=\"node-1\"} 0.000000001");
    const char *at = strstr(page.data, own);
    assert_non_null(at);
    assert_null(strstr(at + 1, own));
}

/* Processes have Kepler's names and labels, and only where they were looked at. */
static void test_processes(void **state)
{
    static const struct agent_process machine = {
        .pid = 42, .cpu_uj = 3000005, .dram_uj = 7, .cpu_ns = 1234567890, .cpu_mw = 750};
    static const struct agent_process other = {.pid = 7, .cpu_uj = 5};
    const struct agent_process *list[] = {&machine, &other};
    const uint64_t drawn_uj[2] = {4000000, 10};
    struct agent_names vm = {.name = (char *)"db", .uuid = (char *)"u-1", .vm = true};

    (void)state;
    write_page(KW_METRICS_TEXT, true);
    assert_null(strstr(page.data, "process_"));
    assert_int_equal(agent_snapshot_fill_processes(snapshot, list, 2, 1, drawn_uj), 0);
    struct agent_process_row *row = &snapshot->processes[0];
    assert_int_equal(agent_process_text_new("qemu \"x\"", "/usr/bin/q\xff", &row->text), 0);
    row->owner = agent_label_ref(snapshot->rows[2].label);
    assert_int_equal(agent_names_new(&vm, &row->names), 0);
    write_page(KW_METRICS_TEXT, true);
#define VM                                                                       \
    "{pid=\"42\",comm=\"qemu \\\"x\\\"\",exe=\"/usr/bin/q\\\\xff\",type=\"vm\"," \
    "state=\"running\",container_id=\"\",vm_id=\"u-1\",cgroup=\"/a\\\"b\\\\c.service\",zone="
    assert_line("kepler_process_cpu_joules_total" VM "\"package\",node_name=\"node-1\"} 3.000005");
    assert_line("kepler_process_cpu_joules_total" VM "\"dram\",node_name=\"node-1\"} 0.000007");
    assert_line("kepler_process_cpu_watts" VM "\"package\",node_name=\"node-1\"} 0.750");
    assert_non_null(strstr(page.data, "\nkepler_process_cpu_seconds_total{pid=\"42\""));
    assert_null(strstr(page.data, "pid=\"7\""));
    assert_line("kwatt_processes_unlisted_joules{zone=\"package\",node_name=\"node-1\"} 0.000005");
    assert_line(
        "kwatt_processes_ended_joules_total{zone=\"package\",node_name=\"node-1\"} 0.999990");
    assert_line("kwatt_processes_ended_joules_total{zone=\"dram\",node_name=\"node-1\"} 0.000003");
    assert_line("kwatt_processes{node_name=\"node-1\"} 2");
    lint();
}

/* What kwatt explain --pod tells of a workload, where it is asked for and known. */
static void test_explain(void **state)
{
    struct agent_metrics_input input = {
        .snapshot = snapshot, .info = &kwt_snapshot_info, .more = {.explain = true}};

    (void)state;
    write_page(KW_METRICS_TEXT, true);
    assert_null(strstr(page.data, "kwatt_workload_sigma_watts"));
    snapshot->rows[0].sigma_uj = 1500000;
    snapshot->rows[0].dram_intensity = (struct kw_intensity){900, 40};
    kw_buf_reset(&page);
    assert_int_equal(agent_metrics_write(&input, KW_METRICS_TEXT, &page), 0);
#define WEB  "{kind=\"pod\",id=\"pod-uid\",name=\"web\",namespace=\"\","
#define NODE "node_name=\"node-1\"} "
    assert_line("kwatt_workload_sigma_watts" WEB NODE "0.080");
    assert_line("kwatt_workload_sigma_joules" WEB NODE "1.500000");
    assert_line("kwatt_workload_intensity" WEB "zone=\"package\"," NODE "1.120");
    assert_line("kwatt_workload_intensity" WEB "zone=\"dram\"," NODE "0.900");
    assert_line("kwatt_workload_intensity_sigma" WEB "zone=\"package\"," NODE "0.050");
    assert_line("kwatt_workload_intensity_sigma" WEB "zone=\"dram\"," NODE "0.040");
    assert_line("kwatt_workload_idle_watts" WEB "policy=\"equal\"," NODE "0.300");
    assert_line("kwatt_workload_idle_watts" WEB "policy=\"requests\"," NODE "0.900");
    assert_line("kwatt_workload_cpu_shared_seconds_total" WEB NODE "0.000000011");
    assert_line("kwatt_workload_cycles_total" WEB NODE "12");
    assert_line("kwatt_workload_instructions_total" WEB NODE "13");
    assert_line("kwatt_workload_cache_misses_total" WEB NODE "14");
    /* what is not known has no series; what has ended gets no idle power */
    assert_null(strstr(page.data, "kwatt_workload_sigma_watts{kind=\"unit\""));
    assert_non_null(strstr(page.data, "kwatt_workload_idle_watts{kind=\"unit\""));
    assert_null(strstr(page.data, "kwatt_workload_idle_watts{kind=\"container\""));
    lint();
}

static void test_before_the_first_sample(void **state)
{
    (void)state;
    write_page(KW_METRICS_OPENMETRICS, false);
    assert_non_null(strstr(page.data, "kwatt_build_info"));
    assert_null(strstr(page.data, "joules"));
    assert_non_null(strstr(page.data, "# EOF"));
}

static void test_promtool(void **state)
{
    struct agent_metrics_input input = {.snapshot = snapshot,
                                        .info = &kwt_snapshot_info,
                                        .topology = &topology,
                                        .more = {.containers = true, .explain = true}};

    (void)state;
    kw_buf_reset(&page);
    assert_int_equal(agent_metrics_write(&input, KW_METRICS_TEXT, &page), 0);
    lint();
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_joules_are_exact),
        TEST(test_parts_of_the_system),
        TEST(test_zones),
        TEST(test_power_limit),
        TEST(test_kinds),
        TEST(test_cpus),
        TEST(test_before_the_first_sample),
        TEST(test_promtool),
        TEST(test_names_of_others),
        TEST(test_containers),
        TEST(test_processes),
        TEST(test_explain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
