/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "extender/zones.h"

/*
 * A file of zones that changes while it is used: in a pod it is a ConfigMap, which the kubelet
 * replaces by a symbolic link, all at once.
 */

struct ext_zone_file;

/** Reads nothing yet. @param path copied. @return 0 or -ENOMEM. */
int ext_zone_file_new(const char *path, struct ext_zone_file **ret);
void ext_zone_file_free(struct ext_zone_file **file);

/**
 * Reads the file again.
 * @return 1: other zones are in force; 0: nothing has changed since it was read last; -errno or
 * -EBADMSG with the cause: it cannot be read, or is bad, and the last good zones stay. The same
 * bad content, and the same reason why it cannot be read, is an error once.
 */
int ext_zone_file_check(struct ext_zone_file *file, struct kw_err *err);

/** The zones in force: those that were good last; NULL before that. The file's own: hold them. */
struct ext_zones *ext_zone_file_zones(const struct ext_zone_file *file);

/** Whether the zones in force are not those of the file, as it was found last. */
bool ext_zone_file_is_bad(const struct ext_zone_file *file);
