/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "tests/support/cmocka.h"

/* The clock of the log under test (linked with --wrap=clock_gettime): nothing here waits. */
static time_t fake_s;

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    (void)id;
    *ts = (struct timespec){.tv_sec = fake_s, .tv_nsec = 123456789};
    return 0;
}

/* 2026-11-29T21:03:04Z */
#define START_S 1795986184

struct fixture {
    FILE *out;
    char *text;
    size_t len;
    struct kw_log *log;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fake_s = START_S;
    fixture = (struct fixture){0};
    fixture.out = open_memstream(&fixture.text, &fixture.len);
    if (fixture.out == NULL)
        return -1;
    fixture.log = kw_log_new("kwatt-test", KW_LOG_INFO, fixture.out);
    *state = &fixture;
    return fixture.log != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    kw_log_free(&fixture->log);
    kw_log_free(&fixture->log);
    (void)fclose(fixture->out);
    free(fixture->text);
    return 0;
}

#define HEAD "2026-11-29T21:03:04.123Z info kwatt-test: "

static void expect(struct fixture *fixture, const char *text)
{
    (void)fflush(fixture->out);
    assert_string_equal(fixture->text, text);
}

/* The only line written since the last call, without head and line feed. */
static const char *last_line(struct fixture *fixture)
{
    (void)fflush(fixture->out);
    static char line[8192];
    size_t head = strlen(HEAD);
    assert_true(fixture->len > head && fixture->len - head < sizeof(line));
    assert_memory_equal(fixture->text, HEAD, head);
    assert_int_equal(fixture->text[fixture->len - 1], '\n');
    assert_ptr_equal(strchr(fixture->text, '\n'), fixture->text + fixture->len - 1);
    memcpy(line, fixture->text + head, fixture->len - head - 1);
    line[fixture->len - head - 1] = '\0';
    rewind(fixture->out);
    return line;
}

static void a_line_has_time_level_program_message_fields(void **state)
{
    struct fixture *fixture = *state;
    kw_log_warn(fixture->log, "redis lost", kw_str("address", "a:1"), kw_i64("rc", -5),
                kw_u64("tries", 18446744073709551615U), kw_errno(-ENOENT), kw_errno(EACCES));
    kw_log_error(fixture->log, "plain");
    expect(fixture, "2026-11-29T21:03:04.123Z warn kwatt-test: redis lost address=a:1 rc=-5 "
                    "tries=18446744073709551615 error=\"No such file or directory\" "
                    "error=\"Permission denied\"\n"
                    "2026-11-29T21:03:04.123Z error kwatt-test: plain\n");
}

static void lower_levels_are_silent(void **state)
{
    struct fixture *fixture = *state;
    kw_log_debug(fixture->log, "hidden");
    kw_log_error(NULL, "nowhere", kw_str("a", "b"));
    kw_log_write(fixture->log, KW_LOG_INFO, "no fields", NULL);
    assert_string_equal(last_line(fixture), "no fields");
}

static void a_level_can_change(void **state)
{
    struct fixture *fixture = *state;
    kw_log_set_level(fixture->log, KW_LOG_DEBUG);
    kw_log_debug(fixture->log, "seen");
    kw_log_set_level(fixture->log, KW_LOG_ERROR);
    kw_log_warn(fixture->log, "hidden");
    expect(fixture, "2026-11-29T21:03:04.123Z debug kwatt-test: seen\n");
}

