/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/identity.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/identity_machine.h"
#include "node-agent/path_part.h"

/*
 * A path is read component by component, and the first rule that knows one decides. The order is
 * that of ownership: a pod owns whatever its containers nest (docker in a pod), so pods come first,
 * then machines and containers, the outermost of them, then units, then the plain cgroup.
 *
 *   pod        .../kubepods/[burstable|besteffort/]pod<uid>          kubelet, cgroupfs driver
 *              .../[x-]kubepods[-qos]-pod<uid with _>.slice          kubelet, systemd driver
 *              .../kubepods[-qos]-pod<uid>.slice:<prefix>:<id>       drivers of kubelet and runtime
 *                                                                at odds
 *   machine    machine-[qemu\x2d1\x2d]<name>.scope, systemd-nspawn@<name>.service,
 *              <name>.libvirt-qemu, <name>.libvirt-lxc, qemu.slice/100.scope, lxc.payload.<name>,
 *              /lxc/<name>
 *   container  docker-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, libpod-<id>.scope,
 *              nerdctl-<id>.scope, libpod-payload-<id>, /docker/<id>, libpod-<id>, buildkit/<id>,
 *              /<namespace>/<id>
 *   unit       *.service, *.scope, ... of systemd, with its own user's units below user@N.service
 *
 * A uid is a UUID, or the hash of 32 hex digits by which the kubelet names static pods; below the
 * exact name "kubepods" anything that Kubernetes could use as a uid. systemd writes '-' of a uid as
 * '_'. What is below a workload's topmost cgroup (a container's init system, CRI-O's "container", a
 * service's delegated tree) belongs to the workload. What follows here is bounded by the length of
 * the path.
 */

#define HASH_UID_LEN     32 /* MD5 of the static pod's manifest */
#define CONTAINER_ID_LEN 64
#define BUILD_ID_LEN     25 /* of a step of BuildKit, in base 36 */
#define SHORT_ID_LEN     12 /* what docker ps shows */
#define SHORT_UID_LEN    8

static void set_runtime(struct agent_identity *ret, const char *runtime)
{
    (void)snprintf(ret->runtime, sizeof(ret->runtime), "%s", runtime);
}

/* The workload is `path` up to the end of `last`. */
static void set_workload(struct agent_identity *ret, const char *path, struct agent_part last)
{
    size_t n = (size_t)(last.at + last.len - path);

    if (n >= sizeof(ret->workload_path))
        n = 0;
    (void)memcpy(ret->workload_path, path, n);
    ret->workload_path[n] = '\0';
}

static struct agent_part whole(const char *path, struct agent_part last)
{
    return (struct agent_part){path, (size_t)(last.at + last.len - path)};
}

/* ------------------------------------------------------------------ containers */

struct scope_prefix {
    const char *prefix, *runtime;
};

/* "PREFIX<64 hex>" with or without ".scope": who writes what. */
static const struct scope_prefix scope_prefixes[] = {
    {"cri-containerd-", "containerd"},
    {"containerd-", "containerd"},
    {"crio-", "cri-o"},
    {"docker-", "docker"},
    {"libpod-payload-", "podman"}, /* --cgroups=split, as Quadlet's units have it */
    {"libpod-", "podman"},
    {"nerdctl-", "containerd"},
    {"kata_", ""},
};

/* What runs a step of a build, in docker's own BuildKit or in one by itself. */
static bool is_build_step(struct agent_part id)
{
    for (size_t i = 0; i < id.len; i++) {
        if (!(id.at[i] >= 'a' && id.at[i] <= 'z') && !(id.at[i] >= '0' && id.at[i] <= '9'))
            return false;
    }
    return id.len == BUILD_ID_LEN;
}

/* A component that names a container whatever stands around it. */
static bool container_from_part(struct agent_part part, struct agent_part *ret_id,
                                const char **ret_runtime)
{
    struct agent_part id = part;

    *ret_runtime = "";
    (void)agent_part_strip_suffix(&id, ".scope");
    for (size_t i = 0; i < KW_ARRAY_SIZE(scope_prefixes); i++) {
        if (agent_part_strip_prefix(&id, scope_prefixes[i].prefix)) {
            *ret_runtime = scope_prefixes[i].runtime;
            break;
        }
    }
    *ret_id = id;
    return agent_part_is_hex(id, CONTAINER_ID_LEN) ||
           (strcmp(*ret_runtime, "docker") == 0 && is_build_step(id));
}

