# SPDX-License-Identifier: Apache-2.0
"""The same pods on the same 50 nodes, placed once by the real kube-scheduler alone and once asking kwatt's extender: the fleet draws
less the second time, by what its agents publish.

kube-apiserver, kube-scheduler and redis-server are real, kwok keeps the nodes ready and lets bound pods run, and the scheduler's
configuration is what `kwatt scheduler-config` prints. Agents are simulated: each node's sample, curve and feed entry as an agent
writes them, its load being what the pods that run there use. The nodes are three generations of servers, with the curves of
docs/placement/fleet.csv.

Pods come and go in steps, and a step lasts as long as its pods need to run; its energy is what the nodes then publish, over a minute
of the fleet's own time. So the figures are of where pods are, and not of how fast this machine is. Pods use 60 to 90 % of what they
request, and kwatt learns that from the samples alone, when they run.
"""
import collections
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import apiserver
import extender_rig
from process import build, check, wait_for

SOURCE = pathlib.Path(os.environ.get("KWATT_SOURCE_DIR") or pathlib.Path(__file__).resolve().parent.parent)
KWATT = pathlib.Path(extender_rig.BUILD).resolve() / "cli/kwatt"
PODS = "/api/v1/namespaces/default/pods"
RULES = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}]
FLEET = {"e5-2660": 20, "epyc-9654": 20, "epyc-9965": 10}   # 16000 cores
STEPS, STEP_SECONDS, LIFE = 12, 60, 6                       # a pod lives for so many steps
PODS_A_STEP = 45                                            # of 16 cores on the mean: 270 at a time, 27 % of the fleet
REQUESTS = (4, 8, 16, 24, 28)                               # cores; the smallest nodes have 32
PAUSE_S = 0.25
# A quarter is saved, however the scheduler breaks its ties; half of that is no accident.
SAVES = 0.12

# What kwok does where a kubelet would: nodes become ready, and bound pods run.
STAGES = """apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions: [{key: '.status.phase', operator: NotIn, values: [Running]}]
  next:
    statusTemplate: |
      phase: Running
      conditions: [{type: Ready, status: "True", reason: KubeletReady, message: up, lastHeartbeatTime: {{ Now }}, lastTransitionTime: {{ Now }}}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions: [{key: '.status.phase', operator: NotIn, values: [Running]}]
  next:
    statusTemplate: |
      phase: Running
      startTime: {{ Now }}
"""

Pod = collections.namedtuple("Pod", "name request_mcpu used_mcpu begin end")


class Kind:
    """A kind of server: its curve, and watts by it."""

    def __init__(self, rows: list[dict]):
        self.capacity_mcpu = int(rows[0]["cores"]) * 1000
        self.knots = [(int(row["load_pct"]) * 10, round(float(row["watts"]) * 1000)) for row in rows]
        self.curve = json.dumps({"schema": 1, "capacity_mcpu": self.capacity_mcpu, "estimated": False,
                                 "knots": [{"load_permille": load, "mw": mw} for load, mw in self.knots]})

    def mw(self, used_mcpu: int) -> int:
        load = 1000 * used_mcpu / self.capacity_mcpu
        for (x0, y0), (x1, y1) in zip(self.knots, self.knots[1:]):
            if load <= x1:
                return round(y0 + (y1 - y0) * (load - x0) / (x1 - x0))
        return self.knots[-1][1]


def kinds() -> dict[str, Kind]:
    rows = collections.defaultdict(list)
    with open(SOURCE / "docs/placement/fleet.csv", encoding="ascii", newline="") as file:
        for row in csv.DictReader(file):
            rows[row["node"]].append(row)
    return {name: Kind(rows[f"{name}-0"]) for name in FLEET}


def all_pods() -> list[Pod]:
    chance = random.Random(1)
    pods = []
    for step in range(STEPS):
        for number in range(PODS_A_STEP):
            request = 1000 * chance.choice(REQUESTS)
            pods.append(Pod(f"pod-{step}-{number}", request, round(request * chance.uniform(0.6, 0.9)), step, step + LIFE))
    return pods


class Server(apiserver.ApiServer):
    programs = ("kube-apiserver", "kubectl", "kube-scheduler")
    # kwok asks for streamed lists for ever, which the server offers and cannot give with an etcd of 3.4
    options = ("--feature-gates=WatchList=false",)


