#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kubectl kwatt top` against the cluster: every node, and the pods that draw."""
import json
import sys

from scenario import BUILD, World, check, run, wait_for


def test(world: World) -> None:
    uid = world.pod("draws", node="node1", args=["300"])["metadata"]["uid"]
    world.deployment("made", node="node2")
    command = [BUILD / "cli/kubectl-kwatt", "top", "--once", *world.kwatt.reader_options()]

    def drawing() -> bool:
        reports = json.loads(world.cluster.control.run(*command, "--json"))
        check({report["node"] for report in reports} == {node.name for node in world.cluster.nodes}, "a node is missing")
        check(all(report["conservation_error_uj"] == 0 for report in reports), "the books do not balance")
        return any(load["id"] == uid and load["watts"] > 1 for report in reports for load in report["workloads"])
    wait_for("the pod to be shown with its watts", drawing)

    def named() -> bool:
        loads = {load["id"]: load for report in json.loads(world.cluster.control.run(*command, "--json"))
                 for load in report["workloads"]}
        mine = loads.get(uid)
        if mine is None or not mine["namespace"]:
            return False    # the agent hears of names a second or two after the pod's start
        check((mine["name"], mine["namespace"], mine["qos"]) == ("draws", world.namespace, "Burstable"), f"the pod is {mine}")
        check(mine["labels"] == {"app": "draws"}, f"its labels are {mine['labels']}")
        other = next((load for load in loads.values() if load.get("owner_name") == "made"), None)
        return (other is not None and other["owner_kind"] == "Deployment" and other["labels"] == {"app": "made"}
                and "main" in [container["name"] for container in mine["containers"]])
    wait_for("the pods to be shown by their names and owners", named)
    check("node2" in world.cluster.control.run(*command), "the table lacks a node")
    table = world.cluster.control.run(*command, "--node", "node1")
    check(f"{world.namespace}/draws" in table, f"the table lacks the pod's name:\n{table}")


if __name__ == "__main__":
    sys.exit(run(test))
