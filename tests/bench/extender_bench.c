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
 * All of them are in a network of their own (extender_rig_network), on one CPU (share_one_cpu).
 *
 * usage: extender_bench [BUILD_DIR]   (default: where this program stands, two folders up)
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/http_server.h"
#include "common/redis.h"
#include "tests/bench/extender_beside.h"
#include "tests/bench/extender_rig.h"
#include "tests/bench/fleet.h"
#include "tests/bench/keepalive.h"
#include "tests/bench/question.h"

#define NODES   15000
#define WARM_UP 50 /* and no more than calls */

/** Of NODES, as the design wants it. */
#define MEMORY_MIB 12

/** Of the CPU that an extender in Go takes for a call; for fewer names, what the kernel does for a
 * call is most of it in both. */
#define GO_RATIO   0.1
#define GO_NAMES   500
#define GO_WARM_UP 10

/** On the median's ratio to the static answer, as the design wants it; and on microseconds, where
 * the machine allows it: where the static answer alone would keep them by as much. Beside that,
 * quantiles are printed for people, not judged: a shared machine decides them. */
#define STATIC_RATIO 1.5

/**
 * What is asked for. Orders that change from call to call are printed beside without a bound: what
 * a name costs is then most of the answer where it must be looked up, which a static answer never
 * does. kube-scheduler's own lie between: it begins each list elsewhere, its workers interleave a
 * few runs of it, and /prioritize has the list of the /filter before it.
 */
static const struct {
    struct question_nodes nodes;
    unsigned calls;
    double ratio;          /* bounds; 0: none */
    double p50_us, p99_us; /* the same */
    unsigned go_calls;     /* 0: not beside Go */
} sizes[] = {{{.n = 100, .of = NODES}, 4000, STATIC_RATIO, 0, 0, 400},
             {{.n = 500, .of = NODES}, 6000, STATIC_RATIO, 100, 200, 400},
             {{.n = 750, .of = NODES}, 4000, STATIC_RATIO, 100, 200, 400},
             {{.n = 5000, .of = NODES}, 800, STATIC_RATIO, 0, 2000, 60},
             {{.n = 15000, .of = NODES}, 300, STATIC_RATIO, 0, 6000, 30},
             {{.n = 500, .of = NODES, .other_pods = true}, 4000, STATIC_RATIO, 0, 0, 0},
             {{.n = 5000, .of = NODES, .other_pods = true}, 400, STATIC_RATIO, 0, 0, 0},
             {{.n = 500, .of = NODES, .order = QUESTION_ROTATED}, 4000, 0, 0, 0, 0},
             {{.n = 500, .of = NODES, .order = QUESTION_SHUFFLED}, 4000, 0, 0, 0, 0},
             {{.n = 5000, .of = NODES, .order = QUESTION_ROTATED}, 400, 0, 0, 0, 0},
             {{.n = 5000, .of = NODES, .order = QUESTION_SHUFFLED}, 400, 0, 0, 0, 0},
             {{.n = 500, .of = NODES, .whole = true}, 60, 0, 0, 0, 10},
             {{.n = 5000, .of = NODES, .whole = true}, 4, 0, 0, 0, 0}};
#define SIZES KW_ARRAY_SIZE(sizes)

static const char *const order_names[] = {"", "_rotated", "_shuffled"};

/** Connections that ask at the same time, and for how many names how often. */
static const unsigned crowds[] = {8, 32};
static const struct {
    unsigned names, calls;
} crowded[] = {{500, 300}, {5000, 40}};
#define CROWD_MAX   32
#define CROWD_CALLS 300 /* of `crowded`, the most */

static const char *const verbs[] = {"prioritize", "filter"};
#define VERBS KW_ARRAY_SIZE(verbs)

/** One request, and the answer that the static server gives to it. */
struct question {
    struct kw_buf request[2][QUESTION_TURNS]; /* to the extender, to the static server */
    unsigned turns;                           /* of them */
    struct kw_buf answer;                     /* body only */
    char path[32];
};

