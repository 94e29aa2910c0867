/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "extender/service.h"

/* A service with four nodes: one dear, one cheap, one stale, one without a curve. */

extern const struct ext_policy kwt_policy;

struct kwt_service {
    struct ext_service service;
    struct ext_snapshot *snapshot;
    struct kw_buf out;
};

int kwt_service_set_up(void **state);
int kwt_service_tear_down(void **state);

/** Asks once; the answer is in f->out. @return the status. */
unsigned kwt_ask(struct kwt_service *f, enum ext_verb verb, const char *body, size_t len);
