/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/http_client_conf.h"
#include "common/version.h"

/*
 * One easy handle and one multi handle per client. The multi interface is used for a single
 * transfer because it can be woken from another thread (curl_multi_wakeup), which the blocking one
 * cannot; it also owns the connections, so they outlive a call.
 *
 * Every option is set anew for each call: nothing of one call can leak into the next. Credentials
 * go through options that libcurl keeps away from proxies and redirects, and are taken from files
 * at call time. Error texts are made of the method, the URL (base_url may hold no credentials) and
 * libcurl's message.
 *
 * HTTP/1.1 only: a watch holds its connection for minutes anyway, and one call at a time gains
 * nothing from multiplexing. A proxy is taken from the environment, as client-go does, but never
 * for loopback and unix sockets.
 */

/* Longest sleep in the loop; activity and interrupts end it early. */
#define WAIT_MS 1000

/* First probe after, and between, for connections of a watch that lie idle behind a NAT or load
 * balancer. */
#define KEEPALIVE_S 30L

struct kw_http_client {
    CURL *easy;
    CURLM *multi;
    struct kw_http_client_settings settings;
    atomic_bool interrupted;
};

/** One request on its way. */
struct transfer {
    struct kw_http_client *client;
    struct kw_buf *body; /* NULL when streamed */
    kw_http_stream_fn fn;
    void *user;
    bool too_large, stopped, no_memory;
    uint64_t last_byte_ns;
    struct curl_slist *headers, *connect_to;
    char agent[64];
    char message[CURL_ERROR_SIZE];
};

int kw_http_client_new(const struct kw_http_client_conf *conf, struct kw_http_client **ret,
                       struct kw_err *err)
{
    kw_cleanup(kw_http_client_free) struct kw_http_client *client = NULL;
    int rc;

    /* counted by libcurl, and safe from several threads */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return kw_err_set(err, -ENOMEM, "cannot start libcurl");
    client = calloc(1, sizeof(*client));
    if (client == NULL) {
        curl_global_cleanup();
        return kw_err_set(err, -ENOMEM, "out of memory");
    }
    rc = kw_http_client_settings_open(&client->settings, conf, err);
    if (rc < 0)
        return rc;
    client->easy = curl_easy_init();
    client->multi = curl_multi_init();
    if (client->easy == NULL || client->multi == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    *ret = KW_TAKE_PTR(client);
    return 0;
}

void kw_http_client_free(struct kw_http_client **client)
{
    struct kw_http_client *c = *client;

    if (c == NULL)
        return;
    curl_easy_cleanup(c->easy);
    (void)curl_multi_cleanup(c->multi);
    curl_global_cleanup();
    kw_http_client_settings_close(&c->settings);
    free(c);
    *client = NULL;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    size_t len = size * n;
    long status = 0;

    t->last_byte_ns = kw_now_ns();
    if (t->body != NULL) {
        t->too_large = len > t->client->settings.max_body_bytes - t->body->len;
        if (t->too_large || kw_buf_add(t->body, bytes, len) < 0)
            return CURL_WRITEFUNC_ERROR;
        return len;
    }
    (void)curl_easy_getinfo(t->client->easy, CURLINFO_RESPONSE_CODE, &status);
    t->stopped = !t->fn(t->user, (unsigned)status, bytes, len);
    return t->stopped ? CURL_WRITEFUNC_ERROR : len;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;

    (void)bytes;
    t->last_byte_ns = kw_now_ns();
    return size * n;
}

static CURLcode set_blob(CURL *easy, CURLoption option, char *pem)
{
    struct curl_blob blob = {.data = pem, .len = strlen(pem), .flags = CURL_BLOB_NOCOPY};

    return curl_easy_setopt(easy, option, &blob);
}

/* Certificates; verification is never off. */
static CURLcode set_tls(CURL *easy, const struct kw_http_client_settings *settings)
{
    CURLcode rc = CURLE_OK;

    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    (void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (settings->ca_pem != NULL || settings->ca_file != NULL) {
        /* the named authority alone, without the system's */
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO,
                               settings->ca_pem != NULL ? NULL : settings->ca_file);
        if (settings->ca_pem != NULL)
            rc = set_blob(easy, CURLOPT_CAINFO_BLOB, settings->ca_pem);
    }
    if (rc == CURLE_OK && settings->cert_pem != NULL)
        rc = set_blob(easy, CURLOPT_SSLCERT_BLOB, settings->cert_pem);
    else if (rc == CURLE_OK && settings->cert_file != NULL)
        rc = curl_easy_setopt(easy, CURLOPT_SSLCERT, settings->cert_file);
    if (rc == CURLE_OK && settings->key_pem != NULL)
        rc = set_blob(easy, CURLOPT_SSLKEY_BLOB, settings->key_pem);
    else if (rc == CURLE_OK && settings->key_file != NULL)
        rc = curl_easy_setopt(easy, CURLOPT_SSLKEY, settings->key_file);
    return rc;
}

static CURLcode set_credentials(CURL *easy, struct kw_http_client_settings *settings)
{
    CURLcode rc = CURLE_OK;

    kw_http_secret_renew(&settings->token);
    kw_http_secret_renew(&settings->password);
    if (settings->token.text != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        rc = curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, settings->token.text);
    } else if (settings->username != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        rc = curl_easy_setopt(easy, CURLOPT_USERNAME, settings->username);
        if (rc == CURLE_OK && settings->password.text != NULL)
            rc = curl_easy_setopt(easy, CURLOPT_PASSWORD, settings->password.text);
    }
    return rc;
}

