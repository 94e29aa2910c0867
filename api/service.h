/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Longest name of a Kubernetes object (RFC 1123 subdomain). */
#define KW_SERVICE_NAME_MAX 253
/** Longest numeric address: IPv6 with an IPv4 tail. */
#define KW_SERVICE_IP_MAX   45

/** Labels that the chart gives the Service of the extender; a label selector, URL-encoded. */
#define KW_EXTENDER_SERVICE_QUERY \
    "labelSelector=app.kubernetes.io%2Fpart-of%3Dkwatt%2Capp.kubernetes.io%2Fcomponent%3Dextender"

/** What is needed of a Service to reach it from outside the pod network's DNS. */
struct kw_service {
    char name[KW_SERVICE_NAME_MAX + 1], namespace_[KW_SERVICE_NAME_MAX + 1];
    char cluster_ip[KW_SERVICE_IP_MAX + 1]; /**< "" where it is headless or has none */
    uint16_t port; /**< the one named "http" or "https", else the first; 0: none */
    bool https;    /**< it is named "https" */
};

/**
 * Decodes a Service as the API server sends it. @param ret_why static text: the field that is
 * wrong. @return 0; -EBADMSG; -ENOMEM; *ret is untouched then.
 */
int kw_service_decode(const char *json, size_t len, struct kw_service *ret, const char **ret_why);
