/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/model_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/utf8.h"

static bool is_counter(const char *name)
{
    return strcmp(name, "cycles") == 0 || strcmp(name, "instructions") == 0 ||
           strcmp(name, "cache_misses") == 0;
}

/** Whether all that a part goes by is counted. */
static int check_features(const struct kw_model *model, bool counters, struct kw_err *err)
{
    for (size_t i = 0; i < model->n; i++) {
        const char *name = model->features[i].name;
        if (!kw_model_needs(model, i) || strcmp(name, "cpu_time") == 0)
            continue;
        if (!is_counter(name))
            return kw_err_set(err, -ENOTSUP, "goes by %s, which kwatt does not count", name);
        if (!counters)
            return kw_err_set(err, -ENOTSUP,
                              "goes by %s, and hardware counters are not counted here; take a "
                              "model of cpu_time alone (kwatt train --features cpu_time)",
                              name);
    }
    return 0;
}

static int check_model(struct kw_power_model *model, bool counters, struct kw_err *err)
{
    struct kw_model *package = &model->parts[KW_MODEL_PACKAGE];
    struct kw_model *dram = &model->parts[KW_MODEL_DRAM];

    if (package->refused[0] != '\0')
        return kw_err_set(err, -EBADMSG, "package: %s", package->refused);
    if (!package->present)
        return kw_err_set(err, -EBADMSG, "it has no model of packages");
    if (model->active_only)
        return kw_err_set(err, -EBADMSG,
                          "a model of what is above idle (DynPower); a meter needs AbsPower");
    int rc = check_features(package, counters, err);
    if (rc == 0 && dram->present && check_features(dram, counters, NULL) < 0)
        dram->present = false;
    return rc;
}

int agent_model_read(const char *path, bool counters, struct kw_power_model **ret,
                     struct kw_err *err)
{
    kw_cleanup_free struct kw_power_model *model = calloc(1, sizeof(*model));
    kw_cleanup_free char *json = NULL;
    const char *slash = strrchr(path, '/'), *why = "";
    size_t len = 0;
    int rc = model != NULL ? kw_file_slurp(path, KW_MODEL_FILE_MAX, &json, &len) : -ENOMEM;

    if (rc < 0)
        return kw_err_set(err, rc, "model %s: %s", path, kw_errno_text(rc));
    size_t mark = kw_utf8_mark(json, len);
    rc = kw_power_model_decode(json + mark, len - mark, slash != NULL ? slash + 1 : path, model,
                               &why);
    if (rc < 0)
        return kw_err_set(err, rc, "model %s: not as documented (docs/power-models.md): %s", path,
                          why);
    rc = check_model(model, counters, err);
    if (rc < 0) {
        (void)kw_err_wrap(err, "model %s", path);
        return rc;
    }
    *ret = KW_TAKE_PTR(model);
    return 0;
}

double agent_model_size(const struct kw_power_model *model, const struct agent_topology *topology,
                        unsigned threads)
{
    unsigned theirs = model->threads > 0 ? model->threads : topology->n_online;

    return theirs > 0 && threads > 0 ? (double)theirs / threads : 1;
}

int agent_model_choose(const char *path, const struct agent_accounting_ops *accounting,
                       void *accounting_self, struct kw_power_model **ret, struct kw_err *err)
{
    const struct agent_feature_state *features =
        accounting->features != NULL ? accounting->features(accounting_self) : NULL;
    bool counters = features != NULL && features[AGENT_FEATURE_COUNTERS].on;

    return path == NULL ? 0 : agent_model_read(path, counters, ret, err);
}

struct agent_model_power agent_model_power_of(const struct kw_power_model *model,
                                              const struct agent_topology *topology, double idle_w,
                                              double full_w)
{
    double dram_idle_w = 0;

    if (model != NULL) {
        double size = agent_model_size(model, topology, topology->n_online);
        if (idle_w <= 0)
            idle_w = kw_model_idle_w(&model->parts[KW_MODEL_PACKAGE]) / size;
        if (full_w <= 0)
            full_w = kw_model_top_w(&model->parts[KW_MODEL_PACKAGE]) / size;
        if (model->parts[KW_MODEL_DRAM].present)
            dram_idle_w = kw_model_idle_w(&model->parts[KW_MODEL_DRAM]) / size;
    }
    return (struct agent_model_power){.idle_mw = (uint64_t)(idle_w * 1000),
                                      .full_mw = (uint64_t)(full_w * 1000),
                                      .dram_idle_mw = (uint64_t)(dram_idle_w * 1000)};
}
