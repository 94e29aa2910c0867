/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real Prometheus scrapes our HTTP server and takes the page in OpenMetrics, which it asks for
 * first and parses strictly: one bad line and the target is down.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/http_client.h"
#include "common/http_server.h"
#include "common/metrics.h"
#include "tests/support/cmocka.h"

/* Prometheus starts in a few seconds; on a busy machine it may take long. */
#define PATIENCE_ROUNDS 450
#define ROUND_MS        200

extern char **environ;

/** What must be cleared away also when the test fails. */
struct leftovers {
    char folder[32];
    pid_t pid;
};

struct target {
    struct kw_histogram *histogram;
    atomic_int openmetrics_scrapes;
};

static void write_metrics(void *user, const struct kw_http_request *request,
                          struct kw_http_response *response)
{
    static const struct kw_label odd[] = {
        {"pod", "a\"b\\c\nd\xff"}, {"zone", "\xe2\x82\xac"}, {NULL, NULL}};
    static const struct kw_label filter[] = {{"verb", "filter"}, {NULL, NULL}};
    static const struct kw_label *const verbs[] = {filter};
    enum kw_metrics_format format = kw_metrics_negotiate(request->accept);
    struct target *target = user;
    struct kw_metrics_page page;

    if (format == KW_METRICS_OPENMETRICS)
        (void)atomic_fetch_add(&target->openmetrics_scrapes, 1);
    response->content_type = kw_metrics_content_type(format);
    kw_metrics_begin(&page, format, response->body);
    kw_metrics_family(&page, "kwatt_node_joules_total", KW_METRIC_COUNTER,
                      "Energy with \"quotes\", \\ and\na new line.");
    kw_metrics_scaled(&page, odd, 1234567, 6);
    kw_metrics_family(&page, "kwatt_node_watts", KW_METRIC_GAUGE, "Power.");
    kw_metrics_double(&page, NULL, 0.1 + 0.2);
    kw_metrics_family(&page, "kwatt_build_info", KW_METRIC_INFO, "Version.");
    kw_metrics_u64(&page, odd, 1);
    kw_metrics_histograms(&page, "kwatt_request_duration_seconds", "Time.", verbs,
                          &target->histogram, 1);
    (void)kw_metrics_end(&page);
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    kw_cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    return ntohs(address.sin_port);
}

