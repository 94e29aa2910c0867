/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and containers are found by what runs in a cgroup and by engines' files: in fixtures,
 * and with a real QEMU in a real cgroup. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/cgroups.h"
#include "node-agent/lookup.h"
#include "node-agent/occupant.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

#define UUID "6f1e0b52-8c8f-4d52-9f0e-0f6a3c2b1d44"
#define ID   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define VM   "/run-r1.scope"

static struct kwt_tree tree;
static struct agent_cgroup_mounts mounts;
static struct agent_pids pids;
static char procfs[128];

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    memset(&mounts, 0, sizeof(mounts));
    (void)snprintf(mounts.paths[AGENT_HIERARCHY_V2], PATH_MAX, "%s/cgroup", tree.root);
    (void)snprintf(procfs, sizeof(procfs), "%s/proc", tree.root);
    kwt_tree_mkdir(&tree, "proc");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    agent_pids_free(&pids);
    return 0;
}

/** @param line arguments with '|' after each. */
static void process(int pid, const char *line)
{
    char path[256], bytes[4096];
    size_t len = strlen(line);

    (void)snprintf(path, sizeof(path), "proc/%d/cmdline", pid);
    kwt_tree_write(&tree, path, "");
    (void)snprintf(path, sizeof(path), "%s/proc/%d/cmdline", tree.root, pid);
    assert_true(len < sizeof(bytes));
    for (size_t i = 0; i < len; i++)
        bytes[i] = line[i] == '|' ? '\0' : line[i];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void cgroup(const char *path, const char *procs)
{
    char file[256];

    (void)snprintf(file, sizeof(file), "cgroup%s/cgroup.procs", path);
    kwt_tree_write(&tree, file, procs);
}

static int look(const char *path, struct agent_qemu *qemu)
{
    return agent_occupant_read(&mounts, procfs, path, &pids, qemu);
}

static void test_a_machine_alone(void **state)
{
    struct agent_qemu qemu = {0};

    (void)state;
    process(7, "/usr/bin/qemu-system-x86_64|-name|guest=web|-uuid|" UUID "|");
    process(8, "");                       /* its vhost worker */
    process(9, "/usr/bin/swtpm|socket|"); /* its TPM */
    cgroup(VM, "8\n7\n9\n7\n12\n");       /* twice; one that has ended */
    assert_int_equal(look(VM, &qemu), 1);
    assert_string_equal(qemu.name, "web");
    assert_string_equal(qemu.uuid, UUID);
}

static void test_machines_with_company(void **state)
{
    struct agent_qemu qemu = {0};

    (void)state;
    process(7, "qemu-system-x86_64|-name|a|");
    process(8, "-bash|");
    process(9, "qemu-system-x86_64|-name|b|");
    cgroup(VM, "7\n8\n");
    assert_int_equal(look(VM, &qemu), 0);
    cgroup(VM, "8\n7\n");
    assert_int_equal(look(VM, &qemu), 0);
    cgroup(VM, "7\n9\n"); /* two machines are none */
    assert_int_equal(look(VM, &qemu), 0);
    cgroup(VM, "7\n");
    cgroup(VM "/below", "8\n");
    assert_int_equal(look(VM, &qemu), 0);
    cgroup(VM "/below", "");
    assert_int_equal(look(VM, &qemu), 1);
    cgroup(VM, "");
    assert_int_equal(look(VM, &qemu), 0);
    cgroup(VM "/below", "9\n");
    assert_int_equal(look(VM, &qemu), 1);
    assert_string_equal(qemu.name, "b");
    assert_int_equal(look("/nowhere", &qemu), 0);
}

static void test_processes_of_another_namespace(void **state)
{
    struct agent_qemu qemu = {0};

    (void)state;
    cgroup(VM, "0\n0\n");
    assert_int_equal(look(VM, &qemu), -EACCES);
    process(7, "qemu-system-x86_64|");
    cgroup(VM, "garbage\n-1\n99999999999999999999\n0\n7");
    assert_int_equal(look(VM, &qemu), 1);
    assert_string_equal(qemu.name, "");
}

static void test_v1(void **state)
{
    struct agent_qemu qemu = {0};

    (void)state;
    (void)snprintf(mounts.paths[AGENT_HIERARCHY_CPUACCT], PATH_MAX, "%s/cpuacct", tree.root);
    process(7, "qemu-system-x86_64|-name|a|");
    cgroup(VM, "");
    kwt_tree_write(&tree, "cpuacct" VM "/cgroup.procs", "7\n");
    assert_int_equal(look(VM, &qemu), 1);
}

/* ------------------------------------------------------------------ the lookup */

static struct agent_ledger *ledger;
static struct agent_lookup *lookup;
static uint64_t now_ns;

static int setup_lookup(void **state)
{
    struct agent_lookup_conf conf = {
        .mounts = &mounts, .procfs_root = procfs, .host_root = tree.root};
    struct kw_err err = {0};

    now_ns = 1000 * KW_NS_PER_S;
    return setup(state) < 0 || agent_ledger_new(1, &ledger) < 0 ||
                   agent_lookup_start(&conf, &lookup, &err) < 0
               ? -1
               : 0;
}

static int teardown_lookup(void **state)
{
    agent_lookup_stop(&lookup);
    agent_ledger_free(&ledger);
    return teardown(state);
}

static struct agent_workload *attach(const char *path)
{
    struct agent_identity identity;
    struct agent_workload *workload = NULL;
    kw_cleanup(agent_label_unref) struct agent_label *container = NULL;

    assert_true(agent_identity_from_path(path, &identity));
    assert_int_equal(agent_ledger_attach(ledger, &identity, path, 1000, &workload, &container), 0);
    return workload;
}

static void sample(void)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);

    now_ns += KW_NS_PER_S;
    agent_lookup_name(lookup, workloads, n, now_ns);
}

