/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "node-agent/meter.h"

/*
 * A meter that may take long, read in a thread of its own. A sample takes the last readings, with
 * the time at which they were made, and never waits: not for a reading, not for a rescan, and at
 * the end only ASIDE_END_MS for a meter that blocks for ever (its thread is then left to itself,
 * with all that it uses).
 */

struct agent_aside;

/**
 * Opens the meter and keeps it; its thread starts with the first agent_aside_read, so that it has
 * the privileges of that time.
 * @return 0; the error of ops->open; -ENOMEM.
 */
int agent_aside_open(const struct agent_meter_ops *ops, const struct agent_meter_conf *conf,
                     struct agent_aside **ret, struct kw_err *err);
void agent_aside_close(struct agent_aside **aside);

/** Domains as of the last agent_aside_rescan. @return their number. */
size_t agent_aside_domains(const struct agent_aside *aside, const struct agent_domain **ret);

/** The last readings. A domain that was not read yet has -EAGAIN. @return 0; what the last reading
 * of the meter returned; -errno where no thread could be made. */
int agent_aside_read(struct agent_aside *aside, struct agent_reading *ret);

/** Takes over what the last rescan of the thread found, and asks for another one. @return true
 * where domains changed. */
bool agent_aside_rescan(struct agent_aside *aside);

/** As ops->left_out at the last rescan. */
size_t agent_aside_left_out(const struct agent_aside *aside);
