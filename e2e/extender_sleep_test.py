#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that sleep: a real kube-apiserver, whose annotations a power manager would change, a real redis-server, and two kwatt-extenders
that are asked as kube-scheduler asks. Node-a is awake and dear, node-b sleeps and is cheap: who is worth waking it, and who is not.
"""
import json
import os
import subprocess
import sys
import time

import apiserver
import extender_rig
from extender_rig import curve, sample
from process import check, wait_for

RULES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
KWATT = os.path.join(extender_rig.BUILD, "cli", "kwatt")
NODES = ("node-a", "node-b")
FULL_WATTS = {"node-a": 300, "node-b": 60}     # 35 and 5 W a core


def pod(lifetime: str | None = None) -> dict:
    annotations = {} if lifetime is None else {"kwatt.io/expected-lifetime": lifetime}
    return {"metadata": {"name": "p", "namespace": "shop", "annotations": annotations},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}


class Rig:
    def __init__(self, server: apiserver.ApiServer):
        self.server = server
        self.redis = extender_rig.Redis(str(server.dir))
        self.redis.start()
        for name in NODES:
            self.server.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            self.redis.call("HSET", "kwatt:v1:node:{%s}" % name, "sample", sample(name, 1, 2000, interval_ms=100), "curve",
                            curve(FULL_WATTS[name]))
            self.redis.call("ZADD", "kwatt:v1:nodes", int(time.time() * 1000), name)
        self.extenders = [self.start_extender(number) for number in range(2)]

    def start_extender(self, number: int) -> extender_rig.Extender:
        folder = self.server.dir / f"extender-{number}"
        folder.mkdir()
        return extender_rig.Extender(str(folder), self.redis.path, "--watch-nodes", "--kubeconfig",
                                     self.server.service_account("extender", RULES), "--stale-after", "1h")

    def annotate(self, **values: str | None) -> None:
        """Of node-b."""
        named = {f"kwatt.io/{key.replace('_', '-')}": value for key, value in values.items()}
        self.server.request("PATCH", "/api/v1/nodes/node-b", {"metadata": {"annotations": named}}, "application/merge-patch+json")

    def until(self, scores: list[int], lifetime: str | None = None) -> None:
        wait_for(f"scores {scores} from both for {lifetime}",
                 lambda: all(extender.scores(*NODES, pod=pod(lifetime)) == scores for extender in self.extenders))

    def explain(self) -> str:
        extender = self.extenders[0]
        return subprocess.run([KWATT, "explain", "--extender", f"http://127.0.0.1:{extender.port}", "shop/p"], check=True,
                              capture_output=True, text=True).stdout

    def close(self) -> None:
        for extender in self.extenders:
            if extender.process.poll() is None:
                extender.process.kill()
                extender.process.wait()
        self.redis.kill()


def nobody_knows_what_waking_takes(rig: Rig) -> None:
    rig.until([0, 10])      # awake, and cheap
    rig.annotate(sleepable="true", asleep="true", sleep_watts="2")
    rig.until([10, 0])
    rig.until([10, 0], "3650d")
    print("ok without known wake energy no pod wakes a node")


def waking_takes_30_kilojoules(rig: Rig) -> None:
    rig.annotate(wake_joules="30k")
    rig.until([0, 10], "7d")
    rig.until([0, 10], "20m")       # 25 W, and 7.25 W for the core: less than 35 W
    rig.until([10, 0], "15m")       # 33.3 W
    rig.until([10, 0], "5m")        # it would wait for the boot as long as it runs
    rig.until([0, 10])              # not said: an hour
    check("asleep, 30000 J to wake it" in rig.explain(), rig.explain())
    print("ok a pod wakes a node that it stays on long enough")


def a_value_that_is_bad(rig: Rig) -> None:
    rig.annotate(wake_joules="many")
    rig.until([10, 0], "7d")
    wait_for("it is counted", lambda: all(extender.metric("kwatt_extender_bad_node_values_total") == 1 for extender in rig.extenders))
    print("ok a bad value is told, and no value")


def what_its_agent_saw(rig: Rig) -> None:
    """The annotation is gone; the curve has it."""
    rig.annotate(wake_joules=None)
    seen = json.loads(curve(FULL_WATTS["node-b"])) | {"sleep_mw": 2000, "wake_uj": 30_000_000_000}
    rig.redis.call("HSET", "kwatt:v1:node:{node-b}", "sample", sample("node-b", 2, 0, interval_ms=100), "curve", json.dumps(seen))
    rig.redis.call("ZADD", "kwatt:v1:nodes", int(time.time() * 1000), "node-b")
    rig.until([0, 10], "20m")
    rig.until([10, 0], "15m")
    print("ok what the agent saw stands in for what nobody stated")


def it_sleeps_for_long(rig: Rig) -> None:
    """Redis forgets the node; a sleeping one is kept."""
    rig.redis.call("DEL", "kwatt:v1:node:{node-b}")
    rig.redis.call("ZREM", "kwatt:v1:nodes", "node-b")
    rig.until([0, 10], "20m")
    rig.annotate(asleep=None, sleepable=None)
    rig.until([0, 10], "5m")        # awake, by its last sample
    print("ok a sleeping node is not forgotten")


def test(server: apiserver.ApiServer) -> None:
    rig = Rig(server)
    try:
        for part in (nobody_knows_what_waking_takes, waking_takes_30_kilojoules, a_value_that_is_bad, what_its_agent_saw,
                     it_sleeps_for_long):
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
        with apiserver.ApiServer() as server:
            test(server)
    except apiserver.build.Missing as error:
        return apiserver.build.end(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
