# SPDX-License-Identifier: Apache-2.0
"""Power caps on the real kube-scheduler: a real kube-apiserver, redis-server and kube-scheduler that asks two kwatt-extenders in turn,
and nodes that are objects without kubelets. What is let in stays under the caps, what is not says why, and no pod is forgotten once
there is room: each is woken by an annotation of a node, long before the scheduler would try it again by itself.
"""
import json
import sys
import time

import scheduler_rig
from extender_rig import publish, sample
from process import check, wait_for
from scheduler_rig import PATCH, PODS, Server

RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
         {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
         {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]
NODES = ("node-a", "node-b")


def curve() -> str:
    """100 W, and 10 W for each of 32 cores."""
    return json.dumps({"schema": 1, "capacity_mcpu": 32000, "estimated": True,
                       "knots": [{"load_permille": 0, "mw": 100000}, {"load_permille": 1000, "mw": 420000}]})


class Rig(scheduler_rig.Rig):
    cpu = "1000"

    def __init__(self, server: Server):
        super().__init__(server)
        self.used = dict.fromkeys(NODES, 1000)
        self.caps = server.dir / "caps.yaml"
        self.write_caps("domains: {dc1: 10k}\n")
        for name in NODES:
            self.add_node(name, annotations={"kwatt.io/power-domain": "dc1/row1"})
        self.publish()
        kubeconfig = server.service_account("extender", RULES)
        for name in ("one", "two"):
            self.start_extender(name, kubeconfig, "--watch-pods", "--watch-nodes", "--write-headroom", "--events", "--caps", str(self.caps),
                                "--cap-sigma-permille", "0")
        wait_for("the nodes are watched", lambda: self.metric("watching_nodes") == 2)

    def publish(self) -> None:
        self.seq += 1
        for name, used in self.used.items():
            publish(self.redis, sample(name, self.seq, used, interval_ms=100), curve())

    def annotate(self, node: str, **values: str | None) -> None:
        self.server.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {
            f"kwatt.io/{key.replace('_', '-')}": value for key, value in values.items()}}}, PATCH)

    def annotation(self, node: str, key: str) -> str | None:
        return self.server.request("GET", f"/api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(f"kwatt.io/{key}")

    def refused(self, name: str) -> str:
        """Why the scheduler has no node for it."""
        def reason() -> str:
            conditions = self.server.request("GET", f"{PODS}/{name}")["status"].get("conditions", [])
            return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")
        return wait_for(f"{name} to be refused", reason)

    def write_caps(self, text: str) -> None:
        """At once, as a ConfigMap changes: an extender may read at any time."""
        new = self.caps.with_suffix(".new")
        new.write_text(text)
        new.replace(self.caps)

    def events(self) -> list[dict]:
        return [e for e in self.server.request("GET", "/api/v1/events")["items"] if e["source"].get("component") == "kwatt-extender"]


def known(rig: Rig, node: str, watts: str) -> None:
    """Until the extenders have written what is left on a node."""
    rig.wait(f"{watts} W on {node}", lambda: rig.annotation(node, "headroom-watts") == watts)


def node_caps(rig: Rig) -> None:
    for name in NODES:                                      # 110 W each
        rig.annotate(name, power_cap_watts="160")
    for name in NODES:
        known(rig, name, "50")
    rig.start_scheduler(rig.asking())
    first = [rig.placed(rig.pod(f"first-{n}", "4")) for n in range(2)]
    check(sorted(first) == sorted(NODES), f"two pods of 40 W have no room on one node: {first}")
    rig.pod("second", "4")
    why = rig.refused("second")
    check("no room under the node's power cap" in why and "0/2 nodes" in why, why)
    rig.wait("an Event", lambda: [e for e in rig.events() if e["reason"] == "KwattCapped" and "node's power cap" in e["message"]])
    # nothing that a scheduler looks at changes: a pod ends, and the samples show it
    rig.annotate("node-b", power_cap_watts="110")
    rig.server.request("PATCH", f"{PODS}/first-0/status", {"status": {"phase": "Running"}}, PATCH)
    rig.annotate("node-a", power_cap_watts="200")
    check(rig.placed("second") == "node-a", "not where the room is")
    check(rig.metric("wakes_total") >= 1, "it was not woken")
    print("ok node caps hold, say why, and wake")


def watts_come_back(rig: Rig) -> None:
    """Room that no object tells of: only the samples show it."""
    rig.annotate("node-a", power_cap_watts="500")
    rig.annotate("node-b", power_cap_watts="110")
    # the room of before was below 100 W, too
    rig.wait("the new cap to be seen", lambda: int(rig.annotation("node-a", "headroom-watts") or 0) > 200)
    rig.used["node-a"] = 30000
    rig.wait("the load to be seen", lambda: rig.metric("refreshes_total") and int(rig.annotation("node-a", "headroom-watts") or 999) < 100)
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
    rig.wait("none in flight", lambda: rig.metric("pods_in_flight") == 0)
    rig.write_caps("domains: {dc1: 270}\n")            # 50 W: five pods
    rig.wait("the caps to be read", lambda: all(rig.annotation(name, "headroom-watts") == "50" for name in NODES))
    names = [rig.pod(f"burst-{n}", "1") for n in range(12)]
    waiting = set(names)
    rounds = 0
    while waiting:
        rounds += 1
        check(rounds <= 12, f"{waiting} were forgotten")
        bound = rig.wait(f"one of {len(waiting)} pods to be placed", lambda: [n for n in waiting if rig.node_of(n)], 280)
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
    rig.write_caps("domains: {dc1: lots}\n")
    wait_for("a bad file to be told", lambda: rig.metric("caps_file_bad") == 2)
    check('dc1: "lots" is no number of watts' in rig.extenders["one"].log().replace("\\", ""), rig.extenders["one"].log())
    rig.write_caps(good)
    wait_for("a good file", lambda: rig.metric("caps_file_bad") == 0)
    print("ok bad values are told")


if __name__ == "__main__":
    sys.exit(scheduler_rig.run(Rig, node_caps, watts_come_back, no_pod_is_forgotten, bad_values_are_told))
