/* SPDX-License-Identifier: Apache-2.0 */
/* What was learnt, found by name, and how far it counts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/outlook.h"
#include "tests/support/cmocka.h"

static const struct ext_assumptions plain = {.default_cpu_mcpu = 100, .request_use_percent = 100};

static void put(struct ext_profiles *profiles, const char *member, uint32_t pods,
                uint32_t used_mcpu)
{
    const struct ext_profile profile = {
        .pods_permille = pods * 1000, .used_mcpu = used_mcpu, .score = 7};

    assert_int_equal(ext_profiles_put(profiles, member, strlen(member), &profile), 0);
}

static struct kw_extender_pod pod_of(const char *ns, const char *kind, const char *name)
{
    struct kw_extender_pod pod = {0};

    (void)snprintf(pod.ns, sizeof(pod.ns), "%s", ns);
    (void)snprintf(pod.owner.kind, sizeof(pod.owner.kind), "%s", kind);
    (void)snprintf(pod.owner.name, sizeof(pod.owner.name), "%s", name);
    return pod;
}

static void test_sources(void **state)
{
    (void)state;
    static const struct {
        uint64_t expected_mcpu, request_mcpu, percent;
        uint32_t pods, used_mcpu;
        uint64_t mcpu;
        enum ext_cpu_from from, assumed;
        unsigned weight_permille;
    } rows[] = {
        /* nothing was learnt */
        {700, 500, 100, 0, 0, 700, EXT_CPU_ANNOTATION, 0, 0},
        {0, 500, 100, 0, 0, 500, EXT_CPU_REQUEST, 0, 0},
        {0, 500, 30, 0, 0, 150, EXT_CPU_REQUEST, 0, 0},
        {0, 2, 1, 0, 0, 1, EXT_CPU_REQUEST, 0, 0},
        {0, KW_POD_MCPU_MAX, 1000, 0, 0, KW_POD_MCPU_MAX, EXT_CPU_REQUEST, 0, 0},
        {0, 0, 30, 0, 0, 100, EXT_CPU_DEFAULT, 0, 0},
        /* an annotation is somebody's word */
        {700, 500, 100, 1000, 200, 700, EXT_CPU_ANNOTATION, 0, 0},
        /* four pods weigh as much as the assumption */
        {0, 500, 100, 4, 100, 300, EXT_CPU_PROFILE, EXT_CPU_REQUEST, 500},
        {0, 500, 100, 1, 0, 400, EXT_CPU_PROFILE, EXT_CPU_REQUEST, 200},
        {0, 0, 100, 12, 900, 700, EXT_CPU_PROFILE, EXT_CPU_DEFAULT, 750},
        {0, 500, 100, 396, 100, 104, EXT_CPU_PROFILE, EXT_CPU_REQUEST, 990},
        {0, 1, 100, (uint32_t)KW_PROFILE_PODS_MAX, 0, 1, EXT_CPU_PROFILE, EXT_CPU_REQUEST, 999},
        {0, KW_POD_MCPU_MAX, 100, 1, KW_PROFILE_MCPU_MAX, 800204200, EXT_CPU_PROFILE,
         EXT_CPU_REQUEST, 200},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct ext_profiles *profiles = ext_profiles_new(i);
        struct ext_assumptions assumptions = plain;
        struct kw_extender_pod pod = pod_of("orchard", "Deployment", "press");
        struct ext_outlook outlook;

        assumptions.request_use_percent = rows[i].percent;
        pod.expected_mcpu = rows[i].expected_mcpu;
        pod.request_mcpu = rows[i].request_mcpu;
        put(profiles, "orchard/Deployment/press", rows[i].pods, rows[i].used_mcpu);
        ext_outlook_find(&assumptions, profiles, &pod, &outlook);
        print_message("row %zu: %llu\n", i, (unsigned long long)outlook.mcpu);
        assert_int_equal(outlook.mcpu, rows[i].mcpu);
        assert_int_equal(outlook.from, rows[i].from);
        assert_int_equal(outlook.assumed_from, rows[i].assumed);
        assert_int_equal(outlook.weight_permille, rows[i].weight_permille);
        ext_profiles_free(&profiles);
    }
}

