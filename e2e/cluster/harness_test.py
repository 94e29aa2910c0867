#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The harness itself: clusters side by side; what a killed one leaves is found and removed, and nothing else."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from down_test import left
from scenario import Cluster, Failure, check, guarded, wait_for

# Starts a cluster of one node that ends with it, says so, and waits to be killed.
VICTIM = """
import pathlib, sys, time
sys.path[:0] = [{here!r}]
from scenario import Cluster
import os
Cluster(pathlib.Path({state!r})).up(nodes=1, master=os.getpid())
print("up", flush=True)
time.sleep(600)
"""


def refuses(state: pathlib.Path, why: str) -> None:
    try:
        Cluster(state).remove_stale()
    except Failure:
        return
    raise Failure(f"{state} was taken: {why}")


def side_by_side_and_stale(folder: pathlib.Path) -> None:
    states = [folder / "a", folder / "b"]
    here = str(pathlib.Path(__file__).resolve().parent)
    victims = [subprocess.Popen([sys.executable, "-c", VICTIM.format(here=here, state=str(s))], stdout=subprocess.PIPE, text=True)
               for s in states]
    try:
        for victim in victims:
            check(victim.stdout.readline() == "up\n", "the cluster did not start")
        a, b = map(Cluster, states)
        check(a.id != b.id and a.alive() and b.alive(), "two clusters do not run side by side")
        refuses(states[0], "it runs")
        victims[0].send_signal(signal.SIGKILL)
        wait_for("the cluster to end with its test", lambda: not a.alive())
        check(any(each.startswith("cgroup") for each in left(a)), "nothing to clean up: this test proves nothing")
        Cluster(states[0]).remove_stale()
        check(not left(a) and not states[0].exists(), f"left behind: {left(a)}")
        check(b.alive() and b.ready_nodes() == ["node1"], "the other cluster suffered")
    finally:
        for victim in victims:
            victim.kill()
            victim.wait()
        for state in states:
            if state.exists():
                Cluster(state).down()
    check(not left(b), f"left behind: {left(b)}")


def others_are_left_alone(folder: pathlib.Path) -> None:
    mine = folder / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("all of it")
    refuses(mine, "it is somebody's folder")
    # a record whose process id belongs to somebody else by now
    reused = Cluster(folder / "reused")
    reused.dir.mkdir()
    reused.control.pid, reused.control.started = os.getpid(), 1
    reused.note(1)
    Cluster(folder / "reused").remove_stale()
    check((mine / "thesis.txt").exists() and not (folder / "reused").exists(), "the wrong one was removed")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kwatt-") as folder:
        Cluster(pathlib.Path(folder) / "a").find_programs()  # here, where a skip can be told from a failure
        others_are_left_alone(pathlib.Path(folder))
        side_by_side_and_stale(pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(guarded(main))
