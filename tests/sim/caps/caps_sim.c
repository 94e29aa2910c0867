/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step is a second. In each: pods end and start, the scheduler tries those that wait (one after
 * the other, as it does, against what it has assumed itself), bindings go through, and news of them
 * arrive; nodes publish every ten seconds, and the extender reads. Each part of that may be late or
 * lost as the options say, by a generator that depends on the seed alone.
 */
#include "tests/sim/caps/caps_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "extender/ingest.h"
#include "tests/sim/caps/caps_impl.h"

/* ---- samples ---- */

static int publish_sample(struct sim *sim, int i)
{
    struct kwt_node *node = &sim->world.nodes[i];
    char text[512];
    int64_t seen_s = sim->now_s - (int64_t)sim->options->lag_s;
    double past_mw = (double)node->past_mw[(seen_s > 0 ? seen_s : 0) % (KWT_LAG_MAX_S + 1)];
    double mw = past_mw * (1 + 0.01 * (kwt_uniform(&sim->world) - 0.5));

    int len =
        snprintf(text, sizeof(text),
                 "{\"schema\":1,\"node\":\"%s\",\"epoch\":%llu,\"seq\":%llu,\"t_unix_ms\":%lld,"
                 "\"interval_ns\":%lld,\"packages\":[],\"watts_mw\":%.0f,\"used_mcpu\":%.0f,"
                 "\"allocatable_mcpu\":%.0f,\"idle_mw\":%.0f,\"meter\":\"model\"}",
                 node->name, (unsigned long long)node->epoch, (unsigned long long)++node->seq,
                 (long long)(UNIX_MS + sim->now_s * 1000 + node->clock_ms),
                 (long long)(node->window_s * SECOND), mw,
                 node->window_mcpu / (double)node->window_s, node->capacity_mcpu, node->knot_mw[0]);
    sim->sample_s[i] = sim->now_s;
    return kw_sample_decode(text, (size_t)len, &sim->samples[i], NULL);
}

/** Agents that start anew, and clocks that are set. */
static void disturb(struct sim *sim, struct kwt_node *node)
{
    if (kwt_uniform(&sim->world) < 4 * INTERVAL_S / DAY_S) {
        node->epoch++;
        node->seq = 0;
        node->window_mcpu = 0;
        node->window_s = 0;
    }
    if (kwt_uniform(&sim->world) < 2 * INTERVAL_S / DAY_S)
        node->clock_ms = (int64_t)(60000 * (kwt_uniform(&sim->world) - 0.5));
    if (kwt_uniform(&sim->world) < 2 * INTERVAL_S / DAY_S)
        node->silent_until_s = sim->now_s + (int64_t)(600 * kwt_uniform(&sim->world));
}

/** Three hours of the day in which another third of the nodes is silent each. */
static bool is_hushed(const struct sim *sim, int i)
{
    int64_t hour = sim->now_s % 86400 / 3600;

    return sim->options->hush && hour >= 9 && hour % 3 == 0 && hour < 18 && i % 3 == hour / 3 % 3;
}

/** Nodes publish; some are silent for up to ten minutes, and what they say comes late then. */
static int sample(struct sim *sim)
{
    int rc = 0;

    for (int i = 0; i < KWT_NODES; i++) {
        struct kwt_node *node = &sim->world.nodes[i];
        node->window_mcpu += node->use_mcpu;
        node->window_s++;
        if ((sim->now_s + i) % INTERVAL_S != 0)
            continue;
        if (sim->options->losses)
            disturb(sim, node);
        if (is_hushed(sim, i))
            node->silent_until_s = sim->now_s + 1;
        if (node->window_s > 0 && sim->now_s >= node->silent_until_s && rc == 0)
            rc = publish_sample(sim, i);
        node->window_mcpu = 0;
        node->window_s = 0;
    }
    return rc;
}

/** Takes what was not read yet of a node. @return 0 or -1. */
static int read_node(struct sim *sim, struct replica *replica, int i, const struct ext_instant *now,
                     struct ext_node *node, bool *heard)
{
    uint64_t skipped[EXT_SKIP__MAX] = {0};
    /* a part of the samples is some seconds on its way; a reader that starts finds one before it */
    int64_t late_s = *heard && sim->options->losses && (i + sim->now_s / 60) % 7 == 0 ? 5 : 0;

