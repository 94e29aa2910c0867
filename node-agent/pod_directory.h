/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/pod.h"

/*
 * The pods of this node as Kubernetes describes them, found by the uid that their cgroup is named
 * after. Pure: no clock, no log, no lock. Pods that left the list stay for a while, since their
 * last energy is still shown.
 */

/** Listed pods; a kubelet runs 110 by default and some hundred at most. Further ones stay unnamed.
 */
#define AGENT_PODS_MAX 4096

/** Labels that an operator may ask for. */
#define AGENT_POD_LABELS_MAX 16

struct agent_pod_directory;

/** One pod. */
struct agent_pod_entry {
    struct kw_pod pod; /**< its owner is the top one, its labels those asked for */
    uint64_t version;  /**< of the directory when this last changed */
    uint64_t round;    /**< of the list that named it last */
    uint64_t gone_ns;  /**< CLOCK_MONOTONIC when it left the list; 0: listed */
    uint64_t print;    /**< of its content */
};

/**
 * @param labels keys, separated by commas: "app.kubernetes.io/name,team"; NULL or "": none.
 * @return 0; -EINVAL a key that is none, or too many; -ENOMEM.
 */
int agent_pod_directory_new(const char *labels, struct agent_pod_directory **ret);
void agent_pod_directory_free(struct agent_pod_directory **directory);

/**
 * Decodes a pod and leaves of it what the directory keeps. Does not touch the directory's content,
 * so it may run beside readers.
 * @param ret the caller clears it, or hands it to agent_pod_directory_put.
 * @return 0; -EBADMSG with a static text in *ret_why (also for names that no pod can have);
 * -ENOMEM.
 */
int agent_pod_directory_decode(const struct agent_pod_directory *directory, const char *json,
                               size_t len, struct kw_pod *ret, const char **ret_why);

/** Enters a pod or brings it up to date. @param pod taken over, whatever is returned. @return 0;
 * -ENOSPC; -ENOMEM. */
int agent_pod_directory_put(struct agent_pod_directory *directory, struct kw_pod *pod);

/** A pod left the list. */
void agent_pod_directory_remove(struct agent_pod_directory *directory, const char *uid,
                                uint64_t now_ns);

/** A whole list follows; it may be begun again before its end. */
void agent_pod_directory_begin(struct agent_pod_directory *directory);

/** What the list did not name has left. */
void agent_pod_directory_end(struct agent_pod_directory *directory, uint64_t now_ns);

/** The pod whose cgroup has this uid: its own, or a static pod's hash. @return NULL: none. Valid
 * until the next change. */
const struct agent_pod_entry *agent_pod_directory_find(struct agent_pod_directory *directory,
                                                       const char *uid);

/** Grows with every change that a reader could see. */
uint64_t agent_pod_directory_version(const struct agent_pod_directory *directory);

/** Lists that came to their end. */
uint64_t agent_pod_directory_rounds(const struct agent_pod_directory *directory);

/** Listed pods. */
size_t agent_pod_directory_count(const struct agent_pod_directory *directory);
