/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter of machines that have none. With a model from a file (node-agent/model_file.h) it is
 * what that says of the window's features; without one, idle + (full - idle) x busy share of each
 * package, from the class prior of the CPU or from what the operator set. Everything that comes
 * from it is flagged `estimated`.
 *
 * A model is of a whole machine, often of another size than this one. Each package is taken as a
 * machine of its own: its features are scaled up to the threads of the model's machine, and the
 * watts down again.
 *
 * It is a meter like the others: a counter that only goes up. The fraction of a microjoule that a
 * window leaves is carried, so that a thousand short windows give the same energy as one long one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/class_prior.h"
#include "node-agent/counts.h"
#include "node-agent/meter.h"
#include "node-agent/model_file.h"

#define PJ_PER_UJ     UINT64_C(1000000)
#define PJ_PER_W_NS   1000.0
#define DOMAINS_MAX   (2 * AGENT_PACKAGES_MAX)
#define PJ_MAX_WINDOW 1e18 /* more than any window has, and below 2^64 */

struct model {
    size_t n;
    struct agent_domain domains[DOMAINS_MAX];
    const struct kw_power_model *file; /* NULL: none */
    double size[AGENT_PACKAGES_MAX];   /* the model's machine in this package's threads */
    uint64_t idle_mw[AGENT_PACKAGES_MAX], full_mw[AGENT_PACKAGES_MAX];
    unsigned threads[AGENT_PACKAGES_MAX];
    uint64_t counter_uj[DOMAINS_MAX];
    uint64_t rest_pj[DOMAINS_MAX];
};

static void add_domain(struct model *model, const struct agent_topology *topology, unsigned p,
                       enum agent_domain_kind kind)
{
    struct agent_domain *domain = &model->domains[model->n++];

    *domain =
        (struct agent_domain){.kind = kind, .package = p, .package_id = topology->package_ids[p]};
    (void)snprintf(domain->name, sizeof(domain->name),
                   kind == AGENT_DOMAIN_DRAM ? "dram" : "package-%u", topology->package_ids[p]);
    (void)snprintf(domain->path, sizeof(domain->path), "model:%s",
                   model->file != NULL ? "file" : agent_class_prior(topology)->name);
}

static int model_open(const struct agent_meter_conf *conf, void **ret, struct kw_err *err)
{
    const struct agent_topology *topology = conf->topology;
    struct model *model = calloc(1, sizeof(*model));

    if (model == NULL)
        return kw_err_set(err, -ENOMEM, "model: out of memory");
    model->file = conf->model;
    for (unsigned p = 0; p < topology->n_packages && p < AGENT_PACKAGES_MAX; p++) {
        add_domain(model, topology, p, AGENT_DOMAIN_CPU);
        if (conf->model != NULL && conf->model->parts[KW_MODEL_DRAM].present)
            add_domain(model, topology, p, AGENT_DOMAIN_DRAM);
        model->threads[p] = agent_package_threads(topology, p);
        if (conf->model != NULL)
            model->size[p] = agent_model_size(conf->model, topology, model->threads[p]);
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

/** Energy of a window by the busy share. */
static unsigned __int128 busy_pj(const struct model *model, unsigned p,
                                 const struct agent_meter_load *load)
{
    unsigned __int128 capacity_ns = (unsigned __int128)load->interval_ns * model->threads[p];
    uint64_t busy_ns = load->busy_ns[p];

    if (busy_ns > capacity_ns)
        busy_ns = (uint64_t)capacity_ns;
    return (unsigned __int128)model->idle_mw[p] * load->interval_ns +
           (unsigned __int128)(model->full_mw[p] - model->idle_mw[p]) * busy_ns / model->threads[p];
}

/** What of a feature a package did in the window. */
static uint64_t feature_of(const char *name, const struct agent_meter_load *load, unsigned p)
{
    if (strcmp(name, "cpu_time") == 0)
        return load->busy_ns[p];
    if (load->counts == NULL)
        return 0;
    return strcmp(name, "cycles") == 0         ? load->counts[p].cycles
           : strcmp(name, "instructions") == 0 ? load->counts[p].instructions
                                               : load->counts[p].llc_misses;
}

/** Energy of a window by the model of the file. */
static unsigned __int128 file_pj(const struct model *model, const struct agent_domain *domain,
                                 const struct agent_meter_load *load)
{
    const struct kw_model *part =
        &model->file->parts[domain->kind == AGENT_DOMAIN_DRAM ? KW_MODEL_DRAM : KW_MODEL_PACKAGE];
    double x[KW_MODEL_FEATURES_MAX], size = model->size[domain->package];

    if (load->interval_ns == 0)
        return 0;
    for (size_t i = 0; i < part->n; i++) {
        bool time = strcmp(part->features[i].name, "cpu_time") == 0;
        double units = time ? 1 : 1e9; /* CPU seconds, or events, a second */
        x[i] = (double)feature_of(part->features[i].name, load, domain->package) * units * size /
               (double)load->interval_ns;
    }
    double pj = kw_model_watts(part, x) / size * (double)load->interval_ns * PJ_PER_W_NS;
    return (uint64_t)(pj < PJ_MAX_WINDOW ? pj : PJ_MAX_WINDOW);
}

static int model_read(void *self, const struct agent_meter_load *load, struct agent_reading *ret)
{
    struct model *model = self;
    uint64_t now = kw_now_ns();

    for (size_t i = 0; i < model->n; i++) {
        if (load != NULL) {
            unsigned __int128 pj = model->file != NULL
                                       ? file_pj(model, &model->domains[i], load)
                                       : busy_pj(model, model->domains[i].package, load);
            pj += model->rest_pj[i];
            model->counter_uj[i] += (uint64_t)(pj / PJ_PER_UJ);
            model->rest_pj[i] = (uint64_t)(pj % PJ_PER_UJ);
        }
        ret[i] = (struct agent_reading){.counter_uj = model->counter_uj[i], .t_ns = now};
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
