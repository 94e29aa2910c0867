/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices are compared between nodes, so only ratios matter; they are taken to the median, so that a
 * node whose zone is not named is neither preferred nor avoided, and so that watts stay watts where
 * the noise is judged (extender/score.c).
 */
#include "extender/zones.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/num.h"
#include "common/utf8.h"

/** A file under way. */
struct parse {
    const char *file;
    unsigned line;
    struct ext_zones *zones;
    size_t cap;
    struct kw_err *err;
};

/** Part of a line, without blanks around it. */
struct span {
    const char *at;
    size_t len;
};

struct ext_zones *ext_zones_hold(struct ext_zones *zones)
{
    if (zones != NULL)
        zones->holders++;
    return zones;
}

void ext_zones_free(struct ext_zones **zones)
{
    struct ext_zones *z = *zones;

    *zones = NULL;
    if (z == NULL || --z->holders > 0)
        return;
    free(z->items);
    free(z);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct span trim(const char *at, size_t len)
{
    while (len > 0 && is_blank(at[0])) {
        at++;
        len--;
    }
    while (len > 0 && is_blank(at[len - 1]))
        len--;
    return (struct span){at, len};
}

static bool is(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.at, text, span.len) == 0;
}

/** What is wrong with a value. */
static int refuse(const struct parse *parse, const char *key, struct span value, const char *why)
{
    return kw_err_set(parse->err, -EBADMSG, "%s, line %u: %s: \"%.*s\" %s", parse->file,
                      parse->line, key, (int)(value.len < 80 ? value.len : 80), value.at, why);
}

static int take_text(const struct parse *parse, const char *key, struct span value,
                     char out[EXT_ZONES_TEXT_MAX + 1])
{
    if (parse->zones->n > 0)
        return refuse(parse, key, value, "comes after the first zone");
    if (out[0] != '\0')
        return refuse(parse, key, value, "is given a second time");
    if (value.len == 0 || value.len > EXT_ZONES_TEXT_MAX)
        return refuse(parse, key, value, "has not 1 to 127 bytes");
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < ' ' || value.at[i] > '~')
            return refuse(parse, key, value, "is not printable ASCII");
    }
    memcpy(out, value.at, value.len);
    return 0;
}

static bool is_zone(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.'))
            return false;
    }
    return name.len > 0 && name.len <= EXT_ZONE_MAX;
}

static int add(struct parse *parse, const struct ext_zone *zone)
{
    struct ext_zones *zones = parse->zones;

    if (zones->n == parse->cap) {
        size_t cap = parse->cap == 0 ? 16 : parse->cap * 2;
        struct ext_zone *grown = reallocarray(zones->items, cap, sizeof(*grown));
        if (grown == NULL)
            return kw_err_set(parse->err, -ENOMEM, "out of memory");
        zones->items = grown;
        parse->cap = cap;
    }
    zones->items[zones->n++] = *zone;
    return 0;
}

static int take_zone(struct parse *parse, struct span name, struct span value)
{
    struct ext_zone zone = {.value = 0};
    char text[32];

    if (!is_zone(name))
        return refuse(parse, "zone", name, "is no value of a label, of 1 to 63 characters");
    if (parse->zones->unit[0] == '\0' || parse->zones->source[0] == '\0')
        return refuse(parse, "zone", name, "comes before \"unit = ...\" and \"source = ...\"");
    if (parse->zones->n == EXT_ZONES_MAX)
        return refuse(parse, "zone", name, "is one more than 4096");
    memcpy(zone.name, name.at, name.len);
    for (size_t i = 0; i < parse->zones->n; i++) {
        if (strcmp(parse->zones->items[i].name, zone.name) == 0)
            return refuse(parse, "zone", name, "is given a second time");
    }
    if (value.len >= sizeof(text))
        return refuse(parse, zone.name, value, "is no number from 0 to 1000000");
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    if (kw_parse_double(text, 0, EXT_ZONE_VALUE_MAX, &zone.value) < 0)
        return refuse(parse, zone.name, value, "is no number from 0 to 1000000");
    return add(parse, &zone);
}

static int take_line(struct parse *parse, struct span line)
{
    const char *equals = memchr(line.at, '=', line.len);
    const char *comma = memchr(line.at, ',', line.len);

    if (line.len == 0 || line.at[0] == '#')
        return 0;
    /* a comma behind the '=' belongs to a text */
    const char *cut = equals != NULL && (comma == NULL || equals < comma) ? equals : comma;
    if (cut == NULL)
        return refuse(parse, "line", line,
                      "is neither \"unit = ...\", \"source = ...\" nor "
                      "\"zone, value\"");
    struct span key = trim(line.at, (size_t)(cut - line.at));
    struct span value = trim(cut + 1, (size_t)(line.at + line.len - cut - 1));
    if (cut == comma)
        return take_zone(parse, key, value);
    if (is(key, "unit"))
        return take_text(parse, "unit", value, parse->zones->unit);
    if (is(key, "source"))
        return take_text(parse, "source", value, parse->zones->source);
    return refuse(parse, "key", key, "is neither unit nor source");
}

static int by_value(const void *a, const void *b)
{
    double x = ((const struct ext_zone *)a)->value, y = ((const struct ext_zone *)b)->value;

    return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ext_zone *)a)->name, ((const struct ext_zone *)b)->name);
}

static void relate(struct ext_zones *zones)
{
    struct ext_zone *items = zones->items;
    size_t n = zones->n;

    if (items == NULL)
        return;
    qsort(items, n, sizeof(*items), by_value);
    zones->median = (items[(n - 1) / 2].value + items[n / 2].value) / 2;
    for (size_t i = 0; i < n; i++) {
        /* where half of them cost nothing, there is no measure for the others */
        double factor = zones->median > 0 ? items[i].value / zones->median : 1;
        factor = factor < EXT_ZONE_FACTOR_MAX ? factor : EXT_ZONE_FACTOR_MAX;
        items[i].factor = factor > 1 / EXT_ZONE_FACTOR_MAX ? factor : 1 / EXT_ZONE_FACTOR_MAX;
    }
    qsort(items, n, sizeof(*items), by_name);
}

int ext_zones_parse(const char *name, const char *text, size_t len, struct ext_zones **ret,
                    struct kw_err *err)
{
    kw_cleanup(ext_zones_free) struct ext_zones *zones = calloc(1, sizeof(*zones));
    struct parse parse = {.file = name, .zones = zones, .err = err};
    int rc = 0;

    if (zones == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    zones->holders = 1;
    for (size_t at = kw_utf8_mark(text, len); at < len && rc == 0;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end == NULL ? len - at : (size_t)(end - text) - at;
        parse.line++;
        rc = take_line(&parse, trim(text + at, line_len));
        at += line_len + 1;
    }
    if (rc == 0 && zones->n == 0)
        rc =
            kw_err_set(err, -EBADMSG, "%s, line %u: no \"zone, value\" is given", name, parse.line);
    if (rc < 0)
        return rc;
    relate(zones);
    *ret = KW_TAKE_PTR(zones);
    return 0;
}

const struct ext_zone *ext_zones_find(const struct ext_zones *zones, const char *name)
{
    struct ext_zone key = {.value = 0};
    size_t len = strnlen(name, EXT_ZONE_MAX + 1);

    if (zones == NULL || len == 0 || len > EXT_ZONE_MAX)
        return NULL;
    memcpy(key.name, name, len);
    return bsearch(&key, zones->items, zones->n, sizeof(*zones->items), by_name);
}
