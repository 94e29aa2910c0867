/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/path_part.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define UUID_LEN 36
/* No identifier of Kubernetes or containerd is longer. */
#define WORD_MAX 255

struct agent_part agent_part_first(const char *path)
{
    while (*path == '/')
        path++;
    return (struct agent_part){path, strcspn(path, "/")};
}

struct agent_part agent_part_next(struct agent_part part)
{
    return agent_part_first(part.at + part.len);
}

bool agent_part_is(struct agent_part part, const char *text)
{
    return part.len == strlen(text) && memcmp(part.at, text, part.len) == 0;
}

bool agent_part_strip_prefix(struct agent_part *part, const char *prefix)
{
    size_t n = strlen(prefix);

    if (part->len <= n || memcmp(part->at, prefix, n) != 0)
        return false;
    part->at += n;
    part->len -= n;
    return true;
}

bool agent_part_strip_suffix(struct agent_part *part, const char *suffix)
{
    size_t n = strlen(suffix);

    if (part->len <= n || memcmp(part->at + part->len - n, suffix, n) != 0)
        return false;
    part->len -= n;
    return true;
}

bool agent_part_after_last(struct agent_part *part, const char *text)
{
    size_t n = strlen(text);

    for (size_t i = part->len; i-- > 0;) {
        if (part->len - i > n && memcmp(part->at + i, text, n) == 0) {
            part->at += i + n;
            part->len -= i + n;
            return true;
        }
    }
    return false;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool agent_part_is_hex(struct agent_part part, size_t len)
{
    if (part.len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_hex(part.at[i]))
            return false;
    }
    return true;
}

bool agent_part_is_uuid(struct agent_part part)
{
    if (part.len != UUID_LEN)
        return false;
    for (size_t i = 0; i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        char c = part.at[i];
        bool upper = c >= 'A' && c <= 'F';
        if (dash ? (c != '-' && c != '_') : (!is_hex(c) && !upper))
            return false;
    }
    return true;
}

bool agent_part_is_word(struct agent_part part)
{
    for (size_t i = 0; i < part.len; i++) {
        char c = part.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.')
            return false;
    }
    return part.len > 0 && part.len <= WORD_MAX;
}

static uint64_t fnv1a(struct agent_part part)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < part.len; i++)
        hash = (hash ^ (uint8_t)part.at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

bool agent_part_copy(char *out, size_t size, struct agent_part part)
{
    size_t n = part.len < size ? part.len : size - 1;
    bool same = n == part.len;

    for (size_t i = 0; i < n; i++) {
        bool printable = part.at[i] > ' ' && part.at[i] < 0x7f;
        out[i] = printable ? part.at[i] : '?';
        same = same && printable;
    }
    out[n] = '\0';
    return same;
}

void agent_part_copy_id(char *out, size_t size, struct agent_part part)
{
    static const size_t tail = 1 + 16; /* '~' and the hash */

    if (agent_part_copy(out, size, part))
        return;
    size_t n = strlen(out);
    if (n > size - 1 - tail)
        n = size - 1 - tail;
    (void)snprintf(out + n, size - n, "~%016llx", (unsigned long long)fnv1a(part));
}

bool agent_part_is_number(struct agent_part part)
{
    for (size_t i = 0; i < part.len; i++) {
        if (part.at[i] < '0' || part.at[i] > '9')
            return false;
    }
    return part.len > 0;
}
