# SPDX-License-Identifier: Apache-2.0
"""Power caps on the real kube-scheduler: a real kube-apiserver, redis-server and kube-scheduler that asks two kwatt-extenders in turn,
and nodes that are objects without kubelets. What is let in stays under the caps, what is not says why, and no pod is forgotten once
there is room: each is woken by an annotation of a node, long before the scheduler would try it again by itself.
"""
import json
import pathlib
import sys
import time

import apiserver
import extender_rig
from extender_rig import sample
from process import check, wait_for

RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
         {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
         {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]
PODS = "/api/v1/namespaces/default/pods"
NODES = ("node-a", "node-b")


class Server(apiserver.ApiServer):
    programs = ("kube-apiserver", "kubectl", "kube-scheduler")


def curve() -> str:
    """100 W, and 10 W for each of 32 cores."""
    return json.dumps({"schema": 1, "capacity_mcpu": 32000, "estimated": True,
                       "knots": [{"load_permille": 0, "mw": 100000}, {"load_permille": 1000, "mw": 420000}]})


class Rig:
    def __init__(self, server: Server):
        self.server = server
        self.redis = extender_rig.Redis(str(server.dir))
        self.redis.start()
        self.seq = 0
        self.used = dict.fromkeys(NODES, 1000)
        self.caps = server.dir / "caps.yaml"
        self.caps.write_text("domains: {dc1: 10k}\n")
        for name in NODES:
            self.server.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {
                "name": name, "annotations": {"kwatt.io/power-domain": "dc1/row1"}}, "status": {
                    "allocatable": {"cpu": "1000", "memory": "512Gi", "pods": "1000"},
                    "capacity": {"cpu": "1000", "memory": "512Gi", "pods": "1000"},
                    "conditions": [{"type": "Ready", "status": "True"}]}})
        self.untaint()
        self.publish()
        kubeconfig = server.service_account("extender", RULES)
        self.extenders = [self.start_extender(kubeconfig, number) for number in range(2)]
        self.scheduler = None

    def untaint(self) -> None:
        """A node that was just made is tainted until a controller, which does not run here, has seen it ready."""
        for name in NODES:
            self.server.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")

    def start_extender(self, kubeconfig: str, number: int) -> extender_rig.Extender:
        folder = self.server.dir / f"extender-{number}"
        folder.mkdir()
        return extender_rig.Extender(str(folder), self.redis.path, "--watch-pods", "--watch-nodes", "--write-headroom", "--events",
                                     "--caps", str(self.caps), "--cap-sigma-permille", "0", "--kubeconfig", kubeconfig,
                                     "--stale-after", "1h")

    def start_scheduler(self) -> None:
        """It keeps asking one extender; two are configured, so that each is asked about every pod."""
        kubeconfig = self.server.write_kubeconfig(self.server.dir / "scheduler.kubeconfig", {
            "client-certificate": "pki/admin.crt", "client-key": "pki/admin.key"})
        config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                  "clientConnection": {"kubeconfig": str(kubeconfig)}, "leaderElection": {"leaderElect": False},
                  "percentageOfNodesToScore": 100, "extenders": [
                      {"urlPrefix": f"http://127.0.0.1:{extender.port}", "filterVerb": "filter", "prioritizeVerb": "prioritize",
                       "preemptVerb": "preempt", "weight": 1, "nodeCacheCapable": True, "httpTimeout": "30s"}
                      for extender in self.extenders]}
        path = self.server.dir / "scheduler.yaml"
        path.write_text(json.dumps(config))
        self.scheduler = self.server.spawn("kube-scheduler", [
            str(self.server.bin / "kube-scheduler"), "--config", str(path), "--bind-address", "127.0.0.1", "--secure-port", "0"])

    def publish(self) -> None:
        self.seq += 1
        for name, used in self.used.items():
            self.redis.call("HSET", "kwatt:v1:node:{%s}" % name, "sample",
                            sample(name, self.seq, used, interval_ms=100), "curve", curve())
            self.redis.call("ZADD", "kwatt:v1:nodes", int(time.time() * 1000), name)

    def annotate(self, node: str, **values: str | None) -> None:
        self.server.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {
            f"kwatt.io/{key.replace('_', '-')}": value for key, value in values.items()}}}, "application/merge-patch+json")

    def annotation(self, node: str, key: str) -> str | None:
        return self.server.request("GET", f"/api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(f"kwatt.io/{key}")

    def pod(self, name: str, cpu: str, **annotations: str) -> str:
        self.server.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": {
            "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}})
        return name

    def node_of(self, name: str) -> str | None:
        return self.server.request("GET", f"{PODS}/{name}")["spec"].get("nodeName")

    def refused(self, name: str) -> str:
        """Why the scheduler has no node for it."""
        def reason() -> str:
            conditions = self.server.request("GET", f"{PODS}/{name}")["status"].get("conditions", [])
            return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")
        return wait_for(f"{name} to be refused", reason)

    def placed(self, name: str, seconds: float = 200) -> str:
        """Well below the five minutes after which the scheduler tries rejected pods by itself."""
        return wait_for(f"{name} to be placed", lambda: self.publish() or self.node_of(name), seconds)

    def delete(self, name: str) -> None:
        self.server.request("DELETE", f"{PODS}/{name}", {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def metric(self, name: str) -> float:
        return sum(extender.metric(name) or 0 for extender in self.extenders)

    def events(self) -> list[dict]:
        return [e for e in self.server.request("GET", "/api/v1/events")["items"] if e["source"].get("component") == "kwatt-extender"]

    def close(self) -> None:
        for process in [self.scheduler, *(extender.process for extender in self.extenders)]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.redis.kill()


def known(rig: Rig, node: str, watts: str) -> None:
    """Until the extenders have written what is left on a node."""
    wait_for(f"{watts} W on {node}", lambda: rig.publish() or rig.annotation(node, "headroom-watts") == watts)


def node_caps(rig: Rig) -> None:
    for name in NODES:                                      # 110 W each
        rig.annotate(name, power_cap_watts="160")
    for name in NODES:
        known(rig, name, "50")
    rig.start_scheduler()
    first = [rig.placed(rig.pod(f"first-{n}", "4")) for n in range(2)]
    check(sorted(first) == sorted(NODES), f"two pods of 40 W have no room on one node: {first}")
    rig.pod("second", "4")
    why = rig.refused("second")
    check("no room under the node's power cap" in why and "0/2 nodes" in why, why)
    wait_for("an Event", lambda: rig.publish() or [e for e in rig.events() if e["reason"] == "KwattCapped" and "node's power cap" in e["message"]])
    # nothing that a scheduler looks at changes: a pod ends, and the samples show it
    rig.annotate("node-b", power_cap_watts="110")
    rig.server.request("PATCH", f"{PODS}/first-0/status", {"status": {"phase": "Running"}}, "application/merge-patch+json")
    rig.annotate("node-a", power_cap_watts="200")
    check(rig.placed("second") == "node-a", "not where the room is")
    check(rig.metric("kwatt_extender_wakes_total") >= 1, "it was not woken")
    print("ok node caps hold, say why, and wake")


def watts_come_back(rig: Rig) -> None:
    """Room that no object tells of: only the samples show it."""
    rig.annotate("node-a", power_cap_watts="500")
    rig.annotate("node-b", power_cap_watts="110")
    # the room of before was below 100 W, too
    wait_for("the new cap to be seen", lambda: rig.publish() or int(rig.annotation("node-a", "headroom-watts") or 0) > 200)
    rig.used["node-a"] = 30000
    wait_for("the load to be seen", lambda: rig.publish() or rig.metric("kwatt_extender_refreshes_total") and int(rig.annotation("node-a", "headroom-watts") or 999) < 100)
    rig.pod("third", "11")
    rig.refused("third")
    rig.used["node-a"] = 1000
    check(rig.placed("third") == "node-a", "not where the room is")
    print("ok watts that come back wake a pod")


def no_pod_is_forgotten(rig: Rig) -> None:
    """A burst above a domain's cap: it is filled, not passed, and all find room in the end, a few at a time."""
    for name in NODES:
        rig.annotate(name, power_cap_watts=None)
    rig.used = dict.fromkeys(NODES, 1000)                   # 220 W, and what is in flight
    for name in ("first-0", "first-1", "second", "third"):
        rig.delete(name)
    wait_for("none in flight", lambda: rig.publish() or rig.metric("kwatt_extender_pods_in_flight") == 0)
    rig.caps.write_text("domains: {dc1: 270}\n")            # 50 W: five pods
    wait_for("the caps to be read", lambda: rig.publish() or all(rig.annotation(name, "headroom-watts") == "50" for name in NODES))
    names = [rig.pod(f"burst-{n}", "1") for n in range(12)]
    waiting = set(names)
    rounds = 0
    while waiting:
        rounds += 1
        check(rounds <= 12, f"{waiting} were forgotten")
        bound = wait_for(f"one of {len(waiting)} pods to be placed", lambda: rig.publish() or [n for n in waiting if rig.node_of(n)], 280)
        time.sleep(1)
        bound = [n for n in waiting if rig.node_of(n)]
        check(len(bound) <= 5, f"{bound} draw more than 50 W")
        for name in bound:
            rig.delete(name)
        waiting -= set(bound)
    wait_for("an Event", lambda: [e for e in rig.events() if "power cap of the node's domain" in e["message"]])
    print(f"ok 12 pods of 10 W went through 50 W of a domain in {rounds} rounds")


def bad_values_are_told(rig: Rig) -> None:
    rig.annotate("node-a", sleepable="perhaps")
    wait_for("a Warning", lambda: [e for e in rig.events() if e["reason"] == "KwattBadValue" and e["type"] == "Warning"
                                   and e["involvedObject"]["name"] == "node-a" and "kwatt.io/sleepable" in e["message"]])
    good = rig.caps.read_text()
    rig.caps.write_text("domains: {dc1: lots}\n")
    wait_for("a bad file to be told", lambda: rig.metric("kwatt_extender_caps_file_bad") == 2)
    check('dc1: "lots" is no number of watts' in rig.extenders[0].log().replace("\\", ""), rig.extenders[0].log())
    rig.caps.write_text(good)
    wait_for("a good file", lambda: rig.metric("kwatt_extender_caps_file_bad") == 0)
    print("ok bad values are told")


def test(server: Server) -> None:
    rig = Rig(server)
    try:
        wait_for("the nodes are watched", lambda: rig.metric("kwatt_extender_watching_nodes") == 2)
        for part in (node_caps, watts_come_back, no_pod_is_forgotten, bad_values_are_told):
            part(rig)
        for extender in rig.extenders:
            check(extender.stop() == 0, extender.log())
    except BaseException:
        for extender in rig.extenders:
            print(extender.log())
        raise
    finally:
        rig.close()


def main() -> int:
    try:
        with Server() as server:
            test(server)
    except apiserver.build.Missing as error:
        return apiserver.build.end(error)
    return 0


if __name__ == "__main__":
    assert pathlib.Path(extender_rig.PROGRAM).is_file(), extender_rig.PROGRAM
    sys.exit(main())
