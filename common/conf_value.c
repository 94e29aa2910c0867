/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/conf_internal.h"
#include "common/num.h"

/*
 * The types of options: how a text becomes a value, what is allowed in words, and what an operator
 * is told who wrote something else. Every error has the same shape:
 *
 *     WHERE: "VALUE" is no duration (allowed 100ms to 60s; example 2s)
 */

/* Of a value in an error: enough to recognise it, and the rest of the text still fits. */
#define SHOWN "%.80s"

static const struct {
    const char *noun;
    const char *example; /* where the table has no default */
} types[] = {
    [KW_CONF_BOOL] = {"truth value", "true"},   [KW_CONF_STRING] = {"text", "text"},
    [KW_CONF_U64] = {"whole number", "10"},     [KW_CONF_DOUBLE] = {"number", "0.5"},
    [KW_CONF_DURATION_NS] = {"duration", "2s"}, [KW_CONF_BYTES] = {"size", "64Mi"},
    [KW_CONF_CHOICE] = {"choice", ""},
};
_Static_assert(sizeof(types) / sizeof(types[0]) == KW_CONF__MAX, "every type has its words");

static void duration_text(uint64_t ns, char *out, size_t size)
{
    /* The largest unit that divides it, but "60s" rather than "1m": two of a unit read better than
     * one. */
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {
        {"d", 86400 * KW_NS_PER_S}, {"h", 3600 * KW_NS_PER_S}, {"m", 60 * KW_NS_PER_S},
        {"s", KW_NS_PER_S},         {"ms", KW_NS_PER_MS},      {"us", 1000},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        uint64_t least = units[i].ns >= 60 * KW_NS_PER_S ? 2 * units[i].ns : units[i].ns;
        if (ns >= least && ns % units[i].ns == 0) {
            (void)snprintf(out, size, "%llu%s", (unsigned long long)(ns / units[i].ns),
                           units[i].unit);
            return;
        }
    }
    (void)snprintf(out, size, "%lluns", (unsigned long long)ns);
}

static void bytes_text(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t i = 0;
    while (i + 1 < sizeof(units) / sizeof(units[0]) && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    (void)snprintf(out, size, "%llu%s", (unsigned long long)bytes, units[i]);
}

static void limit_text(enum kw_conf_type type, uint64_t limit, char *out, size_t size)
{
    if (type == KW_CONF_DURATION_NS)
        duration_text(limit, out, size);
    else if (type == KW_CONF_BYTES)
        bytes_text(limit, out, size);
    else
        (void)snprintf(out, size, "%llu", (unsigned long long)limit);
}

static void choices_text(const char *const *choices, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; choices[i] != NULL && len < size; i++) {
        int n = snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "", choices[i]);
        len += n > 0 ? (size_t)n : 0;
    }
}

void kw_conf_range_text(const struct kw_conf_option *option, char *out, size_t size)
{
    char min[32];
    char max[32];
    out[0] = '\0';
    if (option->type == KW_CONF_CHOICE) {
        choices_text(option->choices, out, size);
        return;
    }
    if (option->type == KW_CONF_BOOL) {
        (void)snprintf(out, size, "true, false");
        return;
    }
    if (option->min == 0 && option->max == 0)
        return;
    const char *unit = option->type == KW_CONF_STRING ? " bytes" : "";
    limit_text(option->type, option->min, min, sizeof(min));
    limit_text(option->type, option->max, max, sizeof(max));
    if (option->max == UINT64_MAX)
        (void)snprintf(out, size, "%s%s or more", min, unit);
    else
        (void)snprintf(out, size, "%s to %s%s", min, max, unit);
}

static const char *choice_at(const void *user, size_t i)
{
    return ((const char *const *)user)[i];
}

static int choice_error(const struct kw_conf_option *option, const char *text, const char *where,
                        struct kw_err *err)
{
    char allowed[200];
    choices_text(option->choices, allowed, sizeof(allowed));
    size_t n = 0;
    while (option->choices[n] != NULL)
        n++;
    const char *near = kw_conf_nearest(text, choice_at, option->choices, n);
    return kw_err_set(err, -EINVAL, "%s: \"" SHOWN "\" is none of %s%s%s%s", where, text, allowed,
                      near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                      near != NULL ? "\"?" : "");
}

