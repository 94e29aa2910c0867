/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kin.h"

/* Fowler, Noll, Vo: FNV-1a of 64 bits. Owners of a node are some hundreds, so that two of one
 * number are not to be expected; were there any, a pod would begin with another's intensity and
 * learn its own. */
#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* Numbers travel in recordings, and readers of JSON hold no more exactly. Of 16384 workloads two
 * have the same one with a probability of 1.5e-8; they would share what is learnt. */
#define NUMBER_BITS 53

static uint64_t add(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * FNV_PRIME;
    return (hash ^ 0xff) * FNV_PRIME; /* a byte that is in no UTF-8: "a", "bc" is not "ab", "c" */
}

static uint64_t of_pod(const struct agent_names *names)
{
    uint64_t hash = add(add(FNV_BASIS, "pod"), names->namespace_);

    if (names->owner_kind[0] == '\0')
        return add(hash, names->name);
    return add(add(hash, names->owner_kind), names->owner_name);
}

uint64_t agent_number_of(enum kw_workload_kind kind, const char *id)
{
    uint64_t hash = add(add(FNV_BASIS, kw_workload_kind_names[kind]), id) >> (64 - NUMBER_BITS);

    return hash != 0 ? hash : 1;
}

uint64_t agent_kin_of(const struct agent_label *label, const struct agent_names *names)
{
    uint64_t hash = 0;

    if (names != NULL && names->vm && names->uuid[0] != '\0')
        return add(add(FNV_BASIS, "machine"), names->uuid);
    switch (label->kind) {
    case KW_WORKLOAD_POD: hash = names != NULL ? of_pod(names) : 0; break;
    case KW_WORKLOAD_CONTAINER:
        hash = names != NULL ? add(add(FNV_BASIS, "container"), names->name) : 0;
        break;
    case KW_WORKLOAD_UNIT:
    case KW_WORKLOAD_VM:
    case KW_WORKLOAD_CGROUP:
        hash = add(add(FNV_BASIS, kw_workload_kind_names[label->kind]), label->id);
        break;
    case KW_WORKLOAD__MAX: break;
    }
    return hash;
}
