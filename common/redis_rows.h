/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/conf.h"
#include "common/redis.h"

/*
 * Rows of an option table (common/conf.h) that every program with a connection to Redis has. They
 * are macros, since a table is one constant array.
 */

/* Members and texts are pasted into the initialisers as they are.
 * NOLINTBEGIN(bugprone-macro-parentheses) */

#define KW_REDIS_URL_FORMS                                                                     \
    "redis://[USER@]HOST[:PORT][/DB]; rediss:// for TLS; "                                     \
    "redis+sentinel://[USER@]HOST[:PORT],.../MASTER[/DB] or rediss+sentinel:// to find it by " \
    "Sentinel; "                                                                               \
    "unix:///PATH"

/**
 * The rows that fill a struct kw_redis_access.
 * @param settings "struct x"; @param member of it; @param heading their group in --help;
 * @param default_url NULL or a URL; @param url_help what the Redis is for.
 */
#define KW_REDIS_ROWS(settings, member, heading, default_url, url_help)                            \
    {.flag = "redis",                                                                              \
     .env = "KWATT_REDIS",                                                                         \
     .key = "redis.url",                                                                           \
     .type = KW_CONF_STRING,                                                                       \
     .offset = offsetof(settings, member.url),                                                     \
     .check = kw_redis_check_url,                                                                  \
     .def = (default_url),                                                                         \
     .metavar = "URL",                                                                             \
     .help = url_help,                                                                             \
     .group = (heading)},                                                                          \
        {.flag = "redis-user",                                                                     \
         .env = "KWATT_REDIS_USER",                                                                \
         .key = "redis.user",                                                                      \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.user),                                                \
         .metavar = "NAME",                                                                        \
         .help = "ACL user; default: the URL's, else Redis' default user",                         \
         .group = (heading)},                                                                      \
        {.flag = "redis-password-file",                                                            \
         .env = "KWATT_REDIS_PASSWORD_FILE",                                                       \
         .key = "redis.passwordFile",                                                              \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.password_file),                                       \
         .metavar = "FILE",                                                                        \
         .help = "file with the password, read again at each connect; default: none",              \
         .group = (heading)},                                                                      \
        {.flag = "redis-ca-file",                                                                  \
         .env = "KWATT_REDIS_CA_FILE",                                                             \
         .key = "redis.caFile",                                                                    \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.ca_file),                                             \
         .metavar = "FILE",                                                                        \
         .help = "TLS: certificates (PEM) of the authorities that vouch for the server; default: " \
                 "the system's.\n"                                                                 \
                 "All files are read again at each connect",                                       \
         .group = (heading)},                                                                      \
        {.flag = "redis-cert-file",                                                                \
         .env = "KWATT_REDIS_CERT_FILE",                                                           \
         .key = "redis.certFile",                                                                  \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.cert_file),                                           \
         .metavar = "FILE",                                                                        \
         .help = "TLS: client certificate with its chain (PEM), where the server wants one; "      \
                 "default: none",                                                                  \
         .group = (heading)},                                                                      \
        {.flag = "redis-key-file",                                                                 \
         .env = "KWATT_REDIS_KEY_FILE",                                                            \
         .key = "redis.keyFile",                                                                   \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.key_file),                                            \
         .metavar = "FILE",                                                                        \
         .help = "TLS: key of the client certificate (PEM, without a pass phrase); default: in "   \
                 "its file",                                                                       \
         .group = (heading)},                                                                      \
        {.flag = "redis-server-name",                                                              \
         .env = "KWATT_REDIS_SERVER_NAME",                                                         \
         .key = "redis.serverName",                                                                \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.server_name),                                         \
         .metavar = "NAME",                                                                        \
         .help = "TLS: name that the server's certificate must have; default: the URL's host or, " \
                 "with\n"                                                                          \
                 "Sentinel, whatever host the sentinels name",                                     \
         .group = (heading)},                                                                      \
        {.flag = "redis-sentinel-user",                                                            \
         .env = "KWATT_REDIS_SENTINEL_USER",                                                       \
         .key = "redis.sentinelUser",                                                              \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.sentinel_user),                                       \
         .metavar = "NAME",                                                                        \
         .help = "ACL user of the sentinels themselves; default: their default user",              \
         .group = (heading)},                                                                      \
        {.flag = "redis-sentinel-password-file",                                                   \
         .env = "KWATT_REDIS_SENTINEL_PASSWORD_FILE",                                              \
         .key = "redis.sentinelPasswordFile",                                                      \
         .type = KW_CONF_STRING,                                                                   \
         .offset = offsetof(settings, member.sentinel_password_file),                              \
         .metavar = "FILE",                                                                        \
         .help = "file with the password of the sentinels themselves; default: none",              \
         .group = (heading)},

/** How long a round trip may take. @param member uint64_t of nanoseconds; @param default_time
 * "2s". */
#define KW_REDIS_TIMEOUT_ROW(settings, member, heading, default_time)           \
    {.flag = "redis-timeout",                                                   \
     .env = "KWATT_REDIS_TIMEOUT",                                              \
     .key = "redis.timeout",                                                    \
     .type = KW_CONF_DURATION_NS,                                               \
     .offset = offsetof(settings, member),                                      \
     .def = (default_time),                                                     \
     .min = 10 * KW_NS_PER_MS,                                                  \
     .max = 60 * KW_NS_PER_S,                                                   \
     .metavar = "TIME",                                                         \
     .help = "longest wait for one answer of Redis; nothing else waits for it", \
     .group = (heading)},

/* NOLINTEND(bugprone-macro-parentheses) */