static int value_error(const struct kw_conf_option *option, int code, const char *text,
                       const char *where, struct kw_err *err)
{
    char range[200];
    kw_conf_range_text(option, range, sizeof(range));
    const char *example = option->def != NULL ? option->def : types[option->type].example;
    if (option->type == KW_CONF_STRING) {
        return kw_err_set(err, -EINVAL, "%s: \"" SHOWN "\" has %zu bytes (allowed %s)", where, text,
                          strlen(text), range);
    }
    if (code == -ERANGE && range[0] == '\0')
        (void)snprintf(range, sizeof(range), "what fits in 64 bits");
    char problem[64];
    if (code == -ERANGE)
        (void)snprintf(problem, sizeof(problem), "out of range");
    else
        (void)snprintf(problem, sizeof(problem), "no %s", types[option->type].noun);
    return kw_err_set(err, -EINVAL, "%s: \"" SHOWN "\" is %s (%s%s%sexample %s)", where, text,
                      problem, range[0] != '\0' ? "allowed " : "", range,
                      range[0] != '\0' ? "; " : "", example);
}

int kw_conf_parse_value(const struct kw_conf_option *option, const char *text, const char *where,
                        union kw_conf_parsed *ret, struct kw_err *err)
{
    bool unchecked = option->min == 0 && option->max == 0;
    uint64_t max = unchecked ? UINT64_MAX : option->max;
    int rc = -EINVAL;
    union kw_conf_parsed parsed = {0};
    switch (option->type) {
    case KW_CONF_BOOL: rc = kw_parse_bool(text, &parsed.boolean); break;
    case KW_CONF_STRING:
        parsed.string = text;
        rc = strlen(text) < option->min || strlen(text) > max ? -ERANGE : 0;
        break;
    case KW_CONF_U64: rc = kw_parse_u64(text, option->min, max, &parsed.u64); break;
    case KW_CONF_DOUBLE:
        rc = kw_parse_double(text, unchecked ? -1e308 : (double)option->min,
                             unchecked ? 1e308 : (double)max, &parsed.real);
        break;
    case KW_CONF_DURATION_NS: rc = kw_parse_duration_ns(text, option->min, max, &parsed.u64); break;
    case KW_CONF_BYTES: rc = kw_parse_bytes(text, option->min, max, &parsed.u64); break;
    case KW_CONF_CHOICE:
        for (unsigned i = 0; option->choices[i] != NULL && rc < 0; i++) {
            if (strcmp(option->choices[i], text) == 0) {
                parsed.choice = i;
                rc = 0;
            }
        }
        if (rc < 0)
            return choice_error(option, text, where, err);
        break;
    case KW_CONF__MAX: break;
    }
    if (rc < 0)
        return value_error(option, rc, text, where, err);
    if (option->type == KW_CONF_STRING && option->check != NULL && text[0] != '\0') {
        rc = option->check(text, err);
        if (rc < 0)
            return kw_err_wrap(err, "%s", where);
    }
    *ret = parsed;
    return 0;
}

/* Longest text compared: longer ones are no typing errors of a key. */
#define NEAR_BYTES 64

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein distance: bytes to insert, delete or replace. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[NEAR_BYTES + 1];
    for (size_t k = 0; k <= b_len; k++)
        row[k] = k;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t k = 1; k <= b_len; k++) {
            size_t above = row[k];
            row[k] = min3(above + 1, row[k - 1] + 1, diagonal + (a[i - 1] == b[k - 1] ? 0 : 1));
            diagonal = above;
        }
    }
    return row[b_len];
}

const char *kw_conf_nearest(const char *text, const char *(*get)(const void *user, size_t i),
                            const void *user, size_t n)
{
    size_t len = strlen(text);
    if (len == 0 || len > NEAR_BYTES)
        return NULL;
    /* A third of it wrong is still a typing error, more is another word. */
    size_t best = len / 3 + 2;
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *candidate = get(user, i);
        size_t candidate_len = candidate != NULL ? strlen(candidate) : 0;
        if (candidate_len == 0 || candidate_len > NEAR_BYTES)
            continue;
        size_t d = distance(text, len, candidate, candidate_len);
        if (d < best && d < candidate_len) {
            best = d;
            nearest = candidate;
        }
    }
    return nearest;
}
