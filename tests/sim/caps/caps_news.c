/* SPDX-License-Identifier: Apache-2.0 */
/* What the API server tells of pods, and how late. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/caps/caps_impl.h"

void kwt_deliver(struct sim *sim, enum kw_kube_event event, const struct news *news)
{
    char json[512];
    char said[64] = "";

    if (news == NULL) {
        ext_flights_event(sim->flights, event, "away", 4, kwt_now_ns(sim));
        return;
    }
    if (news->said_mw > 0)
        (void)snprintf(said, sizeof(said),
                       ",\"annotations\":{\"kwatt.io/expected-watts\":\"%.3f\"}",
                       news->said_mw / 1000);
    int len = snprintf(json, sizeof(json),
                       "{\"metadata\":{\"uid\":\"u-%llu\"%s},\"spec\":{\"nodeName\":\"%s\","
                       "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"%.0fm\"}}}]},"
                       "\"status\":{\"phase\":\"Pending\"}}",
                       (unsigned long long)news->number, said, sim->world.nodes[news->node].name,
                       news->mcpu);
    ext_flights_event(sim->flights, event, json, (size_t)len, kwt_now_ns(sim));
}

void kwt_send_news(struct sim *sim, enum kw_kube_event event, const struct kwt_pod *pod)
{
    if (sim->n_news == NEWS_MAX)
        return;
    sim->news[sim->n_news++] = (struct news){
        .at_s =
            sim->now_s + (sim->options->losses ? (int64_t)kwt_exponential(&sim->world, 0.7) : 0),
        .event = event,
        .number = pod->number,
        .node = pod->node,
        .mcpu = pod->ask_mcpu,
        .said_mw = pod->said_mw};
}

/** A list of all that are bound and wait, as after a connection was lost. */
static void list(struct sim *sim)
{
    kwt_deliver(sim, KW_KUBE_SYNC_BEGIN, NULL);
    for (int i = 0; i < sim->world.n_pods; i++) {
        const struct kwt_pod *pod = &sim->world.pods[i];
        const struct news news = {.number = pod->number,
                                  .node = pod->node,
                                  .mcpu = pod->ask_mcpu,
                                  .said_mw = pod->said_mw};
        if (pod->state == KWT_POD_BOUND)
            kwt_deliver(sim, KW_KUBE_ADDED, &news);
    }
    kwt_deliver(sim, KW_KUBE_SYNC_END, NULL);
    sim->n_news = 0;
}

void kwt_carry_news(struct sim *sim)
{
    size_t i = 0;

    if (sim->options->losses && !sim->down && kwt_uniform(&sim->world) < 6 / DAY_S) {
        sim->down = true;
        sim->down_until_s = sim->now_s + 60 + (int64_t)(540 * kwt_uniform(&sim->world));
        kwt_deliver(sim, KW_KUBE_DOWN, NULL);
    }
    if (sim->down && sim->now_s >= sim->down_until_s) {
        sim->down = false;
        list(sim);
    }
    if (sim->options->losses && kwt_uniform(&sim->world) < 20 / DAY_S)
        sim->deaf_until_s = sim->now_s + (int64_t)(90 * kwt_uniform(&sim->world));
    if (sim->down || sim->now_s < sim->deaf_until_s)
        return;
    /* a watch tells in order: what is late holds up the rest */
    while (i < sim->n_news && sim->news[i].at_s <= sim->now_s) {
        kwt_deliver(sim, sim->news[i].event, &sim->news[i]);
        i++;
    }
    memmove(sim->news, sim->news + i, (sim->n_news - i) * sizeof(*sim->news));
    sim->n_news -= i;
}
