/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/kube_impl.h"
#include "tests/support/cmocka.h"

struct seen {
    struct kw_buf items; /* each followed by '|' */
    unsigned left;       /* stop after so many */
};

static bool on_item(void *user, const char *json, size_t len)
{
    struct seen *seen = user;

    (void)kw_buf_add(&seen->items, json, len);
    (void)kw_buf_adds(&seen->items, "|");
    return --seen->left > 0;
}

static int cut(const char *text, struct seen *seen, struct kw_kube_page *page, struct kw_err *err)
{
    return kw_kube_cut_list(text, strlen(text), on_item, seen, page, err);
}

static void list_is_cut_verbatim(void **state)
{
    struct seen seen = {.left = 99};
    kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};
    struct kw_err err = {0};
    (void)state;

    assert_int_equal(cut("{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\\u0030\","
                         "\"continue\":\"abc\",\"remainingItemCount\":3},"
                         "\"items\":[ {\"a\": [1,{}]} ,{}]}\n",
                         &seen, &page, &err),
                     0);
    assert_string_equal(seen.items.data, "{\"a\": [1,{}]}|{}|");
    assert_string_equal(page.version, "70");
    assert_string_equal(page.next, "abc");
    kw_buf_free(&seen.items);
}

static void empty_lists(void **state)
{
    static const char *const texts[] = {
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}",
        "{\"items\":null,\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"1\"}}",
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        struct seen seen = {.left = 1};
        kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};
        assert_int_equal(cut(texts[i], &seen, &page, NULL), 0);
        assert_null(page.next);
        assert_string_equal(page.version, "1");
        assert_null(seen.items.data);
    }
}

static void what_is_no_list(void **state)
{
    static const char *const texts[] = {
        "",
        "null",
        "[]",
        "{",
        "{}",
        "{\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"\"},\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":1},\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"1\\u0000\"},\"items\":[]}",
        "{\"metadata\":[],\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"}}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":{}}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[1]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]} x",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{\"a\":}]}",
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        struct seen seen = {.left = 99};
        struct kw_kube_page page = {0};
        struct kw_err err = {0};
        if (cut(texts[i], &seen, &page, &err) != -EPROTO || err.code != -EPROTO)
            fail_msg("'%s' was taken", texts[i]);
        assert_null(page.version);
        kw_buf_free(&seen.items);
    }
}

static void consumer_may_stop(void **state)
{
    struct seen seen = {.left = 1};
    struct kw_kube_page page = {0};
    (void)state;

    assert_int_equal(cut("{\"items\":[{},{}]}", &seen, &page, NULL), -ECANCELED);
    assert_string_equal(seen.items.data, "{}|");
    kw_buf_free(&seen.items);
}

static void watch_lines(void **state)
{
    static const struct {
        const char *text;
        enum kw_kube_line_type type; /* __MAX: refused */
        const char *object, *version;
    } rows[] = {
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}",
         KW_KUBE_LINE_ADDED, "{\"metadata\":{\"resourceVersion\":\"5\"}}", "5"},
        {"{\"object\":{\"spec\":{\"metadata\":{}},\"metadata\":{\"name\":\"a\","
         "\"resourceVersion\":\"6\"}},\"type\":\"DEL\\u0045TED\"}\r",
         KW_KUBE_LINE_DELETED, NULL, "6"},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\","
         "\"creationTimestamp\":null}}}",
         KW_KUBE_LINE_BOOKMARK, NULL, "7"},
        {"{\"type\":\"ERROR\",\"object\":{\"code\":410}}", KW_KUBE_LINE_ERROR, "{\"code\":410}",
         ""},
        {"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{}}}", KW_KUBE_LINE__MAX, NULL, NULL},
        {"{\"type\":\"MODIFIED\",\"object\":{}}", KW_KUBE_LINE__MAX, NULL, NULL},
        {"{\"type\":\"OTHER\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}",
         KW_KUBE_LINE__MAX, NULL, NULL},
        {"{\"type\":\"ADDED\",\"object\":[]}", KW_KUBE_LINE__MAX, NULL, NULL},
        {"{\"type\":\"ADDED\"}", KW_KUBE_LINE__MAX, NULL, NULL},
        {"{\"type\":1,\"object\":{}}", KW_KUBE_LINE__MAX, NULL, NULL},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}",
         KW_KUBE_LINE__MAX, NULL, NULL},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}{}",
         KW_KUBE_LINE__MAX, NULL, NULL},
        {"x", KW_KUBE_LINE__MAX, NULL, NULL},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_kube_line line = {.type = KW_KUBE_LINE__MAX};
        struct kw_err err = {0};
        int r = kw_kube_cut_line(rows[i].text, strlen(rows[i].text), &line, &err);
        if (rows[i].type == KW_KUBE_LINE__MAX) {
            if (r != -EPROTO)
                fail_msg("row %zu was taken", i);
            assert_null(line.object);
            continue;
        }
        if (r != 0)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(line.type, rows[i].type);
        assert_string_equal(line.version, rows[i].version);
        if (rows[i].object != NULL) {
            assert_int_equal(line.object_len, strlen(rows[i].object));
            assert_memory_equal(line.object, rows[i].object, line.object_len);
        }
    }
}

