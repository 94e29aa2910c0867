/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills Redis with the nodes of a benchmark, and prints their names, one a line. With SECONDS it
 * goes on as their agents do: each node publishes every 5 s, a part of them at a time. Redis may be
 * away meanwhile.
 *
 *   fleet_fill REDIS_URL NODES [SECONDS]
 */
#include <stdio.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/num.h"
#include "tests/bench/fleet.h"

/** Parts of the fleet that publish one after the other, and the time of a round. */
#define PARTS    50
#define ROUND_NS (5 * KW_NS_PER_S)

static void keep_publishing(struct kw_redis *redis, unsigned n, uint64_t seconds)
{
    uint64_t from_ns = kw_now_ns();

    for (uint64_t turn = PARTS; turn * (ROUND_NS / PARTS) < seconds * KW_NS_PER_S + ROUND_NS;
         turn++) {
        uint64_t due_ns = from_ns + (turn - PARTS) * (ROUND_NS / PARTS);
        uint64_t now_ns = kw_now_ns();
        unsigned part = (unsigned)(turn % PARTS);
        struct kw_err err = {0};
        if (now_ns < due_ns) {
            const struct timespec pause = {.tv_sec = (time_t)((due_ns - now_ns) / KW_NS_PER_S),
                                           .tv_nsec = (long)((due_ns - now_ns) % KW_NS_PER_S)};
            (void)nanosleep(&pause, NULL);
        }
        /* what is not written now is by the next round */
        (void)fleet_publish(redis, n * part / PARTS, n * (part + 1) / PARTS, 1 + turn / PARTS,
                            &err);
    }
}

int main(int argc, char **argv)
{
    kw_cleanup(kw_redis_free) struct kw_redis *redis = NULL;
    struct kw_redis_conf conf = {.access.url = argc > 2 ? argv[1] : NULL, .timeout_ms = 30000};
    struct kw_err err = {0};
    uint64_t n = 0;
    uint64_t seconds = 0;

    if (argc < 3 || argc > 4 || kw_parse_u64(argv[2], 1, 100000, &n) < 0 ||
        (argc == 4 && kw_parse_u64(argv[3], 1, 100000, &seconds) < 0)) {
        (void)fprintf(stderr, "usage: fleet_fill REDIS_URL NODES [SECONDS]\n");
        return 2;
    }
    int rc = kw_redis_new(&conf, &redis, &err);
    if (rc == 0)
        rc = fleet_publish(redis, 0, (unsigned)n, 1, &err);
    if (rc < 0) {
        (void)fprintf(stderr, "fleet_fill: %s\n", err.text);
        return 1;
    }
    for (unsigned i = 0; i < n; i++) {
        char name[FLEET_NAME_MAX];
        fleet_node_name(name, i);
        puts(name);
    }
    (void)fflush(stdout);
    keep_publishing(redis, (unsigned)n, seconds);
    return 0;
}
