/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/conf.h"
#include "common/log.h"

/** The row of an option table (common/conf.h) that every program with a log has. @param settings
 * "struct x"; @param member of it, unsigned: enum kw_log_level; @param heading its group in --help.
 */
#define KW_LOG_ROW(settings, member, heading)  \
    {.flag = "log-level",                      \
     .env = "KWATT_LOG_LEVEL",                 \
     .key = "logLevel",                        \
     .type = KW_CONF_CHOICE,                   \
     .offset = offsetof(settings, member),     \
     .def = "info",                            \
     .choices = kw_log_level_names,            \
     .metavar = "LEVEL",                       \
     .help = "least severe messages to write", \
     .group = (heading)},
