/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "extender/sim.h"

/*
 * Fleets made up to be awkward: curves of every shape, two nodes or three hundred, pods of a third
 * of a node, use far from requests, memory that is short before processors are, bursts and waves,
 * wake energies without bounds, prices and work that differ. Nothing but a seed is needed.
 */

/** Makes a cluster. Equal numbers, equal clusters.
 * @param seed of fleet, load and kind of pods. @param pods of the pods that are drawn.
 * @return 0 or -ENOMEM. */
int sim_shaped_make(uint64_t seed, uint64_t pods, struct ext_sim_input *ret);
