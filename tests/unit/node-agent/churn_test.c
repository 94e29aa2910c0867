/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that come and go by the thousand while the agent looks: real cgroups with real processes,
 * the real accounting, booking and ledger; only the meter is played, whose energy is known to the
 * microjoule, and the clock of the ledger, so that a quarter of an hour passes in no time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/booking.h"
#include "node-agent/sampler.h"
#include "tests/support/cgroup_rig.h"
#include "tests/support/cmocka.h"

/* Bytes that are allocated at present; absent without AddressSanitizer. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

#define BATCH   100
#define BATCHES 100
/* Of CPU time, each: longer than entering a cgroup takes, short enough for ten thousand. */
#define SPIN_NS (150 * UINT64_C(1000))

struct pod {
    struct kwt_cgroup pod, container;
    char uid[64];
};

static struct agent_topology topology;
static const struct agent_accounting_ops *accounting = &agent_accounting_ebpf;
static void *accounting_self;
static struct agent_cgroups *cgroups;
static struct agent_ledger *ledger;
static struct agent_booking *booking;
static void *method;
static struct agent_usage usage;
static struct kwt_cgroup root, kubepods;
static uint64_t measured_uj;
static uint64_t ahead_ns; /* of the ledger's clock */
static size_t departed;

static void forget(void *user, uint64_t number)
{
    (void)user;
    departed++;
    agent_attributions[0]->forget(method, number);
}

/** The books balance to the microjoule, whatever happens. */
static void check_books(void)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);
    const struct kw_energy *total = agent_ledger_total(ledger, 0);
    const struct agent_system_parts *system = agent_ledger_system(ledger);
    uint64_t pods_uj = agent_ledger_departed_uj(ledger), system_uj = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t containers_uj = 0;
        for (size_t k = 0; k < workloads[i]->n_containers; k++)
            containers_uj += workloads[i]->containers[k].active_uj;
        assert_true(containers_uj <= workloads[i]->cpu_uj);
        pods_uj += workloads[i]->cpu_uj + workloads[i]->dram_uj;
    }
    for (unsigned part = 0; part < AGENT_SYSTEM__MAX; part++)
        system_uj += system->uj[part];
    assert_true(total->measured_uj == measured_uj);
    assert_true(total->measured_uj ==
                total->idle_uj + total->pods_uj + total->system_uj + total->unattributed_uj);
    assert_true(total->pods_uj == pods_uj);
    assert_true(total->system_uj == system_uj);
}

static void window(bool baseline)
{
    static uint64_t last_ns;
    uint64_t interval_ns, sigma_mw;

    assert_int_equal(accounting->read(accounting_self, &usage), 0);
    assert_int_equal(agent_cgroups_update(cgroups, usage.t_ns), 0);
    agent_ledger_begin(ledger);
    assert_int_equal(
        agent_booking_take(booking, &usage, baseline, usage.t_ns + ahead_ns, kw_now_unix_ms()), 0);
    interval_ns = baseline ? 0 : usage.t_ns - last_ns;
    last_ns = usage.t_ns;
    if (baseline)
        return;
    struct agent_ledger_energy energy = {
        .package = AGENT_PACKAGES_MAX, /* by all CPU time */
        .measured_uj = 999983 + usage.t_ns % 1000003,
        .interval_ns = interval_ns,
        .idle_prior_mw = 1,
        .usage_known = true,
    };
    measured_uj += energy.measured_uj;
    (void)agent_ledger_split(ledger, agent_attributions[0], method, &energy, &sigma_mw);
    agent_ledger_end(ledger, usage.t_ns + ahead_ns, interval_ns, forget, NULL);
    check_books();
}