static CURLcode set_method(CURL *easy, const struct kw_http_call *call)
{
    CURLcode rc = CURLE_OK;

    if (call->body != NULL || strcmp(call->method, "POST") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
        rc = curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body == NULL ? "" : call->body);
    } else if (strcmp(call->method, "HEAD") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
    return rc == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method) : rc;
}

/* Appends "name: value"; a NULL value takes away what libcurl would add by itself. */
static void add_header(struct transfer *t, const char *name, const char *value)
{
    struct kw_buf line = {0};
    struct curl_slist *longer = NULL;

    (void)kw_buf_addf(&line, "%s:%s%s", name, value == NULL ? "" : " ", value == NULL ? "" : value);
    if (!line.failed)
        longer = curl_slist_append(t->headers, line.data);
    if (longer == NULL)
        t->no_memory = true;
    else
        t->headers = longer;
    kw_buf_free(&line);
}

static void set_headers(struct transfer *t, const struct kw_http_call *call)
{
    const struct kw_http_client_settings *settings = &t->client->settings;
    CURL *easy = t->client->easy;

    add_header(t, "Accept", call->accept == NULL ? "*/*" : call->accept);
    add_header(t, "Content-Type", call->body == NULL ? NULL : call->content_type);
    add_header(t, "Expect", NULL); /* a round trip for nothing */
    if (settings->host_header != NULL) {
        add_header(t, "Host", settings->host_header);
        t->connect_to = curl_slist_append(NULL, settings->connect_to);
        t->no_memory = t->no_memory || t->connect_to == NULL;
        (void)curl_easy_setopt(easy, CURLOPT_CONNECT_TO, t->connect_to);
    }
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t->headers);
}

/* All options of one call. */
static CURLcode set_options(struct transfer *t, const struct kw_http_call *call, const char *url,
                            uint32_t timeout_ms)
{
    struct kw_http_client_settings *settings = &t->client->settings;
    CURL *easy = t->client->easy;
    CURLcode rc;

    curl_easy_reset(easy);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)settings->connect_timeout_ms);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->message);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
    if (settings->loopback || settings->unix_socket != NULL)
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    set_headers(t, call);
    rc = t->no_memory ? CURLE_OUT_OF_MEMORY : curl_easy_setopt(easy, CURLOPT_URL, url);
    if (rc == CURLE_OK && settings->unix_socket != NULL)
        rc = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, settings->unix_socket);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_USERAGENT, t->agent);
    if (rc == CURLE_OK)
        rc = set_tls(easy, settings);
    if (rc == CURLE_OK)
        rc = set_credentials(easy, settings);
    return rc == CURLE_OK ? set_method(easy, call) : rc;
}

/* errno of a failed transfer. */
static int errno_of(const struct transfer *t, CURLcode code)
{
    long os = 0;

    (void)curl_easy_getinfo(t->client->easy, CURLINFO_OS_ERRNO, &os);
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return -ETIMEDOUT;
    case CURLE_OUT_OF_MEMORY: return -ENOMEM;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT: return os > 0 ? -(int)os : -ECONNREFUSED;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE: return -ECONNRESET;
    case CURLE_URL_MALFORMAT: return -EINVAL;
    default: return -EPROTO;
    }
}

/* Runs until done, interrupted, or idle for too long (0: no such limit). @return 0 or -errno;
 * *ret_code as libcurl has it. */
