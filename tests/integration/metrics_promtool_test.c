/* SPDX-License-Identifier: Apache-2.0 */
/* What kw_metrics writes is checked by Prometheus' own program: parsing, naming, types. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/metrics.h"
#include "tests/support/cmocka.h"

extern char **environ;

/* Runs promtool with a page on its stdin. @return its exit status, -1 where it cannot be run. */
static int promtool(const char *command, const char *argument, const struct kw_buf *page,
                    struct kw_buf *output)
{
    char *argv[] = {(char *)(uintptr_t) "promtool", (char *)(uintptr_t)command,
                    (char *)(uintptr_t)argument, NULL};
    posix_spawn_file_actions_t actions;
    char bytes[4096];
    int in[2];
    int out[2];
    int status = -1;
    ssize_t n;
    pid_t pid = -1;

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 2);
    if (posix_spawnp(&pid, "promtool", &actions, NULL, argv, environ) != 0)
        pid = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    if (pid > 0 && page != NULL)
        assert_int_equal(write(in[1], page->data, page->len),
                         (ssize_t)page->len); /* fits the pipe */
    (void)close(in[1]);
    while (pid > 0 && (n = read(out[0], bytes, sizeof(bytes))) > 0)
        (void)kw_buf_add(output, bytes, (size_t)n);
    (void)close(out[0]);
    if (pid > 0)
        (void)waitpid(pid, &status, 0);
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_page(enum kw_metrics_format format, struct kw_buf *out)
{
    static const uint64_t bounds_ns[] = {1000, 250000, 1000000, 1000000000};
    static const struct kw_label filter[] = {{"verb", "filter"}, {NULL, NULL}};
    static const struct kw_label score[] = {{"verb", "prioritize"}, {NULL, NULL}};
    static const struct kw_label *const verbs[] = {filter, score};
    static const struct kw_label odd[] = {
        {"pod", "a\"b\\c\nd\xff"}, {"zone", "\xe2\x82\xac"}, {NULL, NULL}};
    struct kw_histogram *histograms[] = {kw_histogram_new(bounds_ns, KW_ARRAY_SIZE(bounds_ns)),
                                         kw_histogram_new(bounds_ns, KW_ARRAY_SIZE(bounds_ns))};
    struct kw_metrics_page page;

    kw_histogram_observe_ns(histograms[0], 300000);
    kw_histogram_observe_ns(histograms[1], 5000000000);
    kw_metrics_begin(&page, format, out);
    kw_metrics_family(&page, "kwatt_node_joules_total", KW_METRIC_COUNTER,
                      "Energy with \"quotes\", \\ and\na new line.");
    kw_metrics_scaled(&page, odd, UINT64_MAX, 6);
    kw_metrics_scaled(&page, NULL, 1, 6);
    kw_metrics_family(&page, "kwatt_node_watts", KW_METRIC_GAUGE, "Power of the node.");
    kw_metrics_double(&page, odd, 12.5e-9);
    kw_metrics_family(&page, "kwatt_power_ratio", KW_METRIC_GAUGE, "A figure that is none.");
    kw_metrics_double(&page, filter, (double)NAN);
    kw_metrics_double(&page, score, (double)INFINITY);
    kw_metrics_family(&page, "kwatt_build_info", KW_METRIC_INFO, "Version in its labels.");
    kw_metrics_u64(&page, odd, 1);
    kw_metrics_histograms(&page, "kwatt_request_duration_seconds", "Time to answer.", verbs,
                          histograms, 2);
    assert_int_equal(kw_metrics_end(&page), 0);
    kw_histogram_free(&histograms[0]);
    kw_histogram_free(&histograms[1]);
}

static void test_text_page_is_clean(void **state)
{
    struct kw_buf page = {0};
    struct kw_buf output = {0};

    (void)state;
    write_page(KW_METRICS_TEXT, &page);
    if (promtool("check", "metrics", &page, &output) != 0 || output.len > 0)
        fail_msg("promtool: %s\npage:\n%s", output.data == NULL ? "" : output.data, page.data);
    kw_buf_free(&page);
    kw_buf_free(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_page_is_clean),
    };
    struct kw_buf output = {0};
    int rc = promtool("--version", NULL, NULL, &output);

    kw_buf_free(&output);
    if (rc != 0) {
        (void)printf("SKIP: promtool (Debian package prometheus) is not installed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
