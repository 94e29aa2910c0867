/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/meter.h"
#include "tests/support/tree.h"

/* Machines with power meters out of machines.txt, which says what its lines mean. */

struct kwt_machine {
    char name[64];
    size_t n;
    char **lines; /* without the line end; "KEYWORD REST" */
};

struct kwt_machines {
    size_t n;
    struct kwt_machine *items;
};

void kwt_machines_read(struct kwt_machines *ret);
void kwt_machines_free(struct kwt_machines *machines);

/** The rest of the first line of a keyword; NULL: none. */
const char *kwt_machine_get(const struct kwt_machine *machine, const char *keyword);

/** Makes the machine's files, those of its CPUs included. */
void kwt_machine_build(const struct kwt_machine *machine, const struct kwt_tree *tree);

/** Moves every counter of a `draw` line on by what it draws in 10 ms. */
void kwt_machine_draw(const struct kwt_machine *machine, const struct kwt_tree *tree);

/** Reads the number that a text begins with. @param ret_rest what follows the blank behind it. */
uint64_t kwt_machine_number(const char *text, const char **ret_rest);
