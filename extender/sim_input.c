/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/sim_input.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/csv.h"
#include "common/num.h"
#include "extender/snapshot.h"

#define COLUMNS_MAX 64
#define FIELD_MAX   253 /* bytes of a name: more is none */

/** A column that is known. */
struct known {
    const char *name;
    bool is_text, needed;
    double min, max, otherwise; /* of a number; where it is not given */
};

/** A file under way. */
struct table {
    const struct known *known;
    size_t n_known;
    struct kw_err *err;
    struct kw_csv csv;
    size_t line; /* that the row began on, from 1 */
    size_t n_columns;
    int of[COLUMNS_MAX]; /* each column's index in known; -1: passed over */
    double *numbers;     /* of the row, by index in known */
    char (*texts)[FIELD_MAX + 1];
};

/** For messages: a value cut short, with nothing that a terminal takes for a command. */
static const char *shown(const char *field, size_t len, char out[64])
{
    size_t n = len < 40 ? len : 40;

    for (size_t i = 0; i < n; i++)
        out[i] = field[i];
    for (size_t i = 0; i < n; i++)
        out[i] = out[i] < ' ' || out[i] > '~' ? '?' : out[i];
    out[n] = '\0';
    return out;
}

/** The next field of the row, or of the next row. @return as kw_csv_next. */
static int next_field(struct table *table, const char **ret, size_t *ret_len)
{
    bool first = table->csv.last;
    int rc = kw_csv_next(&table->csv, ret, ret_len);

    if (first)
        table->line = table->csv.line;
    if (rc < 0)
        (void)kw_err_set(table->err, rc,
                         "line %zu: a quote has no end, or text behind it: it encloses a field, "
                         "and is written twice inside",
                         table->csv.line);
    return rc;
}

/** What a column is to us. @return index in known; -1: nothing. */
static int known_of(const struct table *table, const char *name, size_t len)
{
    for (size_t i = 0; i < table->n_known; i++) {
        if (strlen(table->known[i].name) == len && memcmp(table->known[i].name, name, len) == 0)
            return (int)i;
    }
    return -1;
}

static int check_names(const struct table *table, const bool seen[COLUMNS_MAX], char separator)
{
    for (size_t i = 0; i < table->n_known; i++) {
        if (!table->known[i].needed || seen[i])
            continue;
        if (separator != '\0')
            return kw_err_set(table->err, -EBADMSG,
                              "line %zu: its separator is %s: it has to be a comma, and numbers "
                              "have a decimal point",
                              table->line, separator == ';' ? "';'" : "a tab");
        return kw_err_set(table->err, -EBADMSG, "line %zu: no column \"%s\"", table->line,
                          table->known[i].name);
    }
    return 0;
}

/** Begins a file with the names of its columns. */
static int read_names(struct table *table, const char *csv, size_t len)
{
    const char *field = NULL;
    char text[64];
    size_t n = 0;
    bool seen[COLUMNS_MAX] = {false};

    kw_csv_begin(&table->csv, csv, len);
    do {
        int rc = next_field(table, &field, &n);
        if (rc == 0)
            return kw_err_set(table->err, -EBADMSG, "empty");
        if (rc < 0)
            return rc;
        if (table->n_columns == COLUMNS_MAX)
            return kw_err_set(table->err, -EBADMSG, "more than %d columns", COLUMNS_MAX);
        int of = known_of(table, field, n);
        if (of >= 0 && seen[of])
            return kw_err_set(table->err, -EBADMSG, "line %zu: column \"%s\" is there twice",
                              table->line, shown(field, n, text));
        if (of >= 0)
            seen[of] = true;
        table->of[table->n_columns++] = of;
    } while (!table->csv.last);
    return check_names(table, seen, kw_csv_other_separator(csv, len));
}

