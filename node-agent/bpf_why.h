/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/err.h"

/**
 * Says why the kernel refused a step of loading a BPF program, and what would bring it: missing
 * BTF, missing capabilities, kernel lockdown, a kernel that is too old.
 * @param r negative errno of the refusal.
 * @param step what was tried ("loading the BPF program").
 * @param procfs_root where self/status is looked for.
 * @param verifier_log its last line is quoted; NULL or "": none.
 * @return r.
 */
int agent_bpf_why(struct kw_err *err, int r, const char *step, const char *procfs_root,
                  const char *verifier_log);
