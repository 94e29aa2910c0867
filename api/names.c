/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/extender.h"
#include "api/owner.h"
#include "api/top_owner.h"

/** Longest text around a node name: the braces included. */
#define KEY_AROUND "kwatt:v1:attribution:{}"
_Static_assert(sizeof(KEY_AROUND) + KW_NODE_NAME_MAX <= KW_KEY_MAX, "KW_KEY_MAX is too small");

_Static_assert(sizeof(KW_KEY_PREFIX "profile://") + KW_NAMESPACE_MAX + KW_TOP_KIND_MAX +
                       KW_TOP_NAME_MAX <=
                   KW_KEY_MAX,
               "KW_KEY_MAX is too small");

static int key_of(char out[KW_KEY_MAX], const char *kind, const char *node)
{
    size_t len = strnlen(node, KW_NODE_NAME_MAX + 1);

    if (len == 0 || len > KW_NODE_NAME_MAX)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)node[i];
        if (byte <= ' ' || byte == 0x7f || byte == '{' || byte == '}')
            return -EINVAL;
    }
    return snprintf(out, KW_KEY_MAX, KW_KEY_PREFIX "%s:{%s}", kind, node);
}

int kw_key_node(char out[KW_KEY_MAX], const char *node)
{
    return key_of(out, "node", node);
}

int kw_key_pods(char out[KW_KEY_MAX], const char *node)
{
    return key_of(out, "pods", node);
}

int kw_key_advice(char out[KW_KEY_MAX], const char *node)
{
    return key_of(out, "advice", node);
}

int kw_key_profile(char out[KW_KEY_MAX], const char *ns, const char *kind, const char *name)
{
    if (!kw_kube_name_ok(ns) || strlen(ns) >= KW_NAMESPACE_MAX || !kw_kind_ok(kind) ||
        !kw_kube_name_ok(name))
        return -EINVAL;
    return snprintf(out, KW_KEY_MAX, KW_KEY_PREFIX "profile:%s/%s/%s", ns, kind, name);
}

unsigned kw_feed_shard(const char *node)
{
    uint64_t hash =
        UINT64_C(0xcbf29ce484222325); /* FNV-1a, 64 bits: readers in any language agree */

    for (; *node != '\0'; node++)
        hash = (hash ^ (unsigned char)*node) * UINT64_C(0x100000001b3);
    return (unsigned)(hash % KW_FEED_SHARDS);
}

void kw_key_feed(char out[KW_KEY_MAX], unsigned shard)
{
    (void)snprintf(out, KW_KEY_MAX, KW_KEY_PREFIX "feed:%u", shard);
}

int kw_key_attribution(char out[KW_KEY_MAX], const char *node)
{
    return key_of(out, "attribution", node);
}
