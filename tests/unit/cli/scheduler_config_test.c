/* SPDX-License-Identifier: Apache-2.0 */
/* The text for an address that is given; the search in a cluster is e2e/chart_api_test.py's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/node.h"
#include "cli/cli.h"
#include "cli/scheduler_config.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

#define URL "--extender-url=http://127.0.0.1:9890"

/** Runs the command with up to two arguments; no HOME, so no cluster is found by chance. */
static int run(const char *first, const char *second, char **ret_out, char **ret_err)
{
    char name[] = "scheduler-config", one[700], two[128];
    char *argv[] = {name, one, second != NULL ? two : NULL, NULL};
    char *const none[] = {NULL};
    size_t out_len, err_len;
    struct cli_io io = {.out = open_memstream(ret_out, &out_len),
                        .err = open_memstream(ret_err, &err_len),
                        .envp = none};

    (void)snprintf(one, sizeof(one), "%s", first);
    (void)snprintf(two, sizeof(two), "%s", second != NULL ? second : "");
    int status = cli_scheduler_config(&io, second != NULL ? 3 : 2, argv);
    (void)fclose(io.out);
    (void)fclose(io.err);
    return status;
}

static void choices_stand_in_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *argument, *has, *lacks;
    } rows[] = {
        {"--no-filter", "\n  urlPrefix: http://127.0.0.1:9890\n", "filterVerb:"},
        {"--no-filter", "\n  weight: " CLI_SCHEDULER_WEIGHT "\n", "percentageOfNodesToScore"},
        {"--no-filter", "\n  httpTimeout: " CLI_SCHEDULER_HTTP_TIMEOUT "\n", "preemptVerb"},
        {"--no-filter", "\n  kubeconfig: /etc/kubernetes/scheduler.conf\n", "\nleaderElection"},
        {"--filter", "\n  filterVerb: filter\n", "filterVerb is left out"},
        {"--filter", "\npercentageOfNodesToScore: 100\n", NULL},
        {"--weight=5", "\n  weight: 5\n", "weight: 3"},
        {"--http-timeout=1.5s", "\n  httpTimeout: 1500ms\n", "200ms"},
        {"--scheduler-name=green", "\n- schedulerName: green\n", "default-scheduler"},
        {"--scheduler-kubeconfig=", "\nextenders:\n", "clientConnection"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup_free char *out = NULL, *err = NULL;
        assert_int_equal(run(URL "///", rows[i].argument, &out, &err), 0);
        assert_string_equal(err, "");
        if (strstr(out, rows[i].has) == NULL)
            fail_msg("%s: \"%s\" is missing in:\n%s", rows[i].argument, rows[i].has, out);
        if (rows[i].lacks != NULL && strstr(out, rows[i].lacks) != NULL)
            fail_msg("%s: \"%s\" stands in:\n%s", rows[i].argument, rows[i].lacks, out);
    }
}

