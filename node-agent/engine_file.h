/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Files in which container engines keep what they know, as bytes (pure). */

/** What an engine says of a container. */
struct agent_engine_container {
    char id[65];     /**< 64 hexadecimal digits */
    char name[256];  /**< never empty */
    char image[512]; /**< as asked for: "docker.io/library/nginx:1.25"; "" unknown */
};

/**
 * Docker's containers/ID/config.v2.json.
 * @return 0; -EBADMSG not such a file, or a name or id that no container can have.
 */
int agent_engine_docker(const char *json, size_t len, struct agent_engine_container *ret);

/**
 * The containers.json of containers-storage, as podman (and buildah, and CRI-O) has it. One that is
 * damaged in itself is passed over.
 * @param fn called for each container. @return 0; -EBADMSG: what came before counts; -ENOMEM.
 */
int agent_engine_storage(const char *json, size_t len,
                         void (*fn)(void *user, const struct agent_engine_container *container),
                         void *user);

/** Where docker keeps its files, by its daemon.json: "data-root", and "graph" of old ones.
 * @return 0; -ENOENT it does not say; -EBADMSG; -ENAMETOOLONG. */
int agent_engine_docker_root(const char *json, size_t len, char *ret, size_t size);

/** Where containers-storage keeps its files, by a storage.conf: graphroot. @return as above. */
int agent_engine_storage_root(const char *toml, size_t len, char *ret, size_t size);

/** The home of a user, by the text of /etc/passwd. @return as above. */
int agent_engine_home(const char *passwd, size_t len, uint32_t uid, char *ret, size_t size);
