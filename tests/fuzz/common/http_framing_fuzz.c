/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A head as libmicrohttpd 0.9.75 would take it apart: the input is cut the way that library cuts it
 * (in place, NULs over separators), then given to the check. What is accepted must be a head that
 * the strict reading below takes apart in the same way.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/http_framing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** A head being cut. */
struct cut {
    char *pos, *end;
};

/* The next line with its end (CR LF or LF) overwritten; NULL where none is complete. */
static char *next_line(struct cut *cut, size_t *ret_len)
{
    char *line = cut->pos;
    char *lf = memchr(line, '\n', (size_t)(cut->end - line));
    char *stop = lf;

    if (lf == NULL)
        return NULL;
    if (lf > line && lf[-1] == '\r')
        stop = lf - 1;
    *lf = '\0';
    *stop = '\0';
    cut->pos = lf + 1;
    *ret_len = (size_t)(stop - line);
    return line;
}

/* Feeds the header lines. @return false where the library would refuse or wait for more. */
static bool feed(struct cut *cut, struct kw_http_framing *framing)
{
    size_t len;
    char *line;

    while ((line = next_line(cut, &len)) != NULL) {
        char *colon = strchr(line, ':');
        char *value;

        if (line[0] == '\0')
            return true;
        if (colon == NULL)
            return false;
        value = colon + 1;
        value += strspn(value, " \t");
        *colon = '\0';
        if (line[0] == '\0')
            return true; /* a nameless line ends the head */
        kw_http_framing_header(framing, line, strlen(line), value, strlen(value));
    }
    return false;
}

/* Whether every line of the head ends in CR LF and has a name. */
static bool is_strict(const char *head, size_t size)
{
    const char *p = head;
    const char *end = head + size;

    if (memchr(head, '\0', size) != NULL)
        return false;
    while (p < end) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));

        if (lf == NULL || lf == p || lf[-1] != '\r' || *p == ':' || *p == ' ' || *p == '\t')
            return false;
        if (lf - 1 == p)
            return lf + 1 == end;
        p = lf + 1;
    }
    return false;
}

/* What leaves no trace (see http_framing.c): a NUL beside a line end, a lone colon between
 * different ends. */
static bool is_blind_spot(const char *head, size_t size)
{
    const char *last = size < 4 ? head : head + size - 4;

    for (size_t i = 0; i + 1 < size; i++) {
        if ((head[i] == '\0' && strchr("\r\n", head[i + 1]) != NULL) ||
            (head[i + 1] == '\0' && strchr("\r\n", head[i]) != NULL))
            return true;
    }
    return size >= 4 && (memcmp(last, "\n:\r\n", 4) == 0 || memcmp(last, "\r\n:\n", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup_free char *head = malloc(size + 1);
    kw_cleanup_free char *raw = malloc(size + 1);
    struct kw_http_framing framing;
    struct cut cut;
    size_t len = 0;

    if (head == NULL || raw == NULL)
        return 0;
    if (size > 0)
        memcpy(head, data, size);
    memcpy(raw, head, size);
    head[size] = '\0';
    cut = (struct cut){head, head + size};
    char *line = next_line(&cut, &len);
    char *target = line == NULL ? NULL : memchr(line, ' ', len);
    char *version =
        target == NULL ? NULL : memrchr(target + 1, ' ', len - (size_t)(target + 1 - line));

    if (version == NULL)
        return 0;
    *target++ = '\0';
    *version++ = '\0';
    if (strncmp(version, "HTTP/1.", 7) != 0 || line + len != version + 8)
        return 0; /* the library compares the version as a whole */
    /* the layout is checked against the size of the head, which is known only at its end: two
     * passes */
    struct cut again = cut;
    struct kw_http_framing probe = {0};
    kw_cleanup_free char *copy = malloc(size + 1);

    if (copy == NULL)
        return 0;
    memcpy(copy, head, size + 1);
    again.pos = copy + (cut.pos - head);
    again.end = copy + size;
    if (!feed(&again, &probe))
        return 0;
    size_t head_size = (size_t)(again.pos - copy);

    kw_http_framing_begin(&framing, true, head, head_size, target, strlen(target), version);
    if (!feed(&cut, &framing))
        abort();
    bool http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    unsigned verdict = kw_http_framing_verdict(&framing, false, http_1_0);
    if (verdict == 0 && kw_http_target_ok(target) && !is_strict(raw, head_size) &&
        !is_blind_spot(raw, head_size))
        abort();
    if (verdict == 0 && framing.hosts != 1 && !(http_1_0 && framing.hosts == 0))
        abort();
    return 0;
}
