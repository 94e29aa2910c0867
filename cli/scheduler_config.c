/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kube-scheduler runs in the host's network, where the names of Services do not resolve, so the
 * configuration needs an address: the one of the extender's Service, asked of the cluster, or what
 * the operator says. With --check the extender there is asked as the scheduler would ask it.
 */
#include "cli/scheduler_config.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/service.h"
#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/conf.h"
#include "common/http_client.h"
#include "common/http_rows.h"
#include "common/kube.h"

/** A check is a matter of seconds, over whatever network the operator sits in. */
#define CHECK_TIMEOUT_MS 5000
#define URL_MAX          512

struct settings {
    char *extender_url, *kubeconfig, *context, *namespace, *scheduler_name, *scheduler_kubeconfig;
    uint64_t weight, http_timeout_ns;
    bool tiers, filter, check;
    struct kw_http_client_tls tls;
};

/** The extender's address, where it is from, and the name in its certificate. */
struct place {
    char url[URL_MAX], from[URL_MAX], name[URL_MAX];
};

#define AT(field) offsetof(struct settings, field)

static const struct kw_conf_option rows[] = {
    {.flag = "extender-url",
     .type = KW_CONF_STRING,
     .offset = AT(extender_url),
     .min = 1,
     .max = URL_MAX - 1,
     .metavar = "URL",
     .group = "Extender",
     .help = "where kube-scheduler reaches it, such as http://127.0.0.1:9890 for one beside it;\n"
             "default: the Service of the cluster"},
    {.flag = "kubeconfig",
     .env = "KUBECONFIG",
     .type = KW_CONF_STRING,
     .offset = AT(kubeconfig),
     .metavar = "FILE",
     .group = "Extender",
     .help = "cluster to look the Service up in; default: ~/.kube/config"},
    {.flag = "context",
     .type = KW_CONF_STRING,
     .offset = AT(context),
     .metavar = "NAME",
     .group = "Extender",
     .help = "context of the kubeconfig; default: its current-context"},
    {.flag = "namespace",
     .type = KW_CONF_STRING,
     .offset = AT(namespace),
     .min = 1,
     .max = 63,
     .metavar = "NAME",
     .group = "Extender",
     .help = "namespace that kwatt is installed in; default: all are searched"},
    {.flag = "check",
     .type = KW_CONF_BOOL,
     .offset = AT(check),
     .def = "false",
     .group = "Extender",
     .help = "ask the extender there for a score first, and fail where it does not answer"},
    KW_HTTP_CLIENT_TLS_ROWS(struct settings, tls, "Extender", "the extender's"){
        .flag = "weight",
        .type = KW_CONF_U64,
        .offset = AT(weight),
        .def = CLI_SCHEDULER_WEIGHT,
        .min = 1,
        .max = 100,
        .metavar = "N",
        .group = "Configuration",
        .help = "how much kwatt's score counts: N x 100 points of about 1200; 3 to 5 let nodes "
                "fill up"},
    {.flag = "tiers",
     .type = KW_CONF_BOOL,
     .offset = AT(tiers),
     .def = "false",
     .group = "Configuration",
     .help = "no extender: a profile that goes by the labels that kwatt-extender --power-tiers "
             "writes"},
    {.flag = "http-timeout",
     .type = KW_CONF_DURATION_NS,
     .offset = AT(http_timeout_ns),
     .def = CLI_SCHEDULER_HTTP_TIMEOUT,
     .min = 10 * UINT64_C(1000000),
     .max = 30 * UINT64_C(1000000000),
     .metavar = "DURATION",
     .group = "Configuration",
     .help = "longest wait of a pod for one answer"},
    {.flag = "filter",
     .type = KW_CONF_BOOL,
     .offset = AT(filter),
     .def = "false",
     .group = "Configuration",
     .help =
         "ask the extender's filter too; of use only with power caps, and costs a call per pod"},
    {.flag = "scheduler-name",
     .type = KW_CONF_STRING,
     .offset = AT(scheduler_name),
     .def = "default-scheduler",
     .min = 1,
     .max = 253,
     .metavar = "NAME",
     .group = "Configuration",
     .help = "profile; pods choose it by spec.schedulerName"},
    {.flag = "scheduler-kubeconfig",
     .type = KW_CONF_STRING,
     .offset = AT(scheduler_kubeconfig),
     .def = "/etc/kubernetes/scheduler.conf",
     .metavar = "FILE",
     .group = "Configuration",
     .help = "kubeconfig of the scheduler, as it sees the file; empty: its service account"},
};

