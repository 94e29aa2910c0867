/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/programs.h"
#include "cli/up.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

/** redis-server with an empty data set answers within 100 ms; on a busy machine it may take longer.
 */
#define REDIS_WAIT_NS (3 * KW_NS_PER_S)

/** Least that the agent takes. */
#define INTERVAL_LEAST_US 100000

#define SOCKET_NAME "redis.sock"

/** What the programs do not get of our environment: KWATT_CONFIG, whose file has the keys of `kwatt
 * up`, and TLS, which is of no use on the loopback and which nobody here asks by. */
static bool is_withheld(const char *variable)
{
    static const char *const names[] = {"KWATT_CONFIG=", "KWATT_TLS_CERT_FILE=",
                                        "KWATT_TLS_PRIVATE_KEY_FILE=", "KWATT_CLIENT_CA_FILE="};

    for (size_t i = 0; i < KW_ARRAY_SIZE(names); i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

static int copy_environment(struct cli_up *up)
{
    size_t n = 0, kept = 0;

    while (up->io->envp != NULL && up->io->envp[n] != NULL)
        n++;
    up->envp = calloc(n + 1, sizeof(char *));
    if (up->envp == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!is_withheld(up->io->envp[i]))
            up->envp[kept++] = up->io->envp[i];
    }
    return 0;
}

static int lock_folder(struct cli_up *up, const char *dir, struct kw_err *err)
{
    struct cli_running other = {0};
    int rc = cli_state_prepare(dir, err);

    if (rc < 0)
        return rc;
    rc = cli_state_lock(dir, &up->lock_fd, &other, err);
    if (rc == -EBUSY && other.pid > 0)
        return kw_err_set(
            err, rc,
            "another kwatt up is running with this state folder: pid %d, agent %.60s, extender "
            "%.60s, recommender %.60s; to stop it: kill %d; to run a second one beside it: give "
            "--state-dir and other ports",
            (int)other.pid, other.agent, other.extender, other.recommender, (int)other.pid);
    return rc;
}

/** The folder asked for, as an absolute name. */
static int name_folder(struct cli_up *up)
{
    char asked[PATH_MAX], here[PATH_MAX];
    const char *dir = up->settings.state_dir;

    if (dir == NULL)
        return cli_state_default_dir(up->io, up->dir, sizeof(up->dir));
    if (snprintf(asked, sizeof(asked), "%s", dir) >= PATH_MAX)
        return -ENAMETOOLONG;
    if (asked[0] == '/' || asked[0] == '\0')
        return snprintf(up->dir, sizeof(up->dir), "%s", asked) < PATH_MAX ? 0 : -ENAMETOOLONG;
    /* Redis is given a URL and goes to a folder of its own: both need the whole path */
    if (getcwd(here, sizeof(here)) == NULL)
        return -errno;
    return kw_path_join(up->dir, sizeof(up->dir), here, asked);
}

/** Takes the folder asked for, or another where that one cannot be written. */
static int take_folder(struct cli_up *up, struct kw_err *err)
{
    char other[PATH_MAX], text[PATH_MAX + 1024];
    int rc = name_folder(up);

    if (rc < 0)
        return kw_err_set(err, rc, "state folder: %s", kw_errno_text(rc));
    rc = lock_folder(up, up->dir, err);
    if (rc != -EROFS && rc != -ENOSPC && rc != -EDQUOT && rc != -EACCES)
        return rc;
    for (unsigned n = 0; cli_state_fallback_dir(up->dir, n, other, sizeof(other)) == 0; n++) {
        struct kw_err other_err = {0};
        int other_rc = lock_folder(up, other, &other_err);
        if (other_rc == -EBUSY)
            *err = other_err;
        if (other_rc == -EBUSY)
            return other_rc;
        if (other_rc < 0)
            continue;
        (void)snprintf(text, sizeof(text), "%s. Going on with %s instead", err->text, other);
        cli_screen_say(&up->screen, text);
        (void)snprintf(up->dir, sizeof(up->dir), "%s", other);
        return 0;
    }
    return rc;
}

static bool same_place(const struct cli_address *a, const struct cli_address *b)
{
    return a->unix_socket == b->unix_socket && a->port == b->port &&
           strcmp(a->host, b->host) == 0 && (a->unix_socket || a->port != 0);
}

static int take_port(struct cli_up *up, struct cli_address *address, const char *text,
                     const char *flag, char *out, struct kw_err *err)
{
    const struct cli_address *const all[] = {&up->agent_address, &up->extender_address,
                                             &up->recommender_address};
    int rc = cli_address_parse(text, address, err);

    if (rc < 0) {
        (void)kw_err_wrap(err, "--%s", flag);
        return rc;
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(all); i++) {
        if (all[i] != address && same_place(all[i], address))
            return kw_err_set(err, -EINVAL,
                              "--%s: %s is given to two of the programs; each needs its own", flag,
                              text);
    }
    rc = cli_address_probe(address);
    if (rc == -EADDRINUSE)
        return kw_err_set(
            err, rc,
            "%s is in use by another program; give another address with --%s, or port 0 "
            "for a free one",
            text, flag);
    if (rc < 0)
        return kw_err_set(err, rc, "cannot listen on %s: %s; give another address with --%s", text,
                          kw_errno_text(rc), flag);
    cli_address_format(address, out);
    return 0;
}

static int take_ports(struct cli_up *up, struct kw_err *err)
{
    int rc = take_port(up, &up->agent_address, up->settings.agent_listen, "agent-listen",
                       up->running.agent, err);

    if (rc == 0)
        rc = take_port(up, &up->extender_address, up->settings.extender_listen, "extender-listen",
                       up->running.extender, err);
    if (rc == 0)
        rc = take_port(up, &up->recommender_address, up->settings.recommender_listen,
                       "recommender-listen", up->running.recommender, err);
    return rc;
}

/** Next child, with its log. */
static struct cli_child *add_child(struct cli_up *up, const char *name, const char *program)
{
    struct cli_child *child = &up->supervisor.children[up->supervisor.n];
    char file[64];

    *child = (struct cli_child){.name = name, .envp = up->envp};
    (void)snprintf(file, sizeof(file), "%s.log", name);
    if (kw_path_join(child->log_path, sizeof(child->log_path), up->dir, file) < 0 ||
        cli_child_arg(child, "%s", program) < 0)
        return NULL;
    up->supervisor.n++;
    return child;
}

/** Slot 0 of the supervisor is Redis, also where it is not ours: it then never runs. */
static int prepare_redis(struct cli_up *up, struct kw_err *err)
{
    char program[PATH_MAX], socket_path[PATH_MAX];
    struct kw_redis_conf conf = {.connect_timeout_ms = 500, .timeout_ms = 1000};
    struct sockaddr_un longest;
    int rc = 0;

    if (kw_path_join(socket_path, sizeof(socket_path), up->dir, SOCKET_NAME) < 0 ||
        strlen(socket_path) >= sizeof(longest.sun_path))
        return kw_err_set(
            err, -ENAMETOOLONG,
            "the state folder's name %.200s is too long for a unix socket; give a shorter "
            "one with --state-dir",
            up->dir);
    if (up->settings.redis.url != NULL) {
        conf.access = up->settings.redis;
        (void)add_child(up, "redis-server", "");
    } else {
        char url[PATH_MAX + 8];
        (void)snprintf(url, sizeof(url), "unix://%s", socket_path);
        up->settings.redis.url = strdup(url);
        conf.access.url = up->settings.redis.url;
        bool found = cli_programs_in_path(up->io, "redis-server", program) == 0;
        struct cli_child *redis = add_child(up, "redis-server", found ? program : "");
        if (conf.access.url == NULL || redis == NULL)
            return kw_err_set(err, -ENOMEM, "out of memory");
        /* what an older run left; nobody listens there, since we hold the lock */
        (void)unlink(socket_path);
        const char *const arguments[] = {"--port",           "0",   "--unixsocket", socket_path,
                                         "--unixsocketperm", "700", "--save",       "",
                                         "--appendonly",     "no",  "--dir",        up->dir,
                                         "--daemonize",      "no",  "--loglevel",   "warning"};
        for (size_t i = 0; i < KW_ARRAY_SIZE(arguments) && rc == 0; i++)
            rc = cli_child_arg(redis, "%s", arguments[i]);
        up->redis_missing = !found;
        if (found)
            up->redis = redis;
        else
            cli_screen_say(&up->screen, "redis-server is not installed (Debian: apt install "
                                        "redis-server), and no --redis was "
                                        "given: the extender scores all nodes alike and nothing is "
                                        "recommended; measuring goes on");
    }
    if (rc < 0)
        return kw_err_set(err, rc, "out of memory");
    (void)snprintf(up->running.redis, sizeof(up->running.redis), "%s", up->settings.redis.url);
    rc = kw_redis_new(&conf, &up->redis_client, err);
    if (rc < 0)
        (void)kw_err_wrap(err, "--redis");
    return rc;
}

static int add_option(struct cli_child *child, const char *flag, const char *value)
{
    return value != NULL ? cli_child_arg(child, "--%s=%s", flag, value) : 0;
}

/** An option of the programs and its value, NULL where it is not given. */
struct option {
    const char *flag, *value;
};

#define REDIS_OPTIONS 9

static void redis_options(const struct kw_redis_access *redis, struct option ret[REDIS_OPTIONS])
{
    const struct option options[REDIS_OPTIONS] = {
        {"redis", redis->url},
        {"redis-user", redis->user},
        {"redis-password-file", redis->password_file},
        {"redis-ca-file", redis->ca_file},
        {"redis-cert-file", redis->cert_file},
        {"redis-key-file", redis->key_file},
        {"redis-server-name", redis->server_name},
        {"redis-sentinel-user", redis->sentinel_user},
        {"redis-sentinel-password-file", redis->sentinel_password_file},
    };

    memcpy(ret, options, sizeof(options));
}

static int add_redis_options(struct cli_child *child, const struct cli_up_settings *settings)
{
    struct option options[REDIS_OPTIONS];
    int rc = 0;

    redis_options(&settings->redis, options);
    for (size_t i = 0; i < KW_ARRAY_SIZE(options) && rc == 0; i++)
        rc = add_option(child, options[i].flag, options[i].value);
    return rc;
}

static int add_agent_options(struct cli_up *up, struct cli_child *child)
{
    const struct cli_up_settings *settings = &up->settings;
    const struct option options[] = {
        {"node-name", settings->node_name},
        {"meter", settings->meter},
        {"accounting", settings->accounting},
        {"attribution", settings->attribution},
        {"idle-watts", settings->idle_watts},
        {"full-watts", settings->full_watts},
        {"sysfs", settings->sysfs},
        {"procfs", settings->procfs},
        {"cgroup-root", settings->cgroup_root},
    };
    uint64_t interval_us = settings->interval_ns / 1000, for_us = settings->for_ns / 1000;
    int rc;

    /* --for ends with a sample: a whole number of intervals, none longer than it */
    if (for_us > 0)
        interval_us = for_us / ((for_us + interval_us - 1) / interval_us);
    if (interval_us < INTERVAL_LEAST_US)
        interval_us = INTERVAL_LEAST_US;
    rc = cli_child_arg(child, "--interval=%" PRIu64 "us", interval_us);
    for (size_t i = 0; i < KW_ARRAY_SIZE(options) && rc == 0; i++)
        rc = add_option(child, options[i].flag, options[i].value);
    return rc;
}

static int add_recommender_options(const struct cli_up *up, struct cli_child *child)
{
    /* a person watches: the first advice should not take its default minute */
    int rc = cli_child_arg(child, "--interval=10s");

    return rc < 0 ? rc : add_option(child, "kubeconfig", up->settings.kubeconfig);
}

/** One of ours. @return 0; -ENOENT not installed; -errno. */
static int prepare_program(struct cli_up *up, const char *own_dir, const char *name,
                           const char *listen, struct cli_child **ret)
{
    char program[PATH_MAX];
    struct cli_child *child;
    int rc = cli_programs_find(up->io, own_dir, name, program);

    if (rc < 0)
        return rc;
    child = add_child(up, name, program);
    if (child == NULL)
        return -ENOMEM;
    rc = cli_child_arg(child, "--listen=%s", listen);
    if (rc == 0)
        rc = add_redis_options(child, &up->settings);
    *ret = child;
    return rc;
}

static void say_missing(struct cli_up *up, const char *name, const char *without)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%s is neither beside kwatt nor in PATH: %s", name, without);
    cli_screen_say(&up->screen, text);
}

