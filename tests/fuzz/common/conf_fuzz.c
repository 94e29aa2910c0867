/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as configuration file and, line by line, as arguments give settings or one error. What
 * loads is dumped, and the dump must load again: a setting that --dump-config prints is one that
 * --config takes.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct settings {
    char *url;
    char *name;
    uint64_t timeout_ns;
    uint64_t body_bytes;
    uint64_t shards;
    double share;
    bool metrics;
    unsigned level;
};

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

#define AT(field) offsetof(struct settings, field)
static const struct kw_conf_option options[] = {
    {"redis", "R", "redis.url", KW_CONF_STRING, AT(url), "redis://h", 0, 0, NULL, "URL", "", "A",
     NULL},
    {"timeout", "T", "redis.timeout", KW_CONF_DURATION_NS, AT(timeout_ns), "2s", 1, UINT64_MAX,
     NULL, "TIME", "", "A", NULL},
    {"max-body", "B", "http.maxBody", KW_CONF_BYTES, AT(body_bytes), "4Mi", 1, 1U << 30, NULL,
     "SIZE", "", "B", NULL},
    {"shards", "S", "feed.shards", KW_CONF_U64, AT(shards), "4", 1, 64, NULL, "N", "", "B", NULL},
    {"share", "I", "idleShare", KW_CONF_DOUBLE, AT(share), "0.5", 0, 1, NULL, "X", "", "B", NULL},
    {"metrics", "M", "http.metrics", KW_CONF_BOOL, AT(metrics), "true", 0, 0, NULL, NULL, "", "B",
     NULL},
    {"log-level", "L", "logLevel", KW_CONF_CHOICE, AT(level), "info", 0, 0, levels, "LEVEL", "",
     "B", NULL},
    {"node", "N", "node", KW_CONF_STRING, AT(name), NULL, 0, 63, NULL, "NAME", "", "B", NULL},
};
static const struct kw_conf_program program = {
    .name = "fuzz",
    .options = options,
    .n_options = KW_ARRAY_SIZE(options),
    .positionals = true,
};

static int load(int argc, char **argv, FILE *out)
{
    struct settings settings = {0};
    struct kw_err err = {0};
    size_t first = 0;
    int rc = kw_conf_load(&program, argc, argv, NULL, &settings, out, &first, &err);
    if (rc < 0 && (err.text[0] == '\0' || settings.url != NULL || settings.name != NULL))
        abort();
    if (rc == KW_CONF_RUN && (first < 1 || first > (size_t)argc || settings.shards < 1 ||
                              settings.shards > 64 || settings.level > 3 || settings.url == NULL))
        abort();
    kw_conf_free(&program, &settings);
    return rc;
}

static void memory_file(const void *bytes, size_t size, int *ret_fd, char path[64])
{
    *ret_fd = memfd_create("conf", MFD_CLOEXEC);
    if (*ret_fd < 0 || write(*ret_fd, bytes, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, 64, "/proc/self/fd/%d", *ret_fd);
}

static void check_dump(char *path)
{
    kw_cleanup_free char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    char *dump[] = {(char *)"fuzz", (char *)"--config", path, (char *)"--dump-config", NULL};
    if (out == NULL || load(4, dump, out) != KW_CONF_DONE)
        abort();
    (void)fclose(out);

    kw_cleanup_close int fd = -1;
    char dump_path[64];
    memory_file(text, len, &fd, dump_path);
    char *again[] = {(char *)"fuzz", (char *)"--config", dump_path, NULL};
    if (load(3, again, stdout) != KW_CONF_RUN)
        abort();
}

#define MAX_ARGS 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kw_cleanup_close int fd = -1;
    char path[64];
    memory_file(data, size, &fd, path);
    char *argv[MAX_ARGS + 2] = {(char *)"fuzz", (char *)"--config", path, NULL};
    if (load(3, argv, stdout) == KW_CONF_RUN)
        check_dump(path);

    kw_cleanup_free char *lines = calloc(1, size + 1);
    kw_cleanup_file FILE *nowhere = fopen("/dev/null", "w");
    if (lines == NULL || nowhere == NULL)
        abort();
    memcpy(lines, data, size);
    int argc = 1;
    for (char *line = lines; line != NULL && argc < MAX_ARGS;) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        argv[argc++] = line;
        line = end;
    }
    argv[argc] = NULL;
    (void)load(argc, argv, nowhere);
    return 0;
}