static void values_cannot_break_a_line(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *value, *printed;
    } cases[] = {
        {"plain-1.2/x:y", "plain-1.2/x:y"},
        {NULL, "\"\""},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"x\n2026-01-01 error forged: line", "\"x\\n2026-01-01 error forged: line\""},
        {"\r\t\x01\x1b[2J\x7f", "\"\\r\\t\\x01\\x1b[2J\\x7f\""},
        {"k\xc3\xb6ln", "\"k\xc3\xb6ln\""},
        {"\xff\xfe", "\"\\xff\\xfe\""},
        {"\xc2\x9b", "\"\\xc2\\x9b\""},          /* C1 control: CSI */
        {"\xe2\x80\xae", "\"\\xe2\\x80\\xae\""}, /* right-to-left override */
        {"\xe2\x80\xa8", "\"\\xe2\\x80\\xa8\""}, /* line separator */
        {"\xe2\x81\xa6", "\"\\xe2\\x81\\xa6\""}, /* bidirectional isolate */
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        char expected[128];
        char message[16];
        (void)snprintf(message, sizeof(message), "case %zu", i);
        (void)snprintf(expected, sizeof(expected), "%s v=%s", message, cases[i].printed);
        kw_log_info(fixture->log, message, kw_str("v", cases[i].value));
        assert_string_equal(last_line(fixture), expected);
    }
}

static void messages_and_keys_are_made_safe_too(void **state)
{
    struct fixture *fixture = *state;
    kw_log_info(fixture->log, "a\nb \"q\"", kw_str("bad key\n", "v"));
    assert_string_equal(last_line(fixture), "a\\nb \"q\" bad_key_=v");
}

static void unknown_errno_values_are_numbers(void **state)
{
    struct fixture *fixture = *state;
    kw_log_info(fixture->log, "odd", kw_errno(INT_MIN), kw_errno(4000), kw_errno(0));
    assert_string_equal(last_line(fixture), "odd error=\"error -2147483648\" error=\"error 4000\" "
                                            "error=\"error 0\"");
}

static void long_values_are_cut_between_characters(void **state)
{
    struct fixture *fixture = *state;
    char value[3000];
    memset(value, 'a', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    memcpy(value + 1023, "\xc3\xbc", 2); /* would be split at 1024 */
    kw_log_info(fixture->log, "long", kw_str("v", value), kw_u64("n", 1));
    const char *line = last_line(fixture);
    assert_memory_equal(line, "long v=\"aaa", 11);
    assert_string_equal(line + strlen(line) - 12, "aaaa...\" n=1");
}

static void too_many_fields_are_dropped_whole(void **state)
{
    struct fixture *fixture = *state;
    char value[1024];
    memset(value, '\x01', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    kw_log_info(fixture->log, "full", kw_str("a", "1"), kw_str("b", value), kw_str("c", "3"));
    assert_string_equal(last_line(fixture), "full a=1 truncated=true");

    char message[6000];
    memset(message, '\x02', sizeof(message));
    message[sizeof(message) - 1] = '\0';
    kw_log_info(fixture->log, message, kw_str("a", "1"));
    const char *line = last_line(fixture);
    assert_true(strlen(line) < 4096);
    assert_non_null(strstr(line, "\\x02 truncated=true"));
}

static size_t lines_of(struct fixture *fixture)
{
    (void)fflush(fixture->out);
    size_t n = 0;
    for (size_t i = 0; i < fixture->len; i++)
        n += fixture->text[i] == '\n';
    rewind(fixture->out);
    return n;
}

static void repeated_messages_are_limited_and_counted(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 25; i++)
        kw_log_info(fixture->log, "again", kw_i64("i", i));
    kw_log_info(fixture->log, "another");
    assert_int_equal(lines_of(fixture), 11);
    fake_s += 9;
    kw_log_info(fixture->log, "again");
    kw_log_debug(fixture->log, "again");
    (void)fflush(fixture->out);
    assert_int_equal(fixture->len, 0);
    fake_s += 1;
    kw_log_info(fixture->log, "again", kw_str("k", "v"));
    (void)fflush(fixture->out);
    assert_non_null(strstr(fixture->text, "again k=v suppressed=16\n"));
    rewind(fixture->out);
    fake_s += 10;
    kw_log_info(fixture->log, "again", kw_str("k", "v"));
    (void)fflush(fixture->out);
    assert_non_null(strstr(fixture->text, "again k=v\n"));
}

static void many_different_messages_need_no_more_memory(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 5000; i++) {
        char message[32];
        (void)snprintf(message, sizeof(message), "message %d", i);
        kw_log_info(fixture->log, message);
    }
    assert_int_equal(lines_of(fixture), 5000);
}