static int prepare_programs(struct cli_up *up, struct kw_err *err)
{
    char own_dir[PATH_MAX] = "/";
    struct cli_child *recommender = NULL, *extender = NULL;
    int rc;

    (void)cli_programs_own_dir(own_dir);
    rc = prepare_program(up, own_dir, "kwatt-node-agent", up->running.agent, &up->agent);
    if (rc == -ENOENT)
        return kw_err_set(
            err, rc,
            "kwatt-node-agent is neither in %.200s nor in PATH: nothing could be measured; "
            "install it beside kwatt",
            own_dir);
    if (rc == 0)
        rc = add_agent_options(up, up->agent);
    if (rc == 0) {
        rc = prepare_program(up, own_dir, "kwatt-extender", up->running.extender, &extender);
        if (rc == -ENOENT) {
            say_missing(up, "kwatt-extender", "no pods are placed");
            rc = 0;
        }
    }
    if (rc == 0) {
        rc = prepare_program(up, own_dir, "kwatt-vpa-recommender", up->running.recommender,
                             &recommender);
        if (rc == -ENOENT) {
            say_missing(up, "kwatt-vpa-recommender", "nothing is recommended");
            rc = 0;
        } else if (rc == 0) {
            rc = add_recommender_options(up, recommender);
        }
    }
    return rc < 0 ? kw_err_set(err, rc, "out of memory") : 0;
}

