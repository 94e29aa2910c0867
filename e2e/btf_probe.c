/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No test by itself: e2e/btf_test.py drives it. Relocates the agent's BPF programs against the BTF
 * of another kernel, and says on stdout what libbpf found there. Programs that read by address
 * alone (raw tracepoints) are also given to this kernel's verifier, which refuses whatever can be
 * reached and was not found; those with trusted pointers it would hold against its own types.
 * Nothing is attached or run.
 *
 * usage: btf_probe BTF-FILE
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bpf/requests.skel.h"
#include "bpf/sched.skel.h"

static int print(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level;
    return vprintf(format, args);
}

static bool is_raw(const struct bpf_program *program)
{
    return bpf_program__type(program) == BPF_PROG_TYPE_RAW_TRACEPOINT;
}

/* @param raw only programs that this kernel's verifier can judge. */
static int load(struct bpf_object *object, const char *name, bool raw)
{
    struct bpf_program *program;

    printf("<<<%s %s\n", name, raw ? "raw" : "all");
    bpf_object__for_each_program(program, object)
    {
        (void)bpf_program__set_autoload(program, !raw || is_raw(program));
    }
    int r = bpf_object__load(object);
    printf("<<<result %d\n", r);
    return r;
}

static int load_sched(const char *btf, bool raw)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf);
    struct sched_bpf *skel = sched_bpf__open_opts(&opts);

    if (skel == NULL)
        return -1;
    skel->rodata->v1_enabled = true;
    skel->rodata->smt = true;
    skel->rodata->counting = true;
    int r = load(skel->obj, "sched", raw);
    sched_bpf__destroy(skel);
    return r;
}

static int load_requests(const char *btf, bool raw)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf);
    struct requests_bpf *skel = requests_bpf__open_opts(&opts);

    if (skel == NULL)
        return -1;
    skel->rodata->v1_enabled = true;
    skel->rodata->statuses = true;
    int r = load(skel->obj, "requests", raw);
    requests_bpf__destroy(skel);
    return r;
}

/* The tracepoints at which programs with trusted pointers hang. */
static int list_tracepoints(const char *path)
{
    static const char *const names[] = {"sched_switch", "sock_recv_length", "sock_send_length",
                                        "inet_sock_set_state"};
    struct btf *btf = btf__parse(path, NULL);
    char type[64];

    if (btf == NULL)
        return -1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(type, sizeof(type), "btf_trace_%s", names[i]);
        printf("tracepoint %s %s\n", names[i],
               btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) > 0 ? "yes" : "no");
    }
    btf__free(btf);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: btf_probe BTF-FILE\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    (void)libbpf_set_print(print);
    if (list_tracepoints(argv[1]) < 0)
        return 1;
    (void)load_sched(argv[1], false);
    (void)load_requests(argv[1], false);
    bool fits = load_sched(argv[1], true) == 0 && load_requests(argv[1], true) == 0;
    return fits ? 0 : 1;
}
