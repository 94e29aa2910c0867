/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/redis.h"
#include "tests/bench/keepalive.h"

/* The programs of extender_bench.c. What does not start ends the benchmark by kwt_die. */

struct extender_rig {
    char dir[64];
    pid_t redis, extender, fixed, go;
    uint16_t port, fixed_port, go_port;
    char go_program[256]; /**< "": there is none */
};

/** Ends them and removes what they left. */
void extender_rig_clean(struct extender_rig *p);

/** A port that is free now. */
uint16_t extender_rig_port(void);

/** Starts redis-server in p->dir. @return a connection. */
struct kw_redis *extender_rig_redis(struct extender_rig *p);

/** Starts the extender of a build. */
void extender_rig_extender(struct extender_rig *p, const char *build);

/** Finds e2e/tools/goextender, built where it is not yet, which may want the network. Without Go: a
 * line on stderr. */
void extender_rig_find_go(struct extender_rig *p, const char *build);

/** Starts it; p->go stays 0 where there is none. */
void extender_rig_go(struct extender_rig *p);

/**
 * Takes the caller and what it starts from then on to a network of their own, where TCP paces
 * nothing. Where the kernel's default is BBR, each connection sends as fast as it once measured:
 * over loopback at 48 or at 116 Gbit/s, by chance, which is 25 us of a request for 5000 nodes and
 * decided the ratio of two servers. Where that is not allowed: a line on stderr.
 */
void extender_rig_network(void);

/** Waits until /metrics says that so many nodes are known. */
void extender_rig_wait(struct keepalive *client, unsigned n);
