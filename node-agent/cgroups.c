/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/cgroups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/accounting.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/cgroup_stat.h"
#include "node-agent/cgroup_table.h"

/*
 * Problem: the accounting speaks in keys (inode numbers), people in paths; directories come and go
 * by the thousand a second, and a walk of the tree at every sample would cost more than the
 * accounting.
 *
 * Approach: every directory is watched by inotify for children that come and go. An event is not
 * believed, it only names a path to look at again: the directory there now is compared with the
 * table. So the order of events, doubled events and names that were used again between event and
 * look cannot confuse: what is there is added, what is not is marked gone, another directory of the
 * same name is both. A new directory is watched first and then scanned, so that children made
 * before the watch are found and children made after it cause an event. A queue overflow looks at
 * everything again.
 *
 * Work to be looked at waits in a list on the heap, not on the stack: depth is the tree's, not
 * ours.
 *
 * Where inotify's limits are exhausted (they are per user, and container hosts do exhaust them),
 * what is not watched is found by a scan, at most once a second.
 */

/* One read takes some hundred events. */
#define EVENT_BYTES      16384
/* Reads a call: a storm of events must not keep the caller from its samples; the rest stays
 * readable. */
#define READS_MAX        256
#define SCAN_INTERVAL_NS KW_NS_PER_S

#define WATCH_MASK \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW)

/* A path to look at. */
struct work {
    struct work *next;
    enum agent_hierarchy hierarchy;
    bool deep; /* look at the children also where the directory is known */
    char path[];
};

struct agent_cgroups {
    struct agent_cgroup_mounts mounts;
    char root[PATH_MAX]; /* cgroup_root without a slash at its end; "" for "/" */
    struct agent_cgroup_table table;
    struct work *work;
    int fd; /* inotify, or an eventfd that never fires */
    bool inotify;
    bool unwatched; /* a directory could not be watched */
    uint64_t scanned_ns;
    uint64_t generation; /* of the last scan */
};

static void drop_work(struct agent_cgroups *cgroups)
{
    while (cgroups->work != NULL) {
        struct work *next = cgroups->work->next;
        free(cgroups->work);
        cgroups->work = next;
    }
}

void agent_cgroups_free(struct agent_cgroups **cgroups)
{
    if (*cgroups == NULL)
        return;
    drop_work(*cgroups);
    agent_cgroup_table_clear(&(*cgroups)->table);
    if ((*cgroups)->fd >= 0)
        (void)close((*cgroups)->fd);
    free(*cgroups);
    *cgroups = NULL;
}

/* @param name child of `parent`; NULL: parent itself. Paths that no system call takes are left out.
 */
static int push(struct agent_cgroups *cgroups, enum agent_hierarchy hierarchy, const char *parent,
                const char *name, bool deep)
{
    size_t n = strlen(parent);
    size_t extra = name != NULL ? 1 + strlen(name) : 0;

    if (n + extra >= PATH_MAX)
        return 0;
    struct work *work = malloc(sizeof(*work) + n + extra + 1);
    if (work == NULL)
        return -ENOMEM;
    (void)memcpy(work->path, parent, n + 1);
    if (name != NULL) {
        /* the root is "/", its child "/x" */
        size_t at = n == 1 ? 0 : n;
        work->path[at] = '/';
        (void)memcpy(work->path + at + 1, name, extra);
    }
    work->hierarchy = hierarchy;
    work->deep = deep;
    work->next = cgroups->work;
    cgroups->work = work;
    return 0;
}