static void set_container(struct agent_identity *ret, struct agent_part id, const char *runtime)
{
    agent_part_copy_id(ret->container_id, AGENT_ID_MAX, id);
    set_runtime(ret, runtime);
}

static bool is_namespace_of_containerd(struct agent_part part)
{
    return agent_part_is(part, "default") || agent_part_is(part, "k8s.io") ||
           agent_part_is(part, "moby");
}

/* podman's pods with the cgroupfs driver: /libpod_parent/<id of the pod>/libpod-<id> */
static bool is_podman_pod(struct agent_part before, struct agent_part part)
{
    return before.at != NULL && agent_part_is(before, "libpod_parent") &&
           agent_part_is_hex(part, CONTAINER_ID_LEN);
}

/* Containers outside Kubernetes. */
static bool from_container(const char *path, struct agent_part before, struct agent_part part,
                           bool top, struct agent_identity *ret)
{
    struct agent_part id;
    const char *runtime;

    if (is_podman_pod(before, part))
        return false;
    if (!container_from_part(part, &id, &runtime)) {
        /* ctr and nerdctl: /<namespace>/<name>; a name is told from a plain cgroup only in the
         * namespaces that exist everywhere */
        bool step = before.at != NULL && agent_part_is(before, "buildkit") && is_build_step(part);
        if (!step && (!top || before.at == NULL || !is_namespace_of_containerd(before) ||
                      !agent_part_is_word(part)))
            return false;
        id = part;
        runtime = step ? "buildkit" : "containerd";
    } else if (runtime[0] == '\0' && before.at != NULL) {
        if (agent_part_is(before, "docker"))
            runtime = "docker";
        else if (top && id.at == part.at)
            runtime = "containerd";
    }
    ret->kind = KW_WORKLOAD_CONTAINER;
    set_container(ret, id, runtime);
    struct agent_part short_id = id;
    if (agent_part_is_hex(id, CONTAINER_ID_LEN) || is_build_step(id))
        short_id.len = SHORT_ID_LEN;
    /* a name is unique in its namespace only */
    agent_part_copy_id(ret->id, AGENT_ID_MAX, short_id.len < id.len ? id : whole(path, part));
    (void)agent_part_copy(ret->name, AGENT_ID_MAX, short_id);
    set_workload(ret, path, part);
    return true;
}

/* ------------------------------------------------------------------ pods */

static void set_pod(struct agent_identity *ret, struct agent_part uid, enum kw_qos qos)
{
    ret->kind = KW_WORKLOAD_POD;
    ret->qos = qos;
    agent_part_copy_id(ret->id, AGENT_ID_MAX, uid);
    if (agent_part_is_uuid(uid)) {
        for (char *c = ret->id; *c != '\0'; c++)
            *c = *c == '_' ? '-' : *c;
    }
    struct agent_part short_uid = uid;
    if (agent_part_is_uuid(uid))
        short_uid.len = SHORT_UID_LEN;
    else if (agent_part_is_hex(uid, HASH_UID_LEN))
        short_uid.len = SHORT_ID_LEN;
    (void)agent_part_copy(ret->name, AGENT_ID_MAX, short_uid);
}

/* The component below a pod: its container, if it is one. */
static void set_pod_container(struct agent_identity *ret, struct agent_part part)
{
    struct agent_part id;
    const char *runtime;
    struct agent_part monitor = part;

    if (part.len == 0 || agent_part_strip_prefix(&monitor, "crio-conmon-"))
        return; /* the pod itself; or CRI-O's watcher, which is the pod's but no container's */
    if (container_from_part(part, &id, &runtime))
        set_container(ret, id, runtime);
}

