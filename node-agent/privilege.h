/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

/** Room for the names of the capabilities that are kept. */
#define AGENT_PRIVILEGE_TEXT 256

/**
 * Gives up, for good, every capability but those that sampling needs (CAP_BPF, CAP_PERFMON,
 * CAP_DAC_READ_SEARCH; on kernels that do not know the first two, CAP_SYS_ADMIN in their place),
 * from the bounding set too, and sets no_new_privs. Call after BPF is loaded and before threads are
 * made: capabilities belong to a thread.
 * @param bpf whether BPF maps are read from here on; CAP_BPF goes, too, where not.
 * @param kept what is left, for the log: "cap_bpf,cap_perfmon", or "none".
 * @return 0 or -errno.
 */
int agent_privilege_drop(bool bpf, char kept[AGENT_PRIVILEGE_TEXT]);

/** Lets through the system calls that sampling and publishing need, and no others
 * (common/confine.h).
 * @return 0; -errno with the cause: the agent may go on without. */
int agent_privilege_confine(struct kw_err *err);
