/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request in, an answer out, as the scheduler would read it: our fixtures always, the recordings
 * of a real scheduler where they are at hand.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"
#include "tests/unit/extender/service_fixture.h"

/** Score of a host in the last answer. */
static int64_t score_of(struct kwt_service *f, const char *host)
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
    struct kwt_service *f = *state;
    static const char body[] =
        "{\"Pod\":{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]}},"
        "\"NodeNames\":[\"barn-a\",\"barn-\\u0062\",\"barn-stale\",\"barn-blank\",\"elsewhere\"]}";

    assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_non_null(strstr(f->out.data, "\"Host\":\"barn-\\u0062\",\"Score\":10"));
    assert_int_equal(score_of(f, "barn-a"), 0);
    assert_int_equal(score_of(f, "barn-b"), 10);
    assert_int_equal(score_of(f, "barn-stale"), 0); /* the (lower) median of 0 and 10 */
    assert_int_equal(score_of(f, "elsewhere"), 0);
    assert_int_equal(f->service.stats.scored, 2);
    assert_int_equal(f->service.stats.neutral, 3);
    ext_snapshot_free(&f->snapshot);
    assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(score_of(f, "barn-a"), EXT_SCORE_NEUTRAL);
    assert_int_equal(score_of(f, "barn-b"), EXT_SCORE_NEUTRAL);
}

static void test_exempt_pods(void **state)
{
    struct kwt_service *f = *state;
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
        assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body.data, body.len), 200);
        assert_int_equal(score_of(f, "barn-a"), EXT_SCORE_NEUTRAL);
        assert_int_equal(score_of(f, "barn-b"), EXT_SCORE_NEUTRAL);
        kw_buf_free(&body);
    }
}

static void set_dry_run(struct kwt_service *f, bool dry_run)
{
    struct ext_policy other = kwt_policy;

    other.dry_run = dry_run;
    assert_int_equal(ext_service_set_policy(&f->service, &other), 0);
}

/** What is kept of a request, and what is not said in a dry run. */
static void test_decisions_are_kept(void **state)
{
    struct kwt_service *f = *state;
    static const char body[] = "{\"Pod\":{\"metadata\":{\"namespace\":\"orchard\",\"name\":"
                               "\"pear\"},\"spec\":{\"containers\":"
                               "[{\"resources\":{\"requests\":{\"cpu\":\"2\"}}}]}},\"NodeNames\":["
                               "\"barn-a\",\"barn-blank\","
                               "\"barn-\\u0062\",\"elsewhere\"]}";
    struct kw_buf page = {0};

    set_dry_run(f, true);
    assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(score_of(f, "barn-a"), 5);
    assert_int_equal(score_of(f, "barn-b"), 5);
    set_dry_run(f, false);
    assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, sizeof(body) - 1), 200);
    assert_int_equal(score_of(f, "barn-b"), 10);
    assert_int_equal(kwt_ask(f, EXT_VERB_FILTER, body, sizeof(body) - 1), 200);
    assert_int_equal(
        ext_decisions_page(f->service.decisions, "orchard/pear", EXT_FORM_JSON, NULL, &page),
        2); /* /filter decides nothing */
    static const char *const holds[] = {
        "\"dry_run\":true", "\"dry_run\":false", "\"mcpu\":2000,\"mcpu_from\":\"requests\"",
        "\"candidates\":4,\"known\":2,\"min_mw\":10000,\"max_mw\":40000,\"life_ms\":3600000,\"data_"
        "age_"
        "ms\":-1",
        "\"best\":[{\"node\":\"barn-b\",\"mw\":10000,\"used_mcpu\":1000,\"fill_permille\":125,"
        "\"score\":10,\"wake_j\":null}]"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(holds); i++) {
        if (strstr(page.data, holds[i]) == NULL)
            fail_msg("no %s in %s", holds[i], page.data);
    }
    kw_buf_free(&page);
}

static void test_statuses(void **state)
{
    struct kwt_service *f = *state;
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
        assert_int_equal(kwt_ask(f, cases[i].verb, cases[i].body, strlen(cases[i].body)),
                         cases[i].status);
        assert_non_null(strstr(f->out.data, cases[i].holds));
    }
    assert_int_equal(f->service.stats.requests[EXT_VERB_FILTER][EXT_OUTCOME_REFUSED], 3);
    assert_int_equal(f->service.stats.requests[EXT_VERB_PRIORITIZE][EXT_OUTCOME_OK], 2);
}

/** Scores of the hosts in the last answer, in their order. */
static size_t scores_of(struct kwt_service *f, int64_t *ret, size_t n)
{
    struct kw_host_priority *list = NULL;
    size_t got = 0;

    assert_int_equal(kw_host_priorities_decode(f->out.data, f->out.len, &list, &got, NULL), 0);
    assert_true(got <= n);
    for (size_t i = 0; i < got; i++)
        ret[i] = list[i].score;
    kw_host_priorities_free(&list, got);
    return got;
}

/* A list that comes again is recognised by its bytes: it must mean what it means by then, whatever
 * was asked between, and whatever nodes there are. */
