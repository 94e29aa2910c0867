/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random machines under random misfortune, against an oracle that knows the truth. Seeded; a case
 * that fails prints its number.
 *
 * Zones: any mixture of packages, dies, memory, parts, platform zones and second views, in any
 * order and under any directory number. The oracle says which counters there are by what a zone
 * is, not by how a tree is searched.
 *
 * Walks: a played meter in memory whose counters draw at random, wrap, start anew, fail, vanish and
 * come back, while the machine sleeps or the agent is late. Of what was drawn, nothing is counted
 * twice, nothing is invented, and where no flag says otherwise nothing is lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/metering.h"
#include "node-agent/powercap_zones.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

#define TREE_CASES 20000
#define WALK_CASES 3000
#define WALK_STEPS 60

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t below(uint64_t n)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return (seed * UINT64_C(2685821657736338717) >> 16) % n;
}

/* --- zones --- */

#define ZONES_MAX    96
#define PACKAGES_MAX 4
#define DIES_MAX     3

/* What the oracle expects: counters by kind, package and die (0: of a whole package). */
struct expected {
    bool package[PACKAGES_MAX][DIES_MAX + 1], dram[PACKAGES_MAX][DIES_MAX + 1];
    bool psys;
};

static void add_zone(struct agent_zone *zones, size_t *n, const char *dir, const char *name,
                     bool mmio)
{
    struct agent_zone_name parsed;
    struct agent_zone *zone = &zones[(*n)++];

    assert_true(*n <= ZONES_MAX);
    *zone = (struct agent_zone){.mmio = mmio, .scale_num = 1, .scale_den = 1};
    (void)snprintf(zone->dir, sizeof(zone->dir), "%s", dir);
    (void)snprintf(zone->domain.name, sizeof(zone->domain.name), "%s", name);
    agent_zone_name_parse(name, &parsed);
    zone->domain.kind = parsed.kind;
    zone->domain.package_id = parsed.package;
    zone->die = parsed.die;
}

/** Makes the zones of one control type. @param has which counters it shows. */
static void add_type(struct agent_zone *zones, size_t *n, bool mmio, const struct expected *has)
{
    const char *type = mmio ? "intel-rapl-mmio" : "intel-rapl";
    unsigned number = (unsigned)below(20);
    char dir[64], child[80], name[64];

    for (unsigned p = 0; p < PACKAGES_MAX; p++) {
        for (unsigned d = 0; d <= DIES_MAX; d++) {
            if (!has->package[p][d])
                continue;
            (void)snprintf(dir, sizeof(dir), "%s:%x", type, number++);
            if (d == 0)
                (void)snprintf(name, sizeof(name), "package-%u", p);
            else
                (void)snprintf(name, sizeof(name), "package-%u-die-%u", p, d - 1);
            add_zone(zones, n, dir, name, mmio);
            unsigned below_it = (unsigned)below(3);
            static const char *const parts[] = {"core", "uncore", "something-new"};
            for (unsigned c = 0; c < below_it; c++) {
                (void)snprintf(child, sizeof(child), "%.60s:%x", dir, c);
                add_zone(zones, n, child, parts[below(3)], mmio);
            }
            if (has->dram[p][d]) {
                (void)snprintf(child, sizeof(child), "%.60s:%x", dir, below_it);
                add_zone(zones, n, child, "dram", mmio);
            }
        }
    }
    if (has->psys) {
        (void)snprintf(dir, sizeof(dir), "%s:%x", type, number);
        add_zone(zones, n, dir, "psys", mmio);
    }
}

static void shuffle(struct agent_zone *zones, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = below(i);
        struct agent_zone kept = zones[i - 1];
        zones[i - 1] = zones[k];
        zones[k] = kept;
    }
}

/** A machine: each package whole or in dies. */
static struct expected random_machine(void)
{
    struct expected has = {.psys = below(2) == 0};
    unsigned packages = 1 + (unsigned)below(PACKAGES_MAX);

    for (unsigned p = 0; p < packages; p++) {
        unsigned dies = below(3) == 0 ? 1 + (unsigned)below(DIES_MAX) : 0;
        bool dram = below(2) == 0;
        for (unsigned d = dies == 0 ? 0 : 1; d <= dies; d++) {
            has.package[p][d] = true;
            has.dram[p][d] = dram;
        }
    }
    return has;
}

/** How many counters of a kind one package has, as an oracle counts them. */
static unsigned counters_of(const bool shown[DIES_MAX + 1], bool mirror)
{
    unsigned n = 0;

    for (unsigned d = 0; d <= DIES_MAX; d++)
        n += shown[d];
    return mirror && n > 1 ? 1 : n;
}

