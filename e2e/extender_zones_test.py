# SPDX-License-Identifier: Apache-2.0
"""What a joule costs by zone, on the real kube-scheduler: a real kube-apiserver, redis-server and kube-scheduler that asks two
kwatt-extenders in turn. Two nodes draw the same; pods go where a joule costs less, follow the file when it changes, and stay where
they went when it turns bad. `kwatt explain` says what was known.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

import apiserver
import extender_rig
from extender_rig import curve, sample
from process import check, wait_for

RULES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
PODS = "/api/v1/namespaces/default/pods"
KWATT = os.path.join(extender_rig.BUILD, "cli", "kwatt")
NODES = {"node-a": {"kwatt.io/carbon-zone": "north", "topology.kubernetes.io/zone": "south"},
         "node-b": {"topology.kubernetes.io/zone": "south"}}
HEAD = "unit = gCO2eq/kWh\nsource = grid operator, week 48\n"


class Server(apiserver.ApiServer):
    programs = ("kube-apiserver", "kubectl", "kube-scheduler")


class Rig:
    def __init__(self, server: Server):
        self.server = server
        self.redis = extender_rig.Redis(str(server.dir))
        self.redis.start()
        self.seq = 0
        self.zones = server.dir / "zones"
        self.write("north, 50\nsouth, 400\n")
        for name, labels in NODES.items():
            self.server.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                                                          "status": {
                "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "1000"}, "capacity": {"cpu": "64", "memory": "512Gi", "pods": "1000"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
            # a controller, which does not run here, would take the taint of a new node away
            self.server.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")
        self.publish()
        self.extenders = [self.start_extender(number) for number in range(2)]
        self.scheduler = self.start_scheduler()

    def write(self, zones: str) -> None:
        """As a volume of a ConfigMap changes: all at once."""
        fresh = self.zones.with_suffix(".new")
        fresh.write_text(HEAD + zones)
        fresh.rename(self.zones)

    def start_extender(self, number: int) -> extender_rig.Extender:
        folder = self.server.dir / f"extender-{number}"
        folder.mkdir()
        return extender_rig.Extender(str(folder), self.redis.path, "--watch-nodes", "--zones", str(self.zones), "--kubeconfig",
                                     self.server.service_account("extender", RULES), "--stale-after", "1h")

    def start_scheduler(self) -> subprocess.Popen:
        """Two extenders are configured, so that each is asked about every pod."""
        kubeconfig = self.server.write_kubeconfig(self.server.dir / "scheduler.kubeconfig", {
            "client-certificate": "pki/admin.crt", "client-key": "pki/admin.key"})
        path = self.server.dir / "scheduler.yaml"
        path.write_text(json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)}, "leaderElection": {"leaderElect": False}, "extenders": [
                {"urlPrefix": f"http://127.0.0.1:{extender.port}", "prioritizeVerb": "prioritize", "weight": 3, "nodeCacheCapable": True,
                 "httpTimeout": "30s"} for extender in self.extenders]}))
        return self.server.spawn("kube-scheduler", [str(self.server.bin / "kube-scheduler"), "--config", str(path),
                                                    "--bind-address", "127.0.0.1", "--secure-port", "0"])

    def publish(self) -> None:
        """Two nodes that draw and do the same."""
        self.seq += 1
        for name in NODES:
            self.redis.call("HSET", "kwatt:v1:node:{%s}" % name, "sample", sample(name, self.seq, 2000, interval_ms=100), "curve", curve(60))
            self.redis.call("ZADD", "kwatt:v1:nodes", int(time.time() * 1000), name)

    def scores(self) -> list[int] | None:
        """Of node-a and node-b; None while the replicas differ."""
        one, two = (extender.scores(*NODES) for extender in self.extenders)
        return one if one == two else None

    def until(self, scores: list[int]) -> None:
        wait_for(f"scores {scores} from both", lambda: self.scores() == scores)

    def metrics(self, name: str) -> list[float | None]:
        return [extender.metric(f"kwatt_extender_{name}") for extender in self.extenders]

    def placed(self, name: str) -> str:
        """Makes a pod, and tells where the scheduler puts it."""
        path = f"{PODS}/{name}"
        self.server.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}]}})
        return wait_for(f"{name} to be placed", lambda: self.server.request("GET", path)["spec"].get("nodeName"))

    def explain(self, extender: extender_rig.Extender, pod: str, *options: str) -> str:
        return subprocess.run([KWATT, "explain", "--extender", f"http://127.0.0.1:{extender.port}", *options, pod], check=True,
                              capture_output=True, text=True).stdout

    def close(self) -> None:
        for process in [self.scheduler, *(extender.process for extender in self.extenders)]:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.redis.kill()


def the_cheap_zone(rig: Rig) -> None:
    rig.until([10, 0])
    check(rig.metrics('zone_nodes{zone="listed"}') == [2, 2] and rig.metrics("zones") == [2, 2], "the nodes' zones are not known")
    for number in range(4):
        check(rig.placed(f"first-{number}") == "node-a", "not where a joule costs less")
    for extender in rig.extenders:
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
        check(rig.placed(f"second-{number}") == "node-b", "the file is not followed")
    print("ok pods follow the file")


def a_file_that_is_bad(rig: Rig) -> None:
    rig.write("north, 50\nsouth, much\n")
    wait_for("it is counted", lambda: rig.metrics("zones_file_bad") == [1, 1])
    for extender in rig.extenders:
        log = extender.log().replace("\\", "")
        check(f'{rig.zones}, line 4: south: "much" is no number from 0 to 1000000' in log and "the zones stay as they were" in log, log)
    check(rig.scores() == [0, 10], "the last good zones are lost")
    rig.zones.unlink()
    wait_for("its absence is told", lambda: all("No such file or directory" in extender.log() for extender in rig.extenders))
    check(rig.scores() == [0, 10] and rig.metrics("zones_file_bad") == [1, 1], "the last good zones are lost")
    rig.write("north, 50\nsouth, 400\n")
    rig.until([10, 0])
    wait_for("it is good", lambda: rig.metrics("zones_file_bad") == [0, 0])
    print("ok a bad file is told, and the last good one holds")


def zones_that_are_not_named(rig: Rig) -> None:
    rig.server.request("PATCH", "/api/v1/nodes/node-a", {"metadata": {"annotations": {"kwatt.io/carbon-zone": "moon"}}},
                       "application/merge-patch+json")
    wait_for("it is counted", lambda: rig.metrics('zone_nodes{zone="unlisted"}') == [1, 1])
    rig.until([10, 0])      # 225, against 400
    rig.write("north, 50\nsouth, 10\n")
    rig.until([0, 10])      # 30, against 10
    check(rig.placed("third") == "node-b", "an unknown zone does not cost the median")
    rig.server.request("PATCH", "/api/v1/nodes/node-a", {"metadata": {"annotations": {"kwatt.io/carbon-zone": None},
                                                                      "labels": {"kwatt.io/carbon-zone": None,
                                                                                 "topology.kubernetes.io/zone": None}}},
                       "application/merge-patch+json")
    wait_for("it is counted", lambda: rig.metrics('zone_nodes{zone="unlabelled"}') == [1, 1])
    check(rig.scores() == [0, 10], "a node without a zone does not cost the median")
    print("ok what is not known costs the median")


def test(server: Server) -> None:
    rig = Rig(server)
    try:
        wait_for("the nodes are watched", lambda: rig.metrics("watching_nodes") == [1, 1])
        for part in (the_cheap_zone, a_file_that_changes, a_file_that_is_bad, zones_that_are_not_named):
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