    if (sim->sample_s[i] == 0 || sim->now_s < sim->sample_s[i] + late_s ||
        (*heard && replica->read[i] == (double)sim->sample_s[i]))
        return 0; /* as the reader of Redis does, what was read is not read again */
    const struct ext_record record = {.name = sim->world.nodes[i].name,
                                      .score = (double)sim->sample_s[i],
                                      .curve = sim->curves[i],
                                      .curve_len = strlen(sim->curves[i])};
    const struct ext_node before = *node;
    if (ext_ingest_sample(&record, *heard ? &before : NULL, now, &sim->samples[i], skipped, node) <
        0)
        return -1;
    replica->read[i] = (double)sim->sample_s[i];
    *heard = true;
    return 0;
}

static int read_redis(struct sim *sim, struct replica *replica)
{
    const struct ext_instant now = {.now_ns = kwt_now_ns(sim),
                                    .unix_ms = UNIX_MS + sim->now_s * 1000};
    const struct ext_snapshot *last = ext_flights_last(replica->flights);
    struct ext_node known[KWT_NODES];
    struct ext_snapshot *fresh = NULL;
    size_t n = 0;

    if (sim->options->losses && kwt_uniform(&sim->world) < 4 / DAY_S)
        replica->redis_away_until_s = sim->now_s + (int64_t)(300 * kwt_uniform(&sim->world));
    if (sim->now_s >= replica->redis_away_until_s) {
        for (int i = 0; i < KWT_NODES; i++) {
            const char *name = sim->world.nodes[i].name;
            const struct ext_node *before =
                last == NULL ? NULL : ext_snapshot_find(last, name, strlen(name));
            bool heard = before != NULL;
            known[n] = heard ? *before : (struct ext_node){0};
            if (read_node(sim, replica, i, &now, &known[n], &heard) < 0)
                return -1;
            n += heard;
        }
        fresh = ext_snapshot_new(known, n, 5, (uint64_t)(STALE_S * SECOND));
    }
    ext_flights_publish(replica->flights, fresh, now.now_ns);
    return 0;
}

/* ---- the caps ---- */

/** What nodes draw; and what of it was let in lately. */
struct draw {
    double mw, young_mw;
};

/** Whether a cap is passed in this second. */
struct passed {
    bool any, young;
};

static void add_draw(struct draw *sum, const struct draw *draw)
{
    sum->mw += draw->mw;
    sum->young_mw += draw->young_mw;
}

static void look_at(struct sim *sim, const struct draw *draw, double cap_mw, struct passed *passed)
{
    struct kwt_caps_result *result = &sim->result;
    double by = draw->mw - cap_mw;
    double young = by < draw->young_mw ? by : draw->young_mw;

    if (cap_mw <= 0)
        return;
    result->nearest = -by / cap_mw < result->nearest ? -by / cap_mw : result->nearest;
    if (by <= 0)
        return;
    passed->any = true;
    passed->young = passed->young || young > 0;
    result->over_mw = by > result->over_mw ? by : result->over_mw;
    result->over_part = by / cap_mw > result->over_part ? by / cap_mw : result->over_part;
    result->young_mw = young > result->young_mw ? young : result->young_mw;
}

static void measure(struct sim *sim)
{
    const struct kwt_world *world = &sim->world;
    struct draw row[KWT_RACKS / 2] = {0};
    struct draw rack[KWT_RACKS] = {0};
    struct draw all = {0};
    struct passed passed = {0};
    double hour = (double)(sim->now_s % 86400) / 3600;
    double capped_mw = 0;
    double caps_mw = 0;

    for (int i = 0; i < KWT_NODES; i++) {
        const struct kwt_node *node = &world->nodes[i];
        const struct draw draw = {kwt_node_mw(node), kwt_node_young_mw(node)};
        add_draw(&rack[node->rack], &draw);
        look_at(sim, &draw, node->cap_mw, &passed);
        capped_mw += node->cap_mw > 0 ? draw.mw : 0;
        caps_mw += node->cap_mw;
    }
    for (int i = 0; i < KWT_RACKS; i++) {
        add_draw(&row[i / 2], &rack[i]);
        look_at(sim, &rack[i], world->rack_cap_mw[i], &passed);
    }
    for (int i = 0; i < KWT_RACKS / 2; i++) {
        add_draw(&all, &row[i]);
        look_at(sim, &row[i], world->row_cap_mw[i], &passed);
    }
    look_at(sim, &all, world->cluster_cap_mw, &passed);
    sim->result.over_seconds += passed.any;
    sim->result.young_seconds += passed.young;
    double fill = all.mw / world->cluster_cap_mw;
    sim->result.peak = fill > sim->result.peak ? fill : sim->result.peak;
    if (hour > 9 && hour < 20) {
        sim->result.fill += fill;
        sim->result.node_fill += capped_mw / caps_mw;
    }
}

