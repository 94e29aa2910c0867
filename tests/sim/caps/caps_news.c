/* SPDX-License-Identifier: Apache-2.0 */
/* What the API server tells of pods, and how late. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/caps/caps_impl.h"

void kwt_deliver(struct sim *sim, struct replica *replica, enum kw_kube_event event,
                 const struct news *news)
{
    char json[512];
    char said[64] = "";
    char ask[64] = "";

    if (news == NULL) {
        ext_flights_event(replica->flights, event, "away", 4, kwt_now_ns(sim));
        return;
    }
    if (news->said_mw > 0)
        (void)snprintf(said, sizeof(said),
                       ",\"annotations\":{\"kwatt.io/expected-watts\":\"%.3f\"}",
                       news->said_mw / 1000);
    if (news->mcpu > 0)
        (void)snprintf(ask, sizeof(ask), "\"requests\":{\"cpu\":\"%.0fm\"}", news->mcpu);
    int len =
        snprintf(json, sizeof(json),
                 "{\"metadata\":{\"uid\":\"u-%llu\"%s},\"spec\":{\"nodeName\":\"%s\","
                 "\"containers\":[{\"resources\":{%s}}]},"
                 "\"status\":{\"phase\":\"Pending\"}}",
                 (unsigned long long)news->number, said, sim->world.nodes[news->node].name, ask);
    ext_flights_event(replica->flights, event, json, (size_t)len, kwt_now_ns(sim));
}

void kwt_send_news(struct sim *sim, enum kw_kube_event event, const struct kwt_pod *pod)
{
    for (unsigned i = 0; i < sim->options->replicas; i++) {
        struct replica *to = &sim->replicas[i];
        int64_t late_s = sim->options->losses ? (int64_t)kwt_exponential(&sim->world, 0.7) : 0;
        if (to->n_news == NEWS_MAX)
            continue;
        to->news[to->n_news++] = (struct news){.at_s = sim->now_s + late_s,
                                               .event = event,
                                               .number = pod->number,
                                               .node = pod->node,
                                               .mcpu = pod->ask_mcpu,
                                               .said_mw = pod->said_mw};
    }
}

void kwt_list(struct sim *sim, struct replica *replica)
{
    kwt_deliver(sim, replica, KW_KUBE_SYNC_BEGIN, NULL);
    for (int i = 0; i < sim->world.n_pods; i++) {
        const struct kwt_pod *pod = &sim->world.pods[i];
        const struct news news = {.number = pod->number,
                                  .node = pod->node,
                                  .mcpu = pod->ask_mcpu,
                                  .said_mw = pod->said_mw};
        if (pod->state == KWT_POD_BOUND)
            kwt_deliver(sim, replica, KW_KUBE_ADDED, &news);
    }
    kwt_deliver(sim, replica, KW_KUBE_SYNC_END, NULL);
    replica->n_news = 0;
}

/** The troubles of a replica's watch begin and end. */
static void trouble(struct sim *sim, struct replica *replica)
{
    if (sim->options->losses && !replica->down && kwt_uniform(&sim->world) < 6 / DAY_S) {
        replica->down = true;
        replica->down_until_s = sim->now_s + 60 + (int64_t)(540 * kwt_uniform(&sim->world));
        kwt_deliver(sim, replica, KW_KUBE_DOWN, NULL);
    }
    if (replica->down && sim->now_s >= replica->down_until_s) {
        replica->down = false;
        kwt_list(sim, replica);
    }
    if (sim->options->losses && kwt_uniform(&sim->world) < 20 / DAY_S) {
        replica->deaf_until_s = sim->now_s + (int64_t)(90 * kwt_uniform(&sim->world));
        replica->cut = kwt_uniform(&sim->world) < 0.5;
    }
    if (replica->cut && sim->now_s >= replica->deaf_until_s && !replica->down) {
        replica->cut = false;
        kwt_list(sim, replica);
    }
}

static void carry(struct sim *sim, struct replica *replica)
{
    size_t i = 0;

    trouble(sim, replica);
    if (replica->down || sim->now_s < replica->deaf_until_s)
        return;
    /* a watch tells in order: what is late holds up the rest */
    while (i < replica->n_news && replica->news[i].at_s <= sim->now_s) {
        kwt_deliver(sim, replica, replica->news[i].event, &replica->news[i]);
        i++;
    }
    memmove(replica->news, replica->news + i, (replica->n_news - i) * sizeof(*replica->news));
    replica->n_news -= i;
}

void kwt_carry_news(struct sim *sim)
{
    for (unsigned i = 0; i < sim->options->replicas; i++)
        carry(sim, &sim->replicas[i]);
}
