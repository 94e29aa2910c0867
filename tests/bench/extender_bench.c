/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency of the real kwatt-extender over keep-alive loopback, one client, one request at a time,
 * as kube-scheduler asks. Beside it, call by call in turn, a server of the same library
 * (common/http_server) that gets the same request and sends the same bytes from memory: the ratio
 * of the two is what reading, scoring and writing cost; and an extender in Go that does nothing but
 * decode and encode the types of k8s.io/kube-scheduler, for the CPU of a call. 15000 nodes are in
 * Redis throughout; they are published once and kept fresh by a long --stale-after. CPU is the
 * process's own clock, background refreshes included.
 *
 * usage: extender_bench [BUILD_DIR]   (default: where this program stands, two folders up)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/http_server.h"
#include "common/redis.h"
#include "tests/bench/fleet.h"
#include "tests/bench/keepalive.h"
#include "tests/bench/question.h"

#define NODES      15000
#define WARM_UP    50
#define PATIENCE_S 60

/** Of the CPU that an extender in Go takes for a call; for fewer names, what the kernel does for a
 * call is most of it in both. */
#define GO_RATIO   0.1
#define GO_NAMES   500
#define GO_WARM_UP 10

/**
 * The bound is on the median's ratio to the static answer and holds what was reached, with some
 * room for a busy machine: 1.5 up to 500 names, as the design wants it; beyond, what a name takes
 * counts for more than what a call takes, and the tables of a large cluster fill the near caches.
 * The other quantiles are printed for people, not judged: a shared machine decides them.
 */
static const struct {
    unsigned names, calls;
    double bound; /* 0: none */
    bool whole;   /* Node objects in place of names */
    unsigned go_calls;
} sizes[] = {{100, 4000, 1.5, false, 400},
             {500, 6000, 1.5, false, 400},
             {5000, 800, 2.2, false, 60},
             {15000, 300, 2.5, false, 30},
             {500, 60, 0, true, 10}};
#define SIZES KW_ARRAY_SIZE(sizes)

static const char *const verbs[] = {"prioritize", "filter"};
#define VERBS KW_ARRAY_SIZE(verbs)

/** One request, and the answer that the static server gives to it. */
struct question {
    struct kw_buf request[2]; /* to the extender, to the static server */
    struct kw_buf answer;     /* body only */
    char path[32];
};

struct processes {
    char dir[64];
    pid_t redis, extender, fixed, go;
    uint16_t port, fixed_port, go_port;
};

static struct processes *to_clean; /* for kwt_die() alone */

static void clean_up(struct processes *p)
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

