/* SPDX-License-Identifier: Apache-2.0 */
/* What goes through a recorder is split as without it, and its file gives the same again. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-agent/recorder.h"
#include "node-agent/replay.h"
#include "tests/support/cmocka.h"
#include "tests/support/count_alloc.h"
#include "tests/support/tree.h"

#define WINDOWS   200
#define WINDOW_NS UINT64_C(100000000)
#define GROWTHS   20 /* of a buffer, twofold, from some bytes to 4 MiB */

static struct kwt_tree tree;
static char file[128];

static int setup(void **state)
{
    (void)state;
    kwt_tree_make(&tree);
    (void)snprintf(file, sizeof(file), "%s/r.jsonl", tree.root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kwt_tree_remove(&tree);
    return 0;
}

struct rig {
    struct agent_ledger *ledger;
    struct agent_recorder *recorder;
    struct agent_workload *workloads[3];
    void *method;
    uint64_t departed;
};

static void forget(void *user, uint64_t number)
{
    struct rig *rig = user;

    agent_recorder_ops.forget(rig->recorder, number);
    rig->departed++;
}

static void begin(struct rig *rig, uint64_t limit_bytes)
{
    static const char *const ids[] = {"/a.service", "/b\xff.service", "/c\"\n.service"};
    static const struct agent_topology topology = {.n_cpus = 2,
                                                   .n_online = 2,
                                                   .n_cores = 2,
                                                   .n_packages = 1,
                                                   .package_cpus = {2},
                                                   .cpu_core = {1, 2}};
    struct agent_recording_header header = {.node = "n\"1",
                                            .method = "kalman",
                                            .meter = "test",
                                            .n_online = 2,
                                            .package_cpus = {2},
                                            .has = AGENT_HAS_COUNTERS};
    struct kw_err err = {0};

    *rig = (struct rig){0};
    assert_int_equal(agent_recorder_open(file, limit_bytes, &rig->recorder, &err), 0);
    assert_int_equal(agent_recorder_start(rig->recorder, &header, &topology, NULL), 0);
    assert_int_equal(agent_attribution_kalman.open(AGENT_WORKLOADS_MAX + 1, &rig->method), 0);
    agent_recorder_stand_before(rig->recorder, &agent_attribution_kalman, rig->method);
    assert_int_equal(agent_ledger_new(1, &rig->ledger), 0);
    for (size_t i = 0; i < 3; i++) {
        struct agent_identity identity = {.kind = KW_WORKLOAD_UNIT};
        struct agent_label *unused = NULL;
        (void)snprintf(identity.id, sizeof(identity.id), "%s", ids[i]);
        (void)snprintf(identity.name, sizeof(identity.name), "u%zu", i);
        assert_int_equal(
            agent_ledger_attach(rig->ledger, &identity, ids[i], 1, &rig->workloads[i], &unused), 0);
    }
}

static void window(struct rig *rig, unsigned k)
{
    uint64_t now_ns = 1000 + (k + 1) * WINDOW_NS, unused = 0;

    agent_ledger_begin(rig->ledger);
    for (size_t i = 0; i < 3; i++) {
        uint64_t cpu_ns = (k * 7919 + i * 104729) % 50 * 1000000;
        struct agent_counts counts = {.cycles = cpu_ns * 3, .instructions = cpu_ns * (i + 1)};
        if (rig->workloads[i] != NULL)
            agent_ledger_use(rig->ledger, rig->workloads[i], NULL, &cpu_ns, &counts);
    }
    for (unsigned slot = 0; slot < 2; slot++) {
        struct agent_ledger_energy energy = {.slot = slot,
                                             .dram = slot == 1,
                                             .measured_uj = 3000000 + (k * 31) % 17 * 100000,
                                             .interval_ns = WINDOW_NS,
                                             .idle_prior_mw = 10000,
                                             .usage_known = k % 50 != 49,
                                             .n_cpus = 2,
                                             .has = AGENT_HAS_COUNTERS};
        (void)agent_ledger_split(rig->ledger, &agent_recorder_ops, rig->recorder, &energy, &unused);
    }
    agent_recorder_window(rig->recorder, rig->ledger, now_ns, WINDOW_NS);
    agent_ledger_end(rig->ledger, now_ns, WINDOW_NS, forget, rig);
}

static void end(struct rig *rig)
{
    agent_recorder_close(&rig->recorder);
    agent_attribution_kalman.close(&rig->method);
    agent_ledger_free(&rig->ledger);
}

static void assert_same(const struct agent_replay *replay, const struct agent_workload *workload,
                        const uint64_t uj[2])
{
    size_t place = agent_recording_place(replay->recording, workload->number);

    assert_int_not_equal(place, SIZE_MAX);
    assert_int_equal(replay->methods[0].workloads[place].uj[0], uj[0]);
    assert_int_equal(replay->methods[0].workloads[place].uj[1], uj[1]);
}

static void test_same_energies_again(void **state)
{
    struct rig rig;
    struct agent_replay replay;
    struct kw_err err = {0};
    uint64_t uj[3][2];
    struct stat status;

    (void)state;
    begin(&rig, UINT64_MAX);
    for (unsigned k = 0; k < WINDOWS; k++)
        window(&rig, k);
    for (size_t i = 0; i < 3; i++) {
        uj[i][0] = rig.workloads[i]->cpu_uj;
        uj[i][1] = rig.workloads[i]->dram_uj;
        assert_true(uj[i][0] > 0 && uj[i][1] > 0);
    }
    agent_recorder_close(&rig.recorder);
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(agent_replay_run(&replay, file, NULL, &err), 0);
    assert_string_equal(err.text, "");
    assert_int_equal(replay.windows, WINDOWS);
    assert_int_equal(replay.flags.usage_unknown, WINDOWS / 50);
    assert_int_equal(replay.flags.lost, 0);
    for (size_t i = 0; i < 3; i++)
        assert_same(&replay, rig.workloads[i], uj[i]);
    for (unsigned slot = 0; slot < 2; slot++) {
        const struct kw_energy *total = agent_ledger_total(rig.ledger, slot);
        const struct agent_replay_domain *domain = &replay.methods[0].domains[slot];
        assert_int_equal(domain->measured_uj, total->measured_uj);
        assert_int_equal(domain->idle_uj, total->idle_uj);
        assert_int_equal(domain->system_uj, total->system_uj);
        assert_int_equal(domain->unattributed_uj, total->unattributed_uj);
    }
    agent_replay_free(&replay);
    end(&rig);
}

/** Every method splits without an allocation once it knows its workloads. */
static void test_methods_allocate_nothing(void **state)
{
    static struct agent_features features[200];
    static struct agent_share shares[200];
    void *self = NULL;

    (void)state;
    for (size_t m = 0; agent_attributions[m] != NULL; m++) {
        size_t before = 0;
        assert_int_equal(agent_attributions[m]->open(AGENT_WORKLOADS_MAX + 1, &self), 0);
        for (unsigned k = 0; k < 300; k++) {
            struct agent_window window = {.domain = k % 2,
                                          .dram = k % 2 == 1,
                                          .has = AGENT_HAS_SMT | AGENT_HAS_COUNTERS,
                                          .n_cpus = 64,
                                          .interval_ns = WINDOW_NS,
                                          .measured_uj = 3000000 + k % 17 * 100000,
                                          .idle_prior_mw = 10000,
                                          .n = 200,
                                          .features = features};
            struct agent_split split = {.shares = shares};
            if (k == 2) /* each domain had its first window */
                before = kwt_allocations();
            for (size_t i = 0; i < 200; i++) /* a new one in every window, and one that ended */
                features[i] =
                    (struct agent_features){.workload = i > 0 ? i + k : 0,
                                            .kin = i % 7,
                                            .cpu_ns = (k * 7919 + i * 104729) % 50 * 1000000,
                                            .cycles = 100000000,
                                            .instructions = 100000000};
            agent_attributions[m]->forget(self, k);
            agent_attributions[m]->split(self, &window, &split);
        }
        assert_int_equal(kwt_allocations(), before);
        agent_attributions[m]->close(&self);
    }
}

/** From the ledger to the file: no window allocates. Only the two buffers may grow, twofold each
 * time and to 4 MiB at most, as the writer comes to run. */
static void test_windows_allocate_nothing(void **state)
{
    struct rig rig;

    (void)state;
    begin(&rig, UINT64_MAX);
    for (unsigned k = 0; k < 50; k++)
        window(&rig, k);
    size_t before = kwt_allocations();
    for (unsigned k = 50; k < 3050; k++)
        window(&rig, k);
    assert_true(kwt_allocations() - before <= 2 * GROWTHS);
    end(&rig);
    assert_int_equal(unlink(file), 0); /* others begin it anew */
}

static void test_a_full_file_is_left_alone(void **state)
{
    struct agent_recorder *recorder = NULL;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(agent_recorder_open(file, 1 << 20, &recorder, &err), -EEXIST);
    assert_non_null(strstr(err.text, "not written over"));
    assert_int_equal(agent_recorder_open("/nowhere/x", 1 << 20, &recorder, &err), -ENOENT);
    assert_int_equal(agent_recorder_open(tree.root, 1 << 20, &recorder, &err), -EISDIR);
    assert_null(recorder);
}

static void test_two_do_not_record_into_one_file(void **state)
{
    struct agent_recorder *first = NULL, *second = NULL;
    struct kw_err err = {0};

    (void)state;
    assert_int_equal(unlink(file), 0);
    assert_int_equal(agent_recorder_open(file, 1 << 20, &first, &err), 0);
    assert_int_equal(agent_recorder_open(file, 1 << 20, &second, &err), -EBUSY);
    assert_non_null(strstr(err.text, "another agent is recording"));
    assert_null(second);
    agent_recorder_close(&first);
    assert_int_equal(agent_recorder_open(file, 1 << 20, &second, &err), 0);
    agent_recorder_close(&second);
}

static void test_the_limit_ends_it_with_a_whole_line(void **state)
{
    struct rig rig;
    struct agent_replay replay;
    struct kw_err err = {0};
    struct stat status;

    (void)state;
    assert_int_equal(unlink(file), 0);
    begin(&rig, 20000);
    for (unsigned k = 0; k < WINDOWS; k++)
        window(&rig, k);
    end(&rig);
    assert_int_equal(stat(file, &status), 0);
    assert_true(status.st_size <= 20000);
    assert_true(status.st_size > 15000);
    assert_int_equal(agent_replay_run(&replay, file, NULL, &err), 0);
    assert_false(replay.flags.cut);
    assert_true(replay.windows > 10 && replay.windows < WINDOWS);
    agent_replay_free(&replay);
}

static void test_without_a_window_nothing_is_left(void **state)
{
    struct rig rig;
    struct stat status;

    (void)state;
    assert_int_equal(unlink(file), 0);
    begin(&rig, UINT64_MAX);
    end(&rig);
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_size, 0);
}

