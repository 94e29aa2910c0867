#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node is drained, deleted, and comes back: kwatt forgets it, serves the others meanwhile, and scores it again."""
import sys

from scenario import World, check, run, wait_for


def test(world: World) -> None:
    node = world.cluster.node("node3")
    world.pod("moves", node=node.name)
    # --force: the pod has no controller; daemons stay, as they do in any cluster
    world.cluster.kubectl("drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5m")
    check(not world.exists(f"{world.pods}/moves"), "the pod was not drained")
    world.kwatt.wait_whole()
    check(world.bound("during", cpu="100m") != node.name, "a pod went to a drained node")

    node.power_off()
    world.kwatt.node_is_off(node.name)
    world.cluster.request("DELETE", f"/api/v1/nodes/{node.name}")
    try:
        wait_for("the extenders to miss the node", lambda: world.kwatt.stale_nodes() == 1)
        check(world.bound("without", cpu="100m") != node.name, "a pod went to a node that is gone")
    finally:
        node.power_on()     # registers anew, without the taint of the drain
        wait_for("the node to be back", lambda: node.name in world.cluster.ready_nodes())
        world.kwatt.node_is_on(node.name)
    world.kwatt.wait_whole()
    world.kwatt.wait_fresh()
    check(world.kwatt.view(node.name)["sample"]["seq"] > 0, "the agent of the node that came back says nothing")


if __name__ == "__main__":
    sys.exit(run(test))
