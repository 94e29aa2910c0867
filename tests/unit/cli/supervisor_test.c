/* SPDX-License-Identifier: Apache-2.0 */
/* Children, logs and restarts, with real processes; time is handed in. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/spawn.h"
#include "cli/supervisor.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static char *const no_env[] = {NULL};

struct said {
    char text[4096];
};

static void say(void *user, const char *text)
{
    struct said *said = user;

    (void)snprintf(said->text, sizeof(said->text), "%s", text);
}

static void add(struct cli_supervisor *supervisor, const char *dir, const char *script)
{
    struct cli_child *child = &supervisor->children[supervisor->n++];

    *child = (struct cli_child){.name = "child", .envp = no_env};
    (void)snprintf(child->log_path, sizeof(child->log_path), "%s/log", dir);
    assert_int_equal(cli_child_arg(child, "/bin/sh"), 0);
    assert_int_equal(cli_child_arg(child, "-c"), 0);
    assert_int_equal(cli_child_arg(child, "%s", script), 0);
}

/** Waits until the child is a zombie or gone, without reaping it. */
static void wait_for_end(pid_t pid)
{
    siginfo_t info;

    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void early_death_shows_the_log_and_backs_off(void **state)
{
    (void)state;
    char dir[] = "/tmp/kwt-child-XXXXXX";
    struct said said = {{0}};
    struct cli_supervisor supervisor = {.say = say, .user = &said};
    struct kw_err err = {0};
    uint64_t now_ns = 1;

    assert_non_null(mkdtemp(dir));
    add(&supervisor, dir, "echo first; echo why it failed >&2; exit 3");
    struct cli_child *child = &supervisor.children[0];
    static const uint64_t waits_s[] = {1, 2, 4, 8, 16, 30, 30};
    assert_int_equal(cli_supervisor_start(&supervisor, child, now_ns, &err), 0);
    for (size_t i = 0; i < KW_ARRAY_SIZE(waits_s); i++) {
        wait_for_end(child->pid);
        cli_supervisor_reap(&supervisor, now_ns);
        assert_int_equal(child->pid, 0);
        assert_non_null(strstr(said.text, "status 3"));
        assert_non_null(strstr(said.text, "\n    first\n    why it failed"));
        now_ns += waits_s[i] * 1000000000 - 1;
        cli_supervisor_tick(&supervisor, now_ns);
        assert_int_equal(child->pid, 0);
        cli_supervisor_tick(&supervisor, ++now_ns);
        assert_true(child->pid > 0);
        assert_non_null(strstr(said.text, "started again"));
    }
    wait_for_end(child->pid);
    now_ns += CLI_GOOD_LIFE_NS; /* a good life forgets the back-off */
    cli_supervisor_reap(&supervisor, now_ns);
    assert_int_equal(child->backoff_ns, CLI_BACKOFF_FIRST_NS);
    assert_int_equal(unlink(child->log_path), 0);
    cli_supervisor_clear(&supervisor);
    assert_int_equal(rmdir(dir), 0);
}

static void stopping_asks_and_then_kills(void **state)
{
    (void)state;
    char dir[] = "/tmp/kwt-child-XXXXXX";
    struct said said = {{0}};
    struct cli_supervisor supervisor = {.say = say, .user = &said};
    struct kw_err err = {0};

    assert_non_null(mkdtemp(dir));
    add(&supervisor, dir, "exec sleep 1000");
    add(&supervisor, dir, "trap '' TERM; echo ready; while :; do sleep 1000; done");
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(cli_supervisor_start(&supervisor, &supervisor.children[i], 1, &err), 0);
    struct stat status = {0};
    while (stat(supervisor.children[1].log_path, &status) < 0 || status.st_size == 0)
        (void)poll(NULL, 0, 5); /* until it ignores the signal */
    cli_supervisor_stop(&supervisor, 1);
    cli_supervisor_reap(&supervisor, 1);
    assert_int_equal(cli_supervisor_alive(&supervisor), 2); /* the first one waits for the other */
    cli_supervisor_tick(&supervisor, UINT64_C(5000000001)); /* 5 s are over */
    for (unsigned i = 0; i < 2; i++)
        wait_for_end(supervisor.children[i].pid);
    cli_supervisor_reap(&supervisor, UINT64_C(5000000002));
    assert_int_equal(cli_supervisor_alive(&supervisor), 0);
    cli_supervisor_tick(&supervisor, UINT64_C(99000000000));
    assert_int_equal(cli_supervisor_alive(&supervisor), 0); /* nothing is started again */
    assert_int_equal(unlink(supervisor.children[0].log_path), 0);
    cli_supervisor_clear(&supervisor);
    assert_int_equal(rmdir(dir), 0);
}

static void who_refuses_its_options_is_not_started_again(void **state)
{
    (void)state;
    struct said said = {{0}};
    struct cli_supervisor supervisor = {.say = say, .user = &said};
    struct kw_err err = {0};

    /* and without a log, as on a full disk */
    add(&supervisor, "/nonexistent", "exit 2");
    struct cli_child *child = &supervisor.children[0];
    assert_int_equal(cli_supervisor_start(&supervisor, child, 1, &err), 0);
    assert_false(cli_child_refused(child));
    wait_for_end(child->pid);
    cli_supervisor_reap(&supervisor, 2);
    assert_true(cli_child_refused(child));
    assert_non_null(strstr(said.text, "refuses its options"));
    cli_supervisor_tick(&supervisor, UINT64_C(99000000000));
    assert_int_equal(child->pid, 0);
    cli_supervisor_clear(&supervisor);
}

static void logs_are_bounded(void **state)
{
    (void)state;
    char path[] = "/tmp/kwt-log-XXXXXX";
    struct cli_child child = {.name = "x"};
    struct stat status;
    struct kw_buf tail = {0};

    kw_cleanup_close int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)snprintf(child.log_path, sizeof(child.log_path), "%s", path);
    for (unsigned i = 0; i < 40000; i++)
        assert_true(dprintf(fd, "a line of the log with number %u\n", i) > 0);
    cli_child_bound_log(&child);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 64 << 10);
    cli_child_log_tail(&child, 2, "> ", &tail);
    assert_string_equal(tail.data, "> a line of the log with number 39998\n"
                                   "> a line of the log with number 39999\n");
    kw_buf_free(&tail);
    assert_int_equal(unlink(path), 0);
}

