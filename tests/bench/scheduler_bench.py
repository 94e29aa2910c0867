# SPDX-License-Identifier: Apache-2.0
"""Pods per second of the real kube-scheduler: alone, with kwatt's extender, with one that answers a constant, with one in Go.

usage: scripts/bench scheduler            $KWATT_BENCH_NODES (500), $KWATT_BENCH_PODS (1000), $KWATT_BENCH_ROUNDS (3)

Bare Node objects stand for the nodes (no kubelet, no controllers); pods tolerate everything. Per run: pods are created while the
scheduler is down, then it is started; the time from the first binding to the last gives the rate. All nodes are looked at
(percentageOfNodesToScore: 100), so that each extender gets and gives the same list. Runs are interleaved and medians taken: the
machine's other work falls on all alike.
"""
import concurrent.futures
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "e2e/cluster"), str(ROOT / "e2e")]
from cluster import Cluster  # noqa: E402  (its folder was put on the path just now)
from process import build, check, need, wait_for  # noqa: E402

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", ROOT / "build/release")).resolve()
NODES, PODS, ROUNDS = (int(os.environ.get(f"KWATT_BENCH_{name}", default)) for name, default in
                       (("NODES", 500), ("PODS", 1000), ("ROUNDS", 3)))
BOTH, SCORE = "filter and prioritize", "prioritize only"
PORTS = {"kwatt": 9890, "static": 9880, "go": 9870}
MODES = [("none", ""), *((who, verbs) for verbs in (BOTH, SCORE) for who in PORTS)]
# kwatt loses no more than this against an answer that costs nothing, and gains this on an extender in Go
KEEPS, GAINS = 0.95, 1.25


def in_threads(work, numbers) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, numbers))


