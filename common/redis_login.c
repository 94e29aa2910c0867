/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AUTH and SELECT at the begin of a connection. The password is read at each connect, wiped after
 * use, and never in an error, for which reason a server's answer to AUTH is not quoted either
 * (Redis repeats the arguments of a command it does not know).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/redis_impl.h"
#include "common/utf8.h"

#define PASSWORD_MAX_BYTES 4096

/* What a server said to AUTH, where it is one of the codes Redis has; anything else could repeat
 * the password. */
static const char *auth_code(const struct kw_redis_reply *reply)
{
    static const char *const codes[] = {"WRONGPASS", "NOAUTH", "NOPERM", "NOPASS", "ERR"};

    for (size_t i = 0; i < KW_ARRAY_SIZE(codes); i++) {
        size_t len = strlen(codes[i]);
        if (reply->len > len && memcmp(reply->str, codes[i], len) == 0 && reply->str[len] == ' ')
            return codes[i];
    }
    return "refused";
}

int kw_redis_login(struct kw_redis_link *link, const char *user, const char *password_file,
                   uint64_t deadline_ns, struct kw_err *err)
{
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    char password[PASSWORD_MAX_BYTES] = "";
    const char *argv[3] = {"AUTH"};
    size_t argc = 1;

    if (user == NULL && password_file == NULL)
        return 0;
    if (password_file != NULL) {
        ssize_t n = kw_file_read_at(AT_FDCWD, password_file, password, sizeof(password));
        if (n < 0)
            return kw_err_set(err, (int)n, "%s: password file %s: %s", link->label, password_file,
                              kw_errno_text((int)n));
        password[strcspn(password, "\r\n")] = '\0';
    }
    if (user != NULL)
        argv[argc++] = user;
    argv[argc++] = password + kw_utf8_mark(password, strlen(password));
    link->discreet = true;
    int r = kw_redis_link_ask(link, argc, argv, deadline_ns, &replies, err);
    link->discreet = false;
    explicit_bzero(password, sizeof(password));
    if (r < 0)
        return r;
    if (replies.items[0].type == KW_REDIS_ERROR)
        return kw_err_set(err, -EACCES, "%s: authentication as %s refused (%s)", link->label,
                          user != NULL ? user : "default", auth_code(&replies.items[0]));
    return 0;
}

int kw_redis_select(struct kw_redis_link *link, uint32_t db, uint64_t deadline_ns,
                    struct kw_err *err)
{
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    char text[16];
    const char *argv[] = {"SELECT", text};

    if (db == 0)
        return 0;
    (void)snprintf(text, sizeof(text), "%u", db);
    int r = kw_redis_link_ask(link, 2, argv, deadline_ns, &replies, err);
    if (r == 0 && replies.items[0].type == KW_REDIS_ERROR)
        r = kw_err_set(err, -EACCES, "%s: SELECT %s refused: %s", link->label, text,
                       replies.items[0].str);
    return r;
}
