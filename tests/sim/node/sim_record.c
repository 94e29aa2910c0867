/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a recording of a simulated node, with its truth: sim_record SEED PODS THREADS SECONDS. */
#include <stdio.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/num.h"
#include "tests/sim/node/sim_recording.h"

int main(int argc, char **argv)
{
    uint64_t seed = 0, pods = 0, seconds = 0;
    double threads = 0;

    if (argc != 5 || kw_parse_u64(argv[1], 0, UINT64_MAX, &seed) < 0 ||
        kw_parse_u64(argv[2], 1, 1200, &pods) < 0 ||
        kw_parse_double(argv[3], 0.01, 1000, &threads) < 0 ||
        kw_parse_u64(argv[4], 1, 86400, &seconds) < 0) {
        (void)fprintf(stderr, "usage: sim_record SEED PODS THREADS SECONDS > FILE\n");
        return 2;
    }
    struct sim_recording_conf conf = {.node = sim_node_defaults(seed, pods, threads),
                                      .has =
                                          AGENT_HAS_SMT | AGENT_HAS_FREQUENCY | AGENT_HAS_COUNTERS,
                                      .idle_factor = 1,
                                      .interval_ns = 100 * KW_NS_PER_MS,
                                      .seconds = (unsigned)seconds,
                                      .dram = true};
    if (sim_recording_write(&conf, stdout) < 0) {
        (void)fprintf(stderr, "sim_record: cannot write\n");
        return 1;
    }
    return 0;
}
