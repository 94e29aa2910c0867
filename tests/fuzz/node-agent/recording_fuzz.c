/* SPDX-License-Identifier: Apache-2.0 */
/* Any lines give windows within their bounds or a reason; methods conserve whatever they hold. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct agent_share shares[AGENT_RECORDING_WORKLOADS_MAX];

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void split(const struct agent_recording *recording,
                  const struct agent_recorded_package *package, bool dram, void *const *states)
{
    struct agent_window asked = agent_recording_question(recording, package, dram);

    require(asked.n <= AGENT_RECORDING_WORKLOADS_MAX);
    require(asked.measured_uj <= AGENT_RECORDING_UJ_MAX);
    require(asked.domain < 2 * AGENT_PACKAGES_MAX);
    require(asked.n == 0 || asked.features[0].workload == 0);
    for (size_t m = 0; agent_attributions[m] != NULL; m++) {
        struct agent_split answer = {.shares = shares};
        agent_attributions[m]->split(states[m], &asked, &answer);
        uint64_t sum = answer.idle_uj + answer.unattributed_uj;
        for (size_t i = 0; i < asked.n; i++) {
            sum += shares[i].active_uj;
            require(agent_recording_place(recording, asked.features[i].workload) != SIZE_MAX);
        }
        require(sum == asked.measured_uj);
    }
}

static void take(const struct agent_recording *recording, void *const *states)
{
    const struct agent_recorded_window *window = agent_recording_window(recording);

    require(window->n_packages <= AGENT_PACKAGES_MAX);
    for (size_t m = 0; agent_attributions[m] != NULL; m++) {
        for (size_t i = 0; i < window->n_ended; i++)
            agent_attributions[m]->forget(states[m], window->ended[i]);
    }
    for (size_t p = 0; p < window->n_packages; p++) {
        const struct agent_recorded_package *package = &window->packages[p];
        require(package->first + package->n <= window->n);
        for (unsigned kind = 0; kind < 2; kind++) {
            if (package->domains[kind].present)
                split(recording, package, kind == 1, states);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void *states[16]; /* kept: what one input taught must not hurt the next */
    struct agent_recording *recording = NULL;
    const char *at = (const char *)data, *end = at + size;

    for (size_t m = 0; agent_attributions[m] != NULL; m++)
        require(m < 16 &&
                (states[m] != NULL ||
                 agent_attributions[m]->open(AGENT_RECORDING_WORKLOADS_MAX, &states[m]) == 0));
    require(agent_recording_new(&recording) == 0);
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline != NULL ? newline : end) - at);
        struct kw_err err = {0};
        int rc = agent_recording_take(recording, at, len, &err);
        require(rc >= 0 || err.text[0] != '\0');
        if (rc < 0)
            break;
        if (rc == AGENT_RECORDING_WINDOW)
            take(recording, states);
        at += len + 1;
    }
    agent_recording_free(&recording);
    return 0;
}
