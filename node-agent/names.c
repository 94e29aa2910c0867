/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

static char *copy(const char *text)
{
    return strdup(text != NULL ? text : "");
}

static int copy_labels(const struct kw_labels *from, struct kw_labels *ret)
{
    if (from->n == 0)
        return 0;
    ret->items = calloc(from->n, sizeof(*ret->items));
    if (ret->items == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < from->n; i++) {
        struct kw_label_pair *pair = &ret->items[ret->n++];
        pair->key = strdup(from->items[i].key);
        pair->value = strdup(from->items[i].value);
        if (pair->key == NULL || pair->value == NULL)
            return -ENOMEM;
    }
    return 0;
}

int agent_names_new(const struct agent_names *texts, struct agent_names **ret)
{
    kw_cleanup(agent_names_unref) struct agent_names *names = calloc(1, sizeof(*names));

    if (names == NULL)
        return -ENOMEM;
    names->refs = 1;
    names->name = copy(texts->name);
    names->namespace_ = copy(texts->namespace_);
    names->owner_kind = copy(texts->owner_kind);
    names->owner_name = copy(texts->owner_name);
    names->request_mcpu = texts->request_mcpu;
    names->request_bytes = texts->request_bytes;
    names->limit_mcpu = texts->limit_mcpu;
    names->limit_bytes = texts->limit_bytes;
    names->image = copy(texts->image);
    names->vm = texts->vm;
    names->uuid = copy(texts->uuid);
    if (names->image == NULL || names->uuid == NULL || names->name == NULL ||
        names->namespace_ == NULL || names->owner_kind == NULL || names->owner_name == NULL ||
        copy_labels(&texts->labels, &names->labels) < 0)
        return -ENOMEM;
    *ret = KW_TAKE_PTR(names);
    return 0;
}

bool agent_names_same(const struct agent_names *a, const struct agent_names *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a->name, b->name) == 0 && strcmp(a->namespace_, b->namespace_) == 0 &&
           strcmp(a->owner_kind, b->owner_kind) == 0 && strcmp(a->owner_name, b->owner_name) == 0 &&
           strcmp(a->image, b->image) == 0 && strcmp(a->uuid, b->uuid) == 0 && a->vm == b->vm &&
           a->request_mcpu == b->request_mcpu && a->request_bytes == b->request_bytes &&
           a->limit_mcpu == b->limit_mcpu && a->limit_bytes == b->limit_bytes;
}

struct agent_names *agent_names_ref(struct agent_names *names)
{
    if (names != NULL)
        names->refs++;
    return names;
}

void agent_names_unref(struct agent_names **names)
{
    struct agent_names *owned = KW_TAKE_PTR(*names);

    if (owned == NULL || --owned->refs > 0)
        return;
    free(owned->name);
    free(owned->namespace_);
    free(owned->owner_kind);
    free(owned->owner_name);
    free(owned->image);
    free(owned->uuid);
    kw_labels_clear(&owned->labels);
    free(owned);
}
