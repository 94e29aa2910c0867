/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "common/clock.h"
#include "common/conf.h"
#include "common/kube_lease.h"

/*
 * Rows of an option table (common/conf.h) that fill a struct kw_kube_lease_settings. The times and
 * their defaults are those of Kubernetes' own components.
 */

/* Members and texts are pasted into the initialisers as they are.
 * NOLINTBEGIN(bugprone-macro-parentheses) */

/** @param settings "struct x"; @param member of it; @param heading their group in --help; @param
 * default_name of the Lease. */
#define KW_LEASE_ROWS(settings, member, heading, default_name)                                   \
    {.flag = "leader-elect",                                                                     \
     .env = "KWATT_LEADER_ELECT",                                                                \
     .key = "leaderElection.enabled",                                                            \
     .type = KW_CONF_BOOL,                                                                       \
     .offset = offsetof(settings, member.enabled),                                               \
     .def = "false",                                                                             \
     .help = "of several replicas only the one that holds a Lease writes; the others stand by. " \
             "To be\n"                                                                           \
             "given to all of them or to none",                                                  \
     .group = (heading)},                                                                        \
        {.flag = "leader-elect-namespace",                                                       \
         .env = "KWATT_LEADER_ELECT_NAMESPACE",                                                  \
         .key = "leaderElection.namespace",                                                      \
         .type = KW_CONF_STRING,                                                                 \
         .offset = offsetof(settings, member.namespace_),                                        \
         .metavar = "NAMESPACE",                                                                 \
         .help = "namespace of the Lease; default: the pod's own",                               \
         .group = (heading)},                                                                    \
        {.flag = "leader-elect-name",                                                            \
         .env = "KWATT_LEADER_ELECT_NAME",                                                       \
         .key = "leaderElection.name",                                                           \
         .type = KW_CONF_STRING,                                                                 \
         .offset = offsetof(settings, member.name),                                              \
         .def = (default_name),                                                                  \
         .min = 1,                                                                               \
         .max = 253,                                                                             \
         .metavar = "NAME",                                                                      \
         .help = "name of the Lease: replicas that share it share the work",                     \
         .group = (heading)},                                                                    \
        {.flag = "leader-elect-lease-duration",                                                  \
         .env = "KWATT_LEADER_ELECT_LEASE_DURATION",                                             \
         .key = "leaderElection.leaseDuration",                                                  \
         .type = KW_CONF_DURATION_NS,                                                            \
         .offset = offsetof(settings, member.duration_ns),                                       \
         .def = "15s",                                                                           \
         .min = 2 * KW_NS_PER_S,                                                                 \
         .max = 3600 * KW_NS_PER_S,                                                              \
         .metavar = "TIME",                                                                      \
         .help = "how long after its last renewal another replica takes over",                   \
         .group = (heading)},                                                                    \
        {.flag = "leader-elect-renew-deadline",                                                  \
         .env = "KWATT_LEADER_ELECT_RENEW_DEADLINE",                                             \
         .key = "leaderElection.renewDeadline",                                                  \
         .type = KW_CONF_DURATION_NS,                                                            \
         .offset = offsetof(settings, member.renew_deadline_ns),                                 \
         .def = "10s",                                                                           \
         .min = KW_NS_PER_S,                                                                     \
         .max = 3600 * KW_NS_PER_S,                                                              \
         .metavar = "TIME",                                                                      \
         .help = "how long after its last renewal the leader stops writing; below the duration " \
                 "by what a\n"                                                                   \
                 "write may take",                                                               \
         .group = (heading)},                                                                    \
        {.flag = "leader-elect-retry-period",                                                    \
         .env = "KWATT_LEADER_ELECT_RETRY_PERIOD",                                               \
         .key = "leaderElection.retryPeriod",                                                    \
         .type = KW_CONF_DURATION_NS,                                                            \
         .offset = offsetof(settings, member.retry_ns),                                          \
         .def = "2s",                                                                            \
         .min = 100 * KW_NS_PER_MS,                                                              \
         .max = 600 * KW_NS_PER_S,                                                               \
         .metavar = "TIME",                                                                      \
         .help = "time between two renewals, or looks at the Lease",                             \
         .group = (heading)},

/* NOLINTEND(bugprone-macro-parentheses) */