static int setup(void **state)
{
    struct kw_err err = {0};
    struct agent_cgroups_conf cgroups_conf = {"/sys", "/proc", root.path};

    (void)state;
    kwt_cgroup_make(&root, !kwt_cgroup_possible(false), "churn");
    kwt_cgroup_make_below(&kubepods, &root, "kubepods");
    assert_int_equal(agent_topology_read("/sys", "/proc", &topology), 0);
    struct agent_accounting_conf conf = {
        .topology = &topology, .sysfs_root = "/sys", .procfs_root = "/proc"};
    if (accounting->open(&conf, &accounting_self, &err) < 0) {
        printf("SKIP: short-lived processes are seen with eBPF only: %s\n", err.text);
        kwt_cgroup_remove(&kubepods);
        kwt_cgroup_remove(&root);
        exit(77);
    }
    measured_uj = ahead_ns = 0;
    departed = 0;
    assert_int_equal(agent_cgroups_new(&cgroups_conf, &cgroups, &err), 0);
    assert_int_equal(agent_attributions[0]->open(AGENT_WORKLOADS_MAX + 1, &method), 0);
    assert_int_equal(agent_ledger_new(topology.n_packages, &ledger), 0);
    struct agent_booking_conf booking_conf = {.n_packages = topology.n_packages,
                                              .accounting = accounting,
                                              .accounting_self = accounting_self,
                                              .cgroups = cgroups,
                                              .ledger = ledger};
    assert_int_equal(agent_booking_new(&booking_conf, &booking), 0);
    window(true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_booking_free(&booking);
    agent_ledger_free(&ledger);
    agent_attributions[0]->close(&method);
    agent_usage_free(&usage);
    agent_cgroups_free(&cgroups);
    accounting->close(&accounting_self);
    kwt_cgroup_remove(&kubepods);
    kwt_cgroup_remove(&root);
    return 0;
}

static uint64_t spent_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/** CPU time that processes had when they entered their cgroups. */
static uint64_t taken_along_ns;

/** A process in a cgroup, to its end. Not fork: a sanitizer's memory makes that 40 times dearer.
 */
static void live(const struct kwt_cgroup *cgroup, uint64_t cpu_ns)
{
    char file[PATH_MAX + 16];
    int status = 0;

    (void)snprintf(file, sizeof(file), "%s/cgroup.procs", cgroup->dir);
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): see above
    if (pid == 0) {
        bool entered = write(fd, "0", 1) == 1;
        uint64_t from_ns = spent_ns();
        taken_along_ns += from_ns; /* the parent's: vfork shares its memory */
        while (spent_ns() - from_ns < cpu_ns)
            ;
        _exit(entered ? 0 : 1);
    }
    assert_true(pid > 0);
    (void)close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void make_pod(struct pod *pod, unsigned number)
{
    char name[80];

    (void)snprintf(pod->uid, sizeof(pod->uid), "%08x-0000-4000-8000-%012x", number * 2654435761U,
                   number);
    (void)snprintf(name, sizeof(name), "pod%s", pod->uid);
    kwt_cgroup_make_below(&pod->pod, &kubepods, name);
    (void)snprintf(name, sizeof(name), "%064x", number);
    kwt_cgroup_make_below(&pod->container, &pod->pod, name);
}

static struct agent_workload *find_pod(const char *uid)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(workloads[i]->label->id, uid) == 0)
            return workloads[i];
    }
    return NULL;
}

/** Pods of a batch; of each second one the process runs before anybody has looked at its cgroup,
 * and of each third one its end is not seen apart from its start either. @return kernel's CPU time.
 */
static uint64_t batch(unsigned first, struct pod pods[BATCH])
{
    uint64_t kernel_ns = 0;

    for (unsigned i = 0; i < BATCH; i++) {
        make_pod(&pods[i], first + i);
        if (i % 2 == 0)
            live(&pods[i].container, SPIN_NS);
    }
    window(false);
    for (unsigned i = 0; i < BATCH; i++) {
        if (i % 2 != 0)
            live(&pods[i].container, SPIN_NS);
        kernel_ns += kwt_cgroup_usage_ns(&pods[i].container);
        kwt_cgroup_remove(&pods[i].container);
        kwt_cgroup_remove(&pods[i].pod);
    }
    return kernel_ns;
}

static void storm(unsigned first, unsigned batches, uint64_t *ret_kernel_ns)
{
    struct pod pods[BATCH];

    *ret_kernel_ns = 0;
    for (unsigned i = 0; i < batches; i++)
        *ret_kernel_ns += batch(first + i * BATCH, pods);
    for (unsigned i = 0; i < 4; i++) /* their last slices, and two looks more */
        window(false);
}

