#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever dies, pods are scheduled; whatever comes back, kwatt finds it again."""
import json
import sys

from scenario import World, check, run, wait_for


def extender_gone(world: World) -> None:
    world.kwatt.kill("extender")
    world.bound("without-extender", cpu="100m")
    world.kwatt.start_extender()
    world.kwatt.wait_fresh()


def redis_gone(world: World) -> None:
    world.kwatt.kill("redis")
    wait_for("the extender to notice", lambda: world.kwatt.metric(f"{world.kwatt.extender}/metrics",
                                                                 "kwatt_extender_redis_up") == 0)
    world.bound("without-redis", cpu="100m")
    world.kwatt.start_redis()       # empty: agents say everything again
    world.kwatt.wait_fresh()
    uid = world.get("without-redis")["metadata"]["uid"]
    node = world.node_of("without-redis")
    record = wait_for("the pod's record in the new Redis", lambda: world.kwatt.redis_cli("HGET", f"kwatt:v1:pods:{{{node}}}", uid))
    check(json.loads(record)["kind"] == "pod", record)


def agent_gone(world: World) -> None:
    world.kwatt.kill("agent-node2")
    page = f"{world.kwatt.extender}/metrics"
    wait_for("node2 to be stale", lambda: world.kwatt.metric(page, "kwatt_extender_nodes_stale") == 1)
    world.bound("without-agent", cpu="100m")
    world.kwatt.start_agent("node2")
    world.kwatt.wait_fresh()


def api_gone(world: World) -> None:
    world.cluster.control.stop("kube-apiserver", 9)
    world.cluster.hang_up()
    world.cluster.start_apiserver()
    world.cluster.wait_api()
    world.bound("after-restart", cpu="100m")
    world.running("after-restart")
    check(world.cluster.control.running("recommender"), "the recommender ended with the API server")


def test(world: World) -> None:
    for fault in (extender_gone, redis_gone, agent_gone, api_gone):
        fault(world)
        world.all_run()


if __name__ == "__main__":
    sys.exit(run(test))
