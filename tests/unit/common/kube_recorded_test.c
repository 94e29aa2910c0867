/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and lists recorded from a real kube-apiserver, where the recordings are at hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/kube_impl.h"
#include "tests/support/cmocka.h"

#define MAX_BYTES (16u << 20)

static char folder[4096];

static char *slurp(const char *name, size_t *ret_len)
{
    char path[4200];
    char *bytes = NULL;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(kw_file_slurp(path, MAX_BYTES, &bytes, ret_len), 0);
    return bytes;
}

struct counts {
    unsigned lines[KW_KUBE_LINE__MAX];
    unsigned code; /* of the last ERROR */
    size_t items;
};

static int on_line(void *user, const char *bytes, size_t len)
{
    struct counts *counts = user;
    struct kw_kube_status status;
    struct kw_kube_line line;
    struct kw_err err = {0};

    if (kw_kube_cut_line(bytes, len, &line, &err) != 0)
        fail_msg("%s", err.text);
    counts->lines[line.type]++;
    if (line.type == KW_KUBE_LINE_ERROR) {
        kw_kube_status_parse(line.object, line.object_len, &status);
        counts->code = status.code;
    }
    return 0;
}

static struct counts feed(const char *name, size_t step)
{
    struct kw_kube_lines lines = {0};
    struct counts counts = {0};
    size_t len = 0;
    kw_cleanup_free char *bytes = slurp(name, &len);

    for (size_t at = 0; at < len; at += step)
        assert_int_equal(kw_kube_lines_feed(&lines, bytes + at, len - at < step ? len - at : step,
                                            on_line, &counts),
                         0);
    kw_kube_lines_free(&lines);
    return counts;
}

static void pod_watch(void **state)
{
    struct counts whole = feed("pods-watch.jsonl", MAX_BYTES);
    struct counts pieces = feed("pods-watch.jsonl", 1009);
    (void)state;

    assert_memory_equal(&whole, &pieces, sizeof(whole));
    assert_true(whole.lines[KW_KUBE_LINE_ADDED] > 0);
    assert_true(whole.lines[KW_KUBE_LINE_MODIFIED] > 0);
    assert_true(whole.lines[KW_KUBE_LINE_DELETED] > 0);
    assert_true(whole.lines[KW_KUBE_LINE_BOOKMARK] > 0);
    assert_int_equal(whole.lines[KW_KUBE_LINE_ERROR], 0);
}

static void watch_of_a_version_that_is_gone(void **state)
{
    struct counts counts = feed("pods-watch-gone.json", 10);
    (void)state;

    assert_int_equal(counts.lines[KW_KUBE_LINE_ERROR], 1);
    assert_int_equal(counts.code, 410);
}

static bool on_item(void *user, const char *json, size_t len)
{
    struct counts *counts = user;

    assert_true(len > 2 && json[0] == '{' && json[len - 1] == '}');
    counts->items++;
    return true;
}

static void lists(void **state)
{
    static const struct {
        const char *name;
        size_t items; /* 0: some */
        bool more;
    } rows[] = {
        {"pods-list.json", 0, false},
        {"pods-list-page1.json", 3, true},
        {"nodes-list.json", 2, false},
        {"vpa-list.json", 0, false},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};
        struct counts counts = {0};
        struct kw_err err = {0};
        size_t len = 0;
        kw_cleanup_free char *bytes = slurp(rows[i].name, &len);
        if (kw_kube_cut_list(bytes, len, on_item, &counts, &page, &err) != 0)
            fail_msg("%s: %s", rows[i].name, err.text);
        assert_true(counts.items > 0);
        assert_true(rows[i].items == 0 || counts.items == rows[i].items);
        assert_int_equal(page.next != NULL, rows[i].more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pod_watch),
        cmocka_unit_test(watch_of_a_version_that_is_gone),
        cmocka_unit_test(lists),
    };
    const char *shared = getenv("KWATT_SHARED");
    const char *source = getenv("KWATT_SOURCE_DIR");

    if (shared != NULL)
        (void)snprintf(folder, sizeof(folder), "%s/data/kubernetes", shared);
    else
        (void)snprintf(folder, sizeof(folder), "%s/../shared/data/kubernetes",
                       source != NULL ? source : ".");
    if (access(folder, R_OK) != 0) {
        printf("SKIP: no recordings in %s (KWATT_SHARED names their folder)\n", folder);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
