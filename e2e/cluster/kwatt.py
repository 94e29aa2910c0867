# SPDX-License-Identifier: Apache-2.0
"""kwatt on a cluster, with a meter for each node whose truth is declared, the stock VPA programs beside it, and a kube-scheduler
that asks the extender. Class Processes runs programs of the build folder in the nodes' networks, which starts in three seconds
and needs no image (KWATT_CLUSTER_KWATT=processes); installed.py has kwatt from the chart, as a user would."""
import contextlib
import json
import os
import pathlib
import signal
import sys

import addons
import chart
from cluster import HERE, Cluster
from process import Failure, build, check, need, wait_for

BUILD = chart.BUILD
PROGRAMS = {"agent": BUILD / "node-agent/kwatt-node-agent", "extender": BUILD / "extender/kwatt-extender",
            "recommender": BUILD / "vpa-recommender/kwatt-vpa-recommender"}

# What the nodes are: the first a modern server, the second an old one, the third as the first. Cores are the machine's, shared by
# all. Active watts at [cores]; straight, so that a pod's truth does not hang on its neighbours. Little power when idle: a meter that is
# a process ticks late on a busy machine, and what a window then lacks of idle energy the next one has as active energy.
IDLE_W = 4
TRUTH = {"node1": [[0, 0], [1, 9], [2, 18]], "node2": [[0, 0], [1, 34], [2, 68]], "node3": [[0, 0], [1, 9], [2, 18]]}
STALE_S = 10
# How long a scheduler waits for an answer before it goes on without. Production wants it short; here the machine may be busy with
# something else for longer than that, and what is shown is who places, not how fast.
PATIENCE = "5s"

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
        addons.start_metrics_server(self.cluster)
        addons.start_vpa(self.cluster)
        self.start_meter()
        self.start_programs()
        self.cluster.start_scheduler(self.control.run(BUILD / "cli/kwatt", "scheduler-config", "--extender-url", self.extender_url(),
                                                      "--http-timeout", PATIENCE))
        self.wait_fresh()
        self.wait_whole()

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

    def metric(self, url: str, name: str, **labels: str) -> float:
        """Sum of a page's series of that name that have these labels."""
        total = 0.0
        for line in self.cluster.get(f"{url}/metrics").splitlines():
            if line.startswith(name) and line[len(name)] in "{ " and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.split("} ")[-1].split(" ")[-1])
        return total

    def extender_metric(self, name: str, **labels: str) -> list[float]:
        """Of each replica."""
        return [self.metric(url, name, **labels) for url in self.replica_urls()]

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

    def wait_whole(self) -> None:
        """Until all parts run. A node that was off shows its pods as they were until its kubelet has looked: a part may be there, be
        missed for a moment, and come back."""
        def whole() -> bool:
            missing = self.missing()
            check(not missing, f"not running: {', '.join(missing)}")
            return True
        wait_for("all of kwatt to run", whole)

    def restarts(self, component: str) -> int:
        """How often containers of it ended and were started again; a process that ends is found by missing()."""
        del component
        return 0

    def own_processes(self) -> list[str]:
        return ["meter", "metrics-server", *(f"vpa-{name}" for name in addons.VPA_PROGRAMS)]

    def show(self) -> None:
        """The ends of logs, for who looks for the cause of a failure."""
        for name in self.control.processes().keys() & {*self.own_processes(), "kube-scheduler"}:
            print(f"---- end of {name}.log ----\n{self.control.log(name)[-1500:]}", file=sys.stderr)

    def extender_url(self) -> str:
        """As the scheduler asks it."""
        raise NotImplementedError

    def replica_urls(self) -> list[str]:
        raise NotImplementedError

    def recommender_urls(self) -> list[str]:
        raise NotImplementedError

    def agent_url(self, node: str) -> str:
        raise NotImplementedError

    def record(self, node: str, uid: str) -> str:
        """A pod's record in Redis; "" where there is none."""
        raise NotImplementedError

    def reader_options(self) -> list:
        """Options of `kwatt top` for the Redis of this cluster."""
        raise NotImplementedError

    def node_is_off(self, node: str) -> None:
        """It is told, for what does not end with the node by itself."""

    def node_is_on(self, node: str) -> None:
        """After node_is_off()."""

    def without(self, part: str):
        """A `with` block in which there is no extender, redis, or agent-NODE; it is back, and whole, after it."""
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

    def recommender_urls(self) -> list[str]:
        return [f"http://{self.host}:9892"]

    def agent_url(self, node: str) -> str:
        return f"http://{self.cluster.node(node).ip}:9891"

    def record(self, node: str, uid: str) -> str:
        return self.control.run("redis-cli", "-h", self.host, "HMGET", f"kwatt:v1:pods:{{{node}}}", uid).strip()

    def reader_options(self) -> list:
        return ["--redis", self.redis]

    def node_is_off(self, node: str) -> None:
        self.control.stop(f"agent-{node}", signal.SIGKILL)

    def node_is_on(self, node: str) -> None:
        self.start_one(f"agent-{node}")

    @contextlib.contextmanager
    def without(self, part: str):
        check(self.control.running(part), f"{part} does not run")
        self.control.stop(part, signal.SIGKILL)
        try:
            yield
        finally:
            self.start_one(part)
        self.wait_fresh()
