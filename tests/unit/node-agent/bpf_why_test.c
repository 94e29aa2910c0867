/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node-agent/accounting.h"
#include "node-agent/bpf_why.h"
#include "tests/support/cmocka.h"
#include "tests/support/tree.h"

static void explain(const char *status, int r, const char *log, struct kw_err *err)
{
    struct kwt_tree tree;

    kwt_tree_make(&tree);
    if (status != NULL)
        kwt_tree_write(&tree, "self/status", status);
    *err = (struct kw_err){0};
    assert_int_equal(agent_bpf_why(err, r, "loading", tree.root, log), r);
    assert_int_equal(err->code, r);
    kwt_tree_remove(&tree);
}

static void test_missing_capabilities(void **state)
{
    struct kw_err err;

    (void)state;
    explain("Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t0\n", -EPERM, NULL, &err);
    assert_non_null(strstr(err.text, "CAP_BPF"));
    explain("Name:\tx\nCapEff:\t0000008000000000\n", -EPERM, NULL, &err); /* CAP_BPF alone */
    assert_non_null(strstr(err.text, "CAP_PERFMON"));
}

static void test_refused_with_capabilities(void **state)
{
    struct kw_err err;

    (void)state;
    explain("Name:\tx\nCapEff:\t000000c000000000\n", -EPERM, NULL, &err);
    assert_null(strstr(err.text, "lacks"));
    explain("Name:\tx\nCapEff:\t0000000000200000\n", -EPERM, NULL, &err); /* CAP_SYS_ADMIN */
    assert_null(strstr(err.text, "lacks"));
    explain(NULL, -EPERM, NULL, &err);
    assert_true(err.text[0] != '\0');
}

/* What the verifier said last, without its statistics; a long log is cut, not overrun. */
static void test_verifier_log(void **state)
{
    static char log[70000];
    struct kw_err err;

    (void)state;
    if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
        skip();
    memset(log, 'x', sizeof(log) - 1);
    for (size_t i = 50; i < sizeof(log) - 1; i += 50)
        log[i] = '\n';
    static const char end[] =
        "\nR1 invalid mem access 'scalar'\nprocessed 12 insns (limit 1000000)\n";
    memcpy(log + sizeof(log) - sizeof(end), end, sizeof(end));
    explain(NULL, -EACCES, log, &err);
    assert_non_null(strstr(err.text, "the kernel says: R1 invalid mem access"));
    assert_null(strstr(err.text, "processed"));
    explain(NULL, -EINVAL, "\n\n", &err);
    assert_null(strstr(err.text, "the kernel says"));
}

/* A process without rights gets an error that names the remedy, from every eBPF backend. */
static void test_without_rights(void **state)
{
    static struct agent_topology topology;
    struct agent_accounting_conf conf = {
        .topology = &topology, .sysfs_root = "/sys", .procfs_root = "/proc"};
    int status = 0;

    (void)state;
    assert_int_equal(agent_topology_read("/sys", "/proc", &topology), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool ok = true;
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
            _exit(1);
        for (size_t i = 0; i < 2; i++) {
            struct kw_err err = {0};
            void *self = NULL;
            int r = agent_accounting_backends[i]->open(&conf, &self, &err);
            ok = ok && r < 0 && self == NULL && strstr(err.text, "eBPF") != NULL;
            print_message("%s: %s\n", agent_accounting_backends[i]->name, err.text);
        }
        (void)fflush(stdout);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_capabilities),
        cmocka_unit_test(test_refused_with_capabilities),
        cmocka_unit_test(test_verifier_log),
        cmocka_unit_test(test_without_rights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
