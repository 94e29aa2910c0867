/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Human error for operator-facing edges (configuration, start-up checks, API replies). Inside,
 * functions return -errno; where an operator will read the cause, they also fill one of these.
 * Lives on the caller's stack; nothing to free. `text` is empty while no error was set.
 */
struct kw_err {
    int code; /**< negative errno, 0 while unset */
    char text[512];
};

/**
 * What the C library says to an errno: "No such file or directory". Static text, unlike strerror's;
 * "unknown error" where it has no word for it (524, which the kernel means for itself).
 * @param code errno, of either sign.
 */
const char *kw_errno_text(int code);

/**
 * Sets code and text (cut to fit, then ending in "..."; one line: control bytes become '?').
 * @param err may be NULL: then only the code is returned.
 * @param code negative errno.
 * @return code, so that `return kw_err_set(err, -EINVAL, "...")` reads well.
 */
int kw_err_set(struct kw_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Puts "context: " in front of the text of an error on its way up.
 * @param err may be NULL.
 * @return err->code, or 0 where err is NULL.
 */
int kw_err_wrap(struct kw_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
