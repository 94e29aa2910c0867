/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/extender.h"
#include "common/buf.h"
#include "common/json_memo.h"
#include "common/json_scan.h"
#include "extender/find.h"
#include "extender/recall.h"

/*
 * The scheduler's requests and our answers as they travel (k8s.io/kube-scheduler/extender/v1), read
 * in one pass and without a tree. What is read points into the body; buffers are kept from request
 * to request, so that a steady state allocates nothing. The rules of reading are those of
 * api/extender.h.
 */

/** Most nodes in one request: several times the largest cluster that Kubernetes supports. Bounds
 * the memory of a request. */
#define EXT_NODES_MAX 100000

/** A name that is null; told from an empty one by its address. */
extern const struct kw_json_text ext_no_name;

/** An element of Nodes.items. */
struct ext_item {
    struct kw_json_text name; /**< metadata.name; empty where it has none */
    const char *at;           /**< the whole element, verbatim */
    size_t len;
};

/** What is wanted of the candidates. Each includes what stands before it. */
enum ext_args_want {
    EXT_ARGS_LIST,    /**< of NodeNames as much as ext_answer_filter needs: ext_args_name may not be
                            asked */
    EXT_ARGS_NAMES,   /**< each name */
    EXT_ARGS_INDICES, /**< args->indices; wants a finder */
    EXT_ARGS_VERDICTS, /**< room for args->verdicts */
};

/** Request of filter and prioritize. Zero-initialised is empty; reused for the next request. */
struct ext_args {
    struct kw_extender_pod pod;
    struct kw_json_memo pods; /**< the pod that was read last: /prioritize has that of /filter */
    struct kw_extender_pod known; /**< what was read of it */
    bool has_names;               /**< NodeNames given and not null */
    bool has_nodes;               /**< Nodes given and not null */
    enum ext_args_want want;      /**< as it was read */
    const char *list; /**< what stands between the brackets of NodeNames; NULL where a null is
                         among it, and then the names were read */
    size_t list_len;
    size_t n_names, n_items;
    size_t names_cap, items_cap, indices_cap, verdicts_cap;
    size_t body_len;            /**< of the request that was read */
    struct kw_json_text *names; /**< as received: the spans between the quotes */
    struct ext_item *items;
    uint32_t *indices; /**< the candidates in the snapshot, plus 1; 0: unknown */
    uint8_t *verdicts; /**< enum ext_cap_verdict of each; the caller's to set before an answer that
                          takes them */
    struct ext_recall recall;
    uint64_t list_id; /**< recall.id where NodeNames is the list that is recalled; 0 where not */
};

/**
 * Reads a request.
 * @param finder begun; finds the candidates. NULL where `want` needs none.
 * @param args what it held is replaced; not to be used after a failure but to read again.
 * @param ret_why static text for the caller, set on failure.
 * @return 0; -EBADMSG malformed or of wrong types; -E2BIG more than EXT_NODES_MAX nodes; -ENOMEM.
 */
int ext_args_scan(const char *body, size_t len, struct ext_finder *finder, enum ext_args_want want,
                  struct ext_args *args, const char **ret_why);
void ext_args_free(struct ext_args *args);

/** How many candidates there are: those of NodeNames where it was given, else those of Nodes. */
static inline size_t ext_args_count(const struct ext_args *args)
{
    return args->has_names ? args->n_names : args->n_items;
}

/** Candidate i < ext_args_count. */
static inline const struct kw_json_text *ext_args_name(const struct ext_args *args, size_t i)
{
    return args->has_names ? &args->names[i] : &args->items[i].name;
}

/** Answer of filter with every candidate passing, each name and node byte for byte as received.
 * @return 0 or -ENOMEM. */
int ext_answer_filter(const struct ext_args *args, struct kw_buf *out);

/** An answer that is sent from where it stands. */
struct ext_lent {
    struct kw_buf *body; /**< the caller's: of the request, may be written to; NULL: it may not */
    const char *bytes;   /**< NULL: the answer is elsewhere */
    size_t len;
    atomic_uint *held; /**< the caller's to count down by one when it needs the bytes no more, or
                          NULL: they are in `body` */
};

/** The same answer, in the buffer of the request that was read. @return 1; 0 where it has no room
 * for that, or `lent` no body. */
int ext_lend_filter(const struct ext_args *args, struct ext_lent *lent);

/** Answer of filter by args->verdicts: each name and node that passes byte for byte as received,
 * and for each other its reason. @return 0 or -ENOMEM. */
int ext_answer_verdicts(const struct ext_args *args, struct kw_buf *out);

/** Answer of filter that refuses the call. @param why text without characters that JSON escapes.
 * @return 0 or -ENOMEM. */
int ext_answer_filter_error(const char *why, struct kw_buf *out);

/** Answer of prioritize: one entry per candidate, in the order received. @param scores
 * ext_args_count elements, 0..10. @return 0 or -ENOMEM. */
int ext_answer_prioritize(const struct ext_args *args, const uint8_t *scores, struct kw_buf *out);
