#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler, asking the extender: pods land where they add the fewest watts, unless they say otherwise."""
import sys

from scenario import TRUTH, World, check, run, wait_for

SLOPES = {name: curve[-1][1] / curve[-1][0] for name, curve in TRUTH.items()}    # watts a core


def teach(world: World) -> None:
    """Agents learn their node's curve from load, so each gets some; nothing but the meter says which node is which."""
    for node in SLOPES:
        world.pod(f"teach-{node}", node=node, args=["250"])
    wait_for("the agents to learn their curves", lambda: world.learnt(SLOPES))
    for node in SLOPES:
        world.delete(f"teach-{node}")
    world.kwatt.wait_fresh()


def test(world: World) -> None:
    teach(world)
    asked = world.kwatt.asked()
    for number in range(3):
        chosen = world.bound(f"efficient-{number}", cpu="200m")
        check(chosen == "node1", f"pod {number} went to {chosen}: 9 W a core on node1, 34 on node2")
    now = world.kwatt.asked()
    check(now >= asked + 3, f"the scheduler asked {now - asked} times for 3 pods")

    # the scheduler's own plugins spread; they decide alone where kwatt is told to keep out
    chosen = world.bound("off", cpu="200m", annotations={"kwatt.io/placement": "off"})
    check(chosen == "node2", f"without kwatt the emptier node wins, not {chosen}")

    # the fuller node is the one that is busy, whatever its pods request
    world.pod("busy", node="node2", args=["700"])
    wait_for("node2 to be seen busy", lambda: world.kwatt.view("node2")["sample"]["used_mcpu"] > 500)
    world.kwatt.wait_published()
    chosen = world.bound("performance", cpu="200m", annotations={"kwatt.io/placement": "performance"})
    check(chosen == "node1", f"the emptiest node is node1, not {chosen}")
    chosen = world.bound("expected", annotations={"kwatt.io/expected-cpu": "300m"})
    check(chosen == "node1", f"expected CPU stands for a request: node1, not {chosen}")


if __name__ == "__main__":
    sys.exit(run(test))
