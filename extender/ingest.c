/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/ingest.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "common/clock.h"
#include "extender/pool.h"

/** A sample of 64 packages has some 30 kB; what is longer is not decoded. */
#define VALUE_MAX_BYTES (256 * 1024)

/** Ages beyond ten years are the same; keeps the arithmetic far from its limits. */
#define AGE_MAX_MS (INT64_C(3650) * 24 * 3600 * 1000)

/** A sample that seems older on its way through Redis comes from a clock that is wrong. */
#define CLOCK_TRUST_MS (INT64_C(300) * 1000)

/** Weight of a sample in how far its node's clock is behind: one that is late counts little. */
#define CLOCK_WEIGHT 64

const char *const ext_skip_names[EXT_SKIP__MAX] = {
    [EXT_SKIP_NAME] = "name",   [EXT_SKIP_MISSING] = "missing", [EXT_SKIP_SAMPLE] = "sample",
    [EXT_SKIP_CURVE] = "curve", [EXT_SKIP_SCHEMA] = "schema",   [EXT_SKIP_REPLY] = "reply",
    [EXT_SKIP_LIMIT] = "limit",
};
_Static_assert(sizeof(ext_skip_names) / sizeof(*ext_skip_names) == EXT_SKIP__MAX,
               "every reason has a name");

static int64_t age_ns(const struct kw_sample *sample, const struct ext_instant *now)
{
    int64_t age_ms = now->unix_ms - sample->t_unix_ms;

    if (age_ms < 0)
        age_ms = 0;
    if (age_ms > AGE_MAX_MS)
        age_ms = AGE_MAX_MS;
    return age_ms * (int64_t)KW_NS_PER_MS;
}

/**
 * How long a sample was on its way: by its clock, where that is believed; else by the least that
 * its node's samples seemed old. A sample that came late must not hide pods that started since it
 * was taken, also not one of a node whose clock is ahead, whose late samples look new.
 */
static int64_t late_ns(const struct kw_sample *sample, const struct ext_node *before,
                       const struct ext_instant *now, struct ext_node *node)
{
    int64_t old_ms = now->unix_ms - sample->t_unix_ms;

    if (old_ms > AGE_MAX_MS || old_ms < -AGE_MAX_MS)
        old_ms = old_ms < 0 ? -AGE_MAX_MS : AGE_MAX_MS;
    /* what its clock is behind at the least: nothing, as long as it may be believed */
    int64_t least_ms = old_ms > 0 && old_ms < CLOCK_TRUST_MS ? 0 : old_ms;
    if (before == NULL || least_ms < node->behind_ms ||
        (least_ms > 0 && node->behind_ms < CLOCK_TRUST_MS))
        node->behind_ms = least_ms;
    else
        node->behind_ms += (least_ms - node->behind_ms) / CLOCK_WEIGHT;
    return (old_ms - node->behind_ms) * (int64_t)KW_NS_PER_MS;
}

static void take_sample(const struct kw_sample *sample, const struct ext_node *before,
                        const struct ext_instant *now, struct ext_node *node)
{
    bool same = before != NULL && sample->epoch == before->epoch && sample->seq == before->seq &&
                sample->t_unix_ms == before->t_unix_ms;
    bool advanced = before != NULL && sample->t_unix_ms > before->t_unix_ms;

    if (!same) {
        int64_t old_ns = age_ns(sample, now);
        node->fresh_ns = now->now_ns - (advanced ? 0 : old_ns);
        node->covered_ns = now->now_ns - late_ns(sample, before, now, node);
        ext_watts_sample(&node->watts, sample);
    }
    node->epoch = sample->epoch;
    node->seq = sample->seq;
    node->t_unix_ms = sample->t_unix_ms;
    node->interval_ns = sample->interval_ns;
    node->used_mcpu = (double)kw_sample_load_mcpu(sample);
}

static enum ext_skip skip_of(int rc, enum ext_skip otherwise)
{
    return rc == -EPROTONOSUPPORT ? EXT_SKIP_SCHEMA : otherwise;
}

/** @return 0, or -ENOMEM. */
static int take_curve(const struct ext_record *record, uint64_t skipped[EXT_SKIP__MAX],
                      struct ext_node *node)
{
    struct kw_curve curve;
    uint64_t hash = record->curve == NULL ? 0 : ext_hash(record->curve, record->curve_len, 0);
    int rc = -EBADMSG;

    if (record->curve == NULL) {
        node->has_curve = false;
        node->curve_hash = 0;
        ext_watts_curve(&node->watts, NULL);
        return 0;
    }
    if (hash == node->curve_hash)
        return 0;
    if (record->curve_len <= VALUE_MAX_BYTES)
        rc = kw_curve_decode(record->curve, record->curve_len, &curve, NULL);
    if (rc == -ENOMEM)
        return rc;
    node->curve_hash = hash;
    node->has_curve = rc == 0;
    if (rc < 0) {
        ext_watts_curve(&node->watts, NULL);
        skipped[skip_of(rc, EXT_SKIP_CURVE)]++;
        return 0;
    }
    ext_pool_take(node, &curve);
    node->sleep_told = false; /* what was seen of its sleep may be new */
    return 0;
}

/** Reads the sample of a record. @return 0; -ENOMEM; -EBADMSG where it is bad, which is counted. */
static int decode_sample(const struct ext_record *record, struct kw_sample *scratch,
                         uint64_t skipped[EXT_SKIP__MAX])
{
    int rc = -EBADMSG;

    if (record->sample == NULL) {
        skipped[EXT_SKIP_MISSING]++;
        return rc;
    }
    if (record->sample_len <= VALUE_MAX_BYTES)
        rc = kw_sample_decode(record->sample, record->sample_len, scratch, NULL);
    if (rc == 0 && record->name != NULL && strcmp(scratch->node, record->name) != 0)
        rc = -EBADMSG;
    if (rc == 0 || rc == -ENOMEM)
        return rc;
    skipped[skip_of(rc, EXT_SKIP_SAMPLE)]++;
    return -EBADMSG;
}

int ext_ingest_named(struct ext_record *record, struct kw_sample *scratch,
                     uint64_t skipped[EXT_SKIP__MAX])
{
    int rc = decode_sample(record, scratch, skipped);

    if (rc < 0)
        return rc == -EBADMSG ? -ENOENT : rc;
    record->name = scratch->node;
    record->score = (double)scratch->t_unix_ms;
    return 0;
}

int ext_ingest_sample(const struct ext_record *record, const struct ext_node *before,
                      const struct ext_instant *now, const struct kw_sample *sample,
                      uint64_t skipped[EXT_SKIP__MAX], struct ext_node *ret)
{
    struct ext_node node = before != NULL ? *before : (struct ext_node){0};

    node.name = record->name;
    node.name_len = (uint16_t)strlen(record->name);
    node.score = record->score;
    if (sample != NULL)
        take_sample(sample, before, now, &node);
    int rc = take_curve(record, skipped, &node);
    if (rc == 0)
        *ret = node;
    return rc;
}

int ext_ingest(const struct ext_record *record, const struct ext_node *before,
               const struct ext_instant *now, struct kw_sample *scratch,
               uint64_t skipped[EXT_SKIP__MAX], struct ext_node *ret)
{
    int rc = decode_sample(record, scratch, skipped);

    if (rc == -ENOMEM)
        return rc;
    if (rc < 0 && before == NULL)
        return -ENOENT;
    return ext_ingest_sample(record, before, now, rc == 0 ? scratch : NULL, skipped, ret);
}
