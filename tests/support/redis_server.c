/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/backoff.h"
#include "common/cleanup.h"
#include "common/redis.h"
#include "tests/support/cmocka.h"

#define REDIS_SERVER "/usr/bin/redis-server"

void kwt_redis_need(void)
{
    if (access(REDIS_SERVER, X_OK) == 0)
        return;
    printf("SKIP: no %s (Debian package redis-server)\n", REDIS_SERVER);
    exit(77);
}

/*
 * A free port below the ephemeral range (32768..): no outgoing connection takes it while the server
 * is down, and a client that connects to it in that time does not meet itself.
 */
uint16_t kwt_redis_free_port(void)
{
    for (;;) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        kw_cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint16_t port = (uint16_t)(10000 + kw_random_u32() % 20000);
        address.sin_port = htons(port);
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return port;
    }
}

void kwt_redis_init(struct kwt_redis_server *server)
{
    *server = (struct kwt_redis_server){.pid = -1};
    (void)snprintf(server->dir, sizeof(server->dir), "/tmp/kwatt-redis-XXXXXX");
    assert_non_null(mkdtemp(server->dir));
    (void)snprintf(server->socket_url, sizeof(server->socket_url), "unix://%s/redis.sock",
                   server->dir);
    server->port = kwt_redis_free_port();
    (void)snprintf(server->tcp_url, sizeof(server->tcp_url), "redis://127.0.0.1:%u", server->port);
}

/* Whether something answers PING on the socket with a reply of any kind (NOAUTH is one). */
static int answers(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    kw_cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    char byte;

    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && poll(&pfd, 1, 1000) == 1 &&
           recv(fd, &byte, 1, 0) == 1;
}

static void write_conf(const struct kwt_redis_server *server, const char *path,
                       const char *user_rule)
{
    FILE *conf = fopen(path, "w");

    assert_non_null(conf);
    fprintf(conf,
            "bind 127.0.0.1\nport %u\nunixsocket %s/redis.sock\nunixsocketperm 700\ndir %s\n"
            "logfile %s/log\nsave \"\"\nappendonly no\ndaemonize no\n",
            server->port, server->dir, server->dir, server->dir);
    if (server->more != NULL)
        fprintf(conf, "%s\n", server->more);
    if (user_rule != NULL)
        fprintf(conf, "user default off\n%s\n", user_rule);
    assert_int_equal(fclose(conf), 0);
}

void kwt_redis_start(struct kwt_redis_server *server, const char *user_rule)
{
    const char *path = server->socket_url + strlen("unix://");
    char conf[128];

    (void)snprintf(conf, sizeof(conf), "%s/redis.conf", server->dir);
    write_conf(server, conf, user_rule);
    (void)unlink(path);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        /* a test that crashes leaves no server behind */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(REDIS_SERVER, REDIS_SERVER, conf, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500; i++) {
        if (answers(path))
            return;
        (void)poll(NULL, 0, 20);
    }
    fail_msg("redis-server did not answer within 10 s; its log is in %s", server->dir);
}

void kwt_redis_kill(struct kwt_redis_server *server)
{
    if (server->pid <= 0)
        return;
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void kwt_redis_done(struct kwt_redis_server *server)
{
    kwt_redis_kill(server);
    if (server->dir[0] != '\0')
        (void)nftw(server->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    server->dir[0] = '\0';
}

struct kw_redis *kwt_redis_client(const struct kw_redis_conf *conf)
{
    struct kw_redis *redis = NULL;
    struct kw_err err = {0};

    if (kw_redis_new(conf, &redis, &err) != 0)
        fail_msg("%s", err.text);
    return redis;
}
