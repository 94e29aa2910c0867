/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "common/cleanup.h"
#include "node-agent/recording_impl.h"

bool agent_recording_read_has(struct agent_recording_reader *reader, unsigned *ret)
{
    static const char *const names[] = {"smt", "frequency", "counters"};
    struct kw_json_token token = {0};
    unsigned has = 0;

    if (!agent_line_enter(&reader->line, "has", KW_JSON_ARRAY))
        return false;
    while (agent_line_next(&reader->line, &token) && token.type == KW_JSON_STRING) {
        for (unsigned i = 0; i < KW_ARRAY_SIZE(names); i++)
            has |= kw_json_equals(&token, names[i], false) ? 1u << i : 0;
    }
    if (reader->line.rc == 0 && token.type != KW_JSON_ARRAY_END)
        return agent_line_refuse(&reader->line, -EBADMSG, "has", &token, "names of features");
    *ret = has;
    return reader->line.rc == 0;
}

static bool take_columns(struct agent_recording_reader *reader)
{
    struct agent_recording *recording = reader->recording;
    struct kw_json_token token = {0};
    unsigned seen = 0;

    if (!agent_line_enter(&reader->line, "features", KW_JSON_ARRAY))
        return false;
    while (agent_line_next(&reader->line, &token) && token.type == KW_JSON_STRING) {
        if (recording->n_columns == AGENT_RECORDING_COLUMNS_MAX)
            return agent_line_fail(&reader->line, -E2BIG, "\"features\" are more than 64");
        int i = agent_line_key(&reader->line, &token, agent_recording_feature_names,
                               AGENT_RECORDING_FEATURES, &seen);
        if (i < 0)
            return false;
        recording->columns[recording->n_columns++] =
            i < AGENT_RECORDING_FEATURES ? (unsigned char)i : AGENT_RECORDING_NO_FEATURE;
    }
    if (reader->line.rc == 0 && token.type != KW_JSON_ARRAY_END)
        return agent_line_refuse(&reader->line, -EBADMSG, "features", &token, "names of features");
    return reader->line.rc == 0;
}

static bool take_package_cpus(struct agent_recording_reader *reader)
{
    static const char *const keys[] = {"package", "cpus"};
    struct agent_recording_header *header = &reader->recording->header;

    if (!agent_line_enter(&reader->line, "packages", KW_JSON_ARRAY))
        return false;
    while (!agent_line_list_ends(&reader->line)) {
        struct kw_json_token token;
        uint64_t package = AGENT_PACKAGES_MAX, cpus = 0;
        unsigned seen = 0;
        if (!agent_line_enter(&reader->line, "packages", KW_JSON_OBJECT))
            return false;
        while (agent_line_next_key(&reader->line, &token)) {
            int key = agent_line_key(&reader->line, &token, keys, KW_ARRAY_SIZE(keys), &seen);
            (void)(key == 0
                       ? agent_line_u64(&reader->line, "package", AGENT_PACKAGES_MAX - 1, &package)
                   : key == 1 ? agent_line_u64(&reader->line, "cpus", UINT16_MAX, &cpus)
                   : key < 0  ? false
                              : agent_line_skip(&reader->line));
        }
        if (reader->line.rc == 0 && package == AGENT_PACKAGES_MAX)
            return agent_line_fail(&reader->line, -EBADMSG,
                                   "an element of \"packages\" has no \"package\"");
        if (reader->line.rc == 0)
            header->package_cpus[package] = (uint16_t)cpus;
    }
    return reader->line.rc == 0;
}

bool agent_recording_read_header(struct agent_recording_reader *reader)
{
    static const char *const keys[] = {
        "kwatt_recording", "version", "node", "t_unix_ms", "cpu_model",   "meter",   "estimated",
        "accounting",      "method",  "has",  "features",  "cpus_online", "packages"};
    struct agent_recording_header *header = &reader->recording->header;
    struct kw_json_token token;
    uint64_t schema = 0, number = 0;
    unsigned seen = 0;

    if (!agent_line_enter(&reader->line, "the line", KW_JSON_OBJECT))
        return false;
    while (agent_line_next_key(&reader->line, &token)) {
        int key = agent_line_key(&reader->line, &token, keys, KW_ARRAY_SIZE(keys), &seen);
#define TEXT(field) agent_line_text(&reader->line, keys[key], header->field, sizeof(header->field))
        switch (key) {
        case -1: return false;
        case 0: (void)agent_line_u64(&reader->line, keys[key], UINT32_MAX, &schema); break;
        case 1: (void)TEXT(version); break;
        case 2: (void)TEXT(node); break;
        case 3:
            if (agent_line_u64(&reader->line, keys[key], INT64_MAX, &number))
                header->t_unix_ms = (int64_t)number;
            break;
        case 4: (void)TEXT(cpu_model); break;
        case 5: (void)TEXT(meter); break;
        case 6: (void)agent_line_bool(&reader->line, keys[key], &header->estimated); break;
        case 7: (void)TEXT(accounting); break;
        case 8: (void)TEXT(method); break;
        case 9: (void)agent_recording_read_has(reader, &header->has); break;
        case 10: (void)take_columns(reader); break;
        case 11:
            if (agent_line_u64(&reader->line, keys[key], UINT16_MAX, &number))
                header->n_online = (unsigned)number;
            break;
        case 12: (void)take_package_cpus(reader); break;
        default: (void)agent_line_skip(&reader->line);
        }
#undef TEXT
    }
    if (reader->line.rc == 0 && (seen & 1u) == 0)
        return agent_line_fail(&reader->line, -EBADMSG,
                               "no recording of kwatt: its first line has no "
                               "\"kwatt_recording\"");
    if (reader->line.rc == 0 && schema != AGENT_RECORDING_SCHEMA) {
        reader->line.rc = kw_err_set(reader->line.err, -EPROTONOSUPPORT,
                                     "\"kwatt_recording\" is %llu; this kwatt reads version 1",
                                     (unsigned long long)schema);
    }
    return reader->line.rc == 0;
}
