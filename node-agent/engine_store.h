/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "node-agent/engine_file.h"

/** A container whose name is wanted. */
struct agent_engine_query {
    const char *id;      /**< 64 hexadecimal digits */
    const char *cgroup;  /**< its path, which says whose it is where its engine runs rootless */
    const char *runtime; /**< "docker", "podman"; "", "containerd": either */
    bool found;
    struct agent_engine_container container;
};

/**
 * Looks containers up in the files of docker and of podman's storage, of the machine and of the
 * users whose containers are asked for. No engine is spoken to; what cannot be read says nothing.
 * @param host_root of the machine's file system, "/" mostly; with or without a slash at its end.
 */
void agent_engine_find(const char *host_root, struct agent_engine_query *queries, size_t n);
