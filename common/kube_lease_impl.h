/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/*
 * Inside of the lease, shared by kube_lease.c (thread, requests) and kube_lease_object.c (the
 * object, and what to do about it). Not for others, but for tests and fuzz targets.
 */

/** A Lease as the API server has it; what is not ours in it is kept. */
struct kw_lease_object;

/** Takes an answer of the API server apart. @return 0; -EPROTO it is no Lease; -ENOMEM. */
int kw_lease_object_parse(const char *bytes, size_t len, struct kw_lease_object **ret,
                          struct kw_err *err);

/** One that does not exist yet. @return 0 or -ENOMEM. */
int kw_lease_object_make(const char *namespace_, const char *name, struct kw_lease_object **ret);
void kw_lease_object_free(struct kw_lease_object **object);

/** Whether the specs of both say the same; metadata do not count. Both may be NULL. */
bool kw_lease_object_same(const struct kw_lease_object *a, const struct kw_lease_object *b);

/** What of it matters. */
struct kw_lease_record {
    const char *holder;   /**< "" where nobody holds it; borrowed from the object */
    uint64_t duration_ns; /**< 0: not said, or nonsense */
    uint64_t transitions;
};
void kw_lease_object_read(const struct kw_lease_object *object, struct kw_lease_record *ret);

enum kw_lease_claim {
    KW_LEASE_TAKE,    /**< from nobody or another */
    KW_LEASE_RENEW,   /**< it is ours */
    KW_LEASE_RELEASE, /**< it is nobody's from now on */
};

/** JSON of the object once it is claimed; the resource version stays, so that an update of an
 * object that is another meanwhile is refused. @param ret caller frees. @return 0 or -ENOMEM. */
int kw_lease_object_claim(const struct kw_lease_object *object, enum kw_lease_claim claim,
                          const char *identity, uint64_t duration_ns, int64_t now_unix_us,
                          char **ret, size_t *ret_len);

enum kw_lease_step { KW_LEASE_STEP_WAIT, KW_LEASE_STEP_TAKE, KW_LEASE_STEP_RENEW };

/**
 * What to do about a lease.
 * @param seen_ns when this spec was first seen. @param now_ns by the same clock.
 * @param own_ns duration where the record says none.
 * @param ret_wait_ns of WAIT: until it may be taken, if nothing changes.
 */
enum kw_lease_step kw_lease_decide(const struct kw_lease_record *record, const char *identity,
                                   uint64_t seen_ns, uint64_t now_ns, uint64_t own_ns,
                                   uint64_t *ret_wait_ns);