void kwt_die(const char *what)
{
    fprintf(stderr, "extender_bench: %s: %s\n", what, strerror(errno));
    if (to_clean != NULL)
        clean_up(to_clean);
    exit(1);
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

/** A port that is free now. */
static uint16_t free_port(void)
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

static struct kw_redis *start_redis(struct processes *p)
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

static void start_extender(struct processes *p, const char *build)
{
    char program[512], listen_on[32], url[96], log[80];

    p->port = free_port();
    (void)snprintf(program, sizeof(program), "%s/extender/kwatt-extender", build);
    (void)snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%u", p->port);
    (void)snprintf(url, sizeof(url), "unix://%s/redis.sock", p->dir);
    (void)snprintf(log, sizeof(log), "%s/extender.log", p->dir);
    p->extender =
        spawn(log, (const char *const[]){program, "--listen", listen_on, "--redis", url,
                                         "--stale-after", "1h", "--log-level", "warn", NULL});
}

/** The extender of e2e/tools/goextender, built where it is not yet. Without Go: a line on stderr
 * and no reference. */
static void start_go(struct processes *p, const char *build)
{
    char tool[512], program[PATH_MAX], log[80], listen_on[32];
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
    while (len < sizeof(program) - 32 && n > 0) {
        n = read(out[0], program + len, sizeof(program) - 32 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    (void)close(out[0]);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    program[len] = '\0';
    if (status != 0) {
        fprintf(stderr, "extender_bench: no extender in Go: %s", program);
        return;
    }
    program[strcspn(program, "\n")] = '\0';
    memcpy(program + strlen(program), "/goextender", sizeof("/goextender"));
    p->go_port = free_port();
    (void)snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%u", p->go_port);
    (void)snprintf(log, sizeof(log), "%s/go.log", p->dir);
    p->go = spawn(log, (const char *const[]){program, listen_on, NULL});
}

/** Waits until /metrics says that so many nodes are known. */
static void wait_for_nodes(struct keepalive *client, unsigned n)
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

static void make_question(struct question *q, const char *verb, unsigned size)
{
    (void)snprintf(q->path, sizeof(q->path), "%s_%u%s", verb, sizes[size].names,
                   sizes[size].whole ? "_nodes" : "");
    if (question_add(&q->request[0], verb, sizes[size].names, NODES, sizes[size].whole) < 0 ||
        question_add(&q->request[1], q->path, sizes[size].names, NODES, sizes[size].whole) < 0)
        kwt_die("out of memory");
}

static void on_fixed(void *user, const struct kw_http_request *request,
                     struct kw_http_response *response)
{
    const struct question *q = user;

    (void)request;
    response->content_type = "application/json";
    response->static_body = q->answer.data;
    response->static_len = q->answer.len;
}

/** The static server, in a process of its own: it does not return. */
static void serve_fixed(struct question *questions, size_t n, uint16_t port)
{
    struct kw_http_route routes[SIZES * VERBS];
    char paths[SIZES * VERBS][40];
    char listen_on[32];
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "/%s", questions[i].path);
        routes[i] = (struct kw_http_route){"POST", paths[i], on_fixed, &questions[i]};
    }
    (void)snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%u", port);
    const struct kw_http_server_conf conf = {.listen = listen_on,
                                             .threads = 2,
                                             .max_body_bytes = 128u << 20,
                                             .max_header_bytes = 16384,
                                             .timeout_s = 120,
                                             .max_connections = 256,
                                             .routes = routes,
                                             .n_routes = n};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kw_http_server_start(&conf, &server, &err) < 0) {
        fprintf(stderr, "extender_bench: %s\n", err.text);
        _exit(1);
    }
    for (;;)
        (void)pause();
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static double quantile_us(const uint64_t *sorted, unsigned n, double q)
{
    return (double)sorted[(unsigned)((n - 1) * q + 0.5)] / 1000;
}

static uint64_t cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec ts = {0};

    if (clock_getcpuclockid(pid, &clock) == 0)
        (void)clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * KW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/** Prints microseconds beside a reference. @param bound on the ratio; 0: none. */
static void print_ratio(const char *name, const char *what, double value, const char *other,
                        double reference, double bound)
{
    printf("{\"name\":\"extender.%s_%s\",\"value\":%.3f,\"unit\":\"us\",\"reference\":{\"name\":"
           "\"%s\",\"value\":%.3f},\"ratio\":%.3f",
           name, what, value, other, reference, value / reference);
    if (bound > 0)
        printf(",\"bound\":%.2f", bound);
    printf(",\"better\":\"lower\"}\n");
}

/** @return CPU of a call to the extender, in microseconds. */
static double measure(const struct processes *p, const struct question *q,
                      struct keepalive clients[2], unsigned calls, double bound)
{
    const pid_t pids[2] = {p->extender, p->fixed};
    uint64_t *ns[2] = {calloc(calls, sizeof(uint64_t)), calloc(calls, sizeof(uint64_t))};
    uint64_t cpu[2];
    const char *body;

    if (ns[0] == NULL || ns[1] == NULL)
        kwt_die("out of memory");
    for (unsigned i = 0; i < WARM_UP; i++) {
        for (unsigned s = 0; s < 2; s++)
            (void)keepalive_ask(&clients[s], &q->request[s], &body);
    }
    for (unsigned s = 0; s < 2; s++)
        cpu[s] = cpu_ns(pids[s]);
    for (unsigned i = 0; i < calls; i++) {
        for (unsigned s = 0; s < 2; s++) {
            uint64_t from_ns = kw_now_ns();
            size_t len = keepalive_ask(&clients[s], &q->request[s], &body);
            ns[s][i] = kw_now_ns() - from_ns;
            if (len != q->answer.len)
                kwt_die("an answer of another size");
        }
    }
    for (unsigned s = 0; s < 2; s++) {
        cpu[s] = cpu_ns(pids[s]) - cpu[s];
        qsort(ns[s], calls, sizeof(uint64_t), by_value);
    }
    static const struct {
        const char *what;
        double q;
    } points[] = {{"p50_us", 0.5}, {"p99_us", 0.99}, {"p999_us", 0.999}};
    for (unsigned i = 0; i < KW_ARRAY_SIZE(points); i++)
        print_ratio(q->path, points[i].what, quantile_us(ns[0], calls, points[i].q),
                    "static answer", quantile_us(ns[1], calls, points[i].q), i == 0 ? bound : 0);
    double own_us = (double)cpu[0] / 1000 / calls;
    print_ratio(q->path, "cpu_us", own_us, "static answer", (double)cpu[1] / 1000 / calls, 0);
    (void)fflush(stdout);
    free(ns[0]);
    free(ns[1]);
    return own_us;
}

/** CPU of a call beside that of an extender in Go, which is asked after it: its garbage collector
 * would empty the caches for both. */
static void measure_go(const struct processes *p, const struct question *q, double own_us,
                       unsigned size)
{
    unsigned calls = sizes[size].go_calls;
    struct keepalive go = {0};
    uint64_t from_ns = 0;
    const char *body;

    keepalive_connect(&go, p->go_port);
    for (unsigned i = 0; i < calls + GO_WARM_UP; i++) {
        if (i == GO_WARM_UP)
            from_ns = cpu_ns(p->go);
        (void)keepalive_ask(&go, &q->request[0], &body);
    }
    print_ratio(q->path, "cpu_us", own_us, "extender in Go",
                (double)(cpu_ns(p->go) - from_ns) / 1000 / calls,
                sizes[size].names < GO_NAMES ? 0 : GO_RATIO);
    (void)fflush(stdout);
    keepalive_close(&go);
}

static double rss_mib(pid_t pid)
{
    char path[64], text[128];
    unsigned long pages = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    if (kw_file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        kwt_die(path);
    const char *c = strchr(text, ' ');
    for (c = c == NULL ? text : c + 1; *c >= '0' && *c <= '9'; c++)
        pages = pages * 10 + (unsigned long)(*c - '0');
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void print_rss(unsigned nodes, double mib)
{
    printf("{\"name\":\"extender.rss_%u_nodes\",\"value\":%.2f,\"unit\":\"MiB\",\"better\":"
           "\"lower\"}\n",
           nodes, mib);
}

/**
 * Puts client and servers on one CPU. Waking a thread on another virtual CPU costs an interrupt
 * through the hypervisor, some 40 us, and where the scheduler puts whom is a lottery: it would be
 * most of what is measured.
 */
static void share_one_cpu(void)
{
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET((size_t)sysconf(_SC_NPROCESSORS_ONLN) - 1, &only);
    if (sched_setaffinity(0, sizeof(only), &only) != 0)
        kwt_die("sched_setaffinity");
}

int main(int argc, char **argv)
{
    static struct processes p;
    static struct question questions[SIZES * VERBS];
    struct keepalive clients[2] = {0};
    struct kw_err err = {0};
    char self[PATH_MAX];
    ssize_t self_len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[self_len < 0 ? 0 : self_len] = '\0';
    const char *build = argc > 1 ? argv[1] : dirname(dirname(dirname(self)));
    const char *body;

    (void)snprintf(p.dir, sizeof(p.dir), "/tmp/kwatt-bench-XXXXXX");
    if (mkdtemp(p.dir) == NULL)
        kwt_die("mkdtemp");
    to_clean = &p;
    struct kw_redis *redis = start_redis(&p);
    share_one_cpu();
    start_extender(&p, build);
    keepalive_connect(&clients[0], p.port);
    wait_for_nodes(&clients[0], 0);
    print_rss(0, rss_mib(p.extender));
    if (fleet_publish(redis, 0, NODES, 1, &err) < 0)
        kwt_die(err.text);
    wait_for_nodes(&clients[0], NODES);
    print_rss(NODES, rss_mib(p.extender));
    for (size_t i = 0; i < SIZES * VERBS; i++) {
        make_question(&questions[i], verbs[i % VERBS], (unsigned)(i / VERBS));
        size_t len = keepalive_ask(&clients[0], &questions[i].request[0], &body);
        if (kw_buf_add(&questions[i].answer, body, len) < 0)
            kwt_die("out of memory");
    }
    p.fixed_port = free_port();
    p.fixed = fork();
    if (p.fixed == 0)
        serve_fixed(questions, SIZES * VERBS, p.fixed_port);
    keepalive_connect(&clients[1], p.fixed_port);
    start_go(&p, build);
    for (size_t i = 0; i < SIZES * VERBS; i++) {
        double own_us =
            measure(&p, &questions[i], clients, sizes[i / VERBS].calls, sizes[i / VERBS].bound);
        if (p.go > 0)
            measure_go(&p, &questions[i], own_us, (unsigned)(i / VERBS));
    }
    kw_redis_free(&redis);
    for (size_t i = 0; i < SIZES * VERBS; i++) {
        kw_buf_free(&questions[i].request[0]);
        kw_buf_free(&questions[i].request[1]);
        kw_buf_free(&questions[i].answer);
    }
    for (unsigned s = 0; s < 2; s++)
        keepalive_close(&clients[s]);
    clean_up(&p);
    return 0;
}
