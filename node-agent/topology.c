/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/topology.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"

/*
 * Which CPU sits in which package, and what the processor is called.
 *
 * sysfs is asked first: `possible` and `online` for the numbers, cpuN/topology/physical_package_id
 * for the package, thread_siblings_list for the cores (a core is counted at its lowest thread).
 * Virtual machines and ARM boards leave some of it out: a package id that is missing or -1 is
 * one unnamed package 0, a core list that is missing makes each CPU a core of its own. Package ids
 * may be sparse (a pulled processor), so everything downstream uses the dense number.
 */

#define CPU_FOLDER       "devices/system/cpu"
/* "0,2,4,...": 1024 numbers of up to 4 digits and a comma fit. */
#define LIST_TEXT_MAX    8192
/* The first processor's block has at most a few KiB; long flag lists come after the names. */
#define CPUINFO_TEXT_MAX 16384

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
}

static int add_range(struct agent_cpu_set *set, uint64_t first, uint64_t last)
{
    if (last < first || (set->n > 0 && first <= set->cpus[set->n - 1]))
        return -EBADMSG;
    for (uint64_t cpu = first; cpu <= last && cpu < AGENT_CPUS_MAX; cpu++)
        set->cpus[set->n++] = (uint16_t)cpu;
    return 0;
}

int agent_cpu_set_parse(const char *text, size_t len, struct agent_cpu_set *ret)
{
    struct agent_cpu_set set = {0};

    while (len > 0 && is_blank(text[len - 1]))
        len--;
    for (size_t at = 0; at < len;) {
        const char *comma = memchr(text + at, ',', len - at);
        size_t end = comma != NULL ? (size_t)(comma - text) : len;
        const char *dash = memchr(text + at, '-', end - at);
        size_t middle = dash != NULL ? (size_t)(dash - text) : end;
        uint64_t first;
        if (kw_parse_u64_span(text + at, middle - at, 0, UINT32_MAX, &first) < 0)
            return -EBADMSG;
        uint64_t last = first;
        if (dash != NULL &&
            kw_parse_u64_span(text + middle + 1, end - middle - 1, 0, UINT32_MAX, &last) < 0)
            return -EBADMSG;
        if (add_range(&set, first, last) < 0 || (comma != NULL && end + 1 == len))
            return -EBADMSG;
        at = end + (comma != NULL);
    }
    *ret = set;
    return 0;
}

