#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kwatt says that pods drew is what was put in: within 5 %, through starts, ends and restarts, and adds up exactly."""
import sys

from scenario import World, check, run, wait_for

TOLERANCE = 0.05
JOULES = 20e6   # microjoules a pod has drawn when it is judged: 5 % are far above the steps of meter and window


def check_books(world: World, node: str) -> None:
    """measured = idle + pods + system + unattributed; pods = the workloads and what departed: to the microjoule."""
    view = world.kwatt.view(node)
    pods = 0
    for package in view["sample"]["packages"]:
        for domain in ("cpu", "dram"):
            if books := package.get(domain):
                parts = sum(books.get(f"{part}_uj", 0) for part in ("idle", "pods", "system", "unattributed"))
                check(parts == books["measured_uj"], f"{node}: the books do not balance: {books}")
                pods += books["pods_uj"]
    said = sum(pod["active_uj"] for pod in view["pods"]) + view.get("departed_uj", 0)
    check(said == pods, f"{node}: workloads have {said} uJ, the node says {pods}")


def check_pod(world: World, node: str, uid: str) -> None:
    """Waits until the agent has seen what the meter counted so far, then compares."""
    said = wait_for("the pod's energy", lambda: (world.workload(node, uid) or {}).get("active_uj", 0) > JOULES
                    and world.workload(node, uid))
    truth = world.kwatt.truth()[node]["pods"][uid]
    # the meter goes on while the agent's window is open: compare energy per CPU time, and CPU time on its own
    true_rate, rate = truth["active_uj"] / truth["cpu_ns"], said["active_uj"] / said["cpu_ns"]
    check(abs(rate - true_rate) <= TOLERANCE * true_rate, f"{node}: {rate * 1e3:.3f} W a core, in truth {true_rate * 1e3:.3f}")


def check_ended(world: World, node: str, uid: str) -> None:
    """Of a pod that has ended both counts stand still: the energies themselves are compared."""
    said = wait_for("the pod's end to be noticed", lambda: (world.workload(node, uid) or {}).get("ended_unix_ms")
                    and world.workload(node, uid))
    truth = world.kwatt.truth()[node]["pods"][uid]
    for key in ("active_uj", "cpu_ns"):
        check(abs(said[key] - truth[key]) <= TOLERANCE * truth[key], f"{node}: {key} {said[key]}, in truth {truth[key]:.0f}")


def test(world: World) -> None:
    nodes = ["node1", "node2"]      # unlike ones; more would want more cores than a small machine has
    long = {node: world.pod(f"long-{node}", node=node, args=["300"])["metadata"]["uid"] for node in nodes}
    # a crowd around it: pods that come, burn and go, and one whose container ends and is started again
    for node in nodes:
        world.pod(f"restarts-{node}", node=node, args=["150", "2"])
    short = {node: world.pod(f"short-{node}", node=node, args=["400"])["metadata"]["uid"] for node in nodes}
    for node in nodes:
        check_pod(world, node, short[node])
        world.delete(f"short-{node}")
    for node in nodes:
        check_ended(world, node, short[node])
        check_pod(world, node, long[node])
        restarted = world.cluster.until("the container to be started again", f"{world.pods}/restarts-{node}", lambda pod: (
            pod["status"]["containerStatuses"][0]["restartCount"] > 0 and pod["metadata"]["uid"]))
        check(world.workload(node, restarted)["active_uj"] > 0, "no energy of the restarted container")
        check_books(world, node)
    for node in nodes:
        view, truth = world.kwatt.view(node), world.kwatt.truth()[node]
        used, true_used = view["sample"]["used_mcpu"], truth["cpu_ns"]
        check(view["sample"]["meter"] == "powercap" and "estimated" not in view["sample"]["quality"], "no meter was read")
        check(used > 0 and true_used > 0, "no load was seen")


if __name__ == "__main__":
    sys.exit(run(test))