/* "kubepods-burstable-pod<uid>.slice", also with a prefix as nested kubelets have it. */
static bool uid_from_slice(struct agent_part part, struct agent_part *ret_uid, enum kw_qos *ret_qos)
{
    struct agent_part uid = part;

    if (!agent_part_strip_suffix(&uid, ".slice"))
        return false;
    struct agent_part rest = uid;
    bool kubepods =
        agent_part_strip_prefix(&rest, "kubepods-") || agent_part_after_last(&rest, "-kubepods-");
    if (!kubepods)
        return false;
    enum kw_qos qos = KW_QOS_GUARANTEED;
    if (agent_part_strip_prefix(&rest, "burstable-"))
        qos = KW_QOS_BURSTABLE;
    else if (agent_part_strip_prefix(&rest, "besteffort-"))
        qos = KW_QOS_BEST_EFFORT;
    if (!agent_part_strip_prefix(&rest, "pod") || !agent_part_is_word(rest))
        return false;
    *ret_uid = rest;
    *ret_qos = qos;
    return true;
}

/* "kubepods-...-pod<uid>.slice:cri-containerd:<id>": a runtime with the cgroupfs driver takes the
 * systemd notation of its kubelet for a name. */
static bool from_colon_form(const char *path, struct agent_part part, struct agent_identity *ret)
{
    const char *colon = memchr(part.at, ':', part.len);

    if (colon == NULL)
        return false;
    struct agent_part slice = {part.at, (size_t)(colon - part.at)};
    struct agent_part rest = {colon + 1, part.len - slice.len - 1};
    struct agent_part uid;
    enum kw_qos qos;
    if (!uid_from_slice(slice, &uid, &qos))
        return false;
    set_pod(ret, uid, qos);
    const char *second = memchr(rest.at, ':', rest.len);
    if (second != NULL) {
        struct agent_part prefix = {rest.at, (size_t)(second - rest.at)};
        struct agent_part id = {second + 1, rest.len - prefix.len - 1};
        const char *runtime = "";
        if (agent_part_is(prefix, "cri-containerd"))
            runtime = "containerd";
        else if (agent_part_is(prefix, "crio"))
            runtime = "cri-o";
        else if (agent_part_is(prefix, "docker"))
            runtime = "docker";
        if (agent_part_is_word(id))
            set_container(ret, id, runtime);
    }
    /* each container of the pod has a cgroup of its own here, and none is above them */
    set_workload(ret, path, part);
    return true;
}

static bool from_pod(const char *path, struct agent_identity *ret)
{
    bool in_kubepods = false;
    enum kw_qos qos = KW_QOS_GUARANTEED; /* of pods right here, by the folders above */

    for (struct agent_part part = agent_part_first(path); part.len > 0;
         part = agent_part_next(part)) {
        struct agent_part uid = part;
        if (from_colon_form(path, part, ret))
            return true;
        enum kw_qos its_qos = qos;
        bool pod = uid_from_slice(part, &uid, &its_qos);
        if (!pod && in_kubepods && agent_part_strip_prefix(&uid, "pod"))
            pod = agent_part_is_word(uid);
        if (pod) {
            set_pod(ret, uid, its_qos);
            set_workload(ret, path, part);
            set_pod_container(ret, agent_part_next(part));
            return true;
        }
        qos = KW_QOS_GUARANTEED;
        if (in_kubepods && agent_part_is(part, "burstable"))
            qos = KW_QOS_BURSTABLE;
        else if (in_kubepods && agent_part_is(part, "besteffort"))
            qos = KW_QOS_BEST_EFFORT;
        in_kubepods = agent_part_is(part, "kubepods") || qos != KW_QOS_GUARANTEED;
    }
    return false;
}

/* ------------------------------------------------------------------ machines */

static bool from_machine(const char *path, struct agent_part before, struct agent_part part,
                         bool top, struct agent_identity *ret)
{
    char text[AGENT_ID_MAX];
    struct agent_machine machine;

    if (!agent_machine_from_part(before, part, top, text, &machine))
        return false;
    ret->kind = machine.kind;
    if (machine.kind == KW_WORKLOAD_CONTAINER)
        set_container(ret, machine.name, machine.runtime);
    agent_part_copy_id(ret->id, AGENT_ID_MAX, whole(path, part));
    (void)agent_part_copy(ret->name, AGENT_ID_MAX, machine.name);
    set_workload(ret, path, part);
    return true;
}

/* ------------------------------------------------------------------ units */

