/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/num.h"
#include "node-agent/accounting.h"
#include "node-agent/busy.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/cgroup_stat.h"
#include "node-agent/cgroups.h"

/*
 * CPU time from the cgroups' own files: what is left where the kernel takes no BPF program.
 *
 * The files count a cgroup with all that is below it, also what has ended there. A cgroup's own
 * time is therefore its total without the totals of its children, of those that are there and, at
 * their last known total, of those that went. What a child did between its last reading and its end
 * stays in its parent's total: it becomes the parent's own, and no time is lost. The top of the
 * tree works the same with the busy time of /proc/stat for a total, which makes kernel threads and
 * interrupts the system's.
 *
 * Readings are not taken at one instant. Children are read before their parents, so a parent's own
 * time can only look too large by what the children did in between; it never runs backward (it
 * waits until the files have caught up), and the error does not add up from reading to reading.
 *
 * On a hybrid host one hierarchy is chosen at the start, the one with more cgroups that hold
 * processes: the same time is counted in both, and cannot be told apart.
 *
 * Descriptors are kept open (a third of the cost of opening anew), up to half of what the process
 * may have; the rest is opened for each reading.
 */

struct entry {
    uint64_t key;
    char *path;
    struct entry *parent; /* NULL: top level; valid while order is */
    int fd;               /* -1: opened for each reading */
    bool gone;
    uint64_t base_ns;     /* total when the accounting was opened */
    uint64_t total_ns;    /* since then, with children */
    uint64_t below_ns;    /* totals of the children that went */
    uint64_t children_ns; /* totals of the children that are there, in the reading at hand */
    uint64_t own_ns;      /* published so far */
    uint64_t *cells;      /* n_packages; own_ns by package */
};

struct cgroup_acct {
    struct agent_cgroups *cgroups;
    bool v1;
    char mount[PATH_MAX];
    unsigned n_packages;
    struct agent_busy busy;
    size_t n, cap;
    struct entry **by_key; /* n, ascending: the owner */
    struct entry **order;  /* n_order, parents before their children; the ones that are there */
    size_t n_order;
    bool dirty;  /* order must be made anew */
    bool opened; /* entries found from now on were made after the opening */
    size_t n_fds, max_fds;
    int error; /* of the walk through the table of cgroups */
    struct entry root;
    struct agent_usage stage;
};

/* cpu.stat has some ten lines. */
#define CPU_STAT_MAX 4096

static void entry_free(struct cgroup_acct *acct, struct entry *entry)
{
    if (entry->fd >= 0) {
        (void)close(entry->fd);
        acct->n_fds--;
    }
    free(entry->path);
    free(entry->cells);
    free(entry);
}

static void cgroup_acct_close(void **self)
{
    struct cgroup_acct *acct = *self;

    if (acct == NULL)
        return;
    for (size_t i = 0; i < acct->n; i++)
        entry_free(acct, acct->by_key[i]);
    free(acct->by_key);
    free(acct->order);
    agent_busy_close(&acct->busy);
    free(acct->root.cells);
    agent_usage_free(&acct->stage);
    agent_cgroups_free(&acct->cgroups);
    free(acct);
    *self = NULL;
}

