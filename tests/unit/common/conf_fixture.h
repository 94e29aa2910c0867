/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"

/* One program with an option of every type, and a way to load it: what the tests of conf*.c share.
 */

struct kwt_settings {
    bool metrics;
    char *redis_url;
    char *node;
    uint64_t shards;
    double idle_share;
    uint64_t timeout_ns;
    uint64_t body_bytes;
    unsigned level;
    char *tls_name;
    char *only_flag;
};

extern const struct kw_conf_program kwt_program;

/** What one kw_conf_load gave. */
struct kwt_run {
    int rc;
    struct kwt_settings settings;
    struct kw_err err;
    char *out; /**< printed text */
    size_t out_len;
    size_t first; /**< positional; 99 where untouched */
    int argc;
    char *argv[16];
};

/** Where kwt_write_config writes; stands for "@" in arguments. */
extern char kwt_config_path[64];

void kwt_write_config(const char *text);

/** Loads `as`. @param args, env end with NULL; may be NULL. */
void kwt_load_as(struct kwt_run *run, const struct kw_conf_program *as, const char *const *args,
                 const char *const *env);

/** Loads kwt_program. */
void kwt_load(struct kwt_run *run, const char *const *args, const char *const *env);

/** Fails with the error's text unless settings were filled. */
void kwt_check_ok(const struct kwt_run *run);

/** Fails unless the load ended in -EINVAL with this text and left nothing behind. */
void kwt_check_refused(const struct kwt_run *run, const char *text);

/** Frees what a load of kwt_program left. */
void kwt_done(struct kwt_run *run);

/** Group teardown. */
int kwt_remove_config(void **state);

#define KWT_ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/** How every error of the program ends. */
#define KWT_SEE " (see kwatt-test --help)"
