# SPDX-License-Identifier: Apache-2.0
"""One node of a cluster: network, cgroup root, containerd, kubelet, kube-proxy. Why each setting is there stands beside it."""
import contextlib
import json
import os
import pathlib
import signal

from archive import PAUSE
from process import call, need, wait_for

CGROUPS = pathlib.Path("/sys/fs/cgroup")
CNI_FOLDER = "/usr/lib/cni"     # where Debian's containernetworking-plugins puts them


def hierarchies() -> list[pathlib.Path]:
    """Mount points of all cgroup trees: one on v2 hosts, one a controller and often v2 as well elsewhere."""
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind = line.split()[:3]
        if kind in ("cgroup", "cgroup2"):
            found.append(pathlib.Path(folder))
    return found


def make_cgroup(path: str) -> None:
    """The cgroup in every tree, able to take processes and to hand controllers down."""
    for mount in hierarchies():
        folder = mount
        for name in path.strip("/").split("/"):
            if (folder / "cgroup.controllers").exists():    # v2: what the kubelet hands down must be handed down to it
                for controller in (folder / "cgroup.controllers").read_text().split():
                    with contextlib.suppress(OSError):      # some cannot be, on some machines: the kubelet says what it lacks
                        (folder / "cgroup.subtree_control").write_text(f"+{controller}")
            folder /= name
            folder.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):     # v1: empty in a new one, and then it takes no process
                if (folder / file).exists() and not (folder / file).read_text().strip():
                    with contextlib.suppress(OSError):      # v2 has empty ones, too, and they mean "as above"
                        (folder / file).write_text((folder.parent / file).read_text())


def favour_cgroup(path: str) -> None:
    """Nodes get CPU time before what else the machine does, as far as they want it: loads of pods are to be what they were told."""
    for mount in hierarchies():
        for file, weight in (("cpu.shares", 8192), ("cpu.weight", 800)):    # eight times the usual, of v1 and v2
            if (mount / path.strip("/") / file).exists():
                (mount / path.strip("/") / file).write_text(str(weight))


