/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/pod_record.h"
#include "api/selector.h"

/**
 * What somebody else knows about a workload or container (Kubernetes, a container engine, QEMU's
 * command line): immutable, comes later than its label and may be replaced. Counted as struct
 * agent_label is, and on the same thread.
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
    char *image; /**< of a container outside Kubernetes; "" unknown */
    bool vm;     /**< it is a machine, whatever its cgroup says */
    char *uuid;  /**< of a machine; "" unknown */
};

/** Kind of a workload: what its cgroup makes of it, or what is known better. @param names may be
 * NULL. */
static inline enum kw_workload_kind agent_names_kind(const struct agent_names *names,
                                                     enum kw_workload_kind kind)
{
    return names != NULL && names->vm ? KW_WORKLOAD_VM : kind;
}

/** Copies the texts; NULL counts as "". One reference is the caller's. @return 0 or -ENOMEM. */
int agent_names_new(const struct agent_names *texts, struct agent_names **ret);

/** One more reference. @param names may be NULL. @return names. */
struct agent_names *agent_names_ref(struct agent_names *names);

/** Whether both say the same; each may be NULL. Labels do not count. */
bool agent_names_same(const struct agent_names *a, const struct agent_names *b);

/** Drops a reference; the last one frees. NULL-safe; nulls. */
void agent_names_unref(struct agent_names **names);
