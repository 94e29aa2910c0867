#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever dies, pods are scheduled; whatever comes back, kwatt finds it again."""
import json
import sys

from scenario import World, check, run, wait_for


def extender_gone(world: World) -> None:
    with world.kwatt.without("extender"):
        world.bound("without-extender", cpu="100m")


def redis_gone(world: World) -> None:
    with world.kwatt.without("redis"):
        wait_for("the extender to notice", lambda: not world.kwatt.redis_is_up())
        world.bound("without-redis", cpu="100m")
        pod = world.running("without-redis")
    # the new one is empty: agents say everything again
    record = wait_for("the pod's record in the new Redis", lambda: world.kwatt.record(pod["spec"]["nodeName"], pod["metadata"]["uid"]))
    check(json.loads(record)["kind"] == "pod", record)


def agent_gone(world: World) -> None:
    with world.kwatt.without("agent-node2"):
        wait_for("node2 to be stale", lambda: world.kwatt.stale_nodes() == 1)
        world.bound("without-agent", cpu="100m")


def api_gone(world: World) -> None:
    before = world.kwatt.restarts("recommender")
    world.cluster.control.stop("kube-apiserver", 9)
    world.cluster.hang_up()
    world.cluster.start_apiserver()
    world.cluster.wait_api()
    world.bound("after-restart", cpu="100m")
    world.running("after-restart")
    world.kwatt.wait_whole()
    check(world.kwatt.restarts("recommender") == before, "the recommender ended with the API server")


def test(world: World) -> None:
    for fault in (extender_gone, redis_gone, agent_gone, api_gone):
        fault(world)
        world.all_run()


if __name__ == "__main__":
    sys.exit(run(test))
