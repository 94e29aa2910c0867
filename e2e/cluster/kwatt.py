# SPDX-License-Identifier: Apache-2.0
"""kwatt on a cluster, with a meter for each node whose truth is declared, the stock VPA programs beside it, and a kube-scheduler
that asks the extender. Class Installed has it from the chart, as a user would; class Processes runs programs of the build folder
in the nodes' networks, which starts in three seconds and needs no image (KWATT_CLUSTER_KWATT=processes)."""
import base64
import contextlib
import json
import os
import pathlib
import signal
import sys

import chart
import image
import image_parts
from cluster import HERE, Cluster
from process import Failure, build, check, need, wait_for

BUILD = chart.BUILD
PROGRAMS = {"agent": BUILD / "node-agent/kwatt-node-agent", "extender": BUILD / "extender/kwatt-extender",
            "recommender": BUILD / "vpa-recommender/kwatt-vpa-recommender"}

# What the nodes are: the first a modern server, the second an old one. Cores are the machine's, shared by both. Active watts
# at [cores]; straight, so that a pod's truth does not hang on its neighbours.
IDLE_W = 30
TRUTH = {"node1": [[0, 0], [1, 9], [2, 18]], "node2": [[0, 0], [1, 34], [2, 68]]}
STALE_S = 10

# As the chart's role for the recommender: what it uses, and no more.
RECOMMENDER_RULES = [
    {"apiGroups": ["autoscaling.k8s.io"], "resources": ["verticalpodautoscalers"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["autoscaling.k8s.io"], "resources": ["verticalpodautoscalers/status"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["get"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets", "daemonsets"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": ["get"]}]


# As the chart's role for the agent.
AGENT_RULES = [{"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]},
               {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]


class Kwatt:
    def __init__(self, cluster: Cluster):
        self.cluster, self.control = cluster, cluster.control
        self.dir = cluster.dir / "kwatt"

    # ---- what both kinds have ----

    def start(self) -> None:
        """Everything; returns when the extender knows every node."""
        self.dir.mkdir()
        (self.dir / "kind").write_text(type(self).__name__)
        self.start_vpa()
        self.start_meter()
        self.start_programs()
        shipped = (build.ROOT / "deploy/kube-scheduler/kwatt.yaml").read_text()
        self.cluster.start_scheduler(shipped.replace("http://127.0.0.1:9890", self.extender_url()))
        self.wait_fresh()

    def start_vpa(self) -> None:
        """The stock recommender and updater under their own roles; the updater looks often, and at young pods too."""
        programs = build.programs("vpa", "recommender", "updater")
        self.cluster.apply_vpa_crd()
        # one file has the roles of all three, but the account of one
        self.cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "kube-system"}}
                            for name in ("vpa-recommender", "vpa-updater", "vpa-admission-controller")])
        self.cluster.apply(build.source("vpa", "deploy/vpa-rbac.yaml")[0])
        for name, options in {
                "recommender": ["--recommender-interval=5s", "--storage=checkpoint", "--address=127.0.0.1:8942"],
                "updater": ["--updater-interval=2s", "--min-replicas=1", "--use-admission-controller-status=false",
                            "--in-recommendation-bounds-eviction-lifetime-threshold=1s", "--address=127.0.0.1:8943"]}.items():
            self.control.spawn(f"vpa-{name}", [programs / name, "--kubeconfig", self.cluster.account_kubeconfig(f"vpa-{name}"),
                                               "--v=2", *options])

    def start_meter(self) -> None:
        nodes = [{"name": node.name, "sysfs": str(self.dir / "sysfs" / node.name), "cgroup": node.cgroup, "idle_w": IDLE_W,
                  "curve": TRUTH[node.name]} for node in self.cluster.nodes]
        (self.dir / "nodes.json").write_text(json.dumps(nodes))
        self.control.spawn("meter", [sys.executable, HERE / "meter.py", self.dir / "nodes.json"],
                           env={"PYTHONPATH": f"{HERE}:{HERE.parent}"})
        wait_for("the meter", (self.dir / "truth.json").exists)

    def truth(self) -> dict:
        return json.loads((self.dir / "truth.json").read_text())

    def view(self, node: str) -> dict:
        """All that the agent of a node knows."""
        return json.loads(self.cluster.get(f"{self.agent_url(node)}/v1/pods"))

    def extender_metric(self, name: str, **labels: str) -> list[float]:
        """Of each replica, the sum of the series of that name that have these labels."""
        totals = []
        for url in self.replica_urls():
            total = 0.0
            for line in self.cluster.get(f"{url}/metrics").splitlines():
                if line.startswith(name) and line[len(name)] in "{ " and all(f'{k}="{v}"' in line for k, v in labels.items()):
                    total += float(line.split("} ")[-1].split(" ")[-1])
            totals.append(total)
        return totals

    def asked(self) -> float:
        """How often a scheduler asked for scores."""
        return sum(self.extender_metric("kwatt_extender_requests_total", verb="prioritize"))

    def stale_nodes(self) -> float:
        return max(self.extender_metric("kwatt_extender_nodes_stale"))

    def redis_is_up(self) -> bool:
        return min(self.extender_metric("kwatt_extender_redis_up")) == 1

    def wait_fresh(self) -> None:
        """Until every extender hears of every node."""
        def fresh() -> bool:
            known = self.extender_metric("kwatt_extender_nodes")
            return bool(known) and set(known) == {len(self.cluster.nodes)} and self.stale_nodes() == 0 and self.redis_is_up()
        wait_for("the extenders to hear of every node", fresh)

    def wait_published(self) -> None:
        """Until what the agents saw before now is in Redis, and the extenders have read it."""
        first = {node.name: self.view(node.name)["sample"]["seq"] for node in self.cluster.nodes}
        # the sample after next began after now
        wait_for("newer samples", lambda: all(self.view(name)["sample"]["seq"] >= seq + 2 for name, seq in first.items()))
        read = self.extender_metric("kwatt_extender_refreshes_total")
        wait_for("the extenders to read them", lambda: all(
            now >= before + 2 for now, before in zip(self.extender_metric("kwatt_extender_refreshes_total"), read)))

    # ---- what they differ in ----

    def start_programs(self) -> None:
        raise NotImplementedError

    def missing(self) -> list[str]:
        """Parts that do not run as they should."""
        processes = self.control.processes()
        return [name for name in self.own_processes() if name not in processes or processes[name]["exit"] is not None]

    def own_processes(self) -> list[str]:
        return ["meter", "vpa-recommender", "vpa-updater"]

    def show(self) -> None:
        """The ends of logs, for who looks for the cause of a failure."""
        for name in (*self.own_processes(), "kube-scheduler"):
            print(f"---- end of {name}.log ----\n{self.control.log(name)[-1500:]}", file=sys.stderr)

    def extender_url(self) -> str:
        """As the scheduler asks it."""
        raise NotImplementedError

    def replica_urls(self) -> list[str]:
        raise NotImplementedError

    def agent_url(self, node: str) -> str:
        raise NotImplementedError

    def record(self, node: str, uid: str) -> str:
        """A pod's record in Redis; "" where there is none."""
        raise NotImplementedError

    def reader_options(self) -> list:
        """Options of `kwatt top` for the Redis of this cluster."""
        raise NotImplementedError

    def without(self, part: str):
        """A `with` block in which extender, redis, or agent-NODE was ended by force; it is back after it."""
        raise NotImplementedError


class Processes(Kwatt):
    """Processes meter, redis, agent-NODE, extender, recommender; addresses are of the first node, but each agent's is its own."""

    def __init__(self, cluster: Cluster):
        super().__init__(cluster)
        self.host = cluster.address(0, 1)
        self.redis = f"redis://{self.host}:6379"

    def start_programs(self) -> None:
        self.start_one("redis")
        for node in self.cluster.nodes:
            self.start_one(f"agent-{node.name}")
        self.start_one("extender")
        self.start_one("recommender")
        wait_for("the extender", lambda: self.cluster.get(f"{self.extender_url()}/readyz"))

    def start_one(self, name: str) -> None:
        kind, _, node = name.partition("-")
        net = self.cluster.node(node).net if node else ""
        self.control.spawn(name, getattr(self, f"{kind}_command")(node), net)

    def redis_command(self, _: str) -> list:
        return [need("redis-server", "redis-server"), "--bind", self.host, "--port", "6379", "--save", "", "--appendonly", "no",
                "--protected-mode", "no"]

    def agent_command(self, name: str) -> list:
        node = self.cluster.node(name)
        self.cluster.service_account("kwatt-agent", AGENT_RULES)
        return [PROGRAMS["agent"], "--kubelet", node.ip, "--kubelet-ca", self.cluster.authority.folder / "ca.crt",
                "--kubelet-token-file", self.cluster.dir / "kwatt-agent.token", "--pod-labels", "app", "--node-name", name, "--sysfs", self.dir / "sysfs" / name, "--cgroup-root", node.cgroup,
                "--outside", "absent", "--interval", "1s", "--idle-watts", IDLE_W, "--redis", self.redis, "--listen",
                f"{node.ip}:9891"]

    def extender_command(self, _: str) -> list:
        return [PROGRAMS["extender"], "--listen", f"{self.host}:9890", "--redis", self.redis, "--stale-after", f"{STALE_S}s"]

    def recommender_command(self, _: str) -> list:
        kubeconfig = self.cluster.service_account("kwatt-recommender", RECOMMENDER_RULES)
        return [PROGRAMS["recommender"], "--listen", f"{self.host}:9892", "--redis", self.redis, "--kubeconfig", kubeconfig,
                "--interval", "1s", "--sample-interval", "1s"]

    def own_processes(self) -> list[str]:
        agents = [f"agent-{node.name}" for node in self.cluster.nodes]
        return [*super().own_processes(), "redis", "extender", "recommender", *agents]

    def extender_url(self) -> str:
        return f"http://{self.host}:9890"

    def replica_urls(self) -> list[str]:
        return [self.extender_url()]

    def agent_url(self, node: str) -> str:
        return f"http://{self.cluster.node(node).ip}:9891"

    def record(self, node: str, uid: str) -> str:
        return self.control.run("redis-cli", "-h", self.host, "HMGET", f"kwatt:v1:pods:{{{node}}}", uid).strip()

    def reader_options(self) -> list:
        return ["--redis", self.redis]

    @contextlib.contextmanager
    def without(self, part: str):
        check(self.control.running(part), f"{part} does not run")
        self.control.stop(part, signal.SIGKILL)
        try:
            yield
        finally:
            self.start_one(part)
        self.wait_fresh()


class Installed(Kwatt):
    """By `helm install` of the chart as shipped, with the image of deploy/Dockerfile."""

    def __init__(self, cluster: Cluster):
        super().__init__(cluster)
        self.helm = build.programs("helm") / "helm"

    def values(self, name: str) -> dict:
        """Only what a test cluster must say: its images, its meters, and that it cannot wait."""
        repository, tag = name.rsplit(":", 1)
        redis, redis_tag = image_parts.REDIS.rsplit(":", 1)
        root = self.cluster.nodes[0].cgroup.removesuffix("node1")
        return {
            "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
            "agent": {"config": {"interval": "1s", "idleWatts": IDLE_W, "podLabels": "app"},
                      "extraArgs": [f"--cgroup-root={root}$(KWATT_NODE_NAME)", "--outside=absent", "--sysfs=/meters/$(KWATT_NODE_NAME)"],
                      "extraVolumes": [{"name": "meters", "hostPath": {"path": str(self.dir / "sysfs"), "type": "Directory"}}],
                      "extraVolumeMounts": [{"name": "meters", "mountPath": "/meters", "readOnly": True}]},
            "extender": {"config": {"staleAfter": f"{STALE_S}s"}},
            "recommender": {"config": {"interval": "1s", "sampleInterval": "1s"}},
            "redis": {"image": {"repository": redis, "tag": redis_tag, "pullPolicy": "Never"}, "persistence": {"enabled": False}}}

    def start_programs(self) -> None:
        made = image.kwatt()
        archives = [made.archive, image_parts.redis(self.dir)]
        for node in self.cluster.nodes:
            node.load(*archives)
            # the meter's tree with the machine's cgroups in it, as mounts of the cluster's own
            cgroups = self.dir / "sysfs" / node.name / "fs/cgroup"
            cgroups.mkdir(parents=True)
            self.control.run("mount", "--rbind", "/sys/fs/cgroup", cgroups)
        file = self.dir / "values.json"
        file.write_text(json.dumps(self.values(made.name)))
        self.control.run(self.helm, "install", chart.RELEASE, chart.CHART, "-n", chart.NAMESPACE, "--create-namespace", "--values", file,
                         "--wait", "--timeout", "5m", env={"KUBECONFIG": str(self.cluster.dir / "admin.kubeconfig")})

    def pods(self, component: str) -> list[dict]:
        path = f"/api/v1/namespaces/{chart.NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3D{component}"
        return [pod for pod in self.cluster.request("GET", path)["items"] if "deletionTimestamp" not in pod["metadata"]]

    def ready(self, component: str, count: int) -> bool:
        pods = [pod for pod in self.pods(component)
                if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))]
        return len(pods) == count

    def missing(self) -> list[str]:
        wanted = {"agent": len(self.cluster.nodes), "extender": 2, "redis": 1, "recommender": 2}
        return [*super().missing(), *(part for part, count in wanted.items() if not self.ready(part, count))]

    def show(self) -> None:
        super().show()
        print(self.cluster.kubectl("get", "pods", "-A", "-o", "wide"), file=sys.stderr)
        for component in ("agent", "extender", "recommender", "redis"):
            print(self.cluster.kubectl("logs", "-n", chart.NAMESPACE, "-l", f"app.kubernetes.io/component={component}", "--prefix",
                                       "--tail=15"), file=sys.stderr)

    def extender_url(self) -> str:
        service = self.cluster.request("GET", f"/api/v1/namespaces/{chart.NAMESPACE}/services/kwatt-extender")
        return f"http://{service['spec']['clusterIP']}:9890"

    def replica_urls(self) -> list[str]:
        return [f"http://{pod['status']['podIP']}:9890" for pod in self.pods("extender") if pod["status"].get("podIP")]

    def agent_url(self, node: str) -> str:
        for pod in self.pods("agent"):
            if pod["spec"].get("nodeName") == node and pod["status"].get("podIP"):
                return f"http://{pod['status']['podIP']}:9891"
        raise Failure(f"no agent on {node}")

    def record(self, node: str, uid: str) -> str:
        return self.cluster.kubectl("exec", "-n", chart.NAMESPACE, "statefulset/kwatt-redis", "--", "redis-cli", "--user", "reader",
                                    "--no-auth-warning", "-a", self.reader_password(), "HMGET", f"kwatt:v1:pods:{{{node}}}", uid).strip()

    def reader_password(self) -> str:
        secret = self.cluster.request("GET", f"/api/v1/namespaces/{chart.NAMESPACE}/secrets/kwatt-redis")["data"]
        return base64.b64decode(secret["reader-password"]).decode()

    def reader_options(self) -> list:
        file = self.dir / "reader-password"
        file.touch(mode=0o600)
        file.write_text(self.reader_password())
        service = self.cluster.request("GET", f"/api/v1/namespaces/{chart.NAMESPACE}/services/kwatt-redis")
        address = service["spec"]["clusterIP"]
        if address == "None":
            address = self.pods("redis")[0]["status"]["podIP"]
        return ["--redis", f"redis://{address}:6379", "--redis-user", "reader", "--redis-password-file", file]

    def patch(self, kind: str, name: str, patch: dict) -> None:
        self.cluster.request("PATCH", f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/{kind}/{name}", patch,
                             "application/strategic-merge-patch+json")

    @contextlib.contextmanager
    def without(self, part: str):
        component, _, node = part.partition("-")
        there = [pod for pod in self.pods(component) if not node or pod["spec"]["nodeName"] == node]
        check(there, f"no pod of {part}")
        if node:
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}]}}}
            away, back = {"spec": {"template": {"spec": {"affinity": affinity}}}}, {"spec": {"template": {"spec": {"affinity": None}}}}
            kind, name = "daemonsets", "kwatt-agent"
        else:
            kind, name = ("statefulsets", "kwatt-redis") if component == "redis" else ("deployments", "kwatt-extender")
            away, back = {"spec": {"replicas": 0}}, {"spec": {"replicas": len(there)}}
        self.patch(kind, name, away)
        for pod in there:
            with contextlib.suppress(Failure):      # it may be gone already
                self.cluster.request("DELETE", f"/api/v1/namespaces/{chart.NAMESPACE}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
        wait_for(f"{part} to be gone", lambda: not [p for p in self.pods(component) if not node or p["spec"].get("nodeName") == node])
        try:
            yield
        finally:
            self.patch(kind, name, back)
        wait_for(f"{part} to be back", lambda: not self.missing())
        self.wait_fresh()


def kwatt_on(cluster: Cluster) -> Kwatt:
    """What runs on a cluster already, else what is wanted there."""
    kinds = {kind.__name__: kind for kind in (Installed, Processes)}
    note = cluster.dir / "kwatt/kind"
    wanted = note.read_text() if note.is_file() else os.environ.get("KWATT_CLUSTER_KWATT", "installed").capitalize()
    check(wanted in kinds, f"KWATT_CLUSTER_KWATT={wanted}: installed or processes")
    return kinds[wanted](cluster)
