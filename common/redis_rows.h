/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/conf.h"
#include "common/redis.h"

/*
 * Rows of an option table (common/conf.h) that every program with a connection to Redis has. They
 * are macros, since a table is one constant array.
 */

#define KW_REDIS_URL_FORMS "redis://[USER@]HOST[:PORT][/DB] or unix:///PATH"

/**
 * The rows that fill a struct kw_redis_access.
 * @param settings "struct x"; @param member of it; @param heading their group in --help;
 * @param default_url NULL or a URL; @param url_help what the Redis is for.
 */
#define KW_REDIS_ROWS(settings, member, heading, default_url, url_help)               \
    {.flag = "redis",                                                                 \
     .env = "KWATT_REDIS",                                                            \
     .key = "redis.url",                                                              \
     .type = KW_CONF_STRING,                                                          \
     .offset = offsetof(settings, member.url),                                        \
     .def = (default_url),                                                            \
     .metavar = "URL",                                                                \
     .help = url_help,                                                                \
     .group = (heading)},                                                             \
        {.flag = "redis-user",                                                        \
         .env = "KWATT_REDIS_USER",                                                   \
         .key = "redis.user",                                                         \
         .type = KW_CONF_STRING,                                                      \
         .offset = offsetof(settings, member.user),                                   \
         .metavar = "NAME",                                                           \
         .help = "ACL user; default: the URL's, else Redis' default user",            \
         .group = (heading)},                                                         \
        {.flag = "redis-password-file",                                               \
         .env = "KWATT_REDIS_PASSWORD_FILE",                                          \
         .key = "redis.passwordFile",                                                 \
         .type = KW_CONF_STRING,                                                      \
         .offset = offsetof(settings, member.password_file),                          \
         .metavar = "FILE",                                                           \
         .help = "file with the password, read again at each connect; default: none", \
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
