/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "common/metrics.h"

/*
 * Choice between the two exposition formats by the Accept header (RFC 9110, 12.5.1): the one with
 * the higher quality, the one listed first where they are equal. A Prometheus server asks for
 * OpenMetrics 1.0.0 with the highest quality, curl for "any type", which is answered with text. A
 * range is named only for versions we speak: "version=0.0.1" of OpenMetrics is not taken for 1.0.0.
 * Anything malformed is passed over, so that the worst header gives text.
 */

/** What was asked for one format; the most specific range decides. */
struct wish {
    int permille;    /* quality */
    int specificity; /* 0 none, 1 any type, 2 text of any kind, 3 the type itself */
    size_t place;    /* of its range in the header */
};

/* A piece of the header, without blanks around it. */
struct piece {
    const char *at;
    size_t len;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cuts the piece up to `separator` or the end; quoted parts are skipped. Moves *p behind it; false
 * at the end. */
static bool next_piece(const char **p, const char *end, char separator, struct piece *ret)
{
    const char *at = *p;
    bool quoted = false;

    if (at >= end)
        return false;
    ret->at = at;
    for (; at < end && (quoted || *at != separator); at++) {
        if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    ret->len = (size_t)(at - ret->at);
    *p = at < end ? at + 1 : end;
    while (ret->len > 0 && is_blank(*ret->at)) {
        ret->at++;
        ret->len--;
    }
    while (ret->len > 0 && is_blank(ret->at[ret->len - 1]))
        ret->len--;
    return true;
}

static bool is_text(struct piece piece, const char *text)
{
    return piece.len == strlen(text) && strncasecmp(piece.at, text, piece.len) == 0;
}

/* The value of a parameter "name=value" (quotes taken off); false where it is another one. */
static bool parameter(struct piece piece, const char *name, struct piece *ret)
{
    size_t len = strlen(name);

    if (piece.len <= len || piece.at[len] != '=' || strncasecmp(piece.at, name, len) != 0)
        return false;
    *ret = (struct piece){piece.at + len + 1, piece.len - len - 1};
    if (ret->len >= 2 && ret->at[0] == '"' && ret->at[ret->len - 1] == '"') {
        ret->at++;
        ret->len -= 2;
    }
    return true;
}

/* "0", "0.5", "1.000" (at most three places) in permille; -1 where it is none of these. */
static int quality(struct piece piece)
{
    int value = 0;
    int weight = 1000;

    if (piece.len == 0 || piece.len > 5 || (piece.len > 1 && piece.at[1] != '.'))
        return -1;
    for (size_t i = 0; i < piece.len; i++) {
        if (i == 1)
            continue;
        if (piece.at[i] < '0' || piece.at[i] > '9')
            return -1;
        value += (piece.at[i] - '0') * weight;
        weight /= 10;
    }
    return value <= 1000 ? value : -1;
}

static void take(struct wish *wish, int specificity, int permille, size_t place)
{
    if (specificity < wish->specificity ||
        (specificity == wish->specificity && permille <= wish->permille))
        return;
    *wish = (struct wish){permille, specificity, place};
}

/* One media range with its parameters. */
static void read_range(struct piece range, size_t place, struct wish *openmetrics,
                       struct wish *text)
{
    const char *p = range.at;
    const char *end = range.at + range.len;
    struct piece type;
    struct piece piece;
    struct piece value;
    struct piece version = {NULL, 0};
    int permille = 1000;

    if (!next_piece(&p, end, ';', &type))
        return;
    while (next_piece(&p, end, ';', &piece)) {
        if (parameter(piece, "q", &value))
            permille = quality(value);
        else if (parameter(piece, "version", &value))
            version = value;
    }
    if (permille < 0)
        return;
    if (is_text(type, "application/openmetrics-text") &&
        (version.at == NULL || is_text(version, "1.0.0")))
        take(openmetrics, 3, permille, place);
    else if (is_text(type, "text/plain") && (version.at == NULL || is_text(version, "0.0.4")))
        take(text, 3, permille, place);
    else if (is_text(type, "text/*"))
        take(text, 2, permille, place);
    else if (is_text(type, "*/*"))
        take(text, 1, permille, place);
}

enum kw_metrics_format kw_metrics_negotiate(const char *accept)
{
    struct wish openmetrics = {0};
    struct wish text = {0};
    struct piece range;
    size_t place = 0;

    if (accept == NULL)
        return KW_METRICS_TEXT;
    const char *end = accept + strlen(accept);

    while (next_piece(&accept, end, ',', &range))
        read_range(range, ++place, &openmetrics, &text);
    if (openmetrics.permille == 0)
        return KW_METRICS_TEXT;
    if (openmetrics.permille != text.permille)
        return openmetrics.permille > text.permille ? KW_METRICS_OPENMETRICS : KW_METRICS_TEXT;
    return openmetrics.place < text.place ? KW_METRICS_OPENMETRICS : KW_METRICS_TEXT;
}

const char *kw_metrics_content_type(enum kw_metrics_format format)
{
    return format == KW_METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}