/* ---- a day ---- */

static void write_curve(struct sim *sim, int i)
{
    const struct kwt_node *node = &sim->world.nodes[i];
    double told[KWT_KNOTS];

    for (int k = 0; k < KWT_KNOTS; k++)
        told[k] =
            node->knot_mw[0] + (node->knot_mw[k] - node->knot_mw[0]) / (1 + sim->options->steeper);
    (void)snprintf(sim->curves[i], sizeof(sim->curves[i]),
                   "{\"schema\":1,\"capacity_mcpu\":%.0f,\"estimated\":false,\"knots\":["
                   "{\"load_permille\":0,\"mw\":%.0f},{\"load_permille\":333,\"mw\":%.0f},"
                   "{\"load_permille\":667,\"mw\":%.0f},{\"load_permille\":1000,\"mw\":%.0f}]}",
                   node->capacity_mcpu, told[0], told[1], told[2], told[3]);
}

static void tell_nodes(struct sim *sim, struct replica *replica)
{
    for (int i = 0; i < KWT_NODES; i++) {
        const struct kwt_node *node = &sim->world.nodes[i];
        char json[512];
        char cap[64] = "";
        if (node->cap_mw > 0)
            (void)snprintf(cap, sizeof(cap), ",\"kwatt.io/power-cap-watts\":\"%.3f\"",
                           node->cap_mw / 1000);
        int len = snprintf(json, sizeof(json),
                           "{\"metadata\":{\"name\":\"%s\",\"annotations\":{"
                           "\"kwatt.io/power-domain\":\"row%d/rack%d\"%s}}}",
                           node->name, node->rack / 2, node->rack, cap);
        ext_capping_event(replica->capping, KW_KUBE_ADDED, json, (size_t)len, kwt_now_ns(sim));
    }
}

/** Writes the file of caps. @return 0 or -1. */
static int write_caps(const struct kwt_world *world, FILE *file)
{
    (void)fprintf(file, "cluster: %.3f\ndomains:\n", world->cluster_cap_mw / 1000);
    for (int i = 0; i < KWT_RACKS / 2; i++)
        (void)fprintf(file, "  row%d: %.3f\n", i, world->row_cap_mw[i] / 1000);
    for (int i = 0; i < KWT_RACKS; i++)
        (void)fprintf(file, "  row%d/rack%d: %.3f\n", i / 2, i, world->rack_cap_mw[i] / 1000);
    return fclose(file) == 0 ? 0 : -1;
}

static void free_snapshot(void *value)
{
    struct ext_snapshot *snapshot = value;

    ext_snapshot_free(&snapshot);
}

static int start_replica(struct sim *sim, struct replica *replica)
{
    const struct kwt_caps_options *options = sim->options;
    const struct ext_policy policy = {.stale_after_ns = (uint64_t)(STALE_S * SECOND),
                                      .assumptions = ASSUMPTIONS,
                                      .cap_sigmas = options->sigmas};
    struct kw_err err = {0};

    if (ext_service_init(&replica->service, 1, &policy) < 0 ||
        kw_snapshot_new(2, free_snapshot, &replica->published) < 0)
        return -1;
    const struct ext_capping_conf capping = {
        .policy = {.sigmas = options->sigmas, .soft_permille = 900},
        .file = options->no_caps ? NULL : sim->path,
        .decisions = replica->service.decisions,
        .stats = &replica->service.stats,
        .log = sim->log};
    if (ext_capping_new(&capping, &replica->capping, &err) < 0)
        return -1;
    const struct ext_flights_conf flights = {.assumptions = ASSUMPTIONS,
                                             .capping = options->no_caps ? NULL : replica->capping,
                                             .out = replica->published,
                                             .stats = &replica->service.stats,
                                             .log = sim->log};
    if (ext_flights_new(&flights, &replica->flights) < 0)
        return -1;
    replica->service.tally = ext_capping_tally(replica->capping);
    replica->service.waiters = ext_capping_waiters(replica->capping);
    tell_nodes(sim, replica);
    return 0;
}

