/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/** A container that is a workload of its own has the workload's name. */
static char *name_of(const struct agent_container_row *container, const struct agent_row *row)
{
    if (container->names != NULL)
        return container->names->name;
    return row->names != NULL && strcmp(container->label->id, row->label->id) == 0
               ? row->names->name
               : container->label->name;
}

void agent_view_record(const struct agent_snapshot *snapshot, const struct agent_row *row,
                       struct kw_container_record *containers, struct kw_pod_record *ret)
{
    const struct kw_sample *sample = &snapshot->sample;

    for (size_t i = 0; i < row->n_containers; i++) {
        const struct agent_container_row *container =
            &snapshot->containers[row->first_container + i];
        containers[i] = (struct kw_container_record){
            .id = container->label->id,
            .name = name_of(container, row),
            .cpu_ns = container->cpu_ns,
            .active_uj = container->active_uj,
            .memory_bytes = container->memory_bytes,
            .requests_total = container->requests,
        };
        if (container->names == NULL)
            continue;
        containers[i].request_mcpu = container->names->request_mcpu;
        containers[i].request_bytes = container->names->request_bytes;
        containers[i].limit_mcpu = container->names->limit_mcpu;
        containers[i].limit_bytes = container->names->limit_bytes;
    }
    *ret = (struct kw_pod_record){
        .kind = agent_names_kind(row->names, row->label->kind),
        .id = row->label->id,
        .name = row->label->name,
        .namespace_ = (char *)"",
        .qos = row->label->qos,
        .runtime = row->label->runtime,
        .cgroup = row->label->cgroup,
        .epoch = sample->epoch,
        .started_unix_ms = row->label->started_unix_ms,
        .ended_unix_ms = row->ended_unix_ms,
        .t_unix_ms = sample->t_unix_ms,
        .cpu_ns = row->cpu_ns,
        .active_uj = row->cpu_uj + row->dram_uj,
        .dram_uj = row->dram_uj,
        .idle_uj = row->idle_uj,
        .sigma_uj = row->sigma_uj,
        .watts_mw = row->cpu_mw + row->dram_mw,
        .shared_ns = row->counts.shared_ns,
        .cycles = row->counts.cycles,
        .instructions = row->counts.instructions,
        .llc_misses = row->counts.llc_misses,
        .dram_mw = row->dram_mw,
        .sigma_mw = row->sigma_mw,
        .cpu_intensity = row->cpu_intensity,
        .dram_intensity = row->dram_intensity,
        .idle_equal_mw = row->idle_equal_mw,
        .idle_requests_mw = row->idle_requests_mw,
        .memory_bytes = row->memory_bytes,
        .requests_total = row->requests,
        .requests_unit = (char *)(snapshot->counts_requests ? AGENT_REQUESTS_UNIT : ""),
        .estimated = (sample->quality & KW_QUALITY_BIT(KW_QUALITY_ESTIMATED)) != 0,
        .n_containers = row->n_containers,
        .containers = containers,
    };
    if (row->names == NULL)
        return;
    ret->name = row->names->name;
    ret->namespace_ = row->names->namespace_;
    ret->image = row->names->image;
    ret->uuid = row->names->uuid;
    ret->owner_kind = row->names->owner_kind;
    ret->owner_name = row->names->owner_name;
    ret->labels = row->names->labels;
}

int agent_view_encode(const struct agent_snapshot *snapshot, const struct kw_node_info *info,
                      char **ret, size_t *ret_len)
{
    kw_cleanup_free struct kw_pod_record *records = calloc(snapshot->n_rows + 1, sizeof(*records));
    kw_cleanup_free struct kw_container_record *containers =
        calloc(snapshot->n_containers + 1, sizeof(*containers));

    if (records == NULL || containers == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < snapshot->n_rows; i++)
        agent_view_record(snapshot, &snapshot->rows[i],
                          containers + snapshot->rows[i].first_container, &records[i]);
    struct kw_node_view view = {
        .info = *info,
        .sample = snapshot->sample,
        .curve = snapshot->curve,
        .departed_uj = snapshot->departed_uj,
        .departed_idle_uj = snapshot->departed_idle_uj,
        .n_pods = snapshot->n_rows,
        .pods = records,
    };
    return kw_node_view_encode(&view, ret, ret_len);
}

int agent_view_print(struct kw_snapshot *snapshots, const struct kw_node_info *info, FILE *out)
{
    kw_cleanup_free char *json = NULL;
    size_t slot = 0, len = 0;
    const struct agent_snapshot *snapshot = kw_snapshot_acquire(snapshots, &slot);
    int rc = snapshot != NULL ? agent_view_encode(snapshot, info, &json, &len) : -ENODATA;

    kw_snapshot_release(snapshots, slot);
    if (rc == 0 &&
        (fwrite(json, 1, len, out) != len || fputc('\n', out) == EOF || fflush(out) != 0))
        rc = -EIO;
    return rc;
}
