/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/kube.h"
#include "tests/support/cmocka.h"
#include "tests/support/http_script.h"

/* One answer of the script: what the request must hold, and what it gets. */
struct answer {
    const char *want;
    unsigned status;
    const char *body; /* NULL: 70 MB */
};

struct script {
    struct kwt_http_server server;
    const struct answer *answers;
    size_t n;
    char wrong[256]; /* the first request that was not as expected */
    char path[64];   /* kubeconfig */
    struct kw_kube *kube;
};

static void answer_large(int fd)
{
    size_t len = 1u << 20;
    kw_cleanup_free char *piece = malloc(len);

    assert_non_null(piece);
    memset(piece, ' ', len);
    kwt_http_begin(fd, 200);
    for (int i = 0; i < 70; i++)
        kwt_http_chunk(fd, piece, len);
    kwt_http_end(fd);
}

static void handler(void *user, unsigned n, const char *request, int fd)
{
    struct script *script = user;

    if (n >= script->n || strstr(request, script->answers[n].want) == NULL) {
        if (script->wrong[0] == '\0')
            (void)snprintf(script->wrong, sizeof(script->wrong), "%u: %.200s", n, request);
        kwt_http_answer(fd, 500, "");
    } else if (script->answers[n].body == NULL) {
        answer_large(fd);
    } else {
        kwt_http_answer(fd, script->answers[n].status, script->answers[n].body);
    }
}

