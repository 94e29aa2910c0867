/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/meter_choice.h"

#include "common/buf.h"

int agent_meter_choose(const struct agent_options *options, const struct agent_topology *topology,
                       const char *sysfs_root, const struct kw_power_model *model,
                       struct kw_log *log, struct agent_metering **ret, struct kw_err *err)
{
    struct agent_meter_conf conf = {
        .topology = topology,
        .sysfs_root = sysfs_root,
        .idle_mw = (uint64_t)(options->idle_w * 1000),
        .full_mw = (uint64_t)(options->full_w * 1000),
        .model = model,
    };
    int rc = agent_metering_new(options->meter == 0 ? NULL : agent_meter_choices[options->meter],
                                &conf, ret, err);

    if (rc == 0) {
        struct kw_buf all = {0};
        agent_metering_explain(*ret, &all);
        kw_log_info(log, "meters", kw_str("all", all.data));
        kw_buf_free(&all);
    }
    return rc;
}
