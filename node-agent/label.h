/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/pod_record.h"

/**
 * The texts of a workload or container: immutable, shared by the ledger and by the snapshots that
 * show it. The count is not atomic: only the sampling thread takes and drops references (snapshots
 * are freed there too).
 */
struct agent_label {
    unsigned refs;
    enum kw_workload_kind kind;
    enum kw_qos qos; /**< of a pod */
    char *id;
    char *name;
    char *runtime;
    char *cgroup;
    int64_t started_unix_ms; /**< when the agent first saw it */
};

/** A copy of a text with every byte that is no UTF-8 written as "\xNN": cgroups may be called
 * anything, JSON may not hold it.
 * @return caller frees; NULL on ENOMEM. */
char *agent_label_text(const char *text);

/** Copies the texts, made UTF-8; one reference is the caller's. @return 0 or -ENOMEM. */
int agent_label_new(const struct agent_label *texts, struct agent_label **ret);

/** One more reference. @return label. */
struct agent_label *agent_label_ref(struct agent_label *label);

/** Drops a reference; the last one frees. NULL-safe; nulls. */
void agent_label_unref(struct agent_label **label);