static void test_ten_thousand_pods(void **state)
{
    struct agent_workload *const *workloads = NULL;
    uint64_t kernel_ns = 0, ours_ns = 0;
    size_t below = 0;

    (void)state;
    taken_along_ns = 0;
    storm(0, BATCHES, &kernel_ns);
    size_t n = agent_ledger_workloads(ledger, &workloads);
    assert_int_equal(n, (size_t)BATCH * BATCHES); /* none lost, none twice, nobody else */
    assert_int_equal(departed, 0);
    for (size_t i = 0; i < n; i++) {
        const struct agent_workload *workload = workloads[i];
        ours_ns += workload->cpu_ns;
        assert_int_equal(workload->label->kind, KW_WORKLOAD_POD);
        assert_true(workload->cgroups == 0 && workload->ended_unix_ms != 0);
        assert_int_equal(workload->n_containers, 1);
        below += workload->cpu_ns < SPIN_NS;
        assert_true(workload->containers[0].cpu_ns == workload->cpu_ns);
    }
    print_message("%zu have less than they used\n", below);
    assert_int_equal(below, 0);
    for (unsigned i = 0; i < BATCHES; i++) { /* by name, too */
        struct pod pod;
        (void)snprintf(pod.uid, sizeof(pod.uid), "%08x-0000-4000-8000-%012x",
                       i * BATCH * 2654435761U, i * BATCH);
        assert_non_null(find_pod(pod.uid));
    }
    print_message("%llu us of the kernel's count, %llu us of ours, %llu us before they entered\n",
                  (unsigned long long)(kernel_ns / 1000), (unsigned long long)(ours_ns / 1000),
                  (unsigned long long)(taken_along_ns / 1000));
    /* the kernel lets a process take the time since its last tick along to the cgroup that it
     * enters; ours counts from the last look at the clock on */
    assert_true(ours_ns < kernel_ns + kernel_ns / 20);
    assert_true(ours_ns + taken_along_ns > kernel_ns - kernel_ns / 20);
    /* a quarter of an hour later their energy is all that is left of them */
    uint64_t before_uj = agent_ledger_total(ledger, 0)->pods_uj;
    ahead_ns += AGENT_DEPART_NS + KW_NS_PER_S;
    window(false);
    assert_int_equal(agent_ledger_workloads(ledger, &workloads), 0);
    assert_int_equal(departed, (size_t)BATCH * BATCHES);
    assert_true(agent_ledger_departed_uj(ledger) == before_uj);
}

/** Time of the keys that are nobody's in particular, and whether each has one row. */
static uint64_t unknown_ns(size_t *ret_keys)
{
    uint64_t ns = 0;

    *ret_keys = 0;
    for (size_t i = 0; i < usage.n; i++) {
        if (agent_key_is_fixed(usage.keys[i]) || agent_cgroups_find(cgroups, usage.keys[i]) != NULL)
            continue;
        for (unsigned p = 0; p < usage.n_packages; p++)
            ns += usage.cpu_ns[i * usage.n_packages + p];
        ++*ret_keys;
    }
    return ns;
}

/** Ten thousand that start and end between two looks, more than twice what the accounting makes
 * room for at first: each has its own time, which the books have once, and their room returns. */
static void test_a_storm_between_two_looks(void **state)
{
    enum { PODS = BATCH * BATCHES };
    const struct agent_system_parts *system = agent_ledger_system(ledger);
    struct pod pod;
    uint64_t kernel_ns = 0;
    size_t keys;

    (void)state;
    window(false);
    uint64_t before_ns = system->cpu_ns[AGENT_SYSTEM_OTHER];
    taken_along_ns = 0;
    for (unsigned i = 0; i < PODS; i++) {
        make_pod(&pod, 1000000 + i);
        live(&pod.container, SPIN_NS);
        kernel_ns += kwt_cgroup_usage_ns(&pod.container);
        kwt_cgroup_remove(&pod.container);
        kwt_cgroup_remove(&pod.pod);
    }
    window(false);
    assert_false(usage.overflowed);
    uint64_t ours_ns = unknown_ns(&keys);
    print_message("%zu cgroups, %llu us of the kernel's count, %llu us of ours, %llu us booked\n",
                  keys, (unsigned long long)(kernel_ns / 1000),
                  (unsigned long long)(ours_ns / 1000),
                  (unsigned long long)((system->cpu_ns[AGENT_SYSTEM_OTHER] - before_ns) / 1000));
    assert_true(keys >= PODS);
    assert_true(ours_ns + taken_along_ns > kernel_ns - kernel_ns / 20);
    assert_true(system->cpu_ns[AGENT_SYSTEM_OTHER] - before_ns >= PODS * SPIN_NS);
    assert_true(system->cpu_ns[AGENT_SYSTEM_OTHER] - before_ns <= kernel_ns + kernel_ns / 20);
    window(false); /* nothing of theirs moved: they go */
    window(false);
    (void)unknown_ns(&keys);
    assert_true(keys < BATCH);
}

