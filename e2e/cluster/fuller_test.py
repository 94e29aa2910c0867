#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pod goes where it costs the least by the curves that the agents publish, and to the fuller of two nodes where it costs the same.

The truth of two nodes is one straight line. What their agents learn of it in some seconds bends upward where loads are small, by a
tenth, since a node is never quite empty; costs are told apart by one and a half percent, so that the emptier of the two is mostly the
cheaper. Exact ties are unit tests' (score_test.c) and extender_pods_test.py's.
"""
import json
import sys

from scenario import World, check, run

CORES = 0.1     # of each pod
MOVED = 1.05    # curves and loads go on while they are read
SAME = 1.01     # costs that are not told apart


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


def decision(world: World, pod: str) -> dict:
    """What the extender that was asked answered."""
    pages = [json.loads(world.kwatt.cluster.get(f"{url}/explain?pod={world.namespace}/{pod}")) for url in world.kwatt.replica_urls()]
    made = [each for page in pages for each in page["decisions"] if each["verb"] == "prioritize"]
    check(len(made) > 0, f"no extender was asked of {pod}")
    return max(made, key=lambda each: each["t_unix_ms"])


def judge(world: World, pod: str, node: str) -> None:
    """node: the one that was made busy, and so is the fuller one."""
    costs = {name: cost(world, name) for name in ("node1", "node2", "node3")}
    chosen = world.bound(pod, cpu=f"{round(CORES * 1000)}m")
    told = f"{chosen} of {', '.join(f'{name} {watts:.2f} W' for name, watts in costs.items())}, of which {node} is the fullest"
    best = decision(world, pod)["best"]
    check(chosen in [each["node"] for each in best], f"the extender found {best} best: {told}")
    check(costs[chosen] < min(costs.values()) * MOVED, told)
    check(chosen == node or costs[chosen] < costs[node] * SAME, told)
    print(f"{pod}: {told}", flush=True)


def test(world: World) -> None:
    world.teach()
    for node in ("node3", "node1"):
        world.make_busy(node)
        judge(world, f"after-{node}", node)     # one: what the agents publish knows nothing of a pod in flight
        world.end_busy(node)


if __name__ == "__main__":
    sys.exit(run(test))
