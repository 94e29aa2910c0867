/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/label.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/utf8.h"

char *agent_label_text(const char *text)
{
    static const char digits[] = "0123456789abcdef";
    size_t len = strlen(text), used = 0;
    char *ret = malloc(4 * len + 1);

    if (ret == NULL)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t width = kw_utf8_next(text + i, len - i, NULL);
        if (width > 0) {
            memcpy(ret + used, text + i, width);
            used += width;
            i += width;
            continue;
        }
        unsigned char byte = (unsigned char)text[i++];
        ret[used++] = '\\';
        ret[used++] = 'x';
        ret[used++] = digits[byte >> 4];
        ret[used++] = digits[byte & 15];
    }
    ret[used] = '\0';
    return ret;
}

int agent_label_new(const struct agent_label *texts, struct agent_label **ret)
{
    struct agent_label *label = calloc(1, sizeof(*label));

    if (label == NULL)
        return -ENOMEM;
    label->refs = 1;
    label->kind = texts->kind;
    label->qos = texts->qos;
    label->started_unix_ms = texts->started_unix_ms;
    label->id = agent_label_text(texts->id);
    label->name = agent_label_text(texts->name);
    label->runtime = agent_label_text(texts->runtime);
    label->cgroup = agent_label_text(texts->cgroup);
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
