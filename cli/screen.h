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
    bool dirty; /**< something was said since the last drawing; live only */
    unsigned drawn_lines;
    unsigned drawn_columns, drawn_rows; /**< size of the terminal then */
    char news[CLI_NEWS_BYTES];          /**< last lines said; live only */
};

/** @param live whether tables are to be redrawn where stdout and stderr are terminals. NO_COLOR is
 * honoured. */
void cli_screen_init(struct cli_screen *screen, const struct cli_io *io, bool live);

/** Width and colour of a table now; unlimited rows. Not a terminal: COLUMNS, or 120. */
struct cli_table_style cli_screen_style(const struct cli_screen *screen);

/** Lines that a text takes on the terminal, wrapped ones counted. */
unsigned cli_screen_lines(const struct cli_screen *screen, const char *text);

/** Rows of workloads that fit when `other_lines` and the news stand around them, at least 3; 0
 * (all) where not live. */
unsigned cli_screen_rows(const struct cli_screen *screen, unsigned other_lines);

/** Says something on stderr, or under the live table at its next drawing. */
void cli_screen_say(struct cli_screen *screen, const char *text);

/** Shows a table instead of the last one. @param buf emptied. */
void cli_screen_draw(struct cli_screen *screen, struct kw_buf *buf);

/** Draws the next table below what somebody else wrote, not in the place of the last one. */
void cli_screen_restart(struct cli_screen *screen);

/** Leaves what was drawn; from here on things are printed below it. */
void cli_screen_leave(struct cli_screen *screen);