static void refusals_are_named(void **state)
{
    (void)state;
    char longest[600] = "--extender-url=http://";
    static const struct {
        const char *argument, *named;
    } rows[] = {
        {"--extender-url=127.0.0.1:9890", "--extender-url: "},
        {"--extender-url=http://user@host", "without user name"},
        {"--extender-url=http://host/{a}", "YAML"},
        {"--extender-url=", "--extender-url"},
        {"--kubeconfig=/nowhere/config", "/nowhere/config"},
        {"--weight=0", "weight"},
        {"--http-timeout=1ms", "http-timeout"},
        {"--namespace=", "namespace"},
        {"--namespace=a/../b", "--namespace"},
        {"--scheduler-name=a: b", "plain names"},
        {"extra", "extra"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup_free char *out = NULL, *err = NULL;
        assert_int_not_equal(run(rows[i].argument, NULL, &out, &err), 0);
        assert_string_equal(out, "");
        if (strstr(err, rows[i].named) == NULL)
            fail_msg("%s: \"%s\" is missing in: %s", rows[i].argument, rows[i].named, err);
    }
    memset(longest + strlen(longest), 'a', sizeof(longest) - 1 - strlen(longest));
    kw_cleanup_free char *out = NULL, *err = NULL;
    assert_int_equal(run(longest, NULL, &out, &err), 2);
}

/* Arguments in one text, split at blanks. */
static int run_words(const char *words, char **ret_out, char **ret_err)
{
    char *argv[12] = {"scheduler-config"}, *const none[] = {NULL};
    kw_cleanup_free char *copy = strdup(words);
    size_t out_len, err_len;
    int argc = 1;
    struct cli_io io = {.out = open_memstream(ret_out, &out_len),
                        .err = open_memstream(ret_err, &err_len),
                        .envp = none};

    assert_non_null(copy);
    for (char *rest = copy, *word; argc < 11 && (word = strsep(&rest, " ")) != NULL;)
        argv[argc++] = word;
    int status = cli_scheduler_config(&io, argc, argv);
    (void)fclose(io.out);
    (void)fclose(io.err);
    return status;
}

static void https_stands_in_the_text(void **state)
{
    (void)state;
    static const struct {
        const char *words, *has;
    } rows[] = {
        {"--extender-url=https://h:1 --ca-file=/a", "\n  urlPrefix: https://h:1\n"},
        {"--extender-url=https://h:1 --ca-file=/k/ca.crt",
         "  enableHTTPS: true\n  tlsConfig:\n    caFile: /k/ca.crt\n  #"},
        {"--extender-url=https://h:1 --ca-file=/a --cert-file=/c --key-file=/k --server-name=n.s",
         "  tlsConfig:\n    serverName: n.s\n    caFile: /a\n    certFile: /c\n    keyFile: /k\n"},
    };
    static const struct {
        const char *words, *named;
    } refused[] = {
        {URL " --ca-file=/a", "is no HTTPS"},
        {"--extender-url=https://h:1", "HTTPS needs --ca-file"},
        {"--extender-url=https://h:1 --cert-file=/c", "only together"},
        {"--extender-url=https://h:1 --server-name=a#b", "plain names"},
        {"--extender-url=https://127.0.0.1:1 --ca-file=/none/ca.crt --check", "/none/ca.crt"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup_free char *out = NULL, *err = NULL;
        assert_int_equal(run_words(rows[i].words, &out, &err), 0);
        if (strstr(out, rows[i].has) == NULL)
            fail_msg("%s: \"%s\" is missing in:\n%s", rows[i].words, rows[i].has, out);
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(refused); i++) {
        kw_cleanup_free char *out = NULL, *err = NULL;
        assert_int_not_equal(run_words(refused[i].words, &out, &err), 0);
        assert_string_equal(out, "");
        if (strstr(err, refused[i].named) == NULL)
            fail_msg("%s: \"%s\" is missing in: %s", refused[i].words, refused[i].named, err);
    }
}

/** What stands between the weight of a term and its operator. */
#define TERM                                                 \
    "          preference:\n            matchExpressions:\n" \
    "            - {key: kwatt.io/power-tier, operator: "

static void tiers_stand_in_the_text(void **state)
{
    (void)state;
    static const char *const has[] = {
        "\nprofiles:\n- schedulerName: green\n",
        "\n      disabled:\n",
        "\n      - name: NodeResourcesBalancedAllocation\n      - name: ImageLocality\n",
        "\n      enabled:\n",
        "\n      - name: NodeAffinity\n        weight: 5\n",
        "- weight: 88\n" TERM "In, values: [\"0\", \"1\"]}\n",
        "- weight: 44\n" TERM "NotIn, values: [\"0\", \"1\", \"6\", \"7\", \"8\", \"9\"]}\n",
        "- weight: 22\n" TERM "In, values: [\"2\", \"3\", \"6\", \"7\"]}\n",
        "- weight: 11\n" TERM "In, values: [\"0\", \"2\", \"4\", \"6\", \"8\"]}\n",
    };
    static const char *const refused[] = {"--tiers --extender-url=http://a:1", "--tiers --filter",
                                          "--tiers --check", "--tiers --ca-file=/a",
                                          "--tiers --scheduler-name=a#b"};
    kw_cleanup_free char *text = NULL, *nothing = NULL;

    assert_int_equal(run_words("--tiers --scheduler-name=green --weight=5", &text, &nothing), 0);
    assert_null(strstr(text, "extenders"));
    assert_int_equal(kw_tier_weight(KW_TIER_NONE), 44);
    for (size_t i = 0; i < KW_ARRAY_SIZE(has); i++) {
        if (strstr(text, has[i]) == NULL)
            fail_msg("\"%s\" is missing in:\n%s", has[i], text);
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(refused); i++) {
        kw_cleanup_free char *out = NULL, *err = NULL;
        assert_int_equal(run_words(refused[i], &out, &err), 2);
        assert_string_equal(out, "");
    }
}

static void without_a_cluster_it_says_what_to_give(void **state)
{
    (void)state;
    kw_cleanup_free char *out = NULL, *err = NULL;
    assert_int_equal(run("--no-check", NULL, &out, &err), 1);
    assert_non_null(strstr(err, "--extender-url URL or --kubeconfig FILE"));
}

static void check_asks_there(void **state)
{
    (void)state;
    kw_cleanup_free char *out = NULL, *err = NULL;
    /* port 1 of loopback: nobody listens */
    assert_int_equal(run("--extender-url=http://127.0.0.1:1", "--check", &out, &err), 1);
    assert_string_equal(out, "");
    assert_non_null(strstr(err, "http://127.0.0.1:1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_stand_in_the_text),
        cmocka_unit_test(refusals_are_named),
        cmocka_unit_test(https_stands_in_the_text),
        cmocka_unit_test(tiers_stand_in_the_text),
        cmocka_unit_test(without_a_cluster_it_says_what_to_give),
        cmocka_unit_test(check_asks_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