static void end_replica(struct replica *replica)
{
    ext_flights_free(&replica->flights);
    kw_snapshot_free(&replica->published);
    ext_capping_free(&replica->capping);
    ext_service_clear(&replica->service);
}

/** Its program ends and is started again. The scheduler asks the other one, if there is one, until
 * this one has read Redis. @return 0 or -1. */
static int restart(struct sim *sim, struct replica *replica)
{
    end_replica(replica);
    memset(replica->read, 0, sizeof(replica->read));
    if (start_replica(sim, replica) < 0)
        return -1;
    kwt_list(sim, replica);
    replica->redis_away_until_s = sim->now_s;
    replica->down = replica->cut = false;
    sim->asked = (sim->asked + 1) % sim->options->replicas;
    return 0;
}

static int start(struct sim *sim)
{
    (void)snprintf(sim->path, sizeof(sim->path), "/tmp/kwatt-caps-XXXXXX");
    int fd = mkstemp(sim->path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    int rc = file == NULL ? -1 : write_caps(&sim->world, file);

    sim->log = kw_log_new("caps-sim", KW_LOG_ERROR, NULL);
    sim->samples = calloc(KWT_NODES, sizeof(*sim->samples));
    if (sim->samples == NULL || kwt_read_trace(sim) < 0)
        rc = -1;
    for (int i = 0; i < KWT_NODES; i++)
        write_curve(sim, i);
    for (unsigned i = 0; i < sim->options->replicas && rc == 0; i++) {
        struct replica *replica = &sim->replicas[i];
        replica->news = calloc(NEWS_MAX, sizeof(*replica->news));
        rc = replica->news == NULL ? -1 : start_replica(sim, replica);
        if (rc == 0)
            kwt_list(sim, replica);
    }
    return rc;
}

static int live(struct sim *sim)
{
    for (sim->now_s = 1; sim->now_s <= (int64_t)sim->options->seconds; sim->now_s++) {
        kwt_world_use(&sim->world, sim->options, sim->now_s);
        if (sample(sim) < 0)
            return -1;
        for (unsigned i = 0; i < sim->options->replicas; i++) {
            struct replica *replica = &sim->replicas[i];
            if (sim->options->restarts && kwt_uniform(&sim->world) < 6 / DAY_S &&
                restart(sim, replica) < 0)
                return -1;
            if (read_redis(sim, replica) < 0)
                return -1;
        }
        kwt_carry_news(sim);
        /* its replica is gone: the scheduler asks the other */
        if (sim->options->losses && kwt_uniform(&sim->world) < 12 / DAY_S)
            sim->asked = (sim->asked + 1) % sim->options->replicas;
        /* the first samples are to be read before the first pod comes */
        if (sim->now_s > 2 * INTERVAL_S)
            kwt_arrive(sim);
        for (int i = 0; i < sim->world.n_pods; i++) {
            struct kwt_pod *pod = &sim->world.pods[i];
            if (pod->state != KWT_POD_FREE && sim->now_s >= pod->due_s)
                kwt_advance(sim, pod);
        }
        measure(sim);
    }
    return 0;
}

static void end(struct sim *sim)
{
    for (unsigned i = 0; i < sim->options->replicas; i++) {
        end_replica(&sim->replicas[i]);
        free(sim->replicas[i].news);
    }
    kw_log_free(&sim->log);
    kw_buf_free(&sim->body);
    kw_buf_free(&sim->out);
    (void)unlink(sim->path);
    free(sim->samples);
    free(sim->trace);
    free(sim);
}

int kwt_caps_run(const struct kwt_caps_options *options, struct kwt_caps_result *ret)
{
    struct sim *sim = calloc(1, sizeof(*sim));

    if (sim == NULL)
        return -1;
    sim->options = options;
    sim->result.nearest = 1;
    kwt_world_init(&sim->world, options->seed);
    int rc = start(sim);
    if (rc == 0)
        rc = live(sim);
    sim->result.fill /= 11 * 3600;
    sim->result.node_fill /= 11 * 3600;
    sim->result.request_ns /= (double)(sim->result.requests > 0 ? sim->result.requests : 1);
    *ret = sim->result;
    end(sim);
    return rc;
}
