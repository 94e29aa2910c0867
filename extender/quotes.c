/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: pricing a pod on thousands of nodes reads a cache line of each, and that is most of what
 * scoring takes.
 *
 * Approach: where the same demand is asked for again in the same snapshot, what was found for it is
 * kept, eight bytes a node, filled by the candidates that are asked for. A pod that differs from
 * the one before pays for nothing of that, since nothing is kept of the first of a row.
 *
 * Invariants: a quote is what asking the node's place would give. It is kept and used only while
 * the node is calm (ext_snapshot.calm_until_ns), so that it stands where it stood when the snapshot
 * was made; and snapshots are told apart by an id that none has twice.
 */
#include "extender/quotes.h"

#include <errno.h>
#include <stdlib.h>

#include "extender/find.h"

/** Candidates that are looked at together: their places come from the memory at the same time. */
#define AT_ONCE 32

/** Of ext_score_scratch.value: below all that scoring writes. */
#define UNQUOTED (-9.0f)

int ext_quotes_reserve(struct ext_quotes *quotes, const struct ext_snapshot *snapshot)
{
    size_t n = snapshot == NULL ? 0 : snapshot->n + 1;

    if (n <= quotes->cap)
        return 0;
    ext_quotes_free(quotes);
    quotes->of = malloc(n * sizeof(*quotes->of));
    if (quotes->of == NULL)
        return -ENOMEM;
    quotes->cap = n;
    return 0;
}

void ext_quotes_free(struct ext_quotes *quotes)
{
    free(quotes->of);
    *quotes = (struct ext_quotes){0};
}

/** Whether two pods cost the same wherever they are put. */
static bool same_cost(const struct ext_score_pod *a, const struct ext_score_pod *b)
{
    return a->placement == b->placement && a->mcpu == b->mcpu && a->life_s == b->life_s;
}

/** Notes who asks, and clears what is kept where it is of others. */
static void begin(struct ext_quotes *quotes, const struct ext_score_pod *pod,
                  const struct ext_snapshot *snapshot)
{
    bool same =
        snapshot != NULL && quotes->snapshot_id == snapshot->id && same_cost(&quotes->pod, pod);

    if (same && !quotes->keeps) {
        for (size_t i = 0; i <= snapshot->n; i++)
            quotes->of[i] = (struct ext_score_scratch){.value = UNQUOTED};
    }
    quotes->keeps = same;
    quotes->pod = *pod;
    quotes->snapshot_id = snapshot == NULL ? 0 : snapshot->id;
}

/** Whether a quote of a node may be kept and used. */
static inline bool is_calm(const struct ext_snapshot *snapshot, uint32_t index, int64_t now_ns)
{
    return index == 0 || ext_snapshot_is_calm(snapshot, index - 1, now_ns);
}

/** Takes candidates by their quotes. @return false where not all are quoted, with none taken. */
static bool take_quoted(const struct ext_quotes *quotes, struct ext_score *score,
                        const struct ext_snapshot *snapshot, const uint32_t *indices, size_t n,
                        int64_t now_ns)
{
    struct ext_score_scratch *next = ext_score_next(score);
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        next[i] = quotes->of[indices[i]];
        all = all & (next[i].value != UNQUOTED) & is_calm(snapshot, indices[i], now_ns);
    }
    if (all)
        ext_score_take_again(score, n);
    return all;
}

/** Finds where candidates stand, and asks for it: a few at a time come from the memory together. */
static void look(const struct ext_snapshot *snapshot, const uint32_t *indices, size_t n,
                 int64_t now_ns, const struct ext_place **ret)
{
    for (size_t i = 0; i < n; i++) {
        ret[i] = ext_found_place(snapshot, indices[i], now_ns);
        __builtin_prefetch(ret[i]);
    }
}

/** How many are looked at together from `from` on. */
static inline size_t some_of(size_t n, size_t from)
{
    return n - from < AT_ONCE ? n - from : AT_ONCE;
}

/** Takes all candidates by where their nodes stand: some while the next come. */
static void take_places(struct ext_score *score, const struct ext_snapshot *snapshot,
                        const uint32_t *indices, size_t n, int64_t now_ns)
{
    const struct ext_place *places[2][AT_ONCE];
    unsigned at = 0;

    look(snapshot, indices, some_of(n, 0), now_ns, places[at]);
    for (size_t from = 0; from < n; from += AT_ONCE, at = 1 - at) {
        size_t some = some_of(n, from);
        look(snapshot, indices + from + some, some_of(n, from + some), now_ns, places[1 - at]);
        ext_score_take(score, places[at], some);
    }
}

void ext_quotes_take(struct ext_quotes *quotes, struct ext_score *score,
                     const struct ext_snapshot *snapshot, const uint32_t *indices, size_t n,
                     int64_t now_ns)
{
    begin(quotes, &score->pod, snapshot);
    if (!quotes->keeps) {
        take_places(score, snapshot, indices, n, now_ns);
        return;
    }
    for (size_t from = 0; from < n; from += AT_ONCE) {
        size_t some = some_of(n, from);
        const uint32_t *at = indices + from;
        if (take_quoted(quotes, score, snapshot, at, some, now_ns))
            continue;
        const struct ext_score_scratch *taken = ext_score_next(score);
        take_places(score, snapshot, at, some, now_ns);
        for (size_t i = 0; i < some; i++) {
            if (is_calm(snapshot, at[i], now_ns))
                quotes->of[at[i]] = taken[i];
        }
    }
}
