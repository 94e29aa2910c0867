/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole samples from a machine of text files: a powercap tree, a cgroup tree, and an accounting
 * that this test plays (what the kernel counts is tested with the real one in e2e/). Allocations
 * are counted by wrapping the allocator at link time: in steady state there must be none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/sampler.h"
#include "tests/support/cmocka.h"
#include "tests/support/count_alloc.h"
#include "tests/unit/node-agent/meter_rig.h"

#define ROWS 64

/* The played accounting. */
static struct {
    size_t n;
    uint64_t keys[ROWS];
    uint64_t cpu_ns[ROWS][2];
    bool smt;
    struct agent_more more[ROWS * 2];
    int error;
    size_t forgotten;
} played;

static int played_read(void *self, struct agent_usage *ret)
{
    (void)self;
    if (played.error != 0)
        return played.error;
    if (ret->cap < ROWS) {
        ret->keys = calloc(ROWS, sizeof(uint64_t));
        ret->cpu_ns = calloc((size_t)ROWS * 2, sizeof(uint64_t));
        if (ret->keys == NULL || ret->cpu_ns == NULL)
            return -ENOMEM;
        ret->cap = ROWS;
    }
    ret->t_ns = kw_now_ns();
    ret->n = played.n;
    ret->n_packages = 2;
    if (played.smt && ret->more == NULL) {
        ret->more = calloc((size_t)ROWS * 2, sizeof(*ret->more));
        if (ret->more == NULL)
            return -ENOMEM;
        ret->cap_more = (size_t)ROWS * 2;
    }
    ret->features = played.smt ? AGENT_FEATURE_BIT(AGENT_FEATURE_SMT) : 0;
    if (played.smt)
        memcpy(ret->more, played.more, sizeof(played.more));
    memcpy(ret->keys, played.keys, sizeof(played.keys));
    memcpy(ret->cpu_ns, played.cpu_ns, sizeof(played.cpu_ns));
    return 0;
}

static void played_forget(void *self, const uint64_t *keys, size_t n)
{
    (void)self;
    played.forgotten += n;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < played.n; k++) {
            if (played.keys[k] != keys[i])
                continue;
            played.n--;
            played.keys[k] = played.keys[played.n];
            memcpy(played.cpu_ns[k], played.cpu_ns[played.n], sizeof(played.cpu_ns[k]));
        }
    }
}

static const struct agent_accounting_ops accounting = {
    .name = "played", .read = played_read, .forget = played_forget};

static struct kwt_tree tree;
static struct agent_topology topology;
static struct agent_cgroups *cgroups;
static struct agent_metering *metering;
static struct agent_sampler *sampler;
static struct agent_snapshot *last;
static uint64_t counter_uj[2];

static void set_counter(unsigned zone)
{
    char path[128], text[32];

    (void)snprintf(path, sizeof(path), "class/powercap/intel-rapl:%u/energy_uj", zone);
    (void)snprintf(text, sizeof(text), "%-20llu\n", (unsigned long long)counter_uj[zone]);
    kwt_tree_write(&tree, path, text);
}

static uint64_t cgroup_key(const char *path)
{
    char full[512];
    struct stat info;

    (void)snprintf(full, sizeof(full), "%s/fs/cgroup%s", tree.root, path);
    assert_int_equal(stat(full, &info), 0);
    return info.st_ino;
}

static size_t play_cgroup(const char *path)
{
    char folder[512];

    (void)snprintf(folder, sizeof(folder), "fs/cgroup%s", path);
    kwt_tree_mkdir(&tree, folder);
    played.keys[played.n] = cgroup_key(path);
    memset(played.cpu_ns[played.n], 0, sizeof(played.cpu_ns[0]));
    return played.n++;
}

