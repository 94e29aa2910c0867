/* SPDX-License-Identifier: Apache-2.0 */
/* What is learnt of workloads: from the pods that run, with what is known of those that are gone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "vpa-recommender/profiles.h"

#define NOW    INT64_C(1760000000000)
#define MINUTE INT64_C(60000)
#define DAY    (1440 * MINUTE)

/** From when on all ends are known. */
#define SINCE (NOW - 60 * MINUTE)

static const struct kw_top_owner press = {.kind = "Deployment", .name = "press"};

/** Record of a pod that has run for a time with a constant use. */
static struct kw_pod_record running(int64_t minutes, double cores, double core_watts)
{
    double seconds = (double)minutes * 60;

    return (struct kw_pod_record){
        .kind = KW_WORKLOAD_POD,
        .requests_unit = "",
        .started_unix_ms = NOW - minutes * MINUTE,
        .t_unix_ms = NOW,
        .cpu_ns = (uint64_t)(cores * seconds * 1e9),
        .active_uj = (uint64_t)(cores * seconds * core_watts * 1e6),
    };
}

static void add(struct rec_profiles *profiles, const struct kw_pod_record *record)
{
    assert_int_equal(rec_profiles_add(profiles, "orchard", &press, record, NOW), 1);
}

static struct kw_profile learn(const struct rec_profiles *profiles, const struct kw_profile *before,
                               int64_t now_unix_ms)
{
    struct kw_profile profile;

    rec_profile_learn(rec_profiles_first(profiles), before, SINCE, now_unix_ms, &profile);
    assert_null(kw_profile_check(&profile));
    return profile;
}

static void test_pods_that_run(void **state)
{
    (void)state;
    struct rec_profiles *profiles = rec_profiles_new();
    /* however long each ran, it counts once; watts per core by what each did */
    const struct kw_pod_record one = running(10, 0.2, 4), other = running(100, 0.4, 5);
    add(profiles, &one);
    add(profiles, &other);
    struct kw_profile profile = learn(profiles, NULL, NOW);
    assert_string_equal(profile.ns, "orchard");
    assert_string_equal(profile.owner.name, "press");
    assert_string_equal(rec_profile_key(rec_profiles_first(profiles)),
                        "kwatt:v1:profile:orchard/Deployment/press");
    assert_int_equal(profile.pods_permille, 2000);
    assert_int_equal(profile.used_mcpu, 300);
    assert_int_equal(profile.sigma_mcpu, 100);
    assert_int_equal(profile.core_mw, 4952); /* (2 x 4 + 40 x 5) / 42 */
    assert_int_equal(profile.request_uj, 0);
    assert_false(profile.estimated);
    /* the same again changes nothing, whenever */
    for (int64_t later = 0; later < 5 * DAY; later += 7 * 60 * MINUTE) {
        const struct kw_profile again = learn(profiles, &profile, NOW + later);
        assert_int_equal(again.pods_permille, profile.pods_permille);
        assert_int_equal(again.used_mcpu, profile.used_mcpu);
        assert_int_equal(again.sigma_mcpu, profile.sigma_mcpu);
        assert_int_equal(rec_profile_differs(&profile, &again), later >= DAY / 2);
    }
    rec_profiles_free(&profiles);
}

