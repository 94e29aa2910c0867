/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/cgroup_procs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"

#define TEXT_MIN 4096
#define TEXT_MAX ((size_t)AGENT_PIDS_MAX * 8)

void agent_pids_free(struct agent_pids *pids)
{
    free(pids->ids);
    free(pids->text);
    *pids = (struct agent_pids){0};
}

static int add(struct agent_pids *pids, pid_t pid)
{
    if (pids->n == pids->cap) {
        size_t cap = pids->cap == 0 ? 64 : 2 * pids->cap;
        pid_t *ids = reallocarray(pids->ids, cap, sizeof(*ids));
        if (ids == NULL)
            return -ENOMEM;
        pids->ids = ids;
        pids->cap = cap;
    }
    pids->ids[pids->n++] = pid;
    return 0;
}

int agent_pids_parse(const char *text, size_t len, struct agent_pids *ret)
{
    int hidden = 0;

    ret->n = 0;
    for (size_t at = 0; at < len && ret->n < AGENT_PIDS_MAX;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end != NULL ? (size_t)(end - text) - at : len - at;
        uint64_t pid = 0;
        if (kw_parse_u64_span(text + at, n, 0, INT32_MAX, &pid) == 0) {
            if (pid == 0)
                hidden++;
            else if (add(ret, (pid_t)pid) < 0)
                return -ENOMEM;
        }
        at += n + 1;
    }
    return hidden;
}

/** Reads the file as a whole, in as much memory as it takes. @return bytes; -errno. */
static ssize_t read_all(int fd, struct agent_pids *pids)
{
    size_t len = 0;

    for (;;) {
        if (pids->text_cap - len < TEXT_MIN / 2 && pids->text_cap < TEXT_MAX) {
            size_t cap = pids->text_cap == 0 ? TEXT_MIN : 2 * pids->text_cap;
            char *text = realloc(pids->text, cap);
            if (text == NULL)
                return -ENOMEM;
            pids->text = text;
            pids->text_cap = cap;
        }
        ssize_t n = read(fd, pids->text + len, pids->text_cap - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        len += (size_t)n;
        if (n == 0 || len == pids->text_cap)
            return (ssize_t)len;
    }
}

bool agent_procfs_is_foreign(const char *procfs_root)
{
    char path[PATH_MAX], text[32];
    uint64_t pid = 0;

    /* it calls this process by the number that it has in the procfs' own namespace */
    if (kw_path_join(path, sizeof(path), procfs_root, "self") < 0)
        return false;
    ssize_t n = readlink(path, text, sizeof(text));
    return n > 0 && kw_parse_u64_span(text, (size_t)n, 1, INT32_MAX, &pid) == 0 &&
           (pid_t)pid != getpid();
}

int agent_cgroup_procs_read(const struct agent_cgroup_mounts *mounts,
                            enum agent_hierarchy hierarchy, const char *path,
                            struct agent_pids *ret)
{
    char file[PATH_MAX];
    const char *mount = mounts->paths[hierarchy];

    ret->n = 0;
    if (mount[0] == '\0')
        return -ENOENT;
    if (snprintf(file, sizeof(file), "%s%s/cgroup.procs", mount, path) >= (int)sizeof(file))
        return -ENAMETOOLONG;
    kw_cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t n = read_all(fd, ret);
    if (n < 0)
        return (int)n;
    int hidden = agent_pids_parse(ret->text, (size_t)n, ret);
    if (hidden < 0)
        return hidden;
    return hidden > 0 && ret->n == 0 ? -EACCES : 0;
}
