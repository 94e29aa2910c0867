/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting requests against a real redis-server and redis-benchmark, in clear and with TLS. What
 * the server itself says that it answered is the truth, and the counts are held to the last one.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/cmocka.h"
#include "tests/support/requests_rig.h"

static uint64_t commands(const char *port)
{
    const char *argv[] = {"redis-cli", "-p", port, "INFO", "stats", NULL};
    char text[8192];
    uint64_t n = 0;

    assert_int_equal(kwt_run(argv, text, sizeof(text)), 0);
    const char *at = strstr(text, "total_commands_processed:");
    assert_non_null(at);
    at += strlen("total_commands_processed:");
    while (*at >= '0' && *at <= '9')
        n = n * 10 + (uint64_t)(*at++ - '0');
    return n;
}

static pid_t start_redis(const struct kwt_cgroup *cgroup, const char *port, const char *tls_port)
{
    char cert[128], key[128], ca[128];
    const char *argv[] = {"redis-server",
                          "--port",
                          port,
                          "--tls-port",
                          tls_port,
                          "--save",
                          "",
                          "--tls-cert-file",
                          cert,
                          "--tls-key-file",
                          key,
                          "--tls-ca-cert-file",
                          ca,
                          "--tls-auth-clients",
                          "no",
                          "--bind",
                          "127.0.0.1",
                          "--dir",
                          kwt_requests_folder,
                          NULL};
    const char *ping[] = {"redis-cli", "-p", port, "PING", NULL};
    char text[64] = "";

    (void)snprintf(cert, sizeof(cert), "%s/server.pem", kwt_requests_folder);
    (void)snprintf(key, sizeof(key), "%s/server.key", kwt_requests_folder);
    (void)snprintf(ca, sizeof(ca), "%s/ca.pem", kwt_requests_folder);
    pid_t pid = kwt_spawn(cgroup, argv, -1);
    for (int i = 0; i < 200 && strncmp(text, "PONG", 4) != 0; i++) {
        kwt_sleep_ms(50);
        (void)kwt_run(ping, text, sizeof(text));
    }
    if (strncmp(text, "PONG", 4) != 0)
        fail_msg("redis-server does not answer: %s", text);
    return pid;
}

static void free_ports(char ports[2][8])
{
    int fds[2];

    for (int i = 0; i < 2; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(address);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&address, &len), 0);
        (void)snprintf(ports[i], 8, "%u", ntohs(address.sin_port));
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* The difference of two readings, each taken after an INFO, is that of the server's own count: of
 * each pair of INFOs one is in it. */
static void bench_redis(const struct kwt_cgroup *cgroup, const char *port, const char *const *argv,
                        const char *what)
{
    uint64_t commands_before = commands(port);
    kwt_sleep_ms(50);
    uint64_t turns_before = kwt_served(cgroup).turns;

    assert_int_equal(kwt_run(argv, NULL, 0), 0);
    /* it begins with a pipeline of two: one turn */
    uint64_t truth = commands(port) - commands_before - 1;
    uint64_t turns = kwt_settled(cgroup, turns_before + truth) - turns_before;
    print_message("%s: %llu turns, the server counted %llu\n", what, (unsigned long long)turns,
                  (unsigned long long)truth);
    assert_true(turns == truth);
}

static void test_redis(void **state)
{
    struct kwt_cgroup cgroup;
    char ports[2][8];

    (void)state;
    kwt_count_requests(false);
    free_ports(ports);
    kwt_cgroup_make(&cgroup, false, "redis");
    pid_t pid = start_redis(&cgroup, ports[0], ports[1]);
    const char *plain[] = {
        "redis-benchmark", "-p", ports[0], "-n", "100000", "-c", "50", "-t", "set", "-q", NULL};
    const char *tls[] = {"redis-benchmark",
                         "--tls",
                         "--insecure",
                         "-p",
                         ports[1],
                         "-n",
                         "20000",
                         "-c",
                         "20",
                         "-t",
                         "get",
                         "-q",
                         NULL};
    const char *tls12[] = {"redis-benchmark",
                           "--tls",
                           "--insecure",
                           "-p",
                           ports[1],
                           "-n",
                           "5000",
                           "-c",
                           "20",
                           "-t",
                           "get",
                           "-q",
                           NULL};
    const char *limit[] = {"redis-cli",     "-p",      ports[0], "CONFIG", "SET",
                           "tls-protocols", "TLSv1.2", NULL};
    bench_redis(&cgroup, ports[0], plain, "redis");
    bench_redis(&cgroup, ports[0], tls, "redis, TLS 1.3");
    assert_int_equal(kwt_run(limit, NULL, 0), 0);
    bench_redis(&cgroup, ports[0], tls12, "redis, TLS 1.2");
    kwt_kill(pid);
    kwt_cgroup_remove(&cgroup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis),
    };
    return cmocka_run_group_tests(tests, kwt_requests_setup, kwt_requests_teardown);
}
