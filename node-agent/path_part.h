/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Components of a cgroup path, as spans of it (pure): what node-agent/identity.c reads with. */

/** One component, or what is left of it; not terminated. */
struct agent_part {
    const char *at; /**< NULL: none */
    size_t len;     /**< 0: end of the path */
};

#define AGENT_PART_NONE ((struct agent_part){NULL, 0})

/** First component; leading and doubled slashes do not count. */
struct agent_part agent_part_first(const char *path);

/** The component after `part`, which must end where the path's component ends. */
struct agent_part agent_part_next(struct agent_part part);

/** Whether the part is exactly this text. */
bool agent_part_is(struct agent_part part, const char *text);

/** Takes a prefix off; what is left is never empty. @return false and unchanged where it has
 * another. */
bool agent_part_strip_prefix(struct agent_part *part, const char *prefix);

/** As agent_part_strip_prefix, at the end. */
bool agent_part_strip_suffix(struct agent_part *part, const char *suffix);

/** Leaves what follows the last `text`, which is never empty. @return false and unchanged where
 * there is none. */
bool agent_part_after_last(struct agent_part *part, const char *text);

/** Exactly `len` lower-case hexadecimal digits. */
bool agent_part_is_hex(struct agent_part part, size_t len);

/** A UUID, groups separated by '-' or '_'. */
bool agent_part_is_uuid(struct agent_part part);

/** 1 to 255 letters, digits, '-', '_', '.': what Kubernetes and containerd take for an identifier.
 */
bool agent_part_is_word(struct agent_part part);

/** Decimal digits only. */
bool agent_part_is_number(struct agent_part part);

/** Copies printable ASCII; other bytes become '?'. Cut at size - 1. @return false where the copy is
 * not the original. */
bool agent_part_copy(char *out, size_t size, struct agent_part part);

/** As agent_part_copy; a copy that is not the original ends in '~' and a hash of the original, so
 * that it stays unique. @param size at least 32. */
void agent_part_copy_id(char *out, size_t size, struct agent_part part);
