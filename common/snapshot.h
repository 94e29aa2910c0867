/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Publication of immutable snapshots: one writer swaps a pointer, any number of reader threads use
 * what they got without a lock. Readers announce the pointer they hold in a slot (hazard pointers);
 * the writer frees an old snapshot when no slot names it.
 */

struct kw_snapshot;

typedef void (*kw_snapshot_free_fn)(void *value);

/** @param readers how many may hold a value at the same time. @return 0 or -ENOMEM. */
int kw_snapshot_new(size_t readers, kw_snapshot_free_fn free_fn, struct kw_snapshot **ret);

/** Frees the published and all retired values; no reader may be left. */
void kw_snapshot_free(struct kw_snapshot **snapshot);

/** Writer only: publishes `value` (ownership passes; may be NULL) and frees what nobody holds any
 * more. Never waits. */
void kw_snapshot_publish(struct kw_snapshot *snapshot, void *value);

/**
 * Takes hold of the present value; lock-free, allocates nothing. Hold it for one request, not
 * longer.
 * @param ret_slot to be given to kw_snapshot_release.
 * @return the value; NULL where nothing is published or every slot is taken (nothing is held then;
 *         release accepts that too).
 */
const void *kw_snapshot_acquire(struct kw_snapshot *snapshot, size_t *ret_slot);
void kw_snapshot_release(struct kw_snapshot *snapshot, size_t slot);
