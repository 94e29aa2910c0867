/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/recording.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/num.h"
#include "common/utf8.h"

#define COLUMNS_MAX 256
#define NUMBER_MAX  63 /* bytes of a number: more is none */
#define FEATURE_MAX 1e18
#define THREADS_MAX 65536

/** What a column is to us. */
struct column {
    enum { OTHER, FEATURE, WATTS, GROUP, THREADS } kind;
    size_t index; /* of the feature or part */
    double unit;
};

struct reader {
    struct cli_recording *recording;
    struct kw_err *err;
    const char *pos, *end;
    size_t line; /* number of the line at pos, from 1 */
    size_t n_columns;
    struct column columns[COLUMNS_MAX];
    const char *group_column;
    uint32_t group; /* of the rows where no column says it */
};

/** A line without its end. @return false after the last one. */
static bool next_line(struct reader *reader, const char **ret, size_t *ret_len)
{
    if (reader->pos == reader->end)
        return false;
    const char *end = memchr(reader->pos, '\n', (size_t)(reader->end - reader->pos));
    size_t len = (size_t)((end != NULL ? end : reader->end) - reader->pos);

    *ret = reader->pos;
    *ret_len = len > 0 && reader->pos[len - 1] == '\r' ? len - 1 : len;
    reader->pos += end != NULL ? len + 1 : len;
    reader->line++;
    return true;
}

/** The field at *at, which moves behind it and its comma; NULL there: it was the last. */
static size_t next_field(const char **at, const char *end, const char **ret)
{
    const char *comma = memchr(*at, ',', (size_t)(end - *at));
    size_t len = (size_t)((comma != NULL ? comma : end) - *at);

    *ret = *at;
    *at = comma != NULL ? comma + 1 : NULL;
    return len;
}

static int find_feature(const struct cli_recording *recording, const char *name)
{
    for (size_t i = 0; i < recording->n_features; i++) {
        if (strcmp(recording->features[i], name) == 0)
            return (int)i;
    }
    return -1;
}

int cli_recording_choose(struct cli_recording *recording, const char *names, struct kw_err *err)
{
    const char *at = names, *end = names + strlen(names), *field;

    recording->chosen = true;
    while (at != NULL) {
        char name[KW_MODEL_NAME_MAX + 1];
        double unit;
        size_t len = next_field(&at, end, &field);
        if (len > KW_MODEL_NAME_MAX)
            len = KW_MODEL_NAME_MAX;
        memcpy(name, field, len);
        name[len] = '\0';
        const char *ours = kw_model_feature_name(name, &unit);
        if (ours == NULL || find_feature(recording, ours) >= 0)
            return kw_err_set(err, -EINVAL,
                              "features: \"%s\" is %s; there are cpu_time, cycles, instructions, "
                              "cache_misses",
                              name, ours == NULL ? "none that kwatt knows" : "there twice");
        recording->features[recording->n_features++] = ours;
    }
    return 0;
}

/** Index of a group's name, which is taken in where it is new. @return -1: no room. */
static int group_of(struct cli_recording *recording, const char *name, size_t len)
{
    char text[KW_MODEL_NAME_MAX + 1];

    if (len > KW_MODEL_NAME_MAX)
        len = KW_MODEL_NAME_MAX;
    for (size_t i = 0; i < len; i++) /* it goes into a model's file and to terminals */
        text[i] = name[i];
    for (size_t i = 0; i < len; i++) {
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
    }
    text[len] = '\0';
    for (size_t i = 0; i < recording->n_groups; i++) {
        if (strcmp(recording->groups[i], text) == 0)
            return (int)i;
    }
    if (recording->n_groups == KW_MODEL_GROUPS_MAX)
        return -1;
    (void)snprintf(recording->groups[recording->n_groups], sizeof(recording->groups[0]), "%s",
                   text);
    return (int)recording->n_groups++;
}

/** What the column called `name` is. @param first whether this file decides on the features. */
static struct column column_of(struct reader *reader, const char *name, bool first)
{
    struct cli_recording *recording = reader->recording;
    char power[32];
    double unit = 1;
    const char *ours = kw_model_feature_name(name, &unit);

    if (reader->group_column != NULL && strcmp(name, reader->group_column) == 0)
        return (struct column){.kind = GROUP};
    for (size_t p = 0; p < KW_MODEL__MAX; p++) {
        (void)snprintf(power, sizeof(power), "%s_w", kw_model_part_names[p]);
        if (strcmp(name, power) == 0)
            return (struct column){.kind = WATTS, .index = p, .unit = 1};
    }
    if (ours == NULL)
        return (struct column){.kind = strcmp(name, "machine_threads") == 0 ? THREADS : OTHER};
    int index = find_feature(recording, ours);
    if (index < 0 && first && recording->n_features < CLI_RECORDING_FEATURES_MAX) {
        index = (int)recording->n_features;
        recording->features[recording->n_features++] = ours;
    }
    return index < 0 ? (struct column){0}
                     : (struct column){.kind = FEATURE, .index = (size_t)index, .unit = unit};
}

