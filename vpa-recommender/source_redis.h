/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/advice.h"
#include "api/pod_record.h"
#include "common/err.h"
#include "common/redis.h"

/*
 * The agents' records in Redis (api/names.h), and the advice for them. Every value is taken as
 * hostile: what cannot be read is counted and passed over, and one node's values never reach
 * another's.
 */

/** What happened to the records read, since start. */
enum rec_record_fate {
    REC_RECORD_READ,      /**< decoded and handed on */
    REC_RECORD_MALFORMED, /**< no record, or one that calls itself by another id */
    REC_RECORD_SCHEMA,    /**< of another schema version */
    REC_RECORD_REFUSED,   /**< a node name or a number of records beyond the bounds */
    REC_RECORD__MAX
};

/** "read", "malformed", ... index is enum rec_record_fate. */
extern const char *const rec_record_fate_names[REC_RECORD__MAX];

struct rec_source {
    struct kw_redis *redis; /**< not owned */
    uint64_t fates[REC_RECORD__MAX];
};

/** Node names, valid as keys. */
struct rec_nodes {
    size_t n;
    char **names;
};

/** Frees; leaves *nodes empty. */
void rec_nodes_clear(struct rec_nodes *nodes);

/** Reads the names of the nodes whose agents publish, at most 20 000. @param ret cleared by the
 * caller. @return 0; as kw_redis_exec; -ENOMEM. */
int rec_source_nodes(struct rec_source *source, struct rec_nodes *ret, struct kw_err *err);

typedef void (*rec_record_fn)(void *user, const char *node, const struct kw_pod_record *record);

/** Reads all records of a node. @return 0; as kw_redis_exec. */
int rec_source_read_all(struct rec_source *source, const char *node, rec_record_fn fn, void *user,
                        struct kw_err *err);

/** Reads the records of some workloads of a node; those that have none are passed over. @return as
 * rec_source_read_all. */
int rec_source_read(struct rec_source *source, const char *node, const char *const *ids, size_t n,
                    rec_record_fn fn, void *user, struct kw_err *err);

/** Reads the ids for which a node has advice. @param fn called with each. @return as
 * rec_source_read_all. */
int rec_source_advised(struct rec_source *source, const char *node,
                       void (*fn)(void *user, const char *id), void *user, struct kw_err *err);

/** Queues the writing of one advice. @return 0; -ENOMEM; -EINVAL for what cannot be encoded. */
int rec_source_put_advice(struct rec_source *source, const char *node,
                          const struct kw_advice *advice);

/** Queues the removal of one advice. @return 0 or -ENOMEM. */
int rec_source_drop_advice(struct rec_source *source, const char *node, const char *id);

/** Sends what is queued; a node whose advice key holds another type is passed over. @return as
 * kw_redis_exec; -EREMOTEIO where Redis refuses to write. */
int rec_source_flush(struct rec_source *source, struct kw_err *err);