static int directory_of(const struct agent_cgroups *cgroups, enum agent_hierarchy hierarchy,
                        const char *path, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s%s", cgroups->mounts.paths[hierarchy], path);

    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void mark_gone(struct agent_cgroups *cgroups, struct agent_cgroup_node *node,
                      uint64_t now_ns)
{
    struct agent_cgroup_node *child;

    /* children go before their parent; where their events were missed they go with it */
    while ((child = agent_cgroup_table_child(&cgroups->table, node)) != NULL) {
        while (child->children > 0)
            child = agent_cgroup_table_child(&cgroups->table, child);
        if (child->wd >= 0)
            (void)inotify_rm_watch(cgroups->fd, child->wd);
        agent_cgroup_table_unlink(&cgroups->table, child, now_ns);
    }
    if (node->wd >= 0)
        (void)inotify_rm_watch(cgroups->fd, node->wd);
    agent_cgroup_table_unlink(&cgroups->table, node, now_ns);
}

static void watch(struct agent_cgroups *cgroups, struct agent_cgroup_node *node,
                  const char *directory)
{
    int wd = cgroups->inotify ? inotify_add_watch(cgroups->fd, directory, WATCH_MASK) : -1;

    if (wd >= 0)
        agent_cgroup_table_set_wd(&cgroups->table, node, wd);
    else if (!cgroups->inotify || (errno != ENOENT && errno != ENOTDIR))
        cgroups->unwatched = true;
}

static int scan_children(struct agent_cgroups *cgroups, const struct work *work,
                         const char *directory)
{
    DIR *dir = opendir(directory);
    int r = 0;

    if (dir == NULL)
        return 0; /* gone again, or not for us to see */
    for (struct dirent *entry; r == 0 && (entry = readdir(dir)) != NULL;) {
        if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) ||
            strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        r = push(cgroups, work->hierarchy, work->path, entry->d_name, work->deep);
    }
    (void)closedir(dir);
    return r;
}

static void identify(const struct agent_cgroups *cgroups, struct agent_cgroup *cgroup)
{
    struct agent_identity *identity = &cgroup->identity;
    size_t root_len = strlen(cgroups->root);
    const char *below = cgroup->path + root_len;

    cgroup->system = !agent_identity_from_path(below[0] != '\0' ? below : "/", identity);
    if (cgroup->system) {
        (void)memset(identity, 0, sizeof(*identity));
        return;
    }
    size_t n = strlen(identity->workload_path);
    if (root_len == 0 || n == 0)
        return;
    if (root_len + n >= sizeof(identity->workload_path)) {
        identity->workload_path[0] = '\0';
        return;
    }
    (void)memmove(identity->workload_path + root_len, identity->workload_path, n + 1);
    (void)memcpy(identity->workload_path, cgroups->root, root_len);
}

/* Compares the directory at a path with the table. */
static int look_at(struct agent_cgroups *cgroups, const struct work *work, uint64_t now_ns)
{
    char directory[PATH_MAX];
    struct stat st;
    struct agent_cgroup_node *node =
        agent_cgroup_table_find_path(&cgroups->table, work->hierarchy, work->path);

    if (directory_of(cgroups, work->hierarchy, work->path, directory) < 0)
        return 0;
    if (lstat(directory, &st) < 0 || !S_ISDIR(st.st_mode)) {
        if (node != NULL)
            mark_gone(cgroups, node, now_ns);
        return 0;
    }
    uint64_t key = (uint64_t)st.st_ino;
    if (work->hierarchy != AGENT_HIERARCHY_V2)
        key |= AGENT_KEY_V1;
    if (node != NULL && node->cgroup.key != key) {
        mark_gone(cgroups, node, now_ns);
        node = NULL;
    }
    bool known = node != NULL;
    if (!known) {
        struct agent_cgroup_node *old = agent_cgroup_table_find(&cgroups->table, key);
        if (old != NULL && old->cgroup.gone_ns == 0)
            mark_gone(cgroups, old, now_ns); /* renamed: v1 trees allow that */
        node = agent_cgroup_table_add(&cgroups->table, work->hierarchy, work->path, key);
        if (node == NULL)
            return -ENOMEM;
        identify(cgroups, &node->cgroup);
    }
    node->generation = cgroups->generation;
    if (node->wd < 0)
        watch(cgroups, node, directory);
    return !known || work->deep ? scan_children(cgroups, work, directory) : 0;
}