static const struct kw_conf_program program = {
    .name = "kwatt scheduler-config",
    .synopsis = "[options]",
    .summary =
        "Prints the KubeSchedulerConfiguration that makes kube-scheduler ask kwatt, with the\n"
        "reason of each choice. Changes nothing: deploy/kube-scheduler/ says how to get it\n"
        "there.",
    .examples = "  kwatt scheduler-config --extender-url http://127.0.0.1:9890\n"
                "  kwatt scheduler-config --tiers\n"
                "  kwatt scheduler-config --kubeconfig ~/.kube/config >kwatt.yaml\n"
                "  kwatt scheduler-config --ca-file /etc/kubernetes/kwatt/ca.crt\n"
                "      --cert-file /etc/kubernetes/kwatt/tls.crt --key-file "
                "/etc/kubernetes/kwatt/tls.key\n"
                "  kwatt scheduler-config --scheduler-name kwatt-scheduler "
                "--scheduler-kubeconfig=\n",
    .options = rows,
    .n_options = KW_ARRAY_SIZE(rows),
};

/** Whether a text can stand in YAML and in a comment as it is. */
static bool is_plain(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c <= ' ' || *c >= 0x7f || strchr("\"'#\\{}[],&*!|>%@`?", *c) != NULL)
            return false;
    }
    return text[0] != '-' && text[0] != ':';
}

/** One Service of the list; more than one is a question for the operator. */
struct search {
    struct kw_service found;
    size_t n;
    char names[URL_MAX];
};

static bool on_service(void *user, const char *json, size_t len)
{
    struct search *search = user;
    struct kw_service service;
    const char *why;

    if (kw_service_decode(json, len, &service, &why) < 0)
        return true;
    size_t used = strlen(search->names);
    (void)snprintf(search->names + used, sizeof(search->names) - used, "%s%s/%s",
                   used > 0 ? ", " : "", service.namespace_, service.name);
    search->found = service;
    search->n++;
    return true;
}

static void on_restart(void *user)
{
    *(struct search *)user = (struct search){0};
}

static int take_service(const struct search *search, struct place *ret, struct kw_err *err)
{
    const struct kw_service *service = &search->found;
    bool v6 = strchr(service->cluster_ip, ':') != NULL;

    if (search->n == 0)
        return kw_err_set(err, -ENOENT,
                          "no Service of kwatt's extender in this cluster: install the chart, or "
                          "give --extender-url URL");
    if (search->n > 1)
        return kw_err_set(err, -EINVAL, "several extenders (%s): choose by --namespace",
                          search->names);
    if (service->cluster_ip[0] == '\0' || service->port == 0)
        return kw_err_set(err, -EINVAL,
                          "Service %s has no cluster address: give --extender-url URL",
                          search->names);
    (void)snprintf(ret->url, sizeof(ret->url), "%s://%s%s%s:%u", service->https ? "https" : "http",
                   v6 ? "[" : "", service->cluster_ip, v6 ? "]" : "", service->port);
    (void)snprintf(ret->name, sizeof(ret->name), "%s.%s.svc", service->name, service->namespace_);
    (void)snprintf(ret->from, sizeof(ret->from),
                   "Service %.200s. An address, since kube-scheduler cannot resolve its name.",
                   search->names);
    return 0;
}

static int find_service(const struct cli_io *io, const struct settings *settings, struct place *ret,
                        struct kw_err *err)
{
    char file[PATH_MAX], path[128] = "/api/v1/services";
    const char *home = cli_env(io, "HOME");
    struct kw_kube_conf conf = {.kubeconfig = settings->kubeconfig, .context = settings->context};
    kw_cleanup(kw_kube_free) struct kw_kube *kube = NULL;
    struct search search = {0};

