/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/fleet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/curve.h"
#include "api/names.h"
#include "api/sample.h"
#include "common/cleanup.h"
#include "common/clock.h"

/** Nodes a pipeline: some 400 kB. */
#define PIPELINE 500

#define CAPACITY_MCPU 128000

void fleet_node_name(char out[FLEET_NAME_MAX], unsigned i)
{
    (void)snprintf(out, FLEET_NAME_MAX, "ip-10-%03u-%03u-%03u.eu-central-1.compute.internal",
                   i / 65536 % 1000, i / 256 % 256, i % 256);
}

/** Watts of one server over its load, made larger or smaller for each kind. */
static void make_curve(struct kw_curve *curve, unsigned i)
{
    static const uint32_t watts[KW_CURVE_KNOTS] = {128, 257, 300, 340, 378, 410,
                                                   442, 498, 577, 697, 817};

    *curve = (struct kw_curve){.capacity_mcpu = CAPACITY_MCPU, .n = KW_CURVE_KNOTS};
    for (uint32_t k = 0; k < KW_CURVE_KNOTS; k++)
        curve->knots[k] =
            (struct kw_curve_knot){.load_permille = k * 100, .mw = watts[k] * (500 + i % 1000)};
}

static int queue_node(struct kw_redis *redis, struct kw_sample *sample, unsigned i)
{
    kw_cleanup_free char *sample_text = NULL, *curve_text = NULL, *digest = NULL;
    char key[KW_KEY_MAX], feed[KW_KEY_MAX], name[FLEET_NAME_MAX], score[32];
    struct kw_curve curve;
    size_t len;

    fleet_node_name(name, i);
    memcpy(sample->node, name, sizeof(name));
    sample->used_mcpu = ((uint64_t)i * 7919 + sample->seq * 10) % CAPACITY_MCPU;
    make_curve(&curve, i);
    (void)snprintf(score, sizeof(score), "%lld", (long long)sample->t_unix_ms);
    int rc = kw_key_node(key, name);
    if (rc >= 0)
        rc = kw_sample_encode(sample, &sample_text, &len);
    if (rc >= 0)
        rc = kw_curve_encode(&curve, &curve_text, &len);
    if (rc >= 0)
        rc = kw_sample_encode_digest(sample, &digest, &len);
    if (rc >= 0)
        rc = kw_redis_queue_texts(redis, "HSET", key, KW_FIELD_SAMPLE, sample_text, KW_FIELD_CURVE,
                                  curve_text, (char *)NULL);
    if (rc >= 0)
        rc = kw_redis_queue_texts(redis, "ZADD", KW_KEY_NODES, score, name, (char *)NULL);
    kw_key_feed(feed, kw_feed_shard(name));
    if (rc >= 0)
        rc =
            kw_redis_queue_texts(redis, "XADD", feed, "MAXLEN", "~", KW_FEED_LENGTH, "*",
                                 KW_FIELD_SAMPLE, digest, KW_FIELD_CURVE, curve_text, (char *)NULL);
    return rc;
}

int fleet_publish(struct kw_redis *redis, unsigned from, unsigned to, uint64_t seq,
                  struct kw_err *err)
{
    static struct kw_sample sample;

    sample = (struct kw_sample){.epoch = 1,
                                .seq = seq,
                                .interval_ns = 5000000000,
                                .t_unix_ms = kw_now_unix_ms(),
                                .n_packages = 2};
    sample.packages[1].package = 1;
    memcpy(sample.meter, "model", sizeof("model"));
    for (unsigned i = from; i < to; i++) {
        int rc = queue_node(redis, &sample, i);
        if (rc < 0)
            return kw_err_set(err, rc, "node %u cannot be written", i);
        if ((i - from) % PIPELINE != PIPELINE - 1 && i != to - 1)
            continue;
        rc = kw_redis_exec(redis, NULL, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}