static int do_work(struct agent_cgroups *cgroups, uint64_t now_ns)
{
    while (cgroups->work != NULL) {
        struct work *work = cgroups->work;
        cgroups->work = work->next;
        int r = look_at(cgroups, work, now_ns);
        free(work);
        if (r < 0) {
            drop_work(cgroups);
            return r;
        }
    }
    return 0;
}

static bool is_stale(const struct agent_cgroup_node *node, uint64_t generation)
{
    return node->cgroup.gone_ns == 0 && node->generation != generation;
}

/* Looks at everything. */
static int scan(struct agent_cgroups *cgroups, uint64_t now_ns)
{
    cgroups->generation++;
    cgroups->unwatched = false;
    cgroups->scanned_ns = now_ns;
    for (int h = AGENT_HIERARCHY_V2; h <= AGENT_HIERARCHY_CPUACCT; h++) {
        if (cgroups->mounts.paths[h][0] == '\0')
            continue;
        int r = push(cgroups, (enum agent_hierarchy)h,
                     cgroups->root[0] != '\0' ? cgroups->root : "/", NULL, true);
        if (r == 0)
            r = do_work(cgroups, now_ns);
        if (r < 0) {
            cgroups->scanned_ns = 0;
            cgroups->unwatched = true; /* incomplete: the next call scans again */
            return r;
        }
    }
    struct agent_cgroup_node *node;
    while ((node = agent_cgroup_table_find_if(&cgroups->table, is_stale, cgroups->generation)) !=
           NULL)
        mark_gone(cgroups, node, now_ns);
    return 0;
}

/* @return 0; 1 where events were lost; -errno. */
static int take_events(struct agent_cgroups *cgroups, const char *bytes, size_t len,
                       uint64_t now_ns)
{
    int lost = 0;

    for (size_t at = 0; at + sizeof(struct inotify_event) <= len;) {
        const struct inotify_event *event = (const struct inotify_event *)(bytes + at);
        at += sizeof(*event) + event->len;
        if ((event->mask & IN_Q_OVERFLOW) != 0)
            lost = 1;
        if ((event->mask & IN_ISDIR) == 0 || event->len == 0)
            continue; /* a file, or the word that a watch has ended */
        const struct agent_cgroup_node *node =
            agent_cgroup_table_find_wd(&cgroups->table, event->wd);
        if (node == NULL)
            continue; /* its directory is gone, and so are the children */
        int r = push(cgroups, node->hierarchy, node->cgroup.path, event->name, false);
        if (r == 0)
            r = do_work(cgroups, now_ns);
        if (r < 0)
            return r;
    }
    return lost;
}

