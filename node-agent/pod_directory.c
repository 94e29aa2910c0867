/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: a node's pods are named anew by every list, nearly always unchanged; readers look at
 * some of them every few seconds and must see at once whether anything is new to them.
 *
 * Approach: entries stand in an array; an index sorted by uid (two rows for a static pod, which has
 * two) is made again at the first search after a pod came or went. A fingerprint of what is kept
 * tells whether a pod changed; only then does its version move, and the directory's with it.
 *
 * Bounds: AGENT_PODS_MAX listed pods, and GONE_MAX that left, for GONE_KEEP_NS or until newer ones
 * need the room: a list of nothing but new pods each time costs no more than that.
 */
#include "node-agent/pod_directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/owner.h"
#include "api/top_owner.h"
#include "common/cleanup.h"
#include "node-agent/ledger.h"

/* As long as the ledger lists an ended workload. */
#define GONE_KEEP_NS AGENT_DEPART_NS
#define GONE_MAX     1024

/* k8s.io/apimachinery: a label's value has up to 63 bytes, its key a prefix of 253 and a name of
 * 63. */
#define LABEL_VALUE_MAX 63
#define LABEL_KEY_MAX   (253 + 1 + 63)

/* A uid is a UUID or a hash; what a static pod's manifest gives instead names a directory. */
#define UID_MAX 253

struct row {
    const char *uid;
    struct agent_pod_entry *entry;
};

struct agent_pod_directory {
    char *labels; /* keys, each ended by NUL */
    const char *label_keys[AGENT_POD_LABELS_MAX];
    size_t n_labels;
    struct agent_pod_entry **entries;
    size_t n, cap, n_gone;
    struct row *index;
    size_t n_index;
    bool stale_index;
    uint64_t version, round, rounds;
};

static bool label_key_ok(const char *key)
{
    size_t n = strlen(key);

    if (n == 0 || n > LABEL_KEY_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = key[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.' || c == '/'))
            return false;
    }
    return true;
}

static int split_labels(struct agent_pod_directory *directory)
{
    char *rest = NULL;

    for (char *key = strtok_r(directory->labels, ", ", &rest); key != NULL;
         key = strtok_r(NULL, ", ", &rest)) {
        if (!label_key_ok(key) || directory->n_labels == AGENT_POD_LABELS_MAX)
            return -EINVAL;
        directory->label_keys[directory->n_labels++] = key;
    }
    return 0;
}

int agent_pod_directory_new(const char *labels, struct agent_pod_directory **ret)
{
    kw_cleanup(agent_pod_directory_free) struct agent_pod_directory *directory =
        calloc(1, sizeof(*directory));

    if (directory == NULL)
        return -ENOMEM;
    directory->version = 1;
    directory->labels = strdup(labels != NULL ? labels : "");
    if (directory->labels == NULL)
        return -ENOMEM;
    int rc = split_labels(directory);
    if (rc < 0)
        return rc;
    *ret = KW_TAKE_PTR(directory);
    return 0;
}

static void free_entry(struct agent_pod_entry *entry)
{
    kw_pod_clear(&entry->pod);
    free(entry);
}

void agent_pod_directory_free(struct agent_pod_directory **directory)
{
    struct agent_pod_directory *owned = KW_TAKE_PTR(*directory);

    if (owned == NULL)
        return;
    for (size_t i = 0; i < owned->n; i++)
        free_entry(owned->entries[i]);
    free(owned->entries);
    free(owned->index);
    free(owned->labels);
    free(owned);
}

/* ------------------------------------------------------------------ decoding */

static bool wanted(const struct agent_pod_directory *directory, const struct kw_label_pair *pair)
{
    for (size_t i = 0; i < directory->n_labels; i++) {
        if (strcmp(directory->label_keys[i], pair->key) == 0)
            return strlen(pair->value) <= LABEL_VALUE_MAX;
    }
    return false;
}

static void keep_labels(const struct agent_pod_directory *directory, struct kw_labels *labels)
{
    size_t kept = 0;

    for (size_t i = 0; i < labels->n; i++) {
        if (wanted(directory, &labels->items[i])) {
            labels->items[kept++] = labels->items[i];
            continue;
        }
        free(labels->items[i].key);
        free(labels->items[i].value);
    }
    labels->n = kept;
}

static int keep_owner(struct kw_pod *pod)
{
    struct kw_top_owner top;

    kw_top_owner_of(pod, &top);
    kw_owner_ref_clear(&pod->owner);
    pod->has_owner = top.kind[0] != '\0';
    pod->owner.kind = strdup(top.kind);
    pod->owner.name = strdup(top.name);
    return pod->owner.kind != NULL && pod->owner.name != NULL ? 0 : -ENOMEM;
}

static const char *fault_of(const struct kw_pod *pod)
{
    if (pod->uid[0] == '\0' || strlen(pod->uid) > UID_MAX)
        return "metadata.uid";
    if (!kw_kube_name_ok(pod->name))
        return "metadata.name";
    if (!kw_kube_name_ok(pod->namespace_))
        return "metadata.namespace";
    for (size_t i = 0; i < pod->n_containers + pod->n_ephemeral; i++) {
        if (!kw_kube_name_ok(pod->containers[i].name))
            return "a container's name";
    }
    return NULL;
}

int agent_pod_directory_decode(const struct agent_pod_directory *directory, const char *json,
                               size_t len, struct kw_pod *ret, const char **ret_why)
{
    struct kw_pod pod = {0};
    int rc = kw_pod_decode(json, len, &pod, ret_why);

    if (rc < 0)
        return rc;
    const char *fault = fault_of(&pod);
    if (fault != NULL) {
        *ret_why = fault;
        kw_pod_clear(&pod);
        return -EBADMSG;
    }
    rc = keep_owner(&pod); /* by its labels: before these go */
    keep_labels(directory, &pod.labels);
    if (rc < 0) {
        kw_pod_clear(&pod);
        return rc;
    }
    *ret = pod;
    return 0;
}

/* ------------------------------------------------------------------ content */

static uint64_t add_byte(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3); /* FNV-1a */
}

