/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kube.h"

/*
 * Leader election by a Lease (coordination.k8s.io/v1), as client-go's: of several replicas one
 * holds it, renews it, and may write; the others stand by. A thread of its own does that. Of the
 * holder's clock nothing is believed: a lease may be taken once it was seen unchanged for its whole
 * duration. It needs the verbs get, create and update on the Lease.
 */

/** What an operator chooses (common/kube_lease_rows.h). */
struct kw_kube_lease_settings {
    bool enabled;
    const char *namespace_; /**< NULL: the pod's own */
    const char *name;
    uint64_t duration_ns;       /**< after so long without renewal others may take it */
    uint64_t renew_deadline_ns; /**< after so long without renewal the holder writes no more */
    uint64_t retry_ns;          /**< between two tries */
};

struct kw_kube_lease_conf {
    struct kw_kube_conf kube; /**< its time-out and cancel_fd are not used */
    struct kw_kube_lease_settings settings;
    const char *identity;        /**< NULL: host name and a random part */
    void (*changed)(void *user); /**< called on the lease's thread where the status is another */
    void *user;
};

struct kw_kube_lease;

/** Texts are copied. Starts the thread; does not wait for an answer. @return 0; -EINVAL with the
 * bad setting named; as kw_kube_new; -errno. */
int kw_kube_lease_start(const struct kw_kube_lease_conf *conf, struct kw_kube_lease **ret,
                        struct kw_err *err);

/** Ends the thread, hands the lease back where it is held (so that another may take it at once; two
 * seconds at most are spent on that), frees. To be called when nothing is written any more. */
void kw_kube_lease_stop(struct kw_kube_lease **lease);

/** Whether the caller may write now: the lease was renewed within the renew deadline, counted from
 * before the renewal was sent. A write that is begun now has duration - renew deadline to end
 * before another can hold the lease. From any thread; no call, no lock. */
bool kw_kube_lease_held(const struct kw_kube_lease *lease);

/** For logs and pages. */
struct kw_kube_lease_status {
    bool known;       /**< the API server has answered for the lease at least once */
    bool held;        /**< as kw_kube_lease_held */
    char holder[256]; /**< "" nobody */
    uint64_t transitions;
    char error[256]; /**< why the last try failed; "" it did not */
};

/** From any thread. */
void kw_kube_lease_status(struct kw_kube_lease *lease, struct kw_kube_lease_status *ret);

/** "NAMESPACE/NAME". */
const char *kw_kube_lease_name(const struct kw_kube_lease *lease);
