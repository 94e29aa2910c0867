/* SPDX-License-Identifier: Apache-2.0 */
/* What subcommands say to arguments, before they start anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

typedef int (*command)(const struct cli_io *io, int argc, char **argv);

/** Runs a command and returns its status and what it wrote. */
static int run(command fn, const char *argument, char **ret_out, char **ret_err)
{
    char name[] = "command", copy[128];
    char *argv[] = {name, copy, NULL};
    char *const none[] = {NULL};
    size_t out_len, err_len;
    struct cli_io io = {.out = open_memstream(ret_out, &out_len),
                        .err = open_memstream(ret_err, &err_len),
                        .envp = none};

    (void)snprintf(copy, sizeof(copy), "%s", argument);
    int status = fn(&io, 2, argv);
    (void)fclose(io.out);
    (void)fclose(io.err);
    return status;
}

static void help_has_options_and_examples(void **state)
{
    (void)state;
    static const command commands[] = {cli_up, cli_top, cli_check};

    for (size_t i = 0; i < KW_ARRAY_SIZE(commands); i++) {
        kw_cleanup_free char *out = NULL, *err = NULL;
        assert_int_equal(run(commands[i], "--help", &out, &err), 0);
        assert_non_null(strstr(out, "--redis"));
        assert_non_null(strstr(out, "Examples:"));
        assert_string_equal(err, "");
    }
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    static const struct {
        command fn;
        const char *argument, *named;
    } rows[] = {
        {cli_up, "--fo=3", "--fo"},
        {cli_up, "--for=soon", "soon"},
        {cli_up, "--json", "--for"},
        {cli_up, "--sort=colour", "colour"},
        {cli_top, "--node=n", "--redis"},
        {cli_top, "--interval=0", "interval"},
        {cli_top, "--redis=ftp://x", "scheme"},
        {cli_check, "extra", "extra"},
        {cli_explain, "a b", "a b"},
        {cli_explain, "pod\x1b[2J", "no name of a pod"},
        {cli_explain, "a/b/c", "no name of a pod"},
        {cli_explain, "/b", "no name of a pod"},
        {cli_explain, "a/", "no name of a pod"},
        {cli_explain, "--extender=", "extender"},
        {cli_explain, "--pod=", "pod"},
        {cli_explain, "--node=n", "--redis"},
        {cli_explain, "--fo=3", "--fo"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        kw_cleanup_free char *out = NULL, *err = NULL;
        assert_int_equal(run(rows[i].fn, rows[i].argument, &out, &err), 2);
        assert_non_null(strstr(err, rows[i].named));
        assert_string_equal(out, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_has_options_and_examples),
        cmocka_unit_test(bad_arguments_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