int agent_cgroups_update(struct agent_cgroups *cgroups, uint64_t now_ns)
{
    if (now_ns == 0)
        now_ns = 1; /* 0 says "there" */
    _Alignas(struct inotify_event) char bytes[EVENT_BYTES];
    bool lost = false;

    for (int i = 0; cgroups->inotify && i < READS_MAX; i++) {
        ssize_t n = read(cgroups->fd, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        int r = take_events(cgroups, bytes, (size_t)n, now_ns);
        if (r < 0) {
            cgroups->scanned_ns = 0;
            cgroups->unwatched = true; /* events were dropped: the next call scans */
            return r;
        }
        lost = lost || r > 0;
    }
    if (lost || (cgroups->unwatched && now_ns - cgroups->scanned_ns >= SCAN_INTERVAL_NS))
        return scan(cgroups, now_ns);
    return 0;
}

static int set_root(struct agent_cgroups *cgroups, const char *root)
{
    size_t n = root != NULL ? strlen(root) : 0;

    while (n > 0 && root[n - 1] == '/')
        n--;
    if (n >= sizeof(cgroups->root))
        return -ENAMETOOLONG;
    if (n > 0 && root[0] != '/')
        return -EINVAL;
    if (n > 0)
        (void)memcpy(cgroups->root, root, n);
    cgroups->root[n] = '\0';
    return 0;
}

int agent_cgroups_new(const struct agent_cgroups_conf *conf, struct agent_cgroups **ret,
                      struct kw_err *err)
{
    kw_cleanup(agent_cgroups_free) struct agent_cgroups *cgroups = calloc(1, sizeof(*cgroups));

    if (cgroups == NULL)
        return kw_err_set(err, -ENOMEM, "no memory");
    cgroups->fd = -1;
    int r = set_root(cgroups, conf->cgroup_root);
    if (r < 0)
        return kw_err_set(err, r, "cgroup root \"%s\": not an absolute path of usual length",
                          conf->cgroup_root);
    r = agent_cgroup_mounts_read(conf->sysfs_root, conf->procfs_root, &cgroups->mounts);
    if (r < 0)
        return kw_err_set(err, r,
                          "no cgroup v2 or cpuacct hierarchy is mounted (looked into "
                          "%s/self/mountinfo and %s/fs/cgroup)",
                          conf->procfs_root, conf->sysfs_root);
    cgroups->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    cgroups->inotify = cgroups->fd >= 0;
    if (!cgroups->inotify)
        cgroups->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (cgroups->fd < 0)
        return kw_err_set(err, -errno, "no file descriptor for watching cgroups: %s",
                          kw_errno_text(errno));
    r = scan(cgroups, kw_now_ns());
    if (r < 0)
        return kw_err_set(err, r, "the cgroup tree cannot be read: %s", kw_errno_text(r));
    if (cgroups->table.n == 0)
        return kw_err_set(err, -ENOENT, "there is no cgroup \"%s\"", conf->cgroup_root);
    *ret = KW_TAKE_PTR(cgroups);
    return 0;
}

int agent_cgroups_fd(const struct agent_cgroups *cgroups)
{
    return cgroups->fd;
}

/* The root of a hierarchy is watched like others, but it is the system, not a cgroup. */
static bool is_hierarchy_root(const struct agent_cgroup_node *node)
{
    return node->cgroup.path[1] == '\0';
}

const struct agent_cgroup *agent_cgroups_find(const struct agent_cgroups *cgroups, uint64_t key)
{
    const struct agent_cgroup_node *node = agent_cgroup_table_find(&cgroups->table, key);

    return node != NULL && !is_hierarchy_root(node) ? &node->cgroup : NULL;
}

void agent_cgroups_forget(struct agent_cgroups *cgroups, uint64_t key)
{
    struct agent_cgroup_node *node = agent_cgroup_table_find(&cgroups->table, key);

    if (node != NULL && node->cgroup.gone_ns != 0)
        agent_cgroup_table_remove(&cgroups->table, node);
}

uint64_t agent_cgroups_changes(const struct agent_cgroups *cgroups)
{
    return cgroups->table.changes;
}

void agent_cgroups_each(const struct agent_cgroups *cgroups,
                        void (*fn)(void *user, const struct agent_cgroup *cgroup), void *user)
{
    for (size_t i = 0; i < cgroups->table.n_buckets; i++) {
        for (const struct agent_cgroup_node *node = cgroups->table.by_key[i]; node != NULL;
             node = node->next_key) {
            if (!is_hierarchy_root(node))
                fn(user, &node->cgroup);
        }
    }
}

int agent_cgroups_memory_bytes(struct agent_cgroups *cgroups, const char *path, uint64_t *ret)
{
    return agent_cgroup_memory_read(&cgroups->mounts, path, ret);
}

const struct agent_cgroup_mounts *agent_cgroups_mounts(const struct agent_cgroups *cgroups)
{
    return &cgroups->mounts;
}

const char *agent_cgroups_layout(const struct agent_cgroups *cgroups)
{
    return agent_cgroup_mounts_layout(&cgroups->mounts);
}

bool agent_cgroups_watched(const struct agent_cgroups *cgroups)
{
    return cgroups->inotify && !cgroups->unwatched;
}