/** A disk that is full, and a pipe that nobody reads, cost the sampling thread nothing. */
static void test_what_cannot_be_written(void **state)
{
    struct rig rig;
    char was[sizeof(file)];

    (void)state;
    (void)snprintf(was, sizeof(was), "%s", file);
    (void)snprintf(file, sizeof(file), "/dev/full");
    begin(&rig, UINT64_MAX);
    for (unsigned k = 0; k < WINDOWS; k++)
        window(&rig, k);
    end(&rig);
    (void)snprintf(file, sizeof(file), "%s/pipe", tree.root);
    assert_int_equal(mkfifo(file, 0600), 0);
    struct agent_recorder *recorder = NULL;
    struct kw_err err = {0};
    assert_int_equal(agent_recorder_open(file, 1 << 20, &recorder, &err), -ENXIO);
    int reader = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    begin(&rig, UINT64_MAX);
    for (unsigned k = 0; k < 20 * WINDOWS; k++)
        window(&rig, k);
    end(&rig); /* gives up on the pipe */
    assert_int_equal(close(reader), 0);
    (void)snprintf(file, sizeof(file), "%s", was);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods_allocate_nothing),
        cmocka_unit_test(test_windows_allocate_nothing),
        cmocka_unit_test(test_same_energies_again),
        cmocka_unit_test(test_a_full_file_is_left_alone),
        cmocka_unit_test(test_two_do_not_record_into_one_file),
        cmocka_unit_test(test_the_limit_ends_it_with_a_whole_line),
        cmocka_unit_test(test_without_a_window_nothing_is_left),
        cmocka_unit_test(test_what_cannot_be_written),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