/* @return pid, or -1 where the program is not installed. */
static pid_t start_prometheus(const char *folder, uint16_t port, uint16_t target_port)
{
    char conf[512];
    char path[64];
    char options[3][96];
    char program[] = "prometheus";
    char quiet[] = "--log.level=error";
    char *argv[] = {program, options[0], options[1], options[2], quiet, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;

    (void)snprintf(path, sizeof(path), "%s/conf.yml", folder);
    int len = snprintf(conf, sizeof(conf),
                       "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: kwatt\n"
                       "  static_configs: [{targets: ['127.0.0.1:%u']}]\n",
                       target_port);

    assert_int_equal(kw_file_write_atomic(path, conf, (size_t)len, 0600), 0);
    (void)snprintf(options[0], sizeof(options[0]), "--config.file=%s/conf.yml", folder);
    (void)snprintf(options[1], sizeof(options[1]), "--storage.tsdb.path=%s/data", folder);
    (void)snprintf(options[2], sizeof(options[2]), "--web.listen-address=127.0.0.1:%u", port);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (posix_spawnp(&pid, "prometheus", &actions, NULL, argv, environ) != 0)
        pid = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* Asks until the answer holds `part`. */
static void query_until(struct kw_http_client *client, const char *query, const char *part)
{
    struct kw_http_call call = {.method = "GET", .path = query};
    struct kw_buf body = {0};
    unsigned status = 0;

    for (unsigned i = 0; i < PATIENCE_ROUNDS; i++) {
        if (kw_http_client_call(client, &call, &status, &body, NULL) == 0 && status == 200 &&
            strstr(body.data, part) != NULL) {
            kw_buf_free(&body);
            return;
        }
        (void)poll(NULL, 0, ROUND_MS);
    }
    fail_msg("%s: wanted '%s', last answer: %s", query, part,
             body.data == NULL ? "none" : body.data);
}

static void remove_folder(const char *folder)
{
    char flags[] = "-rf";
    char program[] = "rm";
    kw_cleanup_free char *path = strdup(folder);
    char *argv[] = {program, flags, path, NULL};
    pid_t pid = -1;

    if (posix_spawnp(&pid, "rm", NULL, NULL, argv, environ) == 0)
        (void)waitpid(pid, NULL, 0);
}

static void test_prometheus_takes_the_page(void **state)
{
    static const uint64_t bounds_ns[] = {250000, 1000000000};
    struct target target = {.histogram = kw_histogram_new(bounds_ns, KW_ARRAY_SIZE(bounds_ns))};
    const struct kw_http_route routes[] = {{"GET", "/metrics", write_metrics, &target}};
    struct kw_http_server_conf conf = {.listen = "127.0.0.1:0",
                                       .threads = 1,
                                       .max_header_bytes = 8192,
                                       .timeout_s = 60,
                                       .max_connections = 8,
                                       .routes = routes,
                                       .n_routes = 1};
    struct leftovers *leftovers = *state;
    struct kw_http_server *server = NULL;
    struct kw_http_client *client = NULL;
    uint16_t port = free_port();
    char url[64];

    kw_histogram_observe_ns(target.histogram, 300000);
    assert_int_equal(kw_http_server_start(&conf, &server, NULL), 0);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    assert_int_equal(
        kw_http_client_new(&(struct kw_http_client_conf){.base_url = url}, &client, NULL), 0);
    leftovers->pid = start_prometheus(leftovers->folder, port, kw_http_server_port(server));
    assert_true(leftovers->pid > 0);
    query_until(client, "/api/v1/query?query=up", ",\"1\"]");
    query_until(client, "/api/v1/query?query=kwatt_node_joules_total", ",\"1.234567\"]");
    query_until(client, "/api/v1/query?query=kwatt_node_joules_total",
                "\"pod\":\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\"");
    query_until(client, "/api/v1/query?query=kwatt_node_watts", ",\"0.30000000000000004\"]");
    query_until(client, "/api/v1/query?query=kwatt_request_duration_seconds_bucket",
                "\"le\":\"0.00025\"");
    query_until(client, "/api/v1/metadata?metric=kwatt_build", "\"type\":\"info\"");
    assert_true(atomic_load(&target.openmetrics_scrapes) > 0);
    kw_http_client_free(&client);
    kw_http_server_free(&server);
    kw_histogram_free(&target.histogram);
}

static int setup(void **state)
{
    struct leftovers *leftovers = calloc(1, sizeof(*leftovers));

    assert_non_null(leftovers);
    (void)snprintf(leftovers->folder, sizeof(leftovers->folder), "/tmp/kwatt-scrape-XXXXXX");
    assert_non_null(mkdtemp(leftovers->folder));
    *state = leftovers;
    return 0;
}

static int teardown(void **state)
{
    struct leftovers *leftovers = *state;

    if (leftovers->pid > 0) {
        (void)kill(leftovers->pid, SIGKILL);
        (void)waitpid(leftovers->pid, NULL, 0);
    }
    remove_folder(leftovers->folder);
    free(leftovers);
    return 0;
}

static bool have_prometheus(void)
{
    char program[] = "prometheus";
    char version[] = "--version";
    char *argv[] = {program, version, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    int status = -1;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, "prometheus", &actions, NULL, argv, environ) == 0)
        (void)waitpid(pid, &status, 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prometheus_takes_the_page),
    };

    if (!have_prometheus()) {
        (void)printf("SKIP: prometheus is not installed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