static void test_pods_that_are_gone(void **state)
{
    (void)state;
    struct rec_profiles *profiles = rec_profiles_new();
    const struct kw_pod_record pod = running(10, 0.2, 4);
    struct kw_profile before = {.ns = "orchard",
                                .owner = press,
                                .pods_permille = 9000,
                                .used_mcpu = 800,
                                .core_mw = 6000,
                                .estimated = true,
                                .t_unix_ms = NOW - 20 * MINUTE};
    add(profiles, &pod);
    add(profiles, &pod);
    add(profiles, &pod);
    /* all of them are new: the nine that were known are gone, and count nearly whole */
    struct kw_profile profile = learn(profiles, &before, NOW);
    assert_in_range(profile.pods_permille, 11900, 12000);
    assert_in_range(profile.used_mcpu, 648, 650);
    assert_in_range(profile.sigma_mcpu, 258, 262);
    assert_in_range(profile.core_mw, 5490, 5500);
    assert_true(profile.estimated);
    /* they were there: six are gone */
    before.t_unix_ms = NOW - 5 * MINUTE;
    profile = learn(profiles, &before, NOW);
    assert_in_range(profile.pods_permille, 8970, 9000);
    assert_in_range(profile.used_mcpu, 598, 600);
    /* a day later six are three, after nine days they are forgotten */
    before.t_unix_ms = NOW - DAY;
    profile = learn(profiles, &before, NOW);
    assert_in_range(profile.pods_permille, 7499, 7501);
    before.t_unix_ms = NOW - 9 * DAY;
    profile = learn(profiles, &before, NOW);
    assert_int_equal(profile.pods_permille, 3000);
    assert_int_equal(profile.used_mcpu, 200);
    assert_false(profile.estimated);
    /* never more than a profile can say */
    before.pods_permille = KW_PROFILE_PODS_MAX * 1000;
    before.t_unix_ms = NOW - 11 * MINUTE;
    profile = learn(profiles, &before, NOW);
    assert_in_range(profile.pods_permille, 9900000, 10000000);
    rec_profiles_free(&profiles);
}

/** Lives by workload: what each adds to what was known ten minutes ago, and what becomes of it. */
static void test_lives(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t before_min; /* how old the profile is; < 0: there is none */
        uint64_t before_lived_s, before_ended;
        struct {
            int64_t from_min, to_min; /* before now; to < 0: it runs; from 0: no more */
        } lives[4];
        uint64_t lived_s, ended_permille;
    } rows[] = {
        {"nothing", 10, 0, 0, {{0}}, 0, 0},
        {"one runs on", 10, 0, 0, {{5, -1}}, 300, 0},
        {"one ran before, too", 10, 0, 0, {{300, -1}}, 600, 0},
        {"one has ended", 10, 0, 0, {{9, 4}}, 300, 1000},
        {"one ended before the last writing", 10, 0, 0, {{30, 11}}, 0, 0},
        {"one ended with the last writing", 10, 0, 0, {{30, 10}}, 0, 0},
        {"one ran before and has ended", 10, 0, 0, {{30, 4}}, 360, 1000},
        {"some of each", 10, 0, 0, {{30, 4}, {8, -1}, {40, 15}, {3, 2}}, 360 + 480 + 60, 2000},
        {"no profile: since ends are known", -1, 0, 0, {{300, -1}, {90, 59}}, 3600 + 60, 1000},
        {"an old profile: the same", 120, 0, 0, {{300, -1}, {90, 70}}, 3600, 0},
        {"what was known fades", 1440, 7200, 12, {{0}}, 3600, 6000},
        {"and is forgotten", 9 * 1440, 7200, 12, {{0}}, 0, 0},
        {"what is new comes to it", 0, 7200, 12, {{5, -1}}, 7200, 12000},
        {"more than can be said",
         0,
         KW_PROFILE_LIVED_MAX_MS / 1000,
         1,
         {{0}},
         KW_PROFILE_LIVED_MAX_MS / 1000,
         1000},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct rec_profiles *profiles = rec_profiles_new();
        const struct kw_pod_record pod = running(10, 0.2, 4);
        const struct kw_profile before = {.ns = "orchard",
                                          .owner = press,
                                          .pods_permille = 1000,
                                          .lived_ms = rows[i].before_lived_s * 1000,
                                          .ended_permille = rows[i].before_ended * 1000,
                                          .t_unix_ms = NOW - rows[i].before_min * MINUTE};
        add(profiles, &pod);
        for (unsigned round = 0; round < 2; round++) { /* those of an end that failed go */
            rec_profiles_forget_lives(profiles);
            for (unsigned l = 0; l < 4 && rows[i].lives[l].from_min > 0; l++) {
                const struct rec_life life = {
                    NOW - rows[i].lives[l].from_min * MINUTE,
                    rows[i].lives[l].to_min < 0 ? 0 : NOW - rows[i].lives[l].to_min * MINUTE};
                const char *key = "kwatt:v1:profile:orchard/Deployment/press";
                assert_int_equal(rec_profiles_add_life(profiles, key, &life), 0);
                key = "kwatt:v1:profile:orchard/Deployment/other";
                assert_int_equal(rec_profiles_add_life(profiles, key, &life), 0);
            }
        }
        print_message("%s\n", rows[i].name);
        const struct kw_profile after =
            learn(profiles, rows[i].before_min < 0 ? NULL : &before, NOW);
        assert_int_equal(after.lived_ms, rows[i].lived_s * 1000);
        assert_int_equal(after.ended_permille, rows[i].ended_permille);
        /* no end is known of anybody */
        struct kw_profile blind;
        rec_profile_learn(rec_profiles_first(profiles), NULL, 0, NOW, &blind);
        assert_int_equal(blind.lived_ms, 0);
        assert_int_equal(blind.ended_permille, 0);
        rec_profiles_free(&profiles);
    }
}

