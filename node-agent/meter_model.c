/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter of machines that have none: idle + (full - idle) x busy share of each package, from the
 * class prior of the CPU or from what the operator set. Everything that comes from it is flagged
 * `estimated`.
 *
 * It is a meter like the others: a counter that only goes up. The fraction of a microjoule that a
 * window leaves is carried, so that a thousand short windows give the same energy as one long one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/class_prior.h"
#include "node-agent/meter.h"

#define PJ_PER_UJ UINT64_C(1000000)

struct model {
    size_t n;
    struct agent_domain domains[AGENT_PACKAGES_MAX];
    uint64_t idle_mw[AGENT_PACKAGES_MAX], full_mw[AGENT_PACKAGES_MAX];
    unsigned threads[AGENT_PACKAGES_MAX];
    uint64_t counter_uj[AGENT_PACKAGES_MAX];
    uint64_t rest_pj[AGENT_PACKAGES_MAX];
};

static int model_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    const struct agent_topology *topology = conf->topology;
    struct model *model = calloc(1, sizeof(*model));

    if (model == NULL)
        return kw_err_set(err, -ENOMEM, "model: out of memory");
    for (unsigned p = 0; p < topology->n_packages && p < AGENT_PACKAGES_MAX; p++) {
        struct agent_domain *domain = &model->domains[model->n++];
        *domain = (struct agent_domain){
            .kind = AGENT_DOMAIN_CPU, .package = p, .package_id = topology->package_ids[p]};
        (void)snprintf(domain->name, sizeof(domain->name), "package-%u", topology->package_ids[p]);
        (void)snprintf(domain->path, sizeof(domain->path), "model:%s",
                       agent_class_prior(topology)->name);
        model->threads[p] = agent_package_threads(topology, p);
        agent_package_power_mw(topology, p, conf->idle_mw, conf->full_mw, &model->idle_mw[p],
                               &model->full_mw[p]);
    }
    *ret = model;
    return 0;
}

static size_t model_domains(const void *self, const struct agent_domain **ret)
{
    const struct model *model = self;

    *ret = model->domains;
    return model->n;
}

static int model_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    struct model *model = self;
    uint64_t now = kw_now_ns();

    for (size_t p = 0; p < model->n; p++) {
        if (load != NULL) {
            uint64_t busy_ns = load->busy_ns[p];
            unsigned __int128 capacity_ns =
                (unsigned __int128)load->interval_ns * model->threads[p];
            if (busy_ns > capacity_ns)
                busy_ns = (uint64_t)capacity_ns;
            unsigned __int128 pj = (unsigned __int128)model->idle_mw[p] * load->interval_ns +
                                   (unsigned __int128)(model->full_mw[p] - model->idle_mw[p]) *
                                       busy_ns / model->threads[p] +
                                   model->rest_pj[p];
            model->counter_uj[p] += (uint64_t)(pj / PJ_PER_UJ);
            model->rest_pj[p] = (uint64_t)(pj % PJ_PER_UJ);
        }
        ret[p] = (struct agent_reading){.counter_uj = model->counter_uj[p], .t_ns = now};
    }
    return 0;
}

static void model_close(void **self)
{
    free(KW_TAKE_PTR(*self));
}

const struct agent_meter_ops agent_meter_model = {
    .name = "model",
    .estimated = true,
    .open = model_open,
    .domains = model_domains,
    .read = model_read,
    .close = model_close,
};
