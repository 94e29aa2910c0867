/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/identity.h"
#include "tests/support/cmocka.h"

#define UID       "4eb0d6a3-17c5-4d21-9a67-0d5b3fb9c1e2"
#define UID_      "4eb0d6a3_17c5_4d21_9a67_0d5b3fb9c1e2"
#define HASH      "2f0d3a4b5c6d7e8f9a0b1c2d3e4f5a6b"
#define CID       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CID2      "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define CID_SHORT "0123456789ab"
#define STEP      "k3j9a0c1d2e3f4g5h6i7j8k9l" /* of a build */

/* What comes before it in the tree, as a kind node has it. */
#define KIND "/docker/" CID2

enum {
    POD = KW_WORKLOAD_POD,
    CONTAINER = KW_WORKLOAD_CONTAINER,
    UNIT = KW_WORKLOAD_UNIT,
    VM = KW_WORKLOAD_VM,
    CGROUP = KW_WORKLOAD_CGROUP,
    SYSTEM = KW_WORKLOAD__MAX
};

struct row {
    const char *path;
    int kind;
    const char *id; /* NULL: as workload */
    const char *name;
    const char *container; /* NULL: "" */
    const char *runtime;   /* NULL: "" */
    const char *workload;  /* NULL: the whole path */
};

static const struct row rows[] = {
    /* kubelet, systemd driver */
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
     ".slice/cri-containerd-" CID ".scope",
     POD, UID, "4eb0d6a3", CID, "containerd",
     "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"},
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" CID
     ".scope",
     POD, UID, "4eb0d6a3", CID, "cri-o",
     "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice"},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice/docker-" CID ".scope", POD, UID, "4eb0d6a3", CID,
     "docker", "/kubepods.slice/kubepods-pod" UID_ ".slice"},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice", POD, UID, "4eb0d6a3", NULL, NULL, NULL},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" CID ".scope/container", POD, UID,
     "4eb0d6a3", CID, "cri-o", "/kubepods.slice/kubepods-pod" UID_ ".slice"},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" CID ".scope", POD, UID, "4eb0d6a3",
     NULL, NULL, "/kubepods.slice/kubepods-pod" UID_ ".slice"},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" HASH
     ".slice/cri-containerd-" CID ".scope",
     POD, HASH, "2f0d3a4b5c6d", CID, "containerd",
     "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" HASH ".slice"},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice/libpod-" CID ".scope", POD, UID, "4eb0d6a3", CID,
     "podman", "/kubepods.slice/kubepods-pod" UID_ ".slice"},
    /* kubelet, cgroupfs driver */
    {"/kubepods/burstable/pod" UID "/" CID, POD, UID, "4eb0d6a3", CID, NULL,
     "/kubepods/burstable/pod" UID},
    {"/kubepods/besteffort/pod" UID "/" CID, POD, UID, "4eb0d6a3", CID, NULL,
     "/kubepods/besteffort/pod" UID},
    {"/kubepods/pod" UID "/" CID, POD, UID, "4eb0d6a3", CID, NULL, "/kubepods/pod" UID},
    {"/kubepods/pod" UID, POD, UID, "4eb0d6a3", NULL, NULL, NULL},
    {"/kubepods/burstable/pod" HASH "/" CID, POD, HASH, "2f0d3a4b5c6d", CID, NULL,
     "/kubepods/burstable/pod" HASH},
    {"/kubepods/pod" UID "/crio-" CID, POD, UID, "4eb0d6a3", CID, "cri-o", "/kubepods/pod" UID},
    {"/kubepods/pod" UID "/crio-conmon-" CID, POD, UID, "4eb0d6a3", NULL, NULL,
     "/kubepods/pod" UID},
    {"/kubepods/pod" UID "/kata_" CID, POD, UID, "4eb0d6a3", CID, NULL, "/kubepods/pod" UID},
    {"/kubepods/pod" UID "/" CID "/init.scope", POD, UID, "4eb0d6a3", CID, NULL,
     "/kubepods/pod" UID},
    {"/kubepods/pod" UID "/" CID "/docker/" CID2, POD, UID, "4eb0d6a3", CID, NULL,
     "/kubepods/pod" UID},
    {"/kubepods/pod" UID "/" CID "/kubelet/kubepods/pod11111111-2222-3333-4444-555555555555/" CID2,
     POD, UID, "4eb0d6a3", CID, NULL, "/kubepods/pod" UID},
    {"/kubepods/burstable/podnode-7-static", POD, "node-7-static", "node-7-static", NULL, NULL,
     NULL},
    /* nested kubelets: kind (both drivers), k3s, rke2 */
    {KIND "/kubelet/kubepods/burstable/pod" UID "/" CID, POD, UID, "4eb0d6a3", CID, NULL,
     KIND "/kubelet/kubepods/burstable/pod" UID},
    {"/system.slice/docker-" CID2 ".scope/kubelet.slice/kubelet-kubepods.slice/"
     "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" UID_
     ".slice/cri-containerd-" CID ".scope",
     POD, UID, "4eb0d6a3", CID, "containerd",
     "/system.slice/docker-" CID2 ".scope/kubelet.slice/kubelet-kubepods.slice/"
     "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" UID_ ".slice"},
    {"/k3s/kubepods/besteffort/pod" UID "/" CID, POD, UID, "4eb0d6a3", CID, NULL,
     "/k3s/kubepods/besteffort/pod" UID},
    {"/system.slice/k3s.service/kubepods/besteffort/pod" UID "/" CID, POD, UID, "4eb0d6a3", CID,
     NULL, "/system.slice/k3s.service/kubepods/besteffort/pod" UID},
    {"/libpod_parent/libpod-" CID2 "/kubelet/kubepods/pod" UID, POD, UID, "4eb0d6a3", NULL, NULL,
     NULL},
    {"/machine.slice/libpod-" CID2 ".scope/container/kubelet.slice/kubelet-kubepods.slice/"
     "kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" CID ".scope",
     POD, UID, "4eb0d6a3", CID, "containerd",
     "/machine.slice/libpod-" CID2 ".scope/container/kubelet.slice/kubelet-kubepods.slice/"
     "kubelet-kubepods-pod" UID_ ".slice"},
    {"/docker/" CID2 "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
     ".slice/docker-" CID ".scope",
     POD, UID, "4eb0d6a3", CID, "docker",
     "/docker/" CID2 "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
     ".slice"},
    {"/machine.slice/systemd-nspawn@node1.service/payload/kubepods/pod" UID "/" CID, POD, UID,
     "4eb0d6a3", CID, NULL, "/machine.slice/systemd-nspawn@node1.service/payload/kubepods/pod" UID},
    {"/user.slice/user-1000.slice/user@1000.service/app.slice/k3s-rootless.service/k8s.io/"
     "kubepods/burstable/pod" UID "/" CID,
     POD, UID, "4eb0d6a3", CID, NULL,
     "/user.slice/user-1000.slice/user@1000.service/app.slice/k3s-rootless.service/k8s.io/"
     "kubepods/burstable/pod" UID},
    /* drivers at odds */
    {"/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" CID,
     POD, UID, "4eb0d6a3", CID, "containerd", NULL},
    {"/kubepods-pod" UID_ ".slice:crio:" CID "/container", POD, UID, "4eb0d6a3", CID, "cri-o",
     "/kubepods-pod" UID_ ".slice:crio:" CID},
    /* grouping nodes of Kubernetes */
    {"/kubepods", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/kubepods/burstable", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/kubepods/besteffort", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/kubepods.slice", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/kubepods.slice/kubepods-burstable.slice", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/kubelet.slice/kubelet-kubepods.slice", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    /* containers without Kubernetes */
    {"/docker/" CID, CONTAINER, CID, CID_SHORT, CID, "docker", NULL},
    {"/docker/" CID "/system.slice/containerd.service", CONTAINER, CID, CID_SHORT, CID, "docker",
     "/docker/" CID},
    {"/docker/" CID "/docker/" CID2, CONTAINER, CID, CID_SHORT, CID, "docker", "/docker/" CID},
    {"/system.slice/docker-" CID ".scope", CONTAINER, CID, CID_SHORT, CID, "docker", NULL},
    {"/system.slice/docker-" CID ".scope/init", CONTAINER, CID, CID_SHORT, CID, "docker",
     "/system.slice/docker-" CID ".scope"},
    {"/system.slice/cri-containerd-" CID ".scope", CONTAINER, CID, CID_SHORT, CID, "containerd",
     NULL},
    {"/system.slice/crio-" CID ".scope", CONTAINER, CID, CID_SHORT, CID, "cri-o", NULL},
    {"/machine.slice/libpod-" CID ".scope", CONTAINER, CID, CID_SHORT, CID, "podman", NULL},
    {"/machine.slice/libpod-" CID ".scope/container", CONTAINER, CID, CID_SHORT, CID, "podman",
     "/machine.slice/libpod-" CID ".scope"},
    {"/libpod_parent/libpod-" CID, CONTAINER, CID, CID_SHORT, CID, "podman", NULL},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" CID ".scope/container",
     CONTAINER, CID, CID_SHORT, CID, "podman",
     "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" CID ".scope"},
    {"/system.slice/nerdctl-" CID ".scope", CONTAINER, CID, CID_SHORT, CID, "containerd", NULL},
    {"/default/" CID, CONTAINER, CID, CID_SHORT, CID, "containerd", NULL},
    {"/default/redis", CONTAINER, NULL, "redis", "redis", "containerd", NULL},
    {"/moby/redis", CONTAINER, NULL, "redis", "redis", "containerd", NULL},
    {"/k8s.io/" CID, CONTAINER, CID, CID_SHORT, CID, "containerd", NULL},
    {"/ci-jobs/" CID, CONTAINER, CID, CID_SHORT, CID, "containerd", NULL},
    {"/actions_job/deep/" CID, CONTAINER, CID, CID_SHORT, CID, NULL, NULL},
    {"/system.slice/containerd-" CID ".scope", CONTAINER, CID, CID_SHORT, CID, "containerd", NULL},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" CID ".scope", CONTAINER,
     CID, CID_SHORT, CID, "docker", NULL},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-" CID ".scope", CONTAINER,
     CID, CID_SHORT, CID, "containerd", NULL},
    /* podman's pods, both drivers, and units that keep their container within */
    {"/machine.slice/machine-libpod_pod_" CID2 ".slice/libpod-" CID ".scope/container", CONTAINER,
     CID, CID_SHORT, CID, "podman",
     "/machine.slice/machine-libpod_pod_" CID2 ".slice/libpod-" CID ".scope"},
    {"/machine.slice/machine-libpod_pod_" CID2 ".slice", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_" CID2
     ".slice/libpod-" CID ".scope",
     CONTAINER, CID, CID_SHORT, CID, "podman", NULL},
    {"/libpod_parent/" CID2 "/libpod-" CID, CONTAINER, CID, CID_SHORT, CID, "podman", NULL},
    {"/libpod_parent/" CID2, SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/system.slice/web.service/libpod-payload-" CID, CONTAINER, CID, CID_SHORT, CID, "podman",
     NULL},
    {"/system.slice/web.service/libpod-payload-" CID "/init.scope", CONTAINER, CID, CID_SHORT, CID,
     "podman", "/system.slice/web.service/libpod-payload-" CID},
    {"/system.slice/web.service/runtime", UNIT, "/system.slice/web.service", "web.service", NULL,
     NULL, "/system.slice/web.service"},
    {"/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/libpod-payload-" CID,
     CONTAINER, CID, CID_SHORT, CID, "podman", NULL},
    /* builds */
    {"/docker/buildkit/" STEP, CONTAINER, STEP, "k3j9a0c1d2e3", STEP, "buildkit", NULL},
    {"/buildkit/" STEP, CONTAINER, STEP, "k3j9a0c1d2e3", STEP, "buildkit", NULL},
    {"/system.slice/docker-" STEP ".scope", CONTAINER, STEP, "k3j9a0c1d2e3", STEP, "docker", NULL},
    {"/system.slice/docker-build.scope", UNIT, NULL, "docker-build.scope", NULL, NULL, NULL},
    {"/docker/buildkit", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    /* LXC (Incus, LXD; the older tree: Proxmox), libvirt's, systemd's */
    {"/lxc.payload.web", CONTAINER, NULL, "web", "web", "lxc", NULL},
    {"/lxc.payload.web/system.slice/cron.service", CONTAINER, "/lxc.payload.web", "web", "web",
     "lxc", "/lxc.payload.web"},
    {"/lxc/101/ns/system.slice/cron.service", CONTAINER, "/lxc/101", "101", "101", "lxc",
     "/lxc/101"},
    {"/lxc", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/machine/lxc-1268-sl.libvirt-lxc", CONTAINER, NULL, "sl", "sl", "libvirt-lxc", NULL},
    {"/machine.slice/machine-lxc\\x2d1268\\x2dsl.scope/system.slice/cron.service", CONTAINER,
     "/machine.slice/machine-lxc\\x2d1268\\x2dsl.scope", "sl", "sl", "libvirt-lxc",
     "/machine.slice/machine-lxc\\x2d1268\\x2dsl.scope"},
    {"/machine.slice/systemd-nspawn@dns\\x2d1.service/payload/system.slice/bind9.service",
     CONTAINER, "/machine.slice/systemd-nspawn@dns\\x2d1.service", "dns-1", "dns-1",
     "systemd-nspawn", "/machine.slice/systemd-nspawn@dns\\x2d1.service"},
    {"/machine.slice/systemd-nspawn@dns.service/supervisor", CONTAINER,
     "/machine.slice/systemd-nspawn@dns.service", "dns", "dns", "systemd-nspawn",
     "/machine.slice/systemd-nspawn@dns.service"},
    {"/machine.slice/machine-buster.scope/payload/init.scope", CONTAINER,
     "/machine.slice/machine-buster.scope", "buster", "buster", NULL,
     "/machine.slice/machine-buster.scope"},
    {"/machine.slice/machine-buster.scope", CONTAINER, NULL, "buster", "buster", NULL, NULL},
    {"/machine.slice/systemd-vmspawn@win.service", VM, NULL, "win", NULL, NULL, NULL},
    {"/machine.slice/systemd-machined.service", UNIT, NULL, "systemd-machined.service", NULL, NULL,
     NULL},
    {"/docker", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/libpod_parent", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    /* a container's watcher is no container */
    {"/machine.slice/libpod-conmon-" CID ".scope", UNIT, NULL, "libpod-conmon-" CID ".scope", NULL,
     NULL, NULL},
    /* machines */
    {"/machine.slice/machine-qemu\\x2d3\\x2dweb\\x2d01.scope", VM,
     "/machine.slice/machine-qemu\\x2d3\\x2dweb\\x2d01.scope", "web-01", NULL, NULL, NULL},
    {"/machine.slice/machine-qemu\\x2d3\\x2dweb.scope/libvirt/vcpu0", VM,
     "/machine.slice/machine-qemu\\x2d3\\x2dweb.scope", "web", NULL, NULL,
     "/machine.slice/machine-qemu\\x2d3\\x2dweb.scope"},
    {"/machine/qemu-1-db.libvirt-qemu/emulator", VM, "/machine/qemu-1-db.libvirt-qemu", "db", NULL,
     NULL, "/machine/qemu-1-db.libvirt-qemu"},
    {"/qemu.slice/100.scope", VM, "/qemu.slice/100.scope", "100", NULL, NULL, NULL},
    {"/machine", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    /* units */
    {"/system.slice/nginx.service", UNIT, NULL, "nginx.service", NULL, NULL, NULL},
    {"/system.slice/kubelet.service", UNIT, NULL, "kubelet.service", NULL, NULL, NULL},
    {"/system.slice/containerd.service", UNIT, NULL, "containerd.service", NULL, NULL, NULL},
    {"/system.slice/postgresql.service/workers/7", UNIT, "/system.slice/postgresql.service",
     "postgresql.service", NULL, NULL, "/system.slice/postgresql.service"},
    {"/system.slice/php.service/pool.service", UNIT, "/system.slice/php.service", "php.service",
     NULL, NULL, "/system.slice/php.service"},
    {"/system.slice/system-getty.slice/getty@tty1.service", UNIT, NULL, "getty@tty1.service", NULL,
     NULL, NULL},
    {"/system.slice/dev-hugepages.mount", UNIT, NULL, "dev-hugepages.mount", NULL, NULL, NULL},
    {"/init.scope", UNIT, NULL, "init.scope", NULL, NULL, NULL},
    {"/user.slice/user-1000.slice/session-3.scope", UNIT, NULL, "session-3.scope (user 1000)", NULL,
     NULL, NULL},
    {"/user.slice/user-1000.slice/user@1000.service/init.scope", UNIT, NULL,
     "init.scope (user 1000)", NULL, NULL, NULL},
    {"/user.slice/user-1000.slice/user@1000.service/app.slice/firefox.service", UNIT, NULL,
     "firefox.service (user 1000)", NULL, NULL, NULL},
    {"/user.slice/user-1000.slice/user@1000.service/app.slice/app-a.slice/b.scope/deep", UNIT,
     "/user.slice/user-1000.slice/user@1000.service/app.slice/app-a.slice/b.scope",
     "b.scope (user 1000)", NULL, NULL,
     "/user.slice/user-1000.slice/user@1000.service/app.slice/app-a.slice/b.scope"},
    {"/user.slice/user-1000.slice/user@1000.service", UNIT, NULL, "user@1000.service", NULL, NULL,
     NULL},
    {"/user.slice", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/user.slice/user-1000.slice", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/system.slice", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    /* the rest */
    {"/", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"//", SYSTEM, NULL, NULL, NULL, NULL, NULL},
    {"/batch", CGROUP, NULL, "batch", NULL, NULL, NULL},
    {"/batch/job-17", CGROUP, NULL, "job-17", NULL, NULL, NULL},
    {"/kubelet", CGROUP, NULL, "kubelet", NULL, NULL, NULL},
    {"/podinfo", CGROUP, NULL, "podinfo", NULL, NULL, NULL},
    {"/burstable/pod" UID, CGROUP, NULL, "pod" UID, NULL, NULL, NULL},
    {"/lxc.monitor.web", CGROUP, NULL, "lxc.monitor.web", NULL, NULL, NULL},
    {"/.scope", CGROUP, NULL, ".scope", NULL, NULL, NULL},
    {"/docker/not-an-id", CGROUP, NULL, "not-an-id", NULL, NULL, NULL},
    {"/x/"
     "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
     CGROUP, NULL, "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", NULL, NULL,
     NULL},
};

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static void test_paths(void **state)
{
    (void)state;
    assert_true(KW_ARRAY_SIZE(rows) >= 60);
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        const struct row *row = &rows[i];
        struct agent_identity identity;
        bool known = agent_identity_from_path(row->path, &identity);
        print_message("%s\n", row->path);
        assert_int_equal(known, row->kind != SYSTEM);
        if (!known)
            continue;
        const char *workload = row->workload != NULL ? row->workload : row->path;
        assert_int_equal(identity.kind, row->kind);
        assert_string_equal(identity.workload_path, workload);
        assert_string_equal(identity.id, row->id != NULL ? row->id : workload);
        assert_string_equal(identity.name, row->name);
        assert_string_equal(identity.container_id, or_empty(row->container));
        assert_string_equal(identity.runtime, or_empty(row->runtime));
    }
}

/* Two paths that are too long for an id, or hold bytes that no id may, stay two ids. */
static void test_ids_stay_unique(void **state)
{
    char a[600], b[600];
    struct agent_identity x, y;

    (void)state;
    memset(a, 'a', sizeof(a));
    a[0] = '/';
    a[sizeof(a) - 1] = '\0';
    memcpy(b, a, sizeof(a));
    b[sizeof(b) - 2] = 'b';
    assert_true(agent_identity_from_path(a, &x));
    assert_true(agent_identity_from_path(b, &y));
    assert_string_not_equal(x.id, y.id);
    assert_int_equal(strlen(x.id), AGENT_ID_MAX - 1);
    assert_string_equal(x.workload_path, a);

    assert_true(agent_identity_from_path("/caf\xc3\xa9", &x));
    assert_true(agent_identity_from_path("/caf\xc3\xa8", &y));
    assert_string_not_equal(x.id, y.id);
    assert_string_equal(x.name, "caf??");
    assert_string_equal(x.workload_path, "/caf\xc3\xa9");
}

static void test_workload_path_that_does_not_fit(void **state)
{
    char path[AGENT_PATH_MAX + 10];
    struct agent_identity identity;

    (void)state;
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_true(agent_identity_from_path(path, &identity));
    assert_string_equal(identity.workload_path, "");
    path[AGENT_PATH_MAX - 1] = '\0';
    assert_true(agent_identity_from_path(path, &identity));
    assert_string_equal(identity.workload_path, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_ids_stay_unique),
        cmocka_unit_test(test_workload_path_that_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