static int take_field(struct table *table, size_t column, const char *field, size_t len)
{
    const struct known *known = &table->known[table->of[column]];
    char text[FIELD_MAX + 1], shown_text[64];
    double *number = &table->numbers[table->of[column]];

    if (len == 0 && !known->needed)
        return 0;
    if (len > FIELD_MAX || len == 0)
        return kw_err_set(table->err, -EBADMSG, "line %zu, column %zu (%s): %s", table->line,
                          column + 1, known->name, len == 0 ? "no value" : "too long");
    memcpy(text, field, len);
    text[len] = '\0';
    if (known->is_text) {
        for (size_t i = 0; i < len; i++) {
            if (text[i] <= ' ' || text[i] > '~')
                return kw_err_set(table->err, -EBADMSG,
                                  "line %zu, column %zu (%s): \"%s\" is no name", table->line,
                                  column + 1, known->name, shown(field, len, shown_text));
        }
        memcpy(table->texts[table->of[column]], text, len + 1);
        return 0;
    }
    if (strlen(text) != len || kw_parse_double(text, known->min, known->max, number) < 0)
        return kw_err_set(table->err, -EBADMSG,
                          "line %zu, column %zu (%s): \"%s\" is no number from %g to %g",
                          table->line, column + 1, known->name, shown(field, len, shown_text),
                          known->min, known->max);
    return 0;
}

/** Reads the next row. @return 1; 0 after the last; -EBADMSG. */
static int read_row(struct table *table)
{
    const char *field = NULL;
    size_t len = 0, column = 0;

    for (size_t i = 0; i < table->n_known; i++) {
        table->numbers[i] = table->known[i].otherwise;
        table->texts[i][0] = '\0';
    }
    do {
        int rc = next_field(table, &field, &len);
        if (rc <= 0)
            return rc;
        if (column < table->n_columns && table->of[column] >= 0)
            rc = take_field(table, column, field, len);
        if (rc < 0)
            return rc;
        column++;
    } while (!table->csv.last);
    if (column != table->n_columns)
        return kw_err_set(table->err, -EBADMSG, "line %zu: not %zu values, as the first line has",
                          table->line, table->n_columns);
    return 1;
}

static int grow(void **list, size_t *cap, size_t n, size_t size)
{
    size_t wanted = *cap == 0 ? 256 : *cap * 2;

    if (n < *cap)
        return 0;
    void *grown = reallocarray(*list, wanted, size);
    if (grown == NULL)
        return -ENOMEM;
    *list = grown;
    *cap = wanted;
    return 0;
}

/* ---- machines ---- */

enum { NODE, WORK, LOAD, WATTS, CORES, MEMORY, PODS, SLEEP, WAKE, PRICE, N_FLEET };

static const struct known fleet_columns[N_FLEET] = {
    [NODE] = {"node", .is_text = true, .needed = true},
    [WORK] = {"work_units", .needed = true, .min = 0.001, .max = 1e6},
    [LOAD] = {"load_pct", .needed = true, .max = 100},
    [WATTS] = {"watts", .needed = true, .max = 1e6},
    [CORES] = {"cores", .min = 0.001, .max = 1e6},
    [MEMORY] = {"memory_gib", .max = 1e6},
    [PODS] = {"max_pods", .min = 1, .max = 1e5, .otherwise = 110},
    [SLEEP] = {"sleep_watts", .max = 1e6, .otherwise = -1},
    [WAKE] = {"wake_joules", .max = 1e9},
    [PRICE] = {"energy_price", .min = EXT_FACTOR_MIN, .max = EXT_FACTOR_MAX, .otherwise = 1},
};

/** Nodes by name, hashed. */
struct names {
    uint32_t slots[4 * EXT_SIM_NODES_MAX]; /* number of a node, from 1; 0: empty */
};

/** Notes the node that was added last. @return false: one before it has its name. */
static bool note_name(struct names *names, const struct ext_sim_input *input)
{
    const char *name = input->nodes[input->n_nodes - 1].name;
    size_t at = (size_t)(ext_hash(name, strlen(name), 1) % (4 * EXT_SIM_NODES_MAX));

    for (; names->slots[at] != 0; at = (at + 1) % (4 * EXT_SIM_NODES_MAX)) {
        if (strcmp(input->nodes[names->slots[at] - 1].name, name) == 0)
            return false;
    }
    names->slots[at] = (uint32_t)input->n_nodes;
    return true;
}

