/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "common/conf_internal.h"
#include "common/yaml.h"

/*
 * The configuration file: a walk over the tree, with the path of keys joined by dots, which is what
 * the rows call their key. A dotted key ("redis.url: ...") and nested maps mean the same; the same
 * option by both ways is refused as given twice. Every value is checked, also one that a flag or
 * the environment overrides: a mistake in the file should not wait for the day the flag goes away.
 *
 * A key without a value ("redis:" with everything under it commented out, "url: ~") counts as not
 * given.
 */

/* The longest key of our tables has some 40 bytes; longer paths are unknown keys. */
#define PATH_BYTES 160

struct walk {
    const struct kw_conf_program *program;
    const char *name; /* of the file */
    struct kw_conf_value *values;
    struct kw_err *err;
};

static const char *key_at(const void *user, size_t i)
{
    return ((const struct kw_conf_program *)user)->options[i].key;
}

static int unknown_key(const struct walk *walk, unsigned line, const char *path)
{
    const char *near = kw_conf_nearest(path, key_at, walk->program, walk->program->n_options);
    if (near != NULL)
        return kw_err_set(walk->err, -EINVAL, "%s:%u: unknown key \"%.80s\"; did you mean \"%s\"?",
                          walk->name, line, path, near);
    return kw_err_set(walk->err, -EINVAL, "%s:%u: unknown key \"%.80s\"", walk->name, line, path);
}

/* The option with this key; or NULL, and *ret_group the first one whose key continues it. */
static const struct kw_conf_option *find_key(const struct kw_conf_program *program,
                                             const char *path,
                                             const struct kw_conf_option **ret_group)
{
    size_t len = strlen(path);
    *ret_group = NULL;
    for (size_t i = 0; i < program->n_options; i++) {
        const char *key = program->options[i].key;
        if (key == NULL || strncmp(key, path, len) != 0)
            continue;
        if (key[len] == '\0')
            return &program->options[i];
        if (key[len] == '.' && *ret_group == NULL)
            *ret_group = &program->options[i];
    }
    return NULL;
}

static int read_value(const struct walk *walk, const struct kw_conf_option *option, unsigned line,
                      const struct kw_yaml *node)
{
    if (node->type != KW_YAML_SCALAR)
        return kw_err_set(walk->err, -EINVAL, "%s:%u: %s: a single value is expected, not a %s",
                          walk->name, line, option->key,
                          node->type == KW_YAML_MAP ? "map" : "list");
    struct kw_conf_value *value = &walk->values[option - walk->program->options];
    if (value->line != 0)
        return kw_err_set(walk->err, -EINVAL, "%s:%u: key \"%s\" was already given in line %u",
                          walk->name, line, option->key, value->line);
    value->line = line;
    if (node->null)
        return 0;

    char where[256];
    (void)snprintf(where, sizeof(where), "%.120s:%u: %s", walk->name, line, option->key);
    union kw_conf_parsed parsed;
    int rc = kw_conf_parse_value(option, node->text, where, &parsed, walk->err);
    if (rc < 0)
        return rc;
    if (value->source == KW_CONF_FROM_DEFAULT) {
        value->text = node->text;
        value->source = KW_CONF_FROM_FILE;
    }
    return 0;
}

/* Recursion is bounded by the depth that kw_yaml_parse allows. */
static int read_map(const struct walk *walk, const char *prefix, const struct kw_yaml *map)
{
    for (size_t i = 0; i < map->n; i++) {
        const struct kw_yaml *node = &map->children[i];
        unsigned line = map->key_lines[i];
        char path[PATH_BYTES];
        int n = snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                         map->keys[i]);
        if (n < 0 || (size_t)n >= sizeof(path))
            return unknown_key(walk, line, path);

        const struct kw_conf_option *group;
        const struct kw_conf_option *option = find_key(walk->program, path, &group);
        int rc;
        if (option != NULL)
            rc = read_value(walk, option, line, node);
        else if (group == NULL)
            rc = unknown_key(walk, line, path);
        else if (node->type == KW_YAML_MAP)
            rc = read_map(walk, path, node);
        else if (node->type == KW_YAML_SCALAR && node->null)
            rc = 0;
        else
            rc = kw_err_set(walk->err, -EINVAL,
                            "%s:%u: %s: a map is expected, with keys such as \"%s\"", walk->name,
                            line, path, group->key + strlen(path) + 1);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int kw_conf_read_yaml(const struct kw_conf_program *program, const char *name,
                      const struct kw_yaml *doc, struct kw_conf_value *values, struct kw_err *err)
{
    struct walk walk = {.program = program, .name = name, .values = values, .err = err};
    if (doc->type != KW_YAML_MAP)
        return kw_err_set(err, -EINVAL, "%s:%u: \"key: value\" lines are expected", name,
                          doc->line);
    return read_map(&walk, "", doc);
}
