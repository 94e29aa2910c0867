/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/accounting.h"

/*
 * What the programs cost that are not at a switch: at soft interrupts, and at the sockets' ends of
 * sends, receives and changes of state, each beside an empty program of the same run. Half of the
 * sends and receives are the client's, whose sockets have no mark.
 */

/** Prints a figure, or says on stderr why there is none. @return 0; 1: the load failed. */
int bench_hook_softirq(const struct agent_accounting_conf *conf);

/** The same, three figures. */
int bench_hook_requests(const struct agent_accounting_conf *conf);
