/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Certificates made for the occasion, by openssl. Names are files of `folder`: NAME.key, NAME.pem.
 */

/** Splits a command line at blanks (its arguments hold none), and starts it in `folder`. @param out
 * its stdout; -1: none. @return pid or -1. */
pid_t kwt_openssl_spawn(const char *folder, const char *line, int out);

/** Whether openssl ran and succeeded. */
bool kwt_openssl(const char *folder, const char *line);

/** An authority. */
void kwt_pki_authority(const char *folder, const char *name);

/** What an authority signs. @param days of validity; negative: it has expired. @param san
 * "DNS:kwatt.test,IP:127.0.0.1". */
void kwt_pki_leaf(const char *folder, const char *name, const char *authority, int days,
                  const char *san);
