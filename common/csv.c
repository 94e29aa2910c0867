/* SPDX-License-Identifier: Apache-2.0 */
#include "common/csv.h"

#include <errno.h>
#include <string.h>

#include "common/utf8.h"

void kw_csv_begin(struct kw_csv *csv, const char *text, size_t len)
{
    size_t mark = kw_utf8_mark(text, len);

    *csv = (struct kw_csv){.at = text + mark, .end = text + len, .last = true};
}

/** Bytes of the line end at `at`; 0: there is none. */
static size_t line_end(const char *at, const char *end)
{
    if (at < end && *at == '\n')
        return 1;
    return end - at >= 2 && at[0] == '\r' && at[1] == '\n' ? 2 : 0;
}

/** Takes what stands behind a field. @return false: that is neither comma nor end. */
static bool end_field(struct kw_csv *csv)
{
    size_t n = line_end(csv->at, csv->end);

    csv->last = n > 0 || csv->at == csv->end;
    csv->n_lines += n > 0;
    csv->at += n;
    if (csv->last)
        return true;
    return *csv->at++ == ',';
}

/** The field whose first quote is at `at`. */
static int next_quoted(struct kw_csv *csv, const char **ret, size_t *ret_len)
{
    const char *from = ++csv->at;
    size_t n = 0;
    bool twice = false;

    for (; csv->at < csv->end; csv->at++, n++) {
        if (*csv->at == '"' && (csv->at + 1 == csv->end || csv->at[1] != '"'))
            break;
        if (*csv->at == '"') {
            csv->at++;
            twice = true;
        }
        csv->n_lines += *csv->at == '\n';
        if (n < KW_CSV_QUOTED_MAX)
            csv->quoted[n] = *csv->at;
    }
    if (csv->at == csv->end)
        return -EBADMSG;
    csv->at++;
    *ret = twice && n <= KW_CSV_QUOTED_MAX ? csv->quoted : from;
    *ret_len = n;
    return end_field(csv) ? 1 : -EBADMSG;
}

int kw_csv_next(struct kw_csv *csv, const char **ret, size_t *ret_len)
{
    size_t n;

    for (; csv->last && (n = line_end(csv->at, csv->end)) > 0; csv->n_lines++)
        csv->at += n;
    if (csv->last && csv->at == csv->end)
        return 0;
    csv->line = csv->n_lines + 1;
    if (csv->at < csv->end && *csv->at == '"')
        return next_quoted(csv, ret, ret_len);
    *ret = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && line_end(csv->at, csv->end) == 0)
        csv->at++;
    *ret_len = (size_t)(csv->at - *ret);
    (void)end_field(csv);
    return 1;
}

char kw_csv_other_separator(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && text[n] != '\n')
        n++;
    if (n == 0 || memchr(text, ',', n) != NULL)
        return '\0';
    return memchr(text, ';', n) != NULL ? ';' : memchr(text, '\t', n) != NULL ? '\t' : '\0';
}
