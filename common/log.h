/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/*
 * Structured log: one line per event, `time level program: message key=value ...`, to stderr, or to
 * the journal (with its priorities and without the time) where stderr is the journal.
 *
 * A function logs or it does not: api/, common/ and deciders never do; main, the owner object and
 * HTTP handlers log, once. Secrets are never fields.
 */

enum kw_log_level { KW_LOG_ERROR, KW_LOG_WARN, KW_LOG_INFO, KW_LOG_DEBUG, KW_LOG__MAX };

struct kw_log; /* opaque; safe to use from several threads */

/** One key=value of a line. Made by the functions below; texts are borrowed until the call returns.
 */
struct kw_field {
    const char *key; /**< NULL ends a list */
    enum { KW_FIELD_STR, KW_FIELD_I64, KW_FIELD_U64, KW_FIELD_ERRNO } type;
    union {
        const char *str; /**< NULL prints as "" */
        int64_t i64;
        uint64_t u64;
    };
};

static inline struct kw_field kw_str(const char *key, const char *value)
{
    return (struct kw_field){.key = key, .type = KW_FIELD_STR, .str = value};
}
static inline struct kw_field kw_i64(const char *key, int64_t value)
{
    return (struct kw_field){.key = key, .type = KW_FIELD_I64, .i64 = value};
}
static inline struct kw_field kw_u64(const char *key, uint64_t value)
{
    return (struct kw_field){.key = key, .type = KW_FIELD_U64, .u64 = value};
}
/** error="No such file or directory" of an errno of either sign. */
static inline struct kw_field kw_errno(int code)
{
    return (struct kw_field){.key = "error", .type = KW_FIELD_ERRNO, .i64 = code};
}

/**
 * @param program name in front of each line; borrowed for the life of the log.
 * @param out where to write; NULL for stderr (with journal detection).
 * @return NULL on ENOMEM.
 */
struct kw_log *kw_log_new(const char *program, enum kw_log_level level, FILE *out);
void kw_log_free(struct kw_log **log);

/** From any thread: what is logged from now on. */
void kw_log_set_level(struct kw_log *log, enum kw_log_level level);

/** "error|warn|info|debug". NULL-terminated table, index is enum kw_log_level. */
extern const char *const kw_log_level_names[KW_LOG__MAX + 1];

/**
 * Writes one line with one write(2), of at most 4096 bytes: a value over 1024 bytes is cut and ends
 * in
 * "...", fields that do not fit are left out and the line ends in truncated=true. Values that are
 * not plainly printable are quoted and escaped, so that none can start a line or fake a key. What
 * cannot be written is lost silently. At most 10 lines per 10 s for one message text; the first
 * line after a silence says how many were suppressed. @param log NULL writes nothing. @param fields
 * ends with key NULL.
 */
void kw_log_write(struct kw_log *log, enum kw_log_level level, const char *message,
                  const struct kw_field *fields);

#define KW_FIELDS(...) ((const struct kw_field[]){__VA_ARGS__ __VA_OPT__(, ){.key = NULL}})
#define kw_log_error(log, message, ...) \
    kw_log_write(log, KW_LOG_ERROR, message, KW_FIELDS(__VA_ARGS__))
#define kw_log_warn(log, message, ...) \
    kw_log_write(log, KW_LOG_WARN, message, KW_FIELDS(__VA_ARGS__))
#define kw_log_info(log, message, ...) \
    kw_log_write(log, KW_LOG_INFO, message, KW_FIELDS(__VA_ARGS__))
#define kw_log_debug(log, message, ...) \
    kw_log_write(log, KW_LOG_DEBUG, message, KW_FIELDS(__VA_ARGS__))