static void test_lists_that_come_again(void **state)
{
    struct kwt_service *f = *state;
    static const char *const bodies[] = {
        "{\"Pod\":{},\"NodeNames\":[\"barn-a\",\"barn-b\"]}",
        "{\"NodeNames\":[\"barn-a\",\"barn-b\"],\"Pod\":{\"metadata\":{\"name\":\"p\"}}}",
        "{\"Pod\":{},\"NodeNames\":[\"barn-b\",\"barn-a\"]}",
        "{\"Pod\":{},\"NodeNames\":[\"barn-a\",\"barn-b\",\"barn-a\"]}",
        "{\"Pod\":{},\"NodeNames\":[\"barn-a\",null,\"barn-b\"]}",
        "{\"Pod\":{},\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"barn-b\"}}]}}",
        "{\"Pod\":{},\"NodeNames\":[\"barn-a\",\"barn-b\"],\"Nodes\":{\"items\":[]}}",
        "{\"NodeNames\":[\"barn-b\"],\"NodeNames\":[\"barn-a\",\"barn-b\"]}",
        "{\"Pod\":{},\"NodeNames\":[ \"barn-a\" , \"barn-\\u0062\" ]}",
        "{\"Pod\":{},\"NodeNames\":[\"barn-a\",\"barn-b\"}",
        "{\"Pod\":{},\"NodeNames\":[\"barn-a\",\"barn-b\"] ]}",
        "{\"Pod\":{},\"NodeNames\":[]}",
    };
    static const struct {
        unsigned status;
        size_t n;
        int64_t scores[3];
    } first[] = {{200, 2, {0, 10}},    {200, 2, {0, 10}}, {200, 2, {10, 0}}, {200, 3, {0, 10, 0}},
                 {200, 3, {0, 0, 10}}, {200, 1, {10}},    {200, 2, {0, 10}}, {200, 2, {0, 10}},
                 {200, 2, {0, 10}},    {400, 0, {0}},     {400, 0, {0}},     {200, 0, {0}}};
    struct kw_curve dear = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 180000, 0}}};
    struct kw_curve cheap = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 20000, 0}, {1000, 60000, 0}}};
    /* the same names in other places, and the cheap one is the other */
    const struct ext_node turned[] = {kwt_node("barn-b", &dear, 1000),
                                      kwt_node("barn-a", &cheap, 1000)};
    struct ext_snapshot *snapshots[] = {f->snapshot,
                                        ext_snapshot_new(turned, 2, 99, kwt_policy.stale_after_ns)};
    uint64_t seed = 3;

    assert_non_null(snapshots[1]);
    for (unsigned round = 0; round < 2000; round++) {
        size_t which = kwt_next(&seed) % KW_ARRAY_SIZE(bodies);
        size_t body = round % 3 == 0 ? 0 : which;
        bool other = kwt_next(&seed) % 4 == 0;
        int64_t scores[3] = {0};
        f->snapshot = snapshots[other];
        assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, bodies[body], strlen(bodies[body])),
                         first[body].status);
        if (first[body].status != 200)
            continue;
        assert_int_equal(scores_of(f, scores, 3), first[body].n);
        for (size_t i = 0; i < first[body].n; i++) {
            bool alone = first[body].n == 1;
            int64_t want = first[body].scores[i];
            if (body == 4 && i == 1) /* the name of no node: the median of the others */
                want = 0;
            else if (other && !alone)
                want = 10 - want;
            assert_int_equal(scores[i], want);
        }
    }
    f->snapshot = snapshots[0];
    ext_snapshot_free(&snapshots[1]);
}

static void test_large_and_deep(void **state)
{
    struct kwt_service *f = *state;
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
    assert_int_equal(kwt_ask(f, EXT_VERB_FILTER, body.data, body.len), 200);
    assert_int_equal(kw_filter_result_decode(f->out.data, f->out.len, &result, NULL), 0);
    assert_int_equal(result.n_names, 1);
    assert_string_equal(result.error, "");
    kw_filter_result_clear(&result);

    kw_buf_reset(&body);
    for (unsigned i = 0; i < 1000000; i++)
        (void)kw_buf_adds(&body, "[");
    assert_int_equal(kwt_ask(f, EXT_VERB_FILTER, body.data, body.len), 200);
    assert_non_null(strstr(f->out.data, "\"Error\":\"kwatt: "));
    assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body.data, body.len), 400);
    kw_buf_free(&body);
}

/** Checks the answer to a request of a real scheduler (or one like it). */
static void check_recording(struct kwt_service *f, const char *name, const char *body, size_t len)
{
    struct kw_extender_args args = {0};
    const char *why = "";

    if (strstr(name, "preempt") != NULL) {
        assert_int_equal(kwt_ask(f, EXT_VERB_PREEMPT, body, len), 200);
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
        assert_int_equal(kwt_ask(f, EXT_VERB_FILTER, body, len), 200);
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
        assert_int_equal(kwt_ask(f, EXT_VERB_PRIORITIZE, body, len), 200);
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
static unsigned check_folder(struct kwt_service *f, const char *path)
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
        cmocka_unit_test_setup_teardown(test_scores, kwt_service_set_up, kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_exempt_pods, kwt_service_set_up,
                                        kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_decisions_are_kept, kwt_service_set_up,
                                        kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_statuses, kwt_service_set_up, kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_lists_that_come_again, kwt_service_set_up,
                                        kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_large_and_deep, kwt_service_set_up,
                                        kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_fixtures, kwt_service_set_up, kwt_service_tear_down),
        cmocka_unit_test_setup_teardown(test_recordings, kwt_service_set_up, kwt_service_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
