/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "tests/sim/cluster/cluster_sim.h"

/*
 * Fleets drawn at random from curves of hundreds of server types (../shared/data/server-curves, not
 * part of the repository), to see what placement does with machines that nothing was tuned on.
 */

/** Server types that are drawn from: of 8 cores or more. */
struct sim_server {
    unsigned cores;
    double watts[KW_CURVE_KNOTS]; /**< at 0, 10 ... 100 % */
};

/** @param path of specpower-fits.csv. @param ret to be freed. @return how many; 0: there is no such
 * file, or no server in it. */
size_t sim_servers_read(const char *path, struct sim_server **ret);

/** A cluster of one to four types and 1 to 80 nodes, a third of them such that may sleep, with a
 * load of 5 to 85 % and pods of one of the traces. Equal numbers, equal clusters.
 * @param n > 0. @param seed of fleet, load and trace. @param pods of the pods that are drawn.
 * @return 0; -ENOENT no recording; -ENOMEM. */
int sim_random_make(const struct sim_server *servers, size_t n, uint64_t seed, uint64_t pods,
                    struct ext_sim_input *ret);
