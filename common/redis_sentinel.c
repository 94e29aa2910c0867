/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the master is, by the procedure that Redis asks of clients of Sentinel: ask one sentinel
 * after the other, remember the one that answered, connect where it says, and make sure by ROLE
 * that a master is there (a sentinel that was cut off may not have heard of a failover).
 *
 * Nothing is subscribed to. A failover ends every connection (the old master died, or the sentinels
 * end its clients when they make it a replica), and what a replica would refuse (READONLY) ends
 * ours: in both cases the next connection begins here. Each sentinel has a time-out of its own, so
 * that one that swallows packets does not take the time of the others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/num.h"
#include "common/redis_impl.h"
#include "common/tls_client.h"

/* ---- replies ---- */

static int not_an_address(struct kw_err *err)
{
    return kw_err_set(err, -EPROTO, "answers no address of a master");
}

int kw_redis_sentinel_address(const struct kw_redis_reply *reply, struct kw_redis_host *ret,
                              struct kw_err *err)
{
    uint64_t port;

    if (reply->type == KW_REDIS_NIL)
        return kw_err_set(err, -ENOENT, "knows no master of this name");
    if (reply->type == KW_REDIS_ERROR)
        return kw_err_set(err, -EREMOTEIO, "%.200s", reply->str);
    if (reply->type != KW_REDIS_ARRAY || reply->n_elements != 2)
        return not_an_address(err);
    const struct kw_redis_reply *name = &reply->elements[0], *number = &reply->elements[1];
    if (name->type != KW_REDIS_STRING || number->type != KW_REDIS_STRING || name->len == 0 ||
        name->len > KW_REDIS_MAX_NAME_BYTES ||
        kw_parse_u64_span(number->str, number->len, 1, UINT16_MAX, &port) < 0)
        return not_an_address(err);
    for (size_t i = 0; i < name->len; i++) {
        unsigned char c = (unsigned char)name->str[i];
        if (c <= ' ' || c >= 0x7f)
            return not_an_address(err);
    }
    char *copy = strndup(name->str, name->len);
    if (copy == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    *ret = (struct kw_redis_host){.name = copy, .port = (uint16_t)port};
    return 0;
}

int kw_redis_role_is_master(const struct kw_redis_reply *reply, struct kw_err *err)
{
    static const char master[] = "master";

    if (reply->type == KW_REDIS_ERROR)
        return kw_err_set(err, -EREMOTEIO, "ROLE: %.200s", reply->str);
    if (reply->type != KW_REDIS_ARRAY || reply->n_elements == 0 ||
        reply->elements[0].type != KW_REDIS_STRING)
        return kw_err_set(err, -EPROTO, "ROLE is not answered with a role");
    const struct kw_redis_reply *role = &reply->elements[0];
    if (role->len == strlen(master) && memcmp(role->str, master, role->len) == 0)
        return 0;
    return kw_err_set(err, -EROFS, "is no master but a %.32s; the sentinels have yet to agree",
                      role->str);
}

/* ---- asking ---- */

int kw_redis_check_master(struct kw_redis_link *link, uint64_t deadline_ns, struct kw_err *err)
{
    static const char *const argv[] = {"ROLE"};
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    struct kw_err cause = {0};

    int r = kw_redis_link_ask(link, 1, argv, deadline_ns, &replies, err);
    if (r < 0)
        return r;
    r = kw_redis_role_is_master(&replies.items[0], &cause);
    return r < 0 ? kw_err_set(err, r, "%s: %s", link->label, cause.text) : 0;
}

static int ask_one(const struct kw_redis_sentinels *sentinels, const struct kw_redis_host *host,
                   struct kw_redis_link *link, struct kw_redis_host *ret, struct kw_err *err)
{
    const char *argv[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels->url->master};
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    const struct kw_redis_place place = {.host = host};
    uint64_t deadline_ns = kw_now_ns() + sentinels->timeout_ms * KW_NS_PER_MS;
    struct kw_tls_client_conf tls = {0};
    struct kw_err cause = {0};

    if (sentinels->tls != NULL) {
        tls = *sentinels->tls;
        if (tls.name == NULL)
            tls.name = host->name;
    }
    int r =
        kw_redis_link_open(link, &place, sentinels->tls != NULL ? &tls : NULL, deadline_ns, err);
    if (r == 0)
        r = kw_redis_login(link, sentinels->user, sentinels->password_file, deadline_ns, err);
    if (r == 0)
        r = kw_redis_link_ask(link, KW_ARRAY_SIZE(argv), argv, deadline_ns, &replies, err);
    kw_redis_link_close(link);
    if (r < 0)
        return r;
    r = replies.items != NULL ? kw_redis_sentinel_address(replies.items, ret, &cause)
                              : not_an_address(&cause);
    return r < 0 ? kw_err_set(err, r, "%s: %s", link->label, cause.text) : 0;
}

int kw_redis_sentinels_ask(struct kw_redis_sentinels *sentinels, struct kw_redis_link *link,
                           const char *label, struct kw_redis_host *ret, struct kw_err *err)
{
    const struct kw_redis_url *url = sentinels->url;
    char words[sizeof(err->text)] = "";
    size_t used = 0;
    int r = -ENOENT;

    for (size_t i = 0; i < url->n_hosts; i++) {
        size_t at = (sentinels->first + i) % url->n_hosts;
        struct kw_err one = {0};
        char host[KW_REDIS_MAX_NAME_BYTES + 16];
        kw_redis_host_text(&url->hosts[at], host, sizeof(host));
        (void)snprintf(link->label, sizeof(link->label), "sentinel %s", host);
        r = ask_one(sentinels, &url->hosts[at], link, ret, &one);
        if (r == 0) {
            sentinels->first = at;
            return 0;
        }
        if (r == -ECANCELED)
            break;
        int n = snprintf(words + used, sizeof(words) - used, "%s%s", i > 0 ? "; " : "", one.text);
        used = n < 0 || (size_t)n >= sizeof(words) - used ? sizeof(words) - 1 : used + (size_t)n;
    }
    return kw_err_set(err, r, "%s: %s", label, r == -ECANCELED ? kw_errno_text(r) : words);
}
