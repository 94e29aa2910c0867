/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting requests against the HTTP server of kwatt's own programs, with wrk and by hand. What the
 * server itself says that it answered is the truth, and the counts are held to the last one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/http_server.h"
#include "node-agent/accounting.h"
#include "node-agent/booking.h"
#include "tests/support/cmocka.h"
#include "tests/support/requests_rig.h"

/* What a server in a process of its own tells the test. */
struct shared {
    _Atomic uint64_t answered[6]; /* by status class */
    _Atomic unsigned port;        /* once it listens */
    _Atomic unsigned go;
};
static struct shared *shared;

static void answer(void *user, const struct kw_http_request *request,
                   struct kw_http_response *response)
{
    (void)user;
    (void)request;
    response->status = *(const unsigned *)user;
    response->static_body = "kwatt\n";
    response->static_len = 6;
    atomic_fetch_add(&shared->answered[response->status / 100], 1);
}

/* Serves until it is killed. @param network in a network of its own, once told to go. */
static void serve(const struct kwt_cgroup *cgroup, bool tls, bool network)
{
    static const unsigned ok = 200, missing = 404, broken = 503;
    struct kw_http_route routes[] = {{"GET", "/ok", answer, (void *)&ok},
                                     {"POST", "/ok", answer, (void *)&ok},
                                     {"GET", "/missing", answer, (void *)&missing},
                                     {"GET", "/broken", answer, (void *)&broken}};
    struct kw_http_server_conf conf = {.listen = network ? ":8080" : "127.0.0.1:0",
                                       .threads = 2,
                                       .max_body_bytes = 1 << 20,
                                       .max_header_bytes = 8192,
                                       .timeout_s = 60,
                                       .max_connections = 1000,
                                       .routes = routes,
                                       .n_routes = KW_ARRAY_SIZE(routes)};
    struct kw_http_server *server = NULL;
    struct kw_err err = {0};
    char cert[128], key[128];

    (void)snprintf(cert, sizeof(cert), "%s/server.pem", kwt_requests_folder);
    (void)snprintf(key, sizeof(key), "%s/server.key", kwt_requests_folder);
    if (tls) {
        conf.tls.files.cert = cert;
        conf.tls.files.key = key;
    }
    while (network && atomic_load(&shared->go) == 0)
        kwt_sleep_ms(10);
    if (kwt_cgroup_enter(cgroup) < 0 || kw_http_server_start(&conf, &server, &err) < 0)
        _exit(1);
    atomic_store(&shared->port, kw_http_server_port(server));
    for (;;)
        (void)pause();
}

static pid_t start_http(const struct kwt_cgroup *cgroup, bool tls)
{
    memset((void *)shared, 0, sizeof(*shared));
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        serve(cgroup, tls, false);
    for (int i = 0; i < 500 && atomic_load(&shared->port) == 0; i++)
        kwt_sleep_ms(20);
    assert_true(atomic_load(&shared->port) != 0);
    return pid;
}

static uint64_t all_answered(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < 6; i++)
        sum += atomic_load(&shared->answered[i]);
    return sum;
}

static int dial(const char *address, unsigned port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, address, &to.sin_addr), 1);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        fail_msg("%s:%u: %s", address, port, strerror(errno));
    return fd;
}

/* Sends and waits for an answer, whose first line is left in `text`. */
static void ask(int fd, const char *request, char text[256])
{
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    ssize_t n = read(fd, text, 255);
    assert_true(n > 0);
    text[n] = '\0';
}

/* wrk counts by time: so often, or until the server has answered so many. */
#define RUNS_MAX     3
#define ANSWERED_MIN 100000
#define CONNECTIONS  20

static void bench_http(bool tls, int runs_max)
{
    struct kwt_cgroup cgroup;
    char url[64], text[4096];
    uint64_t allowed = 0;

    kwt_cgroup_make(&cgroup, false, "http");
    pid_t pid = start_http(&cgroup, tls);
    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%u/ok", tls ? "https" : "http",
                   atomic_load(&shared->port));
    const char *wrk[] = {"wrk", "-t1", "-c20", "-d2s", url, NULL};
    for (int i = 0; i < runs_max && all_answered() < ANSWERED_MIN; i++) {
        assert_int_equal(kwt_run(wrk, text, sizeof(text)), 0);
        allowed += CONNECTIONS;
    }
    kwt_sleep_ms(200);
    uint64_t truth = all_answered();
    uint64_t turns = kwt_settled(&cgroup, truth);
    print_message("%s: %llu turns, the server answered %llu\n", url, (unsigned long long)turns,
                  (unsigned long long)truth);
    kwt_kill(pid);
    kwt_cgroup_remove(&cgroup);
    /* when wrk stops, it hangs up on what is under way: an answer to nobody is none */
    assert_true(truth > 100 && turns <= truth && truth - turns <= allowed);
}

