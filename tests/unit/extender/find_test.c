/* SPDX-License-Identifier: Apache-2.0 */
/* What is found never depends on what was learnt: each list is read again and again, in other
 * orders and with other snapshots, and each name is looked up by itself beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "extender/find.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define LIMIT UINT64_C(30000000000)
#define MAX   400

static struct ext_snapshot *snapshot_of(const char *const *names, size_t n)
{
    struct ext_node nodes[MAX];
    struct kw_curve curve = kwt_server_curve(64000);

    for (size_t i = 0; i < n; i++)
        nodes[i] = kwt_node(names[i], &curve, (double)i);
    struct ext_snapshot *snapshot = ext_snapshot_new(nodes, n, 3, LIMIT);
    assert_non_null(snapshot);
    return snapshot;
}

/** Reads the list `parts` in one go and in small steps, and compares with what each name finds. */
static size_t check(struct ext_finder *finder, const struct ext_snapshot *snapshot,
                    const char *body)
{
    struct kw_json_text texts[MAX], plain[MAX];
    uint32_t indices[MAX];
    struct kw_json json;
    struct kw_json_token token;
    size_t n = 0;
    size_t found = 0;

    kw_json_begin(&json, body, strlen(body));
    assert_int_equal(kw_json_next(&json, &token), KW_JSON_ARRAY);
    size_t want = kw_json_strings(&json, plain, MAX);
    for (size_t step = 1; step <= MAX; step = step * 5 + 1) {
        kw_json_begin(&json, body, strlen(body));
        (void)kw_json_next(&json, &token);
        assert_int_equal(ext_finder_begin(finder, snapshot), 0);
        n = 0;
        for (size_t more = 1; more > 0; n += more) {
            size_t room = MAX - n < step ? MAX - n : step;
            more = ext_find_strings(finder, &json, texts + n, indices + n, room);
        }
        assert_int_equal(n, want);
    }
    assert_int_equal(kw_json_next(&json, &token), KW_JSON_ARRAY_END);
    for (size_t i = 0; i < n; i++) {
        char text[300];
        token = (struct kw_json_token){
            .at = texts[i].at, .len = texts[i].len, .escaped = texts[i].escaped};
        assert_true(texts[i].at == plain[i].at && texts[i].len == plain[i].len);
        assert_int_equal(texts[i].escaped, plain[i].escaped);
        size_t len = kw_json_unescape(&token, text);
        const struct ext_node *node = ext_snapshot_find(snapshot, text, len);
        const struct ext_place *place =
            node == NULL ? NULL : &snapshot->places[node - snapshot->nodes];
        assert_int_equal(indices[i], node == NULL ? 0 : node - snapshot->nodes + 1);
        assert_ptr_equal(ext_found_place(snapshot, indices[i], 0), place);
        found += place != NULL;
    }
    return found;
}

static void test_lists(void **state)
{
    (void)state;
    static const char *const names[] = {
        "n",
        "node-1",
        "node-10",
        "node-100",
        "ip-10-000-000-001.eu-central-1.compute.internal",
        "ip-10-000-000-002.eu-central-1.compute.internal",
        "a-name-of-exactly-51-bytes-which-is-the-last-to-fit",
        "a-name-of-exactly-52-bytes-which-is-the-first-not-to",
        "with\"quote",
        "with\\backslash",
        "\xc3\xa9t\xc3\xa9",
    };
    static const char *const lists[] = {
        "[]",
        "[\"n\"]",
        "[\"n\",\"node-1\",\"node-10\",\"node-100\"]",
        "[\"n\",\"node-1\",\"node-10\",\"node-100\"]", /* now as expected */
        "[\"node-10\",\"node-1\",\"node-100\",\"n\"]",
        "[\"n\",\"n\",\"n\",\"n\",\"n\",\"n\",\"n\"]",
        "[\"n\",\"node-1x\",\"node-10\",\"node-100\"]",
        "[\"n\", \"node-1\" ,\n\"node-10\",\"node-100\"]", /* not as programs write it */
        "[\"n\",\"n\\u006fde-1\",\"node-10\",\"node-100\"]",
        "[\"n\",\"n\\u006fde-1\",\"node-10\",\"node-100\"]",
        "[\"\",\"\",\"n\",\"\"]",
        "[\"ip-10-000-000-001.eu-central-1.compute.internal\",\"ip-10-000-000-002.eu-central-1"
        ".compute.internal\",\"a-name-of-exactly-51-bytes-which-is-the-last-to-fit\",\"a-name-of-"
        "exactly-52-bytes-which-is-the-first-not-to\",\"n\",\"node-1\"]",
        "[\"ip-10-000-000-001.eu-central-1.compute.internal\",\"ip-10-000-000-002.eu-central-1"
        ".compute.internal\",\"a-name-of-exactly-51-bytes-which-is-the-last-to-fit\",\"a-name-of-"
        "exactly-52-bytes-which-is-the-first-not-to\",\"n\",\"node-1\"]",
        "[\"with\\\"quote\",\"with\\\\backslash\",\"\xc3\xa9t\xc3\xa9\",\"n\"]",
        "[\"with\\\"quote\",\"with\\\\backslash\",\"\xc3\xa9t\xc3\xa9\",\"n\"]",
    };
    struct ext_finder finder = {0};
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
        snapshot_of(names, KW_ARRAY_SIZE(names));

    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < KW_ARRAY_SIZE(lists); i++)
            (void)check(&finder, snapshot, lists[i]);
    }
    ext_finder_free(&finder);
}