/** Whether a machine's curve is one. */
static int check_curve(const struct ext_sim_input *input, size_t line, struct kw_err *err)
{
    const struct ext_sim_node *node = &input->nodes[input->n_nodes - 1];
    const char *why = kw_curve_check(&node->curve);

    if (why == NULL)
        return 0;
    return kw_err_set(err, -EBADMSG,
                      "line %zu: the curve of node \"%.60s\" ends here and is none (load_pct from "
                      "0 to 100, rising; watts never falling): %s",
                      line, node->name, why);
}

static struct ext_sim_node begin_node(const struct table *table)
{
    const double *row = table->numbers;
    double cores = row[CORES] > 0 ? row[CORES] : row[WORK];
    struct ext_sim_node node = {
        .curve = {.capacity_mcpu = (uint64_t)fmax(cores * 1000 + 0.5, 1)},
        .work_per_mcpu = row[WORK] / cores,
        .memory_mib = row[MEMORY] * 1024,
        .pods_max = (uint32_t)row[PODS],
        .sleepable = row[SLEEP] >= 0,
        .sleep_mw = row[SLEEP] >= 0 ? (uint32_t)(row[SLEEP] * 1000) : 0,
        .wake_uj = row[WAKE] * 1e6,
        .energy_price = row[PRICE],
    };

    (void)snprintf(node.name, sizeof(node.name), "%s", table->texts[NODE]);
    return node;
}

static int add_point(const struct table *table, struct names *names, struct ext_sim_input *input,
                     size_t *cap)
{
    bool same = input->n_nodes > 0 &&
                strcmp(input->nodes[input->n_nodes - 1].name, table->texts[NODE]) == 0;

    if (!same && input->n_nodes > 0 && check_curve(input, table->line - 1, table->err) < 0)
        return -EBADMSG;
    if (!same && input->n_nodes == EXT_SIM_NODES_MAX)
        return kw_err_set(table->err, -EBADMSG, "line %zu: more than %d nodes", table->line,
                          EXT_SIM_NODES_MAX);
    if (!same) {
        if (grow((void **)&input->nodes, cap, input->n_nodes, sizeof(*input->nodes)) < 0)
            return -ENOMEM;
        input->nodes[input->n_nodes++] = begin_node(table);
        if (!note_name(names, input))
            return kw_err_set(table->err, -EBADMSG,
                              "line %zu: node \"%.60s\" is there already: the points of a node "
                              "follow one another",
                              table->line, table->texts[NODE]);
    }
    struct kw_curve *curve = &input->nodes[input->n_nodes - 1].curve;
    if (curve->n == KW_CURVE_KNOTS)
        return kw_err_set(table->err, -EBADMSG, "line %zu: node \"%.60s\" has more than %d points",
                          table->line, table->texts[NODE], KW_CURVE_KNOTS);
    curve->knots[curve->n++] =
        (struct kw_curve_knot){.load_permille = (uint32_t)(table->numbers[LOAD] * 10 + 0.5),
                               .mw = (uint32_t)(table->numbers[WATTS] * 1000 + 0.5)};
    return 0;
}

int ext_sim_read_fleet(const char *csv, size_t len, struct ext_sim_input *input, struct kw_err *err)
{
    double numbers[N_FLEET];
    char texts[N_FLEET][FIELD_MAX + 1];
    struct table table = {
        .known = fleet_columns, .n_known = N_FLEET, .err = err, .numbers = numbers, .texts = texts};
    kw_cleanup_free struct names *names = calloc(1, sizeof(*names));
    size_t cap = 0;
    int rc = names == NULL ? -ENOMEM : read_names(&table, csv, len);

    while (rc == 0 && (rc = read_row(&table)) > 0)
        rc = add_point(&table, names, input, &cap);
    if (rc == 0 && input->n_nodes == 0)
        return kw_err_set(err, -EBADMSG, "no nodes");
    if (rc == 0)
        rc = check_curve(input, table.line, err);
    return rc == -ENOMEM ? kw_err_set(err, rc, "out of memory") : rc;
}

/* ---- pods ---- */

enum { POD, ARRIVAL, END, REQUEST, USE, REQUEST_MEMORY, WORKLOAD, N_PODS };

static const struct known pod_columns[N_PODS] = {
    [POD] = {"pod", .is_text = true, .needed = true},
    [ARRIVAL] = {"arrival_s", .needed = true, .max = 1e9},
    [END] = {"end_s", .needed = true, .max = 1e9},
    [REQUEST] = {"request_cores", .needed = true, .max = 1e6},
    [USE] = {"use", .needed = true, .max = 1e6},
    [REQUEST_MEMORY] = {"request_memory_gib", .max = 1e6},
    [WORKLOAD] = {"workload", .is_text = true},
};

