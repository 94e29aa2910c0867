/* SPDX-License-Identifier: Apache-2.0 */
/* The lives of pods: what they ask for, what they use, when they come and go. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/caps/caps_impl.h"

/** A pod of a trace asks for four times what others do, and lives longer. */
#define TRACE_SCALE      0.15
#define TRACE_LIFE_MAX_S 14400.0
#define TRACE_MCPU_MAX   30000.0

int kwt_read_trace(struct sim *sim)
{
    FILE *file = sim->options->trace == NULL ? NULL : fopen(sim->options->trace, "r");
    char text[128];
    size_t room = 0;

    if (file == NULL)
        return sim->options->trace == NULL ? 0 : -1;
    while (fgets(text, sizeof(text), file) != NULL) {
        char *at = text;
        double mcpu = strtod(at, &at);
        double memory = *at == ',' ? strtod(at + 1, &at) : 0;
        double life_s = *at == ',' ? strtod(at + 1, &at) : 0;
        if (mcpu <= 0 || memory <= 0 || life_s <= 0)
            continue; /* the first line names the columns */
        if (sim->n_trace == room) {
            room = room == 0 ? 1024 : 2 * room;
            struct kwt_trace_line *grown = reallocarray(sim->trace, room, sizeof(*grown));
            if (grown == NULL)
                break;
            sim->trace = grown;
        }
        sim->trace[sim->n_trace++] = (struct kwt_trace_line){
            .mcpu = mcpu < TRACE_MCPU_MAX ? mcpu : TRACE_MCPU_MAX,
            .life_s = life_s < TRACE_LIFE_MAX_S ? life_s : TRACE_LIFE_MAX_S};
    }
    (void)fclose(file);
    return sim->n_trace > 0 ? 0 : -1;
}

/** The most that a pod uses, or asks for. */
static double most_mcpu(const struct kwt_caps_options *options, const struct kwt_pod *pod)
{
    double use = pod->use_mcpu * (1 + options->phases / 2);

    return use > pod->ask_mcpu ? use : pod->ask_mcpu;
}

static void create(struct sim *sim)
{
    for (int i = 0; i < KWT_PODS_MAX; i++) {
        struct kwt_pod *pod = &sim->world.pods[i];
        if (pod->state != KWT_POD_FREE)
            continue;
        bool asks = kwt_uniform(&sim->world) >= sim->options->unasked;
        double ask = 200 + kwt_exponential(&sim->world, 2500);
        bool says = kwt_uniform(&sim->world) < 0.1;
        const struct kwt_trace_line *line = NULL;
        if (sim->n_trace > 0) {
            line = &sim->trace[(size_t)(kwt_uniform(&sim->world) * (double)sim->n_trace)];
            ask = line->mcpu;
        }
        *pod = (struct kwt_pod){.state = KWT_POD_PENDING,
                                .number = ++sim->numbers,
                                .ask_mcpu = ask < 30000 ? (double)(int64_t)ask : 30000,
                                .due_s = sim->now_s,
                                .gives_up_s = sim->now_s + 3600};
        pod->use_mcpu = pod->ask_mcpu * (0.6 + 0.4 * kwt_uniform(&sim->world));
        if (kwt_uniform(&sim->world) < sim->options->greedy)
            pod->use_mcpu = 2 * pod->ask_mcpu;
        if (sim->options->use > 0)
            pod->use_mcpu = sim->options->use * pod->ask_mcpu;
        if (sim->options->spread > 0)
            pod->use_mcpu *= kwt_lognormal(&sim->world, sim->options->spread);
        pod->life_s = line == NULL ? 0 : line->life_s;
        /* one that says its watts knows the dearest node */
        pod->said_mw = says ? 12 * most_mcpu(sim->options, pod) : 0;
        if (!asks) {
            pod->ask_mcpu = 0;
            pod->use_mcpu = 200 * kwt_uniform(&sim->world);
            pod->said_mw = 0;
        }
        sim->result.pods++;
        if (i >= sim->world.n_pods)
            sim->world.n_pods = i + 1;
        return;
    }
}

void kwt_arrive(struct sim *sim)
{
    double hour = (double)(sim->now_s % 86400) / 3600;
    double rate = hour > 7 && hour < 20 ? 0.30 : 0.10;
    /* pods of a trace are so much larger */
    double scale = sim->n_trace > 0 ? TRACE_SCALE : 1;
    unsigned n = 0;

    rate *= scale;
    while (kwt_uniform(&sim->world) < rate / (1 + rate) && n < 50)
        n++;
    if (kwt_uniform(&sim->world) < 12 / DAY_S)
        n += (unsigned)(scale * (100 + 200 * kwt_uniform(&sim->world)));
    while (n-- > 0)
        create(sim);
}

void kwt_advance(struct sim *sim, struct kwt_pod *pod)
{
    struct kwt_world *world = &sim->world;

    switch (pod->state) {
    case KWT_POD_FREE: break;
    case KWT_POD_PENDING:
        if (sim->now_s >= pod->gives_up_s) {
            sim->result.waiting++;
            pod->state = KWT_POD_FREE;
        } else {
            kwt_schedule(sim, pod);
        }
        break;
    case KWT_POD_BINDING:
        pod->state = KWT_POD_BOUND;
        sim->result.let_in++;
        pod->due_s = sim->now_s + 1 + (int64_t)kwt_exponential(world, 8) +
                     (kwt_uniform(world) < 0.02 ? 400 : 0); /* a large image */
        kwt_send_news(sim, KW_KUBE_ADDED, pod);
        break;
    case KWT_POD_BOUND:
        pod->state = KWT_POD_RUNNING;
        pod->started_s = sim->now_s;
        pod->low = kwt_uniform(world) < 0.5;
        pod->due_s = sim->now_s + 1 +
                     (int64_t)(pod->life_s > 0 ? pod->life_s : kwt_exponential(world, 1500));
        kwt_send_news(sim, KW_KUBE_DELETED,
                      pod); /* it leaves the watch, which is of waiting pods */
        break;
    case KWT_POD_RUNNING:
        world->nodes[pod->node].asked_mcpu -= pod->ask_mcpu;
        pod->state = KWT_POD_FREE;
        break;
    }
}