/** Pods of ten minutes come and go for a day, read every ten minutes: their mean comes out, with
 * some that run all the time beside them as with none. */
static void test_lives_of_a_day(void **state)
{
    (void)state;
    for (unsigned steady = 0; steady <= 3; steady += 3) {
        struct kw_profile profile = {.pods_permille = 0};
        const struct kw_pod_record pod = running(10, 0.2, 4);
        for (int64_t t = 10; t <= 1440; t += 10) {
            struct rec_profiles *profiles = rec_profiles_new();
            add(profiles, &pod);
            for (int64_t start = 0; start < t; start += 4) { /* one each four minutes */
                const struct rec_life life = {NOW + start * MINUTE,
                                              start + 10 <= t ? NOW + (start + 10) * MINUTE : 0};
                assert_int_equal(
                    rec_profiles_add_life(profiles, rec_profile_key(rec_profiles_first(profiles)),
                                          &life),
                    0);
            }
            for (unsigned i = 0; i < steady; i++)
                assert_int_equal(
                    rec_profiles_add_life(profiles, rec_profile_key(rec_profiles_first(profiles)),
                                          &(struct rec_life){NOW, 0}),
                    0);
            profile = learn(profiles, t == 10 ? NULL : &profile, NOW + t * MINUTE);
            rec_profiles_free(&profiles);
        }
        double mean_s = (double)profile.lived_ms / (double)profile.ended_permille;
        /* the steady ones never end: their time is that of the others' ends, too */
        double want_s = 600 + 240.0 * steady;
        assert_true(mean_s > 0.99 * want_s && mean_s < 1.01 * want_s);
    }
}

static void test_requests(void **state)
{
    (void)state;
    struct rec_profiles *profiles = rec_profiles_new();
    struct kw_pod_record one = running(10, 0.2, 4), other = running(10, 0.2, 4);
    struct kw_profile before = {.ns = "orchard", .owner = press, .pods_permille = 1000};

    one.requests_total = 1000;
    one.requests_unit = "turn";
    other.requests_total = 777777;
    other.requests_unit = "scrape";
    add(profiles, &one);
    add(profiles, &other);
    struct kw_profile profile = learn(profiles, NULL, NOW);
    assert_int_equal(profile.request_uj, 480000); /* 480 J for a thousand */
    assert_string_equal(profile.request_unit, "turn");
    rec_profiles_free(&profiles);
    /* none are counted any more, or in another unit */
    profiles = rec_profiles_new();
    one = running(10, 0.2, 4);
    add(profiles, &one);
    before.request_uj = 5000;
    (void)snprintf(before.request_unit, sizeof(before.request_unit), "turn");
    before.t_unix_ms = NOW - MINUTE;
    profile = learn(profiles, &before, NOW);
    assert_int_equal(profile.request_uj, 5000);
    assert_string_equal(profile.request_unit, "turn");
    one.requests_unit = "scrape";
    one.requests_total = 1000;
    add(profiles, &one);
    profile = learn(profiles, &before, NOW);
    assert_string_equal(profile.request_unit, "scrape");
    assert_int_equal(profile.request_uj, 480000);
    rec_profiles_free(&profiles);
}

