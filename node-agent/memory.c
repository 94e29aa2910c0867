/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of Redis comes before the first window where Redis is near; what it takes longer is
 * attributed as by an agent that knows nothing, and from the next window on as before. Nothing is
 * saved until the question is settled, so that an agent that knows nothing does not write over what
 * another one knew; after WAIT_NS it is settled without an answer.
 *
 * Saving takes a copy of the state, once in SAVE_NS: what was learnt after that is lost by kill -9,
 * and learnt again. An end by a signal loses nothing.
 */
#include "node-agent/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/learnt.h"

#define WAIT_NS       (30 * KW_NS_PER_S)
#define FIRST_SAVE_NS (10 * KW_NS_PER_S)
#define SAVE_NS       (60 * KW_NS_PER_S)
#define EXPIRE_S      "3600"
_Static_assert(AGENT_LEARNT_MAX_S == 3600, "the key lives as long as it is used");

enum question { ASKING, ANSWERED, SETTLED };

struct agent_memory {
    char key[KW_KEY_MAX];
    struct kw_log *log;
    uint64_t begin_ns, saved_ns; /* the sampling thread's; 0: not yet */
    struct kw_buf making;        /* the same */
    struct kw_buf writing;       /* the publisher's */
    pthread_mutex_t lock;
    enum question question; /* under it, as all below */
    struct kw_buf answer, saved;
    bool refused; /* Redis lets us not: no further try */
};

int agent_memory_new(const char *node, struct kw_log *log, struct agent_memory **ret)
{
    struct agent_memory *memory = calloc(1, sizeof(*memory));

    if (memory == NULL)
        return -ENOMEM;
    (void)pthread_mutex_init(&memory->lock, NULL);
    memory->log = log;
    if (kw_key_attribution(memory->key, node) < 0) {
        agent_memory_free(&memory);
        return -EINVAL;
    }
    *ret = memory;
    return 0;
}

void agent_memory_free(struct agent_memory **memory)
{
    struct agent_memory *owned = KW_TAKE_PTR(*memory);

    if (owned == NULL)
        return;
    kw_buf_free(&owned->making);
    kw_buf_free(&owned->writing);
    kw_buf_free(&owned->answer);
    kw_buf_free(&owned->saved);
    (void)pthread_mutex_destroy(&owned->lock);
    free(owned);
}

static enum question look(struct agent_memory *memory)
{
    (void)pthread_mutex_lock(&memory->lock);
    enum question question = memory->question;
    (void)pthread_mutex_unlock(&memory->lock);
    return question;
}

static void settle(struct agent_memory *memory)
{
    (void)pthread_mutex_lock(&memory->lock);
    memory->question = SETTLED;
    kw_buf_free(&memory->answer);
    (void)pthread_mutex_unlock(&memory->lock);
}

void agent_memory_recall(struct agent_memory *memory, struct agent_sampler *sampler,
                         uint64_t now_ns)
{
    struct kw_err err = {0};
    int64_t age_ms = 0;

    if (memory == NULL)
        return;
    enum question question = look(memory);
    if (memory->begin_ns == 0)
        memory->begin_ns = now_ns;
    if (question == SETTLED || (question == ASKING && now_ns - memory->begin_ns < WAIT_NS))
        return;
    /* what was answered is nobody else's until it is settled */
    int rc =
        question == ANSWERED && memory->answer.len > 0
            ? agent_sampler_recall(sampler, memory->answer.data, memory->answer.len, &age_ms, &err)
            : -ENOTSUP;
    if (rc == 0)
        kw_log_info(memory->log, "attribution goes on from what was learnt before",
                    kw_i64("age_s", age_ms / 1000));
    else if (rc != -ENOTSUP)
        kw_log_warn(memory->log, "what was learnt before is not used; attribution begins anew",
                    kw_str("cause", err.text));
    settle(memory);
}

void agent_memory_keep(struct agent_memory *memory, struct agent_sampler *sampler, uint64_t now_ns,
                       bool last)
{
    if (memory == NULL)
        return;
    uint64_t wait_ns = memory->saved_ns == 0 ? FIRST_SAVE_NS : SAVE_NS;
    uint64_t since_ns = memory->saved_ns == 0 ? memory->begin_ns : memory->saved_ns;

    if (look(memory) != SETTLED || (!last && now_ns - since_ns < wait_ns))
        return;
    memory->saved_ns = now_ns;
    kw_buf_reset(&memory->making);
    if (agent_sampler_remember(sampler, &memory->making) < 0)
        return;
    (void)pthread_mutex_lock(&memory->lock);
    struct kw_buf spare = memory->saved;
    memory->saved = memory->making;
    memory->making = spare;
    (void)pthread_mutex_unlock(&memory->lock);
}

/** Says once that the state cannot be kept, and lets it be. */
static void refuse(struct agent_memory *memory, const char *cause)
{
    (void)pthread_mutex_lock(&memory->lock);
    bool said = memory->refused;
    memory->refused = true;
    if (memory->question == ASKING)
        memory->question = SETTLED;
    (void)pthread_mutex_unlock(&memory->lock);
    if (!said)
        kw_log_warn(memory->log,
                    "what attribution learns is not kept over restarts; nothing else is lost",
                    kw_str("key", memory->key), kw_str("cause", cause));
}

void agent_memory_fetch(struct agent_memory *memory, struct kw_redis *redis)
{
    kw_cleanup(kw_redis_replies_free) struct kw_redis_replies replies = {0};
    struct kw_err err = {0};

    if (look(memory) != ASKING)
        return;
    int rc = kw_redis_queue_texts(redis, "GET", memory->key, NULL);
    if (rc == 0)
        rc = kw_redis_exec(redis, &replies, &err);
    if (rc < 0 || replies.n != 1)
        return; /* asked again with the next batch, while it is worth it */
    const struct kw_redis_reply *reply = &replies.items[0];
    if (reply->type == KW_REDIS_ERROR) {
        refuse(memory, reply->str);
        return;
    }
    (void)pthread_mutex_lock(&memory->lock);
    if (memory->question == ASKING) {
        if (reply->type == KW_REDIS_STRING && reply->len <= AGENT_LEARNT_MAX_BYTES)
            (void)kw_buf_add(&memory->answer, reply->str, reply->len);
        memory->question = ANSWERED;
    }
    (void)pthread_mutex_unlock(&memory->lock);
}

void agent_memory_write(struct agent_memory *memory, struct kw_redis *redis)
{
    struct kw_err err = {0};

    (void)pthread_mutex_lock(&memory->lock);
    struct kw_buf taken = memory->saved;
    memory->saved = memory->writing;
    memory->writing = taken;
    kw_buf_reset(&memory->saved);
    bool refused = memory->refused;
    (void)pthread_mutex_unlock(&memory->lock);
    if (memory->writing.len == 0 || refused)
        return;
    const char *const argv[] = {"SET", memory->key, memory->writing.data, "EX", EXPIRE_S};
    const size_t lens[] = {3, strlen(memory->key), memory->writing.len, 2, strlen(EXPIRE_S)};
    int rc = kw_redis_queue(redis, KW_ARRAY_SIZE(argv), argv, lens);
    if (rc == 0)
        rc = kw_redis_exec(redis, NULL, &err);
    if (rc == -EREMOTEIO)
        refuse(memory, err.text);
    kw_buf_reset(&memory->writing); /* what did not get through is out of date with the next one */
}
