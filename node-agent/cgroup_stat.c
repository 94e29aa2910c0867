/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/cgroup_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/num.h"

/* memory.stat has some sixty lines; a v1 one with NUMA nodes a hundred. */
#define STAT_MAX 16384

/* Length of the line that begins at `at`. */
static size_t line_len(const char *text, size_t len, size_t at)
{
    const char *newline = memchr(text + at, '\n', len - at);

    return newline != NULL ? (size_t)(newline - text) - at : len - at;
}

int agent_cgroup_stat_find(const char *text, size_t len, const char *key, uint64_t *ret)
{
    size_t key_len = strlen(key);

    for (size_t at = 0; at < len;) {
        size_t n = line_len(text, len, at);
        if (n > key_len && text[at + key_len] == ' ' && memcmp(text + at, key, key_len) == 0)
            return kw_parse_u64_span(text + at + key_len + 1, n - key_len - 1, 0, UINT64_MAX,
                                     ret) == 0
                       ? 0
                       : -EBADMSG;
        at += n + 1;
    }
    return -ENODATA;
}

/* Next blank-separated number of a line. */
static int next_number(const char *line, size_t len, size_t *at, uint64_t *ret)
{
    while (*at < len && line[*at] == ' ')
        (*at)++;
    size_t from = *at;
    while (*at < len && line[*at] != ' ')
        (*at)++;
    return kw_parse_u64_span(line + from, *at - from, 0, UINT64_MAX, ret);
}

/* "cpu3 user nice system idle iowait irq softirq ...": busy ticks. @return 1 it is one; 0 another
 * line; -EBADMSG. */
static int parse_cpu_line(const char *line, size_t len, uint64_t *ret_cpu, uint64_t *ret_ticks)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, FIELDS };
    uint64_t field[FIELDS];
    size_t at = strlen("cpu");

    if (len <= at || memcmp(line, "cpu", at) != 0 || line[at] == ' ')
        return 0;
    if (next_number(line, len, &at, ret_cpu) < 0)
        return -EBADMSG;
    for (int i = 0; i < FIELDS; i++) {
        if (next_number(line, len, &at, &field[i]) < 0)
            return -EBADMSG;
    }
    *ret_ticks = field[USER] + field[NICE] + field[SYSTEM] + field[IRQ] + field[SOFTIRQ];
    return 1;
}

int agent_proc_stat_busy(const char *text, size_t len, uint64_t tick_ns, const uint8_t *cpu_package,
                         unsigned n_cpus, unsigned n_packages, uint64_t *ret)
{
    bool any = false;

    (void)memset(ret, 0, n_packages * sizeof(*ret));
    for (size_t at = 0; at < len;) {
        uint64_t cpu, ticks;
        size_t n = line_len(text, len, at);
        int r = parse_cpu_line(text + at, n, &cpu, &ticks);
        if (r < 0)
            return r;
        if (r > 0) {
            unsigned package = cpu < n_cpus ? cpu_package[cpu] : 0;
            ret[package < n_packages ? package : 0] += ticks * tick_ns;
            any = true;
        }
        at += n + 1;
    }
    return any ? 0 : -EBADMSG;
}

static int read_working_set(const char *mount, const char *path, const char *usage_file,
                            const char *cache_key, uint64_t *ret)
{
    char file[PATH_MAX];
    char text[STAT_MAX];
    uint64_t usage_bytes;
    uint64_t cache_bytes = 0;

    if (mount[0] == '\0' || path[0] != '/')
        return -ENOENT;
    if (snprintf(file, sizeof(file), "%s%s/%s", mount, path, usage_file) >= (int)sizeof(file))
        return -ENAMETOOLONG;
    int r = kw_file_read_u64_at(AT_FDCWD, file, &usage_bytes);
    if (r < 0)
        return r == -ENODEV ? -ENOENT : r; /* ENODEV: removed between open and read */
    if (snprintf(file, sizeof(file), "%s%s/memory.stat", mount, path) >= (int)sizeof(file))
        return -ENAMETOOLONG;
    ssize_t n = kw_file_read_at(AT_FDCWD, file, text, sizeof(text));
    if (n > 0)
        (void)agent_cgroup_stat_find(text, (size_t)n, cache_key, &cache_bytes);
    *ret = usage_bytes > cache_bytes ? usage_bytes - cache_bytes : 0;
    return 0;
}

int agent_cgroup_memory_read(const struct agent_cgroup_mounts *mounts, const char *path,
                             uint64_t *ret)
{
    /* the kernel has a controller in one hierarchy: where v1 has it, v2 has not */
    if (mounts->paths[AGENT_HIERARCHY_MEMORY][0] != '\0')
        return read_working_set(mounts->paths[AGENT_HIERARCHY_MEMORY], path,
                                "memory.usage_in_bytes", "total_inactive_file", ret);
    return read_working_set(mounts->paths[AGENT_HIERARCHY_V2], path, "memory.current",
                            "inactive_file", ret);
}