    if (conf.kubeconfig == NULL && home != NULL) {
        (void)snprintf(file, sizeof(file), "%s/.kube/config", home);
        if (access(file, R_OK) == 0)
            conf.kubeconfig = file;
    }
    if (settings->namespace != NULL)
        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%.63s/services",
                       settings->namespace);
    int rc = kw_kube_new(&conf, &kube, err);
    if (rc == -ENOENT && conf.kubeconfig == NULL)
        return kw_err_set(err, rc,
                          "no cluster to ask: give --extender-url URL or --kubeconfig FILE");
    if (rc == 0)
        rc = kw_kube_list(kube, path, KW_EXTENDER_SERVICE_QUERY, on_service, on_restart, &search,
                          NULL, err);
    return rc < 0 ? rc : take_service(&search, ret, err);
}

static int take_url(const char *url, struct place *ret, struct kw_err *err)
{
    struct kw_http_client_conf conf = {.base_url = url};
    kw_cleanup(kw_http_client_free) struct kw_http_client *client = NULL;
    size_t len = strlen(url);
    int rc = kw_http_client_new(&conf, &client, err);

    if (rc == 0 && !is_plain(url))
        rc = kw_err_set(err, -EINVAL, "it holds a character that YAML would trip over");
    if (rc < 0) {
        (void)kw_err_wrap(err, "--extender-url");
        return rc;
    }
    while (len > 0 && url[len - 1] == '/')
        len--;
    (void)snprintf(ret->url, sizeof(ret->url), "%.*s", (int)len, url);
    (void)snprintf(
        ret->from, sizeof(ret->from),
        "Where kwatt-extender listens. Best beside the scheduler, over loopback: each pod "
        "waits for it.");
    return 0;
}

/** Asks for the score of one node that nobody has, as the scheduler would. */
static int check_extender(const char *url, const struct kw_http_client_tls *tls, struct kw_err *err)
{
    static const char body[] =
        "{\"Pod\":{\"metadata\":{\"name\":\"kwatt-check\",\"namespace\":\"default\"}},"
        "\"Nodes\":null,\"NodeNames\":[\"kwatt-check\"]}";
    const struct kw_http_client_conf conf = {.base_url = url,
                                             .ca_file = tls->ca_file,
                                             .cert_file = tls->cert_file,
                                             .key_file = tls->key_file,
                                             .server_name = tls->server_name,
                                             .connect_timeout_ms = CHECK_TIMEOUT_MS,
                                             .timeout_ms = CHECK_TIMEOUT_MS};
    const struct kw_http_call call = {.method = "POST",
                                      .path = "/prioritize",
                                      .content_type = "application/json",
                                      .body = body,
                                      .body_len = sizeof(body) - 1};
    kw_cleanup(kw_http_client_free) struct kw_http_client *client = NULL;
    kw_cleanup(kw_buf_free) struct kw_buf answer = {0};
    unsigned status = 0;
    int rc = kw_http_client_new(&conf, &client, err);

    if (rc == 0)
        rc = kw_http_client_call(client, &call, &status, &answer, err);
    if (rc < 0)
        return rc;
    if (status != 200 || answer.data == NULL || answer.data[0] != '[')
        return kw_err_set(err, -EPROTO,
                          "%s/prioritize answers with status %u, and not as an extender", url,
                          status);
    return 0;
}

/** Whether the settings of HTTPS suit the address; completes them. */
static int settle_tls(struct kw_http_client_tls *tls, struct place *place, struct kw_err *err)
{
    const char *const texts[] = {tls->ca_file, tls->cert_file, tls->key_file, tls->server_name};
    bool any = false;

    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++) {
        any = any || texts[i] != NULL;
        if (texts[i] != NULL && !is_plain(texts[i]))
            return kw_err_set(
                err, -EINVAL,
                "--ca-file, --cert-file, --key-file, --server-name: plain names only");
    }
    if (strncasecmp(place->url, "https:", 6) != 0)
        return any ? kw_err_set(err, -EINVAL,
                                "%s is no HTTPS, so --ca-file, --cert-file, --key-file and "
                                "--server-name are of no use",
                                place->url)
                   : 0;
    if ((tls->cert_file == NULL) != (tls->key_file == NULL))
        return kw_err_set(err, -EINVAL, "--cert-file and --key-file are of use only together");
    if (tls->ca_file == NULL)
        return kw_err_set(err, -EINVAL,
                          "HTTPS needs --ca-file, for without one kube-scheduler verifies nothing; "
                          "and --cert-file and --key-file where a client certificate is asked for. "
                          "`helm get notes` tells how to get them");
    if (tls->server_name == NULL && place->name[0] != '\0')
        tls->server_name = place->name;
    return 1;
}