/** Samples until the workload has this name; NULL: has none after a while. */
static void wait_for_name(const struct agent_workload *workload, const char *name)
{
    unsigned rounds = name != NULL ? 30000 : 100;

    for (unsigned i = 0; i < rounds; i++) {
        sample();
        if (name != NULL && workload->names != NULL && strcmp(workload->names->name, name) == 0)
            return;
        (void)usleep(1000);
    }
    if (name != NULL)
        fail_msg("no name %s, but %s", name,
                 workload->names != NULL ? workload->names->name : "none");
    assert_null(workload->names);
}

static enum kw_workload_kind kind_of(const struct agent_workload *workload)
{
    return agent_names_kind(workload->names, workload->label->kind);
}

static void test_a_machine_comes_late(void **state)
{
    (void)state;
    cgroup(VM, "");
    struct agent_workload *workload = attach(VM);
    uint64_t kin = workload->kin;

    wait_for_name(workload, NULL);
    assert_int_equal(kind_of(workload), KW_WORKLOAD_UNIT);
    process(7, "qemu-system-x86_64|-name|web|-uuid|" UUID "|");
    cgroup(VM, "7\n");
    wait_for_name(workload, "web");
    assert_int_equal(kind_of(workload), KW_WORKLOAD_VM);
    assert_string_equal(workload->names->uuid, UUID);
    assert_int_not_equal(workload->kin, kin);
    /* it stops, and what it drew stays a machine's */
    cgroup(VM, "");
    for (unsigned i = 0; i < 50; i++) {
        sample();
        (void)usleep(1000);
    }
    assert_string_equal(workload->names->name, "web");
    /* another one in its place */
    cgroup(VM, "9\n");
    process(9, "qemu-system-x86_64|-name|w\xff"
               "b|");
    wait_for_name(workload, "w\\xffb");
    assert_string_equal(workload->names->uuid, "");
}