/** A file that is not there now would be asked for again and again by the programs. */
static int check_files(const struct cli_up_settings *settings, struct kw_err *err)
{
    const struct option files[] = {
        {"kubeconfig", settings->kubeconfig},
        {"redis-password-file", settings->redis.password_file},
        {"redis-ca-file", settings->redis.ca_file},
        {"redis-cert-file", settings->redis.cert_file},
        {"redis-key-file", settings->redis.key_file},
        {"redis-sentinel-password-file", settings->redis.sentinel_password_file}};

    for (size_t i = 0; i < KW_ARRAY_SIZE(files); i++) {
        if (files[i].value != NULL && access(files[i].value, R_OK) < 0)
            return kw_err_set(err, -EINVAL, "--%s: cannot read \"%.200s\": %m", files[i].flag,
                              files[i].value);
    }
    struct option options[REDIS_OPTIONS];
    redis_options(&settings->redis, options);
    for (size_t i = 0; i < KW_ARRAY_SIZE(options); i++) {
        if (settings->redis.url == NULL && options[i].value != NULL)
            return kw_err_set(err, -EINVAL, "--%s needs --redis: the private one has no use for it",
                              options[i].flag);
    }
    return 0;
}

int cli_up_prepare(struct cli_up *up, struct kw_err *err)
{
    int rc;

    rc = check_files(&up->settings, err);
    if (rc == 0)
        rc = take_folder(up, err);
    if (rc == 0)
        rc = take_ports(up, err);
    if (rc == 0 && copy_environment(up) < 0)
        rc = kw_err_set(err, -ENOMEM, "out of memory");
    if (rc == 0)
        rc = prepare_redis(up, err);
    if (rc == 0)
        rc = prepare_programs(up, err);
    if (rc < 0)
        return rc;
    up->running.pid = getpid();
    if (up->settings.node_name != NULL)
        (void)snprintf(up->running.node, sizeof(up->running.node), "%s", up->settings.node_name);
    rc = cli_state_announce(up->lock_fd, &up->running, err);
    if (rc < 0)
        return rc;
    rc = cli_source_http_new(up->running.agent, NULL, &up->agent_client, err);
    if (rc < 0)
        return rc;
    uint64_t now_ns = kw_now_ns();
    up->redis_deadline_ns = now_ns;
    if (up->redis != NULL) {
        struct kw_err start_err = {0};
        up->redis_deadline_ns += REDIS_WAIT_NS;
        (void)cli_supervisor_start(&up->supervisor, up->redis, now_ns, &start_err);
    }
    return 0;
}

void cli_up_start_programs(struct cli_up *up, uint64_t now_ns)
{
    if (up->programs_started)
        return;
    if (up->redis != NULL && now_ns < up->redis_deadline_ns) {
        struct kw_err err = {0};
        kw_redis_retry_now(up->redis_client);
        if (kw_redis_queue_texts(up->redis_client, "PING", NULL) < 0 ||
            kw_redis_exec(up->redis_client, NULL, &err) < 0)
            return;
    }
    up->programs_started = true;
    up->start_ns = now_ns;
    for (unsigned i = 1; i < up->supervisor.n; i++) {
        struct kw_err err = {0};
        (void)cli_supervisor_start(&up->supervisor, &up->supervisor.children[i], now_ns, &err);
    }
}
