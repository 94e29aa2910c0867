/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/num.h"
#include "common/utf8.h"

/*
 * A line is made in a buffer on the stack and leaves by one write(2), so that lines of several
 * threads and programs on one descriptor do not mix (pipes keep up to PIPE_BUF = 4096 bytes
 * together).
 *
 * Values come from outside (pod names, server answers). Whatever is not plainly printable is
 * escaped, so that no value can start a line of its own, fake a key or drive a terminal. A long
 * value is cut and ends in "..."; a field for which there is no room left is dropped and the line
 * says truncated=true.
 *
 * The limit of lines per message text lives in a table of fixed size: sets of WAYS slots, addressed
 * by the hash of the text. A full set gives up the slot whose window is oldest; at worst a flood of
 * more than SETS * WAYS different texts passes unlimited, and message texts are literals of the
 * program.
 */

#define LINE_BYTES 4096 /* PIPE_BUF: what a pipe takes in one piece */
#define VALUE_BYTES \
    1024 /* of one value: a stack trace or body does not push out the other fields */

#define WINDOW_NS    (10 * KW_NS_PER_S) /* as promised in log.h */
#define WINDOW_LINES 10
#define SETS         32
#define WAYS         4

struct limit_slot {
    uint64_t hash; /* of the message text; 0 = free */
    uint64_t since_ns;
    uint64_t lines; /* in this window, suppressed ones included */
};

struct kw_log {
    const char *program;
    _Atomic enum kw_log_level level;
    FILE *out;
    int fd; /* of out; -1 where it has none (a memory stream) */
    bool journal;
    pthread_mutex_t mutex; /* guards limits */
    struct limit_slot limits[SETS][WAYS];
};

const char *const kw_log_level_names[KW_LOG__MAX + 1] = {"error", "warn", "info", "debug", NULL};
_Static_assert(KW_LOG__MAX == 4, "a level has a name and a priority");

/* syslog priorities, as sd-daemon(3) prefixes them */
static const char *const priorities[KW_LOG__MAX] = {"<3>", "<4>", "<6>", "<7>"};

struct line {
    char text[LINE_BYTES];
    size_t len;
    bool full; /* something did not fit */
};

/* Kept back for " truncated=true\n". */
#define LINE_RESERVE 24

static void put(struct line *line, const char *bytes, size_t len)
{
    if (line->full || len > sizeof(line->text) - LINE_RESERVE - line->len) {
        line->full = true;
        return;
    }
    memcpy(line->text + line->len, bytes, len);
    line->len += len;
}

static void puts_line(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Escaped so that it is one printable piece: \n \r \t \\, \" within quotes, and \xNN for the rest.
 */
static void put_escaped(struct line *line, const char *text, size_t len, bool quoted)
{
    for (size_t i = 0; i < len;) {
        uint32_t code_point = 0;
        size_t width = kw_utf8_next(text + i, len - i, &code_point);
        unsigned char c = (unsigned char)text[i];
        if ((c == '"' && quoted) || c == '\\') {
            put(line, (char[]){'\\', (char)c}, 2);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            put(line, (char[]){'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'}, 2);
        } else if (width == 0 || code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
                   (code_point >= 0x2028 && code_point <= 0x202e) ||
                   (code_point >= 0x2066 && code_point <= 0x2069)) {
            /* control bytes, no UTF-8, C1 controls, line separators and bidirectional overrides */
            char hex[8];
            for (size_t k = 0; k < (width == 0 ? 1 : width); k++) {
                (void)snprintf(hex, sizeof(hex), "\\x%02x", (unsigned char)text[i + k]);
                put(line, hex, 4);
            }
        } else {
            put(line, text + i, width);
        }
        i += width == 0 ? 1 : width;
    }
}

static bool needs_quotes(const char *text)
{
    if (text[0] == '\0')
        return true;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~' || *p == '"' || *p == '\\' || *p == '=')
            return true;
    }
    return false;
}

static void put_text_value(struct line *line, const char *text)
{
    size_t len = strlen(text);
    bool cut = len > VALUE_BYTES;
    if (!cut && !needs_quotes(text)) {
        put(line, text, len);
        return;
    }
    size_t keep = cut ? VALUE_BYTES : len;
    while (cut && keep > VALUE_BYTES - 4 && ((unsigned char)text[keep] & 0xc0) == 0x80)
        keep--; /* not through the middle of a character */
    put(line, "\"", 1);
    put_escaped(line, text, keep, true);
    puts_line(line, cut ? "...\"" : "\"");
}

static void put_errno(struct line *line, int64_t code)
{
    int number = code >= -4095 && code <= 4095 ? (int)(code < 0 ? -code : code) : 0;
    const char *text = number != 0 ? strerrordesc_np(number) : NULL;
    char unknown[40];
    if (text == NULL) {
        (void)snprintf(unknown, sizeof(unknown), "error %lld", (long long)code);
        text = unknown;
    }
    put_text_value(line, text);
}

static void put_field(struct line *line, const struct kw_field *field)
{
    size_t before = line->len;
    put(line, " ", 1);
    for (const char *p = field->key; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || *p == '_' || *p == '.' || *p == '-';
        put(line, plain ? p : "_", 1);
    }
    put(line, "=", 1);

    char number[24];
    switch (field->type) {
    case KW_FIELD_STR: put_text_value(line, field->str != NULL ? field->str : ""); break;
    case KW_FIELD_I64:
        (void)snprintf(number, sizeof(number), "%lld", (long long)field->i64);
        puts_line(line, number);
        break;
    case KW_FIELD_U64:
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)field->u64);
        puts_line(line, number);
        break;
    case KW_FIELD_ERRNO: put_errno(line, field->i64); break;
    }
    if (line->full)
        line->len = before; /* a field is there whole or not at all */
}

