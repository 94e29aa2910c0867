/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node-agent/requests.h"
#include "tests/support/cgroup_rig.h"

/* Counting requests of real servers: processes in cgroups, and what is counted of them. Failures of
 * the rig itself fail the test. */

/** Holds server.pem, server.key and ca.pem. */
extern char kwt_requests_folder[];
/** What counts now; NULL: nothing. */
extern struct agent_requests *kwt_requests;

/** Sleeps. */
void kwt_sleep_ms(unsigned ms);

/** Starts a program in a cgroup (NULL: stays). @param out where its stdout goes; -1: nowhere. */
pid_t kwt_spawn(const struct kwt_cgroup *cgroup, const char *const *argv, int out);

/** Runs a program to its end. @param text its output; may be NULL. @return its exit code. */
int kwt_run(const char *const *argv, char *text, size_t size);

/** What is counted of a cgroup. */
struct agent_served kwt_served(const struct kwt_cgroup *cgroup);

/** The turns of a cgroup, after waiting for those that are expected: a send is counted when it
 * returns, which its reader may not wait for. */
uint64_t kwt_settled(const struct kwt_cgroup *cgroup, uint64_t expected);

/** Begins to count anew. */
void kwt_count_requests(bool statuses);

/** The same. @param max_cgroups that are kept apart; 0: as in the agent. */
void kwt_count_requests_of(unsigned max_cgroups);

/** Group set-up: ends the process with 77 and a SKIP line where something is missing. */
int kwt_requests_setup(void **state);
int kwt_requests_teardown(void **state);
