/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/log.h"
#include "node-agent/accounting.h"
#include "node-agent/options.h"

/**
 * Opens the accounting that the options name, or the first that works, with the features that they
 * ask for, and logs the reasons against the others and against features that cannot be had. Raises
 * this process's limit of open files to what it may be.
 * @param conf its features are filled in.
 * @return 0; -errno with the cause of the last one in `err`.
 */
int agent_accounting_choose(const struct agent_options *options, struct agent_accounting_conf *conf,
                            struct kw_log *log, const struct agent_accounting_ops **ret_ops,
                            void **ret_self, struct kw_err *err);
