/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /pods of the kubelet's authenticated port. A kubelet asks the API server whether the token
 * may do that: for `nodes/pods` where it knows finer rights (Kubernetes 1.33 on by default), else
 * for `nodes/proxy`, which would let its holder run commands in every pod; kwatt's chart gives the
 * former only.
 *
 * A serving certificate that the cluster signed names the node's addresses, one that the kubelet
 * made for itself (the default of many installers) names the node alone. So the address is verified
 * first, and after a failure the node's name, in turn: both are this node, and a certificate must
 * be of the CA file in any case.
 */
#include "node-agent/kubelet.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/owner.h"
#include "common/cleanup.h"
#include "common/http_client.h"

#define PORT       "10250"
#define SECRETS    "/var/run/secrets/kubernetes.io/serviceaccount/"
#define URL_MAX    512
/* 1000 pods of 32 KiB: spec and status of many containers take 16, annotations, of which a pod may
 * have 256, as much on average. A list that is longer is no list of a node. It is held while it is
 * read, then given back. */
#define BODY_MAX   ((size_t)32 << 20)
#define CONNECT_MS 2000
#define TOTAL_MS   10000

struct agent_kubelet {
    struct agent_kubelet_conf conf;
    char url[URL_MAX];
    /* one that verifies the address, one the node's name; NULL where the node's cannot be one */
    struct kw_http_client *clients[2];
    unsigned now;
};

int agent_kubelet_url(const char *address, char *out, size_t size)
{
    const char *rest = strncmp(address, "https://", 8) == 0 ? address + 8 : address;
    const char *colon = strchr(rest, ':');
    bool v6 = colon != NULL && strchr(colon + 1, ':') != NULL && rest[0] != '[';
    const char *end = rest[0] == '[' ? strchr(rest, ']') : rest;
    int n;

    if (rest[0] == '\0' || end == NULL || strchr(rest, '/') != NULL)
        return -EINVAL; /* also http://: the port without authentication is not asked */
    if (v6)
        n = snprintf(out, size, "https://[%s]:" PORT, rest);
    else
        n = snprintf(out, size, "https://%s%s", rest, strchr(end, ':') != NULL ? "" : ":" PORT);
    return n >= 0 && (size_t)n < size ? 0 : -EINVAL;
}

static int make_client(struct agent_kubelet *kubelet, const char *server_name,
                       struct kw_http_client **ret, struct kw_err *err)
{
    const struct agent_kubelet_conf *conf = &kubelet->conf;
    struct kw_http_client_conf http = {
        .base_url = kubelet->url,
        .ca_file = conf->ca_file != NULL ? conf->ca_file : SECRETS "ca.crt",
        .token_file = conf->token_file != NULL ? conf->token_file : SECRETS "token",
        .server_name = server_name,
        .connect_timeout_ms = CONNECT_MS,
        .timeout_ms = TOTAL_MS,
        .max_body_bytes = BODY_MAX,
    };

    return kw_http_client_new(&http, ret, err);
}

int agent_kubelet_new(const struct agent_kubelet_conf *conf, struct agent_kubelet **ret,
                      struct kw_err *err)
{
    kw_cleanup(agent_kubelet_free) struct agent_kubelet *kubelet = calloc(1, sizeof(*kubelet));

    if (kubelet == NULL)
        return kw_err_set(err, -ENOMEM, "kubelet: out of memory");
    kubelet->conf = *conf;
    if (agent_kubelet_url(conf->address, kubelet->url, sizeof(kubelet->url)) < 0)
        return kw_err_set(err, -EINVAL,
                          "kubelet \"%s\": expected HOST, HOST:PORT or https://HOST:PORT",
                          conf->address);
    int rc = make_client(kubelet, NULL, &kubelet->clients[0], err);
    if (rc == 0 && kw_kube_name_ok(conf->node))
        rc = make_client(kubelet, conf->node, &kubelet->clients[1], err);
    if (rc < 0) {
        (void)kw_err_wrap(err, "kubelet");
        return rc;
    }
    *ret = KW_TAKE_PTR(kubelet);
    return 0;
}

void agent_kubelet_free(struct agent_kubelet **kubelet)
{
    struct agent_kubelet *owned = KW_TAKE_PTR(*kubelet);

    if (owned == NULL)
        return;
    kw_http_client_free(&owned->clients[0]);
    kw_http_client_free(&owned->clients[1]);
    free(owned);
}

const char *agent_kubelet_name(const struct agent_kubelet *kubelet)
{
    return kubelet->url;
}

static int ask(struct agent_kubelet *kubelet, struct kw_buf *ret_body, struct kw_err *err)
{
    const struct kw_http_call call = {
        .method = "GET", .path = "/pods", .accept = "application/json"};
    unsigned status = 0;
    int rc = kw_http_client_call(kubelet->clients[kubelet->now], &call, &status, ret_body, err);

    if (rc < 0)
        return rc;
    if (status == 401)
        return kw_err_set(err, -EACCES, "GET %s/pods: 401: it does not take the token",
                          kubelet->url);
    if (status == 403)
        return kw_err_set(err, -EACCES,
                          "GET %s/pods: 403: the token may not get nodes/pods (kubelets before "
                          "Kubernetes 1.33 ask for nodes/proxy instead)",
                          kubelet->url);
    if (status != 200)
        return kw_err_set(err, -EREMOTEIO, "GET %s/pods: %u", kubelet->url, status);
    return 0;
}

int agent_kubelet_pods(struct agent_kubelet *kubelet, struct kw_buf *ret_body, struct kw_err *err)
{
    struct kw_err second = {0};
    int rc = ask(kubelet, ret_body, err);

    if (rc != -EPROTO || kubelet->clients[1] == NULL)
        return rc;
    kubelet->now = 1 - kubelet->now;
    int again = ask(kubelet, ret_body, &second);
    if (again == -EPROTO)
        kubelet->now = 1 - kubelet->now; /* neither: say what is wrong with the first */
    else
        *err = second;
    return again == -EPROTO ? rc : again;
}

void agent_kubelet_interrupt(struct agent_kubelet *kubelet)
{
    for (unsigned i = 0; i < KW_ARRAY_SIZE(kubelet->clients); i++) {
        if (kubelet->clients[i] != NULL)
            kw_http_client_interrupt(kubelet->clients[i]);
    }
}
