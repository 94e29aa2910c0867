/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kube.h"
#include "common/kube_lease.h"
#include "vpa-recommender/learning.h"
#include "vpa-recommender/source_redis.h"
#include "vpa-recommender/stats.h"

/*
 * The Kubernetes side: watches VPAs and pods, and in each loop finds the pods of every VPA, feeds
 * their records, and writes what has changed. Belongs to the loop thread.
 */

struct rec_vpa_client;

struct rec_vpa_client_conf {
    struct kw_kube_conf kube;          /**< borrowed for the life of the client */
    const char *recommender;           /**< name in spec.recommenders[]; borrowed */
    const char *namespace_;            /**< watch only this one; NULL: all */
    const struct kw_kube_lease *lease; /**< who may write; NULL: this one. Borrowed for the life of
                                          the client */
    uint32_t timeout_ms;               /**< of a call, watches left out; 0: kw_kube's default */
    uint64_t interval_ns;              /**< of the loops: bounds the calls of each */
    uint64_t sample_interval_ms;       /**< as rec_feed */
    int cancel_fd;            /**< as soon as it can be read, matching, feeding and writing end
                                 with -ECANCELED; it is only polled */
    void (*wake)(void *user); /**< called from a watch thread when rec_vpa_client_drain has
                                 something to do */
    void *user;
};

/** Reads the configuration and starts the watches. @return 0; -ENOENT where there is no API server
 * to talk to; as kw_kube_new. */
int rec_vpa_client_new(const struct rec_vpa_client_conf *conf, struct rec_vpa_client **ret,
                       struct kw_err *err);
void rec_vpa_client_free(struct rec_vpa_client **client);

/** "https://10.0.0.1:6443": for messages. */
const char *rec_vpa_client_server(const struct rec_vpa_client *client);

enum rec_drained {
    REC_DRAINED_NOTHING, /**< nothing that cannot wait for the next loop */
    REC_DRAINED_CHANGED, /**< a VPA is new or was changed by its user */
    REC_DRAINED_DOWN,    /**< a watch lost the API server: err says why; its code is -ENOENT where
                            the server is there and the CRDs of the VPA are not */
};

/** Takes in what the watches brought. @param err of DOWN. */
enum rec_drained rec_vpa_client_drain(struct rec_vpa_client *client, struct kw_err *err);

/** Finds targets and pods. Without a complete view does nothing. @return 0; -errno of the API
 * server or -ENOMEM: the loop goes on with what is known. */
int rec_vpa_client_match(struct rec_vpa_client *client, int64_t now_unix_ms, struct kw_err *err);

/** Reads and feeds the records of the pods found. @return 0; as kw_redis_exec. */
int rec_vpa_client_feed(struct rec_vpa_client *client, struct rec_source *source,
                        int64_t now_unix_ms, struct kw_err *err);

/** Writes the statuses that differ, as long as this replica may. @return 0; -errno of the first
 * write that failed. */
int rec_vpa_client_write(struct rec_vpa_client *client, int64_t now_unix_ms, struct kw_err *err);

/** Learns profiles from the next nodes' records, where this replica may write and all pods are in
 * view; else does nothing. @return as rec_learning_loop. */
int rec_vpa_client_learn(struct rec_vpa_client *client, struct rec_learning *learning,
                         int64_t now_unix_ms, struct kw_err *err);

/** Whether both watches stand. */
bool rec_vpa_client_up(const struct rec_vpa_client *client);

/** Whether VPAs and pods were listed completely. */
bool rec_vpa_client_synced(const struct rec_vpa_client *client);

/** Adds what it knows to the statistics. */
void rec_vpa_client_stats(const struct rec_vpa_client *client, struct rec_stats *stats);
