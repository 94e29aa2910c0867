/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/http_client_conf.h"
#include "tests/support/cmocka.h"

static void check_url(const char *text, const char *name, const char *base_url,
                      const char *connect_to, bool loopback)
{
    struct kw_http_client_settings settings;
    struct kw_http_client_conf conf = {.base_url = text, .server_name = name};
    struct kw_err err = {0};

    if (kw_http_client_settings_open(&settings, &conf, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(settings.base_url, base_url);
    assert_int_equal(settings.loopback, loopback);
    if (connect_to == NULL)
        assert_null(settings.connect_to);
    else
        assert_string_equal(settings.connect_to, connect_to);
    kw_http_client_settings_close(&settings);
}

static void test_urls(void **state)
{
    (void)state;
    check_url("http://h", NULL, "http://h:80", NULL, false);
    check_url("https://h/", NULL, "https://h:443", NULL, false);
    check_url("HTTPS://h:6443//", NULL, "HTTPS://h:6443", NULL, false);
    check_url("https://h:1/k8s/clusters/c-1/", NULL, "https://h:1/k8s/clusters/c-1", NULL, false);
    check_url("http://127.8.8.8:1", NULL, "http://127.8.8.8:1", NULL, true);
    check_url("http://LocalHost", NULL, "http://LocalHost:80", NULL, true);
    check_url("http://localhost.example", NULL, "http://localhost.example:80", NULL, false);
    check_url("http://[::1]:5", NULL, "http://[::1]:5", NULL, true);
    check_url("https://[fd00::2]", "kubernetes", "https://kubernetes:443",
              "kubernetes:443:[fd00::2]:443", false);
    check_url("https://10.0.0.1:6443", "api.example", "https://api.example:6443",
              "api.example:6443:10.0.0.1:6443", false);
}

static void test_bad_settings_are_named(void **state)
{
    static const char *const urls[] = {"",
                                       "127.0.0.1:80",
                                       "ftp://h",
                                       "file:///etc/passwd",
                                       "http://",
                                       "http://user:hunter2@h/",
                                       "http://h:0",
                                       "http://h:99999",
                                       "http://h:x",
                                       "http://h?x=hunter2",
                                       "http://h /",
                                       "http://[::1",
                                       "https://a\r\nb"};
    struct kw_http_client_settings settings;
    struct kw_err err = {0};

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(urls); i++) {
        struct kw_http_client_conf conf = {.base_url = urls[i]};

        assert_int_equal(kw_http_client_settings_open(&settings, &conf, &err), -EINVAL);
        assert_null(strstr(err.text, "hunter2"));
    }
    struct kw_http_client_conf missing = {.base_url = "http://h",
                                          .token_file = "/nonexistent/token"};

    assert_int_equal(kw_http_client_settings_open(&settings, &missing, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/token"));
    struct kw_http_client_conf ca = {.base_url = "https://h", .ca_file = "/nonexistent/ca"};

    assert_int_equal(kw_http_client_settings_open(&settings, &ca, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/ca"));
    struct kw_http_client_conf token = {.base_url = "http://h", .token = "a\nb"};

    assert_int_equal(kw_http_client_settings_open(&settings, &token, &err), -EINVAL);
    struct kw_http_client_conf name = {.base_url = "https://h", .server_name = "a/b"};

    assert_int_equal(kw_http_client_settings_open(&settings, &name, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_bad_settings_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
