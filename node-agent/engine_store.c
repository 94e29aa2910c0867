/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Docker keeps a file for each container, by its id; containers-storage keeps one list, which is
 * read once for all that is asked for. Both say where they are if not in the usual place.
 *
 * A user's own files are the user's to write, so they name containers below that user's slice only,
 * are read where they are regular files, and up to a size.
 */
#include "node-agent/engine_store.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"
#include "node-agent/path_part.h"

/* A config.v2.json holds the environment and the labels of its container: some KiB. */
#define DOCKER_MAX  ((size_t)4 << 20)
/* The list has about 1 KiB for each container, ended ones included. */
#define STORAGE_MAX ((size_t)64 << 20)
#define CONF_MAX    ((size_t)1 << 20)

#define SYSTEM UINT64_MAX

struct search {
    const char *host_root;
    struct agent_engine_query *queries;
    size_t n;
    uint64_t owner; /* SYSTEM, or a user's number */
};

/** Whose engine runs a container: the user in whose slice it is. */
static uint64_t owner_of(const char *cgroup)
{
    for (struct agent_part part = agent_part_first(cgroup); part.len > 0;
         part = agent_part_next(part)) {
        uint64_t uid;
        if (agent_part_strip_prefix(&part, "user-")) {
            struct agent_part number = part;
            if (agent_part_strip_suffix(&number, ".slice") &&
                kw_parse_u64_span(number.at, number.len, 0, UINT32_MAX, &uid) == 0)
                return uid;
        }
    }
    return SYSTEM;
}

/* A cgroup that only has the id is often docker's, which runs its containers by containerd. */
static bool is_wanted(const struct search *search, const struct agent_engine_query *query,
                      const char *runtime)
{
    return !query->found && owner_of(query->cgroup) == search->owner &&
           (query->runtime[0] == '\0' || strcmp(query->runtime, runtime) == 0 ||
            strcmp(query->runtime, "containerd") == 0);
}

static bool any_wanted(const struct search *search, const char *runtime)
{
    for (size_t i = 0; i < search->n; i++) {
        if (is_wanted(search, &search->queries[i], runtime))
            return true;
    }
    return false;
}

/** Reads a file of the machine. @return 0; -errno. */
static int slurp(const struct search *search, const char *folder, const char *file, size_t limit,
                 char **ret, size_t *ret_len)
{
    char path[PATH_MAX];
    size_t root_len = strlen(search->host_root);

    while (root_len > 0 && search->host_root[root_len - 1] == '/')
        root_len--;
    if (snprintf(path, sizeof(path), "%.*s%s/%s", (int)root_len, search->host_root, folder, file) >=
        (int)sizeof(path))
        return -ENAMETOOLONG;
    return kw_file_slurp_regular(path, limit, ret, ret_len);
}

static void read_docker(struct search *search, const char *root)
{
    for (size_t i = 0; i < search->n; i++) {
        struct agent_engine_query *query = &search->queries[i];
        struct agent_engine_container container;
        char file[128];
        kw_cleanup_free char *json = NULL;
        size_t len = 0;
        if (!is_wanted(search, query, "docker"))
            continue;
        (void)snprintf(file, sizeof(file), "containers/%.64s/config.v2.json", query->id);
        if (slurp(search, root, file, DOCKER_MAX, &json, &len) < 0 ||
            agent_engine_docker(json, len, &container) < 0 || strcmp(container.id, query->id) != 0)
            continue;
        query->container = container;
        query->found = true;
    }
}

static void take_stored(void *user, const struct agent_engine_container *container)
{
    struct search *search = user;

    for (size_t i = 0; i < search->n; i++) {
        struct agent_engine_query *query = &search->queries[i];
        if (!is_wanted(search, query, "podman") || strcmp(query->id, container->id) != 0)
            continue;
        query->container = *container;
        query->found = true;
    }
}

static void read_storage(struct search *search, const char *root)
{
    /* where each storage driver lists containers; the volatile ones are those that do not outlive
     * a boot */
    static const char *const files[] = {
        "overlay-containers/containers.json", "overlay-containers/volatile-containers.json",
        "vfs-containers/containers.json",     "vfs-containers/volatile-containers.json",
        "btrfs-containers/containers.json",   "btrfs-containers/volatile-containers.json",
        "zfs-containers/containers.json",     "zfs-containers/volatile-containers.json",
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(files) && any_wanted(search, "podman"); i++) {
        kw_cleanup_free char *json = NULL;
        size_t len = 0;
        if (slurp(search, root, files[i], STORAGE_MAX, &json, &len) == 0)
            (void)agent_engine_storage(json, len, take_stored, search);
    }
}

typedef int root_fn(const char *text, size_t len, char *ret, size_t size);

/** The folder that a configuration file names. */
static bool configured(const struct search *search, const char *folder, const char *file,
                       root_fn *find, char root[PATH_MAX])
{
    kw_cleanup_free char *text = NULL;
    size_t len = 0;

    return slurp(search, folder, file, CONF_MAX, &text, &len) == 0 &&
           find(text, len, root, PATH_MAX) == 0;
}

static void search_system(struct search *search)
{
    char root[PATH_MAX];

    if (any_wanted(search, "docker")) {
        if (configured(search, "/etc/docker", "daemon.json", agent_engine_docker_root, root))
            read_docker(search, root);
        read_docker(search, "/var/lib/docker");
        read_docker(search, "/var/snap/docker/common/var-lib-docker");
    }
    if (any_wanted(search, "podman")) {
        if (configured(search, "/etc/containers", "storage.conf", agent_engine_storage_root, root))
            read_storage(search, root);
        read_storage(search, "/var/lib/containers/storage");
        read_storage(search, "/run/containers/storage");
    }
}

static void search_user(struct search *search)
{
    char home[PATH_MAX - 64], root[PATH_MAX];
    kw_cleanup_free char *passwd = NULL;
    size_t len = 0;

    if (slurp(search, "/etc", "passwd", CONF_MAX, &passwd, &len) < 0 ||
        agent_engine_home(passwd, len, (uint32_t)search->owner, home, sizeof(home)) < 0)
        return;
    (void)snprintf(root, sizeof(root), "%s/.local/share/docker", home);
    read_docker(search, root);
    (void)snprintf(root, sizeof(root), "%s/.local/share/containers/storage", home);
    read_storage(search, root);
    (void)snprintf(root, sizeof(root), "/run/user/%u/containers", (unsigned)search->owner);
    read_storage(search, root);
}

void agent_engine_find(const char *host_root, struct agent_engine_query *queries, size_t n)
{
    struct search search = {host_root, queries, n, SYSTEM};

    for (size_t i = 0; i < n; i++)
        queries[i].found = false;
    search_system(&search);
    for (size_t i = 0; i < n; i++) {
        uint64_t owner = owner_of(queries[i].cgroup);
        bool before = false;
        for (size_t k = 0; k < i; k++)
            before = before || owner_of(queries[k].cgroup) == owner;
        if (owner == SYSTEM || before)
            continue;
        search.owner = owner;
        search_user(&search);
    }
}
