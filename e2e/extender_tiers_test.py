#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiers on the real kube-scheduler: a real kube-apiserver and redis-server, two kwatt-extenders of which one labels the nodes, and a
kube-scheduler that asks neither and goes by the labels, with the configuration that `kwatt scheduler-config --tiers` prints.
"""
import collections
import json
import subprocess
import sys
import time

import scheduler_rig
from extender_rig import publish, sample
from process import check
from scheduler_rig import KWATT, PATCH

NAMESPACE, LEASE = "energy", "kwatt-extender"
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
         {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
         {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]
LABEL = "kwatt.io/power-tier"
EVERY_S, PER_S = 2, 20
CAPACITY, USED_MCPU = 64, 4000
# watts of a core, and a node that no agent tells of
CORES = {"cheap": 2, "between": 2.1, "dear": 8, "nobody": None}
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Request
  omitStages: [RequestReceived]
  verbs: [patch]
  resources: [{resources: [nodes]}]
- level: None
"""

Patch = collections.namedtuple("Patch", "at user node body code")


class Server(scheduler_rig.Server):
    def __init__(self) -> None:
        super().__init__()
        policy, self.log = self.dir / "audit.yaml", self.dir / "audit.log"
        policy.write_text(POLICY)
        self.options = (f"--audit-policy-file={policy}", f"--audit-log-path={self.log}")

    def patches(self) -> list[Patch]:
        """What extenders have changed of nodes, as the API server saw it."""
        found = []
        for line in self.log.read_text().splitlines() if self.log.exists() else []:
            event = json.loads(line)
            user = event["user"]["username"].rpartition(":")[2]
            stamp = event["requestReceivedTimestamp"]
            at = time.mktime(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone + float("0" + stamp[19:-1])
            if user in ("one", "two"):
                found.append(Patch(at, user, event["objectRef"]["name"], event.get("requestObject"), event["responseStatus"]["code"]))
        return found


class Rig(scheduler_rig.Rig):
    def __init__(self, server: Server):
        super().__init__(server)
        self.watts = {name: watts for name, watts in CORES.items() if watts}
        self.steep: dict[str, float] = {}   # watts of a core in the upper half, where they are others
        self.used_mcpu = USED_MCPU          # of each
        for name in CORES:
            self.add_host(name)
        self.publish()
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        configs = {name: server.service_account(name, rules=RULES, namespace=NAMESPACE) for name in ("one", "two")}
        for name, kubeconfig in configs.items():
            self.start_extender(
                name, kubeconfig, "--watch-pods", "--watch-nodes", "--power-tiers", "--power-tiers-every", f"{EVERY_S}s",
                "--power-tiers-per-second", str(PER_S), "--leader-elect", "--leader-elect-namespace", NAMESPACE,
                "--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "400ms")

    def add_host(self, name: str) -> None:
        self.add_node(name, labels={"kubernetes.io/hostname": name})

    def publish(self) -> None:
        self.seq += 1
        for name in self.watts:
            curve = {"schema": 1, "capacity_mcpu": 1000 * CAPACITY, "estimated": True, "knots": [
                {"load_permille": permille, "mw": int(1000 * self.watts_at(name, permille * CAPACITY / 1000))} for permille in (0, 500, 1000)]}
            publish(self.redis, sample(name, self.seq, self.used_mcpu, interval_ms=100), json.dumps(curve))

    def watts_at(self, node: str, cores: float) -> float:
        lower = min(cores, CAPACITY / 2)
        return 100 + self.watts[node] * lower + self.steep.get(node, self.watts[node]) * (cores - lower)

    def tier(self, node: str) -> str | None:
        return self.server.request("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"].get(LABEL)

    def tiers(self, *names: str) -> list[str | None]:
        return [self.tier(name) for name in names]

    def leaders(self) -> list[str]:
        return [name for name, extender in self.extenders.items() if extender.process.poll() is None
                and extender.metric("kwatt_extender_tiers_leader") == 1]

    def leader(self) -> str:
        names = self.wait("one leads", self.leaders)
        check(len(names) == 1, f"{names} lead at once")
        return names[0]

    def config(self) -> str:
        return subprocess.run([KWATT, "scheduler-config", "--tiers", "--scheduler-kubeconfig", self.server.kubeconfig], check=True,
                              capture_output=True, text=True).stdout

    def goes_to(self, name: str, affinity: dict | None = None, cores: int = 2) -> str:
        return self.placed(self.pod(name, str(cores), affinity))


def on_host(name: str, kind: str) -> dict:
    terms = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
    if kind == "required":
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [terms]}}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": terms}]}}


