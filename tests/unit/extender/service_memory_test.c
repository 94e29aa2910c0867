/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the answers: no allocation once a request of the same size was answered before, and
 * what comes where there is none.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/service_fixture.h"

/* The linker sends every allocation of the program (not of shared libraries) through these. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__real_reallocarray(void *ptr, size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void *__wrap_reallocarray(void *ptr, size_t n, size_t size);

static unsigned long allocations;
static unsigned long fail_at; /* which allocation fails; 0: none */

static bool fails(void)
{
    return ++allocations == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return fails() ? NULL : __real_realloc(ptr, size);
}

void *__wrap_reallocarray(void *ptr, size_t n, size_t size)
{
    return fails() ? NULL : __real_reallocarray(ptr, n, size);
}

static char *large_body(size_t n, size_t *ret_len)
{
    struct kw_buf body = {0};

    (void)kw_buf_adds(&body, "{\"Pod\":{},\"Nodes\":null,\"NodeNames\":[");
    for (size_t i = 0; i < n; i++)
        (void)kw_buf_addf(&body, "%s\"node-%zu.rack-%zu.example.org\"", i > 0 ? "," : "", i,
                          i / 40);
    (void)kw_buf_adds(&body, "]}");
    return kw_buf_take(&body, ret_len);
}

static void free_profiles(void *value)
{
    struct ext_profiles *profiles = value;

    ext_profiles_free(&profiles);
}

/* What was learnt of a pod's workload decides what is expected of it, and costs no allocation. */
static void test_what_was_learnt_counts(void **state)
{
    struct kwt_service *f = *state;
    static const char body[] =
        "{\"Pod\":{\"metadata\":{\"name\":\"pear\",\"namespace\":\"orchard\",\"ownerReferences\":["
        "{\"kind\":\"StatefulSet\",\"name\":\"press\",\"controller\":true}]},\"spec\":{"
        "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]}},"
        "\"NodeNames\":[\"barn-a\",\"barn-b\"]}";
    const struct ext_profile profile = {.pods_permille = 12000, .used_mcpu = 200};
    struct ext_profiles *profiles = ext_profiles_new(3);
    kw_cleanup(kw_buf_free) struct kw_buf page = {0};

    assert_int_equal(kw_snapshot_new(2, free_profiles, &f->service.profiles), 0);
    assert_int_equal(ext_profiles_put(profiles, "orchard/StatefulSet/press", 25, &profile), 0);
    kw_snapshot_publish(f->service.profiles, profiles);
    assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    unsigned long before = allocations;
    for (unsigned round = 0; round < 100; round++)
        assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(allocations, before);
    assert_int_equal(f->service.stats.outlooks[EXT_CPU_PROFILE], 101);
    assert_int_equal(ext_decisions_page(f->service.decisions, "pear", EXT_FORM_JSON, NULL, &page),
                     101);
    assert_non_null(strstr(page.data, "\"mcpu\":400,\"mcpu_from\":\"profile\""));
    kw_snapshot_free(&f->service.profiles);
}

static void test_steady_state_allocates_nothing(void **state)
{
    struct kwt_service *f = *state;
    size_t len;
    kw_cleanup_free char *body = large_body(15000, &len);

    assert_non_null(body);
    for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++)
        (void)kwt_ask(f, (enum ext_verb)verb, body, len);
    unsigned long before = allocations;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++)
            assert_int_equal(kwt_ask(f, (enum ext_verb)verb, body, len), 200);
        assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, len / 2), 400);
        assert_int_equal(kwt_ask(f, EXT_VERB_FILTER, body, len / 2), 200);
    }
    assert_int_equal(allocations, before);
    assert_true(before > 0); /* the counter counts */
}

/* Whichever allocation fails, the request is refused in the form of its verb, and the next one is
 * answered. */
static void test_out_of_memory(void **state)
{
    struct kwt_service *f = *state;
    size_t len;
    kw_cleanup_free char *body = large_body(3000, &len);

    assert_non_null(body);
    for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++) {
        unsigned refused = 0;
        bool hit = true;
        for (unsigned long n = 1; hit; n++) {
            struct ext_service fresh;
            struct kw_buf out = {0};
            assert_int_equal(ext_service_init(&fresh, 1, &kwt_policy), 0);
            allocations = 0;
            fail_at = n;
            unsigned status =
                ext_service_answer(&fresh, (enum ext_verb)verb, f->snapshot, 0, body, len, &out);
            hit = allocations >= n;
            fail_at = 0;
            bool said =
                status == 200 && strstr(out.data, "\"Error\":\"kwatt: out of memory") != NULL;
            assert_true(hit ? status == 503 || said : status == 200 && !said);
            refused += hit;
            kw_buf_reset(&out);
            assert_int_equal(
                ext_service_answer(&fresh, (enum ext_verb)verb, f->snapshot, 0, body, len, &out),
                200);
            kw_buf_free(&out);
            ext_service_clear(&fresh);
        }
        assert_true(refused > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steady_state_allocates_nothing, kwt_service_set_up,
                                        kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_learnt_counts, kwt_service_set_up,
                                        kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_out_of_memory, kwt_service_set_up,
                                        kwt_service_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