static struct extender_rig *to_clean; /* for kwt_die() alone */

void kwt_die(const char *what)
{
    fprintf(stderr, "extender_bench: %s: %s\n", what, strerror(errno));
    if (to_clean != NULL)
        extender_rig_clean(to_clean);
    exit(1);
}

static void make_question(struct question *q, const char *verb, unsigned size)
{
    const struct question_nodes *nodes = &sizes[size].nodes;

    (void)snprintf(q->path, sizeof(q->path), "%s_%u%s%s%s", verb, nodes->n,
                   order_names[nodes->order], nodes->other_pods ? "_other_pods" : "",
                   nodes->whole ? "_nodes" : "");
    q->turns = nodes->order == QUESTION_SAME && !nodes->other_pods ? 1 : QUESTION_TURNS;
    for (unsigned turn = 0; turn < q->turns; turn++) {
        if (question_add(&q->request[0][turn], verb, nodes, turn) < 0 ||
            question_add(&q->request[1][turn], q->path, nodes, turn) < 0)
            kwt_die("out of memory");
    }
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

/** A figure in microseconds. */
struct figure {
    const char *what;
    double value;
    const char *other; /* what it is held against; NULL: nothing */
    double reference;
    double bound;  /* 0: none */
    bool on_value; /* the bound is on microseconds and not on the ratio */
};

static void print(const char *name, const struct figure *figure)
{
    printf("{\"name\":\"extender.%s_%s\",\"value\":%.3f,\"unit\":\"us\"", name, figure->what,
           figure->value);
    if (figure->other != NULL)
        printf(",\"reference\":{\"name\":\"%s\",\"value\":%.3f},\"ratio\":%.3f", figure->other,
               figure->reference, figure->value / figure->reference);
    if (figure->bound > 0)
        printf(",\"bound\":%.2f%s", figure->bound,
               figure->on_value ? ",\"bound_on\":\"value\"" : "");
    printf(",\"better\":\"lower\"}\n");
}

static void print_ratio(const char *name, const char *what, double value, const char *other,
                        double reference, double bound)
{
    const struct figure figure = {what, value, other, reference, bound, false};

    print(name, &figure);
}

/** A bound in microseconds, where a static answer alone leaves room for it. */
static double allowed(double bound_us, double static_us)
{
    return static_us * STATIC_RATIO <= bound_us ? bound_us : 0;
}

/** Prints what calls took. @param ns of the extender and of the static server, sorted. */
static void print_quantiles(const struct question *q, uint64_t *const ns[2], unsigned calls,
                            unsigned size)
{
    const double p50[2] = {quantile_us(ns[0], calls, 0.5), quantile_us(ns[1], calls, 0.5)};
    const double p99[2] = {quantile_us(ns[0], calls, 0.99), quantile_us(ns[1], calls, 0.99)};
    const struct figure figures[] = {
        {"p50_us", p50[0], "static answer", p50[1], sizes[size].ratio, false},
        {"p50_us", p50[0], NULL, 0, allowed(sizes[size].p50_us, p50[1]), true},
        {"p99_us", p99[0], "static answer", p99[1], allowed(sizes[size].p99_us, p99[1]), true},
        {"p999_us", quantile_us(ns[0], calls, 0.999), "static answer",
         quantile_us(ns[1], calls, 0.999), 0, false}};

    for (unsigned i = 0; i < KW_ARRAY_SIZE(figures); i++) {
        if (figures[i].other != NULL || figures[i].bound > 0)
            print(q->path, &figures[i]);
    }
}

/** Asks both by turns, each over a connection of its own: what went over a connection before
 * decides how much the kernel buffers for it. @return CPU of a call to the extender, in
 * microseconds. */
static double measure(const struct extender_rig *p, const struct question *q, unsigned size)
{
    const pid_t pids[2] = {p->extender, p->fixed};
    const unsigned calls = sizes[size].calls;
    struct keepalive clients[2] = {0};
    uint64_t *ns[2] = {calloc(calls, sizeof(uint64_t)), calloc(calls, sizeof(uint64_t))};
    uint64_t cpu[2];
    const char *body;

    if (ns[0] == NULL || ns[1] == NULL)
        kwt_die("out of memory");
    keepalive_connect(&clients[0], p->port);
    keepalive_connect(&clients[1], p->fixed_port);
    for (unsigned i = 0; i < WARM_UP && i < calls; i++) {
        for (unsigned s = 0; s < 2; s++)
            (void)keepalive_ask(&clients[s], &q->request[s][i % q->turns], &body);
    }
    for (unsigned s = 0; s < 2; s++)
        cpu[s] = cpu_ns(pids[s]);
    for (unsigned i = 0; i < calls; i++) {
        for (unsigned s = 0; s < 2; s++) {
            uint64_t from_ns = kw_now_ns();
            size_t len = keepalive_ask(&clients[s], &q->request[s][i % q->turns], &body);
            ns[s][i] = kw_now_ns() - from_ns;
            if (len != q->answer.len)
                kwt_die("an answer of another size");
        }
    }
    for (unsigned s = 0; s < 2; s++) {
        cpu[s] = cpu_ns(pids[s]) - cpu[s];
        keepalive_close(&clients[s]);
        qsort(ns[s], calls, sizeof(uint64_t), by_value);
    }
    print_quantiles(q, ns, calls, size);
    double own_us = (double)cpu[0] / 1000 / calls;
    print_ratio(q->path, "cpu_us", own_us, "static answer", (double)cpu[1] / 1000 / calls, 0);
    (void)fflush(stdout);
    free(ns[0]);
    free(ns[1]);
    return own_us;
}

/** Time of a call where many ask at once: of all of them together, by their number. */
static void measure_crowds(const struct extender_rig *p, const struct question *q, unsigned calls)
{
    const uint16_t ports[2] = {p->port, p->fixed_port};
    struct keepalive clients[2][CROWD_MAX] = {0};
    uint64_t ns[2][CROWD_CALLS];
    const char *body;
    char name[64];

    for (unsigned i = 0; i < 2 * CROWD_MAX; i++)
        keepalive_connect(&clients[i % 2][i / 2], ports[i % 2]);
    for (unsigned k = 0; k < KW_ARRAY_SIZE(crowds); k++) {
        const unsigned warm_up = calls < WARM_UP ? calls : WARM_UP;
        for (unsigned i = 0; i < 2 * (warm_up + calls); i++) {
            unsigned call = i / 2 < warm_up ? 0 : i / 2 - warm_up;
            uint64_t from_ns = kw_now_ns();
            for (unsigned c = 0; c < crowds[k]; c++)
                keepalive_send(&clients[i % 2][c], &q->request[i % 2][0]);
            for (unsigned c = 0; c < crowds[k]; c++)
                (void)keepalive_read(&clients[i % 2][c], &body);
            ns[i % 2][call] = (kw_now_ns() - from_ns) / crowds[k];
        }
        for (unsigned s = 0; s < 2; s++)
            qsort(ns[s], calls, sizeof(uint64_t), by_value);
        (void)snprintf(name, sizeof(name), "%s_by_%u_at_once", q->path, crowds[k]);
        print_ratio(name, "p50_us", quantile_us(ns[0], calls, 0.5), "static answer",
                    quantile_us(ns[1], calls, 0.5), 0);
        print_ratio(name, "p99_us", quantile_us(ns[0], calls, 0.99), "static answer",
                    quantile_us(ns[1], calls, 0.99), 0);
    }
    for (unsigned i = 0; i < 2 * CROWD_MAX; i++)
        keepalive_close(&clients[i % 2][i / 2]);
}

/** CPU of a call beside that of an extender in Go, which is asked after it: its garbage collector
 * would empty the caches for both. */
static void measure_go(const struct extender_rig *p, const struct question *q, double own_us,
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
        (void)keepalive_ask(&go, &q->request[0][0], &body);
    }
    print_ratio(q->path, "cpu_us", own_us, "extender in Go",
                (double)(cpu_ns(p->go) - from_ns) / 1000 / calls,
                sizes[size].nodes.n < GO_NAMES ? 0 : GO_RATIO);
    (void)fflush(stdout);
    keepalive_close(&go);
}

