# SPDX-License-Identifier: Apache-2.0
"""What a joule costs by zone, on the real kube-scheduler: a real kube-apiserver, redis-server and kube-scheduler that asks two
kwatt-extenders in turn. Two nodes draw the same; pods go where a joule costs less, follow the file when it changes, and stay where
they went when it turns bad. `kwatt explain` says what was known.
"""
import json
import subprocess
import sys

import scheduler_rig
from extender_rig import Extender, curve, publish, sample
from process import check, wait_for
from scheduler_rig import KWATT, PATCH, Server

RULES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
NODES = {"node-a": {"kwatt.io/carbon-zone": "north", "topology.kubernetes.io/zone": "south"},
         "node-b": {"topology.kubernetes.io/zone": "south"}}
HEAD = "unit = gCO2eq/kWh\nsource = grid operator, week 48\n"


class Rig(scheduler_rig.Rig):
    def __init__(self, server: Server):
        super().__init__(server)
        self.zones = server.dir / "zones"
        self.write("north, 50\nsouth, 400\n")
        for name, labels in NODES.items():
            self.add_node(name, labels=labels)
        self.publish()
        kubeconfig = server.service_account("extender", RULES)
        for name in ("one", "two"):
            self.start_extender(name, kubeconfig, "--watch-nodes", "--zones", str(self.zones))
        self.start_scheduler(self.asking(prioritizeVerb="prioritize"))
        wait_for("the nodes are watched", lambda: self.metrics("watching_nodes") == [1, 1])

    def write(self, zones: str) -> None:
        """As a volume of a ConfigMap changes: all at once."""
        fresh = self.zones.with_suffix(".new")
        fresh.write_text(HEAD + zones)
        fresh.rename(self.zones)

    def publish(self) -> None:
        """Two nodes that draw and do the same."""
        self.seq += 1
        for name in NODES:
            publish(self.redis, sample(name, self.seq, 2000, interval_ms=100), curve(60))

    def scores(self) -> list[int] | None:
        """Of node-a and node-b; None while the replicas differ."""
        one, two = (extender.scores(*NODES) for extender in self.extenders.values())
        return one if one == two else None

    def until(self, scores: list[int]) -> None:
        wait_for(f"scores {scores} from both", lambda: self.scores() == scores)

    def metrics(self, name: str) -> list[float | None]:
        return [extender.metric(f"kwatt_extender_{name}") for extender in self.extenders.values()]

    def goes_to(self, name: str) -> str:
        """Makes a pod, and tells where the scheduler puts it."""
        return self.placed(self.pod(name, "1"))

    def explain(self, extender: Extender, pod: str, *options: str) -> str:
        return subprocess.run([KWATT, "explain", "--extender", f"http://127.0.0.1:{extender.port}", *options, pod], check=True,
                              capture_output=True, text=True).stdout


def the_cheap_zone(rig: Rig) -> None:
    rig.until([10, 0])
    check(rig.metrics('zone_nodes{zone="listed"}') == [2, 2] and rig.metrics("zones") == [2, 2], "the nodes' zones are not known")
    for number in range(4):
        check(rig.goes_to(f"first-{number}") == "node-a", "not where a joule costs less")
    for extender in rig.extenders.values():
        decision = json.loads(rig.explain(extender, "default/first-3", "--json"))["decisions"][0]
        check(decision["zones"] == {"unit": "gCO2eq/kWh", "source": "grid operator, week 48", "median": 225}, str(decision))
        best = decision["best"][0]
        check((best["node"], best["zone"], best["zone_value"]) == ("node-a", "north", 50), str(decision))
        text = rig.explain(extender, "default/first-3")
        check("in gCO2eq/kWh; source: grid operator, week 48; median: 225" in text and "node-a  north: 50 gCO2eq/kWh" in text, text)
    print("ok pods go where a joule costs less, and it is explained")


def a_file_that_changes(rig: Rig) -> None:
    rig.write("north, 400\nsouth, 50\n")
    rig.until([0, 10])
    for number in range(4):
        check(rig.goes_to(f"second-{number}") == "node-b", "the file is not followed")
    print("ok pods follow the file")


def a_file_that_is_bad(rig: Rig) -> None:
    rig.write("north, 50\nsouth, much\n")
    wait_for("it is counted", lambda: rig.metrics("zones_file_bad") == [1, 1])
    for extender in rig.extenders.values():
        log = extender.log().replace("\\", "")
        check(f'{rig.zones}, line 4: south: "much" is no number from 0 to 1000000' in log and "the zones stay as they were" in log, log)
    check(rig.scores() == [0, 10], "the last good zones are lost")
    rig.zones.unlink()
    wait_for("its absence is told", lambda: all("No such file or directory" in extender.log() for extender in rig.extenders.values()))
    check(rig.scores() == [0, 10] and rig.metrics("zones_file_bad") == [1, 1], "the last good zones are lost")
    rig.write("north, 50\nsouth, 400\n")
    rig.until([10, 0])
    wait_for("it is good", lambda: rig.metrics("zones_file_bad") == [0, 0])
    print("ok a bad file is told, and the last good one holds")


def zones_that_are_not_named(rig: Rig) -> None:
    rig.server.request("PATCH", "/api/v1/nodes/node-a", {"metadata": {"annotations": {"kwatt.io/carbon-zone": "moon"}}},
                       PATCH)
    wait_for("it is counted", lambda: rig.metrics('zone_nodes{zone="unlisted"}') == [1, 1])
    rig.until([10, 0])      # 225, against 400
    rig.write("north, 50\nsouth, 10\n")
    rig.until([0, 10])      # 30, against 10
    check(rig.goes_to("third") == "node-b", "an unknown zone does not cost the median")
    rig.server.request("PATCH", "/api/v1/nodes/node-a", {"metadata": {"annotations": {"kwatt.io/carbon-zone": None},
                                                                      "labels": {"kwatt.io/carbon-zone": None,
                                                                                 "topology.kubernetes.io/zone": None}}},
                       PATCH)
    wait_for("it is counted", lambda: rig.metrics('zone_nodes{zone="unlabelled"}') == [1, 1])
    check(rig.scores() == [0, 10], "a node without a zone does not cost the median")
    print("ok what is not known costs the median")


if __name__ == "__main__":
    sys.exit(scheduler_rig.run(Rig, the_cheap_zone, a_file_that_changes, a_file_that_is_bad, zones_that_are_not_named))
