# SPDX-License-Identifier: Apache-2.0
"""kwatt on a cluster: a meter and an agent for each node, Redis, extender and recommender as processes in its networks."""
import json
import os
import pathlib
import signal
import sys

from cluster import HERE, Cluster
from process import build, check, need, wait_for

ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", ROOT / "build/debug")).resolve()
PROGRAMS = {"agent": BUILD / "node-agent/kwatt-node-agent", "extender": BUILD / "extender/kwatt-extender",
            "recommender": BUILD / "vpa-recommender/kwatt-vpa-recommender", "kwatt": BUILD / "cli/kwatt"}

# What the nodes are: the first a modern server, the second an old one that draws more, idle and busy. Cores are the
# machine's, shared by both. Active watts at [cores]; straight, so that a pod's truth does not hang on its neighbours.
TRUTH = {"node1": {"idle_w": 18.0, "curve": [[0, 0], [1, 9], [2, 18]]},
         "node2": {"idle_w": 40.0, "curve": [[0, 0], [1, 34], [2, 68]]}}
INTERVAL_S = 1

# As the chart's role for the recommender: what it uses, and no more.
RECOMMENDER_RULES = [
    {"apiGroups": ["autoscaling.k8s.io"], "resources": ["verticalpodautoscalers"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["autoscaling.k8s.io"], "resources": ["verticalpodautoscalers/status"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["get"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets", "daemonsets"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": ["get"]}]

SCHEDULER = (ROOT / "deploy/kube-scheduler/kwatt.yaml").read_text


class Kwatt:
    """Addresses are of the first node, but each agent's is of its own."""

    def __init__(self, cluster: Cluster):
        self.cluster, self.control = cluster, cluster.control
        self.dir = cluster.dir / "kwatt"
        self.host = cluster.address(0, 1)
        self.redis = f"redis://{self.host}:6379"
        self.extender = f"http://{self.host}:9890"
        self.recommender = f"http://{self.host}:9892"

    def names(self) -> list[str]:
        agents = [f"agent-{node.name}" for node in self.cluster.nodes]
        return ["meter", "redis", "extender", "recommender", "vpa-recommender", "vpa-updater", *agents]

    def start(self) -> None:
        """Everything, and a kube-scheduler that asks the extender; returns when the first figures are in Redis."""
        self.dir.mkdir()
        self.start_vpa()
        self.start_meter()
        self.start_redis()
        for node in self.cluster.nodes:
            self.start_agent(node.name)
        self.start_extender()
        self.start_recommender()
        self.schedule_with()
        self.wait_fresh()

    def start_vpa(self) -> None:
        """The stock recommender and updater under their own roles; the updater looks often, and at young pods too."""
        programs = build.programs("vpa", "recommender", "updater")
        self.cluster.apply_vpa_crd()
        # one file has the roles of all three and the accounts of two
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
        nodes = [{"name": node.name, "sysfs": str(self.sysfs(node.name)), "cgroup": node.cgroup, **TRUTH[node.name]}
                 for node in self.cluster.nodes]
        (self.dir / "nodes.json").write_text(json.dumps(nodes))
        self.control.spawn("meter", [sys.executable, HERE / "meter.py", self.dir / "nodes.json"],
                           env={"PYTHONPATH": f"{HERE}:{HERE.parent}"})
        wait_for("the meter", (self.dir / "truth.json").exists)

    def sysfs(self, node: str) -> pathlib.Path:
        return self.dir / "sysfs" / node

    def start_redis(self) -> None:
        self.control.spawn("redis", [need("redis-server", "redis-server"), "--bind", self.host, "--port", "6379", "--save", "",
                                     "--appendonly", "no", "--protected-mode", "no"])

    def start_agent(self, name: str) -> None:
        node = self.cluster.node(name)
        self.control.spawn(f"agent-{name}", [
            PROGRAMS["agent"], "--node-name", name, "--sysfs", self.sysfs(name), "--cgroup-root", node.cgroup, "--outside", "absent",
            "--interval", f"{INTERVAL_S}s", "--idle-watts", TRUTH[name]["idle_w"], "--redis", self.redis,
            "--listen", f"{node.ip}:9891"], node.net)

    def start_extender(self) -> None:
        self.control.spawn("extender", [PROGRAMS["extender"], "--listen", f"{self.host}:9890", "--redis", self.redis,
                                        "--stale-after", "10s"])
        wait_for("the extender", lambda: self.cluster.get(f"{self.extender}/readyz"))

    def start_recommender(self) -> None:
        kubeconfig = self.cluster.service_account("kwatt-recommender", RECOMMENDER_RULES)
        self.control.spawn("recommender", [
            PROGRAMS["recommender"], "--listen", f"{self.host}:9892", "--redis", self.redis, "--kubeconfig", kubeconfig,
            "--interval", "1s", "--sample-interval", "1s"])

    def schedule_with(self, config: str = "") -> None:
        """Restarts kube-scheduler with the configuration that the project ships (or another), pointed here."""
        config = config or SCHEDULER().replace("http://127.0.0.1:9890", self.extender)
        self.cluster.start_scheduler(config)

    # ---- what it says ----

    def view(self, node: str) -> dict:
        return json.loads(self.cluster.get(f"http://{self.cluster.node(node).ip}:9891/v1/pods"))

    def truth(self) -> dict:
        return json.loads((self.dir / "truth.json").read_text())

    def redis_cli(self, *words: str) -> str:
        return self.control.run("redis-cli", "-h", self.host, *words).strip()

    def ages_ms(self) -> dict[str, int]:
        """Node -> age of what it last published, by the clock of Redis."""
        seconds, micro = self.redis_cli("TIME").split()
        words = self.redis_cli("ZRANGE", "kwatt:v1:nodes", "0", "-1", "WITHSCORES").split()
        now = int(seconds) * 1000 + int(micro) // 1000
        return {name: now - int(float(score)) for name, score in zip(words[::2], words[1::2])}

    def wait_fresh(self) -> None:
        """Until every node's figures of this moment are in Redis and the extender has them."""
        wait_for("fresh figures of every node", lambda: sorted(self.ages_ms()) == sorted(n.name for n in self.cluster.nodes)
                 and max(self.ages_ms().values()) < 3000 * INTERVAL_S)
        wait_for("the extender to have read them", self.extender_fresh)

    def extender_fresh(self) -> bool:
        page = f"{self.extender}/metrics"
        return (self.metric(page, "kwatt_extender_nodes") == len(self.cluster.nodes)
                and self.metric(page, "kwatt_extender_nodes_stale") == 0 and self.metric(page, "kwatt_extender_redis_up") == 1)

    def wait_published(self) -> None:
        """Until what the agents saw before now is in Redis, and the extender has read it."""
        first = {node.name: self.view(node.name)["sample"]["seq"] for node in self.cluster.nodes}
        # two on: the one after next began after now; the extender reads once a second, and this takes longer
        wait_for("newer samples", lambda: all(self.view(name)["sample"]["seq"] >= seq + 2 for name, seq in first.items()))
        refreshes = self.metric(f"{self.extender}/metrics", "kwatt_extender_refreshes_total")
        wait_for("the extender to read them", lambda: self.metric(
            f"{self.extender}/metrics", "kwatt_extender_refreshes_total") >= refreshes + 2)

    def metric(self, url: str, name: str, **labels: str) -> float:
        """Sum of the series of that name that have these labels."""
        total = 0.0
        for line in self.cluster.get(url).splitlines():
            if line.startswith(name) and line[len(name)] in "{ " and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.split("} ")[-1].split(" ")[-1])
        return total

    def kill(self, name: str) -> None:
        check(self.control.running(name), f"{name} does not run")
        self.control.stop(name, signal.SIGKILL)