/** A line of /proc/PID/status, in MiB. */
static double status_mib(pid_t pid, const char *key)
{
    char path[64], text[4096];
    unsigned long kib = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (kw_file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        kwt_die(path);
    const char *c = strstr(text, key);
    for (c = c == NULL ? "" : c + strlen(key); *c == ' ' || *c == '\t'; c++) {
    }
    for (; *c >= '0' && *c <= '9'; c++)
        kib = kib * 10 + (unsigned long)(*c - '0');
    return (double)kib / 1024;
}

/** Resident memory: all of it, with the libraries' pages that other programs may share, and what is
 * the program's own. @param bound on the latter, in MiB; 0: none. */
static void print_memory(pid_t pid, unsigned nodes, double bound)
{
    printf("{\"name\":\"extender.rss_%u_nodes\",\"value\":%.2f,\"unit\":\"MiB, with "
           "libraries\",\"better\":\"lower\"}\n",
           nodes, status_mib(pid, "VmRSS:"));
    printf("{\"name\":\"extender.memory_%u_nodes\",\"value\":%.2f,\"unit\":\"MiB, without "
           "libraries\",\"better\":\"lower\"",
           nodes, status_mib(pid, "RssAnon:"));
    if (bound > 0)
        printf(",\"bound\":%.0f,\"bound_on\":\"value\"", bound);
    printf("}\n");
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
    static struct extender_rig p;
    static struct question questions[SIZES * VERBS];
    struct keepalive client = {0};
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
    struct kw_redis *redis = extender_rig_redis(&p);
    extender_rig_find_go(&p, build);
    extender_rig_network();
    share_one_cpu();
    extender_rig_extender(&p, build);
    keepalive_connect(&client, p.port);
    extender_rig_wait(&client, 0);
    print_memory(p.extender, 0, 0);
    if (fleet_publish(redis, 0, NODES, 1, &err) < 0)
        kwt_die(err.text);
    extender_rig_wait(&client, NODES);
    print_memory(p.extender, NODES, MEMORY_MIB);
    for (size_t i = 0; i < SIZES * VERBS; i++) {
        make_question(&questions[i], verbs[i % VERBS], (unsigned)(i / VERBS));
        size_t len = keepalive_ask(&client, &questions[i].request[0][0], &body);
        if (kw_buf_add(&questions[i].answer, body, len) < 0)
            kwt_die("out of memory");
    }
    p.fixed_port = extender_rig_port();
    p.fixed = fork();
    if (p.fixed == 0)
        serve_fixed(questions, SIZES * VERBS, p.fixed_port);
    extender_rig_go(&p);
    for (size_t i = 0; i < SIZES * VERBS; i++) {
        double own_us = measure(&p, &questions[i], (unsigned)(i / VERBS));
        if (p.go > 0 && sizes[i / VERBS].go_calls > 0)
            measure_go(&p, &questions[i], own_us, (unsigned)(i / VERBS));
    }
    for (size_t i = 0; i < SIZES * VERBS; i++) {
        for (size_t k = 0; k < KW_ARRAY_SIZE(crowded) && questions[i].turns == 1; k++) {
            if (sizes[i / VERBS].nodes.n == crowded[k].names && !sizes[i / VERBS].nodes.whole)
                measure_crowds(&p, &questions[i], crowded[k].calls);
        }
    }
    extender_beside_large(&p);
    kw_redis_free(&redis);
    for (size_t i = 0; i < SIZES * VERBS; i++) {
        for (unsigned turn = 0; turn < questions[i].turns; turn++) {
            kw_buf_free(&questions[i].request[0][turn]);
            kw_buf_free(&questions[i].request[1][turn]);
        }
        kw_buf_free(&questions[i].answer);
    }
    keepalive_close(&client);
    extender_rig_clean(&p);
    return 0;
}