/** Whether the columns are the ones that are needed, each once. */
static int check_columns(struct reader *reader, bool first)
{
    struct cli_recording *recording = reader->recording;
    unsigned features = 0, parts = 0, groups = 0, threads = 0;

    for (size_t i = 0; i < reader->n_columns; i++) {
        const struct column *column = &reader->columns[i];
        unsigned *seen = column->kind == FEATURE   ? &features
                         : column->kind == WATTS   ? &parts
                         : column->kind == GROUP   ? &groups
                         : column->kind == THREADS ? &threads
                                                   : NULL;
        if (seen == NULL)
            continue;
        if ((*seen & 1u << column->index) != 0)
            return kw_err_set(reader->err, -EBADMSG, "column %zu says what another one says",
                              i + 1);
        *seen |= 1u << column->index;
    }
    if (first)
        recording->parts = parts;
    for (size_t i = 0; i < recording->n_features; i++) {
        if ((features & 1u << i) == 0)
            return kw_err_set(reader->err, -EBADMSG, "no column of %s", recording->features[i]);
    }
    if (recording->n_features == 0)
        return kw_err_set(reader->err, -EBADMSG,
                          "no column of cpu_time, cycles, instructions or cache_misses");
    if (recording->parts == 0)
        return kw_err_set(reader->err, -EBADMSG,
                          "no column of package_w, dram_w or platform_w in all files");
    if ((parts & recording->parts) != recording->parts)
        return kw_err_set(reader->err, -EBADMSG, "a power column of the first file is not here");
    if (reader->group_column != NULL && groups == 0)
        return kw_err_set(reader->err, -EBADMSG, "no column \"%s\"", reader->group_column);
    return 0;
}

static int read_names(struct reader *reader, bool free_choice)
{
    const char *line = NULL, *field;
    size_t len = 0;
    bool first = reader->recording->n == 0 && reader->recording->parts == 0;

    if (!next_line(reader, &line, &len))
        return kw_err_set(reader->err, -EBADMSG, "empty");
    if (memchr(line, '"', len) != NULL ||
        (memchr(line, ',', len) == NULL &&
         (memchr(line, ';', len) != NULL || memchr(line, '\t', len) != NULL)))
        return kw_err_set(reader->err, -EBADMSG,
                          "line 1: names are separated by commas, and not quoted");
    const char *at = line, *end = line + len;
    while (at != NULL) {
        char name[KW_MODEL_NAME_MAX + 1];
        size_t n = next_field(&at, end, &field);
        if (reader->n_columns == COLUMNS_MAX)
            return kw_err_set(reader->err, -EBADMSG, "more than %d columns", COLUMNS_MAX);
        if (n > KW_MODEL_NAME_MAX)
            n = 0; /* nobody's name */
        memcpy(name, field, n);
        name[n] = '\0';
        reader->columns[reader->n_columns++] = column_of(reader, name, first && free_choice);
    }
    return check_columns(reader, first);
}

static int grow(struct cli_recording *recording)
{
    size_t cap = recording->cap == 0 ? 1024 : 2 * recording->cap;

    if (recording->n < recording->cap)
        return 0;
    double *x = reallocarray(recording->x, cap, recording->n_features * sizeof(double));
    if (x != NULL)
        recording->x = x;
    double *watts = reallocarray(recording->watts, cap, KW_MODEL__MAX * sizeof(double));
    if (watts != NULL)
        recording->watts = watts;
    uint32_t *group = reallocarray(recording->group, cap, sizeof(uint32_t));
    if (group != NULL)
        recording->group = group;
    if (x == NULL || watts == NULL || group == NULL)
        return -ENOMEM;
    recording->cap = cap;
    return 0;
}

/** One value. @return 1; 0 where there is none; -EBADMSG. */
static int read_value(struct reader *reader, size_t column, const char *field, size_t len,
                      double max, double *ret)
{
    char text[NUMBER_MAX + 1];

    if (len == 0 || (len == 3 && strncasecmp(field, "nan", 3) == 0))
        return 0;
    if (len > NUMBER_MAX)
        len = NUMBER_MAX;
    memcpy(text, field, len);
    text[len] = '\0';
    if (kw_parse_double(text, 0, max, ret) >= 0)
        return 1;
    for (char *c = text; *c != '\0'; c++) /* it goes to terminals */
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    return kw_err_set(reader->err, -EBADMSG,
                      "line %zu, column %zu: \"%s\" is no number from 0 to %g", reader->line,
                      column + 1, text, max);
}

