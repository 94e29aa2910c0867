/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/requests_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "tests/support/pki.h"

char kwt_requests_folder[] = "/tmp/kwatt-requests-XXXXXX";
struct agent_requests *kwt_requests;

void kwt_sleep_ms(unsigned ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

pid_t kwt_spawn(const struct kwt_cgroup *cgroup, const char *const *argv, int out)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    int null = open("/dev/null", O_RDWR);
    if (cgroup != NULL && kwt_cgroup_enter(cgroup) < 0)
        _exit(1);
    (void)dup2(out >= 0 ? out : null, 1);
    (void)dup2(null, 2);
    (void)execvp(argv[0], (char *const *)argv);
    _exit(127);
}

int kwt_run(const char *const *argv, char *text, size_t size)
{
    int ends[2], status = 0;
    size_t len = 0;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = kwt_spawn(NULL, argv, ends[1]);
    (void)close(ends[1]);
    for (;;) {
        char rest[4096];
        ssize_t n = text != NULL && len + 1 < size ? read(ends[0], text + len, size - len - 1)
                                                   : read(ends[0], rest, sizeof(rest));
        if (n <= 0)
            break;
        if (text != NULL && len + 1 < size)
            len += (size_t)n;
    }
    if (text != NULL)
        text[len] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

struct agent_served kwt_served(const struct kwt_cgroup *cgroup)
{
    struct agent_served_list list = {0};
    struct agent_served found = {0};

    assert_int_equal(agent_requests_read(kwt_requests, &list), 0);
    for (size_t i = 0; i < list.n; i++) {
        if (list.rows[i].key == cgroup->key)
            found = list.rows[i];
    }
    agent_served_list_free(&list);
    return found;
}

uint64_t kwt_settled(const struct kwt_cgroup *cgroup, uint64_t expected)
{
    uint64_t turns = kwt_served(cgroup).turns;

    for (int i = 0; i < 100 && turns != expected; i++) {
        kwt_sleep_ms(20);
        turns = kwt_served(cgroup).turns;
    }
    return turns;
}

static void count_requests(bool statuses, unsigned max_cgroups)
{
    struct agent_requests_conf conf = {.sysfs_root = "/sys",
                                       .procfs_root = "/proc",
                                       .statuses = statuses,
                                       .max_cgroups = max_cgroups};
    struct kw_err err = {0};

    agent_requests_close(&kwt_requests);
    if (agent_requests_open(&conf, &kwt_requests, &err) < 0)
        fail_msg("%s", err.text);
}

void kwt_count_requests(bool statuses)
{
    count_requests(statuses, 0);
}

void kwt_count_requests_of(unsigned max_cgroups)
{
    count_requests(false, max_cgroups);
}

int kwt_requests_setup(void **state)
{
    static const char *const needed[] = {"redis-server", "redis-benchmark", "redis-cli", "wrk",
                                         "ip"};
    struct agent_requests_conf conf = {.sysfs_root = "/sys", .procfs_root = "/proc"};
    struct kw_err err = {0};

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(needed); i++) {
        const char *argv[] = {needed[i], "--version", NULL};
        if (kwt_run(argv, NULL, 0) == 127) {
            printf("SKIP: no %s\n", needed[i]);
            exit(77);
        }
    }
    kwt_cgroup_need();
    if (!kwt_cgroup_possible(false)) {
        printf("SKIP: no v2 cgroup can be made here\n");
        exit(77);
    }
    if (agent_requests_open(&conf, &kwt_requests, &err) < 0) {
        printf("SKIP: %s\n", err.text);
        exit(77);
    }
    if (mkdtemp(kwt_requests_folder) == NULL)
        return -1;
    kwt_pki_authority(kwt_requests_folder, "ca");
    kwt_pki_leaf(kwt_requests_folder, "server", "ca", 1, "DNS:localhost,IP:127.0.0.1");
    return 0;
}

int kwt_requests_teardown(void **state)
{
    const char *remove[] = {"rm", "-rf", kwt_requests_folder, NULL};

    (void)state;
    agent_requests_close(&kwt_requests);
    return kwt_run(remove, NULL, 0);
}
