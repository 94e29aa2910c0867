/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request in, an answer out, as the scheduler would read it: our fixtures always, the recordings
 * of a real scheduler where they are at hand. And no allocation once a request of the same size was
 * answered before.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "extender/service.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

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

static const struct ext_policy policy = {
    .stale_after_ns = UINT64_C(30000000000), .assumptions = {100, 100}, .own_namespace = "kwatt"};

struct fixture {
    struct ext_service service;
    struct ext_snapshot *snapshot;
    struct kw_buf out;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct kw_curve cheap = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 60000, 0}}};
    struct kw_curve dear = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 180000, 0}}};
    struct ext_node nodes[] = {kwt_node("barn-a", &dear, 1000), kwt_node("barn-b", &cheap, 1000),
                               kwt_node("barn-stale", &cheap, 0), kwt_node("barn-blank", NULL, 0)};

    nodes[2].fresh_ns = INT64_C(-1000000000000);
    if (f == NULL || ext_service_init(&f->service, 2, &policy) < 0)
        return -1;
    f->snapshot = ext_snapshot_new(nodes, KW_ARRAY_SIZE(nodes), 99, policy.stale_after_ns);
    *state = f;
    return f->snapshot == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ext_snapshot_free(&f->snapshot);
    ext_service_clear(&f->service);
    kw_buf_free(&f->out);
    free(f);
    return 0;
}

static unsigned ask(struct fixture *f, enum ext_verb verb, const char *body, size_t len)
{
    kw_buf_reset(&f->out);
    return ext_service_answer(&f->service, verb, f->snapshot, 0, body, len, &f->out);
}

/** Score of a host in the last answer. */
static int64_t score_of(struct fixture *f, const char *host)
{
    struct kw_host_priority *list = NULL;
    size_t n = 0;
    int64_t score = -1;

    assert_int_equal(kw_host_priorities_decode(f->out.data, f->out.len, &list, &n, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        assert_in_range(list[i].score, 0, 10);
        if (strcmp(list[i].host.text, host) == 0)
            score = list[i].score;
    }
    kw_host_priorities_free(&list, n);
    return score;
}

static void test_scores(void **state)
{
    struct fixture *f = *state;
    static const char body[] =
        "{\"Pod\":{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]}},"
        "\"NodeNames\":[\"barn-a\",\"barn-\\u0062\",\"barn-stale\",\"barn-blank\",\"elsewhere\"]}";

    assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_non_null(strstr(f->out.data, "\"Host\":\"barn-\\u0062\",\"Score\":10"));
    assert_int_equal(score_of(f, "barn-a"), 0);
    assert_int_equal(score_of(f, "barn-b"), 10);
    assert_int_equal(score_of(f, "barn-stale"), 0); /* the (lower) median of 0 and 10 */
    assert_int_equal(score_of(f, "elsewhere"), 0);
    assert_int_equal(f->service.stats.scored, 2);
    assert_int_equal(f->service.stats.neutral, 3);
    ext_snapshot_free(&f->snapshot);
    assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(score_of(f, "barn-a"), EXT_SCORE_NEUTRAL);
    assert_int_equal(score_of(f, "barn-b"), EXT_SCORE_NEUTRAL);
}

static void test_exempt_pods(void **state)
{
    struct fixture *f = *state;
    static const char *const metadata[] = {
        "\"namespace\":\"kwatt\"",
        "\"annotations\":{\"kubernetes.io/config.mirror\":\"0a1b\"}",
        "\"annotations\":{\"kwatt.io/placement\":\"off\"}",
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(metadata); i++) {
        struct kw_buf body = {0};
        (void)kw_buf_addf(&body,
                          "{\"Pod\":{\"metadata\":{%s}},\"NodeNames\":[\"barn-a\",\"barn-b\"]}",
                          metadata[i]);
        assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body.data, body.len), 200);
        assert_int_equal(score_of(f, "barn-a"), EXT_SCORE_NEUTRAL);
        assert_int_equal(score_of(f, "barn-b"), EXT_SCORE_NEUTRAL);
        kw_buf_free(&body);
    }
}

static void set_dry_run(struct fixture *f, bool dry_run)
{
    struct ext_policy other = policy;

    other.dry_run = dry_run;
    assert_int_equal(ext_service_set_policy(&f->service, &other), 0);
}

