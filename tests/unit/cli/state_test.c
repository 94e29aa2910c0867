/* SPDX-License-Identifier: Apache-2.0 */
/* State folder, lock file, addresses, and the lines of the agent's --check. */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cli/address.h"
#include "cli/findings.h"
#include "cli/state.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static void lock_is_held_by_one(void **state)
{
    (void)state;
    char dir[] = "/tmp/kwt-state-XXXXXX", path[64];
    struct cli_running mine = {.pid = 4711, .agent = "127.0.0.1:9891", .redis = "unix:///x"}, seen;
    struct kw_err err = {0};
    int fd = -1, other = -1;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/lock", dir);
    assert_int_equal(cli_state_prepare(dir, &err), 0);
    assert_int_equal(cli_state_find(dir, &seen), -ENOENT);
    assert_int_equal(cli_state_lock(dir, &fd, &seen, &err), 0);
    assert_int_equal(cli_state_announce(fd, &mine, &err), 0);
    assert_int_equal(cli_state_lock(dir, &other, &seen, &err), -EBUSY);
    assert_int_equal(other, -1);
    assert_int_equal(seen.pid, 4711);
    assert_string_equal(seen.redis, "unix:///x");
    assert_int_equal(cli_state_find(dir, &seen), 0);
    assert_string_equal(seen.agent, "127.0.0.1:9891");
    (void)close(fd); /* as when its process dies: what the file says is no longer believed */
    assert_int_equal(cli_state_find(dir, &seen), -ENOENT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void unsafe_folders_are_refused(void **state)
{
    (void)state;
    char dir[] = "/tmp/kwt-state-XXXXXX", link[64];
    struct kw_err err = {0};

    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(cli_state_prepare(dir, &err), -EPERM);
    assert_non_null(strstr(err.text, "--state-dir"));
    assert_int_equal(chmod(dir, 0700), 0);
    (void)snprintf(link, sizeof(link), "%s/link", dir);
    assert_int_equal(symlink(dir, link), 0);
    assert_true(cli_state_prepare(link, &err) < 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_true(cli_state_prepare("/proc/kwatt", &err) < 0);
    assert_non_null(strstr(err.text, "--state-dir"));
}

static void lock_files_of_any_content_are_read(void **state)
{
    (void)state;
    struct cli_running running;
    static const char good[] = "pid=7\nunknown=1\nagent=a=b\nno line\nnode=n";

    assert_int_equal(cli_state_parse(good, sizeof(good) - 1, &running), 0);
    assert_int_equal(running.pid, 7);
    assert_string_equal(running.agent, "a=b");
    assert_string_equal(running.node, "n");
    assert_int_equal(cli_state_parse("", 0, &running), -EBADMSG);
    assert_int_equal(cli_state_parse("pid=0\n", 6, &running), -EBADMSG);
    assert_int_equal(cli_state_parse("pid=-1\n", 7, &running), -EBADMSG);
    assert_int_equal(cli_state_parse("pid=99999999999\n", 16, &running), -EBADMSG);
}

static void default_folder_follows_the_environment(void **state)
{
    (void)state;
    char *named[] = {(char[]){"KWATT_STATE_DIR=/a/b"}, NULL};
    struct cli_io io = {.envp = named};
    char dir[64];

    assert_int_equal(cli_state_default_dir(&io, dir, sizeof(dir)), 0);
    assert_string_equal(dir, "/a/b");
    assert_int_equal(cli_state_default_dir(&io, dir, 4), -ENAMETOOLONG);
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *format, *url;
    } rows[] = {
        {"127.0.0.1:9891", "127.0.0.1:9891", "http://127.0.0.1:9891"},
        {":9891", ":9891", "http://127.0.0.1:9891"},
        {"0.0.0.0:1", "0.0.0.0:1", "http://127.0.0.1:1"},
        {"[::1]:65535", "[::1]:65535", "http://[::1]:65535"},
        {"[::]:80", "[::]:80", "http://[::1]:80"},
        {"unix:/run/x.sock", "unix:/run/x.sock", "http://localhost"},
    };
    static const char *const bad[] = {"",     "9891",   "host:", ":65536", "::1:80",
                                      "a:-1", "unix:x", "[::1]", "h:1 "};
    struct cli_address address;
    char text[CLI_ADDRESS_MAX];

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        assert_int_equal(cli_address_parse(rows[i].text, &address, NULL), 0);
        cli_address_format(&address, text);
        assert_string_equal(text, rows[i].format);
        cli_address_url(&address, text);
        assert_string_equal(text, rows[i].url);
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(bad); i++)
        assert_int_equal(cli_address_parse(bad[i], &address, NULL), -EINVAL);
}

static void busy_ports_are_found(void **state)
{
    (void)state;
    struct cli_address address = {.host = "127.0.0.1"};

    assert_int_equal(cli_address_probe(&address), 0);
    assert_true(address.port > 0);
    /* a listener on that port; bind through the same numbers */
    struct sockaddr_in busy = {.sin_family = AF_INET,
                               .sin_port = htons(address.port),
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    kw_cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&busy, sizeof(busy)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(cli_address_probe(&address), -EADDRINUSE);
    struct cli_address again = {.host = "8.8.8.8", .port = 1};
    assert_int_equal(cli_address_probe(&again), -EADDRNOTAVAIL);
    struct cli_address name = {.host = "some.name.example", .port = 1};
    assert_int_equal(cli_address_probe(&name), 0);
}

static void check_lines_are_taken(void **state)
{
    (void)state;
    static const char text[] = "ok\tebpf\tworks\t\n"
                               "what is this\n"
                               "missing\tmeter\tno zones\tload intel_rapl\nbroken\ta\tb\tc\n"
                               "degraded\tcounters\tno PMU";
    struct cli_findings findings = {0};
    struct kw_buf out = {0};
    size_t n = 0;

    assert_int_equal(cli_findings_parse(&findings, text, sizeof(text) - 1, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(findings.items[1].state, CLI_MISSING);
    assert_string_equal(findings.items[1].remedy, "load intel_rapl");
    assert_string_equal(findings.items[2].remedy, "");
    assert_int_equal(cli_findings_add(&findings, CLI_OK, "a\"b", "c\033", ""), 0);
    cli_findings_table(&findings, false, &out);
    assert_non_null(strstr(out.data, "-> load intel_rapl\n"));
    assert_null(strchr(out.data, '\033'));
    kw_buf_reset(&out);
    cli_findings_json(&findings, &out);
    assert_non_null(strstr(out.data, "\"item\": \"a\\\"b\""));
    kw_buf_free(&out);
    cli_findings_clear(&findings);
}

static void another_folder_stands_for_the_one_asked_for(void **state)
{
    (void)state;
    char first[PATH_MAX], again[PATH_MAX], second[PATH_MAX], other[PATH_MAX];

    assert_int_equal(cli_state_fallback_dir("/run/kwatt", 0, first, sizeof(first)), 0);
    assert_int_equal(cli_state_fallback_dir("/run/kwatt", 0, again, sizeof(again)), 0);
    assert_int_equal(cli_state_fallback_dir("/run/kwatt", 1, second, sizeof(second)), 0);
    assert_int_equal(cli_state_fallback_dir("/run/other", 0, other, sizeof(other)), 0);
    assert_string_equal(first, again);
    assert_string_not_equal(first, second);
    assert_string_not_equal(first, other);
    assert_int_equal(cli_state_fallback_dir("/run/kwatt", 2, other, sizeof(other)), -ENOENT);
    assert_int_equal(cli_state_fallback_dir("/run/kwatt", 0, other, 10), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_is_held_by_one),
        cmocka_unit_test(unsafe_folders_are_refused),
        cmocka_unit_test(lock_files_of_any_content_are_read),
        cmocka_unit_test(another_folder_stands_for_the_one_asked_for),
        cmocka_unit_test(default_folder_follows_the_environment),
        cmocka_unit_test(addresses),
        cmocka_unit_test(busy_ports_are_found),
        cmocka_unit_test(check_lines_are_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
