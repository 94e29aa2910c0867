#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes cluster on this machine, beside whatever else runs on it.

usage: cluster.py up [--nodes N] [--scheduler-config FILE] [--metrics-server] [--vpa]   --vpa: the stock one's three programs
       cluster.py kubectl ARG...        kubectl as admin
       cluster.py exec [--node N] COMMAND...   a command inside the cluster's network (of a node)
       cluster.py status                programs, and where their logs are
       cluster.py down                  ends and removes it; harmless where nothing runs
       ... all with --state DIR         default: $KWATT_CLUSTER, else a folder of /tmp named after this checkout

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, CoreDNS, and per node containerd, kubelet and kube-proxy: all real,
all in namespaces of their own (see supervisor.py), so that clusters stand side by side and none leaves a trace. Each
has a state folder and an address range of its own. As a module: class Cluster.
"""
import argparse
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import addons  # noqa: E402  (shared modules stand one folder up)
import archive  # noqa: E402
from control import Control  # noqa: E402
from kubeapi import KubeApi  # noqa: E402
from node import CNI_FOLDER, Node, hierarchies, remove_cgroup  # noqa: E402
from pki import Authority  # noqa: E402
from process import Failure, build, call, check, need, wait_for  # noqa: E402

PREFIX = "kwatt-cluster-"
PROGRAMS = {"etcd": "etcd-server", "containerd": "containerd", "runc": "runc", "ip": "iproute2", "iptables": "iptables",
            "busybox": "busybox-static", "openssl": "openssl", "gcc": "gcc"}


def default_state() -> pathlib.Path:
    if os.environ.get("KWATT_CLUSTER"):
        return pathlib.Path(os.environ["KWATT_CLUSTER"])
    # a short path: unix sockets lie in it
    key = hashlib.sha256(os.environ.get("KWATT_BUILD_DIR", str(HERE)).encode()).hexdigest()[:8]
    return pathlib.Path(tempfile.gettempdir()) / f"{PREFIX}{key}"


def check_machine() -> None:
    """Raises Missing where a cluster cannot run here."""
    if os.geteuid() != 0:
        raise build.Missing("a cluster needs root")
    for program, package in PROGRAMS.items():
        need(program, package)
    if not pathlib.Path(CNI_FOLDER, "bridge").exists():
        raise build.Missing("no network plugins (Debian package containernetworking-plugins)")
    if not hierarchies():
        raise build.Missing("no cgroup file system is mounted")


class Cluster(KubeApi):
    def __init__(self, state: pathlib.Path | None = None):
        self.dir = (state or default_state()).resolve()
        self.id = PREFIX + hashlib.sha256(str(self.dir).encode()).hexdigest()[:8]
        # clusters do not see each other's networks; ranges differ so that a person can tell them apart
        self.prefix = f"10.{64 + int(self.id[-8:], 16) % 64}"
        self.url = f"https://{self.address(0, 1)}:6443"
        self.authority = Authority(self.dir / "pki")
        self.control = Control(self.dir)
        self.nodes: list[Node] = []
        self.bin = pathlib.Path()
        if self.record.is_file():
            known = json.loads(self.record.read_text())
            self.control.pid, self.control.started = known["pid"], known["started"]
            self.bin = pathlib.Path(known["bin"])
            self.nodes = [Node(self, n + 1) for n in range(known["nodes"])]

    @property
    def record(self) -> pathlib.Path:
        return self.dir / "cluster.json"

    def address(self, third: int, last: int) -> str:
        """10.P.0.x: nodes; 10.P.1.x: services; 10.P.(128 + node).x: pods."""
        return f"{self.prefix}.{third}.{last}"

    def alive(self) -> bool:
        return self.control.alive()

    # ---- life ----

    def find_programs(self) -> None:
        """Raises Missing where a cluster cannot run here."""
        check_machine()
        self.bin = build.kubernetes()
        self.coredns = build.programs("coredns") / "coredns"

    def up(self, nodes: int = 2, scheduler_config: str = "", master: int | None = None) -> None:
        """Starts it and waits until every node is ready. master: the process that it ends with, however that ends; default: this
        one; 0: none, it goes on until down()."""
        self.find_programs()
        self.remove_stale()
        begin = time.monotonic()
        self.dir.mkdir(mode=0o755)
        try:
            self.start(nodes, scheduler_config, os.getpid() if master is None else master)
        except BaseException:
            self.show_logs()
            self.down(keep=True)
            raise
        print(f"kwatt: a cluster of {nodes} nodes is ready after {time.monotonic() - begin:.1f} s: {self.dir}", file=sys.stderr)

    def remove_stale(self) -> None:
        """What a cluster of this state folder left behind, if its processes are gone; never anything else."""
        if not self.dir.exists():
            return
        check(self.record.is_file() or not any(self.dir.iterdir()), f"{self.dir} is not a cluster's folder")
        check(not self.alive(), f"a cluster runs in {self.dir} already")
        self.down()

    def note(self, nodes: int) -> None:
        """Before anything is made that a later process would have to remove."""
        self.record.write_text(json.dumps({"pid": self.control.pid, "started": self.control.started, "bin": str(self.bin),
                                           "nodes": nodes, "id": self.id}))

    def start(self, nodes: int, scheduler_config: str, master: int) -> None:
        self.note(nodes)
        self.control.start(master)
        self.note(nodes)
        run = self.control.run
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")   # a kernel may lack dummy devices
        run("ip", "addr", "add", f"{self.address(0, 1)}/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        run("ip", "route", "add", "default", "dev", "br0")  # the kubelet wants one
        run("mkdir", "-p", "/run/netns")
        self.nodes = [Node(self, n + 1) for n in range(nodes)]
        self.control.spawn("etcd", ["etcd", "--data-dir", self.dir / "etcd", "--unsafe-no-fsync", "--listen-client-urls",
                                    "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
                                    "--listen-peer-urls", "http://127.0.0.1:2380"])
        self.make_keys()
        self.start_apiserver()
        for node in self.nodes:
            node.connect_network()
            node.start_containerd()
        images = archive.write(self.dir)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.load(*images), self.nodes))
        self.wait_api()
        self.start_controllers()
        for node in self.nodes:
            node.start_kubelet()
            node.start_proxy()
        self.start_scheduler(scheduler_config)
        self.start_dns()
        wait_for("every node to be ready", lambda: len(self.ready_nodes()) == nodes)
        # pods are refused until the controllers have made it
        wait_for("the default service account", lambda: self.request(
            "GET", "/api/v1/namespaces/default/serviceaccounts/default"))

    def make_keys(self) -> None:
        self.authority.make()
        pairs = [("api", "/CN=api", f"IP:{self.address(0, 1)},IP:127.0.0.1,IP:{self.address(1, 1)},DNS:localhost,"
                                    "DNS:kubernetes.default.svc"),
                 ("admin", "/O=system:masters/CN=admin", "DNS:admin"), ("front-proxy", "/CN=front-proxy", "DNS:front-proxy"),
                 ("scheduler", "/CN=system:kube-scheduler", "DNS:scheduler")]
        pairs += [(n.name, f"/O=system:nodes/CN=system:node:{n.name}", f"DNS:{n.name},IP:{n.ip}") for n in self.nodes]
        for pair in pairs:
            self.authority.certificate(*pair)
        for name in ("admin", "scheduler"):
            self.authority.kubeconfig(self.dir / f"{name}.kubeconfig", self.url, self.authority.key_pair(name))
        for node in self.nodes:
            node.dir.mkdir()
            self.authority.kubeconfig(node.dir / "kubeconfig", self.url, self.authority.key_pair(node.name))

    def start_apiserver(self) -> None:
        pki = self.authority.folder
        self.control.spawn("kube-apiserver", [
            self.bin / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0",
            f"--advertise-address={self.address(0, 1)}", "--secure-port=6443", "--profiling=false",
            f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/api.crt", f"--tls-private-key-file={pki}/api.key",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key", f"--service-cluster-ip-range={self.prefix}.1.0/24",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            # node names do not resolve: logs and exec go to addresses
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key",
            # aggregated APIs (metrics-server) and admission webhooks
            f"--requestheader-client-ca-file={pki}/ca.crt", "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-", f"--proxy-client-cert-file={pki}/front-proxy.crt",
            f"--proxy-client-key-file={pki}/front-proxy.key", "--enable-aggregator-routing=true"])

    def wait_api(self) -> None:
        def ready() -> bool:
            return self.ready() or not self.must_run("etcd", "kube-apiserver")
        wait_for("kube-apiserver", ready)

    def must_run(self, *names: str) -> bool:
        for name in names:
            if not self.control.running(name):
                raise SystemExit(f"{name} ended")
        return True

    def start_controllers(self) -> None:
        pki = self.authority.folder
        self.control.spawn("kube-controller-manager", [
            self.bin / "kube-controller-manager", "--kubeconfig", self.dir / "admin.kubeconfig", "--leader-elect=false",
            "--bind-address=127.0.0.1", f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt",
            "--use-service-account-credentials"])

    def start_scheduler(self, config: str = "") -> None:
        """config: a KubeSchedulerConfiguration; its kubeconfig is put in. Stops the one that runs."""
        config = config or "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        ours = f"kubeconfig: {self.dir / 'scheduler.kubeconfig'}"
        config, found = re.subn(r"kubeconfig: \S+", lambda _: ours, config)
        if not found:
            config += f"\nclientConnection:\n  {ours}\n"
        if "leaderElection" not in config:
            config += "\nleaderElection:\n  leaderElect: false\n"
        (self.dir / "scheduler.yaml").write_text(config)
        if self.control.running("kube-scheduler"):
            self.control.stop("kube-scheduler")
        self.control.spawn("kube-scheduler", [self.bin / "kube-scheduler", "--config", self.dir / "scheduler.yaml",
                                              "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/metrics,/healthz"])

    def start_dns(self) -> None:
        """CoreDNS beside the control plane, behind the service address that the kubelets tell their pods."""
        (self.dir / "Corefile").write_text(f""".:53 {{
    bind {self.address(0, 1)}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {self.dir}/admin.kubeconfig e2e
        ttl 1
    }}
}}
""")
        self.control.spawn("coredns", [self.coredns, "-conf", self.dir / "Corefile"])
        self.outside_service("kube-system", "kube-dns", self.address(0, 1), {"dns": ("UDP", 53), "dns-tcp": ("TCP", 53)},
                             cluster_ip=self.address(1, 10))

    def outside_service(self, namespace: str, name: str, address: str, ports: dict, cluster_ip: str = "") -> None:
        """A Service whose backend is a process at an address, not a pod."""
        wait_for(f"namespace {namespace}", lambda: self.request("GET", f"/api/v1/namespaces/{namespace}"))
        metadata = {"name": name, "namespace": namespace}
        listed = [{"name": key, "protocol": protocol, "port": port} for key, (protocol, port) in ports.items()]
        self.apply([
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata,
             "spec": {"ports": listed, **({"clusterIP": cluster_ip} if cluster_ip else {})}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
             "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
             "endpoints": [{"addresses": [address], "conditions": {"ready": True}}], "ports": listed},
            # the aggregator of old API servers looks for these
            {"apiVersion": "v1", "kind": "Endpoints",
             "metadata": {**metadata, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
             "subsets": [{"addresses": [{"ip": address}], "ports": listed}]}])

    def ready_nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.request("GET", "/api/v1/nodes")["items"]
                if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))]

    def down(self, keep: bool = False) -> None:
        """Ends it all and removes what it made. keep: the folder with the logs stays."""
        self.hang_up()
        self.control.end()
        for number in range(json.loads(self.record.read_text())["nodes"] if self.record.is_file() else 0):
            remove_cgroup(Node(self, number + 1).cgroup)
        mounted = [line for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()
                   if line.split()[1].startswith(f"{self.dir}/")]
        check(not mounted, f"something is mounted below {self.dir}: left alone")
        if keep:
            for path in self.dir.glob("node*/root"):    # unpacked images: large, and no log
                shutil.rmtree(path, ignore_errors=True)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def show_logs(self) -> None:
        for log in sorted(self.dir.glob("*.log")):
            print(f"---- end of {log} ----\n{log.read_text(errors='replace')[-1500:]}", file=sys.stderr)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, kind, *_) -> None:
        self.down(keep=kind is not None)

    # ---- what tests do with it ----

    def connect(self, timeout: float) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self.address(0, 1), 6443, timeout=timeout)
        raw = self.control.connect(self.address(0, 1), 6443, timeout)
        connection.sock = self.admin().wrap_socket(raw, server_hostname=self.address(0, 1))
        connection.auto_open = 0    # a new one must be made in the cluster's network again
        return connection

    def get(self, url: str, timeout: float = 60) -> str:
        """GET http://HOST:PORT/PATH inside the cluster's network."""
        host, port, path = re.fullmatch(r"http://([^:/]+):(\d+)(/.*)", url).groups()
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        connection.sock = self.control.connect(host, int(port), timeout)
        with contextlib.closing(connection):
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                text = answer.read().decode()
            except http.client.HTTPException as error:
                raise OSError(f"{url}: {error}") from error
        check(answer.status == 200, f"{url}: {answer.status} {text}")
        return text

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self.control.run(self.bin / "kubectl", *args, stdin=stdin,
                                env={"KUBECONFIG": str(self.dir / "admin.kubeconfig")})

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--state", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--node", type=int, default=1)
    parser.add_argument("--scheduler-config", type=pathlib.Path)
    parser.add_argument("--metrics-server", action="store_true")
    parser.add_argument("--vpa", action="store_true")
    parser.add_argument("verb", choices=["up", "kubectl", "exec", "status", "down"])
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.verb in ("up", "status", "down"):    # their options may stand behind the verb
        options = parser.parse_args([*options.words, options.verb], options)
    return options


