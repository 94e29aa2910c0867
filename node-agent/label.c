/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/label.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

int agent_label_new(const struct agent_label *texts, struct agent_label **ret)
{
    struct agent_label *label = calloc(1, sizeof(*label));

    if (label == NULL)
        return -ENOMEM;
    label->refs = 1;
    label->kind = texts->kind;
    label->started_unix_ms = texts->started_unix_ms;
    label->id = strdup(texts->id);
    label->name = strdup(texts->name);
    label->runtime = strdup(texts->runtime);
    label->cgroup = strdup(texts->cgroup);
    if (label->id == NULL || label->name == NULL || label->runtime == NULL ||
        label->cgroup == NULL) {
        agent_label_unref(&label);
        return -ENOMEM;
    }
    *ret = label;
    return 0;
}

struct agent_label *agent_label_ref(struct agent_label *label)
{
    label->refs++;
    return label;
}

void agent_label_unref(struct agent_label **label)
{
    struct agent_label *owned = KW_TAKE_PTR(*label);

    if (owned == NULL || --owned->refs > 0)
        return;
    free(owned->id);
    free(owned->name);
    free(owned->runtime);
    free(owned->cgroup);
    free(owned);
}
