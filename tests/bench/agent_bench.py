#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU per sample and memory of a real agent at 200 cgroups / 3000 processes, and at a quarter of it.

Real cgroups with sleeping processes, twenty of them busy for 2.5 % each; the agent of the release build at an interval
of 1 s with a powercap tree of one package. The reference, in the same run: a program that does nothing but read every
cgroup's cpu.stat through files that it keeps open. CPU is what the scheduler accounts to all threads, in ns: the median
of windows of a second, since what others do on the machine costs the agent too (a cgroup that comes and goes some 50 us,
each that stays a few). Where others have many cgroups, it says so.
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("KWATT_BUILD_DIR", str(ROOT / "build" / "release"))
sys.path.insert(0, str(ROOT / "e2e"))
import agent_rig as rig  # noqa: E402  (its folder was put on the path just now)

FLOOR = rig.BUILD / "tests" / "bench" / "agent_floor"
SECONDS = float(os.environ.get("KWATT_BENCH_SECONDS", "20"))
PER_CGROUP = 15
BUSY = 20
SLEEPERS = "i=1; while [ $i -lt %d ]; do sleep 100000 & i=$((i+1)); done; wait"
BUSY_LOOP = """
import time
while True:
    used = time.process_time()
    while time.process_time() - used < 0.0025: pass
    time.sleep(0.0975)
"""


def cpu_ns(pid: int) -> int:
    """On-CPU time of all threads."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def rss_bytes(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Load:
    """`n` cgroups of 15 processes."""

    def __init__(self, n: int):
        self.groups = [rig.Cgroup(f"{i}") for i in range(n)]

    def __enter__(self):
        for i, group in enumerate(self.groups):
            group.__enter__()
            busy = i < BUSY
            # sleepers that lose their shell must go too: they are ended by their cgroup
            group.run("/bin/sh", "-c", SLEEPERS % (PER_CGROUP - busy))
            if busy:
                group.run(sys.executable, "-c", BUSY_LOOP)
        rig.wait_for("all processes", lambda: sum(self.pids(g).__len__() for g in self.groups)
                     >= len(self.groups) * PER_CGROUP)
        return self

    @staticmethod
    def pids(group: rig.Cgroup) -> list[int]:
        return [int(pid) for pid in (group.folder / "cgroup.procs").read_text().split()]

    def __exit__(self, *_):
        for group in self.groups:
            for pid in self.pids(group):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for group in self.groups:
            group.remove()


def windows(pid: int, seconds: float) -> list[int]:
    """On-CPU ns of each second. The agent samples once in each, give or take a window: the median does not mind."""
    used, last = [], cpu_ns(pid)
    for _ in range(max(3, int(seconds))):
        time.sleep(1)
        now = cpu_ns(pid)
        used.append(now - last)
        last = now
    return used


def floor_ns(groups) -> float:
    files = [str(group.folder / ("cpu.stat" if (group.folder / "cpu.stat").exists() else "cpuacct.usage"))
             for group in groups]
    return float(subprocess.run([FLOOR, *files], stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(n: int, accounting: str) -> dict:
    with rig.folder() as name, Load(n) as load:
        folder = pathlib.Path(name)
        rig.Meter(folder / "sys", 1000)
        with rig.Agent(folder, "--interval", "1s", "--sysfs", str(folder / "sys"), "--accounting", accounting) as agent:
            time.sleep(3)   # the first samples learn the machine
            pid = agent.process.pid
            used = windows(pid, SECONDS)
            rss = rss_bytes(pid)
            view = agent.view()
            seen = sum(rig.NAME in pod["id"] for pod in view["pods"])
            rig.check(seen == n, f"the agent sees {seen} of {n} cgroups")
            others = len(view["pods"]) - seen
            if others > n / 2:
                print(f"agent_bench: {others} cgroups of others are on this machine: the figures of {n} hold them too",
                      file=sys.stderr)
            return {"us": statistics.median(used) / 1000, "rss": rss, "floor_us": floor_ns(load.groups) / 1000,
                    "accounting": view["sample"]["accounting"]}


def figure(name: str, value: float, unit: str, reference=None) -> None:
    line = {"name": name, "value": round(value, 2), "unit": unit, "bound": None, "better": "lower"}
    if reference is not None:
        line["reference"] = {"name": reference[0], "value": round(reference[1], 2)}
        line["ratio"] = round(value / reference[1], 3)
    print(json.dumps(line), flush=True)


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: makes cgroups and loads BPF")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # leave no cgroup behind
    for n in (50, 200):
        size = f"{n} cgroups, {n * PER_CGROUP} processes"
        for accounting in ("auto", "cgroup-files"):
            result = measure(n, accounting)
            figure(f"agent: CPU per sample, {result['accounting']}, {size}", result["us"], "us",
                   ("read every cpu.stat, files kept open", result["floor_us"]))
            if accounting == "auto":
                figure(f"agent: resident memory, {size}", result["rss"] / 2**20, "MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
