/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/buf.h"

/*
 * What kube-scheduler asks an extender, byte for byte as Go's HTTP client sends it, about nodes of
 * fleet.h.
 */

/** How the nodes of requests follow each other. */
enum question_order {
    QUESTION_SAME,     /**< as the fleet has them, each time */
    QUESTION_ROTATED,  /**< beginning elsewhere each time, as kube-scheduler does */
    QUESTION_SHUFFLED, /**< in any order, another each time: worse than its sixteen workers make it
                        */
};

/** Turns after which orders come again. */
#define QUESTION_TURNS 16

struct question_nodes {
    unsigned n, of;  /**< every (of / n)th of the fleet's first `of` */
    bool whole;      /**< Node objects of 14 kB in place of names */
    bool other_pods; /**< one of another size each time, in place of pods of one workload */
    enum question_order order;
};

/** Appends a request with a pod of about 3 kB. @param path without its slash. @param turn below
 * QUESTION_TURNS. @return 0 or -ENOMEM. */
int question_add(struct kw_buf *out, const char *path, const struct question_nodes *nodes,
                 unsigned turn);