static void output_is_captured_within_its_limits(void **state)
{
    (void)state;
    struct kw_buf out = {0};
    int status = 0;
    char *hello[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"echo hello; exit 4"}, NULL};
    char *silent[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"sleep 1000"}, NULL};
    char *flood[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"while :; do echo x; done"},
                     NULL};
    char *nothing[] = {(char[]){"/nonexistent/program"}, NULL};

    assert_int_equal(cli_spawn_capture(hello, no_env, 60000, 100, &out, &status), 0);
    assert_string_equal(out.data, "hello\n");
    assert_int_equal(WEXITSTATUS(status), 4);
    kw_buf_reset(&out);
    assert_int_equal(cli_spawn_capture(silent, no_env, 50, 100, &out, &status), -ETIMEDOUT);
    assert_int_equal(cli_spawn_capture(flood, no_env, 60000, 100, &out, &status), -EFBIG);
    assert_int_equal(cli_spawn_capture(nothing, no_env, 60000, 100, &out, &status), -ENOENT);
    kw_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_death_shows_the_log_and_backs_off),
        cmocka_unit_test(stopping_asks_and_then_kills),
        cmocka_unit_test(who_refuses_its_options_is_not_started_again),
        cmocka_unit_test(logs_are_bounded),
        cmocka_unit_test(output_is_captured_within_its_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
