/* SPDX-License-Identifier: Apache-2.0 */
/* As much of kube-scheduler as caps have to do with. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/sim/caps/caps_impl.h"

static void begin_body(struct sim *sim, const struct kwt_pod *pod, uint64_t fits)
{
    bool first = true;

    kw_buf_reset(&sim->body);
    (void)kw_buf_addf(&sim->body,
                      "{\"Pod\":{\"metadata\":{\"uid\":\"u-%llu\",\"namespace\":\"x\","
                      "\"name\":\"p\"",
                      (unsigned long long)pod->number);
    if (pod->said_mw > 0)
        (void)kw_buf_addf(&sim->body, ",\"annotations\":{\"kwatt.io/expected-watts\":\"%.3f\"}",
                          pod->said_mw / 1000);
    (void)kw_buf_adds(&sim->body, "},\"spec\":{\"containers\":[{\"resources\":{");
    if (pod->ask_mcpu > 0)
        (void)kw_buf_addf(&sim->body, "\"requests\":{\"cpu\":\"%.0fm\"}", pod->ask_mcpu);
    (void)kw_buf_adds(&sim->body, "}}]}},\"NodeNames\":[");
    for (int i = 0; i < KWT_NODES; i++) {
        if ((fits >> i & 1) == 0)
            continue;
        (void)kw_buf_addf(&sim->body, "%s\"%s\"", first ? "" : ",", sim->world.nodes[i].name);
        first = false;
    }
    (void)kw_buf_adds(&sim->body, "]}");
}

static bool ask(struct sim *sim, enum ext_verb verb)
{
    size_t slot;
    struct replica *replica = &sim->replicas[sim->asked];
    const struct ext_snapshot *snapshot = kw_snapshot_acquire(replica->published, &slot);
    uint64_t begin_ns = kw_now_ns();

    kw_buf_reset(&sim->out);
    unsigned status = ext_service_answer(&replica->service, verb, snapshot, kwt_now_ns(sim),
                                         sim->body.data, sim->body.len, &sim->out);
    if (verb == EXT_VERB_FILTER) {
        sim->result.request_ns += (double)(kw_now_ns() - begin_ns);
        sim->result.requests++;
    }
    kw_snapshot_release(replica->published, slot);
    return status == 200;
}

/** What stands behind a text in the answer. Names here are plain, and JSON has been tested
 * elsewhere: a day has some hundred thousand answers. */
static const char *behind(const char *text, const char *at)
{
    const char *found = strstr(at, text);

    return found == NULL ? NULL : found + strlen(text);
}

/** Nodes that were passed, as bits. */
static uint64_t passed(struct sim *sim, uint64_t fits)
{
    const char *at = behind("\"NodeNames\":[", sim->out.data);
    uint64_t bits = 0;

    if (at == NULL)
        abort();
    while (*at == '"') {
        bits |= UINT64_C(1) << atoi(at + sizeof("\"node-") - 1);
        at += strcspn(at, ",]");
        at += *at == ',';
    }
    if ((bits & ~fits) != 0)
        abort();
    sim->result.refusals += (uint64_t)__builtin_popcountll(fits & ~bits);
    return bits;
}

/** The scheduler's choice: the best by the extender, among equals by chance. */
static int choose(struct sim *sim, const struct kwt_pod *pod, uint64_t bits)
{
    int best = -1;
    double most = -1;

    if ((bits & (bits - 1)) == 0)
        return __builtin_ctzll(bits); /* of one, nothing is asked */
    begin_body(sim, pod, bits);
    if (!ask(sim, EXT_VERB_PRIORITIZE))
        abort();
    const char *at = sim->out.data;
    while ((at = behind("\"Host\":\"node-", at)) != NULL) {
        int node = atoi(at);
        at = behind("\"Score\":", at);
        if (at == NULL)
            abort();
        double score = atoi(at) + 3 * kwt_uniform(&sim->world);
        if (score > most) {
            most = score;
            best = node;
        }
    }
    return best;
}

void kwt_schedule(struct sim *sim, struct kwt_pod *pod)
{
    uint64_t fits = 0;

    for (int i = 0; i < KWT_NODES; i++) {
        const struct kwt_node *node = &sim->world.nodes[i];
        if (node->asked_mcpu + pod->ask_mcpu <= node->capacity_mcpu)
            fits |= UINT64_C(1) << i;
    }
    uint64_t bits = 0;
    if (sim->options->scattered)
        sim->asked = (sim->asked + 1) % sim->options->replicas;
    if (fits != 0) {
        begin_body(sim, pod, fits);
        if (!ask(sim, EXT_VERB_FILTER))
            abort();
        bits = passed(sim, fits);
    }
    if (bits == 0) {
        pod->due_s = sim->now_s + 10 + (int64_t)(20 * kwt_uniform(&sim->world));
        return;
    }
    pod->node = choose(sim, pod, bits);
    sim->world.nodes[pod->node].asked_mcpu += pod->ask_mcpu;
    pod->state = KWT_POD_BINDING;
    pod->let_in_s = sim->now_s;
    /* the binding is in the background; one in a hundred waits for a volume */
    pod->due_s = sim->now_s + (kwt_uniform(&sim->world) < 0.01 ? 20 : 0);
}
