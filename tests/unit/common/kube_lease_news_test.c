/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a lease, once each. */
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/kube_lease_news.h"
#include "tests/support/cmocka.h"

static void test_news(void **state)
{
    (void)state;
    static const struct {
        bool held;
        const char *holder, *error;
        enum kw_lease_news news;
    } steps[] = {
        {false, "", "", KW_LEASE_SAME}, /* nobody has answered yet */
        {false, "", "forbidden", KW_LEASE_UNUSABLE},
        {false, "", "forbidden", KW_LEASE_SAME},
        {false, "other", "", KW_LEASE_OTHERS},
        {false, "other", "", KW_LEASE_SAME},
        {false, "third", "", KW_LEASE_OTHERS},
        {true, "self", "", KW_LEASE_TAKEN},
        {true, "self", "timed out", KW_LEASE_SAME}, /* held as long as it lasts */
        {false, "self", "timed out", KW_LEASE_LOST},
        {false, "self", "timed out", KW_LEASE_SAME},
        {false, "other", "", KW_LEASE_OTHERS},
        {false, "other", "refused", KW_LEASE_UNUSABLE},
        {true, "self", "", KW_LEASE_TAKEN},
    };
    struct kw_lease_seen seen = {0};

    for (size_t i = 0; i < KW_ARRAY_SIZE(steps); i++) {
        struct kw_kube_lease_status status = {.held = steps[i].held};
        (void)snprintf(status.holder, sizeof(status.holder), "%s", steps[i].holder);
        (void)snprintf(status.error, sizeof(status.error), "%s", steps[i].error);
        if (kw_lease_news(&seen, &status) != steps[i].news)
            fail_msg("step %zu", i);
    }
}

static void test_lines(void **state)
{
    (void)state;
    static const struct kw_lease_words words = {"taken", "lost", "others", "unusable"};
    static const struct {
        enum kw_lease_news news;
        const char *holder, *error;
        enum kw_log_level level;
        const char *text, *key, *value;
    } cases[] = {
        {KW_LEASE_SAME, "self", "", KW_LOG_INFO, NULL, "leader", "self"},
        {KW_LEASE_TAKEN, "self", "", KW_LOG_INFO, "taken", "leader", "self"},
        {KW_LEASE_OTHERS, "other", "", KW_LOG_INFO, "others", "leader", "other"},
        {KW_LEASE_OTHERS, "other", "refused", KW_LOG_INFO, "others", "leader", "other"},
        {KW_LEASE_UNUSABLE, "", "forbidden", KW_LOG_WARN, "unusable", "error", "forbidden"},
        {KW_LEASE_LOST, "self", "timed out", KW_LOG_WARN, "lost", "error", "timed out"},
        {KW_LEASE_LOST, "other", "", KW_LOG_WARN, "lost", "leader", "other"}, /* stolen */
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kw_kube_lease_status status = {0};
        (void)snprintf(status.holder, sizeof(status.holder), "%s", cases[i].holder);
        (void)snprintf(status.error, sizeof(status.error), "%s", cases[i].error);
        struct kw_lease_line line = kw_lease_line(cases[i].news, &words, &status);
        bool same_text = line.text == NULL || cases[i].text == NULL
                             ? line.text == cases[i].text
                             : strcmp(line.text, cases[i].text) == 0;
        if (!same_text || line.level != cases[i].level || strcmp(line.why.key, cases[i].key) != 0 ||
            strcmp(line.why.str, cases[i].value) != 0)
            fail_msg("case %zu: %s %s=%s", i, line.text, line.why.key, line.why.str);
    }
}

static void test_time_of_a_call(void **state)
{
    (void)state;
    struct kw_kube_lease_settings settings = {.duration_ns = 15000000000,
                                              .renew_deadline_ns = 10000000000};

    assert_int_equal(kw_lease_timeout_ms(&settings), 0);
    settings.enabled = true;
    assert_int_equal(kw_lease_timeout_ms(&settings), 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_news), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_time_of_a_call)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
