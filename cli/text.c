/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

/** One character of a text. */
struct glyph {
    unsigned bytes;   /**< of the input */
    unsigned columns; /**< on the terminal */
    bool shown;       /**< false: written as '?' */
};

/** Length of the UTF-8 sequence at `text` and its code point; 0 where malformed. */
static unsigned decode(const unsigned char *text, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned len = text[0] < 0x80   ? 1
                   : text[0] < 0xc0 ? 0
                   : text[0] < 0xe0 ? 2
                   : text[0] < 0xf0 ? 3
                                    : 4;
    uint32_t code;

    if (len == 0 || text[0] >= 0xf8)
        return 0;
    code = len == 1 ? text[0] : text[0] & (0x7fu >> len);
    for (unsigned i = 1; i < len; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code < least[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *ret_code = code;
    return len;
}

static struct glyph next_glyph(const char *text)
{
    uint32_t code = 0;
    unsigned bytes = decode((const unsigned char *)text, &code);

    if (bytes == 0)
        return (struct glyph){1, 1, false};
    /* control characters, C1 controls, and what turns or isolates the direction of writing */
    if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
        (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff)
        return (struct glyph){bytes, 1, false};
    if (code >= 0x300 && code < 0x370) /* combining marks */
        return (struct glyph){bytes, 0, true};
    /* Hangul, CJK, wide forms and pictographs take two columns */
    bool wide = (code >= 0x1100 && code < 0x1160) || (code >= 0x2e80 && code < 0xa4d0) ||
                (code >= 0xac00 && code < 0xd7a4) || (code >= 0xf900 && code < 0xfb00) ||
                (code >= 0xff00 && code < 0xff61) || code >= 0x1f300;
    return (struct glyph){bytes, wide ? 2 : 1, true};
}

unsigned cli_text_width(const char *text)
{
    unsigned width = 0;

    for (struct glyph glyph; *text != '\0'; text += glyph.bytes) {
        glyph = next_glyph(text);
        width += glyph.columns;
    }
    return width;
}

/** Appends characters from `text` while they fit into `columns`. @return columns used. */
static unsigned add_columns(struct kw_buf *out, const char *text, unsigned columns)
{
    unsigned used = 0;

    for (struct glyph glyph; *text != '\0'; text += glyph.bytes) {
        glyph = next_glyph(text);
        if (used + glyph.columns > columns)
            break;
        (void)kw_buf_add(out, glyph.shown ? text : "?", glyph.shown ? glyph.bytes : 1);
        used += glyph.columns;
    }
    return used;
}

void cli_text_add(struct kw_buf *out, const char *text)
{
    (void)add_columns(out, text, UINT32_MAX / 2);
}

void cli_text_wrap(struct kw_buf *out, const char *text, unsigned columns)
{
    unsigned used = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        kw_cleanup_free char *word = strndup(text, len);
        if (word == NULL)
            break;
        unsigned width = cli_text_width(word);
        if (used > 0 && used + 1 + width > columns) {
            (void)kw_buf_add(out, "\n", 1);
            used = 0;
        }
        if (used > 0)
            (void)kw_buf_add(out, " ", 1);
        used += (used > 0) + width;
        for (const char *rest = word; *rest != '\0';) {
            size_t bytes = 0;
            unsigned line = 0;
            for (struct glyph glyph; rest[bytes] != '\0'; bytes += glyph.bytes) {
                glyph = next_glyph(rest + bytes);
                if (line > 0 && line + glyph.columns > columns)
                    break;
                (void)kw_buf_add(out, glyph.shown ? rest + bytes : "?",
                                 glyph.shown ? glyph.bytes : 1);
                line += glyph.columns;
            }
            rest += bytes;
            if (*rest != '\0')
                (void)kw_buf_add(out, "\n", 1);
            if (width > columns)
                used = line;
        }
        text += len + (text[len] == ' ');
    }
    (void)kw_buf_add(out, "\n", 1);
}

/** Where the last `columns` columns of a text begin. */
static const char *tail_of(const char *text, unsigned columns)
{
    unsigned width = cli_text_width(text);

    while (width > columns) {
        struct glyph glyph = next_glyph(text);
        width -= glyph.columns;
        text += glyph.bytes;
    }
    return text;
}

static void pad(struct kw_buf *out, unsigned columns)
{
    for (unsigned i = 0; i < columns; i++)
        (void)kw_buf_add(out, " ", 1);
}

void cli_text_fit(struct kw_buf *out, const char *text, unsigned width, int right_align)
{
    static const char gap[] = "...";
    const unsigned gap_columns = sizeof(gap) - 1;
    unsigned full = cli_text_width(text);
    unsigned used;

    if (full <= width) {
        if (right_align)
            pad(out, width - full);
        (void)add_columns(out, text, width);
        if (!right_align)
            pad(out, width - full);
        return;
    }
    if (width < 8) { /* less than two characters beside the gap on each side */
        used = add_columns(out, text, width);
        pad(out, width - used);
        return;
    }
    unsigned left = (width - gap_columns + 1) / 2;
    used = add_columns(out, text, left) + gap_columns;
    (void)kw_buf_add(out, gap, gap_columns);
    used += add_columns(out, tail_of(text, width - used), width - used);
    pad(out, width - used);
}

void cli_text_watts(char out[CLI_NUMBER_MAX], uint64_t mw)
{
    /* 999995 mW would print as 1000.00 */
    (void)snprintf(out, CLI_NUMBER_MAX, mw < 999995 ? "%.2f" : "%.1f", (double)mw / 1e3);
}

void cli_text_cores(char out[CLI_NUMBER_MAX], uint64_t mcpu)
{
    (void)snprintf(out, CLI_NUMBER_MAX, "%.2f", (double)mcpu / 1e3);
}

/** Three significant digits with a suffix for each factor. */
static void scaled(char out[CLI_NUMBER_MAX], double value, double factor,
                   const char *const *suffixes, unsigned n)
{
    unsigned step = 0;

    /* 999.5 would print as 1000 */
    while (step + 1 < n && value >= factor * 0.9995) {
        value /= factor;
        step++;
    }
    int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    (void)snprintf(out, CLI_NUMBER_MAX, "%.*f%s", digits, value, suffixes[step]);
}

void cli_text_joules(char out[CLI_NUMBER_MAX], uint64_t uj)
{
    static const char *const suffixes[] = {"", "k", "M", "G", "T"};

    scaled(out, (double)uj / 1e6, 1e3, suffixes, sizeof(suffixes) / sizeof(suffixes[0]));
}

void cli_text_bytes(char out[CLI_NUMBER_MAX], uint64_t bytes)
{
    static const char *const suffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

    if (bytes < 1024)
        (void)snprintf(out, CLI_NUMBER_MAX, "%" PRIu64, bytes);
    else
        scaled(out, (double)bytes, 1024, suffixes, sizeof(suffixes) / sizeof(suffixes[0]));
}
