#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node is drained, deleted, and comes back: kwatt forgets it, serves the other meanwhile, and scores it again."""
import sys

from scenario import World, check, run, wait_for


def test(world: World) -> None:
    node = world.cluster.node("node2")
    world.pod("moves", node="node2")
    # --force: the pod has no controller; daemons stay, as they do in any cluster
    world.cluster.kubectl("drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=90s")
    check(not world.exists(f"{world.pods}/moves"), "the pod was not drained")
    wait_for("kwatt to be whole on the node that is left", lambda: not world.kwatt.missing())
    check(world.bound("during", cpu="100m") == "node1", "a pod went to a drained node")

    world.cluster.control.stop(f"{node.name}-kubelet")
    world.cluster.request("DELETE", "/api/v1/nodes/node2")
    check(world.bound("without", cpu="100m") == "node1", "a pod went to a node that is gone")
    try:
        node.start_kubelet()        # registers anew, without the taint of the drain
    finally:
        wait_for("the node to be back", lambda: "node2" in world.cluster.ready_nodes())
    wait_for("kwatt to be whole again", lambda: not world.kwatt.missing())
    world.kwatt.wait_fresh()
    check(world.kwatt.view("node2")["sample"]["seq"] > 0, "the agent of the node that came back says nothing")


if __name__ == "__main__":
    sys.exit(run(test))
