#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a running agent has given up, as the kernel shows it, and that it lacks nothing for it.

The agent runs on a root that nobody can write, publishes to a Redis that it knows by name and that goes away and comes back,
and is scraped meanwhile: sockets, name resolution, reconnects and threads, all behind the filter.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import agent_rig as rig
from agent_rig import check, wait_for

BPF = 1 << 39
KEPT = 1 << 2 | 1 << 38 | BPF   # DAC_READ_SEARCH, PERFMON
# A mount name space whose root cannot be written, but for the folder given first (for the socket).
READ_ONLY = """
mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind / && exec "$@"
"""


def status(task: pathlib.Path) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)


def check_threads(pid: int) -> None:
    """Every thread: a capability of one is a capability of the process."""
    tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    check(len(tasks) >= 4, f"only {len(tasks)} threads: HTTP and publisher are missing")
    for task in tasks:
        said = status(task)
        for kind in ("CapEff", "CapPrm", "CapBnd"):
            check(int(said[kind], 16) & ~KEPT == 0, f"{said['Name']} has {kind} {said[kind]}")
        check(int(said["CapInh"], 16) == 0 and int(said["CapAmb"], 16) == 0, f"{said['Name']} hands capabilities on")
        check(said["NoNewPrivs"] == "1", f"{said['Name']} may gain privileges")
        check(said["Seccomp"] == "2", f"{said['Name']} is not confined")


class TcpRedis(rig.Redis):
    """Known by a name: each connect resolves it."""

    def __init__(self, folder: pathlib.Path, port: int):
        super().__init__(folder)
        self.port = port

    def start(self) -> None:
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket), "--save",
                 "", "--dir", str(self.folder)], stdout=log, stderr=log, preexec_fn=rig.die_with_parent)
        wait_for("redis", self.answers)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def test_agent() -> None:
    with rig.folder() as name, rig.Cgroup("late") as late:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        port = free_port()
        redis = TcpRedis(folder, port)
        key = "kwatt:v1:node:{" + rig.NAME + "}"
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--redis", f"redis://localhost:{port}")
        agent.wrapper = ["unshare", "--mount", "sh", "-c", READ_ONLY, str(folder)]

        def measured() -> int:
            text = redis.command("HGET", key, "sample")
            return rig.energies({"sample": json.loads(text)})["measured_uj"] if text else 0

        with redis, agent:
            check_threads(agent.process.pid)
            root = pathlib.Path(f"/proc/{agent.process.pid}/mountinfo").read_text()
            check(any(line.split()[4] == "/" and "ro" in line.split()[5].split(",") for line in root.splitlines()),
                  "the agent's root can be written: the test is wrong")
            redis.kill()
            meter.advance(5_000_000)
            time.sleep(1.5)
            redis.start()
            wait_for("all energy in the redis that came back", lambda: measured() == meter.counted)
            with late.run(sys.executable, "-c", "while True: pass") as process:     # eBPF, inotify, cgroup files
                wait_for("a cgroup's CPU time", lambda: (rig.workload(agent.view(), id=late.path) or
                                                         {"cpu_ns": 0})["cpu_ns"] > 200_000_000)
                process.kill()
            check(agent.metric("kwatt_samples_total") > 1, "no metrics")
            check_threads(agent.process.pid)
            log = agent.log.read_text()
            check("not permitted" not in log and "not confined" not in log, f"something was refused:\n{log}")
            check("seccomp=yes" in log, f"the log does not say what is given up:\n{log}")
            check(agent.terminate() == 0, f"the agent did not end well:\n{agent.log.read_text()}")


def test_without_bpf() -> None:
    """What reads files needs nothing that BPF needs."""
    with rig.folder() as name:
        with rig.Agent(pathlib.Path(name), "--interval", "1s", "--meter", "model", "--accounting", "cgroup-files",
                       "--requests", "off") as agent:
            said = status(pathlib.Path(f"/proc/{agent.process.pid}"))
            check(all(int(said[kind], 16) & BPF == 0 for kind in ("CapEff", "CapPrm", "CapBnd")), f"{said}")


def test_switch() -> None:
    """Without the filter where the operator says so, and then it is said."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        with rig.Agent(folder, "--interval", "1s", "--meter", "model", "--no-seccomp") as agent:
            said = status(pathlib.Path(f"/proc/{agent.process.pid}"))
            check(said["Seccomp"] == "0" and said["NoNewPrivs"] == "1", f"{said}")
            check("seccomp=no" in agent.log.read_text(), agent.log.read_text())


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: there is nothing to give up")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    test_agent()
    test_without_bpf()
    test_switch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
