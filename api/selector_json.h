/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/codec.h"
#include "api/selector.h"

/*
 * Labels and selectors inside other objects; for the codecs of this folder only.
 */

/** Reads an object of texts ("labels"). @param map NULL: empty. On an error *ret is empty. */
void kw_labels_from_json(struct kw_reader *reader, const json_t *map, struct kw_labels *ret);

/** Reads a LabelSelector (matchLabels, matchExpressions). @param object NULL: empty. On an error
 * *ret is empty. */
void kw_selector_from_json(struct kw_reader *reader, const json_t *object, struct kw_selector *ret);

/** Reads a plain map of labels as a selector (ReplicationController, a CronJob's template). @param
 * map NULL: empty. On an error *ret is empty. */
void kw_selector_from_map(struct kw_reader *reader, const json_t *map, struct kw_selector *ret);