static void *write_many(void *arg)
{
    struct kw_log *log = arg;
    for (int i = 0; i < 500; i++) {
        char message[48];
        (void)snprintf(message, sizeof(message), "thread %lx line %d",
                       (unsigned long)pthread_self(), i);
        kw_log_info(log, message, kw_str("value", "0123456789012345678901234567890123456789"));
    }
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    (void)state;
    kw_cleanup_file FILE *file = tmpfile();
    assert_non_null(file);
    kw_cleanup(kw_log_free) struct kw_log *log = kw_log_new("kwatt-test", KW_LOG_INFO, file);
    assert_non_null(log);
    pthread_t threads[4];
    for (size_t i = 0; i < KW_ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, log), 0);
    for (size_t i = 0; i < KW_ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    rewind(file);
    char line[512];
    size_t n = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        static const char end[] = " value=0123456789012345678901234567890123456789\n";
        assert_memory_equal(line, HEAD "thread ", strlen(HEAD "thread "));
        assert_string_equal(line + strlen(line) - strlen(end), end);
        n++;
    }
    assert_int_equal(n, 4 * 500);
}

/* What a log on stderr writes, with stderr redirected to a file and JOURNAL_STREAM as given by
 * `format`. */
static void stderr_text(const char *between, const char *after, char *out, size_t size)
{
    kw_cleanup_file FILE *file = tmpfile();
    assert_non_null(file);
    struct stat st;
    assert_int_equal(fstat(fileno(file), &st), 0);
    kw_cleanup_close int saved = dup(STDERR_FILENO);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    char stream[64];
    (void)snprintf(stream, sizeof(stream), "%lu%s%lu%s", (unsigned long)st.st_dev, between,
                   (unsigned long)st.st_ino, after);
    assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
    kw_cleanup(kw_log_free) struct kw_log *log = kw_log_new("kwatt-test", KW_LOG_DEBUG, NULL);
    kw_log_error(log, "one");
    kw_log_warn(log, "two");
    kw_log_info(log, "three");
    kw_log_debug(log, "four", kw_str("k", "v"));
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)unsetenv("JOURNAL_STREAM");
    rewind(file);
    size_t n = fread(out, 1, size - 1, file);
    out[n] = '\0';
}

static void the_journal_gets_priorities_and_no_time(void **state)
{
    (void)state;
    char text[1024];
    stderr_text(":", "", text, sizeof(text));
    assert_string_equal(text, "<3>kwatt-test: one\n<4>kwatt-test: two\n<6>kwatt-test: three\n"
                              "<7>kwatt-test: four k=v\n");
}

static void redirected_stderr_is_no_journal(void **state)
{
    (void)state;
    static const char *const streams[][2] = {{":", "9"}, {"", ""}, {"x:", ""}, {":", "x"}};
    for (size_t i = 0; i < KW_ARRAY_SIZE(streams); i++) {
        char text[1024];
        stderr_text(streams[i][0], streams[i][1], text, sizeof(text));
        assert_memory_equal(text, "2026-11-29T", 11);
    }
}

static void level_names_end_with_null(void **state)
{
    (void)state;
    assert_string_equal(kw_log_level_names[KW_LOG_ERROR], "error");
    assert_string_equal(kw_log_level_names[KW_LOG_DEBUG], "debug");
    assert_null(kw_log_level_names[KW_LOG__MAX]);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_line_has_time_level_program_message_fields),
        TEST(lower_levels_are_silent),
        TEST(a_level_can_change),
        TEST(values_cannot_break_a_line),
        TEST(messages_and_keys_are_made_safe_too),
        TEST(unknown_errno_values_are_numbers),
        TEST(long_values_are_cut_between_characters),
        TEST(too_many_fields_are_dropped_whole),
        TEST(repeated_messages_are_limited_and_counted),
        TEST(many_different_messages_need_no_more_memory),
        TEST(threads_do_not_mix_lines),
        TEST(the_journal_gets_priorities_and_no_time),
        TEST(redirected_stderr_is_no_journal),
        TEST(level_names_end_with_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
