/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netdb.h>
#include <stdint.h>

/**
 * Addresses of a host before a deadline. A numeric address is taken as such, at once; a name is
 * asked for on a thread of its own, which is left behind where it takes too long.
 * @param deadline_ns by kw_now_ns.
 * @param ret_list for TCP; freeaddrinfo() ends it.
 * @param ret_cause static text, set on failure.
 * @return 0; -EHOSTUNREACH no such host; -ETIMEDOUT; -ENOMEM; -EAGAIN no thread.
 */
int kw_resolve(const char *host, uint16_t port, uint64_t deadline_ns, struct addrinfo **ret_list,
               const char **ret_cause);