static void test_containers_and_others(void **state)
{
    struct agent_workload *docker = attach("/system.slice/docker-" ID ".scope");
    struct agent_workload *pod = attach("/kubepods/pod6f1e0b52-8c8f-4d52-9f0e-0f6a3c2b1d44/" ID);

    (void)state;
    wait_for_name(docker, NULL);
    process(7, "qemu-system-x86_64|");
    cgroup("/kubepods/pod6f1e0b52-8c8f-4d52-9f0e-0f6a3c2b1d44", "7\n");
    kwt_tree_write(&tree, "var/lib/docker/containers/" ID "/config.v2.json",
                   "{\"ID\":\"" ID "\",\"Name\":\"/web\",\"Config\":{\"Image\":\"nginx\"}}");
    wait_for_name(docker, "web");
    assert_string_equal(docker->names->image, "nginx");
    assert_int_equal(kind_of(docker), KW_WORKLOAD_CONTAINER);
    assert_null(pod->names); /* pods are named by Kubernetes alone */
    /* a machine in a container is a machine; without a name of its own, the container's */
    process(8, "qemu-system-x86_64|-uuid|" UUID "|");
    cgroup("/system.slice/docker-" ID ".scope", "8\n");
    for (unsigned i = 0; i < 30000 && kind_of(docker) != KW_WORKLOAD_VM; i++) {
        sample();
        (void)usleep(1000);
    }
    assert_int_equal(kind_of(docker), KW_WORKLOAD_VM);
    assert_string_equal(docker->names->name, "web");
    assert_string_equal(docker->names->uuid, UUID);
    assert_string_equal(docker->names->image, "nginx");
}

/** Names are asked for in turn, however many there are. */
static void test_many(void **state)
{
    char path[256];

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(path, sizeof(path), "/run-r%u.scope", i);
        (void)attach(path);
    }
    process(7, "qemu-system-x86_64|-name|last|");
    cgroup("/run-r999.scope", "7\n");
    struct agent_workload *last = attach("/run-r999.scope");
    wait_for_name(last, "last");
}

/* ------------------------------------------------------------------ real ones */

/** Starts QEMU with a machine that never runs, in a cgroup. */
static pid_t start_qemu(const struct kwt_cgroup *where, const char *name)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (kwt_cgroup_enter(where) < 0)
            _exit(126);
        (void)execlp("qemu-system-x86_64", "qemu-system-x86_64", "-name", name, "-uuid", UUID,
                     "-machine", "none", "-nodefaults", "-nographic", "-S", "-monitor", "none",
                     (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void test_a_real_machine(void **state)
{
    struct kwt_cgroup where;
    struct agent_cgroups *cgroups = NULL;
    struct agent_cgroups_conf tree_conf = {
        .sysfs_root = "/sys", .procfs_root = "/proc", .cgroup_root = "/"};
    struct kw_err err = {0};

    (void)state;
    if (access("/usr/bin/qemu-system-x86_64", X_OK) < 0) {
        (void)printf("SKIP: qemu-system-x86_64 is not installed\n");
        skip();
    }
    kwt_cgroup_need();
    kwt_cgroup_make(&where, !kwt_cgroup_possible(false), "machine");
    assert_int_equal(agent_cgroups_new(&tree_conf, &cgroups, &err), 0);
    struct agent_lookup_conf conf = {
        .mounts = agent_cgroups_mounts(cgroups), .procfs_root = "/proc", .host_root = ""};
    assert_int_equal(agent_ledger_new(1, &ledger), 0);
    assert_int_equal(agent_lookup_start(&conf, &lookup, &err), 0);
    struct agent_workload *workload = attach(where.path);

    pid_t pid = start_qemu(&where, "guest=db,,1,debug-threads=on,process=nginx");
    wait_for_name(workload, "db,1");
    assert_int_equal(kind_of(workload), KW_WORKLOAD_VM);
    assert_string_equal(workload->names->uuid, UUID);
    kwt_kill(pid);
    /* the same cgroup, another machine: whatever number its process has */
    pid = start_qemu(&where, "web");
    wait_for_name(workload, "web");
    kwt_kill(pid);
    agent_lookup_stop(&lookup);
    agent_ledger_free(&ledger);
    agent_cgroups_free(&cgroups);
    kwt_cgroup_remove(&where);
    agent_pids_free(&pids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_machine_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_machines_with_company, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes_of_another_namespace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_v1, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_machine_comes_late, setup_lookup, teardown_lookup),
        cmocka_unit_test_setup_teardown(test_containers_and_others, setup_lookup, teardown_lookup),
        cmocka_unit_test_setup_teardown(test_many, setup_lookup, teardown_lookup),
        cmocka_unit_test(test_a_real_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
