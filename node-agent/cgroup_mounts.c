/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/cgroup_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"

/*
 * A line of mountinfo: "36 25 0:31 ROOT MOUNTPOINT OPTIONS [TAGS...] - TYPE SOURCE SUPEROPTIONS".
 * Blanks in paths are written \040. A hierarchy may be mounted several times (containers,
 * namespaces): a mount of its root is better than one of a part, one below sysfs_root better than
 * one that had to be moved there, and of equals the first counts.
 */

/* A node with a thousand pods has some ten thousand mounts of 200 bytes. */
#define MOUNTINFO_MAX (16u << 20)

struct span {
    const char *at;
    size_t len;
};

static struct span next_field(const char **at, const char *end)
{
    while (*at < end && **at == ' ')
        (*at)++;
    struct span field = {*at, 0};
    while (*at < end && **at != ' ')
        (*at)++;
    field.len = (size_t)(*at - field.at);
    return field;
}

static bool span_is(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.at, text, span.len) == 0;
}

/* Whether a comma-separated list holds `word`. */
static bool list_has(struct span list, const char *word)
{
    size_t n = strlen(word);

    for (size_t at = 0; at < list.len;) {
        const char *comma = memchr(list.at + at, ',', list.len - at);
        size_t end = comma != NULL ? (size_t)(comma - list.at) : list.len;
        if (end - at == n && memcmp(list.at + at, word, n) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

static bool is_octal(const char *digits)
{
    return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' &&
           digits[2] >= '0' && digits[2] <= '7';
}

/* Undoes the \ooo escapes. @return false where it does not fit or holds a NUL. */
static bool unescape(struct span span, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < span.len; i++) {
        char c = span.at[i];
        if (c == '\\' && i + 3 < span.len && is_octal(span.at + i + 1)) {
            c = (char)((span.at[i + 1] - '0') * 64 + (span.at[i + 2] - '0') * 8 +
                       (span.at[i + 3] - '0'));
            i += 3;
        }
        if (c == '\0' || n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static bool is_below(const char *path, const char *root)
{
    size_t n = strlen(root);

    return strlen(path) > n && memcmp(path, root, n) == 0 && path[n] == '/';
}

/* Where a mount point is to be looked for. @return 2 as it stands, 1 moved below sysfs_root, 0 not
 * at all. */
static int place(const char *point, const char *sysfs_root, char out[PATH_MAX])
{
    int n;

    if (strcmp(sysfs_root, "/sys") == 0 || is_below(point, sysfs_root)) {
        n = snprintf(out, PATH_MAX, "%s", point);
        return n < PATH_MAX ? (is_below(point, sysfs_root) ? 2 : 1) : 0;
    }
    if (!is_below(point, "/sys"))
        return 0;
    n = snprintf(out, PATH_MAX, "%s%s", sysfs_root, point + strlen("/sys"));
    return n < PATH_MAX ? 1 : 0;
}

struct parse {
    const char *sysfs_root;
    int rank[AGENT_HIERARCHY__MAX]; /* of the mount taken so far; 0: none */
    struct agent_cgroup_mounts *ret;
};

static void take(struct parse *parse, enum agent_hierarchy which, int rank, const char *path)
{
    if (rank > parse->rank[which]) {
        parse->rank[which] = rank;
        (void)snprintf(parse->ret->paths[which], PATH_MAX, "%s", path);
    }
}

static void parse_line(struct parse *parse, const char *line, const char *end)
{
    const char *at = line;

    for (int i = 0; i < 3; i++)
        (void)next_field(&at, end);
    struct span root = next_field(&at, end);
    struct span mountpoint = next_field(&at, end);
    struct span field;
    do {
        field = next_field(&at, end);
    } while (field.len > 0 && !span_is(field, "-"));
    struct span type = next_field(&at, end);
    (void)next_field(&at, end);
    struct span options = next_field(&at, end);
    bool v2 = span_is(type, "cgroup2");
    if (!v2 && !span_is(type, "cgroup"))
        return;
    char point[PATH_MAX] = "", path[PATH_MAX];
    if (!unescape(mountpoint, point, sizeof(point)))
        return;
    int rank = place(point, parse->sysfs_root, path);
    if (rank == 0)
        return;
    rank += span_is(root, "/") ? 2 : 0;
    if (v2)
        take(parse, AGENT_HIERARCHY_V2, rank, path);
    if (!v2 && list_has(options, "cpuacct"))
        take(parse, AGENT_HIERARCHY_CPUACCT, rank, path);
    if (!v2 && list_has(options, "memory"))
        take(parse, AGENT_HIERARCHY_MEMORY, rank, path);
}

void agent_cgroup_mounts_parse(const char *text, size_t len, const char *sysfs_root,
                               struct agent_cgroup_mounts *ret)
{
    struct parse parse = {.sysfs_root = sysfs_root, .ret = ret};

    (void)memset(ret, 0, sizeof(*ret));
    for (const char *at = text, *end = text + len; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        parse_line(&parse, at, stop);
        at = stop + (newline != NULL);
    }
}

/* Where mountinfo says nothing (a fixture, a hidden /proc): the places that distributions use. */
static void guess(const char *sysfs_root, struct agent_cgroup_mounts *ret)
{
    static const struct {
        enum agent_hierarchy which;
        const char *path, *file;
    } places[] = {
        {AGENT_HIERARCHY_V2, "fs/cgroup", "cgroup.controllers"},
        {AGENT_HIERARCHY_V2, "fs/cgroup/unified", "cgroup.controllers"},
        {AGENT_HIERARCHY_CPUACCT, "fs/cgroup/cpu,cpuacct", "cpuacct.usage"},
        {AGENT_HIERARCHY_CPUACCT, "fs/cgroup/cpuacct", "cpuacct.usage"},
        {AGENT_HIERARCHY_MEMORY, "fs/cgroup/memory", "memory.usage_in_bytes"},
    };
    char file[PATH_MAX];

    for (size_t i = 0; i < KW_ARRAY_SIZE(places); i++) {
        char *out = ret->paths[places[i].which];
        if (out[0] == '\0' &&
            snprintf(file, sizeof(file), "%s/%s/%s", sysfs_root, places[i].path, places[i].file) <
                (int)sizeof(file) &&
            access(file, F_OK) == 0)
            (void)snprintf(out, PATH_MAX, "%s/%s", sysfs_root, places[i].path);
    }
}

int agent_cgroup_mounts_read(const char *sysfs_root, const char *procfs_root,
                             struct agent_cgroup_mounts *ret)
{
    char path[PATH_MAX];
    kw_cleanup_free char *text = NULL;
    size_t len = 0;
    kw_cleanup_free struct agent_cgroup_mounts *mounts = calloc(1, sizeof(*mounts));

    if (mounts == NULL)
        return -ENOMEM;
    if (kw_path_join(path, sizeof(path), procfs_root, "self/mountinfo") == 0) {
        int r = kw_file_slurp(path, MOUNTINFO_MAX, &text, &len);
        if (r == -ENOMEM)
            return r;
        if (r == 0)
            agent_cgroup_mounts_parse(text, len, sysfs_root, mounts);
    }
    for (int i = 0; i < AGENT_HIERARCHY__MAX; i++) {
        if (access(mounts->paths[i], R_OK | X_OK) < 0)
            mounts->paths[i][0] = '\0';
    }
    if (mounts->paths[AGENT_HIERARCHY_V2][0] == '\0' &&
        mounts->paths[AGENT_HIERARCHY_CPUACCT][0] == '\0')
        guess(sysfs_root, mounts);
    if (mounts->paths[AGENT_HIERARCHY_V2][0] == '\0' &&
        mounts->paths[AGENT_HIERARCHY_CPUACCT][0] == '\0')
        return -ENOENT;
    *ret = *mounts;
    return 0;
}

static FTS *walk_tree(const char *path)
{
    char *const paths[] = {(char *)path, NULL};

    return path[0] != '\0'
               ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV | FTS_NOSTAT, NULL)
               : NULL;
}

size_t agent_cgroup_mounts_count(const char *path, size_t limit)
{
    FTS *walk = walk_tree(path);
    size_t n = 0;

    if (walk == NULL)
        return 0;
    for (FTSENT *entry; n < limit && (entry = fts_read(walk)) != NULL;)
        n += entry->fts_info == FTS_D;
    (void)fts_close(walk);
    return n;
}

/* Whether a cgroup holds processes. A threaded v2 cgroup does not say which (EOPNOTSUPP), but it
 * has some. */
static bool is_populated(const char *directory)
{
    char file[PATH_MAX];
    char byte;

    if (snprintf(file, sizeof(file), "%s/cgroup.procs", directory) >= (int)sizeof(file))
        return false;
    kw_cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, &byte, 1);
    return n > 0 || (n < 0 && errno == EOPNOTSUPP);
}

size_t agent_cgroup_mounts_populated(const char *path)
{
    FTS *walk = walk_tree(path);
    size_t n = 0;

    if (walk == NULL)
        return 0;
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;)
        n += entry->fts_info == FTS_D && entry->fts_level > 0 && is_populated(entry->fts_path);
    (void)fts_close(walk);
    return n;
}

const char *agent_cgroup_mounts_layout(const struct agent_cgroup_mounts *mounts)
{
    if (mounts->paths[AGENT_HIERARCHY_V2][0] == '\0')
        return "v1";
    return mounts->paths[AGENT_HIERARCHY_CPUACCT][0] == '\0' ? "v2" : "hybrid";
}
