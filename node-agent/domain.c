/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/domain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/num.h"

uint64_t agent_domain_bound_mw(enum agent_domain_kind kind)
{
    static const uint64_t bounds[] = {
        [AGENT_DOMAIN_CPU] = 1500000,
        [AGENT_DOMAIN_DRAM] = 500000,
        [AGENT_DOMAIN_PLATFORM] = 10000000,
        [AGENT_DOMAIN_GPU] = 2000000,
    };
    _Static_assert(KW_ARRAY_SIZE(bounds) == AGENT_DOMAIN__MAX, "a kind without a bound");

    return kind < AGENT_DOMAIN__MAX ? bounds[kind] : 0;
}

int agent_package_number(struct agent_package_numbers *numbers,
                         const struct agent_topology *topology, uint32_t package_id, unsigned *ret)
{
    unsigned p = 0, k = 0;

    while (p < topology->n_packages && topology->package_ids[p] != package_id)
        p++;
    if (p < topology->n_packages) {
        *ret = p;
        return 0;
    }
    while (k < numbers->n && numbers->unknown[k] != package_id)
        k++;
    if (p + k >= AGENT_PACKAGES_MAX)
        return -ENOSPC;
    if (k == numbers->n)
        numbers->unknown[numbers->n++] = package_id;
    *ret = p + k;
    return 0;
}

void agent_domain_set_path(struct agent_domain *domain, const char *folder, const char *below)
{
    size_t len = strlen(folder) + 1 + strlen(below);
    size_t cut = len < sizeof(domain->path) ? 0 : len + 1 - sizeof(domain->path);

    if (cut > strlen(folder))
        cut = strlen(folder);
    (void)snprintf(domain->path, sizeof(domain->path), "%s/%s", folder + cut, below);
}

bool agent_domain_same(const struct agent_domain *a, const struct agent_domain *b)
{
    return a->kind == b->kind && a->package == b->package && a->package_id == b->package_id &&
           strcmp(a->name, b->name) == 0 && strcmp(a->path, b->path) == 0 &&
           a->range_uj == b->range_uj && a->max_mw == b->max_mw && a->integrated == b->integrated;
}

int agent_domain_open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return fd >= 0 ? fd : -errno;
}

int agent_domain_read_number(int fd, uint64_t *ret)
{
    char text[32];
    uint64_t value = 0;

    if (fd < 0)
        return fd;
    /* one call: sysfs makes its text anew for each, and reads the hardware for it */
    ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
    if (len < 0)
        return -errno;
    text[len] = '\0';
    size_t digits = strspn(text, "0123456789");
    if (digits == 0)
        return text[strspn(text, " \r\n")] == '\0' ? -ENODATA : -EBADMSG;
    if (kw_parse_u64_span(text, digits, 0, UINT64_MAX, &value) < 0 ||
        text[digits + strspn(text + digits, " \r\n")] != '\0')
        return -EBADMSG;
    *ret = value;
    return 0;
}