static void start(void)
{
    struct agent_cgroups_conf cgroups_conf = {
        .sysfs_root = tree.root, .procfs_root = tree.root, .cgroup_root = "/"};
    struct agent_meter_conf meter_conf = {.topology = &topology, .sysfs_root = tree.root};
    struct kw_err err = {0};

    if (agent_cgroups_new(&cgroups_conf, &cgroups, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(agent_metering_new("powercap", &meter_conf, &metering, NULL), 0);
    struct agent_sampler_conf conf = {
        .topology = &topology,
        .accounting = &accounting,
        .cgroups = cgroups,
        .metering = metering,
        .method = agent_attributions[0],
        .prior.idle_mw = 1,
        .idle_policy = AGENT_IDLE_EQUAL,
        .node = "test",
        .boot_id = "boot",
    };
    assert_int_equal(agent_sampler_new(&conf, &sampler), 0);
}

static int setup(void **state)
{
    (void)state;
    memset(&played, 0, sizeof(played));
    kwt_tree_make(&tree);
    kwt_meter_topology(&topology, 2, "GenuineIntel");
    for (unsigned zone = 0; zone < 2; zone++) {
        char dir[32], name[32];
        (void)snprintf(dir, sizeof(dir), "intel-rapl:%u", zone);
        (void)snprintf(name, sizeof(name), "package-%u\n", zone);
        kwt_meter_zone(&tree, dir, name, "0\n", "262143328850\n");
        counter_uj[zone] = 1000;
        set_counter(zone);
    }
    kwt_tree_write(&tree, "fs/cgroup/cgroup.controllers", "cpu memory\n");
    played.keys[0] = AGENT_KEY_SYSTEM;
    played.n = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (last != NULL)
        agent_snapshot_recycle(last);
    last = NULL;
    agent_sampler_free(&sampler);
    agent_metering_free(&metering);
    agent_cgroups_free(&cgroups);
    kwt_tree_remove(&tree);
    return 0;
}

static struct agent_sample_notes sample(void)
{
    struct agent_sample_notes notes;
    struct agent_snapshot *next = NULL;
    uint64_t pods_uj = 0, rows_uj = 0, idle_uj = 0, shared_uj = 0;

    agent_sampler_window(sampler, KW_NS_PER_S, &notes);
    assert_int_equal(agent_sampler_show(sampler, &next), 0);
    if (last != NULL)
        agent_snapshot_recycle(last);
    last = next;
    for (unsigned p = 0; p < last->sample.n_packages; p++) {
        assert_int_equal(kw_energy_error_uj(&last->sample.packages[p].cpu), 0);
        assert_int_equal(kw_energy_error_uj(&last->sample.packages[p].dram), 0);
        pods_uj += last->sample.packages[p].cpu.pods_uj + last->sample.packages[p].dram.pods_uj;
        idle_uj += last->sample.packages[p].cpu.idle_uj + last->sample.packages[p].dram.idle_uj;
    }
    for (size_t i = 0; i < last->n_rows; i++) {
        rows_uj += last->rows[i].cpu_uj + last->rows[i].dram_uj;
        shared_uj += last->rows[i].idle_uj;
    }
    assert_int_equal(pods_uj, rows_uj + last->departed_uj);
    assert_int_equal(idle_uj, shared_uj + last->departed_idle_uj + last->sample.idle_unshared_uj);
    return notes;
}

static const struct agent_row *row(const char *id)
{
    for (size_t i = 0; i < last->n_rows; i++) {
        if (strcmp(last->rows[i].label->id, id) == 0)
            return &last->rows[i];
    }
    return NULL;
}

static void draw(unsigned zone, uint64_t uj)
{
    counter_uj[zone] += uj;
    set_counter(zone);
}

/** Each package's energy goes to those who ran on it; what was there before counts for nothing. */
static void test_two_packages(void **state)
{
    (void)state;
    size_t a = play_cgroup("/a.service"), b = play_cgroup("/b.service");
    played.cpu_ns[a][0] = 1000000; /* before the start */
    start();
    played.cpu_ns[a][0] += 3000;
    played.cpu_ns[0][0] += 1000;
    played.cpu_ns[b][1] += 5000;
    draw(0, 4000000);
    draw(1, 700000);
    (void)sample();
    assert_int_equal(last->sample.seq, 1);
    assert_int_equal(last->sample.n_packages, 2);
    assert_int_equal(last->sample.packages[0].cpu.measured_uj, 4000000);
    assert_int_equal(last->sample.packages[1].cpu.measured_uj, 700000);
    assert_int_equal(row("/a.service")->cpu_ns, 3000);
    uint64_t active_uj = 4000000 - last->sample.packages[0].cpu.idle_uj;
    assert_in_range(row("/a.service")->cpu_uj, active_uj * 3 / 4 - 1, active_uj * 3 / 4 + 1);
    assert_int_equal(row("/b.service")->cpu_uj, 700000 - last->sample.packages[1].cpu.idle_uj);
    assert_string_equal(last->sample.accounting, "played");
    assert_null(kw_curve_check(&last->curve));
}

/** Threads that share a core: the curve and the sample's place on it count work. */
static void test_work_by_core(void **state)
{
    (void)state;
    played.smt = true;
    topology.cpu_sibling[0] = 2;
    topology.cpu_sibling[1] = 1;
    size_t a = play_cgroup("/a.service");
    start();
    played.cpu_ns[a][0] += 1000 * KW_NS_PER_S;
    played.more[2 * a].shared_ns += 1000 * KW_NS_PER_S;
    draw(0, 1000000);
    (void)sample();
    assert_true(last->curve.by_core && last->sample.has_work);
    assert_int_equal(last->curve.capacity_mcpu, topology.n_online * 1000 - 700);
    uint64_t expected = last->sample.used_mcpu * 65 / 100;
    assert_in_range(last->sample.work_mcpu, expected - 1, expected + 1);
    assert_int_equal(kw_sample_load_mcpu(&last->sample), last->sample.work_mcpu);
    played.error = -EIO; /* nothing is known: as before */
    (void)sample();
    assert_in_range(last->sample.work_mcpu, expected - 1, expected + 1);
}

/** A cgroup born and one ended between samples; the ended one keeps its joules and is let go of. */
static void test_birth_and_end(void **state)
{
    (void)state;
    start();
    size_t a = play_cgroup("/a.service");
    played.cpu_ns[a][0] = 100;
    draw(0, 1000000);
    (void)sample();
    uint64_t drawn_uj = row("/a.service")->cpu_uj;
    assert_true(drawn_uj > 900000);
    kwt_tree_delete(&tree, "fs/cgroup/a.service");
    for (unsigned i = 0; i < 2; i++)
        (void)sample();
    assert_int_equal(played.forgotten, 0);
    for (unsigned i = 0; i < 3; i++)
        (void)sample();
    assert_int_equal(played.forgotten, 1);
    assert_true(row("/a.service")->ended_unix_ms > 0);
    assert_int_equal(row("/a.service")->cpu_uj, drawn_uj);
    assert_int_equal(row("/a.service")->cpu_mw, 0);
}

/** Time of a key that no tree knows is the system's. */
static void test_unknown_key(void **state)
{
    (void)state;
    start();
    played.keys[played.n] = 123456789;
    played.cpu_ns[played.n++][0] = 100;
    draw(0, 1000000);
    (void)sample();
    assert_int_equal(last->n_rows, 0);
    assert_true(last->sample.packages[0].cpu.system_uj > 900000);
}

/** The accounting fails: energy is kept, nobody's; afterwards nothing is lost or counted twice. */
static void test_accounting_fails(void **state)
{
    (void)state;
    size_t a = play_cgroup("/a.service");
    start();
    played.error = -EIO;
    played.cpu_ns[a][0] += 50;
    draw(0, 2000000);
    struct agent_sample_notes notes = sample();
    assert_int_equal(notes.accounting_error, -EIO);
    assert_true(last->sample.packages[0].cpu.unattributed_uj > 1900000);
    assert_true((last->sample.quality & KW_QUALITY_BIT(KW_QUALITY_STALE)) != 0);
    played.error = 0;
    draw(0, 2000000);
    (void)sample();
    assert_int_equal(row("/a.service")->cpu_ns, 50);
    assert_int_equal(last->sample.packages[0].cpu.measured_uj, 4000000);
}

/** More metered packages than the topology knows: the stranger's energy goes by all CPU time, and
 * idle power is shared, not doubled. */
static void test_more_meters_than_packages(void **state)
{
    (void)state;
    kwt_meter_topology(&topology, 1, "GenuineIntel");
    size_t a = play_cgroup("/a.service"), b = play_cgroup("/b.service");
    start();
    played.cpu_ns[a][0] += 3000;
    played.cpu_ns[b][0] += 1000;
    draw(0, 4000000);
    draw(1, 4000000);
    (void)sample();
    assert_int_equal(last->sample.n_packages, 2);
    assert_int_equal(last->sample.packages[1].package, 1);
    assert_int_equal(last->sample.idle_mw, 0); /* 1 mW for two packages */
    assert_int_equal(row("/a.service")->cpu_uj, 6000000);
    assert_int_equal(row("/b.service")->cpu_uj, 2000000);
}

static void test_meter_fails(void **state)
{
    (void)state;
    start();
    kwt_tree_write(&tree, "class/powercap/intel-rapl:0/energy_uj", "");
    kwt_tree_write(&tree, "class/powercap/intel-rapl:1/energy_uj", "");
    struct agent_sample_notes notes = sample();
    assert_int_equal(notes.meter_error, -ENODATA);
    draw(0, 500);
    draw(1, 500);
    notes = sample();
    assert_int_equal(notes.meter_error, 0);
    assert_int_equal(last->sample.packages[0].cpu.measured_uj, 500);
    assert_int_equal(last->sample.packages[1].cpu.measured_uj, 500);
}

/** A thousand samples of a machine that only works: nothing is allocated. */
static void test_allocates_nothing(void **state)
{
    char path[32];

    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(path, sizeof(path), "/u%u.service", i);
        (void)play_cgroup(path);
    }
    start();
    for (unsigned i = 0; i < 3; i++)
        (void)sample();
    size_t in_samples = 0;
    for (unsigned i = 0; i < 1000; i++) {
        for (size_t k = 0; k < played.n; k++)
            played.cpu_ns[k][i % 2] += 1000 + k;
        draw(i % 2, 1000 + i); /* writes a file: its allocations are the test's */
        size_t before = kwt_allocations();
        (void)sample();
        in_samples += kwt_allocations() - before;
    }
    assert_int_equal(in_samples, 0);
    assert_int_equal(last->n_rows, 40);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_two_packages),
        TEST(test_work_by_core),
        TEST(test_birth_and_end),
        TEST(test_unknown_key),
        TEST(test_accounting_fails),
        TEST(test_meter_fails),
        TEST(test_more_meters_than_packages),
        TEST(test_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