/** With its end, so that "ab" "c" is not "a" "bc". */
static uint64_t add_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = add_byte(hash, (uint8_t)*text);
    return add_byte(hash, 0);
}

static uint64_t add_number(uint64_t hash, uint64_t number)
{
    for (unsigned shift = 0; shift < 64; shift += 8)
        hash = add_byte(hash, (uint8_t)(number >> shift));
    return hash;
}

static uint64_t print_of(const struct kw_pod *pod)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = add_text(hash, pod->name);
    hash = add_text(hash, pod->namespace_);
    hash = add_text(hash, pod->static_uid);
    hash = add_text(hash, pod->owner.kind);
    hash = add_text(hash, pod->owner.name);
    for (size_t i = 0; i < pod->labels.n; i++) {
        hash = add_text(hash, pod->labels.items[i].key);
        hash = add_text(hash, pod->labels.items[i].value);
    }
    for (size_t i = 0; i < pod->n_containers + pod->n_ephemeral; i++) {
        const struct kw_pod_container *container = &pod->containers[i];
        hash = add_text(hash, container->name);
        hash = add_text(hash, container->id);
        hash = add_text(hash, container->former_id);
        hash = add_number(hash, container->request_mcpu);
        hash = add_number(hash, container->request_bytes);
        hash = add_number(hash, container->limit_mcpu);
        hash = add_number(hash, container->limit_bytes);
    }
    return hash;
}

static int compare_rows(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->uid, ((const struct row *)b)->uid);
}

/** One row a uid: a static pod's mirror may have been made anew, and the newer one counts. */
static size_t unite(struct row *index, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        struct row *last = kept > 0 ? &index[kept - 1] : NULL;
        if (last == NULL || strcmp(last->uid, index[i].uid) != 0)
            index[kept++] = index[i];
        else if (last->entry->gone_ns != 0 ||
                 (index[i].entry->gone_ns == 0 && index[i].entry->version > last->entry->version))
            *last = index[i];
    }
    return kept;
}

/** @return false: no memory, and searches find nothing until there is. */
static bool make_index(struct agent_pod_directory *directory)
{
    size_t n = 0;

    if (!directory->stale_index)
        return true;
    struct row *index = reallocarray(directory->index, 2 * directory->n + 1, sizeof(*index));
    if (index == NULL)
        return false;
    for (size_t i = 0; i < directory->n; i++) {
        struct agent_pod_entry *entry = directory->entries[i];
        index[n++] = (struct row){entry->pod.uid, entry};
        if (entry->pod.static_uid[0] != '\0' && strcmp(entry->pod.static_uid, entry->pod.uid) != 0)
            index[n++] = (struct row){entry->pod.static_uid, entry};
    }
    qsort(index, n, sizeof(*index), compare_rows);
    directory->index = index;
    directory->n_index = unite(index, n);
    directory->stale_index = false;
    return true;
}

const struct agent_pod_entry *agent_pod_directory_find(struct agent_pod_directory *directory,
                                                       const char *uid)
{
    const struct row key = {uid, NULL};

    if (!make_index(directory) || directory->n_index == 0)
        return NULL;
    const struct row *found =
        bsearch(&key, directory->index, directory->n_index, sizeof(key), compare_rows);
    return found != NULL ? found->entry : NULL;
}