int agent_cpu_set_read(const char *sysfs_root, const char *name, struct agent_cpu_set *ret)
{
    char path[PATH_MAX];
    char text[LIST_TEXT_MAX];

    if (snprintf(path, sizeof(path), "%s/" CPU_FOLDER "/%s", sysfs_root, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    ssize_t n = kw_file_read_at(AT_FDCWD, path, text, sizeof(text));
    if (n < 0)
        return (int)n;
    return agent_cpu_set_parse(text, (size_t)n, ret);
}

/* Value of "key\t: value" at the start of a line; NULL where the line has another key. */
static const char *value_of(const char *line, size_t len, const char *key, size_t *ret_len)
{
    size_t at = strlen(key);

    if (len <= at || memcmp(line, key, at) != 0)
        return NULL;
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    if (at == len || line[at] != ':')
        return NULL;
    at++;
    while (at < len && is_blank(line[at]))
        at++;
    while (len > at && is_blank(line[len - 1]))
        len--;
    *ret_len = len - at;
    return line + at;
}

static void copy_text(char *out, size_t size, const char *text, size_t len)
{
    size_t n = len < size - 1 ? len : size - 1;

    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
    out[n] = '\0';
}

static void copy_number(unsigned *out, const char *text, size_t len)
{
    uint64_t number;

    if (kw_parse_u64_span(text, len, 0, UINT32_MAX, &number) == 0)
        *out = (unsigned)number;
}

void agent_cpuinfo_parse(const char *text, size_t len, struct agent_topology *topology)
{
    for (size_t at = 0; at < len;) {
        const char *newline = memchr(text + at, '\n', len - at);
        size_t end = newline != NULL ? (size_t)(newline - text) : len;
        const char *line = text + at;
        size_t n = 0;
        const char *value;
        if (end == at && at > 0)
            return; /* an empty line ends the first processor */
        if ((value = value_of(line, end - at, "vendor_id", &n)) != NULL)
            copy_text(topology->cpu_vendor, sizeof(topology->cpu_vendor), value, n);
        else if ((value = value_of(line, end - at, "model name", &n)) != NULL)
            copy_text(topology->cpu_model, sizeof(topology->cpu_model), value, n);
        else if ((value = value_of(line, end - at, "cpu family", &n)) != NULL)
            copy_number(&topology->cpu_family, value, n);
        else if ((value = value_of(line, end - at, "model", &n)) != NULL)
            copy_number(&topology->cpu_model_number, value, n);
        at = end + 1;
    }
}

static void read_cpuinfo(const char *procfs_root, struct agent_topology *topology)
{
    char path[PATH_MAX];
    char text[CPUINFO_TEXT_MAX];

    if (kw_path_join(path, sizeof(path), procfs_root, "cpuinfo") < 0)
        return;
    kw_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    size_t len = 0;
    /* the file of a large machine does not fit and need not */
    for (ssize_t n; len < sizeof(text) && (n = read(fd, text + len, sizeof(text) - len)) > 0;)
        len += (size_t)n;
    agent_cpuinfo_parse(text, len, topology);
}

/* @param name "physical_package_id", "core_id". @return that of an online CPU; 0 where the machine
 * does not say. */
static uint32_t read_id(const char *sysfs_root, unsigned cpu, const char *name)
{
    char path[PATH_MAX];
    char text[32];
    int64_t id;

    if (snprintf(path, sizeof(path), "%s/" CPU_FOLDER "/cpu%u/topology/%s", sysfs_root, cpu,
                 name) >= (int)sizeof(path))
        return 0;
    ssize_t n = kw_file_read_at(AT_FDCWD, path, text, sizeof(text));
    if (n <= 0)
        return 0;
    while (n > 0 && is_blank(text[n - 1]))
        text[--n] = '\0';
    return kw_parse_i64(text, 0, UINT32_MAX - 1, &id) == 0 ? (uint32_t)id : 0;
}

/* A core is counted at the lowest of its threads. */
static void read_core(const char *sysfs_root, unsigned cpu, struct agent_topology *topology)
{
    char name[64];
    struct agent_cpu_set siblings;

    (void)snprintf(name, sizeof(name), "cpu%u/topology/thread_siblings_list", cpu);
    if (agent_cpu_set_read(sysfs_root, name, &siblings) < 0 || siblings.n == 0) {
        topology->n_cores++;
        return;
    }
    topology->n_cores += siblings.cpus[0] == cpu;
    if (siblings.n > topology->threads_per_core)
        topology->threads_per_core = siblings.n;
    if (siblings.n == 2 && (siblings.cpus[0] == cpu || siblings.cpus[1] == cpu))
        topology->cpu_sibling[cpu] = (uint16_t)(1 + siblings.cpus[siblings.cpus[0] == cpu ? 1 : 0]);
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void number_packages(struct agent_topology *topology, const struct agent_cpu_set *online,
                            const uint32_t *package_of)
{
    for (unsigned i = 0; i < online->n; i++) {
        unsigned p = 0;
        while (p < topology->n_packages && topology->package_ids[p] != package_of[i])
            p++;
        /* more packages than any machine has: the rest counts to the last one */
        if (p == topology->n_packages && p < AGENT_PACKAGES_MAX)
            topology->package_ids[topology->n_packages++] = package_of[i];
    }
    qsort(topology->package_ids, topology->n_packages, sizeof(topology->package_ids[0]),
          compare_ids);
    for (unsigned i = 0; i < online->n; i++) {
        unsigned p = 0;
        while (p + 1 < topology->n_packages && topology->package_ids[p] != package_of[i])
            p++;
        topology->cpu_package[online->cpus[i]] = (uint8_t)p;
        topology->package_cpus[p]++;
    }
}

static void assume_cpus(struct agent_cpu_set *set, int what)
{
    long n = sysconf(what);

    (void)memset(set, 0, sizeof(*set));
    (void)add_range(set, 0, n < 1 ? 0 : (uint64_t)n - 1);
}

int agent_topology_read(const char *sysfs_root, const char *procfs_root, struct agent_topology *ret)
{
    struct agent_cpu_set possible, online;
    kw_cleanup_free uint32_t *package_of = calloc(AGENT_CPUS_MAX, sizeof(*package_of));
    kw_cleanup_free struct agent_topology *topology = calloc(1, sizeof(*topology));

    if (package_of == NULL || topology == NULL)
        return -ENOMEM;
    if (agent_cpu_set_read(sysfs_root, "online", &online) < 0 || online.n == 0)
        assume_cpus(&online, _SC_NPROCESSORS_ONLN);
    if (agent_cpu_set_read(sysfs_root, "possible", &possible) < 0 || possible.n == 0)
        possible = online;
    unsigned highest_online = online.cpus[online.n - 1];
    unsigned highest = possible.cpus[possible.n - 1];
    topology->n_cpus = 1 + (highest > highest_online ? highest : highest_online);
    topology->n_online = online.n;
    for (unsigned i = 0; i < online.n; i++) {
        package_of[i] = read_id(sysfs_root, online.cpus[i], "physical_package_id");
        topology->cpu_core[online.cpus[i]] = 1 + read_id(sysfs_root, online.cpus[i], "core_id");
        read_core(sysfs_root, online.cpus[i], topology);
    }
    if (topology->n_cores == 0)
        topology->n_cores = online.n; /* the lowest thread of every core is offline */
    number_packages(topology, &online, package_of);
    read_cpuinfo(procfs_root, topology);
    *ret = *topology;
    return 0;
}

unsigned agent_topology_cpus_of(const struct agent_topology *topology, unsigned package)
{
    return package < topology->n_packages ? topology->package_cpus[package] : topology->n_online;
}
