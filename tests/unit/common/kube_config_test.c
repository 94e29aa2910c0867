/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/kube_impl.h"
#include "tests/support/cmocka.h"

/* "-----BEGIN CERTIFICATE-----" and so on: what is decoded, not what it certifies, matters here */
#define PEM_BASE64 "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
#define PEM_TEXT   "-----BEGIN CERTIFICATE-----\n"

static char folder[64];

static void write_file(const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(kw_file_write_atomic(path, text, strlen(text), 0600), 0);
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/kwatt-kubeconfig-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    write_file("ca.crt", PEM_TEXT);
    write_file("me.crt", PEM_TEXT);
    write_file("me.key", PEM_TEXT);
    write_file("token", "abc\n");
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"ca.crt", "me.crt", "me.key", "token", "config"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static int parse(const char *text, const char *context, struct kw_kube_target *ret,
                 struct kw_err *err)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/config", folder);
    return kw_kube_target_parse(path, text, strlen(text), context, ret, err);
}

#define CONTEXTS                           \
    "current-context: one\n"               \
    "contexts:\n"                          \
    "- name: one\n"                        \
    "  context: {cluster: c1, user: u1}\n" \
    "- name: two\n"                        \
    "  context: {cluster: c2, user: u2, namespace: x}\n"

static void certificate_files_are_relative_to_the_kubeconfig(void **state)
{
    static const char text[] = CONTEXTS
        "clusters:\n"
        "- name: c1\n"
        "  cluster:\n"
        "    server: https://[fd00::1]:6443/k8s/\n"
        "    certificate-authority: ca.crt\n"
        "    tls-server-name: api.example\n"
        "    insecure-skip-tls-verify: false\n"
        "users:\n"
        "- name: u1\n"
        "  user: {client-certificate: ./me.crt, client-key: me.key, exec: null, token: ''}\n"
        "preferences: {}\n";
    kw_cleanup(kw_kube_target_free) struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    struct kw_err err = {0};
    char want[128];
    (void)state;

    if (parse(text, NULL, &target, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(target.server, "https://[fd00::1]:6443/k8s");
    (void)snprintf(want, sizeof(want), "%s/ca.crt", folder);
    assert_string_equal(target.ca_file, want);
    (void)snprintf(want, sizeof(want), "%s/./me.crt", folder);
    assert_string_equal(target.cert_file, want);
    assert_string_equal(target.server_name, "api.example");
    assert_null(target.token);
    assert_null(target.cert_pem);
    assert_int_equal(target.password_fd, -1);
}

static void inline_data_win_and_context_is_chosen(void **state)
{
    static const char text[] = CONTEXTS
        "clusters:\n"
        "- name: c1\n"
        "  cluster: {server: 'https://one'}\n"
        "- name: c2\n"
        "  cluster: {server: 'https://two:1', certificate-authority: none.crt, "
        "certificate-authority-data: " PEM_BASE64 "}\n"
        "users:\n"
        "- name: u2\n"
        "  user:\n"
        "    client-certificate-data: |\n      LS0tLS1CRUdJTiBDRVJUSUZJQ0FU\n      RS0tLS0tCg==\n"
        "    client-key-data: " PEM_BASE64 "\n"
        "    tokenFile: token\n";
    kw_cleanup(kw_kube_target_free) struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    struct kw_err err = {0};
    (void)state;

    if (parse(text, "two", &target, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(target.server, "https://two:1");
    assert_string_equal(target.ca_pem, PEM_TEXT);
    assert_null(target.ca_file);
    assert_string_equal(target.cert_pem, PEM_TEXT);
    assert_string_equal(target.key_pem, PEM_TEXT);
    assert_non_null(target.token_file);
}

static void basic_password_is_in_an_anonymous_file(void **state)
{
    static const char text[] = CONTEXTS "clusters: [{name: c1, cluster: {server: 'https://a'}}]\n"
                                        "users: [{name: u1, user: {username: me, password: pw}}]\n";
    kw_cleanup(kw_kube_target_free) struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    char path[32], password[8];
    (void)state;

    assert_int_equal(parse(text, NULL, &target, NULL), 0);
    assert_string_equal(target.username, "me");
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", target.password_fd);
    assert_int_equal(kw_file_read_at(-1, path, password, sizeof(password)), 2);
    assert_string_equal(password, "pw");
}

static void plain_http_gets_no_credentials(void **state)
{
    static const char text[] =
        CONTEXTS "clusters: [{name: c1, cluster: {server: 'http://127.0.0.1:8001'}}]\n"
                 "users: [{name: u1, user: {token: abc}}]\n";
    kw_cleanup(kw_kube_target_free) struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    (void)state;

    assert_int_equal(parse(text, NULL, &target, NULL), 0);
    assert_null(target.token);
}

static void faults_name_line_and_key(void **state)
{
    static const struct {
        const char *cluster, *user; /* bodies of the flow maps on lines 9 and 12 */
        const char *want;
    } rows[] = {
        {"", "", ":9: server: missing"},
        {"server: ftp://x", "", ":9: server: must begin"},
        {"server: https://", "", ":9: server: has no host"},
        {"server: 'https://:6443'", "", ":9: server: has no host"},
        {"server: 'https://me:pw@x'", "", ":9: server: credentials"},
        {"server: 'https://x?y'", "", ":9: server: must be"},
        {"server: [x]", "", ":9: server: must be a text"},
        {"server: 'https://x', insecure-skip-tls-verify: true", "",
         ":9: insecure-skip-tls-verify: refused"},
        {"server: 'https://x', insecure-skip-tls-verify: perhaps", "",
         ":9: insecure-skip-tls-verify: refused"},
        {"server: 'https://x', proxy-url: 'http://p'", "", ":9: proxy-url: "},
        {"server: 'https://x', certificate-authority: none.crt", "", ":9: certificate-authority: "},
        {"server: 'https://x', certificate-authority-data: 'a b='", "",
         ":9: certificate-authority-data: not base64"},
        {"server: 'https://x', certificate-authority-data: aGVsbG8=", "",
         ":9: certificate-authority-data: not PEM"},
        {"server: 'https://x'", "exec: {command: aws}", ":12: exec: credential plug-ins"},
        {"server: 'https://x'", "auth-provider: {name: gcp}", ":12: auth-provider: "},
        {"server: 'https://x'", "token: t, as: root", ":12: as: impersonation"},
        {"server: 'https://x'", "as-groups: [a]", ":12: as-groups: impersonation"},
        {"server: 'https://x'", "client-certificate: me.crt", ":12: client-key: missing"},
        {"server: 'https://x'", "client-key: me.key", ":12: client-certificate: missing"},
        {"server: 'https://x'", "client-key: none.key", ":12: client-key: "},
        {"server: 'https://x'", "tokenFile: none", ":12: tokenFile: "},
        {"server: 'https://x'", "username: a, token: s3cret", ":12: username: not beside"},
        {"server: 'https://x'", "client-key-data: s3cret", ":12: client-key-data: not base64"},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
        struct kw_err err = {0};
        char text[1024];
        (void)snprintf(text, sizeof(text),
                       CONTEXTS "clusters:\n- name: c1\n  cluster: {%s}\n"
                                "users:\n- name: u1\n  user: {%s}\n",
                       rows[i].cluster, rows[i].user);
        if (parse(text, NULL, &target, &err) != -EINVAL)
            fail_msg("row %zu was taken", i);
        if (strstr(err.text, rows[i].want) == NULL ||
            strncmp(err.text, folder, strlen(folder)) != 0)
            fail_msg("row %zu: %s", i, err.text);
        assert_null(strstr(err.text, "s3cret"));
        assert_null(strstr(err.text, "pw@"));
        assert_null(target.server);
    }
}

static void faults_of_the_whole(void **state)
{
    static const struct {
        const char *text, *context, *want;
    } rows[] = {
        {"", NULL, "current-context: missing"},
        {"[]", NULL, ":1: kubeconfig: must be a map"},
        {"a: [", NULL, ":"},
        {"current-context: x\n", NULL, "contexts: no entry is called 'x'"},
        {"current-context: x\ncontexts: null\n", NULL, ":2: contexts: no entry is called 'x'"},
        {"current-context: x\ncontexts: {}\n", NULL, ":2: contexts: must be a list"},
        {"contexts: [{name: x}]\n", "x", ":1: context: missing"},
        {"contexts: [{name: x, context: 1}]\n", "x", ":1: context: must be a map"},
        {"contexts: [{name: x, context: {user: u}}]\n", "x", ":1: cluster: missing"},
        {"contexts: [{name: x, context: {cluster: c}}]\nclusters: [1, {name: d}]\n", "x",
         ":2: clusters: no entry is called 'c'"},
        {CONTEXTS "clusters: [{name: c1, cluster: {server: 'https://a'}}]\n", NULL,
         "users: no entry is called 'u1'"},
        {CONTEXTS, "three", "contexts: no entry is called 'three'"},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
        struct kw_err err = {0};
        assert_int_equal(parse(rows[i].text, rows[i].context, &target, &err), -EINVAL);
        if (strstr(err.text, rows[i].want) == NULL)
            fail_msg("row %zu: %s", i, err.text);
    }
}

static void base64_is_strict(void **state)
{
    static const char *const bad[] = {"A",    "AA",       "AAA",   "A===", "AA=",  "=AAA",
                                      "AA=A", "AAAA=",    "AA==A", "AAB=", "AB==", "AA A",
                                      "AA-_", "AAA=AAAA", "====",  "AAA\t"};
    static const struct {
        const char *text, *want;
        size_t len;
    } good[] = {{"", "", 0},        {"aGk=", "hi", 2},        {"aA==", "h", 1},
                {"aGV5", "hey", 3}, {"aG\nV5\r\n", "hey", 3}, {"+/+/", "\xfb\xff\xbf", 3}};
    char *out = NULL;
    size_t len = 0;
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(bad); i++)
        if (kw_kube_base64(bad[i], &out, &len) != -EINVAL)
            fail_msg("'%s' was taken", bad[i]);
    for (size_t i = 0; i < KW_ARRAY_SIZE(good); i++) {
        assert_int_equal(kw_kube_base64(good[i].text, &out, &len), 0);
        assert_int_equal(len, good[i].len);
        assert_memory_equal(out, good[i].want, len + 1);
        free(out);
    }
}

static void service_account(void **state)
{
    kw_cleanup(kw_kube_target_free) struct kw_kube_target target = KW_KUBE_TARGET_EMPTY;
    struct kw_kube_conf conf = {.secrets_dir = folder, .host = "fd00::1", .port = "443"};
    struct kw_err err = {0};
    (void)state;

    if (kw_kube_target_load(&conf, &target, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(target.server, "https://[fd00::1]:443");
    assert_non_null(strstr(target.token_file, "/token"));
    assert_non_null(strstr(target.ca_file, "/ca.crt"));

    struct kw_kube_target other = KW_KUBE_TARGET_EMPTY;
    conf.port = "x";
    assert_int_equal(kw_kube_target_load(&conf, &other, &err), -EINVAL);
    conf.port = "443";
    conf.host = "a/b";
    assert_int_equal(kw_kube_target_load(&conf, &other, &err), -EINVAL);
    conf.host = "";
    assert_int_equal(kw_kube_target_load(&conf, &other, &err), -ENOENT);
    conf.host = "10.0.0.1";
    conf.secrets_dir = "/nonexistent";
    assert_int_equal(kw_kube_target_load(&conf, &other, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/token"));
    conf.kubeconfig = "/nonexistent";
    assert_int_equal(kw_kube_target_load(&conf, &other, &err), -ENOENT);
    assert_null(other.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificate_files_are_relative_to_the_kubeconfig),
        cmocka_unit_test(inline_data_win_and_context_is_chosen),
        cmocka_unit_test(basic_password_is_in_an_anonymous_file),
        cmocka_unit_test(plain_http_gets_no_credentials),
        cmocka_unit_test(faults_name_line_and_key),
        cmocka_unit_test(faults_of_the_whole),
        cmocka_unit_test(base64_is_strict),
        cmocka_unit_test(service_account),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