static bool is_unit(struct agent_part part)
{
    static const char *const types[] = {".service", ".scope", ".socket", ".mount", ".swap"};

    for (size_t i = 0; i < KW_ARRAY_SIZE(types); i++) {
        struct agent_part name = part;
        if (agent_part_strip_suffix(&name, types[i]))
            return true;
    }
    return false;
}

static bool is_slice(struct agent_part part)
{
    struct agent_part name = part;

    return agent_part_strip_suffix(&name, ".slice");
}

/* The number of the user whose manager or slice this is. */
static bool is_user(struct agent_part part, struct agent_part *ret_uid)
{
    struct agent_part manager = part;
    struct agent_part slice = part;

    if (agent_part_strip_prefix(&manager, "user@") &&
        agent_part_strip_suffix(&manager, ".service") && agent_part_is_number(manager)) {
        *ret_uid = manager;
        return true;
    }
    if (agent_part_strip_prefix(&slice, "user-") && agent_part_strip_suffix(&slice, ".slice") &&
        agent_part_is_number(slice)) {
        *ret_uid = slice;
        return true;
    }
    return false;
}

static void name_unit(struct agent_identity *ret, struct agent_part unit, struct agent_part user)
{
    char name[AGENT_ID_MAX];

    (void)agent_part_copy(name, AGENT_ID_MAX, unit);
    if (user.at != NULL && user.at + user.len <= unit.at && user.len < 20)
        (void)snprintf(ret->name, sizeof(ret->name), "%.200s (user %.*s)", name, (int)user.len,
                       user.at);
    else
        (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
}

/* The first unit; below a user's manager, that user's unit. */
static bool from_unit(const char *path, struct agent_identity *ret)
{
    struct agent_part unit = AGENT_PART_NONE;
    struct agent_part user = AGENT_PART_NONE;

    for (struct agent_part part = agent_part_first(path); part.len > 0;
         part = agent_part_next(part)) {
        struct agent_part uid;
        bool manager = is_unit(part) && is_user(part, &uid);
        if (is_user(part, &uid))
            user = uid;
        if (is_unit(part))
            unit = part;
        else if (!is_slice(part))
            break; /* below a unit: its own affair; above any: no systemd tree */
        if (unit.at != NULL && !manager && is_unit(part))
            break;
    }
    if (unit.at == NULL)
        return false;
    ret->kind = KW_WORKLOAD_UNIT;
    agent_part_copy_id(ret->id, AGENT_ID_MAX, whole(path, unit));
    name_unit(ret, unit, user);
    set_workload(ret, path, unit);
    return true;
}

/* A node that only groups others of its kind. */
static bool is_grouping(struct agent_part before, struct agent_part last)
{
    static const char *const names[] = {"kubepods",      "docker",  "buildkit",
                                        "libpod_parent", "machine", "lxc"};

    for (size_t i = 0; i < KW_ARRAY_SIZE(names); i++) {
        if (agent_part_is(last, names[i]))
            return true;
    }
    if (is_slice(last) || is_podman_pod(before, last))
        return true;
    return before.at != NULL && agent_part_is(before, "kubepods") &&
           (agent_part_is(last, "burstable") || agent_part_is(last, "besteffort"));
}

bool agent_identity_from_path(const char *path, struct agent_identity *ret)
{
    struct agent_part before = AGENT_PART_NONE;
    struct agent_part last = AGENT_PART_NONE;
    size_t depth = 0;

    (void)memset(ret, 0, sizeof(*ret));
    if (from_pod(path, ret))
        return true;
    for (struct agent_part part = agent_part_first(path); part.len > 0;
         part = agent_part_next(part)) {
        before = last;
        last = part;
        if (from_machine(path, before, part, depth == 1, ret) ||
            from_container(path, before, part, depth == 1, ret))
            return true;
        depth++;
    }
    if (last.at == NULL)
        return false;
    if (from_unit(path, ret))
        return true;
    if (is_grouping(before, last))
        return false;
    ret->kind = KW_WORKLOAD_CGROUP;
    agent_part_copy_id(ret->id, AGENT_ID_MAX, whole(path, last));
    (void)agent_part_copy(ret->name, AGENT_ID_MAX, last);
    set_workload(ret, path, last);
    return true;
}
