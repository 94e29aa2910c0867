/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "extender/snapshot.h"

/*
 * Nodes that are machines of one model learn one truth, each with a meter that is some percent off
 * and from loads of its own. Priced by their own curves, one of two equal nodes always looks the
 * cheaper, and the other stays empty or is filled beyond its knee for a difference that is none. So
 * they share a curve, which is surer than each of theirs, and a new one need not learn at all.
 */

/** A node whose own curve above idle is this much off the others', on the mean where it is sure, is
 * another machine after all (memory, cards, a broken meter) and keeps it. Bounds what a hostile
 * node can do to those that it claims to be like. */
#define EXT_POOL_APART 0.2

/** Takes what an agent knows of its node: capacity, watts, class and the hull of that curve alone;
 * a node that shares a hull keeps it until its class is settled anew.
 * @param node pricing is set. @param curve one that kw_curve_check accepts. */
void ext_pool_take(struct ext_node *node, const struct kw_curve *curve);

/** Builds the hull of a node's own curve anew: its pricing has changed. What is shared is to be
 * settled after that. */
void ext_pool_reprice(struct ext_node *node);

/**
 * Gives nodes of one machine the hull of one curve: at each knot the median of those that are at
 * least half as sure of it as the surest. Pure: any order of nodes gives the same hulls, and those
 * of one class and pricing are equal to the bit.
 * @param nodes has_curve where ext_pool_take took one.
 * @return 0 or -ENOMEM, which leaves them as they were.
 */
int ext_pool_settle(struct ext_node *nodes, size_t n);

/** Tells nodes that share a curve and a price of energy how full they are on the mean
 * (ext_node.peers_fill), those that sleep excepted, and all whether there are others
 * (ext_node.alike). Pure: any order of nodes gives the same. @return whether any has changed. */
bool ext_pool_level(struct ext_node *nodes, size_t n);

/** How much more work than there is now nodes are priced for: pods come, and by the time that there
 * is so much these are still there. In the simulator, unlike machines at 2 % of load take 2 % less
 * than spreading at 1 and 1.25, as much at 1.5 and 1 % more at 2; at 5 to 15 % of load they take
 * half a percent less at 1.25 than at 1. */
#define EXT_POOL_REACH 1.25

/**
 * Finds how far the work that is there would fill each node (ext_pricing.reach), and builds the
 * hulls anew where that has changed. Pure: any order of nodes gives the same.
 * @param nodes with what is in flight. @return 1: some have changed; 0: none has; -ENOMEM: some
 * have, and are priced by their own curves until they are settled.
 */
int ext_pool_reach(struct ext_node *nodes, size_t n);
