/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "common/err.h"

/*
 * The kubelet of this node, asked for its pods over verified TLS. Blocking; belongs to one thread.
 */

struct agent_kubelet;

/** Texts are borrowed for the life of the kubelet. */
struct agent_kubelet_conf {
    const char *address;    /**< "10.0.0.7", "fd00::7", "node-7:10250", "https://node-7:10250" */
    const char *node;       /**< its node's name: certificates that kubelets make for themselves
                               name nothing else */
    const char *ca_file;    /**< PEM; NULL: the service account's */
    const char *token_file; /**< read again when it changes; NULL: the service account's */
};

/** "https://[fd00::7]:10250" of an address, without a slash at its end. @return 0; -EINVAL. */
int agent_kubelet_url(const char *address, char *out, size_t size);

/** Checks the settings; does not connect. @return 0; -EINVAL; -errno of a file that cannot be read.
 */
int agent_kubelet_new(const struct agent_kubelet_conf *conf, struct agent_kubelet **ret,
                      struct kw_err *err);
void agent_kubelet_free(struct agent_kubelet **kubelet);

/** Its URL, for messages. */
const char *agent_kubelet_name(const struct agent_kubelet *kubelet);

/** Asks for the list of pods. @param ret_body at most 10 MB. @return 0; -EACCES 401, 403;
 * -EREMOTEIO other statuses; as kw_http_client_call. */
int agent_kubelet_pods(struct agent_kubelet *kubelet, struct kw_buf *ret_body, struct kw_err *err);

/** Ends the call in progress and every later one; from any thread. */
void agent_kubelet_interrupt(struct agent_kubelet *kubelet);
