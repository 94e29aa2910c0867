/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/recording.h"

/* The workloads of a recording by their numbers, in the order in which they came. */

struct agent_recording_parties;

/** With the system, number 0, as the first. @return 0 or -ENOMEM. */
int agent_recording_parties_new(struct agent_recording_parties **ret);
void agent_recording_parties_free(struct agent_recording_parties **parties);

/** Finds one or takes it in. @param ret valid until the next call. @return 0; -E2BIG; -ENOMEM. */
int agent_recording_parties_meet(struct agent_recording_parties *parties, uint64_t number,
                                 struct agent_recording_party **ret);

/** Says what one is called. @param kind, name may be NULL. @return 0 or -ENOMEM. */
int agent_recording_parties_name(struct agent_recording_party *party, const char *kind,
                                 const char *id, const char *name);

/** All. @return their number. */
size_t agent_recording_parties_all(const struct agent_recording_parties *parties,
                                   const struct agent_recording_party **ret);

/** @return place of a number; SIZE_MAX: there was none. */
size_t agent_recording_parties_place(const struct agent_recording_parties *parties,
                                     uint64_t number);
