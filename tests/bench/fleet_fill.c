/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills Redis with the nodes of a benchmark, and prints their names, one a line.
 *
 *   fleet_fill REDIS_URL NODES
 */
#include <stdio.h>

#include "common/cleanup.h"
#include "common/num.h"
#include "tests/bench/fleet.h"

int main(int argc, char **argv)
{
    kw_cleanup(kw_redis_free) struct kw_redis *redis = NULL;
    struct kw_redis_conf conf = {.access.url = argc == 3 ? argv[1] : NULL, .timeout_ms = 30000};
    struct kw_err err = {0};
    uint64_t n = 0;

    if (argc != 3 || kw_parse_u64(argv[2], 1, 100000, &n) < 0) {
        (void)fprintf(stderr, "usage: fleet_fill REDIS_URL NODES\n");
        return 2;
    }
    int rc = kw_redis_new(&conf, &redis, &err);
    if (rc == 0)
        rc = fleet_publish(redis, (unsigned)n, &err);
    if (rc < 0) {
        (void)fprintf(stderr, "fleet_fill: %s\n", err.text);
        return 1;
    }
    for (unsigned i = 0; i < n; i++) {
        char name[FLEET_NAME_MAX];
        fleet_node_name(name, i);
        puts(name);
    }
    return 0;
}