def nodes_are_labelled(rig: Rig) -> None:
    rig.wait("labels", lambda: rig.tiers("cheap", "dear") == ["0", "9"] and rig.tier("between"))
    between = rig.tier("between")
    check("1" <= between <= "8", f"a node in between has tier {between}")
    check(rig.tier("nobody") is None, "a node that nobody knows has a tier")
    leader = rig.leader()
    patches = rig.server.patches()
    check({patch.user for patch in patches} == {leader}, f"{leader} leads, and {patches}")
    for patch in patches:
        check(patch.code == 200 and list(patch.body) == ["metadata"] and list(patch.body["metadata"]) == ["labels"]
              and list(patch.body["metadata"]["labels"]) == [LABEL], f"more than the label is written: {patch}")
    print("ok nodes are labelled, by one of two")


def pods_go_to_low_tiers(rig: Rig) -> None:
    rig.start_scheduler(rig.config())
    for n in range(5):
        check(rig.goes_to(f"pod-{n}") == "cheap", f"pod {n} is not where it adds the fewest watts")
    check(rig.goes_to("must", on_host("dear", "required")) == "dear", "what a pod requires does not hold")
    check(rig.goes_to("likes", on_host("nobody", "preferred")) == "nobody", "what a pod prefers does not count")
    for name in ("one", "two"):
        asked = [line for line in rig.extenders[name].ask("/metrics").body.decode().splitlines()
                 if line.startswith("kwatt_extender_requests_total")]
        check(all(line.endswith(" 0") for line in asked), f"the scheduler asks {name}: {asked}")
    leader = rig.extenders[rig.leader()]
    rig.wait("tiers for pods as they are", lambda: leader.metric("kwatt_extender_tiers_pod_cores") == 2)
    print("ok pods go to low tiers, and nothing is asked")


def pods_go_where_the_fewest_watts_are_added(rig: Rig) -> None:
    """A node that is the cheapest until its half, and then the dearest. No pod runs here, so each counts by what it requests."""
    for pod in rig.server.request("GET", scheduler_rig.PODS)["items"]:
        rig.delete(pod["metadata"]["name"])
    leader, cores, chosen = rig.extenders[rig.leader()], 8, []
    rig.watts.update(cheap=2, between=6, dear=4)
    rig.steep, rig.used_mcpu = {"cheap": 9}, 0
    for n in range(6):
        added = {node: rig.watts_at(node, cores * (chosen.count(node) + 1)) - rig.watts_at(node, cores * chosen.count(node)) for node in rig.watts}
        best = min(added, key=added.get)
        rig.wait(f"{n} pods to count and {best} to be the cheapest", lambda n=n, best=best: (
            leader.metric("kwatt_extender_pods_in_flight") == n and
            rig.tier(best) == "0" and not {"0", None} & set(rig.tiers(*(node for node in added if node != best)))))
        chosen.append(rig.goes_to(f"watts-{n}", cores=cores))
        check(chosen[-1] == best, f"pod {n} went to {chosen[-1]}, where it adds {added[chosen[-1]]} W; on {best} {added[best]}")
    check(chosen == ["cheap"] * 4 + ["dear"] * 2, f"pods went to {chosen}")
    for n in range(6):
        rig.delete(f"watts-{n}")
    rig.watts.update({name: watts for name, watts in CORES.items() if watts})
    rig.steep, rig.used_mcpu = {}, USED_MCPU
    rig.wait("labels as before", lambda: rig.tiers("cheap", "dear") == ["0", "9"])
    print("ok pods go where the fewest watts are added")


def foreign_labels_are_mended(rig: Rig) -> None:
    for value in ("banana", "7"):
        rig.server.request("PATCH", "/api/v1/nodes/cheap", {"metadata": {"labels": {LABEL: value}}}, PATCH)
        rig.wait(f"{value} to be mended", lambda: rig.tier("cheap") == "0")
    print("ok a label that somebody else wrote is mended")


