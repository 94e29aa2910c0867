/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/node/sim_recording.h"

#include <errno.h>
#include <math.h>

#include "common/buf.h"
#include "common/clock.h"
#include "node-agent/recording.h"

static struct agent_recorded_domain domain_of(const struct sim_recording_conf *conf,
                                              const struct sim_node *node,
                                              const struct sim_window *seen, bool dram)
{
    return (struct agent_recorded_domain){
        .present = true,
        .uj = dram ? seen->dram_uj : seen->cpu_uj,
        .interval_ns = seen->interval_ns,
        .idle_prior_mw = (uint64_t)((double)sim_node_idle_mw(node, dram) * conf->idle_factor),
        .has_truth = true,
        .truth_idle_uj = (uint64_t)llround(dram ? seen->idle_dram_uj : seen->idle_cpu_uj),
    };
}

static void put_window(const struct sim_recording_conf *conf, const struct sim_node *node,
                       const struct sim_window *seen, uint64_t t_ns, struct kw_buf *out)
{
    static const struct agent_recording_new nothing;
    const struct agent_recorded_window window = {
        .t_ns = t_ns,
        .interval_ns = seen->interval_ns,
        .n_ended = seen->n_departed,
        .ended = (uint64_t *)seen->departed,
    };
    struct agent_recorded_package package = {.mhz = seen->mhz, .usage_known = true};

    package.domains[AGENT_DOMAIN_CPU] = domain_of(conf, node, seen, false);
    if (conf->dram)
        package.domains[AGENT_DOMAIN_DRAM] = domain_of(conf, node, seen, true);
    agent_recording_put_begin(out, &window, false);
    agent_recording_put_package(out, &package, true);
    for (size_t i = 0; i < seen->n; i++) {
        const struct agent_recorded_truth truth = {
            .present = true,
            .uj = {(uint64_t)llround(seen->truth[i].cpu_uj),
                   (uint64_t)llround(seen->truth[i].dram_uj)}};
        agent_recording_put_row(out, &seen->features[i], &truth, &nothing, i == 0);
    }
    agent_recording_put_package_end(out, &package);
    agent_recording_put_end(out);
}

static int write_windows(const struct sim_recording_conf *conf, struct sim_node *node,
                         struct kw_buf *line, FILE *out)
{
    uint64_t end_ns = conf->seconds * KW_NS_PER_S;

    for (uint64_t t_ns = conf->interval_ns; t_ns <= end_ns; t_ns += conf->interval_ns) {
        const struct sim_window *seen = sim_node_run(node, conf->interval_ns);
        if (seen == NULL)
            return -ENOMEM;
        kw_buf_reset(line);
        put_window(conf, node, seen, t_ns, line);
        if (line->failed || fwrite(line->data, 1, line->len, out) != line->len)
            return -EIO;
    }
    return fflush(out) == 0 ? 0 : -EIO;
}

int sim_recording_write(const struct sim_recording_conf *conf, FILE *out)
{
    struct agent_recording_header header = {.node = "simulated",
                                            .cpu_model = "simulated",
                                            .meter = "simulated",
                                            .accounting = "simulated",
                                            .method = "kalman",
                                            .has = conf->has};
    struct sim_node *node = sim_node_new(&conf->node);
    struct kw_buf line = {0};

    if (node == NULL)
        return -EINVAL;
    header.n_online = sim_node_cpus(node);
    header.package_cpus[0] = (uint16_t)header.n_online;
    agent_recording_put_header(&line, &header, NULL);
    int rc = line.failed || fwrite(line.data, 1, line.len, out) != line.len ? -EIO : 0;
    if (rc == 0)
        rc = write_windows(conf, node, &line, out);
    kw_buf_free(&line);
    sim_node_free(&node);
    return rc;
}