/** A model is of one machine: whether a row is of the same as those before it. */
static int take_threads(struct reader *reader, double value)
{
    struct cli_recording *recording = reader->recording;
    uint32_t threads = (uint32_t)value;

    if (recording->threads != 0 && recording->threads != threads)
        return kw_err_set(reader->err, -EBADMSG,
                          "line %zu: of a machine of %u threads, and what was before it of one of "
                          "%u; a model is of one machine",
                          reader->line, threads, recording->threads);
    recording->threads = threads;
    return 0;
}

/** Reads a line into the row behind the last one. @return 1; 0 where a value is missing; -EBADMSG.
 */
static int read_row(struct reader *reader, const char *line, size_t len)
{
    struct cli_recording *recording = reader->recording;
    double *x = &recording->x[recording->n * recording->n_features];
    double *watts = &recording->watts[recording->n * KW_MODEL__MAX];
    const char *at = line, *end = line + len, *field;
    int group = (int)reader->group, complete = 1;
    size_t column = 0;

    for (; at != NULL; column++) {
        size_t n = next_field(&at, end, &field);
        double value = 0;
        if (column == reader->n_columns) {
            column++; /* one too many */
            break;
        }
        const struct column *is = &reader->columns[column];
        int rc = 1;
        if (is->kind == GROUP)
            group = group_of(recording, field, n);
        else if (is->kind == FEATURE)
            rc = read_value(reader, column, field, n, FEATURE_MAX, &value);
        else if (is->kind == WATTS)
            rc = read_value(reader, column, field, n, KW_MODEL_MAX_W, &value);
        else if (is->kind == THREADS)
            rc = read_value(reader, column, field, n, THREADS_MAX, &value);
        if (is->kind == THREADS && rc > 0 && take_threads(reader, value) < 0)
            rc = -EBADMSG;
        if (rc < 0)
            return rc;
        if (is->kind == FEATURE)
            x[is->index] = value * is->unit;
        else if (is->kind == WATTS)
            watts[is->index] = value;
        complete = rc == 0 ? 0 : complete;
    }
    if (column != reader->n_columns)
        return kw_err_set(reader->err, -EBADMSG, "line %zu: not the %zu fields of the first line",
                          reader->line, reader->n_columns);
    if (group < 0)
        return kw_err_set(reader->err, -EBADMSG, "more than %d groups", KW_MODEL_GROUPS_MAX);
    recording->group[recording->n] = (uint32_t)group;
    return complete;
}

int cli_recording_add(struct cli_recording *recording, const char *csv, size_t len,
                      const char *group_column, const char *group, struct kw_err *err)
{
    struct reader reader = {.recording = recording,
                            .err = err,
                            .pos = csv,
                            .end = csv + len,
                            .group_column = group_column};
    const char *line = NULL;

    reader.pos += kw_utf8_mark(csv, len);
    int rc = read_names(&reader, recording->n_features == 0);

    if (rc == 0 && group_column == NULL) {
        int index = group_of(recording, group, strlen(group));
        if (index < 0)
            return kw_err_set(err, -EBADMSG, "more than %d groups", KW_MODEL_GROUPS_MAX);
        reader.group = (uint32_t)index;
    }
    while (rc == 0 && next_line(&reader, &line, &len)) {
        if (len == 0)
            continue;
        if (grow(recording) < 0)
            return kw_err_set(err, -ENOMEM, "out of memory");
        int complete = read_row(&reader, line, len);
        if (complete < 0)
            return complete;
        recording->n += complete > 0;
        recording->n_skipped += complete == 0;
    }
    return rc;
}

bool cli_recording_cut(struct cli_recording *recording, size_t parts)
{
    if (!recording->timed || recording->n_groups != 1 || recording->n < parts ||
        parts > KW_MODEL_GROUPS_MAX)
        return false;
    recording->n_groups = parts;
    for (size_t i = 0; i < parts; i++)
        (void)snprintf(recording->groups[i], sizeof(recording->groups[i]), "part %zu of %zu", i + 1,
                       parts);
    for (size_t row = 0; row < recording->n; row++)
        recording->group[row] = (uint32_t)(row * parts / recording->n);
    return true;
}

void cli_recording_free(struct cli_recording *recording)
{
    free(recording->x);
    free(recording->watts);
    free(recording->group);
    memset(recording, 0, sizeof(*recording));
}
