#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler, asking the extender: pods land where they add the fewest watts, unless they say otherwise."""
import sys

from scenario import World, check, run

EFFICIENT = ("node1", "node3")


def test(world: World) -> None:
    world.teach()
    asked = world.kwatt.asked()
    for number in range(3):
        chosen = world.bound(f"efficient-{number}", cpu="200m")
        check(chosen in EFFICIENT, f"pod {number} went to {chosen}: 9 W a core on node1 and node3, 34 on node2")
    now = world.kwatt.asked()
    check(now >= asked + 3, f"the scheduler asked {now - asked} times for 3 pods")

    # the scheduler's own plugins spread by what pods request; they decide alone where kwatt is told to keep out
    for node in EFFICIENT:
        world.pod(f"requests-{node}", node=node, cpu="400m")
    chosen = world.bound("off", cpu="200m", annotations={"kwatt.io/placement": "off"})
    check(chosen == "node2", f"without kwatt the emptier node wins, not {chosen}")

    # the fuller node is the one that is busy, whatever its pods request
    world.make_busy("node2")
    chosen = world.bound("performance", cpu="200m", annotations={"kwatt.io/placement": "performance"})
    check(chosen != "node2", "it went to the fullest node")
    chosen = world.bound("expected", annotations={"kwatt.io/expected-cpu": "300m"})
    check(chosen in EFFICIENT, f"expected CPU stands for a request: not {chosen}")


if __name__ == "__main__":
    sys.exit(run(test))
