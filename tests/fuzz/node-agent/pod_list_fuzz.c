/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a kubelet's list: what of it is entered can be found, and names only what a pod can
 * be called. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/owner.h"
#include "common/kube.h"
#include "node-agent/pod_directory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool on_item(void *user, const char *json, size_t len)
{
    struct agent_pod_directory *directory = user;
    char uid[256];
    struct kw_pod pod;
    const char *why = NULL;

    if (agent_pod_directory_decode(directory, json, len, &pod, &why) < 0) {
        if (why == NULL)
            abort();
        return true;
    }
    if (strlen(pod.uid) >= sizeof(uid) || pod.labels.n > 2)
        abort();
    memcpy(uid, pod.uid, strlen(pod.uid) + 1);
    if (agent_pod_directory_put(directory, &pod) < 0)
        abort();
    const struct agent_pod_entry *entry = agent_pod_directory_find(directory, uid);
    if (entry == NULL || !kw_kube_name_ok(entry->pod.name) ||
        !kw_kube_name_ok(entry->pod.namespace_))
        abort();
    if ((entry->pod.owner.kind[0] == '\0') != (entry->pod.owner.name[0] == '\0'))
        abort();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_pod_directory *directory = NULL;

    if (agent_pod_directory_new("team,app.kubernetes.io/name", &directory) < 0)
        return 0;
    agent_pod_directory_begin(directory);
    if (kw_kube_items((const char *)data, size, on_item, directory, NULL) == 0)
        agent_pod_directory_end(directory, 1);
    agent_pod_directory_free(&directory);
    return 0;
}