/* Place of a key among the entries, or where it would be. */
static size_t place_of(const struct cgroup_acct *acct, uint64_t key)
{
    size_t low = 0, high = acct->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (acct->by_key[middle]->key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int open_file(const struct cgroup_acct *acct, const struct entry *entry)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s%s/%s", acct->mount, entry->path,
                 acct->v1 ? "cpuacct.usage" : "cpu.stat") >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The kernel's counter of a cgroup. */
static int read_total(struct cgroup_acct *acct, struct entry *entry, uint64_t *ret_ns)
{
    char text[CPU_STAT_MAX];
    kw_cleanup_close int own_fd = -1;
    uint64_t value;

    if (entry->fd < 0) {
        int fd = open_file(acct, entry);
        if (fd < 0)
            return fd;
        if (acct->n_fds < acct->max_fds) {
            entry->fd = fd;
            acct->n_fds++;
        } else {
            own_fd = fd;
        }
    }
    ssize_t n = kw_file_pread(entry->fd >= 0 ? entry->fd : own_fd, text, sizeof(text));
    if (n < 0)
        return (int)n;
    if (acct->v1) {
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
            n--;
        int r = kw_parse_u64_span(text, (size_t)n, 0, UINT64_MAX, ret_ns);
        return r < 0 ? -EBADMSG : 0;
    }
    int r = agent_cgroup_stat_find(text, (size_t)n, "usage_usec", &value);
    if (r < 0 || value > UINT64_MAX / 1000)
        return -EBADMSG;
    *ret_ns = value * 1000;
    return 0;
}

static int add_entry(struct cgroup_acct *acct, size_t at, const struct agent_cgroup *cgroup)
{
    if (acct->n == acct->cap) {
        size_t cap = acct->cap > 0 ? acct->cap * 2 : 64;
        struct entry **by_key = reallocarray(acct->by_key, cap, sizeof(struct entry *));
        if (by_key == NULL)
            return -ENOMEM;
        acct->by_key = by_key;
        struct entry **order = reallocarray(acct->order, cap, sizeof(struct entry *));
        if (order == NULL)
            return -ENOMEM;
        acct->order = order;
        acct->cap = cap;
    }
    struct entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return -ENOMEM;
    entry->fd = -1;
    entry->key = cgroup->key;
    entry->path = strdup(cgroup->path);
    entry->cells = calloc(acct->n_packages, sizeof(*entry->cells));
    if (entry->path == NULL || entry->cells == NULL) {
        entry_free(acct, entry);
        return -ENOMEM;
    }
    if (!acct->opened)
        (void)read_total(acct, entry, &entry->base_ns);
    (void)memmove(acct->by_key + at + 1, acct->by_key + at,
                  (acct->n - at) * sizeof(struct entry *));
    acct->by_key[at] = entry;
    acct->n++;
    acct->dirty = true;
    return 0;
}

/* The last known total of a cgroup that went stays with its parent. */
static void end_entry(struct cgroup_acct *acct, struct entry *entry)
{
    struct entry *parent = entry->parent != NULL ? entry->parent : &acct->root;

    parent->below_ns += entry->total_ns;
    if (entry->fd >= 0) {
        (void)close(entry->fd);
        entry->fd = -1;
        acct->n_fds--;
    }
    entry->gone = true;
    acct->dirty = true;
}

static void sync_one(void *user, const struct agent_cgroup *cgroup)
{
    struct cgroup_acct *acct = user;

    if (((cgroup->key & AGENT_KEY_V1) != 0) != acct->v1 || acct->error < 0)
        return;
    size_t at = place_of(acct, cgroup->key);
    struct entry *entry =
        at < acct->n && acct->by_key[at]->key == cgroup->key ? acct->by_key[at] : NULL;
    if (entry == NULL) {
        if (cgroup->gone_ns == 0)
            acct->error = add_entry(acct, at, cgroup);
    } else if (cgroup->gone_ns != 0) {
        if (!entry->gone)
            end_entry(acct, entry);
    } else if (strcmp(entry->path, cgroup->path) != 0) { /* renamed: v1 trees allow that */
        char *path = strdup(cgroup->path);
        if (path == NULL) {
            acct->error = -ENOMEM;
            return;
        }
        free(entry->path);
        entry->path = path;
        acct->dirty = true;
    }
}

/* '/' before every other byte, so that what is below a directory follows it directly. */
static int compare_paths(const void *a, const void *b)
{
    const char *x = (*(struct entry *const *)a)->path;
    const char *y = (*(struct entry *const *)b)->path;

    while (*x != '\0' && *x == *y) {
        x++;
        y++;
    }
    int left = *x == '/' ? 1 : (*x == '\0' ? 0 : (uint8_t)*x + 1);
    int right = *y == '/' ? 1 : (*y == '\0' ? 0 : (uint8_t)*y + 1);
    return left - right;
}

static bool is_below(const struct entry *entry, const struct entry *parent)
{
    size_t n = strlen(parent->path);

    return strncmp(entry->path, parent->path, n) == 0 && entry->path[n] == '/';
}

static void make_order(struct cgroup_acct *acct)
{
    acct->n_order = 0;
    for (size_t i = 0; i < acct->n; i++) {
        if (!acct->by_key[i]->gone)
            acct->order[acct->n_order++] = acct->by_key[i];
    }
    qsort(acct->order, acct->n_order, sizeof(struct entry *), compare_paths);
    for (size_t i = 0; i < acct->n_order; i++) {
        struct entry *candidate = i > 0 ? acct->order[i - 1] : NULL;
        while (candidate != NULL && !is_below(acct->order[i], candidate))
            candidate = candidate->parent;
        acct->order[i]->parent = candidate;
    }
    acct->dirty = false;
}

static int sync_entries(struct cgroup_acct *acct)
{
    int r = agent_cgroups_update(acct->cgroups, kw_now_ns());

    if (r < 0)
        return r;
    acct->error = 0;
    agent_cgroups_each(acct->cgroups, sync_one, acct);
    if (acct->dirty)
        make_order(acct);
    return acct->error;
}

/* Publishes an entry's own time up to `own_ns`, split as the packages were busy. */
static void book(const struct cgroup_acct *acct, struct entry *entry, uint64_t own_ns)
{
    if (own_ns <= entry->own_ns)
        return;
    agent_busy_split(&acct->busy, own_ns - entry->own_ns, entry->cells);
    entry->own_ns = own_ns;
}

static uint64_t own_of(const struct entry *entry)
{
    uint64_t others_ns = entry->children_ns + entry->below_ns;

    return entry->total_ns > others_ns ? entry->total_ns - others_ns : 0;
}

static void read_entries(struct cgroup_acct *acct)
{
    acct->root.children_ns = 0;
    for (size_t i = 0; i < acct->n_order; i++)
        acct->order[i]->children_ns = 0;
    for (size_t i = acct->n_order; i-- > 0;) {
        struct entry *entry = acct->order[i];
        struct entry *parent = entry->parent != NULL ? entry->parent : &acct->root;
        uint64_t total_ns;
        /* a file that is gone keeps its last number until the table of cgroups says so too */
        if (read_total(acct, entry, &total_ns) == 0 && total_ns > entry->base_ns &&
            total_ns - entry->base_ns > entry->total_ns)
            entry->total_ns = total_ns - entry->base_ns;
        parent->children_ns += entry->total_ns;
    }
}

static int fill(struct cgroup_acct *acct)
{
    int r = agent_usage_reset(&acct->stage, acct->n + 1, acct->n_packages, 0);

    for (size_t i = 0; r == 0 && i <= acct->n; i++) {
        const struct entry *entry = i < acct->n ? acct->by_key[i] : &acct->root;
        uint64_t *row = agent_usage_add(&acct->stage, entry->key);
        if (row == NULL)
            return -ENOMEM;
        (void)memcpy(row, entry->cells, acct->n_packages * sizeof(*row));
    }
    return r;
}

static int cgroup_acct_read(void *self, struct agent_usage *ret)
{
    struct cgroup_acct *acct = self;
    int r = sync_entries(acct);

    if (r < 0)
        return r;
    uint64_t before_ns = kw_now_ns();
    read_entries(acct);
    agent_busy_read(&acct->busy);
    uint64_t after_ns = kw_now_ns();
    acct->root.total_ns += acct->busy.sum_ns;
    for (size_t i = 0; i < acct->n_order; i++)
        book(acct, acct->order[i], own_of(acct->order[i]));
    book(acct, &acct->root, own_of(&acct->root));
    r = fill(acct);
    if (r < 0)
        return r;
    acct->stage.t_ns = before_ns + (after_ns - before_ns) / 2;
    struct agent_usage last = *ret;
    *ret = acct->stage;
    acct->stage = last;
    return 0;
}

static void cgroup_acct_forget(void *self, const uint64_t *keys, size_t n)
{
    struct cgroup_acct *acct = self;

    for (size_t i = 0; i < n; i++) {
        size_t at = place_of(acct, keys[i]);
        if (at == acct->n || acct->by_key[at]->key != keys[i] || !acct->by_key[at]->gone)
            continue;
        entry_free(acct, acct->by_key[at]);
        acct->n--;
        (void)memmove(acct->by_key + at, acct->by_key + at + 1,
                      (acct->n - at) * sizeof(struct entry *));
        agent_cgroups_forget(acct->cgroups, keys[i]);
    }
}

static int choose_hierarchy(struct cgroup_acct *acct, const struct agent_cgroup_mounts *mounts)
{
    const char *v2 = mounts->paths[AGENT_HIERARCHY_V2];
    const char *v1 = mounts->paths[AGENT_HIERARCHY_CPUACCT];

    acct->v1 = v2[0] == '\0' || (v1[0] != '\0' && agent_cgroup_mounts_populated(v1) >
                                                      agent_cgroup_mounts_populated(v2));
    return snprintf(acct->mount, sizeof(acct->mount), "%s", acct->v1 ? v1 : v2) <
                   (int)sizeof(acct->mount)
               ? 0
               : -ENAMETOOLONG;
}

static void bound_descriptors(struct cgroup_acct *acct)
{
    struct rlimit limit;

    acct->max_fds = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    acct->max_fds = (size_t)limit.rlim_cur / 2;
}

static int set_up(struct cgroup_acct *acct, const struct agent_accounting_conf *conf)
{
    int r = agent_busy_open(&acct->busy, conf->procfs_root, conf->topology);

    if (r < 0)
        return r;
    acct->n_packages = acct->busy.n_packages;
    acct->root.fd = -1;
    acct->root.key = AGENT_KEY_SYSTEM;
    acct->root.cells = calloc(acct->n_packages, sizeof(*acct->root.cells));
    if (acct->root.cells == NULL)
        return -ENOMEM;
    bound_descriptors(acct);
    return 0;
}

static int cgroup_acct_open(const struct agent_accounting_conf *conf, void **ret,
                            struct kw_err *err)
{
    kw_cleanup(cgroup_acct_close) void *self = calloc(1, sizeof(struct cgroup_acct));
    kw_cleanup_free struct agent_cgroup_mounts *mounts = calloc(1, sizeof(*mounts));
    struct cgroup_acct *acct = self;
    struct agent_cgroups_conf cgroups_conf = {
        .sysfs_root = conf->sysfs_root, .procfs_root = conf->procfs_root, .cgroup_root = "/"};

    if (acct == NULL || mounts == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    int r = set_up(acct, conf);
    if (r == 0)
        r = agent_cgroups_new(&cgroups_conf, &acct->cgroups, err);
    if (r < 0)
        return err != NULL && err->code != 0 ? r : kw_err_set(err, r, "%s", kw_errno_text(r));
    r = agent_cgroup_mounts_read(conf->sysfs_root, conf->procfs_root, mounts);
    if (r == 0)
        r = choose_hierarchy(acct, mounts);
    if (r == 0)
        r = sync_entries(acct);
    if (r < 0)
        return kw_err_set(err, r, "cgroup files: %s", kw_errno_text(r));
    agent_busy_read(&acct->busy); /* the zero of the system, beside that of the cgroups */
    acct->opened = true;
    *ret = KW_TAKE_PTR(self);
    return 0;
}

const struct agent_accounting_ops agent_accounting_cgroup_files = {
    .name = "cgroup-files",
    .without_bpf = true,
    .merges_kernel = true,
    .open = cgroup_acct_open,
    .read = cgroup_acct_read,
    .forget = cgroup_acct_forget,
    .close = cgroup_acct_close,
};
