#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of two efficient nodes the fuller one is preferred, whichever it is, so that the other can rest; unless the pod costs less there.

Two agents that learn one truth come out some percent apart, and costs are told apart by one and a half: so a choice is judged by the
curves that the agents publish. Exact ties are unit tests' (score_test.c).
"""
import sys

from scenario import World, check, run

CORES = 0.1     # of each pod
MOVED = 1.05    # curves and loads go on while they are read


def cost(world: World, node: str) -> float:
    """Watts of one more pod on the lower hull of the node's curve, from its present load on."""
    view = world.kwatt.view(node)
    hull: list[tuple[float, float]] = []
    for knot in view["curve"]["knots"]:
        x, y = knot["load_permille"] * view["curve"]["capacity_mcpu"] / 1e6, knot["mw"] / 1000
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-1][0]) >= (y - hull[-1][1]) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append((x, y))

    def watts(load: float) -> float:
        for (x0, y0), (x1, y1) in zip(hull, hull[1:]):
            if load <= x1:
                return y0 + (y1 - y0) * (load - x0) / (x1 - x0)
        return hull[-1][1] + (load - hull[-1][0]) * (hull[-1][1] - hull[-2][1]) / (hull[-1][0] - hull[-2][0])
    used = view["sample"]["used_mcpu"] / 1000
    return watts(used + CORES) - watts(used)


def judge(world: World, pod: str, node: str) -> None:
    """node: the one that was made busy, and so is the fuller one."""
    costs = {name: cost(world, name) for name in ("node1", "node2", "node3")}
    chosen = world.bound(pod, cpu=f"{round(CORES * 1000)}m")
    told = f"{chosen} of {', '.join(f'{name} {watts:.2f} W' for name, watts in costs.items())}, of which {node} is the fullest"
    check(chosen == node or costs[chosen] < costs[node] * MOVED, told)
    print(f"{pod}: {told}", flush=True)


def test(world: World) -> None:
    world.teach()
    for node in ("node3", "node1"):
        world.make_busy(node)
        for number in range(2):
            judge(world, f"after-{node}-{number}", node)
        world.end_busy(node)


if __name__ == "__main__":
    sys.exit(run(test))