/** Where the document ends inside an expected name, the reader says so and reads no further. */
static void test_cut_lists(void **state)
{
    (void)state;
    static const char *const names[] = {"node-1", "node-2"};
    static const char body[] = "[\"node-1\",\"node-2\",\"node-1\",\"node-2\"]";
    struct ext_finder finder = {0};
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot = snapshot_of(names, 2);

    assert_int_equal(check(&finder, snapshot, body), 4);
    for (size_t len = 0; len < sizeof(body) - 1; len++) {
        kw_cleanup_free char *copy = malloc(len + 1); /* so that the sanitizer sees */
        struct kw_json_text texts[8];
        uint32_t indices[8];
        struct kw_json json;
        struct kw_json_token token;

        assert_non_null(copy);
        memcpy(copy, body, len);
        kw_json_begin(&json, copy, len);
        if (kw_json_next(&json, &token) != KW_JSON_ARRAY)
            continue;
        assert_int_equal(ext_finder_begin(&finder, snapshot), 0);
        assert_true(ext_find_strings(&finder, &json, texts, indices, 8) <= len / 9);
        assert_int_equal(kw_json_next(&json, &token), KW_JSON_ERROR);
    }
    ext_finder_free(&finder);
}

static void test_any_order(void **state)
{
    (void)state;
    static char text[MAX][40];
    const char *names[MAX];
    struct ext_finder finder = {0};
    uint64_t seed = 7;

    for (size_t i = 0; i < MAX; i++) {
        (void)snprintf(text[i], sizeof(text[i]), "node-%zu.rack-%zu.example.org", i, i / 40);
        names[i] = text[i];
    }
    for (unsigned round = 0; round < 40; round++) {
        /* snapshots grow and shrink, and their nodes change places */
        size_t n = 1 + kwt_next(&seed) % MAX;
        size_t from = kwt_next(&seed) % (MAX - n + 1);
        kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot = snapshot_of(names + from, n);
        kw_cleanup(kw_buf_free) struct kw_buf body = {0};
        size_t known = 0;
        for (size_t i = 0; i < MAX; i++) {
            /* runs of some twenty names, then elsewhere */
            size_t at = i % 20 == 0 ? kwt_next(&seed) % MAX : (from + i) % MAX;
            known += at >= from && at < from + n;
            (void)kw_buf_addf(&body, "%s\"%s\"", i > 0 ? "," : "[", names[at]);
        }
        (void)kw_buf_adds(&body, "]");
        assert_false(body.failed);
        assert_int_equal(check(&finder, snapshot, body.data), known);
        assert_int_equal(check(&finder, snapshot, body.data), known);
    }
    ext_finder_free(&finder);
}

static void test_nothing_known(void **state)
{
    (void)state;
    struct ext_finder finder = {0};
    struct kw_json_text texts[2];
    uint32_t indices[2] = {7, 7};
    struct kw_json json;
    struct kw_json_token token;

    kw_json_begin(&json, "[\"a\",\"b\"]", 9);
    (void)kw_json_next(&json, &token);
    assert_int_equal(ext_finder_begin(&finder, NULL), 0);
    assert_int_equal(ext_find_strings(&finder, &json, texts, indices, 2), 2);
    assert_int_equal(indices[0], 0);
    assert_int_equal(indices[1], 0);
    ext_finder_free(&finder);
}

static void test_old_samples_are_not_known(void **state)
{
    (void)state;
    static const char *const names[] = {"a"};
    static const struct kw_json_text text = {.at = "a", .len = 1};
    struct ext_finder finder = {0};
    uint32_t index;
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot = snapshot_of(names, 1);

    assert_int_equal(ext_finder_begin(&finder, snapshot), 0);
    ext_find_texts(&finder, &text, 1, &index);
    assert_int_equal(index, 1);
    assert_ptr_equal(ext_found_place(snapshot, index, (int64_t)LIMIT), &snapshot->places[0]);
    assert_null(ext_found_place(snapshot, index, (int64_t)LIMIT + 1));
    ext_finder_free(&finder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_cut_lists),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_old_samples_are_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