static void test_random_trees(void **state)
{
    static struct agent_zone zones[ZONES_MAX];

    (void)state;
    for (unsigned c = 0; c < TREE_CASES; c++) {
        struct expected msr = random_machine(), mmio = {0};
        bool mirror = below(3) == 0;
        size_t n = 0, found[AGENT_DOMAIN__MAX] = {0};
        unsigned per_package[2][PACKAGES_MAX] = {0};
        add_type(zones, &n, false, &msr);
        if (below(2) == 0) {
            /* a second view of the first package, whole as all of them are, and of its memory */
            mmio.package[0][0] = true;
            mmio.dram[0][0] = below(2) == 0;
            add_type(zones, &n, true, &mmio);
        }
        shuffle(zones, n);
        size_t chosen = agent_zones_choose(zones, n, mirror);
        for (size_t i = 0; i < chosen; i++) {
            found[zones[i].domain.kind]++;
            if (zones[i].domain.kind != AGENT_DOMAIN_PLATFORM)
                per_package[zones[i].domain.kind == AGENT_DOMAIN_DRAM]
                           [zones[i].domain.package_id]++;
        }
        for (unsigned p = 0; p < PACKAGES_MAX; p++) {
            unsigned cpu = counters_of(msr.package[p], mirror);
            unsigned dram = counters_of(msr.dram[p], mirror);
            /* what only the second view shows is taken from there */
            cpu = cpu == 0 && mmio.package[p][0] ? 1 : cpu;
            dram = dram == 0 && mmio.dram[p][0] ? 1 : dram;
            if (per_package[0][p] != cpu || per_package[1][p] != dram)
                fail_msg("case %u: package %u: %u and %u counters, not %u and %u", c, p,
                         per_package[0][p], per_package[1][p], cpu, dram);
        }
        assert_int_equal(found[AGENT_DOMAIN_PLATFORM], msr.psys);
    }
}

/* --- walks --- */

#define DOMAINS_MAX 8

/* The played machine. */
static struct zone {
    struct agent_domain domain;
    uint64_t raw_uj;
    bool present, failing;
    uint64_t drawn_uj; /* truth, since the last reading that succeeded */
    uint64_t read_uj;  /* raw_uj then */
    bool reset, uncertain, just_read;
} zones_now[DOMAINS_MAX];
static size_t n_zones, n_listed;
static struct agent_domain listed[DOMAINS_MAX];
static size_t zone_of[DOMAINS_MAX];
static uint64_t clock_ns;
static uint64_t counted_uj, lost_uj; /* of all cases */

static void list(void)
{
    n_listed = 0;
    for (size_t i = 0; i < n_zones; i++) {
        if (!zones_now[i].present)
            continue;
        zone_of[n_listed] = i;
        listed[n_listed++] = zones_now[i].domain;
    }
}

static int played_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    (void)conf;
    (void)err;
    list();
    *ret = zones_now;
    return 0;
}

static size_t played_domains(const void *self, const struct agent_domain **ret)
{
    (void)self;
    *ret = listed;
    return n_listed;
}

static int played_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    bool any = false;

    (void)self;
    (void)load;
    for (size_t i = 0; i < n_listed; i++) {
        const struct zone *zone = &zones_now[zone_of[i]];
        bool good = zone->present && !zone->failing;
        ret[i] = (struct agent_reading){
            .error = good ? 0 : -EINVAL, .counter_uj = zone->raw_uj, .t_ns = clock_ns};
        any = any || good;
    }
    return any ? 0 : -EINVAL;
}

static bool played_rescan(void *self)
{
    size_t before[DOMAINS_MAX], n = n_listed;

    (void)self;
    memcpy(before, zone_of, sizeof(before));
    list();
    return n != n_listed || memcmp(before, zone_of, n * sizeof(before[0])) != 0;
}

static void played_close(void **self)
{
    *self = NULL;
}

static const struct agent_meter_ops played = {.name = "played",
                                              .open = played_open,
                                              .domains = played_domains,
                                              .read = played_read,
                                              .rescan = played_rescan,
                                              .close = played_close};

static void random_zones(void)
{
    n_zones = 1 + below(DOMAINS_MAX);
    for (size_t i = 0; i < n_zones; i++) {
        struct zone *zone = &zones_now[i];
        *zone = (struct zone){.present = true};
        zone->domain = (struct agent_domain){
            .kind = i % 2 == 0 ? AGENT_DOMAIN_CPU : AGENT_DOMAIN_DRAM,
            .package = (unsigned)i / 2,
            .package_id = (uint32_t)i / 2,
            .range_uj = below(4) == 0 ? 0 : 20000000000 + below(1000),
            .max_mw = 200000,
        };
        (void)snprintf(zone->domain.name, sizeof(zone->domain.name), "zone-%zu", i);
        (void)snprintf(zone->domain.path, sizeof(zone->domain.path), "played/%zu", i);
        zone->raw_uj = below(zone->domain.range_uj > 0 ? zone->domain.range_uj : 1000000);
        zone->uncertain = true; /* nothing was read yet: a baseline */
    }
}