static void put_head(struct line *line, const struct kw_log *log, enum kw_log_level level)
{
    if (log->journal) {
        puts_line(line, priorities[level]);
    } else {
        int64_t now_ms = kw_now_unix_ms();
        time_t seconds = (time_t)(now_ms / 1000);
        struct tm tm;
        char time_text[64];
        if (gmtime_r(&seconds, &tm) == NULL)
            tm = (struct tm){.tm_mday = 1, .tm_year = 70};
        (void)snprintf(time_text, sizeof(time_text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ ",
                       tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                       tm.tm_sec, (int)(now_ms % 1000));
        puts_line(line, time_text);
        puts_line(line, kw_log_level_names[level]);
        put(line, " ", 1);
    }
    puts_line(line, log->program);
    puts_line(line, ": ");
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, 64 bits */
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash != 0 ? hash : 1;
}

/* May a line of this message be written now? *ret_suppressed: how many were not since the last one.
 */
static bool pass_limit(struct kw_log *log, const char *message, uint64_t *ret_suppressed)
{
    uint64_t hash = hash_text(message);
    struct limit_slot *set = log->limits[hash % SETS];
    struct limit_slot *slot = NULL;
    bool pass = true;
    *ret_suppressed = 0;

    (void)pthread_mutex_lock(&log->mutex);
    uint64_t now_ns = kw_now_ns(); /* under the lock: it must not be older than since_ns */
    for (size_t i = 0; i < WAYS && slot == NULL; i++) {
        if (set[i].hash == hash)
            slot = &set[i];
    }
    if (slot == NULL) {
        slot = &set[0]; /* a free slot has since_ns 0: it is the oldest */
        for (size_t i = 1; i < WAYS; i++) {
            if (set[i].since_ns < slot->since_ns)
                slot = &set[i];
        }
        *slot = (struct limit_slot){.hash = hash, .since_ns = now_ns};
    } else if (now_ns - slot->since_ns >= WINDOW_NS) {
        if (slot->lines > WINDOW_LINES)
            *ret_suppressed = slot->lines - WINDOW_LINES;
        slot->since_ns = now_ns;
        slot->lines = 0;
    }
    slot->lines++;
    pass = slot->lines <= WINDOW_LINES;
    (void)pthread_mutex_unlock(&log->mutex);
    return pass;
}

static void write_line(struct kw_log *log, const char *text, size_t len)
{
    if (log->fd < 0) {
        (void)fwrite(text, 1, len, log->out);
        (void)fflush(log->out);
        return;
    }
    while (len > 0) {
        ssize_t n = write(log->fd, text, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return; /* a full disk or a slow reader costs lines, never the program */
        }
        text += n;
        len -= (size_t)n;
    }
}

void kw_log_set_level(struct kw_log *log, enum kw_log_level level)
{
    log->level = level;
}

void kw_log_write(struct kw_log *log, enum kw_log_level level, const char *message,
                  const struct kw_field *fields)
{
    uint64_t suppressed = 0;
    if (log == NULL || level > log->level || !pass_limit(log, message, &suppressed))
        return;

    struct line line;
    line.len = 0;
    line.full = false;
    put_head(&line, log, level);
    put_escaped(&line, message, strnlen(message, VALUE_BYTES), false);
    for (; fields != NULL && fields->key != NULL; fields++)
        put_field(&line, fields);
    if (suppressed > 0)
        put_field(&line,
                  &(struct kw_field){.key = "suppressed", .type = KW_FIELD_U64, .u64 = suppressed});

    if (line.full) {
        static const char note[] = " truncated=true";
        _Static_assert(sizeof(note) + 1 <= LINE_RESERVE, "the note and the newline always fit");
        memcpy(line.text + line.len, note, sizeof(note) - 1);
        line.len += sizeof(note) - 1;
    }
    line.text[line.len++] = '\n';
    write_line(log, line.text, line.len);
}

/* systemd tells in JOURNAL_STREAM which device:inode is its socket: stderr may have been redirected
 * since. */
static bool is_journal(int fd)
{
    const char *text = getenv("JOURNAL_STREAM");
    const char *colon = text != NULL ? strchr(text, ':') : NULL;
    uint64_t device;
    uint64_t inode;
    struct stat st;
    if (colon == NULL ||
        kw_parse_u64_span(text, (size_t)(colon - text), 0, UINT64_MAX, &device) < 0 ||
        kw_parse_u64(colon + 1, 0, UINT64_MAX, &inode) < 0 || fstat(fd, &st) < 0)
        return false;
    return device == (uint64_t)st.st_dev && inode == (uint64_t)st.st_ino;
}

struct kw_log *kw_log_new(const char *program, enum kw_log_level level, FILE *out)
{
    struct kw_log *log = calloc(1, sizeof(*log));
    if (log == NULL)
        return NULL;
    if (pthread_mutex_init(&log->mutex, NULL) != 0) {
        free(log);
        return NULL;
    }
    log->program = program;
    log->level = level;
    log->out = out != NULL ? out : stderr;
    log->fd = fileno(log->out);
    log->journal = out == NULL && is_journal(log->fd);
    return log;
}

void kw_log_free(struct kw_log **log)
{
    if (*log == NULL)
        return;
    (void)pthread_mutex_destroy(&(*log)->mutex);
    free(*log);
    *log = NULL;
}
