#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kubectl kwatt top` against the cluster: every node, and the pods that draw."""
import json
import sys

from scenario import BUILD, World, check, run, wait_for


def test(world: World) -> None:
    uid = world.pod("draws", node="node1", args=["300"])["metadata"]["uid"]
    command = [BUILD / "cli/kubectl-kwatt", "top", "--once", *world.kwatt.reader_options()]

    def drawing() -> bool:
        reports = json.loads(world.cluster.control.run(*command, "--json"))
        check({report["node"] for report in reports} == {node.name for node in world.cluster.nodes}, "a node is missing")
        check(all(report["conservation_error_uj"] == 0 for report in reports), "the books do not balance")
        return any(load["id"] == uid and load["watts"] > 1 for report in reports for load in report["workloads"])
    wait_for("the pod to be shown with its watts", drawing)
    check("node2" in world.cluster.control.run(*command), "the table lacks a node")


if __name__ == "__main__":
    sys.exit(run(test))
