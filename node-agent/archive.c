/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/archive.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void agent_archive_fail(struct agent_archive *archive, const char *why)
{
    if (archive->why == NULL)
        archive->why = why;
}

static void put(struct agent_archive *archive, uint64_t value)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    (void)kw_buf_add(archive->out, bytes, sizeof(bytes));
}

static bool get(struct agent_archive *archive, uint64_t *ret)
{
    uint64_t value = 0;

    if (archive->left < 8)
        agent_archive_fail(archive, "it ends too soon");
    if (archive->why != NULL)
        return false;
    for (size_t i = 0; i < 8; i++)
        value |= (uint64_t)archive->at[i] << 8 * i;
    archive->at += 8;
    archive->left -= 8;
    *ret = value;
    return true;
}

void agent_archive_u64(struct agent_archive *archive, uint64_t *value, uint64_t max,
                       const char *why)
{
    uint64_t read = 0;

    if (!archive->loading) {
        put(archive, *value);
    } else if (get(archive, &read)) {
        if (read > max)
            agent_archive_fail(archive, why);
        else
            *value = read;
    }
}

void agent_archive_real(struct agent_archive *archive, double *value, double min, double max,
                        const char *why)
{
    uint64_t bits = 0;
    double read = 0;

    _Static_assert(sizeof(double) == sizeof(uint64_t), "IEEE 754");
    if (!archive->loading) {
        memcpy(&bits, value, sizeof(bits));
        put(archive, bits);
    } else if (get(archive, &bits)) {
        memcpy(&read, &bits, sizeof(read));
        if (!isfinite(read) || read < min || read > max)
            agent_archive_fail(archive, why);
        else
            *value = read;
    }
}

void agent_archive_same(struct agent_archive *archive, const char *text, const char *why)
{
    uint64_t len = strlen(text), read = len;

    agent_archive_u64(archive, &read, UINT32_MAX, why);
    if (!archive->loading) {
        (void)kw_buf_add(archive->out, text, len);
        return;
    }
    if (archive->why == NULL &&
        (read != len || archive->left < len || memcmp(archive->at, text, len) != 0))
        agent_archive_fail(archive, why);
    if (archive->why != NULL)
        return;
    archive->at += len;
    archive->left -= len;
}

int agent_archive_end(struct agent_archive *archive)
{
    if (!archive->loading)
        return archive->out->failed ? -ENOMEM : 0;
    if (archive->left > 0)
        agent_archive_fail(archive, "it is longer than it should be");
    return archive->why == NULL ? 0 : -EBADMSG;
}
