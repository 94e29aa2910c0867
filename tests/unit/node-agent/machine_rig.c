/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node-agent/machine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/num.h"
#include "tests/support/cmocka.h"
#include "tests/unit/node-agent/meter_rig.h"

void kwt_machines_read(struct kwt_machines *ret)
{
    const char *source = getenv("KWATT_SOURCE_DIR");
    char path[4096], line[1024];

    *ret = (struct kwt_machines){0};
    (void)snprintf(path, sizeof(path), "%s/tests/unit/node-agent/machines.txt",
                   source != NULL ? source : ".");
    kw_cleanup_file FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("no %s", path);
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        if (strncmp(line, "machine ", 8) == 0) {
            ret->items = reallocarray(ret->items, ret->n + 1, sizeof(*ret->items));
            assert_non_null(ret->items);
            struct kwt_machine *machine = &ret->items[ret->n++];
            *machine = (struct kwt_machine){0};
            (void)snprintf(machine->name, sizeof(machine->name), "%.63s", line + 8);
            continue;
        }
        assert_true(ret->n > 0);
        struct kwt_machine *machine = &ret->items[ret->n - 1];
        machine->lines = reallocarray(machine->lines, machine->n + 1, sizeof(*machine->lines));
        assert_non_null(machine->lines);
        machine->lines[machine->n] = strdup(line);
        assert_non_null(machine->lines[machine->n++]);
    }
}

void kwt_machines_free(struct kwt_machines *machines)
{
    for (size_t i = 0; i < machines->n; i++) {
        for (size_t k = 0; k < machines->items[i].n; k++)
            free(machines->items[i].lines[k]);
        free(machines->items[i].lines);
    }
    free(machines->items);
    *machines = (struct kwt_machines){0};
}

/** The rest of a line of this keyword; NULL: of another one. */
static const char *rest_of(const char *line, const char *keyword)
{
    size_t len = strlen(keyword);

    return strncmp(line, keyword, len) == 0 && line[len] == ' ' ? line + len + 1 : NULL;
}

const char *kwt_machine_get(const struct kwt_machine *machine, const char *keyword)
{
    for (size_t i = 0; i < machine->n; i++) {
        if (rest_of(machine->lines[i], keyword) != NULL)
            return rest_of(machine->lines[i], keyword);
    }
    return NULL;
}

uint64_t kwt_machine_number(const char *text, const char **ret_rest)
{
    size_t len = strcspn(text, " ");
    uint64_t value = 0;

    assert_int_equal(kw_parse_u64_span(text, len, 0, UINT64_MAX, &value), 0);
    *ret_rest = text[len] == ' ' ? text + len + 1 : text + len;
    return value;
}

/** One `at` line, as a file, link or folder; what gave an error on the machine gives one here. */
static void build_file(const struct kwt_tree *tree, const char *rest)
{
    char path[512];
    size_t len = strcspn(rest, " ");
    const char *value = rest[len] == ' ' ? rest + len + 1 : "";

    (void)snprintf(path, sizeof(path), "%.*s", (int)len, rest);
    if (strncmp(value, "->", 2) == 0) {
        kwt_meter_link(tree, path, value + 2);
    } else if (value[0] == '-' || (value[0] == '!' && strcmp(value, "!ENOENT") != 0)) {
        kwt_tree_mkdir(tree, path);
    } else if (value[0] != '!') {
        /* a value that is not known: the usual range, and any number */
        const char *unknown =
            strstr(path, "/max_energy_range_uj") != NULL ? "262143328850" : "1000000";
        char text[256];
        (void)snprintf(text, sizeof(text), "%s\n", strcmp(value, "?") == 0 ? unknown : value);
        kwt_tree_write(tree, path, value[0] == '\0' ? "" : text);
    }
}

/** What the kernel says of the CPUs: two a package. */
static void build_cpus(const struct kwt_machine *machine, const struct kwt_tree *tree)
{
    const char *cpu = kwt_machine_get(machine, "cpu"), *rest = NULL;
    size_t vendor = strcspn(cpu, " ");
    uint64_t family = kwt_machine_number(cpu + vendor + 1, &rest);
    uint64_t model = kwt_machine_number(rest, &rest);
    char text[256], path[128];
    unsigned n = 0;

    (void)snprintf(text, sizeof(text),
                   "processor\t: 0\nvendor_id\t: %.*s\ncpu family\t: %u\nmodel\t\t: %u\n",
                   (int)vendor, cpu, (unsigned)family, (unsigned)model);
    kwt_tree_write(tree, "cpuinfo", text);
    for (rest = kwt_machine_get(machine, "packages"); *rest != '\0';) {
        (void)snprintf(text, sizeof(text), "%u\n", (unsigned)kwt_machine_number(rest, &rest));
        for (unsigned i = 0; i < 2; i++) {
            (void)snprintf(path, sizeof(path),
                           "devices/system/cpu/cpu%u/topology/physical_package_id", n++);
            kwt_tree_write(tree, path, text);
        }
    }
    (void)snprintf(text, sizeof(text), "0-%u\n", n - 1);
    kwt_tree_write(tree, "devices/system/cpu/possible", text);
    kwt_tree_write(tree, "devices/system/cpu/online", text);
}

void kwt_machine_build(const struct kwt_machine *machine, const struct kwt_tree *tree)
{
    build_cpus(machine, tree);
    for (size_t i = 0; i < machine->n; i++) {
        const char *rest = rest_of(machine->lines[i], "at");
        if (rest != NULL)
            build_file(tree, rest);
    }
}

void kwt_machine_draw(const struct kwt_machine *machine, const struct kwt_tree *tree)
{
    for (size_t i = 0; i < machine->n; i++) {
        const char *rest = rest_of(machine->lines[i], "draw");
        char path[512], full[4096], text[32];
        uint64_t counter = 0;
        if (rest == NULL)
            continue;
        size_t len = strcspn(rest, " ");
        (void)snprintf(path, sizeof(path), "%.*s", (int)len, rest);
        uint64_t uw = kwt_machine_number(rest + len + 1, &rest);
        uint64_t modulus = *rest != '\0' ? kwt_machine_number(rest, &rest) : UINT64_MAX;
        assert_int_equal(kw_path_join(full, sizeof(full), tree->root, path), 0);
        assert_int_equal(kw_file_read_u64_at(-1, full, &counter), 0);
        (void)snprintf(text, sizeof(text), "%llu\n",
                       (unsigned long long)((counter + uw / 100) % modulus));
        kwt_tree_write(tree, path, text);
    }
}