class Bench:
    def __init__(self, cluster: Cluster):
        self.cluster, self.host = cluster, cluster.address(0, 1)

    def start(self) -> None:
        """The control plane without controllers, the nodes, and every extender."""
        self.cluster.up(nodes=0)
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.cluster.control.stop(name)
        listed = [{"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": f"node-{n:05}", "labels": {"kubernetes.io/hostname": f"node-{n:05}"}}, "status": {
                **{key: {"cpu": "32", "memory": "128Gi", "pods": "500"} for key in ("capacity", "allocatable")},
                "conditions": [{"type": "Ready", "status": "True"}]}} for n in range(NODES)]
        self.post("/api/v1/nodes", listed)
        spawn = self.cluster.control.spawn
        spawn("redis", [need("redis-server", "redis-server"), "--bind", self.host, "--port", "6379", "--save", "", "--protected-mode", "no"])
        wait_for("redis", lambda: self.cluster.control.run("redis-cli", "-h", self.host, "PING"))
        self.publish()
        spawn("kwatt", [BUILD / "extender/kwatt-extender", "--listen", f"{self.host}:{PORTS['kwatt']}", "--redis",
                        f"redis://{self.host}", "--stale-after", "60m"])
        spawn("static", [BUILD / "tests/bench/static_extender", f"{self.host}:{PORTS['static']}", NODES])
        spawn("go", [build.programs("goextender") / "goextender", f"{self.host}:{PORTS['go']}"])
        for port in PORTS.values():
            wait_for("the extenders", lambda port=port: self.cluster.control.connect(self.host, port, 5).close() or True)
        wait_for("kwatt's extender to know the nodes", lambda: f"kwatt_extender_nodes {NODES}\n" in self.cluster.get(
            f"http://{self.host}:{PORTS['kwatt']}/metrics"))

    def post(self, path: str, objects: list[dict]) -> None:
        """Creates objects over a few connections."""
        def work(part: int) -> None:
            connection = self.cluster.connect(120)
            for each in objects[part::4]:
                connection.request("POST", path, json.dumps(each), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
                check(answer.status == 201, f"{path}: {answer.status} {text[:500]}")
            connection.close()
        in_threads(work, range(4))

    def publish(self) -> None:
        """Samples and curves as agents write them, of ten kinds of machine at various loads."""
        lines, now = [], int(time.time() * 1000)
        for n in range(NODES):
            name, full = f"node-{n:05}", 100 + 40 * (n % 10)
            sample = {"schema": 1, "node": name, "epoch": now, "seq": 1, "t_unix_ms": now, "interval_ns": 1000000000, "packages": [],
                      "watts_mw": 60000, "used_mcpu": 1000 + n * 37 % 20000, "allocatable_mcpu": 32000, "idle_mw": 50000, "meter": "powercap"}
            curve = {"schema": 1, "capacity_mcpu": 32000, "knots": [
                {"load_permille": k * 100, "mw": 50000 + full * 100 * k} for k in range(11)]}
            lines += [f"HSET kwatt:v1:node:{{{name}}} sample '{json.dumps(sample)}' curve '{json.dumps(curve)}'",
                      f"ZADD kwatt:v1:nodes {now} {name}"]
        self.cluster.control.run("redis-cli", "-h", self.host, stdin="\n".join(lines) + "\n")

    def config(self, who: str, verbs: str) -> str:
        # its own limit is 50 requests a second, far below what is measured
        text = ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 100\n"
                "clientConnection:\n  kubeconfig: ours\n  qps: 5000\n  burst: 5000\n")
        if who == "none":
            return text
        verb = "\n  filterVerb: filter" if verbs == BOTH else ""
        return f"""{text}extenders:
- urlPrefix: http://{self.host}:{PORTS[who]}{verb}
  prioritizeVerb: prioritize
  weight: 3
  nodeCacheCapable: true
  httpTimeout: 5s
"""

    def rate(self, who: str, verbs: str, number: int) -> float:
        space = f"run-{number}"
        self.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
        self.cluster.request("POST", f"/api/v1/namespaces/{space}/serviceaccounts", {"metadata": {"name": "default"}})
        pod = {"tolerations": [{"operator": "Exists"}], "automountServiceAccountToken": False, "containers": [
            {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}
        pods = f"/api/v1/namespaces/{space}/pods"
        self.post(pods, [{"metadata": {"name": f"pod-{n:05}"}, "spec": pod} for n in range(PODS)])
        self.cluster.start_scheduler(self.config(who, verbs))
        begin = self.moment(f"{pods}?limit=1&fieldSelector=spec.nodeName!=", bool)
        seconds = self.moment(f"{pods}?limit=1&fieldSelector=spec.nodeName=", lambda items: not items) - begin
        self.cluster.control.stop("kube-scheduler")
        self.cluster.request("DELETE", f"{pods}?gracePeriodSeconds=0")
        print(f"kwatt: {who} {verbs}: {PODS / seconds:.0f} pods/s", file=sys.stderr, flush=True)
        return PODS / seconds


    def moment(self, path: str, test) -> float:
        """When test(what is listed) became true, to a tenth of a second: asking more often would slow down what is measured."""
        wait_for("the scheduler", lambda: test(self.cluster.request("GET", path)["items"]), 600, 0.1)
        return time.monotonic()


def tell(name: str, value: float, **more) -> None:
    print(json.dumps({"name": name, "value": round(value, 1), "unit": "pods/s", "better": "higher", **more}), flush=True)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))    # and clean up
    try:
        for program in (BUILD / "extender/kwatt-extender", BUILD / "tests/bench/static_extender"):
            check(program.is_file(), f"no {program}")
        with tempfile.TemporaryDirectory(prefix="kwb-") as folder, Cluster(pathlib.Path(folder) / "c") as cluster:
            bench = Bench(cluster)
            bench.start()
            rates: dict[tuple, list[float]] = {mode: [] for mode in MODES}
            for turn in range(ROUNDS):
                for number, mode in enumerate(MODES):
                    rates[mode].append(bench.rate(*mode, turn * len(MODES) + number))
    except build.Missing as error:
        return build.end(error)
    medians = {mode: statistics.median(values) for mode, values in rates.items()}
    alone = medians["none", ""]
    tell(f"{NODES} nodes, no extender", alone)
    for verbs in (BOTH, SCORE):
        for who in ("static", "go"):
            tell(f"{NODES} nodes, {who} extender, {verbs}", medians[who, verbs], reference={"name": "none", "value": round(alone, 1)},
                 ratio=round(medians[who, verbs] / alone, 3))
        for who, bound in (("static", KEEPS), ("go", GAINS)):
            tell(f"{NODES} nodes, kwatt, {verbs}", medians["kwatt", verbs], bound=bound,
                 reference={"name": f"{who} extender", "value": round(medians[who, verbs], 1)},
                 ratio=round(medians["kwatt", verbs] / medians[who, verbs], 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