def remove_cgroup(path: str) -> None:
    """With all below. Its processes have ended."""
    def gone() -> bool:
        for mount in hierarchies():
            top = mount / path.strip("/")
            for folder in sorted((p for p in top.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
                folder.rmdir()
            if top.is_dir():
                top.rmdir()
        return True
    wait_for(f"cgroup {path} to be empty", gone)


class Node:
    """Number 1 shares the network of the control plane."""

    def __init__(self, cluster, number: int):
        self.cluster, self.control, self.number = cluster, cluster.control, number
        self.name = f"node{number}"
        self.dir = cluster.dir / self.name
        self.net = "" if number == 1 else self.name
        self.ip = cluster.address(0, number)
        self.pods = f"{cluster.prefix}.{128 + number}.0/24"
        self.cgroup = f"/{cluster.id}-{self.name}"
        self.socket = self.dir / "containerd.sock"

    def connect_network(self) -> None:
        run = self.control.run
        if self.net:
            run("ip", "netns", "add", self.net)
            run("ip", "link", "add", f"to-{self.name}", "type", "veth", "peer", "name", "eth0", "netns", self.net)
            run("ip", "link", "set", f"to-{self.name}", "master", "br0", "up")
            for words in (f"link set lo up|addr add {self.ip}/24 dev eth0|link set eth0 up|"
                          f"route add default via {self.cluster.address(0, 1)}").split("|"):   # the kubelet wants a default route
                run("ip", "-n", self.net, *words.split())
            run("ip", "route", "add", self.pods, "via", self.ip)
        run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward", net=self.net)

    def start_containerd(self) -> None:
        """Before the API server is there: it needs nothing of it."""
        (self.dir / "cni").mkdir(parents=True, exist_ok=True)
        make_cgroup(f"{self.cgroup}/system")
        favour_cgroup(self.cgroup)
        (self.dir / "cni/10-kwatt.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "kwatt", "plugins": [
            {"type": "bridge", "bridge": f"pods{self.number}", "isGateway": True, "ipMasq": False, "hairpinMode": True,
             "ipam": {"type": "host-local", "dataDir": str(self.dir / "ipam"), "ranges": [[{"subnet": self.pods}]],
                      "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        cri = '[plugins."io.containerd.grpc.v1.cri"'
        (self.dir / "containerd.toml").write_text(f"""version = 2
root = "{self.dir}/root"
state = "{self.dir}/state"
[grpc]
address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{self.dir}/opt"
{cri}]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE runc cannot lower an oom score, and dies
{cri}.cni]
bin_dir = "{CNI_FOLDER}"
conf_dir = "{self.dir}/cni"
{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
""")
        self.spawn("containerd", ["containerd", "-c", self.dir / "containerd.toml"])

    def spawn(self, what: str, argv: list) -> None:
        """A program of the node: it runs in the node's network, and in its cgroup `system`."""
        groups = [mount / f"{self.cgroup}/system".strip("/") for mount in hierarchies() if "cpuset" not in str(mount)]
        self.control.spawn(f"{self.name}-{what}", argv, self.net, groups)

    def load(self, *archives: pathlib.Path) -> None:
        """Puts image archives into the node."""
        for each in archives:
            wait_for(f"{self.name}: {each.name}", lambda path=each: self.ctr("images", "import", str(path)))

    def ctr(self, *args: str) -> str:
        return call([need("ctr", "containerd"), "-a", str(self.socket), "-n", "k8s.io", *args]) or "done"

    def start_kubelet(self) -> None:
        pki, cluster = self.cluster.authority.folder, self.cluster
        (self.dir / "resolv.conf").write_text("")       # no way out of the cluster
        (self.dir / "kubelet.json").write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": self.ip,
            "failCgroupV1": False, "failSwapOn": False,
            "cgroupDriver": "cgroupfs", "cgroupRoot": self.cgroup, "enforceNodeAllocatable": ["pods"],
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": f"{pki}/ca.crt"}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{pki}/{self.name}.crt", "tlsPrivateKeyFile": f"{pki}/{self.name}.key",
            "clusterDomain": "cluster.local", "clusterDNS": [cluster.address(1, 10)], "resolvConf": f"{self.dir}/resolv.conf",
            "podLogsDir": str(self.dir / "pod-logs"), "volumePluginDir": str(self.dir / "volume-plugins"),
            "maxPods": 110, "serializeImagePulls": False,
            # disks of test machines are full more often than a test likes
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi"}}))
        self.spawn("kubelet", [
            cluster.bin / "kubelet", "--config", self.dir / "kubelet.json", "--kubeconfig", self.dir / "kubeconfig",
            "--hostname-override", self.name, "--node-ip", self.ip, "--root-dir", self.dir / "kubelet",
            "--cert-dir", self.dir / "kubelet-pki"])

    def start_proxy(self) -> None:
        cluster = self.cluster
        (self.dir / "proxy.json").write_text(json.dumps({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
            "clientConnection": {"kubeconfig": str(cluster.dir / "admin.kubeconfig")}, "hostnameOverride": self.name,
            "clusterCIDR": f"{cluster.prefix}.128.0/17",
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}))
        self.spawn("kube-proxy", [cluster.bin / "kube-proxy", "--config", self.dir / "proxy.json"])

    def power_off(self) -> None:
        """As if its cable were pulled: everything on it ends at once, pods included."""
        for what in ("kubelet", "kube-proxy", "containerd"):
            self.control.stop(f"{self.name}-{what}", signal.SIGKILL)

        def dark() -> bool:
            left = {pid for mount in hierarchies() for file in (mount / self.cgroup.strip("/")).rglob("cgroup.procs")
                    for pid in file.read_text().split()}
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            return not left
        wait_for(f"{self.name} to be dark", dark)

    def power_on(self) -> None:
        self.start_containerd()
        wait_for(f"containerd of {self.name}", lambda: self.ctr("version"))
        self.start_kubelet()
        self.start_proxy()

    def pod_cgroup(self, uid: str) -> pathlib.Path:
        """Folder of a pod's cgroup in the tree that counts its CPU time."""
        tree = next((m for m in hierarchies() if (m / "cpuacct.usage").exists()), hierarchies()[0])
        return next((tree / self.cgroup.strip("/")).glob(f"kubepods/**/pod{uid}"))
