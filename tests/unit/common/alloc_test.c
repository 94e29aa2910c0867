/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory at every single allocation: each mechanism is run with its 1st, 2nd, 3rd ...
 * allocation failing until it gets through. Each failure must be -ENOMEM with its outputs untouched
 * and, as the sanitizer sees at exit, nothing left behind. The allocators are wrapped by the
 * linker; what libraries allocate inside themselves is not.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/snapshot.h"
#include "common/yaml.h"
#include "tests/support/cmocka.h"
#include "tests/support/fail_alloc.h"
#include "tests/unit/common/conf_fixture.h"

static int try_conf(void *user)
{
    (void)user;
    struct kwt_settings settings = {0};
    struct kw_err err = {0};
    char *argv[] = {(char *)"kwatt-test", (char *)"--config", kwt_config_path,
                    (char *)"one",        (char *)"--node=n", NULL};
    int rc = kw_conf_load(&kwt_program, 5, argv, NULL, &settings, stdout, NULL, &err);
    if (rc < 0) {
        assert_true(err.text[0] != '\0');
        assert_memory_equal(&settings, &(struct kwt_settings){0}, sizeof(settings));
    }
    kw_conf_free(&kwt_program, &settings);
    return rc;
}

static void configuration(void **state)
{
    (void)state;
    kwt_write_config(
        "redis:\n  url: redis://h\n  timeout: 3s\nhttp: {metrics: no, maxBody: 1Mi}\n");
    assert_true(kwt_fail_each(try_conf, NULL) > 15);
}

static int try_yaml(void *user)
{
    const char *text = user;
    struct kw_yaml *doc = NULL;
    struct kw_err err = {0};
    int rc = kw_yaml_parse("f", text, strlen(text), &doc, &err);
    if (rc < 0) {
        assert_null(doc);
        assert_string_equal(err.text, "f: out of memory");
    }
    kw_yaml_free(&doc);
    return rc;
}

static void yaml(void **state)
{
    (void)state;
    static char text[] = "a: b\nc: [d, {e: f}, ~]\ng: {h: i, j: k, l: m}\n";
    assert_true(kwt_fail_each(try_yaml, text) > 20);
}

static int try_write(void *user)
{
    return kw_file_write_atomic(user, "bytes", 5, 0600);
}

static int try_slurp(void *user)
{
    kw_cleanup_free char *bytes = NULL;
    return kw_file_slurp(user, 100, &bytes, NULL);
}

static int try_mkdir(void *user)
{
    (void)user;
    return kw_mkdir_p("/tmp", 0755);
}

static void files(void **state)
{
    (void)state;
    kwt_write_config("");
    assert_int_equal(kwt_fail_each(try_write, kwt_config_path), 2);
    assert_int_equal(kwt_fail_each(try_slurp, kwt_config_path), 1);
    assert_int_equal(kwt_fail_each(try_mkdir, NULL), 1);
}

static int try_snapshot(void *user)
{
    (void)user;
    struct kw_snapshot *snapshot = NULL;
    int rc = kw_snapshot_new(4, free, &snapshot);
    assert_true((rc == 0) == (snapshot != NULL));
    kw_snapshot_free(&snapshot);
    return rc;
}

static void nothing(void *user)
{
    (void)user;
}

static void no_timer(void *user, uint64_t expirations)
{
    (void)user;
    (void)expirations;
}

static int try_loop(void *user)
{
    (void)user;
    kw_cleanup(kw_loop_free) struct kw_loop *loop = NULL;
    struct kw_source *source = NULL;
    int rc = kw_loop_new(&loop);
    if (rc == 0)
        rc = kw_loop_add_wakeup(loop, nothing, NULL, &source);
    if (rc == 0)
        rc = kw_loop_add_timer(loop, 1, 1, no_timer, NULL, &source);
    return rc;
}

static int try_log(void *user)
{
    (void)user;
    kw_cleanup(kw_log_free) struct kw_log *log = kw_log_new("p", KW_LOG_INFO, NULL);
    return log != NULL ? 0 : -ENOMEM;
}

static void owners(void **state)
{
    (void)state;
    assert_int_equal(kwt_fail_each(try_snapshot, NULL), 3);
    assert_int_equal(kwt_fail_each(try_loop, NULL), 4);
    assert_int_equal(kwt_fail_each(try_log, NULL), 1);
}

static void a_buffer_keeps_what_it_had(void **state)
{
    (void)state;
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    kwt_fail_after(0);
    assert_int_equal(kw_buf_addf(&buf, "%d", 1), -ENOMEM);
    assert_true(buf.failed);
    assert_null(buf.data);
    assert_int_equal(kw_buf_add_json(&buf, "x", 1), -ENOMEM);
    kwt_fail_after(1);
    kw_buf_reset(&buf);
    assert_int_equal(kw_buf_adds(&buf, "kept"), 0);
    assert_int_equal(kw_buf_addf(&buf, "%200d", 1), -ENOMEM);
    kwt_fail_after(-1);
    assert_string_equal(buf.data, "kept");
    assert_int_equal(buf.len, 4);
    assert_true(buf.failed);
}

/* What a hot path does: acquire, release, log, publish. */
static void hot_paths_allocate_nothing(void **state)
{
    (void)state;
    struct kw_snapshot *snapshot = NULL;
    assert_int_equal(kw_snapshot_new(2, free, &snapshot), 0);
    char *first = strdup("one");
    char *second = strdup("two");
    kw_cleanup_file FILE *out = fopen("/dev/null", "w");
    kw_cleanup(kw_log_free) struct kw_log *log = kw_log_new("p", KW_LOG_INFO, out);
    kw_cleanup(kw_buf_free) struct kw_buf buf = {0};
    assert_int_equal(kw_buf_reserve(&buf, 100), 0);
    kwt_fail_after(0);
    kw_snapshot_publish(snapshot, first);
    size_t slot;
    assert_string_equal(kw_snapshot_acquire(snapshot, &slot), "one");
    kw_snapshot_publish(snapshot, second);
    kw_snapshot_release(snapshot, slot);
    kw_log_info(log, "hot", kw_str("k", "v v"), kw_errno(-EIO));
    kw_buf_reset(&buf);
    assert_int_equal(kw_buf_addf(&buf, "%050d", 1), 0);
    assert_int_equal(kw_buf_add_json(&buf, "\n\"", 2), 0);
    kwt_fail_after(-1);
    kw_snapshot_free(&snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configuration),
        cmocka_unit_test(yaml),
        cmocka_unit_test(files),
        cmocka_unit_test(owners),
        cmocka_unit_test(a_buffer_keeps_what_it_had),
        cmocka_unit_test(hot_paths_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, kwt_remove_config);
}
