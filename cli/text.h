/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

/*
 * Text for a terminal. Names come from cgroup paths, pods and other nodes: what could move the
 * cursor, colour the screen or turn the direction of writing becomes '?'.
 */

/** Columns that a text takes on a terminal once cleaned. */
unsigned cli_text_width(const char *text);

/** Appends the text, cleaned. */
void cli_text_add(struct kw_buf *out, const char *text);

/**
 * Appends the text in exactly `width` columns: padded, or cut in the middle ("abc...xyz", since
 * both ends tell names apart). Below 8 columns the end is cut.
 * @param right_align pads in front.
 */
void cli_text_fit(struct kw_buf *out, const char *text, unsigned width, int right_align);

#define CLI_NUMBER_MAX 32

/** "12.34" from milliwatts; "1234.5" from 1000 W on. */
void cli_text_watts(char out[CLI_NUMBER_MAX], uint64_t mw);

/** "0.25" from thousandths of a CPU. */
void cli_text_cores(char out[CLI_NUMBER_MAX], uint64_t mcpu);

/** "12.3", "45.6k", "7.89M" joules. */
void cli_text_joules(char out[CLI_NUMBER_MAX], uint64_t uj);

/** "512", "12.3Ki", "456Mi", "1.25Gi". */
void cli_text_bytes(char out[CLI_NUMBER_MAX], uint64_t bytes);

/** Appends `text` broken at blanks into lines of at most `columns` (a longer word is broken, too),
 * each ended by a newline. Characters as cli_text_add writes them. */
void cli_text_wrap(struct kw_buf *out, const char *text, unsigned columns);
