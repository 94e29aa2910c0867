/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are refused with a reason, or answered with JSON that holds the map and nothing else,
 * whose values are such as Go decodes into MetaVictims. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#include "extender/preempt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
    if (!condition)
        abort();
}

static void check_pods(json_t *pods)
{
    json_t *pod;
    json_t *value;
    const char *key;
    size_t i;

    need(json_is_null(pods) || json_is_array(pods));
    json_array_foreach (pods, i, pod) {
        need(json_is_null(pod) || json_is_object(pod));
        json_object_foreach (pod, key, value)
            need(strcasecmp(key, "UID") != 0 || json_is_string(value) || json_is_null(value));
    }
}

static void check_victims(json_t *victims)
{
    json_t *value;
    const char *key;

    need(json_is_null(victims) || json_is_object(victims));
    json_object_foreach (victims, key, value) {
        if (strcasecmp(key, "Pods") == 0)
            check_pods(value);
        else if (strcasecmp(key, "NumPDBViolations") == 0)
            need(json_is_null(value) || json_is_integer(value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_buf out = {0};
    const char *why = NULL;
    int rc = ext_preempt_answer((const char *)data, size, NULL, &out, &why);

    if (rc < 0) {
        need(why != NULL);
    } else {
        json_t *answer = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
        json_t *map = json_object_get(answer, "NodeNameToMetaVictims");
        const char *node;
        json_t *victims;
        need(json_is_object(map) && json_object_size(answer) == 1);
        json_object_foreach (map, node, victims)
            check_victims(victims);
        json_decref(answer);
    }
    kw_buf_free(&out);
    return 0;
}
