/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/selector.h"

/**
 * What somebody else knows about a workload or container (Kubernetes, a container engine):
 * immutable, comes later than its label and may be replaced. Counted as struct agent_label is, and
 * on the same thread.
 */
struct agent_names {
    unsigned refs;
    char *name;       /**< never empty */
    char *namespace_; /**< "" outside Kubernetes; this and what follows is of pods */
    char *owner_kind; /**< "" where nobody made it */
    char *owner_name;
    struct kw_labels labels;
    uint64_t request_mcpu, request_bytes; /**< of a container; 0: none */
    uint64_t limit_mcpu, limit_bytes;
};

/** Copies the texts; NULL counts as "". One reference is the caller's. @return 0 or -ENOMEM. */
int agent_names_new(const struct agent_names *texts, struct agent_names **ret);

/** One more reference. @param names may be NULL. @return names. */
struct agent_names *agent_names_ref(struct agent_names *names);

/** Drops a reference; the last one frees. NULL-safe; nulls. */
void agent_names_unref(struct agent_names **names);
