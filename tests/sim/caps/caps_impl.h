/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/extender.h"
#include "api/sample.h"
#include "common/kube.h"
#include "extender/capping.h"
#include "extender/flights.h"
#include "extender/service.h"
#include "tests/sim/caps/caps_sim.h"
#include "tests/sim/caps/caps_world.h"

/* What the parts of the simulation share. */

#define SECOND       INT64_C(1000000000)
#define INTERVAL_S   10
#define REPLICAS_MAX 2
#define START_S      1000 /* of CLOCK_MONOTONIC, when the day begins */
#define UNIX_MS      INT64_C(1790000000000)
#define NEWS_MAX     65536
#define STALE_S      30
#define DAY_S        86400.0
#define ASSUMPTIONS                                         \
    {                                                       \
        .default_cpu_mcpu = 100, .request_use_percent = 100 \
    }

/** A word of a pod to the extender's watch. */
struct news {
    int64_t at_s;
    enum kw_kube_event event;
    uint64_t number;
    int node;
    double mcpu, said_mw;
};

/** A pod of a recorded trace. */
struct kwt_trace_line {
    double mcpu, life_s;
};

/** One extender. */
struct replica {
    struct ext_service service;
    struct ext_capping *capping;
    struct ext_flights *flights;
    struct kw_snapshot *published;
    double read[KWT_NODES]; /**< sample_s of what was read last */
    bool heard[KWT_NODES];
    struct news *news; /**< on their way, in the order they were sent */
    size_t n_news;
    int64_t deaf_until_s, down_until_s, redis_away_until_s;
    bool down, cut; /**< cut: what it does not hear is lost, and listed afterwards */
};

struct sim {
    const struct kwt_caps_options *options;
    struct kwt_caps_result result;
    struct kwt_world world;
    struct replica replicas[REPLICAS_MAX];
    unsigned asked; /**< the replica that the scheduler asks */
    struct kw_log *log;
    struct kw_sample *samples; /**< in Redis, of KWT_NODES nodes; decoded once for all replicas */
    int64_t sample_s[KWT_NODES];
    char curves[KWT_NODES][512];
    char path[32];                /**< of the file of caps */
    struct kwt_trace_line *trace; /**< NULL: none */
    size_t n_trace;
    int64_t now_s;
    uint64_t numbers;
    struct kw_buf body, out;
};

/** CLOCK_MONOTONIC of the step at hand. */
static inline int64_t kwt_now_ns(const struct sim *sim)
{
    return (START_S + sim->now_s) * SECOND;
}

/** A word to a replica's watch of pods. @param news NULL: an event without a pod. */
void kwt_deliver(struct sim *sim, struct replica *replica, enum kw_kube_event event,
                 const struct news *news);
/** Sends a word of a pod on its way to all replicas. */
void kwt_send_news(struct sim *sim, enum kw_kube_event event, const struct kwt_pod *pod);
/** A list of all that are bound and wait, as after a connection was lost. */
void kwt_list(struct sim *sim, struct replica *replica);
/** What arrives by now; and what the way does to it. */
void kwt_carry_news(struct sim *sim);
/** Tries a pod that waits, as kube-scheduler does. */
void kwt_schedule(struct sim *sim, struct kwt_pod *pod);
/** Pods are created by the hour of the day, and in bursts. */
void kwt_arrive(struct sim *sim);
/** A pod's time has come. */
void kwt_advance(struct sim *sim, struct kwt_pod *pod);
/** @return 0, or -1 where the trace cannot be read. */
int kwt_read_trace(struct sim *sim);