static int run(struct transfer *t, uint32_t idle_timeout_ms, CURLcode *ret_code)
{
    CURLM *multi = t->client->multi;
    const uint64_t idle_ns = idle_timeout_ms * KW_NS_PER_MS;
    int running = 1;

    t->last_byte_ns = kw_now_ns();
    for (;;) {
        const CURLMsg *message;
        int left;

        if (atomic_load(&t->client->interrupted))
            return -ECANCELED;
        if (curl_multi_perform(multi, &running) != CURLM_OK)
            return -ENOMEM;
        while ((message = curl_multi_info_read(multi, &left)) != NULL) {
            if (message->msg != CURLMSG_DONE)
                continue;
            *ret_code = message->data.result;
            return *ret_code == CURLE_OK ? 0 : errno_of(t, *ret_code);
        }
        uint64_t quiet_ns = kw_now_ns() - t->last_byte_ns;

        if (idle_ns > 0 && quiet_ns >= idle_ns) {
            *ret_code = CURLE_OPERATION_TIMEDOUT;
            return -ETIMEDOUT;
        }
        uint64_t left_ms = idle_ns > 0 ? (idle_ns - quiet_ns) / KW_NS_PER_MS + 1 : WAIT_MS;

        struct curl_waitfd cancel = {.fd = t->client->settings.cancel_fd,
                                     .events = CURL_WAIT_POLLIN};

        if (curl_multi_poll(multi, &cancel, cancel.fd > 0 ? 1 : 0,
                            left_ms < WAIT_MS ? (int)left_ms : WAIT_MS, NULL) != CURLM_OK)
            return -ENOMEM;
        if (cancel.revents != 0)
            return -ECANCELED;
    }
}

/* The text for an operator: method, URL, cause. */
static int explain(const struct transfer *t, const struct kw_http_call *call, const char *url,
                   int rc, CURLcode code, struct kw_err *err)
{
    const char *cause = t->message[0] != '\0' ? t->message : curl_easy_strerror(code);

    if (t->too_large)
        return kw_err_set(err, -EFBIG, "%s %s: the answer has more than %zu bytes", call->method,
                          url, t->client->settings.max_body_bytes);
    if (t->stopped || rc == -ECANCELED)
        return kw_err_set(err, -ECANCELED, "%s %s: cancelled", call->method, url);
    if (rc == -ENOMEM || (t->body != NULL && t->body->failed))
        return kw_err_set(err, -ENOMEM, "%s %s: out of memory", call->method, url);
    return kw_err_set(err, rc, "%s %s: %s", call->method, url, cause);
}

static int transfer(struct transfer *t, const struct kw_http_call *call, uint32_t timeout_ms,
                    uint32_t idle_timeout_ms, unsigned *ret_status, struct kw_err *err)
{
    CURL *easy = t->client->easy;
    struct kw_buf url = {0};
    CURLcode code = CURLE_OK;
    long status = 0;
    int rc = 0;

    (void)snprintf(t->agent, sizeof(t->agent), "kwatt/%s", kw_version());
    (void)kw_buf_addf(&url, "%s%s", t->client->settings.base_url, call->path);
    code = url.failed ? CURLE_OUT_OF_MEMORY : set_options(t, call, url.data, timeout_ms);
    if (code != CURLE_OK || curl_multi_add_handle(t->client->multi, easy) != CURLM_OK) {
        rc = code == CURLE_OK ? -ENOMEM : errno_of(t, code);
    } else {
        rc = run(t, idle_timeout_ms, &code);
        /* else libcurl waits for the thread that resolves a name, which the system's resolver may
         * hold for half a minute */
        if (rc == -ECANCELED)
            (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        (void)curl_multi_remove_handle(t->client->multi, easy);
    }
    if (status > 0)
        *ret_status = (unsigned)status;
    if (rc < 0)
        rc = explain(t, call, url.data == NULL ? "" : url.data, rc, code, err);
    curl_easy_reset(easy); /* forgets the pointers into this call */
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->connect_to);
    kw_buf_free(&url);
    return rc;
}

int kw_http_client_call(struct kw_http_client *client, const struct kw_http_call *call,
                        unsigned *ret_status, struct kw_buf *ret_body, struct kw_err *err)
{
    struct transfer t = {.client = client, .body = ret_body};

    kw_buf_reset(ret_body);
    return transfer(&t, call, client->settings.timeout_ms, 0, ret_status, err);
}

int kw_http_client_stream(struct kw_http_client *client, const struct kw_http_call *call,
                          uint32_t idle_timeout_ms, kw_http_stream_fn fn, void *user,
                          unsigned *ret_status, struct kw_err *err)
{
    struct transfer t = {.client = client, .fn = fn, .user = user};

    return transfer(&t, call, 0, idle_timeout_ms, ret_status, err);
}

void kw_http_client_interrupt(struct kw_http_client *client)
{
    atomic_store(&client->interrupted, true);
    (void)curl_multi_wakeup(client->multi);
}
