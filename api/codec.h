/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/advice.h"
#include "api/curve.h"
#include "api/node_info.h"
#include "api/out.h"
#include "api/pod_record.h"
#include "api/sample.h"

/*
 * Shared by the codecs of this folder and by nobody else: writing and reading fields of JSON
 * objects with one error that sticks, so that a codec is a plain list of its fields and is checked
 * once at its end.
 */

/** Longest text of a heap field (workload id, cgroup path): PATH_MAX without its NUL. */
#define KW_TEXT_MAX 4095

/** Most containers of one workload: far above any pod, low enough to bound what one record makes a
 * reader do. */
#define KW_CONTAINERS_MAX 1024

enum kw_need { KW_OPTIONAL, KW_REQUIRED };

/** State of one decoding: rc is 0 until the first error, which stays. */
struct kw_reader {
    int rc;          /**< 0, -EBADMSG, -EPROTONOSUPPORT, -ENOMEM */
    const char *why; /**< static text; the field's name, or what is wrong with the document */
};

/** Records the first error. */
void kw_reader_fail(struct kw_reader *reader, int rc, const char *why);

/** Hands the reader's outcome to the caller of a decoder. @return reader->rc. */
int kw_reader_end(const struct kw_reader *reader, const char **ret_why);

/** Parses one JSON object (duplicate keys refused). @return NULL after an error; else the caller
 * json_decref()s. */
json_t *kw_reader_parse(struct kw_reader *reader, const char *json, size_t len);

/** Requires `schema` of this object to be KW_SCHEMA: another integer is -EPROTONOSUPPORT. */
void kw_get_schema(struct kw_reader *reader, const json_t *object);

/** Child of one type, borrowed; NULL where absent (an error if required), of another type, or after
 * an error. */
const json_t *kw_get(struct kw_reader *reader, const json_t *object, const char *key,
                     json_type type, enum kw_need need);

/**
 * Values; *ret is untouched where an optional field is absent, so it holds the default before.
 * Integers must be JSON integers in 0..2^63-1 (u32: 0..2^32-1).
 */
void kw_get_u64(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                uint64_t *ret);
void kw_get_u32(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                uint32_t *ret);
void kw_get_time_ms(struct kw_reader *reader, const json_t *object, const char *key,
                    enum kw_need need, int64_t *ret);
/** A number with or without a fraction, within min and max. */
void kw_get_real(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 double min, double max, double *ret);
void kw_get_bool(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 bool *ret);
/** Whether a text holds a NUL: as a C string it would be cut. @param value a text. */
bool kw_text_has_nul(const json_t *value);
/** @param size of `out`; a text that does not fit with its NUL, or has another one inside, is an
 * error, never cut. */
void kw_get_text(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 char *out, size_t size);
/** @param ret a fresh copy of at most KW_TEXT_MAX bytes ("" where absent), owned by the caller;
 * NULL after an error. */
void kw_get_copy(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 char **ret);

/** New object carrying `schema`. @param rc 0 or the first error, in and out. */
json_t *kw_put_document(int *rc);

/** Adds a value whose reference it takes; a NULL object or value is -ENOMEM. */
void kw_put(int *rc, json_t *object, const char *key, json_t *value);

/** Adds to an array as kw_put. */
void kw_put_element(int *rc, json_t *array, json_t *value);

/** Integers above 2^63-1 and negative times are -EINVAL. */
void kw_put_u64(int *rc, json_t *object, const char *key, uint64_t value);
void kw_put_time_ms(int *rc, json_t *object, const char *key, int64_t value);
void kw_put_bool(int *rc, json_t *object, const char *key, bool value);
/** @param max longest text in bytes, longer (or no UTF-8) is -EINVAL; NULL is written as "". */
void kw_put_text(int *rc, json_t *object, const char *key, const char *text, size_t max);

/** A text as a value. @param max as kw_put_text. @return NULL after an error, which is in *rc. */
json_t *kw_text_to_json(int *rc, const char *text, size_t max);

/** Prints and releases `root`. @param flags of json_dumps. @return rc, or -ENOMEM; *ret only on 0.
 */
int kw_put_end(int rc, json_t *root, size_t flags, char **ret, size_t *ret_len);

/** Documents that travel inside others as well as alone; after an error *ret holds nothing to free.
 */
json_t *kw_node_info_to_json(const struct kw_node_info *info, int *rc);
void kw_node_info_from_json(struct kw_reader *reader, const json_t *object,
                            struct kw_node_info *ret);
json_t *kw_sample_to_json(const struct kw_sample *sample, int *rc);
void kw_sample_from_json(struct kw_reader *reader, const json_t *object, struct kw_sample *ret);
json_t *kw_curve_to_json(const struct kw_curve *curve, int *rc);
void kw_curve_from_json(struct kw_reader *reader, const json_t *object, struct kw_curve *ret);
/** Writes a record as a value. */
void kw_pod_record_write(const struct kw_pod_record *record, struct kw_out *out);
void kw_pod_record_from_json(struct kw_reader *reader, const json_t *object,
                             struct kw_pod_record *ret);
json_t *kw_advice_to_json(const struct kw_advice *advice, int *rc);

/** Array of names of the bits set. */
json_t *kw_quality_to_json(uint32_t quality, int *rc);
/** Bits of the names known; unknown names are ignored. */
void kw_quality_from_json(struct kw_reader *reader, const json_t *array, uint32_t *ret);