/** Names of workloads, hashed. */
struct workloads {
    uint32_t n;
    uint32_t slots[4 * EXT_SIM_WORKLOADS_MAX]; /* number, 0: empty */
    char names[EXT_SIM_WORKLOADS_MAX][FIELD_MAX + 1];
};

/** @return number of a workload from 1; 0: there are too many. */
static uint32_t workload_of(struct workloads *workloads, const char *name)
{
    size_t at = (size_t)(ext_hash(name, strlen(name), 1) % (4 * EXT_SIM_WORKLOADS_MAX));

    while (workloads->slots[at] != 0) {
        if (strcmp(workloads->names[workloads->slots[at] - 1], name) == 0)
            return workloads->slots[at];
        at = (at + 1) % (4 * EXT_SIM_WORKLOADS_MAX);
    }
    if (workloads->n == EXT_SIM_WORKLOADS_MAX)
        return 0;
    (void)snprintf(workloads->names[workloads->n], FIELD_MAX + 1, "%s", name);
    workloads->slots[at] = ++workloads->n;
    return workloads->n;
}

static int add_pod(const struct table *table, struct workloads *workloads,
                   struct ext_sim_input *input, size_t *cap)
{
    const double *row = table->numbers;

    if (row[END] <= row[ARRIVAL])
        return kw_err_set(table->err, -EBADMSG,
                          "line %zu: pod \"%.60s\" ends at %g s, not after its arrival at %g s",
                          table->line, table->texts[POD], row[END], row[ARRIVAL]);
    if (input->n_pods == EXT_SIM_PODS_MAX)
        return kw_err_set(table->err, -EBADMSG, "line %zu: more than %d pods", table->line,
                          EXT_SIM_PODS_MAX);
    if (grow((void **)&input->pods, cap, input->n_pods, sizeof(*input->pods)) < 0)
        return -ENOMEM;
    struct ext_sim_pod pod = {
        .arrival_s = row[ARRIVAL],
        .end_s = row[END],
        .request_mcpu = row[REQUEST] * 1000,
        .work_mcpu = row[USE] * 1000,
        .request_mib = row[REQUEST_MEMORY] * 1024,
    };
    if (table->texts[WORKLOAD][0] != '\0') {
        pod.workload = workload_of(workloads, table->texts[WORKLOAD]);
        if (pod.workload == 0)
            return kw_err_set(table->err, -EBADMSG, "line %zu: more than %d workloads", table->line,
                              EXT_SIM_WORKLOADS_MAX);
        pod.owner = pod.workload;
    }
    input->pods[input->n_pods++] = pod;
    return 0;
}

/** By arrival; those of one moment as they stood. */
static int compare(const void *a, const void *b)
{
    const struct ext_sim_pod *x = a, *y = b;

    return (x->arrival_s > y->arrival_s) - (x->arrival_s < y->arrival_s);
}

int ext_sim_read_pods(const char *csv, size_t len, struct ext_sim_input *input, struct kw_err *err)
{
    double numbers[N_PODS];
    char texts[N_PODS][FIELD_MAX + 1];
    struct table table = {
        .known = pod_columns, .n_known = N_PODS, .err = err, .numbers = numbers, .texts = texts};
    kw_cleanup_free struct workloads *workloads = calloc(1, sizeof(*workloads));
    size_t cap = 0;
    int rc = workloads == NULL ? -ENOMEM : read_names(&table, csv, len);

    while (rc == 0 && (rc = read_row(&table)) > 0)
        rc = add_pod(&table, workloads, input, &cap);
    if (rc == 0 && input->n_pods == 0)
        return kw_err_set(err, -EBADMSG, "no pods");
    if (rc == 0) {
        qsort(input->pods, input->n_pods, sizeof(*input->pods), compare); /* glibc's is stable */
        input->n_workloads = workloads->n;
        input->n_owners = workloads->n;
    }
    return rc == -ENOMEM ? kw_err_set(err, rc, "out of memory") : rc;
}
