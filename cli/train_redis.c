/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A feed is a range from the entry read last, that one included, so that a trimmed feed is noticed;
 * samples that are missed then lack their number in the epoch, and no row is made over the hole.
 */
#include "cli/train_redis.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "cli/feed_rows.h"
#include "cli/source.h"
#include "common/cleanup.h"
#include "common/clock.h"

#define NODES_MAX  KW_MODEL_GROUPS_MAX
#define ID_MAX     44 /* two numbers of 64 bits and a dash */
#define PAGE       256
#define PAGE_TEXT  "256"
#define PAGES_MAX  4096 /* of one reading: a feed that grows faster than it is read ends there */
#define POLL_MS    1000
#define TIMEOUT_MS 5000

/** A node that is learnt from. */
struct node {
    char *name;
    struct kw_node_info info;
    struct cli_feed_rows rows;
};

struct learner {
    const struct cli_io *io;
    struct kw_redis *redis;
    size_t n;
    struct node nodes[NODES_MAX];
    char last[KW_FEED_SHARDS][ID_MAX]; /* id of the entry read last; "": none */
    size_t n_estimated;                /* nodes that have no meter */
};

static void learner_clear(struct learner *learner)
{
    for (size_t i = 0; i < learner->n; i++) {
        free(learner->nodes[i].name);
        cli_feed_rows_free(&learner->nodes[i].rows);
    }
    kw_redis_free(&learner->redis);
}