class Rig:
    def __init__(self, server: Server):
        self.server, self.seq, self.started = server, 0, []
        self.pods = {pod.name: pod for pod in all_pods()}
        all_kinds = kinds()
        self.nodes = {f"{name}-{number}": all_kinds[name] for name, count in FLEET.items() for number in range(count)}
        self.used: dict[str, int] = {}
        self.uj, self.idle_uj = collections.Counter(), collections.Counter()
        self.redis = extender_rig.Redis(str(server.dir))

    def start(self) -> None:
        self.redis.start()
        for name, kind in self.nodes.items():
            room = {"cpu": str(kind.capacity_mcpu // 1000), "memory": f"{6 * kind.capacity_mcpu // 1000}Gi", "pods": "250"}
            self.server.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name}}, "status": {"allocatable": room, "capacity": room}})
        stages = self.server.dir / "stages.yaml"
        stages.write_text(STAGES)
        self.started.append(self.server.spawn("kwok", [
            str(build.programs("kwok") / "kwok"), "--kubeconfig", self.server.kubeconfig, "--manage-all-nodes", "--config", str(stages)]))
        self.server.until("kwok to make the nodes ready", "/api/v1/nodes", lambda nodes: all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", [])) for node in nodes["items"]))
        for name in self.nodes:     # no controller runs that takes away the taint of a node that was just made
            self.server.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")
        self.publish()
        self.extender = extender_rig.Extender(
            str(self.server.dir), self.redis.path, "--watch-pods", "--watch-nodes", "--stale-after", "1h",
            "--kubeconfig", self.server.service_account("extender", RULES))
        self.started.append(self.extender.process)
        for metric, count in (("nodes", len(self.nodes)), ("watching_nodes", 1), ("watching_pods", 1)):
            wait_for(metric, lambda metric=metric, count=count: self.extender.metric(f"kwatt_extender_{metric}") == count)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.redis.kill()

    # ---- agents ----

    def publish(self) -> int:
        """What all agents say of the present load. Returns what the fleet draws."""
        self.seq += 1
        now, total = int(time.time() * 1000), 0
        for name, kind in self.nodes.items():
            used = self.used.get(name, 0)
            mw = kind.mw(used)
            total += mw
            idle_mw = kind.knots[0][1]
            self.uj[name] += round(mw * PAUSE_S * 1000)
            self.idle_uj[name] += round(idle_mw * PAUSE_S * 1000)
            energy = {"measured_uj": self.uj[name], "idle_uj": self.idle_uj[name], "pods_uj": self.uj[name] - self.idle_uj[name], "system_uj": 0}
            extender_rig.publish(self.redis, json.dumps({
                "schema": 1, "node": name, "epoch": 1760000000000, "seq": self.seq, "t_unix_ms": now,
                "interval_ns": int(PAUSE_S * 1e9), "packages": [{"package": 0, "cpu": energy}], "watts_mw": mw, "used_mcpu": used,
                "allocatable_mcpu": kind.capacity_mcpu, "idle_mw": idle_mw, "meter": "powercap", "accounting": "ebpf"}), kind.curve)
        return total

    def look(self) -> dict[str, str]:
        """Where pods run, and the agents' say on that."""
        running = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.server.request("GET", PODS)["items"]
                   if pod["status"]["phase"] == "Running"}
        self.used = collections.Counter()
        for name, node in running.items():
            self.used[node] += self.pods[name].used_mcpu
        self.mw = self.publish()
        time.sleep(PAUSE_S)
        return running

    # ---- a run ----

    def config(self, asking: bool) -> str:
        path = self.server.dir / "scheduler.yaml"
        if asking:
            text = subprocess.run([KWATT, "scheduler-config", "--extender-url", f"http://127.0.0.1:{self.extender.port}",
                                   "--scheduler-kubeconfig", self.server.kubeconfig, "--http-timeout", "30s"],
                                  check=True, capture_output=True, text=True).stdout
        else:
            text = ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                    f"clientConnection:\n  kubeconfig: {self.server.kubeconfig}\n")
        path.write_text(f"{text}\nleaderElection:\n  leaderElect: false\n")
        return str(path)

    def create(self, pod: Pod) -> None:
        self.server.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name}, "spec": {
            "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0, "containers": [
                {"name": "c", "image": "none", "resources": {"requests": {"cpu": f"{pod.request_mcpu}m"}}}]}})

    def delete(self, name: str) -> None:
        self.server.request("DELETE", f"{PODS}/{name}", {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def run(self, asking: bool) -> float:
        """Energy of the fleet, in kWh."""
        scheduler = self.server.spawn("kube-scheduler", [
            str(self.server.bin / "kube-scheduler"), "--config", self.config(asking), "--bind-address", "127.0.0.1", "--secure-port", "0"])
        self.started.append(scheduler)
        asked, uj = self.asked(), 0
        for step in range(STEPS):
            alive = {pod.name for pod in self.pods.values() if pod.begin <= step < pod.end}
            for pod in self.pods.values():
                if pod.end == step:
                    self.delete(pod.name)
            for pod in self.pods.values():
                if pod.begin == step:
                    self.create(pod)
            wait_for(f"the pods of step {step} to run", lambda alive=alive: set(self.look()) == alive, pause=0)
            uj += self.mw * 1000 * STEP_SECONDS
        for name in self.look():
            self.delete(name)
        wait_for("all pods to be gone", lambda: not self.look(), pause=0)
        scheduler.kill()
        scheduler.wait()
        asked = self.asked() - asked
        check(asked >= len(self.pods) if asking else asked == 0, f"the extender was asked {asked:.0f} times for {len(self.pods)} pods")
        return uj / 3.6e12

    def asked(self) -> float:
        return self.extender.metric('kwatt_extender_requests_total{verb="prioritize",outcome="ok"}') or 0


def test(server: Server) -> None:
    rig = Rig(server)
    try:
        rig.start()
        default, kwatt = rig.run(asking=False), rig.run(asking=True)
        saved = 1 - kwatt / default
        print(f"{len(rig.pods)} pods on {len(rig.nodes)} nodes: default scheduler {default:.3f} kWh, with kwatt {kwatt:.3f} kWh: {-saved:+.1%}",
              flush=True)
        check(saved >= SAVES, f"less than {SAVES:.0%} were saved")
        check(rig.extender.stop() == 0, "the extender did not end well")
    except BaseException:
        print(rig.extender.log() if hasattr(rig, "extender") else "")
        raise
    finally:
        rig.close()


if __name__ == "__main__":
    sys.exit(apiserver.run(test, kind=Server))