static int make_tiers(const struct settings *settings, const struct cli_scheduler_facts *facts,
                      struct kw_buf *out, struct kw_err *err)
{
    const struct kw_http_client_tls *tls = &settings->tls;

    if (settings->extender_url != NULL || settings->filter || settings->check ||
        tls->ca_file != NULL || tls->cert_file != NULL || tls->key_file != NULL ||
        tls->server_name != NULL)
        return kw_err_set(err, -EINVAL,
                          "--tiers is without an extender: leave out --extender-url, --check, "
                          "--filter and the files of HTTPS");
    cli_scheduler_write_tiers(facts, out);
    return out->failed ? kw_err_set(err, -ENOMEM, "out of memory") : 0;
}

static int make(const struct cli_io *io, const struct settings *settings, struct kw_buf *out,
                struct kw_err *err)
{
    struct place place = {0};
    struct kw_http_client_tls tls = settings->tls;
    char timeout[32];
    struct cli_scheduler_facts facts = {.url = place.url,
                                        .from = place.from,
                                        .scheduler_name = settings->scheduler_name,
                                        .kubeconfig = settings->scheduler_kubeconfig,
                                        .http_timeout = timeout,
                                        .weight = settings->weight,
                                        .filter = settings->filter};
    int rc = 0;

    if (settings->namespace != NULL &&
        settings->namespace[strspn(settings->namespace, "abcdefghijklmnopqrstuvwxyz0123456789-")] !=
            '\0')
        return kw_err_set(err, -EINVAL, "--namespace: no namespace has such a name");
    if (!is_plain(settings->scheduler_name) ||
        (facts.kubeconfig != NULL && !is_plain(facts.kubeconfig)))
        return kw_err_set(err, -EINVAL,
                          "--scheduler-name, --scheduler-kubeconfig: plain names only");
    if (settings->tiers)
        return make_tiers(settings, &facts, out, err);
    rc = settings->extender_url != NULL ? take_url(settings->extender_url, &place, err)
                                        : find_service(io, settings, &place, err);
    if (rc == 0)
        rc = settle_tls(&tls, &place, err);
    if (rc > 0)
        facts.tls = &tls;
    if (rc >= 0 && settings->check)
        rc = check_extender(place.url, &tls, err);
    if (rc < 0)
        return rc;
    (void)snprintf(timeout, sizeof(timeout), "%llums",
                   (unsigned long long)(settings->http_timeout_ns / 1000000));
    cli_scheduler_write(&facts, out);
    return out->failed ? kw_err_set(err, -ENOMEM, "out of memory") : 0;
}

int cli_scheduler_config(const struct cli_io *io, int argc, char **argv)
{
    struct settings settings = {0};
    kw_cleanup(kw_buf_free) struct kw_buf out = {0};
    struct kw_err err = {0};
    int rc = kw_conf_load(&program, argc, argv, io->envp, &settings, io->out, NULL, &err);

    if (rc == KW_CONF_DONE)
        return 0;
    if (rc < 0) {
        (void)fprintf(io->err, "kwatt scheduler-config: %s\n", err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    rc = make(io, &settings, &out, &err);
    kw_conf_free(&program, &settings);
    if (rc < 0) {
        (void)fprintf(io->err, "kwatt scheduler-config: %s\n", err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    (void)fwrite(out.data, 1, out.len, io->out);
    if (fflush(io->out) != 0) {
        (void)fprintf(io->err, "kwatt scheduler-config: cannot write the output\n");
        return 1;
    }
    return 0;
}
