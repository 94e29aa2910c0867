/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "cli/cli.h"
#include "cli/table.h"
#include "common/buf.h"

/*
 * Where tables go: redrawn in place on a terminal, as blocks one after the other anywhere else.
 * What is said meanwhile stands under the live table, or goes to stderr line by line.
 */

#define CLI_NEWS_BYTES 2048

struct cli_screen {
    const struct cli_io *io;
    bool live; /**< redrawn in place */
    bool color;
    unsigned drawn_lines;
    char news[CLI_NEWS_BYTES]; /**< last lines said; live only */
};

/** @param live whether tables are to be redrawn where stdout and stderr are terminals. NO_COLOR is
 * honoured. */
void cli_screen_init(struct cli_screen *screen, const struct cli_io *io, bool live);

/** Width and colour of a table now; unlimited rows. Not a terminal: COLUMNS, or 120. */
struct cli_table_style cli_screen_style(const struct cli_screen *screen);

/** Rows of workloads that fit when `other_lines` stand around them; 0 (all) where not live. */
unsigned cli_screen_rows(const struct cli_screen *screen, unsigned other_lines);

/** Says something on stderr, or under the live table at its next drawing. */
void cli_screen_say(struct cli_screen *screen, const char *text);

/** Shows a table instead of the last one. @param buf emptied. */
void cli_screen_draw(struct cli_screen *screen, struct kw_buf *buf);

/** Leaves what was drawn; from here on things are printed below it. */
void cli_screen_leave(struct cli_screen *screen);
