/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: a machine that nobody but its own command line knows of (a script's, a unit's, a
 * container's) looks like any other process. Its cgroup's path says nothing.
 *
 * A command line is what its process wants it to be. It is believed for what it costs: a process
 * that calls itself QEMU is shown as a machine of the name it chose, with the energy of its own
 * cgroup. What an option means is not known here but for the three that matter, so that an argument
 * of another option that looks like one of them is taken for it.
 */
#include "node-agent/qemu_args.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/path_part.h"

/** One argument of the line, or a part of one. */
static struct agent_part argument_at(const char *bytes, size_t len, size_t at)
{
    const char *end = memchr(bytes + at, '\0', len - at);

    return (struct agent_part){bytes + at, end != NULL ? (size_t)(end - bytes) - at : len - at};
}

static struct agent_part base_of(struct agent_part path)
{
    const char *slash = memrchr(path.at, '/', path.len);

    if (slash == NULL)
        return path;
    return (struct agent_part){slash + 1, path.len - (size_t)(slash + 1 - path.at)};
}

static bool is_qemu(struct agent_part program)
{
    struct agent_part name = base_of(program);

    (void)agent_part_strip_prefix(&name, "."); /* NixOS: .qemu-system-x86_64-wrapped */
    return agent_part_strip_prefix(&name, "qemu-system-") || agent_part_is(name, "qemu-kvm") ||
           agent_part_is(name, "kvm");
}

bool agent_qemu_helper(const char *bytes, size_t len)
{
    static const char *const names[] = {"swtpm", "virtiofsd", "passt", "pasta", "slirp4netns"};
    struct agent_part name = len > 0 ? base_of(argument_at(bytes, len, 0)) : AGENT_PART_NONE;

    for (size_t i = 0; i < KW_ARRAY_SIZE(names); i++) {
        if (name.len > 0 && agent_part_is(name, names[i]))
            return true;
    }
    return false;
}

/** The length of a value at the start of QEMU's "key=value,key=value": up to a single comma. */
static size_t value_len(struct agent_part text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != ',')
            continue;
        if (i + 1 >= text.len || text.at[i + 1] != ',')
            return i;
        i++;
    }
    return text.len;
}

/** Copies a value; its doubled commas become one. */
static void copy_value(char *out, size_t size, struct agent_part value)
{
    size_t n = 0;

    for (size_t i = 0; i < value.len && n + 1 < size; i++) {
        out[n++] = value.at[i];
        i += value.at[i] == ',';
    }
    out[n] = '\0';
}

/** The value of a key. @param implied the first pair may be without its key. */
static bool find_value(struct agent_part options, const char *key, bool implied,
                       struct agent_part *ret)
{
    size_t key_len = strlen(key);
    bool found = false;

    for (bool first = true; options.len > 0; first = false) {
        struct agent_part pair = {options.at, value_len(options)};
        size_t next = pair.len + (pair.len < options.len);
        if (pair.len > key_len && memcmp(pair.at, key, key_len) == 0 && pair.at[key_len] == '=') {
            *ret = (struct agent_part){pair.at + key_len + 1, pair.len - key_len - 1};
            found = true;
        } else if (first && implied && pair.len > 0 && memchr(pair.at, '=', pair.len) == NULL) {
            *ret = pair;
            found = true;
        }
        options.at += next;
        options.len -= next;
    }
    return found;
}

static void take_uuid(struct agent_part text, char out[37])
{
    char lower[37];

    if (text.len != sizeof(lower) - 1 || memchr(text.at, '_', text.len) != NULL)
        return;
    for (size_t i = 0; i < text.len; i++)
        lower[i] = (char)tolower((unsigned char)text.at[i]);
    lower[text.len] = '\0';
    if (agent_part_is_uuid((struct agent_part){lower, text.len}))
        (void)memcpy(out, lower, sizeof(lower));
}

/** One option with its value. @param smbios where a UUID of less weight is put. */
static void take_option(struct agent_part option, struct agent_part value, struct agent_qemu *ret,
                        char smbios[37])
{
    struct agent_part found;

    if (!agent_part_strip_prefix(&option, "--") && !agent_part_strip_prefix(&option, "-"))
        return;
    if (agent_part_is(option, "uuid")) {
        take_uuid(value, ret->uuid);
    } else if (agent_part_is(option, "name")) {
        if (find_value(value, "guest", true, &found))
            copy_value(ret->name, sizeof(ret->name), found);
    } else if (agent_part_is(option, "smbios")) {
        if (find_value(value, "type", false, &found) && agent_part_is(found, "1") &&
            find_value(value, "uuid", false, &found))
            take_uuid(found, smbios);
    }
}

bool agent_qemu_from_cmdline(const char *bytes, size_t len, struct agent_qemu *ret)
{
    struct agent_qemu qemu = {0};
    char smbios[37] = "";

    if (len == 0 || !is_qemu(argument_at(bytes, len, 0)))
        return false;
    struct agent_part option = argument_at(bytes, len, 0);
    for (size_t at = option.len + 1; at < len;) {
        struct agent_part value = argument_at(bytes, len, at);
        take_option(option, value, &qemu, smbios);
        option = value;
        at += value.len + 1;
    }
    if (qemu.uuid[0] == '\0')
        (void)memcpy(qemu.uuid, smbios, sizeof(smbios));
    *ret = qemu;
    return true;
}
