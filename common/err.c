/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * Texts are made in a local buffer and copied at the end, so that a caller may pass err->text
 * itself as an argument. What does not fit ends in "...": a reader must see that something is
 * missing.
 */

static void store(struct kw_err *err, const char *text, int wanted)
{
    (void)snprintf(err->text, sizeof(err->text), "%s", text);
    if (wanted >= (int)sizeof(err->text)) {
        static const char cut[] = "...";
        memcpy(err->text + sizeof(err->text) - sizeof(cut), cut, sizeof(cut));
    }
    for (char *p = err->text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
}

const char *kw_errno_text(int code)
{
    const char *text = strerrordesc_np(code < 0 && code > INT_MIN ? -code : code);

    return text == NULL ? "unknown error" : text;
}

int kw_err_set(struct kw_err *err, int code, const char *format, ...)
{
    if (err == NULL)
        return code;

    char text[sizeof(err->text)];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (wanted < 0)
        text[0] = '\0'; /* an encoding error: the code still stands */
    err->code = code;
    store(err, text, wanted);
    return code;
}

int kw_err_wrap(struct kw_err *err, const char *format, ...)
{
    if (err == NULL)
        return 0;

    char context[sizeof(err->text)];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(context, sizeof(context), format, args);
    va_end(args);
    if (wanted < 0)
        context[0] = '\0';

    /* sized for both parts, so that only store() cuts */
    char text[2 * sizeof(err->text) + 2];
    wanted = snprintf(text, sizeof(text), "%s: %s", context, err->text);
    store(err, text, wanted);
    return err->code;
}
