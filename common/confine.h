/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/conf.h"
#include "common/err.h"

/*
 * What this process may still ask of the kernel: a seccomp filter that lets through what a network
 * server needs. Programs, processes, name spaces, modules, other processes' memory and files by
 * handle are out of reach from then on, whatever a bug makes of the process. It cannot be taken
 * back.
 */

/**
 * Sets no_new_privs and the filter, for all threads there are and will be. A system call that is
 * not allowed fails with EPERM; one that the filter's library does not know, and clone3, whose
 * flags a filter cannot see, with ENOSYS, so that the C library takes its older way.
 * @param more names of system calls allowed beside those of every program, ends with NULL; NULL:
 *        none. A name that this machine's architecture does not have is passed over.
 * @return 0; -errno where the kernel or the library cannot: nothing but no_new_privs has changed
 *         then, and the program may go on.
 */
int kw_confine(const char *const *more, struct kw_err *err);

/** The row of an option table that every program with a filter has. @param member of its settings,
 * bool. */
#define KW_CONFINE_ROW(settings, member, heading)                                              \
    {.flag = "seccomp",                                                                        \
     .env = "KWATT_SECCOMP",                                                                   \
     .key = "seccomp",                                                                         \
     .type = KW_CONF_BOOL,                                                                     \
     .offset = offsetof(settings, member),                                                     \
     .def = "true",                                                                            \
     .help = "refuse system calls that the program does not need; off: for a C library that\n" \
             "needs others",                                                                   \
     .group = (heading)},
