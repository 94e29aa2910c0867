/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/hook_cost.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/hook_empty.skel.h"

struct bench_empty {
    struct hook_empty_bpf *skel;
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return values[n / 2];
}

double bench_cost_step(struct bench_cost *cost)
{
    struct bpf_prog_info info = {0};
    uint32_t len = sizeof(info);

    if (bpf_obj_get_info_by_fd(cost->fd, &info, &len) < 0)
        return -1;
    uint64_t runs = info.run_cnt - cost->runs;
    uint64_t run_ns = info.run_time_ns - cost->run_ns;
    cost->runs = info.run_cnt;
    cost->run_ns = info.run_time_ns;
    return runs > 0 ? (double)run_ns / (double)runs : -1;
}

int bench_find_program(const char *name)
{
    int found = -1;

    for (uint32_t id = 0; bpf_prog_get_next_id(id, &id) == 0;) {
        struct bpf_prog_info info = {0};
        uint32_t len = sizeof(info);
        int fd = bpf_prog_get_fd_by_id(id);
        if (fd < 0)
            continue;
        if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && strcmp(info.name, name) == 0) {
            if (found >= 0)
                (void)close(found);
            found = fd;
        } else {
            (void)close(fd);
        }
    }
    return found;
}

void bench_print_ratio(const char *name, double value_ns, double empty_ns, const char *bound)
{
    (void)printf("{\"name\":\"%s\",\"value\":%.1f,\"unit\":\"ns\",\"reference\":{\"name\":"
                 "\"empty program\",\"value\":%.1f},\"ratio\":%.3f,\"bound\":%s,\"better\":"
                 "\"lower\"}\n",
                 name, value_ns, empty_ns, value_ns / empty_ns, bound);
}

struct bench_empty *bench_empty_attach(const char *name, ...)
{
    struct bench_empty *empty = calloc(1, sizeof(*empty));
    struct bpf_program *program;
    va_list names;

    if (empty == NULL)
        return NULL;
    empty->skel = hook_empty_bpf__open();
    if (empty->skel == NULL) {
        free(empty);
        return NULL;
    }
    bpf_object__for_each_program(program, empty->skel->obj)(void)
        bpf_program__set_autoload(program, false);
    va_start(names, name);
    for (; name != NULL; name = va_arg(names, const char *)) {
        program = bpf_object__find_program_by_name(empty->skel->obj, name);
        if (program != NULL)
            (void)bpf_program__set_autoload(program, true);
    }
    va_end(names);
    if (hook_empty_bpf__load(empty->skel) < 0 || hook_empty_bpf__attach(empty->skel) < 0)
        bench_empty_detach(&empty);
    return empty;
}

int bench_empty_fd(const struct bench_empty *empty, const char *name)
{
    return bpf_program__fd(bpf_object__find_program_by_name(empty->skel->obj, name));
}

void bench_empty_detach(struct bench_empty **empty)
{
    if (*empty == NULL)
        return;
    hook_empty_bpf__destroy((*empty)->skel);
    free(*empty);
    *empty = NULL;
}
