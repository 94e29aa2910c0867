/* SPDX-License-Identifier: Apache-2.0 */
/* The guard in front of the check of layouts, and what is checked without one. */
#include <string.h>

#include "common/cleanup.h"
#include "common/http_framing.h"
#include "tests/support/cmocka.h"

static void test_only_tried_versions_are_known(void **state)
{
    static const char *const others[] = {"",       "0.9.7",     "0.9.74", "0.9.750",
                                         "0.9.77", "0.9.75-rc", "1.0.1",  "0.9.76"};

    (void)state;
    assert_true(kw_http_layout_is_known("0.9.75"));
    for (size_t i = 0; i < KW_ARRAY_SIZE(others); i++)
        assert_false(kw_http_layout_is_known(others[i]));
}

/** The verdict on a request whose parts were copied here and there, as a library may do. */
static unsigned verdict(bool in_place, const char *const (*headers)[2], size_t n)
{
    static const char method[] = "POST";
    static const char target[] = "/filter";
    static const char version[] = "HTTP/1.1";
    struct kw_http_framing framing;

    kw_http_framing_begin(&framing, in_place, method, 100, target, strlen(target), version);
    for (size_t i = 0; i < n; i++)
        kw_http_framing_header(&framing, headers[i][0], strlen(headers[i][0]), headers[i][1],
                               strlen(headers[i][1]));
    return kw_http_framing_verdict(&framing, true, false);
}

static void test_copied_heads_pass_without_the_layout(void **state)
{
    static const char *const plain[][2] = {{"Host", "x"}, {"Content-Length", "2"}};

    (void)state;
    assert_int_equal(verdict(false, plain, 2), 0);
    assert_int_equal(verdict(true, plain, 2), 400);
}

static void test_ambiguity_is_refused_without_the_layout(void **state)
{
    static const char *const two_lengths[][2] = {
        {"Host", "x"}, {"Content-Length", "2"}, {"Content-Length", "3"}};
    static const char *const both[][2] = {
        {"Host", "x"}, {"Transfer-Encoding", "chunked"}, {"Content-Length", "3"}};
    static const char *const gzip[][2] = {{"Host", "x"}, {"Transfer-Encoding", "gzip"}};
    static const char *const blank_in_name[][2] = {{"Host", "x"}, {"Content-Length ", "2"}};
    static const char *const bare_cr[][2] = {{"Host", "x"}, {"A", "b\rContent-Length: 5"}};
    static const char *const none[][2] = {{"Host", "x"}};

    (void)state;
    assert_int_equal(verdict(false, two_lengths, 3), 400);
    assert_int_equal(verdict(false, both, 3), 400);
    assert_int_equal(verdict(false, gzip, 2), 501);
    assert_int_equal(verdict(false, blank_in_name, 2), 400);
    assert_int_equal(verdict(false, bare_cr, 2), 400);
    assert_int_equal(verdict(false, none, 1), 411);
}

static void test_compressed_bodies_are_refused(void **state)
{
    static const char *const gzip[][2] = {
        {"Host", "x"}, {"Content-Length", "2"}, {"Content-Encoding", "gzip"}};
    static const char *const plain[][2] = {
        {"Host", "x"}, {"content-encoding", "Identity"}, {"Content-Length", "2"}};
    static const char *const both[][2] = {{"Host", "x"},
                                          {"Content-Length", "2"},
                                          {"Content-Encoding", "br"},
                                          {"Content-Encoding", "identity"}};

    (void)state;
    assert_int_equal(verdict(false, gzip, 3), 415);
    assert_int_equal(verdict(false, plain, 3), 0);
    assert_int_equal(verdict(false, both, 4), 415);
}

/** RFC 9112, 3.2. */
static void test_one_host_is_wanted(void **state)
{
    static const char *const none[][2] = {{"Content-Length", "2"}};
    static const char *const empty[][2] = {{"HOST", ""}, {"Content-Length", "2"}};
    static const char *const two[][2] = {{"Host", "x"}, {"Content-Length", "2"}, {"host", "x"}};
    static const char version[] = "HTTP/1.0";
    struct kw_http_framing framing;

    (void)state;
    assert_int_equal(verdict(false, none, 1), 400);
    assert_int_equal(verdict(false, empty, 2), 0);
    assert_int_equal(verdict(false, two, 3), 400);
    kw_http_framing_begin(&framing, false, "GET", 100, "/", 1, version);
    assert_int_equal(kw_http_framing_verdict(&framing, false, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_tried_versions_are_known),
        cmocka_unit_test(test_copied_heads_pass_without_the_layout),
        cmocka_unit_test(test_ambiguity_is_refused_without_the_layout),
        cmocka_unit_test(test_compressed_bodies_are_refused),
        cmocka_unit_test(test_one_host_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
