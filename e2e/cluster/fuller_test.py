#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of two efficient nodes the fuller one is preferred, whichever it is, so that the other can rest."""
import sys

from scenario import World, check, run

# What a pod is said to draw decides which differences of its price are noise: for one of a tenth of a core (0.9 W on the efficient
# nodes, 3.4 W on the other) that draws half a watt, below 0.4 W, which is far more than two learnt curves of one truth differ by.
WATTS = {"kwatt.io/expected-watts": "0.5"}


def test(world: World) -> None:
    world.teach()
    for node in ("node3", "node1"):
        world.make_busy(node)
        for number in range(2):
            chosen = world.bound(f"after-{node}-{number}", cpu="100m", annotations=WATTS)
            check(chosen == node, f"{chosen} was preferred to {node}, which is as efficient and fuller: "
                  f"{[round(world.marginal_watts(twin), 2) for twin in ('node1', 'node3')]} W a core")
        world.end_busy(node)


if __name__ == "__main__":
    sys.exit(run(test))
