/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_memory.h"

static void use_kept(struct kw_http_memory *memory)
{
    kw_http_load_unkeep(memory->load, memory->kept);
    memory->kept = 0;
}

static void refund(struct kw_http_memory *memory)
{
    kw_http_load_refund(memory->load, memory->charged);
    memory->charged = 0;
}

void kw_http_memory_drop(struct kw_http_memory *memory)
{
    kw_buf_free(&memory->body);
    refund(memory);
}

static void keep_or_free(struct kw_http_memory *memory, struct kw_buf *buf)
{
    if (buf->cap == 0 || !kw_http_load_keep(memory->load, buf->cap)) {
        kw_buf_free(buf);
        return;
    }
    memory->kept += buf->cap;
    kw_buf_reset(buf);
}

static void give_back(struct kw_http_memory *memory)
{
    if (memory->held != NULL)
        atomic_fetch_sub_explicit(memory->held, 1, memory_order_release);
    memory->held = NULL;
}

void kw_http_memory_begin(struct kw_http_memory *memory)
{
    use_kept(memory);
    kw_buf_reset(&memory->body);
    kw_buf_reset(&memory->answer);
}

bool kw_http_memory_take(struct kw_http_memory *memory, const char *bytes, size_t len)
{
    memory->charged += len;
    if (kw_http_load_charge(memory->load, len) ||
        !kw_http_load_give_up(memory->load, len, memory->charged)) {
        (void)kw_buf_add(&memory->body, bytes, len);
        return true;
    }
    memory->charged = 0; /* makes room for those that are kept */
    kw_buf_free(&memory->body);
    return false;
}

void kw_http_memory_end(struct kw_http_memory *memory)
{
    give_back(memory);
    use_kept(memory); /* a request given up at its head has not begun */
    keep_or_free(memory, &memory->body);
    keep_or_free(memory, &memory->answer);
    refund(memory);
}

void kw_http_memory_free(struct kw_http_memory *memory)
{
    use_kept(memory);
    kw_buf_free(&memory->body);
    kw_buf_free(&memory->answer);
}