def main() -> int:
    if sys.argv[1:] in ([], ["--help"], ["-h"]):
        print(__doc__)
        return 0 if sys.argv[1:] else 2
    options = parse()
    cluster = Cluster(options.state)
    try:
        if options.verb == "up":
            config = options.scheduler_config.read_text() if options.scheduler_config else ""
            cluster.up(options.nodes, config, master=0)
            for wanted, start in ((options.metrics_server, addons.start_metrics_server), (options.vpa, addons.start_vpa)):
                if wanted:
                    start(cluster)
        elif options.verb == "down":
            if cluster.dir.exists():
                check(cluster.record.is_file(), f"{cluster.dir} is not a cluster's folder")
                cluster.down()
        else:
            check(cluster.alive(), f"no cluster runs in {cluster.dir}")
            if options.verb == "status":
                for name, entry in cluster.control.processes().items():
                    print(f"{name:<28}{'runs' if entry['exit'] is None else 'ended: ' + str(entry['exit'])}")
                print(f"logs: {cluster.dir}/*.log")
            elif options.verb == "kubectl":
                return cluster.control.interact(cluster.bin / "kubectl", *options.words,
                                                env={"KUBECONFIG": str(cluster.dir / "admin.kubeconfig")})
            else:
                return cluster.control.interact(*options.words, net=cluster.nodes[options.node - 1].net,
                                                env={"KUBECONFIG": str(cluster.dir / "admin.kubeconfig")})
    except build.Missing as error:
        return build.end(error)
    except (Failure, ValueError, OSError) as error:
        print(f"cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
