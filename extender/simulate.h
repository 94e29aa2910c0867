/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/** `kwatt-extender simulate-placement`, which `kwatt simulate placement` runs: what placement would
 * save on a fleet. @param argv argv[0] is skipped. @return exit status: 0; 1 it could not be done;
 * 2 wrong use or a file that cannot be read. */
int ext_simulate(int argc, char **argv, char *const *envp, FILE *out, FILE *err);
