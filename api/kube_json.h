/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/codec.h"
#include "api/pod.h"

/*
 * Pieces that several Kubernetes objects share; for the codecs of this folder only.
 */

/** Reads the controller among metadata.ownerReferences. @param metadata may be NULL. @return
 * whether there is one; *ret is then filled (cleared on an error). */
bool kw_owner_ref_from_json(struct kw_reader *reader, const json_t *metadata,
                            struct kw_owner_ref *ret);

/** CPU in millicores of a quantity (a text, or a number as CRDs allow). @return whether there is
 * one that can be read. */
bool kw_mcpu_from_json(const json_t *value, uint64_t *ret_mcpu);

/** Memory in bytes of a quantity. @return as kw_mcpu_from_json. */
bool kw_bytes_from_json(const json_t *value, uint64_t *ret_bytes);

/** "2026-11-29T19:53:37Z" or with a fraction, to unix ms; 0 where it is no such time. */
int64_t kw_time_from_json(const json_t *value);
