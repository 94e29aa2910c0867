# SPDX-License-Identifier: Apache-2.0
"""A power meter for each node, whose truth is declared: nodes of one machine become an efficient and a wasteful server.

usage: meter.py FILE      a program of the cluster; runs until it is ended

FILE (JSON) lists nodes: name, sysfs (folder of the powercap tree that the node's agent reads), cgroup (the node's root, below
the mount points), idle_w, and curve: pairs [cores, active watts], the first [0, 0], linear between. Each TICK the CPU time that
the root used since the last one gives the load, the curve its power, and the counter moves by idle + active energy. The
active energy is split, every few ticks, among the cgroups below the root by their CPU time: by definition the truth about each,
since a real machine does not tell it. truth.json beside FILE has it: {node: {measured_uj, active_uj, cpu_ns, pods: {uid: {active_uj,
cpu_ns}}}}, renewed every REPORT.

Cost: 2 % of a core for three nodes with ten pods each.
"""
import contextlib
import json
import os
import pathlib
import re
import sys
import time

from node import hierarchies

TICK = 0.02     # what an agent's window of a second can be off
SPLIT = 3       # ticks
LOOK = 12       # ticks; a pod is born slowly
REPORT = 0.25
RANGE = 262143328850    # a usual one; the counter starts close below it, so that every run sees a wrap
BEFORE_WRAP = 50_000_000


def watts(curve: list, cores: float) -> float:
    """Active power at a load; beyond the last point the last slope goes on."""
    for (x0, y0), (x1, y1) in zip(curve, curve[1:]):
        if cores <= x1 or x1 == curve[-1][0]:
            return y0 + (y1 - y0) * (cores - x0) / (x1 - x0)
    raise ValueError("a curve has two points or more")


class CpuTree:
    """The cgroup tree that counts CPU time: v1 cpuacct, where pods have one, else v2."""

    def __init__(self, cgroup: str):
        mounts = hierarchies()
        self.v1 = next((m for m in mounts if (m / "cpuacct.usage").exists()), None)
        self.root = (self.v1 or mounts[0]) / cgroup.strip("/")
        self.files: dict[str, int] = {}

    def usage(self, folder: str) -> int | None:
        """CPU time in ns; None: gone."""
        try:
            if folder not in self.files:
                self.files[folder] = os.open(f"{folder}/{'cpuacct.usage' if self.v1 else 'cpu.stat'}", os.O_RDONLY)
            text = os.pread(self.files[folder], 4096, 0)
        except OSError:
            if folder in self.files:
                os.close(self.files.pop(folder))
            return None
        return int(text) if self.v1 else int(re.search(rb"usage_usec (\d+)", text)[1]) * 1000

    def pods(self) -> list[str]:
        return [folder for kind in ("kubepods/pod*", "kubepods/*/pod*") for folder in map(str, self.root.glob(kind))]


class NodeMeter:
    def __init__(self, node: dict):
        self.idle, self.curve = node["idle_w"], node["curve"]
        self.tree = CpuTree(node["cgroup"])
        zone = pathlib.Path(node["sysfs"], "class/powercap/intel-rapl:0")
        zone.mkdir(parents=True)
        (zone / "name").write_text("package-0\n")
        (zone / "max_energy_range_uj").write_text(f"{RANGE}\n")
        self.file = os.open(zone / "energy_uj", os.O_RDWR | os.O_CREAT, 0o444)
        self.measured = self.active = 0.0
        self.cpu = 0
        self.unsplit = [0.0, 0]             # active uJ and CPU ns of the root since the last split
        self.last = {str(self.tree.root): self.tree.usage(str(self.tree.root)) or 0}
        self.pods: dict[str, list] = {}     # uid -> [active uJ, CPU ns]
        self.folders: list[str] = []
        self.at = time.monotonic()
        self.ticks = 0
        self.write()

    def write(self) -> None:
        counter = (RANGE - BEFORE_WRAP + int(self.measured)) % (RANGE + 1)
        os.pwrite(self.file, f"{counter:<20}\n".encode(), 0)    # always as long: readers see whole numbers

    def moved(self, folder: str) -> int:
        now = self.tree.usage(folder)
        if now is None:
            return 0
        delta = now - self.last.get(folder, 0)      # a cgroup that is new counts from its birth
        self.last[folder] = now
        return max(delta, 0)

    def tick(self) -> None:
        if self.ticks % LOOK == 0:
            self.folders = self.tree.pods()
        self.ticks += 1
        now = time.monotonic()
        passed, self.at = now - self.at, now
        cpu = self.moved(str(self.tree.root))
        active = watts(self.curve, cpu / 1e9 / passed) * passed * 1e6 if passed > 0 else 0.0
        self.cpu += cpu
        self.active += active
        self.measured += active + self.idle * passed * 1e6
        self.unsplit[0] += active
        self.unsplit[1] += cpu
        if self.ticks % SPLIT == 0:
            self.split(*self.unsplit)
            self.unsplit = [0.0, 0]
        self.write()

    def split(self, active: float, cpu: int) -> None:
        for folder in self.folders:
            used = self.moved(folder)
            pod = self.pods.setdefault(folder.rpartition("/pod")[2], [0.0, 0])
            pod[0] += active * used / cpu if cpu else 0.0
            pod[1] += used

    def truth(self) -> dict:
        return {"measured_uj": self.measured, "active_uj": self.active, "cpu_ns": self.cpu,
                "pods": {uid: {"active_uj": pod[0], "cpu_ns": pod[1]} for uid, pod in self.pods.items()}}


def hurry() -> None:
    """A late tick loses the last CPU time of a cgroup that is gone by then."""
    with contextlib.suppress(OSError):      # a kernel may give no real time to groups of processes
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def main() -> None:
    hurry()
    path = pathlib.Path(sys.argv[1])
    nodes = {node["name"]: NodeMeter(node) for node in json.loads(path.read_text())}
    reported = 0.0
    while True:
        time.sleep(TICK)
        for node in nodes.values():
            node.tick()
        if time.monotonic() - reported >= REPORT:
            reported = time.monotonic()
            temporary = path.with_name("truth.new")
            temporary.write_text(json.dumps({name: node.truth() for name, node in nodes.items()}))
            temporary.rename(path.with_name("truth.json"))


if __name__ == "__main__":
    main()
