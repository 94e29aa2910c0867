/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/** A listen address as the programs take it, taken apart. */
struct cli_address {
    bool unix_socket;
    char host[256]; /**< "" for all addresses; of a unix socket: its path */
    uint16_t port;  /**< 0: any free one */
};

/** Parses "127.0.0.1:9890", ":9890", "[::1]:9890", "host:9890", "unix:/path". @return 0 or -EINVAL
 * with the cause. */
int cli_address_parse(const char *text, struct cli_address *ret, struct kw_err *err);

/** The same without its parts, for a row of options. */
int cli_address_check(const char *text, struct kw_err *err);

#define CLI_ADDRESS_MAX 300

/** As a program's --listen takes it. */
void cli_address_format(const struct cli_address *address, char out[CLI_ADDRESS_MAX]);

/** URL under which a program on this machine reaches it ("" and "0.0.0.0" are reached over
 * loopback); of a unix socket "http://localhost". */
void cli_address_url(const struct cli_address *address, char out[CLI_ADDRESS_MAX]);

/**
 * Whether a program could listen there, by trying; port 0 is replaced by one that was free. Does
 * not resolve names: only numeric hosts and "localhost" are tried, others are left to the program.
 * @return 0; -EADDRINUSE; -EADDRNOTAVAIL; -EACCES ...
 */
int cli_address_probe(struct cli_address *address);
