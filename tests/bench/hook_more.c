/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/hook_more.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node-agent/requests.h"
#include "tests/bench/hook_cost.h"

#define PLACEMENTS   3 /* times that the programs are loaded */
#define ROUNDS       3 /* at each */
#define SAMPLES      (PLACEMENTS * ROUNDS)
#define DATAGRAMS    20000
#define TURNS        10000
#define CONNECTIONS  2000
#define PROGRAMS_MAX 3

static int bound_socket(int type, struct sockaddr_in *ret)
{
    socklen_t len = sizeof(*ret);
    int fd = socket(AF_INET, type, 0);

    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)ret, sizeof(*ret)) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, &len) < 0)
        return -1;
    return fd;
}

/* Datagrams that this thread delivers to itself, in soft interrupts. */
static bool datagrams(void)
{
    struct sockaddr_in address;
    kw_cleanup_close int fd = bound_socket(SOCK_DGRAM, &address);
    char text[512] = {0};

    for (int i = 0; fd >= 0 && i < DATAGRAMS; i++) {
        if (sendto(fd, text, sizeof(text), 0, (struct sockaddr *)&address, sizeof(address)) < 0 ||
            recv(fd, text, sizeof(text), 0) < 0)
            return false;
    }
    return fd >= 0;
}

/* Answers a byte with a byte, connection after connection. */
static void serve(int listener)
{
    char byte;

    for (int i = 0; i < CONNECTIONS + 1; i++) {
        int fd = accept(listener, NULL, NULL);
        while (fd >= 0 && recv(fd, &byte, 1, 0) == 1) {
            if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
                _exit(1);
        }
        (void)close(fd);
    }
    _exit(0);
}

static bool ask(const struct sockaddr_in *address, int turns)
{
    kw_cleanup_close int fd = socket(AF_INET, SOCK_STREAM, 0);
    char byte = 0;

    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
        return false;
    for (int i = 0; i < turns; i++) {
        if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1)
            return false;
    }
    return true;
}

/* Many turns on one connection, then many connections of one turn. */
static bool turns(void)
{
    struct sockaddr_in address;
    kw_cleanup_close int listener = bound_socket(SOCK_STREAM, &address);
    int status = 1;

    if (listener < 0 || listen(listener, 64) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        serve(listener);
    if (pid < 0)
        return false;
    bool ok = ask(&address, TURNS);
    for (int i = 0; ok && i < CONNECTIONS; i++)
        ok = ask(&address, 1);
    (void)shutdown(listener, SHUT_RDWR); /* where it did not get all of them */
    return waitpid(pid, &status, 0) == pid && status == 0 && ok;
}

/* A program of ours and the empty one in the same place. */
struct pair {
    const char *figure, *ours, *empty;
    double ratios[SAMPLES], empty_ns[SAMPLES];
};

static int measure(struct pair *pairs, size_t n, struct bench_empty *beside, size_t from,
                   bool (*load)(void))
{
    struct bench_cost ours[PROGRAMS_MAX] = {0}, empty[PROGRAMS_MAX] = {0};
    kw_cleanup_close int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
    bool ok = stats >= 0;

    for (size_t i = 0; i < n; i++) {
        ours[i].fd = bench_find_program(pairs[i].ours);
        empty[i].fd = bench_empty_fd(beside, pairs[i].empty);
        ok = ok && ours[i].fd >= 0 && empty[i].fd >= 0;
    }
    for (size_t round = from; ok && round < from + ROUNDS; round++) {
        for (size_t i = 0; i < n; i++) {
            (void)bench_cost_step(&ours[i]);
            (void)bench_cost_step(&empty[i]);
        }
        ok = load();
        for (size_t i = 0; i < n; i++) {
            double ours_ns = bench_cost_step(&ours[i]), empty_ns = bench_cost_step(&empty[i]);
            ok = ok && ours_ns > 0 && empty_ns > 0;
            pairs[i].ratios[round] = ours_ns / empty_ns;
            pairs[i].empty_ns[round] = empty_ns;
        }
    }
    for (size_t i = 0; i < n; i++)
        (void)close(ours[i].fd);
    if (!ok)
        (void)fprintf(stderr, "hook_bench: no figures of %s\n", pairs[0].ours);
    return ok ? 0 : 1;
}

static void print_pairs(struct pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double ratio = bench_median(pairs[i].ratios, SAMPLES);
        double empty_ns = bench_median(pairs[i].empty_ns, SAMPLES);
        bench_print_ratio(pairs[i].figure, ratio * empty_ns, empty_ns, "null");
    }
}

int bench_hook_softirq(const struct agent_accounting_conf *conf)
{
    static struct pair pairs[] = {
        {.figure = "hook.softirq_entry_ns", .ours = "softirq_in", .empty = "empty_irq_in"},
        {.figure = "hook.softirq_exit_ns", .ours = "softirq_out", .empty = "empty_irq_out"},
    };
    struct agent_accounting_conf with = *conf;
    int r = 0;

    with.features = AGENT_FEATURE_BIT(AGENT_FEATURE_SOFTIRQ);
    for (size_t i = 0; i < PLACEMENTS && r == 0; i++) {
        struct kw_err err = {0};
        void *self = NULL;
        if (agent_accounting_ebpf.open(&with, &self, &err) < 0) {
            (void)fprintf(stderr, "hook_bench: %s\n", err.text);
            return 1;
        }
        struct bench_empty *beside = bench_empty_attach("empty_irq_in", "empty_irq_out", NULL);
        r = beside == NULL ? 1
                           : measure(pairs, KW_ARRAY_SIZE(pairs), beside, i * ROUNDS, datagrams);
        bench_empty_detach(&beside);
        agent_accounting_ebpf.close(&self);
    }
    if (r == 0)
        print_pairs(pairs, KW_ARRAY_SIZE(pairs));
    else /* the scheduler keeps that time itself, and the programs are not attached */
        (void)fprintf(stderr, "hook_bench: soft interrupts are not measured on this kernel\n");
    return 0;
}

int bench_hook_requests(const struct agent_accounting_conf *conf)
{
    static struct pair pairs[] = {
        {.figure = "hook.receive_ns", .ours = "received", .empty = "empty_received"},
        {.figure = "hook.send_ns", .ours = "sent", .empty = "empty_sent"},
        {.figure = "hook.connection_state_ns", .ours = "established", .empty = "empty_state"},
    };
    struct agent_requests_conf with = {.sysfs_root = conf->sysfs_root,
                                       .procfs_root = conf->procfs_root};
    int r = 0;

    for (size_t i = 0; i < PLACEMENTS && r == 0; i++) {
        struct agent_requests *requests = NULL;
        struct kw_err err = {0};
        if (agent_requests_open(&with, &requests, &err) < 0) {
            (void)fprintf(stderr, "hook_bench: %s\n", err.text);
            return 0;
        }
        struct bench_empty *beside =
            bench_empty_attach("empty_received", "empty_sent", "empty_state", NULL);
        r = beside == NULL ? 1 : measure(pairs, KW_ARRAY_SIZE(pairs), beside, i * ROUNDS, turns);
        bench_empty_detach(&beside);
        agent_requests_close(&requests);
    }
    if (r == 0)
        print_pairs(pairs, KW_ARRAY_SIZE(pairs));
    return r;
}
