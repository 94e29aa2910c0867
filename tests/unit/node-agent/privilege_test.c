/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "node-agent/privilege.h"
#include "tests/support/cmocka.h"

/* In a child: what is given up is gone for good. */
static int drop_and_look(void)
{
    char kept[AGENT_PRIVILEGE_TEXT], status[8192];

    if (agent_privilege_drop(kept) < 0)
        return 1;
    if (kw_file_read_at(AT_FDCWD, "/proc/self/status", status, sizeof(status)) < 0)
        return 2;
    const char *effective = strstr(status, "CapEff:\t");
    const char *permitted = strstr(status, "CapPrm:\t");
    /* cap_dac_read_search is bit 2, cap_perfmon 38, cap_bpf 39 */
    const char *expected = geteuid() == 0 ? "000000c000000004" : "0000000000000000";
    if (effective == NULL || strncmp(effective + 8, expected, 16) != 0)
        return 3;
    if (permitted == NULL || strncmp(permitted + 8, expected, 16) != 0)
        return 4;
    if (strstr(status, "NoNewPrivs:\t1") == NULL)
        return 5;
    if (strcmp(kept, geteuid() == 0 ? "cap_bpf,cap_perfmon,cap_dac_read_search" : "none") != 0)
        return 6;
    /* once more changes nothing and fails nowhere */
    return agent_privilege_drop(kept) == 0 ? 0 : 7;
}

static int run_child(uid_t uid)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(uid != geteuid() && setuid(uid) < 0 ? 8 : drop_and_look());
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_keeps_only_what_sampling_needs(void **state)
{
    (void)state;
    assert_int_equal(run_child(geteuid()), 0);
}

static void test_without_root(void **state)
{
    (void)state;
    if (geteuid() == 0)
        assert_int_equal(run_child(65534), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_only_what_sampling_needs),
        cmocka_unit_test(test_without_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
