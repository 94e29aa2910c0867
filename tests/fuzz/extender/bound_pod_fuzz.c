/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are refused, or are a pod whose texts are short and whose CPU is bounded; where a tree
 * reader takes the same bytes, both saw the same uid and node. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/extender.h"
#include "extender/bound_pod.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ext_assumptions assumptions = {100, 100};

static void need(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ext_bound_pod pod;
    int rc = ext_bound_pod_scan((const char *)data, size, &assumptions, NULL, &pod);

    if (rc < 0)
        return 0;
    need(strnlen(pod.uid, sizeof(pod.uid)) < sizeof(pod.uid) && pod.uid[0] != '\0');
    need(strnlen(pod.node, sizeof(pod.node)) < sizeof(pod.node));
    need(pod.mcpu > 0 && pod.mcpu <= KW_POD_MCPU_MAX);
    need(rc == 0 || pod.node[0] != '\0');
    json_t *tree =
        json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (tree != NULL && memchr(data, '\\', size) == NULL) {
        const char *uid =
            json_string_value(json_object_get(json_object_get(tree, "metadata"), "uid"));
        const char *node =
            json_string_value(json_object_get(json_object_get(tree, "spec"), "nodeName"));
        need(uid != NULL && strcmp(uid, pod.uid) == 0);
        need(rc == 0 || (node != NULL && strcmp(node, pod.node) == 0));
    }
    json_decref(tree);
    return 0;
}
