/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RESP through hiredis 0.14: its formatter, and its reader with object functions of our own.
 *
 * A Redis server (or what answers on its port) is not trusted: a reply of ten bytes can announce an
 * array of two thousand million elements. The reader's own object functions would allocate that.
 * Ours build the reply tree directly in the types of redis.h, in one arena, and count every byte of
 * it; what would exceed KW_REDIS_MAX_BYTES (memory or wire) is a protocol error. Depth is bounded
 * by the reader (7 levels).
 *
 * Invariants: a root reply lives in items[index]; an array's elements are allocated together,
 * zeroed, when its header arrives, so the slot of a child is known from its task (parent and
 * index); a zeroed reply is NIL, so that a tree is valid at every moment. freeObject does nothing:
 * the arena goes as a whole, on success with the replies, on failure with the parser. Cost: one
 * copy of each string.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/redis_impl.h"

/* Replies of a usual pipeline share the first chunk. */
#define CHUNK_BYTES 16384

/* What is more comes in chunks that are mapped by themselves: the kernel has them back with the
 * replies. In the allocator's hands megabytes would stay, as some small block always ends up above
 * them. */
#define MAPPED_BYTES ((size_t)256 * 1024)

struct chunk {
    struct chunk *next;
    size_t used, size; /* of bytes; all but the first are mapped */
    _Alignas(max_align_t) char bytes[];
};

struct kw_redis_parser {
    redisReader *reader;
    struct chunk *arena;
    struct kw_redis_reply *items;
    size_t n, done;
    size_t fed_bytes, arena_bytes;
    const char *cause; /* why an object function gave NULL */
};

static void arena_free(struct chunk *chunk)
{
    while (chunk != NULL) {
        struct chunk *next = chunk->next;
        if (next == NULL)
            free(chunk);
        else
            (void)munmap(chunk, sizeof(*chunk) + chunk->size);
        chunk = next;
    }
}

static struct chunk *first_chunk(size_t room)
{
    size_t size = room > CHUNK_BYTES ? room : CHUNK_BYTES;
    struct chunk *chunk = calloc(1, sizeof(*chunk) + size);

    if (chunk != NULL)
        chunk->size = size;
    return chunk;
}

static struct chunk *mapped_chunk(size_t room)
{
    size_t bytes = (sizeof(struct chunk) + room + MAPPED_BYTES - 1) / MAPPED_BYTES * MAPPED_BYTES;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct chunk *chunk = at;

    if (at == MAP_FAILED)
        return NULL;
    chunk->size = bytes - sizeof(*chunk);
    return chunk;
}

/* Zeroed memory, aligned for anything; NULL with `cause` set over the bound. */
static void *arena_alloc(struct kw_redis_parser *parser, size_t size)
{
    struct chunk *chunk = parser->arena;
    size_t rounded;

    if (size > KW_REDIS_MAX_BYTES - parser->arena_bytes) {
        parser->cause = "replies larger than 64 MiB";
        return NULL;
    }
    rounded = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    if (chunk == NULL || chunk->size - chunk->used < rounded) {
        chunk = chunk == NULL ? first_chunk(rounded) : mapped_chunk(rounded);
        if (chunk == NULL)
            return NULL;
        chunk->next = parser->arena;
        parser->arena = chunk;
    }
    void *at = chunk->bytes + chunk->used;
    chunk->used += rounded;
    parser->arena_bytes += size;
    return at;
}

/* Where the reply of a task belongs. */
static struct kw_redis_reply *slot(const redisReadTask *task)
{
    struct kw_redis_parser *parser = task->privdata;

    if (task->parent != NULL) {
        const struct kw_redis_reply *parent = task->parent->obj;
        return (struct kw_redis_reply *)&parent->elements[task->idx];
    }
    if (parser->done == parser->n) {
        parser->cause = "more replies than commands";
        return NULL;
    }
    return &parser->items[parser->done];
}

static void *create_string(const redisReadTask *task, char *bytes, size_t len)
{
    struct kw_redis_reply *reply = slot(task);
    char *copy = reply != NULL ? arena_alloc(task->privdata, len + 1) : NULL;

    if (copy == NULL)
        return NULL;
    memcpy(copy, bytes, len);
    reply->type = task->type == REDIS_REPLY_ERROR ? KW_REDIS_ERROR : KW_REDIS_STRING;
    reply->str = copy;
    reply->len = len;
    return reply;
}

static void *create_array(const redisReadTask *task, int elements)
{
    struct kw_redis_reply *reply = slot(task);

    if (reply == NULL)
        return NULL;
    if (elements > 0) {
        /* at most INT_MAX * 56: no overflow in 64 bits */
        reply->elements = arena_alloc(task->privdata, (size_t)elements * sizeof(*reply));
        if (reply->elements == NULL)
            return NULL;
        reply->n_elements = (size_t)elements;
    }
    reply->type = KW_REDIS_ARRAY;
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct kw_redis_reply *reply = slot(task);

    if (reply != NULL) {
        reply->type = KW_REDIS_INTEGER;
        reply->integer = value;
    }
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    return slot(task); /* slots are born as NIL */
}

