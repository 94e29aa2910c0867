/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/cluster/random_fleet.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"
#include "extender/sim_impl.h"

#define FILE_BYTES  (1024 * 1024)
#define SERVERS_MAX 1024

/** Pods have up to 8 cores. */
#define CORES_MIN 8
#define CORES_MAX 1024
#define COLUMNS   22
#define CORES_AT  3
#define WATTS_AT  11

#define KINDS_MAX 4
#define NODES_MAX 80

/** One line. @return whether it is a server that can be used. */
static bool read_server(char *line, struct sim_server *ret)
{
    const char *columns[COLUMNS];
    uint64_t cores;

    for (size_t i = 0; i < COLUMNS; i++) {
        columns[i] = strsep(&line, ",\r");
        if (columns[i] == NULL)
            return false;
    }
    if (kw_parse_u64(columns[CORES_AT], CORES_MIN, CORES_MAX, &cores) < 0)
        return false;
    ret->cores = (unsigned)cores;
    for (size_t k = 0; k < KW_CURVE_KNOTS; k++) {
        if (kw_parse_double(columns[WATTS_AT + k], 1, 1e5, &ret->watts[k]) < 0 ||
            (k > 0 && ret->watts[k] < ret->watts[k - 1]))
            return false;
    }
    return true;
}

size_t sim_servers_read(const char *path, struct sim_server **ret)
{
    kw_cleanup_free char *text = NULL;
    struct sim_server *servers = calloc(SERVERS_MAX, sizeof(*servers));
    char *line, *rest;
    size_t n = 0;

    if (servers == NULL || kw_file_slurp(path, FILE_BYTES, &text, NULL) < 0) {
        free(servers);
        return 0;
    }
    rest = text;
    while ((line = strsep(&rest, "\n")) != NULL && n < SERVERS_MAX)
        n += read_server(line, &servers[n]);
    if (n == 0)
        free(servers);
    else
        *ret = servers;
    return n;
}

static unsigned draw(uint64_t *random, unsigned n)
{
    return (unsigned)(ext_sim_next(random) % n);
}

static void add_kind(struct ext_sim_input *input, const struct sim_server *server, size_t count,
                     bool sleepable)
{
    for (size_t i = 0; i < count; i++) {
        struct ext_sim_node *node = &input->nodes[input->n_nodes];
        *node = (struct ext_sim_node){
            .curve = {.capacity_mcpu = UINT64_C(1000) * server->cores, .n = KW_CURVE_KNOTS},
            .work_per_mcpu = 1,
            .pods_max = 500,
            .sleepable = sleepable,
            .sleep_mw = (uint32_t)fmin(8000, server->watts[0] * 500),
            .wake_uj = server->watts[5] * 1e6 * 120,
        };
        (void)snprintf(node->name, sizeof(node->name), "random-%zu", input->n_nodes++);
        for (uint32_t k = 0; k < KW_CURVE_KNOTS; k++)
            node->curve.knots[k] = (struct kw_curve_knot){
                .load_permille = 100 * k, .mw = (uint32_t)(server->watts[k] * 1000)};
    }
}

int sim_random_make(const struct sim_server *servers, size_t n, uint64_t seed, uint64_t pods,
                    struct ext_sim_input *ret)
{
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    unsigned kinds = 1 + draw(&random, KINDS_MAX);
    bool sleepable = draw(&random, 3) == 0;
    const struct sim_setting setting = {
        .trace = (enum sim_trace)draw(&random, SIM_TRACE__MAX),
        .load = 0.05 + 0.8 * draw(&random, 1000) / 1000,
        .seed = pods,
    };
    struct ext_sim_input input = {.nodes = calloc(NODES_MAX + 1, sizeof(*input.nodes))};

    if (input.nodes == NULL)
        return -ENOMEM;
    for (unsigned kind = 0; kind < kinds; kind++) {
        const struct sim_server *server = &servers[draw(&random, (unsigned)n)];
        add_kind(&input, server, 1 + draw(&random, NODES_MAX / kinds), sleepable);
    }
    int rc = sim_cluster_fill(&setting, &input);
    if (rc < 0)
        ext_sim_input_free(&input);
    else
        *ret = input;
    return rc;
}