/** By its own uid alone. The array is searched: a list names each pod once, and there are few. */
static struct agent_pod_entry *entry_of(const struct agent_pod_directory *directory,
                                        const char *uid)
{
    for (size_t i = 0; i < directory->n; i++) {
        if (strcmp(directory->entries[i]->pod.uid, uid) == 0)
            return directory->entries[i];
    }
    return NULL;
}

static int add_entry(struct agent_pod_directory *directory, struct agent_pod_entry **ret)
{
    if (directory->n - directory->n_gone >= AGENT_PODS_MAX)
        return -ENOSPC;
    if (directory->n == directory->cap) {
        size_t cap = directory->cap == 0 ? 64 : 2 * directory->cap;
        struct agent_pod_entry **entries =
            reallocarray(directory->entries, cap, sizeof(struct agent_pod_entry *));
        if (entries == NULL)
            return -ENOMEM;
        directory->entries = entries;
        directory->cap = cap;
    }
    struct agent_pod_entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return -ENOMEM;
    directory->entries[directory->n++] = entry;
    *ret = entry;
    return 0;
}

int agent_pod_directory_put(struct agent_pod_directory *directory, struct kw_pod *pod)
{
    struct agent_pod_entry *entry = entry_of(directory, pod->uid);
    uint64_t print = print_of(pod);

    if (entry == NULL) {
        int rc = add_entry(directory, &entry);
        if (rc < 0) {
            kw_pod_clear(pod);
            return rc;
        }
    } else if (entry->gone_ns != 0) {
        directory->n_gone--; /* it was missing in one list only */
        entry->gone_ns = 0;
        directory->stale_index = true;
    }
    entry->round = directory->round;
    if (entry->version != 0 && entry->print == print) {
        kw_pod_clear(pod);
        return 0;
    }
    kw_pod_clear(&entry->pod);
    entry->pod = *pod;
    *pod = (struct kw_pod){0};
    entry->print = print;
    entry->version = ++directory->version;
    directory->stale_index = true; /* it refers to the texts */
    return 0;
}

static void drop_entry(struct agent_pod_directory *directory, size_t i)
{
    free_entry(directory->entries[i]);
    directory->entries[i] = directory->entries[--directory->n];
    directory->n_gone--;
    directory->stale_index = true;
}

/** Pods that left long ago, and the oldest where there are too many. */
static void drop_gone(struct agent_pod_directory *directory, uint64_t now_ns)
{
    for (size_t i = directory->n; i-- > 0;) {
        const struct agent_pod_entry *entry = directory->entries[i];
        if (entry->gone_ns != 0 && now_ns - entry->gone_ns >= GONE_KEEP_NS)
            drop_entry(directory, i);
    }
    while (directory->n_gone > GONE_MAX) {
        size_t oldest = SIZE_MAX;
        for (size_t i = 0; i < directory->n; i++) {
            uint64_t gone_ns = directory->entries[i]->gone_ns;
            if (gone_ns != 0 &&
                (oldest == SIZE_MAX || gone_ns < directory->entries[oldest]->gone_ns))
                oldest = i;
        }
        drop_entry(directory, oldest);
    }
}

static void leave(struct agent_pod_directory *directory, struct agent_pod_entry *entry,
                  uint64_t now_ns)
{
    entry->gone_ns = now_ns != 0 ? now_ns : 1;
    directory->n_gone++;
    directory->stale_index = true;
}

void agent_pod_directory_remove(struct agent_pod_directory *directory, const char *uid,
                                uint64_t now_ns)
{
    struct agent_pod_entry *entry = entry_of(directory, uid);

    if (entry != NULL && entry->gone_ns == 0)
        leave(directory, entry, now_ns);
    drop_gone(directory, now_ns);
}

void agent_pod_directory_begin(struct agent_pod_directory *directory)
{
    directory->round++;
}

void agent_pod_directory_end(struct agent_pod_directory *directory, uint64_t now_ns)
{
    for (size_t i = 0; i < directory->n; i++) {
        struct agent_pod_entry *entry = directory->entries[i];
        if (entry->gone_ns == 0 && entry->round != directory->round)
            leave(directory, entry, now_ns);
    }
    drop_gone(directory, now_ns);
    directory->rounds++;
}

uint64_t agent_pod_directory_version(const struct agent_pod_directory *directory)
{
    return directory->version;
}

uint64_t agent_pod_directory_rounds(const struct agent_pod_directory *directory)
{
    return directory->rounds;
}

size_t agent_pod_directory_count(const struct agent_pod_directory *directory)
{
    return directory->n - directory->n_gone;
}