static void test_http(void **state)
{
    (void)state;
    kwt_count_requests(false);
    bench_http(false, RUNS_MAX);
    bench_http(true, 1);
}

/* One by one, so that the last one is known. An interim answer is none. */
static void test_statuses(void **state)
{
    static const char *const asked[] = {"GET /ok HTTP/1.1\r\nHost: k\r\n\r\n",
                                        "GET /missing HTTP/1.1\r\nHost: k\r\n\r\n",
                                        "GET /broken HTTP/1.1\r\nHost: k\r\n\r\n"};
    struct kwt_cgroup cgroup;
    char text[256];

    (void)state;
    kwt_count_requests(true);
    kwt_cgroup_make(&cgroup, false, "statuses");
    pid_t pid = start_http(&cgroup, false);
    int fd = dial("127.0.0.1", atomic_load(&shared->port));
    for (size_t i = 0; i < 60; i++)
        ask(fd, asked[i % 3], text);
    ask(fd, "POST /ok HTTP/1.1\r\nHost: k\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        text);
    assert_memory_equal(text, "HTTP/1.1 100", 12);
    ask(fd, "body", text);
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    assert_int_equal(kwt_settled(&cgroup, 61), 61);
    struct agent_served counted = kwt_served(&cgroup);
    static const uint64_t expected[AGENT_REQUESTS_CLASSES] = {0, 21, 0, 20, 20};
    for (int i = 0; i < AGENT_REQUESTS_CLASSES; i++)
        assert_int_equal(counted.classes[i], expected[i]);
    (void)close(fd);
    kwt_kill(pid);
    kwt_cgroup_remove(&cgroup);
}

/* A connection that was open before counts from now on; forgotten is forgotten. */
static void test_open_connections(void **state)
{
    struct kwt_cgroup cgroup;
    char text[256];

    (void)state;
    agent_requests_close(&kwt_requests);
    kwt_cgroup_make(&cgroup, false, "open");
    pid_t pid = start_http(&cgroup, false);
    int fd = dial("127.0.0.1", atomic_load(&shared->port));
    ask(fd, "GET /ok HTTP/1.1\r\nHost: k\r\n\r\n", text);
    kwt_count_requests(false);
    for (int i = 0; i < 10; i++)
        ask(fd, "GET /ok HTTP/1.1\r\nHost: k\r\n\r\n", text);
    assert_int_equal(kwt_settled(&cgroup, 10), 10);
    agent_requests_forget(kwt_requests, &cgroup.key, 1);
    assert_int_equal(kwt_served(&cgroup).turns, 0);
    (void)close(fd);
    kwt_kill(pid);
    kwt_cgroup_remove(&cgroup);
}

static void ask_times(int n)
{
    char text[256];
    int fd = dial("127.0.0.1", atomic_load(&shared->port));

    for (int i = 0; i < n; i++)
        ask(fd, "GET /ok HTTP/1.1\r\nHost: k\r\n\r\n", text);
    (void)close(fd);
}

static void assert_told(void)
{
    struct agent_booking_conf conf = {.n_packages = 1, .requests = kwt_requests};
    struct agent_booking *booking = NULL;

    assert_int_equal(agent_booking_new(&conf, &booking), 0);
    assert_int_equal(agent_booking_serve(booking), KW_QUALITY_BIT(KW_QUALITY_OVERFLOW));
    agent_booking_free(&booking);
}

/* There is room for one cgroup: one of the two, or somebody else's. Of the others it is told that
 * there are some, and how much they served. */
static void test_overflow(void **state)
{
    struct kwt_cgroup cgroups[2], overflow = {.key = AGENT_KEY_OVERFLOW};
    uint64_t own[2] = {0}, shared_turns = 0;

    (void)state;
    kwt_count_requests_of(1);
    for (int i = 0; i < 2; i++) {
        kwt_cgroup_make(&cgroups[i], false, i == 0 ? "first" : "second");
        pid_t pid = start_http(&cgroups[i], false);
        ask_times(10);
        kwt_kill(pid);
    }
    for (int i = 0; i < 100 && own[0] + own[1] + shared_turns < 20; i++) {
        kwt_sleep_ms(20);
        own[0] = kwt_served(&cgroups[0]).turns;
        own[1] = kwt_served(&cgroups[1]).turns;
        shared_turns = kwt_served(&overflow).turns;
    }
    assert_true(own[0] == 0 || own[1] == 0);
    assert_true(own[0] + own[1] + shared_turns >= 20 && shared_turns >= 10);
    assert_told();
    agent_requests_forget(kwt_requests, &overflow.key, 1);
    assert_true(kwt_served(&overflow).turns >= shared_turns);
    for (int i = 0; i < 2; i++)
        kwt_cgroup_remove(&cgroups[i]);
}

/* As the agent in a cluster, with no more than the capabilities that the chart gives. */
static void test_capabilities(void **state)
{
    static const cap_value_t given[] = {CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH};
    struct kwt_cgroup cgroup;
    int status = 0;

    (void)state;
    kwt_cgroup_make(&cgroup, false, "capabilities");
    pid_t server = start_http(&cgroup, false);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cap_t caps = cap_init();
        if (caps == NULL ||
            cap_set_flag(caps, CAP_PERMITTED, (int)KW_ARRAY_SIZE(given), given, CAP_SET) < 0 ||
            cap_set_flag(caps, CAP_EFFECTIVE, (int)KW_ARRAY_SIZE(given), given, CAP_SET) < 0 ||
            cap_set_proc(caps) < 0)
            _exit(1);
        (void)cap_free(caps);
        kwt_count_requests(false);
        ask_times(10);
        _exit(kwt_settled(&cgroup, 10) == 10 ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    kwt_kill(server);
    kwt_cgroup_remove(&cgroup);
}

/* --- probes -------------------------------------------------------------------------------- */

static bool ip(const char *a, const char *b, const char *c, const char *d, const char *e,
               const char *f, const char *g)
{
    const char *argv[] = {"ip", a, b, c, d, e, f, g, NULL};

    return kwt_run(argv, NULL, 0) == 0;
}

/* From the node's own network into a pod's: a request a connection is a probe, however many there
 * are; a connection that goes on is a client. */
static void test_probes(void **state)
{
    struct kwt_cgroup cgroup;
    char here[16], there[16], text[256], pid_text[16];

    (void)state;
    kwt_count_requests(false);
    kwt_cgroup_make(&cgroup, false, "probed");
    memset((void *)shared, 0, sizeof(*shared));
    (void)snprintf(here, sizeof(here), "kwa%d", (int)getpid());
    (void)snprintf(there, sizeof(there), "kwb%d", (int)getpid());
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (unshare(CLONE_NEWNET) < 0)
            _exit(77);
        atomic_store(&shared->go, 0);
        while (!ip("addr", "add", "10.213.77.2/30", "dev", there, NULL, NULL))
            kwt_sleep_ms(20);
        if (!ip("link", "set", there, "up", NULL, NULL, NULL))
            _exit(1);
        serve(&cgroup, false, true);
    }
    (void)snprintf(pid_text, sizeof(pid_text), "%d", (int)pid);
    const char *add[] = {"ip",   "link", "add", here,    "type",   "veth",
                         "peer", "name", there, "netns", pid_text, NULL};
    kwt_sleep_ms(100);
    assert_int_equal(kwt_run(add, NULL, 0), 0);
    assert_true(ip("addr", "add", "10.213.77.1/30", "dev", here, NULL, NULL));
    assert_true(ip("link", "set", here, "up", NULL, NULL, NULL));
    atomic_store(&shared->go, 1);
    for (int i = 0; i < 500 && atomic_load(&shared->port) == 0; i++)
        kwt_sleep_ms(20);
    assert_true(atomic_load(&shared->port) != 0);
    for (int i = 0; i < 50; i++) {
        int fd = dial("10.213.77.2", 8080);
        ask(fd, "GET /ok HTTP/1.1\r\nHost: k\r\nConnection: close\r\n\r\n", text);
        (void)close(fd);
    }
    kwt_sleep_ms(100);
    assert_int_equal(kwt_served(&cgroup).turns, 0);
    int fd = dial("10.213.77.2", 8080);
    for (int i = 0; i < 10; i++)
        ask(fd, "GET /ok HTTP/1.1\r\nHost: k\r\n\r\n", text);
    assert_int_equal(kwt_settled(&cgroup, 10), 10);
    (void)close(fd);
    kwt_kill(pid);
    kwt_cgroup_remove(&cgroup);
}

static int setup(void **state)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : kwt_requests_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_open_connections),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_probes),
    };
    return cmocka_run_group_tests(tests, setup, kwt_requests_teardown);
}