/** Takes a node in. @param asked somebody named it: one without a meter is an error. */
static int add_node(struct learner *learner, const char *name, bool asked, struct kw_err *err)
{
    kw_cleanup(kw_node_view_clear) struct kw_node_view view = {0};
    struct node *node = &learner->nodes[learner->n];
    int rc = cli_source_redis_view(learner->redis, name, &view, err);

    if (rc == -ENOENT && !asked)
        return 0; /* it is gone, and its name is not yet */
    if (rc < 0)
        return rc;
    if ((view.sample.quality & KW_QUALITY_BIT(KW_QUALITY_ESTIMATED)) != 0) {
        learner->n_estimated++;
        return asked ? kw_err_set(err, -EINVAL,
                                  "the energy of node \"%.200s\" comes from a model, not from a "
                                  "meter: a model of that could learn nothing but the other one",
                                  name)
                     : 0;
    }
    for (size_t i = 0; i < learner->n; i++) {
        if (strcmp(learner->nodes[i].name, name) == 0)
            return kw_err_set(err, -EINVAL, "--node: \"%.200s\" is there twice", name);
    }
    if (learner->n == NODES_MAX)
        return kw_err_set(err, -E2BIG, "more than %d nodes with a meter; choose some: --node",
                          NODES_MAX);
    node->name = strdup(name);
    if (node->name == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    node->info = view.info;
    learner->n++;
    return 0;
}

static int add_named(struct learner *learner, const char *names, struct kw_err *err)
{
    kw_cleanup_free char *copy = strdup(names);
    char *at = copy, *name;
    int rc = 0;

    if (copy == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    while (rc == 0 && (name = strsep(&at, ",")) != NULL)
        rc = add_node(learner, name, true, err);
    return rc;
}

static int add_all(struct learner *learner, struct kw_err *err)
{
    struct cli_names names = {0};
    int rc = cli_source_nodes(learner->redis, &names, err);

    for (size_t i = 0; rc == 0 && i < names.n; i++)
        rc = add_node(learner, names.items[i], false, err);
    if (rc == 0 && learner->n == 0)
        rc = kw_err_set(err, -ENODATA,
                        names.n == 0 ? "no agent has published there"
                                     : "none of the %zu nodes there has a meter",
                        names.n);
    cli_names_clear(&names);
    return rc;
}

/** A model is of one machine: nodes alike in their processors. */
static int check_alike(const struct learner *learner, struct kw_err *err)
{
    const struct node *first = &learner->nodes[0];

    for (size_t i = 1; i < learner->n; i++) {
        const struct node *node = &learner->nodes[i];
        if (strcmp(node->info.cpu_model, first->info.cpu_model) != 0 ||
            node->info.threads != first->info.threads)
            return kw_err_set(err, -EINVAL,
                              "node %.60s is %u threads of \"%.60s\", node %.60s is %u of "
                              "\"%.60s\": a model is of one machine, so choose nodes alike: --node",
                              first->name, first->info.threads, first->info.cpu_model, node->name,
                              node->info.threads, node->info.cpu_model);
    }
    return 0;
}

/** The sample of an entry's fields, to the node that it is of. One that is none is passed over. */
static int take_fields(struct learner *learner, const struct kw_redis_reply *fields)
{
    struct kw_sample sample;

    for (size_t i = 0; i + 1 < fields->n_elements; i += 2) {
        const struct kw_redis_reply *name = &fields->elements[i];
        const struct kw_redis_reply *value = &fields->elements[i + 1];
        if (name->type != KW_REDIS_STRING || value->type != KW_REDIS_STRING ||
            strcmp(name->str, KW_FIELD_SAMPLE) != 0 ||
            kw_sample_decode(value->str, value->len, &sample, NULL) < 0)
            continue;
        for (size_t k = 0; k < learner->n; k++) {
            if (strcmp(learner->nodes[k].name, sample.node) == 0)
                return cli_feed_rows_add(&learner->nodes[k].rows, &sample);
        }
    }
    return 0;
}

/** One page of a feed. @return whether it was full (1), or -errno. */
static int take_page(struct learner *learner, const struct kw_redis_reply *list, char last[ID_MAX],
                     struct kw_err *err)
{
    bool moved = false;

    if (list->type == KW_REDIS_ERROR)
        return kw_err_set(err, -EREMOTEIO, "Redis: %.300s", list->str);
    if (list->type != KW_REDIS_ARRAY)
        return kw_err_set(err, -EPROTO, "Redis answered with a reply of another type");
    for (size_t i = 0; i < list->n_elements; i++) {
        const struct kw_redis_reply *entry = &list->elements[i];
        if (entry->type != KW_REDIS_ARRAY || entry->n_elements != 2 ||
            entry->elements[0].type != KW_REDIS_STRING || entry->elements[0].len >= ID_MAX ||
            entry->elements[1].type != KW_REDIS_ARRAY || strcmp(entry->elements[0].str, last) == 0)
            continue;
        if (take_fields(learner, &entry->elements[1]) < 0)
            return kw_err_set(err, -ENOMEM, "out of memory");
        (void)snprintf(last, ID_MAX, "%s", entry->elements[0].str);
        moved = true;
    }
    return moved && list->n_elements == PAGE;
}

/** Whether a node's samples are in a feed. */
static bool is_wanted(const struct learner *learner, unsigned shard)
{
    for (size_t i = 0; i < learner->n; i++) {
        if (kw_feed_shard(learner->nodes[i].name) == shard)
            return true;
    }
    return false;
}

/** Reads on in one feed to its end. */
static int read_feed(struct learner *learner, unsigned shard, struct kw_err *err)
{
    char key[KW_KEY_MAX], *last = learner->last[shard];
    int rc = 1;

    kw_key_feed(key, shard);
    for (unsigned page = 0; page < PAGES_MAX && rc > 0; page++) {
        kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
        rc = kw_redis_queue_texts(learner->redis, "XRANGE", key, last[0] == '\0' ? "-" : last, "+",
                                  "COUNT", PAGE_TEXT, (const char *)NULL);
        if (rc == 0)
            rc = kw_redis_exec(learner->redis, &replies, err);
        if (rc == 0 && replies.n == 1)
            rc = take_page(learner, &replies.items[0], last, err);
    }
    return rc < 0 ? rc : 0;
}

static int read_feeds(struct learner *learner, struct kw_err *err)
{
    int rc = 0;

    for (unsigned shard = 0; rc == 0 && shard < KW_FEED_SHARDS; shard++) {
        if (is_wanted(learner, shard))
            rc = read_feed(learner, shard, err);
    }
    return rc;
}

/** Follows the feeds. A Redis that is away for a while costs what was published meanwhile and is
 * not kept. */
static int follow(struct learner *learner, uint64_t seconds, struct kw_err *err)
{
    uint64_t until_ns = kw_now_ns() + seconds * KW_NS_PER_S;
    int rc = 0;

    (void)fflush(learner->io->out);
    while (kw_now_ns() < until_ns) {
        (void)poll(NULL, 0, POLL_MS);
        rc = read_feeds(learner, err);
    }
    return rc; /* of the last time */
}

/** Says what came of a node. */
static void tell(const struct learner *learner, const struct node *node)
{
    const struct cli_feed_rows *rows = &node->rows;

    (void)fprintf(learner->io->out, "%s: %zu rows of %zu samples", node->name, rows->n,
                  rows->n_samples);
    if (rows->n_left_out > 0)
        (void)fprintf(learner->io->out, ", %zu left out (flagged, or after missing ones)",
                      rows->n_left_out);
    if (rows->n_estimated > 0)
        (void)fprintf(learner->io->out, ", %zu of a model", rows->n_estimated);
    if (rows->n_without > 0)
        (void)fprintf(learner->io->out, ", %zu of an agent that does not tell its totals",
                      rows->n_without);
    (void)fprintf(learner->io->out, "\n");
}

/** The rows of all nodes, by the columns that all have. */
static int add_rows(const struct learner *learner, struct cli_recording *recording,
                    struct kw_err *err)
{
    bool counters = true, dram = true;
    size_t n = 0;
    int rc = 0;

    for (size_t i = 0; i < learner->n; i++) {
        const struct cli_feed_rows *rows = &learner->nodes[i].rows;
        tell(learner, &learner->nodes[i]);
        counters = counters && (rows->n == 0 || rows->has_counters);
        dram = dram && (rows->n == 0 || rows->has_dram);
        n += rows->n;
    }
    if (n == 0)
        return kw_err_set(err, -ENODATA,
                          "nothing there to learn from yet; follow what is published for a while: "
                          "--seconds 3600");
    for (size_t i = 0; rc == 0 && i < learner->n; i++) {
        const struct node *node = &learner->nodes[i];
        kw_cleanup(kw_buf_free) struct kw_buf csv = {0};
        if (node->rows.n == 0)
            continue;
        rc = cli_feed_rows_print(&node->rows, counters, dram, &csv);
        if (rc < 0)
            return kw_err_set(err, rc, "out of memory");
        rc = cli_recording_add(recording, csv.data, csv.len, NULL, node->name, err);
    }
    return rc;
}

int cli_train_add_redis(const struct cli_io *io, const struct cli_train_redis *from,
                        struct cli_recording *recording, uint32_t *ret_threads, struct kw_err *err)
{
    const struct kw_redis_conf conf = {
        .access = *from->access, .connect_timeout_ms = TIMEOUT_MS, .timeout_ms = TIMEOUT_MS};
    kw_cleanup_free struct learner *learner = calloc(1, sizeof(*learner));

    if (learner == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    learner->io = io;
    int rc = kw_redis_new(&conf, &learner->redis, err);
    if (rc == 0)
        rc = from->nodes != NULL ? add_named(learner, from->nodes, err) : add_all(learner, err);
    if (rc == 0)
        rc = check_alike(learner, err);
    if (rc == 0)
        rc = read_feeds(learner, err);
    if (rc == 0 && from->follow_s > 0)
        rc = follow(learner, from->follow_s, err);
    if (rc == 0)
        rc = add_rows(learner, recording, err);
    if (rc == 0) {
        recording->timed = true;
        if (learner->nodes[0].info.threads > 0)
            *ret_threads = learner->nodes[0].info.threads;
    }
    learner_clear(learner);
    return rc;
}
