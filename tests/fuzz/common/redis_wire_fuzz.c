/* SPDX-License-Identifier: Apache-2.0 */
/* Reply bytes of a Redis server, or of a sentinel that is asked for a master. First byte: how many
 * replies are expected; second: in pieces of which size they arrive. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/redis_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte that a reply says it has. @return something, so that nothing is optimised away
 */
static size_t walk(const struct kw_redis_reply *reply)
{
    size_t sum = reply->type;

    for (size_t i = 0; i < reply->len; i++)
        sum += (unsigned char)reply->str[i];
    if (reply->str != NULL && reply->str[reply->len] != '\0')
        abort();
    for (size_t i = 0; i < reply->n_elements; i++)
        sum += walk(&reply->elements[i]);
    return sum;
}

/* What was taken for an address is one; what was refused says why. */
static void read_as_sentinels(const struct kw_redis_reply *reply)
{
    struct kw_redis_host host = {0};
    struct kw_err err = {0};
    int r = kw_redis_sentinel_address(reply, &host, &err);

    if (r == 0 ? host.port == 0 || strlen(host.name) == 0 ||
                     strlen(host.name) > KW_REDIS_MAX_NAME_BYTES
               : err.text[0] == '\0')
        abort();
    free(host.name);
    err = (struct kw_err){0};
    if (kw_redis_role_is_master(reply, &err) < 0 && err.text[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kw_redis_parser *parser = NULL;
    struct kw_redis_replies replies = {0};
    struct kw_err err = {0};
    int r = 0;

    if (size < 2 || kw_redis_parser_new((size_t)(data[0] - '0') % 16, &parser) < 0)
        return 0;
    size_t step = 1u + data[1] % 64u;
    for (size_t at = 2; r == 0 && at < size; at += step)
        r = kw_redis_parser_feed(parser, (const char *)data + at,
                                 size - at < step ? size - at : step, &err);
    if (r < 0 && err.text[0] == '\0')
        abort();
    if (r == 1) {
        kw_redis_parser_take(parser, &replies);
        for (size_t i = 0; i < replies.n; i++) {
            (void)walk(&replies.items[i]);
            read_as_sentinels(&replies.items[i]);
        }
    }
    kw_redis_parser_free(&parser);
    kw_redis_replies_free(&replies);
    return 0;
}