static void start(struct script *script, const struct answer *answers, size_t n)
{
    struct kw_err err = {0};
    char text[256];

    *script = (struct script){.answers = answers, .n = n};
    kwt_http_start(&script->server, handler, script);
    (void)snprintf(script->path, sizeof(script->path), "/tmp/kwatt-kube-%d", (int)getpid());
    (void)snprintf(text, sizeof(text),
                   "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
                   "clusters: [{name: a, cluster: {server: '%s'}}]\n",
                   script->server.url);
    assert_int_equal(kw_file_write_atomic(script->path, text, strlen(text), 0600), 0);
    if (kw_kube_new(&(struct kw_kube_conf){.kubeconfig = script->path}, &script->kube, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(kw_kube_server(script->kube), script->server.url);
}

/* Every answer was asked for, as expected. */
static void done(struct script *script)
{
    kw_kube_free(&script->kube);
    kwt_http_stop(&script->server);
    (void)unlink(script->path);
    if (script->wrong[0] != '\0')
        fail_msg("request %s", script->wrong);
    assert_int_equal(script->server.requests, script->n);
}

static void get_and_its_statuses(void **state)
{
    static const struct {
        struct answer answer;
        int code;
        const char *text;
    } rows[] = {
        {{"GET /a/b HTTP/1.1\r\n", 200, "{\"x\":1}"}, 0, ""},
        {{"GET /a/b ", 404, "{\"message\":\"pods \\\"b\\\" not found\"}"},
         -ENOENT,
         "/a/b: 404: pods \"b\" not found"},
        {{"GET /a/b ", 401, ""}, -EACCES, "/a/b: 401"},
        {{"GET /a/b ", 403, "{\"message\":\"forbidden\"}"}, -EACCES, "/a/b: 403: forbidden"},
        {{"GET /a/b ", 409, "{}"}, -EEXIST, "409"},
        {{"GET /a/b ", 500, "<html>"}, -EREMOTEIO, "500"},
        {{"GET /a/b ", 301, ""}, -EREMOTEIO, "301"},
    };
    (void)state;

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct script script;
        kw_cleanup(kw_buf_free) struct kw_buf body = {0};
        struct kw_err err = {0};
        (void)kw_buf_adds(&body, "before");
        start(&script, &rows[i].answer, 1);
        int r = kw_kube_get(script.kube, "/a/b", &body, &err);
        if (r != rows[i].code || strstr(err.text, rows[i].text) == NULL)
            fail_msg("row %zu: %d %s", i, r, err.text);
        assert_string_equal(body.data, r == 0 ? rows[i].answer.body : "before");
        done(&script);
    }
}

static void patch(void **state)
{
    static const struct answer answers[] = {
        {"PATCH /x HTTP/1.1\r\n", 200, "{\"ok\":true}"},
        {"\r\n\r\n[{\"op\":1}]", 200, "{}"},
        {"ontent-Type: application/json-patch+json\r\n", 201, "{}"}};
    struct script script;
    kw_cleanup(kw_buf_free) struct kw_buf body = {0};
    (void)state;

    start(&script, answers, KW_ARRAY_SIZE(answers));
    for (size_t i = 0; i < KW_ARRAY_SIZE(answers); i++)
        assert_int_equal(kw_kube_send(script.kube, "PATCH", "/x", "application/json-patch+json",
                                      "[{\"op\":1}]", 10, i == 0 ? &body : NULL, NULL),
                         0);
    assert_string_equal(body.data, "{\"ok\":true}");
    done(&script);
}

struct listed {
    struct kw_buf text; /* items, and "!" for a restart */
    unsigned left;
};

static bool on_item(void *user, const char *json, size_t len)
{
    struct listed *listed = user;

    (void)kw_buf_add(&listed->text, json, len);
    return --listed->left > 0;
}

static void on_restart(void *user)
{
    (void)kw_buf_adds(&((struct listed *)user)->text, "!");
}

#define PAGE(version, next, items)                                            \
    "{\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" next \
    "\"},\"items\":[" items "]}"

static void list(const struct answer *answers, size_t n, unsigned stop_after, int want_code,
                 const char *want_text, const char *want_version)
{
    struct script script;
    struct listed listed = {.left = stop_after};
    kw_cleanup_free char *version = NULL;
    struct kw_err err = {0};

    start(&script, answers, n);
    int r = kw_kube_list(script.kube, "/api/v1/pods", "fieldSelector=a%3Db", on_item, on_restart,
                         &listed, &version, &err);
    if (r != want_code)
        fail_msg("%d %s %s", r, err.text, script.wrong);
    assert_string_equal(listed.text.data, want_text);
    if (want_version != NULL)
        assert_string_equal(version, want_version);
    else
        assert_null(version);
    kw_buf_free(&listed.text);
    done(&script);
}

static void list_in_pages(void **state)
{
    static const struct answer answers[] = {
        {"GET /api/v1/pods?limit=500&fieldSelector=a%3Db HTTP", 200,
         PAGE("7", "a+/=", "{\"n\":1},{}")},
        {"?limit=500&fieldSelector=a%3Db&continue=a%2B%2F%3D HTTP", 200, PAGE("7", "c", "")},
        {"&continue=c HTTP", 200, PAGE("7", "", "{\"n\":2}")},
    };
    (void)state;

    list(answers, KW_ARRAY_SIZE(answers), 99, 0, "{\"n\":1}{}{\"n\":2}", "7");
}

static void list_whose_version_is_gone_starts_over(void **state)
{
    static const struct answer answers[] = {
        {"b HTTP", 200, PAGE("7", "c", "{\"n\":1}")},
        {"&continue=c HTTP", 410, "{\"message\":\"too old\",\"code\":410}"},
        {"b HTTP", 200, PAGE("9", "d", "{\"n\":2}")},
        {"&continue=d HTTP", 200, PAGE("9", "", "{\"n\":3}")},
    };
    (void)state;

    list(answers, KW_ARRAY_SIZE(answers), 99, 0, "{\"n\":1}!{\"n\":2}{\"n\":3}", "9");
}

static void list_that_is_always_gone_ends(void **state)
{
    static const struct answer first = {"b HTTP", 200, PAGE("7", "c", "{}")};
    static const struct answer gone = {"&continue=c HTTP", 410, "{}"};
    const struct answer answers[] = {first, gone, first, gone, first, gone, first, gone};
    (void)state;

    list(answers, KW_ARRAY_SIZE(answers), 99, -EREMOTEIO, "{}!{}!{}!{}", NULL);
}

static void list_gone_at_once_is_an_error(void **state)
{
    static const struct answer answers[] = {{"b HTTP", 410, "{}"}};
    struct script script;
    struct listed listed = {.left = 9};
    (void)state;

    start(&script, answers, 1);
    assert_int_equal(kw_kube_list(script.kube, "/p", "b", on_item, on_restart, &listed, NULL, NULL),
                     -EREMOTEIO);
    done(&script);
}

static void list_that_is_no_list(void **state)
{
    static const struct answer answers[] = {{"b HTTP", 200, "{\"items\":[{},5]}"}};
    (void)state;

    list(answers, 1, 99, -EPROTO, "{}", NULL);
}

static void list_stopped_by_the_consumer(void **state)
{
    static const struct answer answers[] = {{"b HTTP", 200, PAGE("7", "c", "{},{}")}};
    (void)state;

    list(answers, 1, 1, -ECANCELED, "{}", NULL);
}

static void page_too_large_is_asked_for_in_parts(void **state)
{
    static const struct answer answers[] = {
        {"?limit=500&", 200, NULL},
        {"?limit=125&", 200, PAGE("7", "", "{}")},
    };
    (void)state;

    list(answers, KW_ARRAY_SIZE(answers), 99, 0, "{}", "7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_and_its_statuses),
        cmocka_unit_test(patch),
        cmocka_unit_test(list_in_pages),
        cmocka_unit_test(list_whose_version_is_gone_starts_over),
        cmocka_unit_test(list_that_is_always_gone_ends),
        cmocka_unit_test(list_gone_at_once_is_an_error),
        cmocka_unit_test(list_that_is_no_list),
        cmocka_unit_test(list_stopped_by_the_consumer),
        cmocka_unit_test(page_too_large_is_asked_for_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
