#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A power cap that the agent enforces, on a fixture of two packages: set, shown, put back at the end, and after kill -9.

The tree is mounted as the chart does it: all of it read-only, but for devices/virtual/powercap. The agent that puts limits back has
given up its privileges long before.
"""
import os
import pathlib
import signal
import subprocess
import sys

import agent_rig as rig
from agent_rig import check

KEPT = 1 << 2 | 1 << 38 | 1 << 39   # DAC_READ_SEARCH, PERFMON, BPF
FORMER = {"package-0": 250_000_000, "package-1": 150_000_000}
MAXIMA = {"package-0": 200_000_000, "package-1": 100_000_000}
# $0 is the tree; all of it read-only, then, if $1 says so, powercap over it
MOUNTS = """
mount --make-rprivate / && mount --bind "$0/devices/virtual/powercap" "$0/../powercap" && mount --bind "$0" "$0" &&
mount -o remount,ro,bind "$0" && { [ "$1" = closed ] || mount --bind "$0/../powercap" "$0/devices/virtual/powercap"; } && shift && exec "$@"
"""


class Machine:
    """Two packages, as sysfs has them: the class folder holds links."""

    def __init__(self, folder: pathlib.Path):
        self.sys, self.record = folder / "sys", folder / "run" / "power-limits"
        self.limits: dict[str, pathlib.Path] = {}
        (folder / "powercap").mkdir()
        (self.sys / "class/powercap").mkdir(parents=True)
        for number, name in enumerate(FORMER):
            zone = f"intel-rapl:{number}"
            files = self.sys / "devices/virtual/powercap/intel-rapl" / zone
            files.mkdir(parents=True)
            for file, text in (("name", name), ("energy_uj", 1000), ("max_energy_range_uj", rig.Meter.RANGE), ("enabled", 1),
                               ("constraint_0_name", "long_term"), ("constraint_0_power_limit_uw", FORMER[name]),
                               ("constraint_0_max_power_uw", MAXIMA[name]), ("constraint_1_name", "short_term"),
                               ("constraint_1_power_limit_uw", 300_000_000)):
                (files / file).write_text(f"{text}\n")
            (self.sys / "class/powercap" / zone).symlink_to(f"../../devices/virtual/powercap/intel-rapl/{zone}")
            cpu = self.sys / f"devices/system/cpu/cpu{number}/topology"
            cpu.mkdir(parents=True)
            (cpu / "physical_package_id").write_text(f"{number}\n")
            self.limits[name] = files / "constraint_0_power_limit_uw"
        for file in ("possible", "online"):
            (self.sys / "devices/system/cpu" / file).write_text("0-1\n")

    def agent(self, folder: pathlib.Path, *options: str) -> rig.Agent:
        agent = rig.Agent(folder, "--sysfs", str(self.sys), "--interval", "1s", "--enforce-cap-record", str(self.record), *options)
        agent.wrapper = ["unshare", "--mount", "sh", "-c", MOUNTS, str(self.sys), "open"]
        return agent

    def check(self, what: str, wanted: dict[str, int]) -> None:
        found = {name: int(file.read_text()) for name, file in self.limits.items()}
        check(found == wanted, f"{what}: the limits are {found}, not {wanted}")


def parts(watts: int) -> dict[str, int]:
    return {name: watts * 1_000_000 * most // sum(MAXIMA.values()) for name, most in MAXIMA.items()}


def test_set_and_put_back(folder: pathlib.Path, machine: Machine) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with machine.agent(folder, "--enforce-cap-watts", "240") as agent:
            machine.check("with a cap", parts(240))
            check(agent.metric("kwatt_node_power_limit_watts") == 240, "the metric does not say the limit")
            status = pathlib.Path(f"/proc/{agent.process.pid}/status").read_text()
            kept = int(status.split("CapPrm:\t")[1].split()[0], 16)
            check(kept & ~KEPT == 0, f"it keeps capabilities {kept:x} for the cap")
            check("seccomp=yes" in agent.log.read_text(), agent.log.read_text())
            agent.process.send_signal(number)
            check(agent.process.wait(rig.WAIT_SECONDS) == 0, f"it did not end well:\n{agent.log.read_text()}")
        machine.check(f"after {number.name}", FORMER)
    with machine.agent(folder) as agent:
        machine.check("without a cap", FORMER)
        check("kwatt_node_power_limit_watts" not in agent.get("/metrics")[1], "a limit is shown where none is set")


def test_killed(folder: pathlib.Path, machine: Machine) -> None:
    with machine.agent(folder, "--enforce-cap-watts", "240") as agent:
        agent.kill()
        machine.check("after kill -9", parts(240))
    with machine.agent(folder, "--enforce-cap-watts", "150") as agent:
        machine.check("with another cap", parts(150))
        agent.kill()
    with machine.agent(folder, "--enforce-cap-watts", "270") as agent:
        machine.check("with a higher cap", parts(270))
        check(agent.terminate() == 0, agent.log.read_text())
    machine.check("after kill -9 and an end", FORMER)
    with machine.agent(folder, "--enforce-cap-watts", "240") as agent:
        agent.kill()
    with machine.agent(folder):
        machine.check("after kill -9 and a start without a cap", FORMER)


def test_refused(folder: pathlib.Path, machine: Machine) -> None:
    for options, how, text in ((["--enforce-cap-watts", "301"], "open", "above the 300.000 W"),
                               (["--enforce-cap-watts", "240"], "closed", "is mounted read-only"),
                               (["--enforce-cap-watts", "240", "--sysfs", str(folder)], "open", "no powercap in")):
        agent = machine.agent(folder, *options)
        done = subprocess.run([*agent.wrapper[:-1], how, rig.AGENT.absolute(), "--listen", "", *agent.options], capture_output=True,
                              text=True, check=False, timeout=rig.WAIT_SECONDS)
        check(done.returncode == 1 and text in done.stderr, f"{text!r} is not said:\n{done.stderr}")
        check("the power cap cannot be enforced" in done.stderr, done.stderr)
        machine.check(f"after {text!r}", FORMER)


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: it mounts the tree as the chart does")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for test in (test_set_and_put_back, test_killed, test_refused):
        with rig.folder() as name:
            test(pathlib.Path(name), Machine(pathlib.Path(name)))
        print(f"ok {test.__name__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