static void free_nothing(void *object)
{
    (void)object;
}

int kw_redis_parser_new(size_t n, struct kw_redis_parser **ret)
{
    /* hiredis takes the table without const, and only reads it */
    static const redisReplyObjectFunctions functions = {
        .createString = create_string,
        .createArray = create_array,
        .createInteger = create_integer,
        .createNil = create_nil,
        .freeObject = free_nothing,
    };
    _Static_assert(KW_REDIS_NIL == 0, "a zeroed reply is NIL");
    struct kw_redis_parser *parser = calloc(1, sizeof(*parser));

    if (parser == NULL)
        return -ENOMEM;
    parser->n = n;
    if (n <= SIZE_MAX / sizeof(*parser->items))
        parser->items = arena_alloc(parser, n * sizeof(*parser->items));
    if (parser->items != NULL)
        parser->reader = redisReaderCreateWithFunctions((redisReplyObjectFunctions *)&functions);
    if (parser->reader == NULL) {
        kw_redis_parser_free(&parser);
        return -ENOMEM;
    }
    parser->reader->privdata = parser;
    *ret = parser;
    return 0;
}

void kw_redis_parser_free(struct kw_redis_parser **parser)
{
    if (*parser == NULL)
        return;
    if ((*parser)->reader != NULL)
        redisReaderFree((*parser)->reader);
    arena_free((*parser)->arena);
    free(*parser);
    *parser = NULL;
}

static int parser_failure(const struct kw_redis_parser *parser, struct kw_err *err)
{
    if (parser->cause != NULL)
        return kw_err_set(err, -EPROTO, "%s", parser->cause);
    if (parser->reader->err == REDIS_ERR_OOM)
        return kw_err_set(err, -ENOMEM, "out of memory");
    return kw_err_set(err, -EPROTO, "not the Redis protocol: %s", parser->reader->errstr);
}

int kw_redis_parser_feed(struct kw_redis_parser *parser, const char *bytes, size_t len,
                         struct kw_err *err)
{
    void *reply;

    if (len > KW_REDIS_MAX_BYTES - parser->fed_bytes) {
        parser->cause = "replies larger than 64 MiB";
        return parser_failure(parser, err);
    }
    parser->fed_bytes += len;
    if (redisReaderFeed(parser->reader, bytes, len) != REDIS_OK)
        return parser_failure(parser, err);
    for (;;) {
        if (redisReaderGetReply(parser->reader, &reply) != REDIS_OK)
            return parser_failure(parser, err);
        if (reply == NULL)
            break;
        parser->done++;
    }
    if (parser->done < parser->n)
        return 0;
    if (parser->reader->pos < parser->reader->len) {
        parser->cause = "more replies than commands";
        return parser_failure(parser, err);
    }
    return 1;
}

size_t kw_redis_parser_done(const struct kw_redis_parser *parser)
{
    return parser->done;
}

const struct kw_redis_reply *kw_redis_parser_last(const struct kw_redis_parser *parser)
{
    return parser->done > 0 ? &parser->items[parser->done - 1] : NULL;
}

void kw_redis_parser_take(struct kw_redis_parser *parser, struct kw_redis_replies *ret)
{
    ret->n = parser->n;
    ret->items = KW_TAKE_PTR(parser->items);
    ret->storage = KW_TAKE_PTR(parser->arena);
}

void kw_redis_replies_free(struct kw_redis_replies *replies)
{
    arena_free(replies->storage);
    *replies = (struct kw_redis_replies){0};
}

int kw_redis_wire_format(size_t argc, const char *const *argv, const size_t *lens, char **ret,
                         size_t *ret_len)
{
    /* "$N\r\n" and "\r\n" around each argument, generously */
    static const size_t frame_bytes = 32;
    size_t total = frame_bytes;
    char *command;

    if (argc == 0)
        return -EINVAL;
    for (size_t i = 0; i < argc; i++) {
        size_t len = lens != NULL ? lens[i] : strlen(argv[i]);
        /* also keeps hiredis' int arithmetic within its range */
        if (len > KW_REDIS_MAX_BYTES || len + frame_bytes > KW_REDIS_MAX_BYTES - total)
            return -ENOMEM;
        total += len + frame_bytes;
    }
    int n = redisFormatCommandArgv(&command, (int)argc, (const char **)argv, lens);
    if (n < 0)
        return -ENOMEM;
    *ret = command;
    *ret_len = (size_t)n;
    return 0;
}

void kw_redis_wire_free(char **command, size_t len)
{
    if (*command == NULL)
        return;
    explicit_bzero(*command, len);
    redisFreeCommand(*command);
    *command = NULL;
}