static void test_records_of_no_use(void **state)
{
    (void)state;
    struct rec_profiles *profiles = rec_profiles_new();
    struct kw_pod_record good = running(10, 0.2, 4), bad;
    static const struct kw_top_owner strange[] = {{"", ""}, {"Bad Kind", "a"}, {"Job", "A/b"}};

#define REFUSED(change)                                                                \
    do {                                                                               \
        bad = good;                                                                    \
        change;                                                                        \
        assert_int_equal(rec_profiles_add(profiles, "orchard", &press, &bad, NOW), 0); \
    } while (0)
    REFUSED(bad.started_unix_ms = 0);
    REFUSED(bad.started_unix_ms = INT64_MIN);
    REFUSED(bad.started_unix_ms = NOW - MINUTE + 1); /* too young */
    REFUSED(bad.started_unix_ms = NOW + MINUTE);
    REFUSED(bad.t_unix_ms = NOW + 6 * MINUTE);
    REFUSED(bad.t_unix_ms = INT64_MAX);
    REFUSED(bad.t_unix_ms = NOW - 9 * DAY; bad.started_unix_ms = NOW - 10 * DAY);
    REFUSED(bad.cpu_ns = UINT64_MAX);
    REFUSED(bad.ended_unix_ms = bad.started_unix_ms + 4999);
    for (size_t i = 0; i < KW_ARRAY_SIZE(strange); i++)
        assert_int_equal(rec_profiles_add(profiles, "orchard", &strange[i], &good, NOW), 0);
    assert_int_equal(rec_profiles_add(profiles, "", &press, &good, NOW), 0);
    assert_int_equal(rec_profiles_count(profiles), 0);
    assert_null(rec_profiles_first(profiles));
    /* one that has ended may be short */
    good.ended_unix_ms = good.started_unix_ms + 6000;
    good.cpu_ns = UINT64_C(3000000000);
    add(profiles, &good);
    assert_int_equal(learn(profiles, NULL, NOW).used_mcpu, 500);
    rec_profiles_free(&profiles);
}

static void test_bounds(void **state)
{
    (void)state;
    struct rec_profiles *profiles = rec_profiles_new();
    const struct kw_pod_record pod = running(10, 0.2, 4);
    struct kw_top_owner owner = {.kind = "Job"};

    for (unsigned i = 0; i < REC_PROFILE_PODS; i++)
        add(profiles, &pod);
    assert_int_equal(rec_profiles_add(profiles, "orchard", &press, &pod, NOW), 0);
    for (unsigned i = 1; i < REC_PROFILES_MAX; i++) {
        (void)snprintf(owner.name, sizeof(owner.name), "job-%u", i);
        assert_int_equal(rec_profiles_add(profiles, "orchard", &owner, &pod, NOW), 1);
    }
    assert_int_equal(rec_profiles_add(profiles, "meadow", &owner, &pod, NOW), -ENOSPC);
    assert_int_equal(rec_profiles_add(profiles, "orchard", &owner, &pod, NOW), 1);
    assert_int_equal(rec_profiles_count(profiles), REC_PROFILES_MAX);
    rec_profiles_free(&profiles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_that_run), cmocka_unit_test(test_pods_that_are_gone),
        cmocka_unit_test(test_lives),         cmocka_unit_test(test_lives_of_a_day),
        cmocka_unit_test(test_requests),      cmocka_unit_test(test_records_of_no_use),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