static void test_lives(void **state)
{
    (void)state;
    static const struct {
        uint64_t said_ms;
        uint32_t pods, ended_permille;
        uint64_t lived_ms;
        uint64_t life_ms;
        enum ext_life_from from;
        double wake_s;
    } rows[] = {
        /* nothing was learnt */
        {0, 0, 0, 0, 3600000, EXT_LIFE_DEFAULT, 3600},
        {0, 7, 0, 0, 3600000, EXT_LIFE_DEFAULT, 3600},
        {90000, 0, 0, 0, 90000, EXT_LIFE_ANNOTATION, 90},
        /* an annotation is somebody's word, without bounds */
        {90000, 7, 5000, 18000000, 90000, EXT_LIFE_ANNOTATION, 90},
        {KW_POD_LIFE_MS_MAX, 7, 5000, 1, KW_POD_LIFE_MS_MAX, EXT_LIFE_ANNOTATION, 3.1536e8},
        /* an hour counts like a pod more */
        {0, 7, 1000, 1800000, 2700000, EXT_LIFE_PROFILE, 2700},
        {0, 7, 5000, 18000000, 3600000, EXT_LIFE_PROFILE, 3600},
        {0, 7, 99000, 29700000, 333000, EXT_LIFE_PROFILE, 1800},
        {0, 7, 1, 0, 3596403, EXT_LIFE_PROFILE, 3596.403},
        /* none has ended */
        {0, 7, 0, 3600000, 7200000, EXT_LIFE_PROFILE, 7200},
        {0, 7, 0, 36000000, 39600000, EXT_LIFE_PROFILE, 7200},
        /* the most and the least that a profile can say */
        {0, 7, 0, KW_PROFILE_LIVED_MAX_MS, KW_POD_LIFE_MS_MAX, EXT_LIFE_PROFILE, 7200},
        {0, 7, (uint32_t)KW_PROFILE_PODS_MAX * 1000, 0, 359, EXT_LIFE_PROFILE, 1800},
        /* one that is of no use */
        {0, 0, 5000, 18000000, 3600000, EXT_LIFE_DEFAULT, 3600},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        for (unsigned said_cpu = 0; said_cpu < 2; said_cpu++) {
            struct ext_profiles *profiles = ext_profiles_new(i);
            struct kw_extender_pod pod = pod_of("orchard", "CronJob", "press");
            const struct ext_profile profile = {.pods_permille = rows[i].pods * 1000,
                                                .ended_permille = rows[i].ended_permille,
                                                .lived_ms = rows[i].lived_ms};
            struct ext_outlook outlook;

            pod.expected_life_ms = rows[i].said_ms;
            pod.expected_mcpu = said_cpu * 500; /* what is said of one says nothing of the other */
            assert_int_equal(ext_profiles_put(profiles, "orchard/CronJob/press", 21, &profile), 0);
            ext_outlook_find(&plain, profiles, &pod, &outlook);
            print_message("row %zu: %llu\n", i, (unsigned long long)outlook.life_ms);
            assert_int_equal(outlook.life_ms, rows[i].life_ms);
            assert_int_equal(outlook.life_from, rows[i].from);
            double wake_s = ext_outlook_wake_s((double)outlook.life_ms / 1000, outlook.life_from);
            assert_true(wake_s > rows[i].wake_s - 1e-6 && wake_s < rows[i].wake_s + 1e-6);
            ext_profiles_free(&profiles);
        }
    }
}

/** Between what was learnt and what was assumed, and nearer to the former with each pod. */
static void test_more_pods_weigh_more(void **state)
{
    (void)state;
    uint64_t last = 1000;

    for (uint32_t pods = 1; pods <= KW_PROFILE_PODS_MAX; pods += 1 + pods / 3) {
        struct ext_profiles *profiles = ext_profiles_new(1);
        struct kw_extender_pod pod = pod_of("a", "StatefulSet", "b");
        struct ext_outlook outlook;

        pod.request_mcpu = 1000;
        put(profiles, "a/StatefulSet/b", pods, 200);
        ext_outlook_find(&plain, profiles, &pod, &outlook);
        assert_true(outlook.mcpu >= 200 && outlook.mcpu <= last);
        last = outlook.mcpu;
        ext_profiles_free(&profiles);
    }
    assert_int_equal(last, 200);
}

static void test_names(void **state)
{
    (void)state;
    struct ext_profiles *profiles = ext_profiles_new(5);
    static const struct {
        const char *ns, *kind, *name;
        bool found;
    } rows[] = {
        {"orchard", "Deployment", "press", true},     {"orchard", "StatefulSet", "press", false},
        {"meadow", "Deployment", "press", false},     {"orchard", "Deployment", "pres", false},
        {"", "Deployment", "press", false},           {"orchard", "", "", false},
        {"orchard", "Deployment", "unusable", false},
    };

    put(profiles, "orchard/Deployment/press", 3, 1);
    put(profiles, "orchard/Deployment/unusable", 0, 0);
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        const struct kw_extender_pod pod = pod_of(rows[i].ns, rows[i].kind, rows[i].name);
        assert_int_equal(ext_profiles_find(profiles, pod.ns, &pod.owner) != NULL, rows[i].found);
        assert_null(ext_profiles_find(NULL, pod.ns, &pod.owner));
    }
    assert_int_equal(ext_profiles_count(profiles), 1);
    assert_int_equal(ext_profiles_count(NULL), 0);
    ext_profiles_free(&profiles);
}

static void member_of(char out[64], unsigned i)
{
    (void)snprintf(out, 64, "ns-%u/Deployment/workload-%u", i % 97, i);
}

static void test_many(void **state)
{
    (void)state;
    struct ext_profiles *profiles = ext_profiles_new(UINT64_C(0x123456789));
    char member[64];

    for (unsigned i = 0; i < EXT_PROFILES_MAX; i++) {
        member_of(member, i);
        put(profiles, member, i % 3, i); /* of each third nothing is known */
    }
    const struct ext_profile more = {.pods_permille = 1};
    assert_int_equal(ext_profiles_put(profiles, "a/Job/b", 7, &more), -ENOSPC);
    struct ext_profiles *copy = ext_profiles_copy(profiles);
    ext_profiles_free(&profiles);
    for (unsigned i = 0; i < EXT_PROFILES_MAX; i++) {
        member_of(member, i);
        const struct ext_profile *found = ext_profiles_at(copy, member, strlen(member));
        assert_non_null(found);
        assert_int_equal(found->used_mcpu, i);
    }
    assert_null(ext_profiles_at(copy, "a/Job/b", 7));
    assert_int_equal(ext_profiles_count(copy), EXT_PROFILES_MAX - (EXT_PROFILES_MAX + 2) / 3);
    put(copy, member, 0, 1); /* replaced, and of no use any more */
    put(copy, member, 2, 1);
    assert_int_equal(ext_profiles_count(copy), EXT_PROFILES_MAX - (EXT_PROFILES_MAX + 2) / 3 +
                                                   ((EXT_PROFILES_MAX - 1) % 3 == 0));
    ext_profiles_free(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_more_pods_weigh_more),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
