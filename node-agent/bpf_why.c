/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/bpf_why.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"

/* Bits of CapEff (linux/capability.h); the header of an old system does not know the last two. */
#define BIT_SYS_ADMIN 21
#define BIT_PERFMON   38
#define BIT_BPF       39

#define STATUS_MAX 8192

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Effective capabilities of this process. @return false where /proc does not say. */
static bool effective_capabilities(const char *procfs_root, uint64_t *ret)
{
    char path[PATH_MAX];
    char text[STATUS_MAX];
    uint64_t bits = 0;

    if (kw_path_join(path, sizeof(path), procfs_root, "self/status") < 0 ||
        kw_file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return false;
    const char *at = strstr(text, "\nCapEff:\t");
    if (at == NULL)
        return false;
    for (at += strlen("\nCapEff:\t"); hex_value(*at) >= 0; at++)
        bits = bits << 4 | (uint64_t)hex_value(*at);
    *ret = bits;
    return true;
}

static bool has(uint64_t bits, unsigned bit)
{
    return (bits >> bit & 1) != 0;
}

static bool locked_down(void)
{
    char text[256];

    return kw_file_read_at(AT_FDCWD, "/sys/kernel/security/lockdown", text, sizeof(text)) > 0 &&
           strstr(text, "[confidentiality]") != NULL;
}

/* The last line of the log that is not the verifier's statistics. */
static const char *last_words(char *log)
{
    for (;;) {
        size_t len = strlen(log);
        while (len > 0 && log[len - 1] == '\n')
            log[--len] = '\0';
        char *newline = strrchr(log, '\n');
        char *line = newline != NULL ? newline + 1 : log;
        if (newline == NULL || strncmp(line, "processed ", strlen("processed ")) != 0)
            return line;
        *newline = '\0';
    }
}

static int why_not_permitted(struct kw_err *err, int r, const char *step, const char *procfs_root)
{
    uint64_t bits = 0;

    if (effective_capabilities(procfs_root, &bits) && !has(bits, BIT_SYS_ADMIN) &&
        !(has(bits, BIT_BPF) && has(bits, BIT_PERFMON)))
        return kw_err_set(err, r,
                          "eBPF: %s was refused: the process lacks CAP_BPF and CAP_PERFMON; run as "
                          "root or give it both (before Linux 5.8: CAP_SYS_ADMIN)",
                          step);
    if (locked_down())
        return kw_err_set(err, r,
                          "eBPF: %s was refused: the kernel is locked down (confidentiality), "
                          "which forbids programs that read kernel memory; boot with "
                          "lockdown=integrity",
                          step);
    return kw_err_set(err, r,
                      "eBPF: %s was refused although the capabilities are there; a container "
                      "runtime's seccomp profile may forbid bpf(), or, before Linux 5.11, "
                      "RLIMIT_MEMLOCK is too low",
                      step);
}

int agent_bpf_why(struct kw_err *err, int r, const char *step, const char *procfs_root,
                  const char *verifier_log)
{
    char log[512] = "";

    /* the verifier says EACCES too, but not without giving its reason */
    if (r == -EPERM || (r == -EACCES && (verifier_log == NULL || verifier_log[0] == '\0')))
        return why_not_permitted(err, r, step, procfs_root);
    if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
        return kw_err_set(err, r,
                          "eBPF: %s failed: the kernel has no type information "
                          "(/sys/kernel/btf/vmlinux); use one built with CONFIG_DEBUG_INFO_BTF",
                          step);
    if (r == -ENOSYS)
        return kw_err_set(err, r,
                          "eBPF: the kernel has no bpf(), or a container runtime's seccomp profile "
                          "hides it; allow bpf() there, or use a kernel with CONFIG_BPF_SYSCALL");
    if (verifier_log != NULL) {
        size_t len = strlen(verifier_log);
        size_t from = len < sizeof(log) ? 0 : len - sizeof(log) + 1;
        (void)memcpy(log, verifier_log + from, len - from + 1);
    }
    const char *words = last_words(log);
    const char *cause = strerrordesc_np(-r); /* has no word for the kernel's own numbers (524) */
    return kw_err_set(err, r, "eBPF: %s failed: %s%s%s", step,
                      cause != NULL ? cause : "not supported",
                      words[0] != '\0' ? "; the kernel says: " : "", words);
}
