/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/text.h"
#include "common/cleanup.h"
#include "common/num.h"

#define COLUMNS_LEAST   40
#define COLUMNS_DEFAULT 120
#define ROWS_DEFAULT    40

static void terminal_size(const struct cli_screen *screen, unsigned *ret_columns,
                          unsigned *ret_rows)
{
    struct winsize size = {0};
    const char *columns = cli_env(screen->io, "COLUMNS");
    uint64_t value = COLUMNS_DEFAULT;

    *ret_rows = ROWS_DEFAULT;
    if (ioctl(fileno(screen->io->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        value = size.ws_col;
        if (size.ws_row > 0)
            *ret_rows = size.ws_row;
    } else if (columns != NULL) {
        (void)kw_parse_u64(columns, COLUMNS_LEAST, 1000, &value);
    }
    *ret_columns = value > COLUMNS_LEAST ? (unsigned)value : COLUMNS_LEAST;
}

void cli_screen_init(struct cli_screen *screen, const struct cli_io *io, bool live)
{
    const char *term = cli_env(io, "TERM");
    bool terminal = fileno(io->out) >= 0 && isatty(fileno(io->out)) && term != NULL &&
                    strcmp(term, "dumb") != 0;

    *screen = (struct cli_screen){.io = io};
    screen->live = live && terminal && isatty(fileno(io->err));
    screen->color = terminal && cli_env(io, "NO_COLOR") == NULL;
}

struct cli_table_style cli_screen_style(const struct cli_screen *screen)
{
    struct cli_table_style style = {.color = screen->color};
    unsigned rows;

    terminal_size(screen, &style.columns, &rows);
    return style;
}

void cli_screen_say(struct cli_screen *screen, const char *text)
{
    size_t len = strlen(text), kept = strlen(screen->news);

    if (!screen->live) {
        (void)fprintf(screen->io->err, "kwatt: %s\n", text);
        (void)fflush(screen->io->err);
        return;
    }
    if (len + 2 > sizeof(screen->news)) {
        text += len + 2 - sizeof(screen->news);
        len = strlen(text);
    }
    /* the oldest lines make room */
    while (kept + len + 2 > sizeof(screen->news)) {
        char *end = strchr(screen->news, '\n');
        size_t cut = end != NULL ? (size_t)(end + 1 - screen->news) : kept;
        memmove(screen->news, screen->news + cut, kept - cut + 1);
        kept -= cut;
    }
    memcpy(screen->news + kept, text, len);
    memcpy(screen->news + kept + len, "\n", 2);
    screen->dirty = true;
}

/** Last lines of the news that a small window shows. */
static const char *latest_news(const struct cli_screen *screen)
{
    const unsigned lines = 12; /* an early death with its ten lines of log */
    size_t at = strlen(screen->news);
    unsigned seen = 0;

    while (at > 0 && (screen->news[at - 1] != '\n' || seen++ < lines))
        at--;
    return screen->news + at;
}

/** Appends the latest news for a window so wide. Lines of a log (indented) stay as they are. */
static void add_news(const struct cli_screen *screen, unsigned columns, struct kw_buf *out)
{
    kw_cleanup_free char *news = strdup(latest_news(screen));

    for (char *line = news; line != NULL && *line != '\0';) {
        char *end = line + strcspn(line, "\n"), *next = end + (*end == '\n');
        *end = '\0';
        if (line[0] == ' ') {
            (void)kw_buf_adds(out, line);
            (void)kw_buf_add(out, "\n", 1);
        } else {
            cli_text_wrap(out, line, columns);
        }
        line = next;
    }
}

/** Lines that the text takes on the terminal, wrapped ones counted; escape sequences take no
 * column. */
static unsigned lines_of(const char *text, unsigned columns)
{
    unsigned lines = 0, used = 0;

    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            lines += used > columns ? (used + columns - 1) / columns : 1;
            used = 0;
        } else if (*text == '\033') {
            text += strcspn(text, "mJH");
            if (*text == '\0')
                break;
        } else if (((unsigned char)*text & 0xc0) != 0x80) {
            used++;
        }
    }
    return lines;
}

unsigned cli_screen_lines(const struct cli_screen *screen, const char *text)
{
    unsigned columns, rows;

    terminal_size(screen, &columns, &rows);
    return lines_of(text, columns);
}

unsigned cli_screen_rows(const struct cli_screen *screen, unsigned other_lines)
{
    unsigned columns, rows;

    if (!screen->live)
        return 0;
    terminal_size(screen, &columns, &rows);
    struct kw_buf news = {0};
    add_news(screen, columns, &news);
    other_lines += lines_of(news.data != NULL ? news.data : "", columns);
    kw_buf_free(&news);
    /* one more for the line of the cursor */
    return rows > other_lines + 4 ? rows - other_lines - 1 : 3;
}

/** Length of the part of a text that fits on the terminal beside the line of the cursor. */
static size_t fitting(const char *text, unsigned columns, unsigned rows)
{
    unsigned lines = 0;
    size_t at = 0;

    while (text[at] != '\0') {
        kw_cleanup_free char *line = strndup(text + at, strcspn(text + at, "\n") + 1);
        if (line == NULL)
            break;
        lines += lines_of(line, columns);
        if (lines > rows - 1)
            break;
        at += strlen(line);
    }
    return at;
}

void cli_screen_draw(struct cli_screen *screen, struct kw_buf *buf)
{
    FILE *out = screen->io->out;

    if (!screen->live) {
        if (screen->drawn_lines > 0)
            (void)fputc('\n', out);
        (void)fwrite(buf->data != NULL ? buf->data : "", 1, buf->len, out);
        screen->drawn_lines = 1;
    } else {
        unsigned columns, rows;
        terminal_size(screen, &columns, &rows);
        add_news(screen, columns, buf);
        const char *text = buf->data != NULL ? buf->data : "";
        size_t len = fitting(text, columns, rows > 1 ? rows : 2);
        bool resized = screen->drawn_columns != columns || screen->drawn_rows != rows;
        if (screen->drawn_lines > 0 && resized) /* the terminal broke the lines anew */
            (void)fputs("\033[H", out);
        else if (screen->drawn_lines > 0)
            (void)fprintf(out, "\033[%uA\r", screen->drawn_lines);
        (void)fputs("\033[J", out);
        (void)fwrite(text, 1, len, out);
        if (buf->data != NULL)
            buf->data[len] = '\0';
        screen->drawn_lines = lines_of(text, columns);
        screen->drawn_columns = columns;
        screen->drawn_rows = rows;
        screen->dirty = false;
    }
    (void)fflush(out);
    kw_buf_reset(buf);
}

void cli_screen_restart(struct cli_screen *screen)
{
    screen->drawn_lines = 0;
}

void cli_screen_leave(struct cli_screen *screen)
{
    screen->live = false;
    screen->dirty = false;
    screen->drawn_lines = 0;
}