static void version_too_long_is_refused(void **state)
{
    kw_cleanup(kw_buf_free) struct kw_buf text = {0};
    struct kw_kube_line line;
    (void)state;

    (void)kw_buf_adds(&text,
                      "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"");
    for (int i = 0; i < KW_KUBE_VERSION_BYTES; i++)
        (void)kw_buf_adds(&text, "1");
    (void)kw_buf_adds(&text, "\"}}}");
    assert_int_equal(kw_kube_cut_line(text.data, text.len, &line, NULL), -EPROTO);
}

static void status_objects(void **state)
{
    struct kw_kube_status status;
    struct kw_err err = {0};
    static const char gone[] =
        "{\"kind\":\"Status\",\"message\":\"too old\\nversion\",\"code\":410}";
    (void)state;

    kw_kube_status_parse(gone, strlen(gone), &status);
    assert_int_equal(status.code, 410);
    assert_string_equal(status.message, "too old version");
    kw_kube_status_parse("<html>", 6, &status);
    assert_int_equal(status.code, 0);
    assert_string_equal(status.message, "");
    kw_kube_status_parse("{\"code\":-1,\"message\":5}", 23, &status);
    assert_int_equal(status.code, 0);

    assert_int_equal(
        kw_kube_status_error("GET", "https://a", "/x?limit=5", 403, gone, strlen(gone), &err),
        -EACCES);
    assert_string_equal(err.text, "GET https://a/x: 403: too old version");
    assert_int_equal(kw_kube_status_error("GET", "https://a", "/x", 401, "", 0, &err), -EACCES);
    assert_int_equal(kw_kube_status_error("GET", "https://a", "/x", 404, "", 0, &err), -ENOENT);
    assert_int_equal(kw_kube_status_error("PUT", "https://a", "/x", 409, "", 0, &err), -EEXIST);
    assert_int_equal(kw_kube_status_error("GET", "https://a", "/x", 500, "", 0, &err), -EREMOTEIO);
    assert_string_equal(err.text, "GET https://a/x: 500");
}

static void url_encoding(void **state)
{
    kw_cleanup(kw_buf_free) struct kw_buf url = {0};
    (void)state;

    assert_int_equal(kw_kube_url_encode(&url, "a-Z_0.~/?&=% \xc3\xa9"), 0);
    assert_string_equal(url.data, "a-Z_0.~%2F%3F%26%3D%25%20%C3%A9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_is_cut_verbatim), cmocka_unit_test(empty_lists),
        cmocka_unit_test(what_is_no_list),      cmocka_unit_test(consumer_may_stop),
        cmocka_unit_test(watch_lines),          cmocka_unit_test(version_too_long_is_refused),
        cmocka_unit_test(status_objects),       cmocka_unit_test(url_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
