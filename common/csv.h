/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Comma-separated values, field by field (RFC 4180): fields may be quoted, and then hold commas,
 * line ends and quotes that are written twice. Lines end with LF or CRLF; empty ones and a byte
 * order mark are passed over. Pure.
 */

/** Longest quoted field whose quotes are told once; longer ones are cut at their length. */
#define KW_CSV_QUOTED_MAX 255

/** A text under way. */
struct kw_csv {
    const char *at, *end;
    size_t line; /**< that the last field began on, from 1 */
    bool last;   /**< that field was the last of its row */
    /* private */
    size_t n_lines; /* whose ends are behind `at` */
    char quoted[KW_CSV_QUOTED_MAX + 1];
};

/** Begins a text of `len` bytes, which need no terminator and must stay. */
void kw_csv_begin(struct kw_csv *csv, const char *text, size_t len);

/**
 * The next field.
 * @param ret its bytes, without quotes: until the next call, not terminated. @param ret_len how
 * many. @return 1; 0 after the last one; -EBADMSG a quote has no end, or text behind it.
 */
int kw_csv_next(struct kw_csv *csv, const char **ret, size_t *ret_len);

/** The separator of a text that has another one than commas, by its first row (';' or tab, as some
 * spreadsheets write them); 0: it has commas, or one column. */
char kw_csv_other_separator(const char *text, size_t len);