/** What is kept of a request, and what is not said in a dry run. */
static void test_decisions_are_kept(void **state)
{
    struct fixture *f = *state;
    static const char body[] = "{\"Pod\":{\"metadata\":{\"namespace\":\"orchard\",\"name\":"
                               "\"pear\"},\"spec\":{\"containers\":"
                               "[{\"resources\":{\"requests\":{\"cpu\":\"2\"}}}]}},\"NodeNames\":["
                               "\"barn-a\",\"barn-blank\","
                               "\"barn-\\u0062\",\"elsewhere\"]}";
    struct kw_buf page = {0};

    set_dry_run(f, true);
    assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(score_of(f, "barn-a"), 5);
    assert_int_equal(score_of(f, "barn-b"), 5);
    set_dry_run(f, false);
    assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(score_of(f, "barn-b"), 10);
    assert_int_equal(ask(f, EXT_VERB_FILTER, body, sizeof(body) - 1), 200);
    assert_int_equal(
        ext_decisions_page(f->service.decisions, "orchard/pear", EXT_FORM_JSON, NULL, &page),
        2); /* /filter decides nothing */
    static const char *const holds[] = {
        "\"dry_run\":true", "\"dry_run\":false", "\"mcpu\":2000,\"mcpu_from\":\"requests\"",
        "\"candidates\":4,\"known\":2,\"min_mw\":10000,\"max_mw\":40000,\"data_age_ms\":-1",
        "\"best\":[{\"node\":\"barn-b\",\"mw\":10000,\"used_mcpu\":1000,\"fill_permille\":125,"
        "\"score\":10}]"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(holds); i++) {
        if (strstr(page.data, holds[i]) == NULL)
            fail_msg("no %s in %s", holds[i], page.data);
    }
    kw_buf_free(&page);
}

static void test_statuses(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum ext_verb verb;
        unsigned status;
        const char *body;
        const char *holds;
    } cases[] = {
        {EXT_VERB_FILTER, 200, "{\"Nodes\":null,\"NodeNames\":null}",
         "\"Error\":\"kwatt: neither Nodes nor NodeNames is given\""},
        {EXT_VERB_FILTER, 200, "{\"NodeNames\":[]}", "\"NodeNames\":[],"},
        {EXT_VERB_FILTER, 200, "{", "\"Error\":\"kwatt: the body is malformed JSON\""},
        {EXT_VERB_FILTER, 200, "{\"NodeNames\":7}", "NodeNames is no list of names\""},
        {EXT_VERB_PRIORITIZE, 200, "{\"Nodes\":null,\"NodeNames\":null}", "[]"},
        {EXT_VERB_PRIORITIZE, 200, "{\"NodeNames\":[]}", "[]"},
        {EXT_VERB_PRIORITIZE, 400, "", "malformed JSON"},
        {EXT_VERB_PRIORITIZE, 400, "{\"Pod\":7}", "Pod is no object"},
        {EXT_VERB_PREEMPT, 200, "{}", "{\"NodeNameToMetaVictims\":{}}"},
        {EXT_VERB_PREEMPT, 400, "x", "malformed JSON"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        assert_int_equal(ask(f, cases[i].verb, cases[i].body, strlen(cases[i].body)),
                         cases[i].status);
        assert_non_null(strstr(f->out.data, cases[i].holds));
    }
    assert_int_equal(f->service.stats.requests[EXT_VERB_FILTER][EXT_OUTCOME_REFUSED], 3);
    assert_int_equal(f->service.stats.requests[EXT_VERB_PRIORITIZE][EXT_OUTCOME_OK], 2);
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
    struct fixture *f = *state;
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
    assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    unsigned long before = allocations;
    for (unsigned round = 0; round < 100; round++)
        assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(allocations, before);
    assert_int_equal(f->service.stats.outlooks[EXT_CPU_PROFILE], 101);
    assert_int_equal(ext_decisions_page(f->service.decisions, "pear", EXT_FORM_JSON, NULL, &page),
                     101);
    assert_non_null(strstr(page.data, "\"mcpu\":400,\"mcpu_from\":\"profile\""));
    kw_snapshot_free(&f->service.profiles);
}

static void test_steady_state_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    size_t len;
    kw_cleanup_free char *body = large_body(15000, &len);

    assert_non_null(body);
    for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++)
        (void)ask(f, (enum ext_verb)verb, body, len);
    unsigned long before = allocations;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++)
            assert_int_equal(ask(f, (enum ext_verb)verb, body, len), 200);
        assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, len / 2), 400);
        assert_int_equal(ask(f, EXT_VERB_FILTER, body, len / 2), 200);
    }
    assert_int_equal(allocations, before);
    assert_true(before > 0); /* the counter counts */
}

/* Whichever allocation fails, the request is refused in the form of its verb, and the next one is
 * answered. */
