/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are refused with a reason, or give a state by which energy still adds up. An
 * input is taken as it is, and as changes to a state that is sound. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/learnt.h"

#define N 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct agent_curve_feed curve;
static const struct agent_learnt_machine machine = {.cpu_model = "c", .meter = "m"};

static void split(void *state)
{
    static const struct agent_features features[N] = {{.workload = 0, .cpu_ns = 10000000},
                                                      {.workload = 1, .cpu_ns = 50000000},
                                                      {.workload = 7, .cpu_ns = 90000000},
                                                      {.workload = 9}};
    struct agent_share shares[N];

    struct agent_window window = {.n_cpus = 4,
                                  .interval_ns = 100000000,
                                  .measured_uj = 5000000,
                                  .idle_prior_mw = 10000,
                                  .n = N,
                                  .features = features};
    struct agent_split answer = {.shares = shares};
    agent_attribution_kalman.split(state, &window, &answer);
    uint64_t sum = answer.idle_uj + answer.unattributed_uj;
    for (size_t i = 0; i < N; i++)
        sum += shares[i].active_uj;
    if (sum != window.measured_uj)
        abort();
}

/** Whatever was read, the curve is one, and goes on learning. */
static void use_curve(void)
{
    const struct agent_curve_basis now = {.domains = 1, .capacity_mcpu = 4000};
    struct agent_curve_window window = {.basis = curve.basis.capacity_mcpu != 0 ? curve.basis : now,
                                        .fit = true,
                                        .measured_uj = 20000000,
                                        .work_ns = 700000000,
                                        .interval_ns = 2000000000};
    struct kw_curve knots;

    agent_curve_feed_get(&curve, &now, &knots);
    if (kw_curve_check(&knots) != NULL)
        abort();
    agent_curve_feed_take(&curve, &window);
    agent_curve_feed_get(&curve, &now, &knots);
    if (kw_curve_check(&knots) != NULL)
        abort();
}

static void load(const void *bytes, size_t len)
{
    struct kw_err err = {0};
    int64_t age_ms = 0;
    void *state = NULL;

    int rc = agent_learnt_load(&agent_attribution_kalman, N, &machine, 1000, bytes, len, NULL, NULL,
                               &state, &curve, &age_ms, &err);
    if (rc < 0 && err.text[0] == '\0')
        abort();
    if (rc < 0)
        return;
    split(state);
    agent_attribution_kalman.close(&state);
    use_curve();
}

/** A state that holds something. */
static void make(struct kw_buf *ret)
{
    void *state = NULL;

    if (agent_attribution_kalman.open(N, &state) < 0)
        abort();
    for (int k = 0; k < 5; k++)
        split(state);
    if (agent_learnt_save(&agent_attribution_kalman, state, &curve, &machine, 1000, ret) < 0)
        abort();
    agent_attribution_kalman.close(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kw_buf sound;
    struct kw_buf bytes = {0};

    if (sound.len == 0)
        make(&sound);
    load(data, size);
    (void)kw_buf_add(&bytes, sound.data, sound.len);
    for (size_t i = 0; i + 3 <= size && i < 30; i += 3) /* where, where, what */
        bytes.data[((size_t)data[i] << 8 | data[i + 1]) % bytes.len] = (char)data[i + 2];
    load(bytes.data, size % 2 == 0 ? bytes.len : bytes.len - size % bytes.len);
    kw_buf_free(&bytes);
    return 0;
}
