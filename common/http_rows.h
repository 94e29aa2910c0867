/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/conf.h"
#include "common/http_client.h"
#include "common/http_server.h"

/*
 * Rows of an option table (common/conf.h) that every program with an HTTP server has. They are
 * macros, since a table is one constant array.
 */

/* Members and texts are pasted into the initialisers as they are.
 * NOLINTBEGIN(bugprone-macro-parentheses) */

/** The forms of an address, for the help of a row. */
#define KW_HTTP_LISTEN_FORMS                                                     \
    "HOST:PORT, :PORT (all addresses), [IPv6]:PORT or unix:/PATH; port 0 picks " \
    "a free one and logs it"

/**
 * Where to listen.
 * @param settings "struct x"; @param member char * of it; @param heading its group in --help;
 * @param variable of the environment; @param address default; @param served what is there.
 */
#define KW_HTTP_LISTEN_ROW(settings, member, heading, variable, address, served) \
    {.flag = "listen",                                                           \
     .env = (variable),                                                          \
     .key = "listen",                                                            \
     .type = KW_CONF_STRING,                                                     \
     .offset = offsetof(settings, member),                                       \
     .check = kw_http_check_listen,                                              \
     .def = (address),                                                           \
     .metavar = "ADDRESS",                                                       \
     .help = served,                                                             \
     .group = (heading)},

/** The rows of a client, which fill a struct kw_http_client_tls. @param whose "the agent's". */
#define KW_HTTP_CLIENT_TLS_ROWS(settings, member, heading, whose)                             \
    {.flag = "ca-file",                                                                       \
     .type = KW_CONF_STRING,                                                                  \
     .offset = offsetof(settings, member.ca_file),                                            \
     .metavar = "FILE",                                                                       \
     .help = "HTTPS: authorities (PEM) one of which signed " whose " certificate; default: "  \
             "the system's",                                                                  \
     .group = (heading)},                                                                     \
        {.flag = "cert-file",                                                                 \
         .type = KW_CONF_STRING,                                                              \
         .offset = offsetof(settings, member.cert_file),                                      \
         .metavar = "FILE",                                                                   \
         .help = "HTTPS: client certificate (PEM), where one is asked for",                   \
         .group = (heading)},                                                                 \
        {.flag = "key-file",                                                                  \
         .type = KW_CONF_STRING,                                                              \
         .offset = offsetof(settings, member.key_file),                                       \
         .metavar = "FILE",                                                                   \
         .help = "HTTPS: its private key (PEM)",                                              \
         .group = (heading)},                                                                 \
        {.flag = "server-name",                                                               \
         .type = KW_CONF_STRING,                                                              \
         .offset = offsetof(settings, member.server_name),                                    \
         .metavar = "NAME",                                                                   \
         .help = "HTTPS: name that " whose " certificate must have; default: the URL's host", \
         .group = (heading)},

/** The rows that fill a struct kw_http_tls_files, named as those of Kubernetes' programs. */
#define KW_HTTP_TLS_ROWS(settings, member, heading)                                              \
    {.flag = "tls-cert-file",                                                                    \
     .env = "KWATT_TLS_CERT_FILE",                                                               \
     .key = "tls.certFile",                                                                      \
     .type = KW_CONF_STRING,                                                                     \
     .offset = offsetof(settings, member.cert),                                                  \
     .metavar = "FILE",                                                                          \
     .help = "certificate with its chain (PEM): serves HTTPS; default: plain HTTP. All three\n"  \
             "files are read again when they change",                                            \
     .group = (heading)},                                                                        \
        {.flag = "tls-private-key-file",                                                         \
         .env = "KWATT_TLS_PRIVATE_KEY_FILE",                                                    \
         .key = "tls.privateKeyFile",                                                            \
         .type = KW_CONF_STRING,                                                                 \
         .offset = offsetof(settings, member.key),                                               \
         .metavar = "FILE",                                                                      \
         .help = "its private key (PEM, without a passphrase)",                                  \
         .group = (heading)},                                                                    \
        {.flag = "client-ca-file",                                                               \
         .env = "KWATT_CLIENT_CA_FILE",                                                          \
         .key = "tls.clientCaFile",                                                              \
         .type = KW_CONF_STRING,                                                                 \
         .offset = offsetof(settings, member.client_ca),                                         \
         .metavar = "FILE",                                                                      \
         .help = "authorities (PEM) one of which must have signed a client's certificate, for\n" \
                 "all but /healthz and /readyz; default: clients need none",                     \
         .group = (heading)},

/* NOLINTEND(bugprone-macro-parentheses) */
