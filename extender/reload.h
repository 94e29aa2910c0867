/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "extender/caps.h"
#include "extender/options.h"
#include "extender/service.h"

/*
 * Settings that can change while requests are answered, and what they are turned into: how pods are
 * read (--stale-after, --default-cpu-mcpu, --request-use-percent, --own-namespace, --dry-run), caps
 * (--cap-soft-permille, --cap-sigma-permille) and --log-level. The others are of sockets, threads
 * and connections, and hold from the start to the end.
 */

/** How pods are read. */
struct ext_policy ext_reload_policy(const struct ext_settings *settings);

/** How caps are read. */
struct ext_cap_policy ext_reload_caps(const struct ext_settings *settings);

/**
 * Names the options that differ and cannot change any more: "--listen --threads".
 * @param running as at the start.
 * @param ret_flags empty; stays so where there is none.
 * @return 0 or -ENOMEM.
 */
int ext_reload_later(const struct ext_settings *running, const struct ext_settings *fresh,
                     struct kw_buf *ret_flags);
