/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/meter.h"

/* What sources of several kinds need to describe their domains. */

/**
 * Most that a domain of a kind draws, whatever the machine: no package and no package's memory
 * draws more (the largest socket today is rated 600 W and peaks at twice that), and whole machines
 * with four such sockets stay below the third. Plausibility allows twice as much.
 */
uint64_t agent_domain_bound_mw(enum agent_domain_kind kind);

/** Numbers that packages unknown to the topology were given. Zero-initialised: none. */
struct agent_package_numbers {
    unsigned n;
    uint32_t unknown[AGENT_PACKAGES_MAX];
};

/**
 * Dense number of a physical package: the topology's, or one behind those (a container may see one
 * socket's CPUs and both sockets' counters). Pure.
 * @return 0; -ENOSPC where AGENT_PACKAGES_MAX numbers are taken.
 */
int agent_package_number(struct agent_package_numbers *numbers,
                         const struct agent_topology *topology, uint32_t package_id, unsigned *ret);

/** Where a domain is read, as a label that tells domains apart: "folder/below", of which a folder
 * that is too long loses its beginning. */
void agent_domain_set_path(struct agent_domain *domain, const char *folder, const char *below);

/** Whether two descriptions are of one domain and say the same of it. */
bool agent_domain_same(const struct agent_domain *a, const struct agent_domain *b);

/** Opens a file of a meter for readings with agent_domain_read_number. Does not wait for a pipe: a
 * tree of fixtures may hold anything. @return its descriptor or -errno. */
int agent_domain_open_file(const char *path);

/**
 * Reads the one decimal number of an open file, from its start.
 * @param fd negative: an errno, which is the result.
 * @return 0; -errno of the reading; -ENODATA empty; -EBADMSG anything but a number.
 */
int agent_domain_read_number(int fd, uint64_t *ret);
