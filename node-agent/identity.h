/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/pod_record.h"

/*
 * Who a cgroup belongs to, from its path alone (pure): Kubernetes pods and containers of both
 * cgroup drivers, docker, containerd, CRI-O, podman and BuildKit containers, LXC, libvirt and
 * systemd-nspawn containers, systemd units, QEMU machines, and plain cgroups.
 */

#define AGENT_ID_MAX   256
/** Longest path of a workload. Real ones, also of nested nodes, have some 300 bytes. */
#define AGENT_PATH_MAX 1024

struct agent_identity {
    enum kw_workload_kind kind;
    enum kw_qos qos; /**< of a pod, by its place in the tree; KW_QOS_NONE where that says nothing */
    char id[AGENT_ID_MAX]; /**< workload id as in api/pod_record.h; printable ASCII; a path that is
                              too long for it, or holds other bytes, ends in '~' and a hash */
    char name[AGENT_ID_MAX]; /**< for people, from the path: unit name, last component, short id */
    char container_id[AGENT_ID_MAX]; /**< full id; "" for a pod's own cgroup and outside containers
                                      */
    char runtime[16];                /**< "containerd", "cri-o", "docker", "podman", "buildkit",
                                        "lxc", "libvirt-lxc", "systemd-nspawn"; "" unknown */
    char workload_path[AGENT_PATH_MAX]; /**< the topmost cgroup of the workload:
                                           "/kubepods/burstable/podX" for anything below it; the
                                           kernel's bytes as they are; "" where it does not fit */
};

/**
 * @param path below the hierarchy's mount; starts with '/'.
 * @return true and *ret; false where the path is the root or a grouping node of its own kind (a
 * slice, "kubepods"): time found there is the system's.
 */
bool agent_identity_from_path(const char *path, struct agent_identity *ret);