def writes_are_few(rig: Rig) -> None:
    """Prices that go to and fro, many times in the least time between two changes."""
    before, begin = len(rig.server.patches()), time.monotonic()
    while time.monotonic() - begin < 8 * EVERY_S:
        rig.watts["cheap"], rig.watts["dear"] = rig.watts["dear"], rig.watts["cheap"]
        rig.publish()
        time.sleep(EVERY_S / 7)
    rig.watts.update(cheap=2, dear=8)
    rig.wait("labels to be right again", lambda: rig.tiers("cheap", "dear") == ["0", "9"])
    most = (time.monotonic() - begin) / EVERY_S + 1
    counts = collections.Counter(patch.node for patch in rig.server.patches()[before:])
    check(max(counts.values(), default=0) <= most, f"{counts} in {most * EVERY_S:.0f} s")
    # many at once
    names = [f"more-{n}" for n in range(3 * PER_S)]
    before = len(rig.server.patches())
    for name in names:
        rig.add_host(name)
    rig.watts.update(dict.fromkeys(names, 4))
    rig.wait("all to be labelled", lambda: all(node["metadata"]["labels"].get(LABEL) for node in rig.server.request(
        "GET", "/api/v1/nodes")["items"] if node["metadata"]["name"] in names))
    times = sorted(patch.at for patch in rig.server.patches()[before:])
    check(len(times) >= len(names), f"{len(times)} of {len(names)} patches are in the log")
    # one after another, each with a wait behind it
    least = min(b - a for a, b in zip(times, times[1:]))
    check(least >= 0.8 / PER_S, f"two labels within {least * 1000:.0f} ms")
    print("ok no label is written too often, nor too many")


def another_takes_over(rig: Rig) -> None:
    first = rig.leader()
    rig.extenders[first].process.kill()
    rig.extenders[first].process.wait()
    second = rig.leader()
    check(second != first, f"{first} leads and is dead")
    before = len(rig.server.patches())
    rig.watts.update(cheap=8, dear=2)
    rig.wait("labels to follow", lambda: rig.tiers("cheap", "dear") == ["9", "0"])
    users = {patch.user for patch in rig.server.patches()[before:]}
    check(users == {second}, f"{users} wrote after {second} took over")
    check(rig.goes_to("after") == "dear", "the pod does not follow the labels")
    print("ok another takes over where the leader dies")


def unknown_nodes_lose_theirs(rig: Rig) -> None:
    del rig.watts["between"]
    rig.redis.call("HDEL", "kwatt:v1:node:{between}", "curve")
    rig.redis.call("HSET", "kwatt:v1:node:{between}", "sample", sample("between", rig.seq + 1000, 4000, interval_ms=100))
    rig.redis.call("ZADD", "kwatt:v1:nodes", int(time.time() * 1000), "between")
    rig.wait("the label to go", lambda: rig.tier("between") is None)
    print("ok a node without a curve loses its label")


def the_api_server_may_go(rig: Rig) -> None:
    leader = rig.leader()
    rig.server.kill()
    rig.watts.update(cheap=2, dear=8)
    for _ in range(10):
        rig.publish()
        time.sleep(0.3)
    rig.server.start()
    rig.wait("labels to follow once it is back", lambda: rig.tiers("cheap", "dear") == ["0", "9"])
    check(rig.leaders() == [leader], "nobody leads")
    print("ok the API server may go and come back")


def the_lease_is_handed_back(rig: Rig) -> None:
    last = rig.extenders[rig.leader()]
    check(last.stop() == 0, last.log())
    lease = rig.server.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}")["spec"]
    check(not lease.get("holderIdentity"), f"the lease is not handed back: {lease}")
    print("ok the lease is handed back")


if __name__ == "__main__":
    sys.exit(scheduler_rig.run(
        Rig, nodes_are_labelled, pods_go_to_low_tiers, pods_go_where_the_fewest_watts_are_added, foreign_labels_are_mended, writes_are_few,
        another_takes_over, unknown_nodes_lose_theirs, the_api_server_may_go, the_lease_is_handed_back, server=Server))