/** What one storm takes the next takes again. The lists of what the whole machine runs may grow
 * meanwhile, by doubling, so not at each storm; what is kept of every pod would be seen at each. */
static void test_memory_returns(void **state)
{
    enum { STORMS = 8, BATCHES_EACH = 10 };
    size_t before, after = 0;
    uint64_t kernel_ns;
    bool returned = false;

    (void)state;
    if (__sanitizer_get_current_allocated_bytes == NULL)
        skip();
    for (unsigned i = 0; i < STORMS && !returned; i++) {
        before = after;
        storm(100000 + i * BATCHES_EACH * BATCH, BATCHES_EACH, &kernel_ns);
        ahead_ns += AGENT_DEPART_NS + KW_NS_PER_S;
        window(false);
        after = __sanitizer_get_current_allocated_bytes();
        print_message("%zu bytes after storm %u\n", after, i);
        returned = after <= before + (size_t)BATCHES_EACH * BATCH * 4; /* bytes a pod */
    }
    assert_true(returned);
}

/** More pods than can be listed: those that ended first leave early, and nobody's energy goes
 * astray.
 */
static void test_more_than_can_be_listed(void **state)
{
    struct agent_identity identity;
    struct agent_workload *workload = NULL;
    uint64_t now_ns = usage.t_ns;
    unsigned refused = 0;

    (void)state;
    for (unsigned i = 0; i < 3 * AGENT_WORKLOADS_MAX; i++) {
        char path[128];
        kw_cleanup(agent_label_unref) struct agent_label *label = NULL;
        (void)snprintf(path, sizeof(path), "/kubepods/pod%08x-0000-4000-8000-%012x", i, i);
        assert_true(agent_identity_from_path(path, &identity));
        int rc = agent_ledger_attach(ledger, &identity, path, 1, &workload, &label);
        assert_true(rc == 0 || rc == -ENOSPC);
        refused += rc < 0;
        if (rc == 0)
            agent_ledger_detach(workload, label, now_ns, 1);
        if (i % 100 == 99) { /* 100 a second */
            now_ns += KW_NS_PER_S;
            agent_ledger_begin(ledger);
            agent_ledger_end(ledger, now_ns, KW_NS_PER_S, forget, NULL);
        }
    }
    assert_int_equal(refused, 0);
}

/** One process that moves on every 2 ms: each cgroup gets what was used in it, and a pid that was
 * used before means nothing. */
static void test_moves(void **state)
{
    enum { PODS = 5, ROUNDS = 20 };
    struct pod pods[PODS];
    uint64_t kernel_ns[PODS];

    (void)state;
    for (unsigned i = 0; i < PODS; i++)
        make_pod(&pods[i], 200000 + i);
    window(false);
    pid_t pid = fork();
    assert_true(pid >= 0);
    for (unsigned i = 0; pid == 0 && i < ROUNDS * PODS; i++) {
        if (kwt_cgroup_enter(&pods[i % PODS].container) < 0)
            _exit(1);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1}, NULL);
        uint64_t from_ns = spent_ns();
        while (spent_ns() - from_ns < (1 + i % PODS) * KW_NS_PER_MS)
            ;
    }
    if (pid == 0)
        _exit(0);
    kwt_reap(pid);
    window(false);
    for (unsigned i = 0; i < PODS; i++) {
        kernel_ns[i] = kwt_cgroup_usage_ns(&pods[i].container);
        const struct agent_workload *workload = find_pod(pods[i].uid);
        assert_non_null(workload);
        print_message("%llu us, %llu us\n", (unsigned long long)(kernel_ns[i] / 1000),
                      (unsigned long long)(workload->cpu_ns / 1000));
        assert_true(workload->cpu_ns >= ROUNDS * (1 + i) * KW_NS_PER_MS * 9 / 10);
        assert_true(workload->cpu_ns <= kernel_ns[i] + kernel_ns[i] / 5 + KW_NS_PER_MS);
        assert_true(workload->cpu_ns + workload->cpu_ns / 5 + KW_NS_PER_MS >= kernel_ns[i]);
        kwt_cgroup_remove(&pods[i].container);
        kwt_cgroup_remove(&pods[i].pod);
    }
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_ten_thousand_pods),
        TEST(test_a_storm_between_two_looks),
        TEST(test_memory_returns),
        TEST(test_more_than_can_be_listed),
        TEST(test_moves),
    };

    kwt_cgroup_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