static void test_out_of_memory(void **state)
{
    struct fixture *f = *state;
    size_t len;
    kw_cleanup_free char *body = large_body(3000, &len);

    assert_non_null(body);
    for (unsigned verb = 0; verb < EXT_VERB__MAX; verb++) {
        unsigned refused = 0;
        bool hit = true;
        for (unsigned long n = 1; hit; n++) {
            struct ext_service fresh;
            struct kw_buf out = {0};
            assert_int_equal(ext_service_init(&fresh, 1, &policy), 0);
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

static void test_large_and_deep(void **state)
{
    struct fixture *f = *state;
    struct kw_buf body = {0};
    struct kw_filter_result result;

    /* a pod of 10 MB, as deep as the scanner goes */
    (void)kw_buf_adds(&body, "{\"Pod\":{\"metadata\":{\"annotations\":{\"big\":\"");
    for (unsigned i = 0; i < 10 * 1024; i++) {
        char block[1025];
        memset(block, 'a' + (int)(i % 26), sizeof(block) - 1);
        block[1024] = '\0';
        (void)kw_buf_adds(&body, block);
    }
    (void)kw_buf_adds(&body, "\"}},\"deep\":");
    for (unsigned i = 0; i < 1000; i++)
        (void)kw_buf_adds(&body, "[");
    for (unsigned i = 0; i < 1000; i++)
        (void)kw_buf_adds(&body, "]");
    (void)kw_buf_adds(&body, "},\"NodeNames\":[\"barn-a\"]}");
    assert_int_equal(ask(f, EXT_VERB_FILTER, body.data, body.len), 200);
    assert_int_equal(kw_filter_result_decode(f->out.data, f->out.len, &result, NULL), 0);
    assert_int_equal(result.n_names, 1);
    assert_string_equal(result.error, "");
    kw_filter_result_clear(&result);

    kw_buf_reset(&body);
    for (unsigned i = 0; i < 1000000; i++)
        (void)kw_buf_adds(&body, "[");
    assert_int_equal(ask(f, EXT_VERB_FILTER, body.data, body.len), 200);
    assert_non_null(strstr(f->out.data, "\"Error\":\"kwatt: "));
    assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body.data, body.len), 400);
    kw_buf_free(&body);
}

/** Checks the answer to a request of a real scheduler (or one like it). */
static void check_recording(struct fixture *f, const char *name, const char *body, size_t len)
{
    struct kw_extender_args args = {0};
    const char *why = "";

    if (strstr(name, "preempt") != NULL) {
        assert_int_equal(ask(f, EXT_VERB_PREEMPT, body, len), 200);
        assert_non_null(strstr(f->out.data, "\"UID\":\""));
        return;
    }
    if (kw_extender_args_decode(body, len, &args, &why) < 0)
        fail_msg("%s: %s", name, why);
    size_t n = args.has_names ? args.n_names : args.n_nodes;
    const struct kw_extender_name *names = args.has_names ? args.names : args.nodes;
    assert_true(n > 0);
    if (strstr(name, "filter") != NULL) {
        struct kw_filter_result result;
        assert_int_equal(ask(f, EXT_VERB_FILTER, body, len), 200);
        assert_int_equal(kw_filter_result_decode(f->out.data, f->out.len, &result, NULL), 0);
        assert_string_equal(result.error, "");
        assert_int_equal(result.n_failed, 0);
        assert_int_equal(result.n_names, args.n_names);
        assert_int_equal(result.n_nodes, args.n_nodes);
        for (size_t i = 0; i < result.n_names; i++)
            assert_string_equal(result.names[i].text, names[i].text);
        kw_filter_result_clear(&result);
    } else {
        struct kw_host_priority *list;
        size_t n_list;
        assert_int_equal(ask(f, EXT_VERB_PRIORITIZE, body, len), 200);
        assert_int_equal(kw_host_priorities_decode(f->out.data, f->out.len, &list, &n_list, NULL),
                         0);
        assert_int_equal(n_list, n);
        for (size_t i = 0; i < n; i++) {
            assert_string_equal(list[i].host.text, names[i].text);
            assert_in_range(list[i].score, 0, 10);
        }
        kw_host_priorities_free(&list, n_list);
    }
    kw_extender_args_clear(&args);
}

/** @return how many requests were answered. */
static unsigned check_folder(struct fixture *f, const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char file[4096];
        kw_cleanup_free char *body = NULL;
        size_t len;
        if (strstr(entry->d_name, ".json") == NULL ||
            kw_path_join(file, sizeof(file), path, entry->d_name) < 0)
            continue;
        assert_int_equal(kw_file_slurp(file, 1 << 24, &body, &len), 0);
        check_recording(f, entry->d_name, body, len);
        n++;
    }
    if (folder != NULL)
        (void)closedir(folder);
    return n;
}

static void test_fixtures(void **state)
{
    char path[4096];

    assert_int_equal(kw_path_join(path, sizeof(path), getenv("KWATT_SOURCE_DIR"),
                                  "tests/unit/extender/fixtures"),
                     0);
    assert_int_equal(check_folder(*state, path), 8);
}

static void test_recordings(void **state)
{
    const char *shared = getenv("KWATT_SHARED");
    char fallback[4096];
    char path[4200];

    if (shared == NULL) {
        (void)snprintf(fallback, sizeof(fallback), "%s/../shared", getenv("KWATT_SOURCE_DIR"));
        shared = fallback;
    }
    assert_int_equal(kw_path_join(path, sizeof(path), shared, "data/kubernetes/extender"), 0);
    struct stat st;
    if (stat(path, &st) < 0) {
        print_message("SKIP: no recordings of a real scheduler at %s\n", path);
        skip();
    }
    assert_true(check_folder(*state, path) > 0);
}

int main(void)
{
    if (getenv("KWATT_SOURCE_DIR") == NULL) {
        printf("SKIP: KWATT_SOURCE_DIR is not set\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exempt_pods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_decisions_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_statuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steady_state_allocates_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_learnt_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_out_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_and_deep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fixtures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_recordings, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
