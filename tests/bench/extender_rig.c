/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/extender_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

#define PATIENCE_S 60

void extender_rig_clean(struct extender_rig *p)
{
    static const char *const files[] = {"redis.sock", "redis.log", "extender.log", "go.log"};
    const pid_t pids[] = {p->extender, p->fixed, p->go, p->redis};
    char path[128];

    for (unsigned i = 0; i < KW_ARRAY_SIZE(pids); i++) {
        if (pids[i] <= 0)
            continue;
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
    for (unsigned i = 0; i < KW_ARRAY_SIZE(files) && p->dir[0] != '\0'; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", p->dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(p->dir);
}

static pid_t spawn(const char *log, const char *const *argv)
{
    pid_t pid = fork();

    if (pid < 0)
        kwt_die("fork");
    if (pid > 0)
        return pid;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)dup2(fd, STDOUT_FILENO);
        (void)dup2(fd, STDERR_FILENO);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* an interrupted run leaves nothing behind */
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

uint16_t extender_rig_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    kw_cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        kwt_die("no free port");
    return ntohs(address.sin_port);
}

struct kw_redis *extender_rig_redis(struct extender_rig *p)
{
    char socket_path[80], log[80], url[96];
    struct kw_redis_conf conf = {.access.url = url, .timeout_ms = 30000};
    struct kw_redis *redis = NULL;
    struct kw_err err = {0};

    (void)snprintf(socket_path, sizeof(socket_path), "%s/redis.sock", p->dir);
    (void)snprintf(log, sizeof(log), "%s/redis.log", p->dir);
    (void)snprintf(url, sizeof(url), "unix://%s", socket_path);
    p->redis = spawn(log, (const char *const[]){"redis-server", "--port", "0", "--unixsocket",
                                                socket_path, "--save", "", "--dir", p->dir, NULL});
    if (kw_redis_new(&conf, &redis, &err) < 0)
        kwt_die(err.text);
    for (unsigned i = 0; i < PATIENCE_S * 50; i++) {
        kw_redis_retry_now(redis);
        if (kw_redis_queue_texts(redis, "PING", (char *)NULL) == 0 &&
            kw_redis_exec(redis, NULL, &err) == 0)
            return redis;
        (void)poll(NULL, 0, 20);
    }
    kwt_die("redis-server does not answer");
}

void extender_rig_extender(struct extender_rig *p, const char *build)
{
    char program[512], listen_on[32], url[96], log[80];

    p->port = extender_rig_port();
    (void)snprintf(program, sizeof(program), "%s/extender/kwatt-extender", build);
    (void)snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%u", p->port);
    (void)snprintf(url, sizeof(url), "unix://%s/redis.sock", p->dir);
    (void)snprintf(log, sizeof(log), "%s/extender.log", p->dir);
    p->extender =
        spawn(log, (const char *const[]){program, "--listen", listen_on, "--redis", url,
                                         "--stale-after", "1h", "--log-level", "warn", NULL});
}

void extender_rig_find_go(struct extender_rig *p, const char *build)
{
    static const char name[] = "/goextender";
    char tool[512], *found = p->go_program;
    const size_t cap = sizeof(p->go_program) - sizeof(name);
    int out[2];
    size_t len = 0;
    ssize_t n = 1;

    (void)snprintf(tool, sizeof(tool), "%s/../../e2e/tools/build.py", build);
    if (pipe2(out, O_CLOEXEC) < 0)
        kwt_die("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        execlp("python3", "python3", tool, "goextender", (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    while (len < cap && n > 0) {
        n = read(out[0], found + len, cap - len);
        len += n > 0 ? (size_t)n : 0;
    }
    (void)close(out[0]);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    found[len] = '\0';
    if (status != 0) {
        fprintf(stderr, "extender_bench: no extender in Go: %s", found);
        found[0] = '\0';
        return;
    }
    found[strcspn(found, "\n")] = '\0';
    memcpy(found + strlen(found), name, sizeof(name));
}

void extender_rig_go(struct extender_rig *p)
{
    char log[80], listen_on[32];

    if (p->go_program[0] == '\0')
        return;
    p->go_port = extender_rig_port();
    (void)snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%u", p->go_port);
    (void)snprintf(log, sizeof(log), "%s/go.log", p->dir);
    p->go = spawn(log, (const char *const[]){p->go_program, listen_on, NULL});
}

/** Begins a network that has nothing but loopback. @return 0 or -errno. */
static int new_network(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};

    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return -errno;
    kw_cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback) < 0)
        kwt_die("loopback");
    return 0;
}

void extender_rig_network(void)
{
    static const char reno[] = "reno"; /* that each kernel has */
    int rc = new_network();
    kw_cleanup_close int fd = -1;

    if (rc == 0) {
        fd = open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, reno, sizeof(reno) - 1) < 0)
            rc = -errno;
    }
    if (rc < 0)
        fprintf(stderr, "extender_bench: TCP is the machine's own, which may pace: %s\n",
                strerror(-rc));
}

void extender_rig_wait(struct keepalive *client, unsigned n)
{
    static const char get[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    struct kw_buf request = {0};
    char line[64];

    (void)kw_buf_adds(&request, get);
    (void)snprintf(line, sizeof(line), "\nkwatt_extender_nodes %u\n", n);
    for (unsigned i = 0; i < PATIENCE_S * 20; i++) {
        const char *body;
        (void)keepalive_ask(client, &request, &body);
        if (strstr(body, line) != NULL && strstr(body, "\nkwatt_extender_redis_up 1\n") != NULL) {
            kw_buf_free(&request);
            return;
        }
        (void)poll(NULL, 0, 50);
    }
    kwt_die("the extender does not know the nodes");
}