/** A window of every zone: it draws, and something may befall it. */
static void advance(uint64_t window_ns)
{
    for (size_t i = 0; i < n_zones; i++) {
        struct zone *zone = &zones_now[i];
        uint64_t modulus = zone->domain.range_uj;
        uint64_t uj = below(window_ns / 20 + 1); /* 0 to 50 W, of at most 200 */
        zone->drawn_uj += uj;
        zone->raw_uj = modulus > 0 ? (zone->raw_uj + uj) % modulus : zone->raw_uj + uj;
        switch (below(40)) {
        case 0: /* starts anew; between two readings and far from where it would wrap, which tells
                   it apart with certainty */
            if (modulus == 0 ||
                (zone->just_read && zone->raw_uj > modulus / 4 && zone->raw_uj < modulus / 4 * 3)) {
                zone->raw_uj = below(3);
                zone->reset = true;
            }
            break;
        case 1: zone->failing = !zone->failing; break;
        case 2: zone->present = !zone->present; break;
        default: zone->failing = zone->failing && below(4) != 0; break;
        }
    }
}

/** What was counted of each zone, against the truth. */
static void compare(unsigned c, unsigned step, const struct agent_metering_window *window)
{
    for (size_t i = 0; i < n_zones; i++) {
        struct zone *zone = &zones_now[i];
        const struct agent_slot_window *slot =
            &window->slots[agent_slot(zone->domain.package, zone->domain.kind)];
        bool is_listed = false;
        for (size_t k = 0; k < n_listed; k++)
            is_listed = is_listed || zone_of[k] == i;
        bool good = is_listed && zone->present && !zone->failing;
        if (!good && slot->delta_uj != 0)
            fail_msg("case %u.%u: zone %zu cannot be read and has %llu uJ", c, step, i,
                     (unsigned long long)slot->delta_uj);
        zone->just_read = good;
        if (!good)
            continue;
        if (slot->delta_uj > zone->drawn_uj)
            fail_msg("case %u.%u: zone %zu: %llu uJ invented", c, step, i,
                     (unsigned long long)(slot->delta_uj - zone->drawn_uj));
        if (zone->uncertain && slot->delta_uj != 0)
            fail_msg("case %u.%u: zone %zu: its first reading is a baseline", c, step, i);
        bool lost = slot->delta_uj != zone->drawn_uj && !zone->uncertain;
        /* a counter that began anew and has passed its old value since looks as if it had not */
        bool shows = zone->reset && zone->raw_uj < zone->read_uj;
        if (lost &&
            (zone->reset ? shows && (window->quality & KW_QUALITY_BIT(KW_QUALITY_RESET)) == 0
                         : (window->quality & KW_QUALITY_BIT(KW_QUALITY_GAP)) == 0))
            fail_msg("case %u.%u: zone %zu: %llu of %llu uJ lost, and nothing says so", c, step, i,
                     (unsigned long long)(zone->drawn_uj - slot->delta_uj),
                     (unsigned long long)zone->drawn_uj);
        counted_uj += slot->delta_uj;
        lost_uj += lost ? zone->drawn_uj - slot->delta_uj : 0;
        zone->read_uj = zone->raw_uj;
        zone->drawn_uj = 0;
        zone->reset = zone->uncertain = false;
    }
}

static void test_random_walks(void **state)
{
    static const struct agent_meter_ops *const meters[] = {&played, NULL};
    static const struct agent_meter_ops *const none[] = {NULL};
    struct agent_topology topology;
    struct agent_meter_conf conf = {
        .topology = &topology, .sysfs_root = "/nonexistent", .meters = meters, .platforms = none};

    (void)state;
    kwt_meter_topology(&topology, 4, "GenuineIntel");
    for (unsigned c = 0; c < WALK_CASES; c++) {
        struct agent_metering *metering = NULL;
        static struct agent_metering_window window;
        clock_ns = KW_NS_PER_S;
        random_zones();
        assert_int_equal(agent_metering_new(NULL, &conf, &metering, NULL), 0);
        for (unsigned step = 0; step < WALK_STEPS; step++) {
            (void)agent_metering_read(metering, NULL, clock_ns, 0, &window);
            compare(c, step, &window);
            /* as short as windows are, as long as a sample, and at times late */
            uint64_t window_ns = below(20) == 0 ? below(20 * KW_NS_PER_S)
                                                : 100 * KW_NS_PER_MS + below(5 * KW_NS_PER_S);
            clock_ns += window_ns + 1;
            advance(window_ns);
        }
        agent_metering_free(&metering);
    }
    /* the test would say nothing of a meter that loses what it can */
    print_message("%llu J counted, %llu J lost to resets and gaps\n",
                  (unsigned long long)counted_uj / 1000000, (unsigned long long)lost_uj / 1000000);
    assert_true(lost_uj < counted_uj / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees),
        cmocka_unit_test(test_random_walks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
