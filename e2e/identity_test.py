#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workloads that no Kubernetes names, on this machine: a QEMU in a unit, a container of docker's, by a running, confined agent."""
import json
import pathlib
import shutil
import subprocess
import sys

import agent_rig as rig
from agent_rig import check, wait_for
from process import free_ports

UUID = "6f1e0b52-8c8f-4d52-9f0e-0f6a3c2b1d44"
CONTAINER = "0123456789abcdef" * 4
QEMU = ["qemu-system-x86_64", "-name", "guest=db,debug-threads=on", "-uuid", UUID, "-machine", "none", "-nodefaults", "-nographic",
        "-S", "-monitor", "none"]
BURN = [sys.executable, "-c", "while True: pass"]


class Named(rig.Cgroup):
    """A cgroup below one of the test's own, under a name that runtimes give."""

    def __init__(self, parent: rig.Cgroup, name: str):
        super().__init__("")
        self.path = f"{parent.path}/{name}"
        self.folder = parent.folder / name


def docker_knows(root: pathlib.Path, name: str) -> None:
    """What docker writes of a container, in one piece as it does."""
    folder = root / "var/lib/docker/containers" / CONTAINER
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / ".tmp"
    fresh.write_text(json.dumps({"ID": CONTAINER, "Name": f"/{name}", "Config": {"Image": "nginx:1.25"}}))
    fresh.rename(folder / "config.v2.json")


def top(agent: rig.Agent) -> str:
    return subprocess.run([rig.BUILD / "cli/kwatt", "top", "--once", "--agent", f"http://{agent.listen}"], check=True,
                          capture_output=True, text=True).stdout


def named_at_once(folder: pathlib.Path, parent: rig.Cgroup) -> bool:
    done = subprocess.run([rig.AGENT, "--once", "--interval", "2s", "--host-root", str(folder), "--cgroup-root", parent.path],
                          check=True, capture_output=True, text=True)
    view = json.loads(done.stdout)
    return bool(rig.workload(view, kind="vm", name="db") and rig.workload(view, id=CONTAINER, name="web"))


def test_names() -> None:
    if shutil.which(QEMU[0]) is None:
        rig.skip(f"{QEMU[0]} is not installed")
    with rig.folder() as name, rig.Cgroup("parent") as parent:
        folder = pathlib.Path(name)
        with Named(parent, "vm.service") as unit, Named(parent, f"docker-{CONTAINER}.scope") as scope:
            agent = rig.Agent(folder, "--interval", "500ms", "--host-root", str(folder), "--cgroup-root", parent.path)
            agent.listen = f"127.0.0.1:{free_ports(1)[0]}"
            burner = scope.run(*BURN)
            machine = unit.run(*QEMU)
            with agent:
                check("seccomp=yes" in agent.log.read_text(), agent.log.read_text())
                found = wait_for("the machine", lambda: rig.workload(agent.view(), kind="vm", name="db"))
                check(found["uuid"] == UUID and found["cgroup"] == unit.path, str(found))
                view = agent.view()
                container = rig.workload(view, kind="container", id=CONTAINER)
                check(container["name"] == CONTAINER[:12] and "image" not in container, str(container))
                # docker's file comes late, and changes
                docker_knows(folder, "web")
                wait_for("a name", lambda: rig.workload(agent.view(), id=CONTAINER, name="web", image="nginx:1.25"))
                check(agent.metric("kepler_vm_cpu_joules_total", vm_id=UUID, vm_name="db", state="running") >= 0, "")
                page = agent.get("/metrics")[1]
                check(f'vm_id="{UUID}"' in page and 'container_name="web"' in page, page)
                check("web (nginx:1.25)" in top(agent) and "db" in top(agent), top(agent))
                # one sample is enough for names that are there, where the machine is not too busy to look
                wait_for("names in one sample", lambda: named_at_once(folder, parent))
                machine.kill()
                machine.wait()
                burner.kill()
                burner.wait()
                rig.check_books(agent.next_view())
                check(agent.terminate() == 0, agent.log.read_text())


def zones(page: str, name: str) -> dict[str, int]:
    """Sums of a family, by zone, in microjoules: written with six decimals, so that nothing is rounded."""
    sums: dict[str, int] = {}
    for line in page.splitlines():
        if line.startswith(name + "{"):
            zone = line.split('zone="')[1].split('"')[0]
            sums[zone] = sums.get(zone, 0) + int(line.rsplit(" ", 1)[1].replace(".", ""))
    return sums


def processes(page: str) -> dict[int, int]:
    """Joules in microjoules by number."""
    found = {}
    for line in page.splitlines():
        if line.startswith("kepler_process_cpu_joules_total{"):
            found[int(line.split('pid="')[1].split('"')[0])] = int(line.rsplit(" ", 1)[1].replace(".", ""))
    return found


def check_process_books(page: str) -> None:
    """What processes have, listed, unlisted and ended, is what workloads and the system drew: to the microjoule."""
    parts = [zones(page, name) for name in ("kepler_process_cpu_joules_total", "kwatt_processes_unlisted_joules",
                                            "kwatt_processes_ended_joules_total")]
    drawn = [zones(page, name) for name in ("kwatt_node_pods_joules_total", "kwatt_node_system_joules_total")]
    for zone in drawn[0]:
        check(sum(part.get(zone, 0) for part in parts) == sum(total[zone] for total in drawn), f"{zone}: {parts} of {drawn}")


def test_processes() -> None:
    with rig.folder() as name, rig.Cgroup("many") as group:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 0)
        options = ("--sysfs", str(folder / "sys"), "--interval", "1s", "--meter", "powercap", "--idle-watts", "5")
        with rig.Agent(folder, *options) as agent:
            check("process" not in "".join(line for line in agent.get("/metrics")[1].splitlines() if line[0] != "#"
                                           and not line.startswith("kepler_node_cpu_info")), "processes that nobody asked for")
        with rig.Drawing(meter, 5, 30), rig.Agent(folder, *options, "--metrics-processes", "1") as agent:
            page = agent.get("/metrics")[1]
            check(len(processes(page)) == 1 and agent.metric("kwatt_processes") > 1, page)
            check_process_books(page)
        with rig.Drawing(meter, 5, 30, (group,)), rig.Agent(folder, *options, "--metrics-processes", "5000") as agent:
            one = group.run(*BURN)
            two = group.run(*BURN)
            last: dict[int, int] = {}
            ended = 0

            def both() -> bool:
                nonlocal ended
                page = agent.get("/metrics")[1]
                check_process_books(page)
                now = processes(page)
                check(all(uj >= last.get(pid, 0) for pid, uj in now.items()), f"{last} -> {now}")
                last.update(now)
                gone = zones(page, "kwatt_processes_ended_joules_total")["package"]
                check(gone >= ended, "what ended ones drew became less")
                ended = gone
                return now.get(one.pid, 0) > 0 and now.get(two.pid, 0) > 0
            wait_for("both to have drawn", both)
            page = agent.get("/metrics")[1]
            line = next(line for line in page.splitlines() if f'pid="{one.pid}"' in line)
            check('comm="python' in line and "/python" in line and 'type="regular"' in line and f'cgroup="{group.path}"' in line, line)
            had = processes(page)[one.pid]
            one.kill()
            one.wait()
            wait_for("its end", lambda: both() is not None and one.pid not in processes(agent.get("/metrics")[1]))
            both()   # the page before may have been the last one with it
            check(ended >= had, "what the ended one drew is lost")
            two.kill()
            two.wait()
            check_process_books(agent.get("/metrics")[1])
            check(agent.terminate() == 0, agent.log.read_text())


# Calls itself by its first argument and burns; forks short-lived ones all the time.
ODD = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[1]), 0, 0, 0)
while True:
    end = time.process_time() + 0.01
    while time.process_time() < end: pass
    for _ in range(10):
        if os.fork() == 0:
            os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
"""


def test_odd_processes() -> None:
    """Names of any bytes, storms of forks, moves between cgroups: the page stays one that Prometheus takes, and the books balance."""
    with rig.folder() as name, rig.Cgroup("one") as one, rig.Cgroup("two") as two:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 0)
        names = [b'a"b\\c', b"a)\n(b 1 2", b"\xff\xfe{}", b"", b" "]
        with rig.Drawing(meter, 5, 30, (one, two)), \
                rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--meter", "powercap", "--idle-watts", "5",
                          "--metrics-processes", "5000") as agent:
            odd = [one.run(sys.executable, "-c", ODD, text) for text in names]
            last: dict[int, int] = {}
            for round_ in range(6):
                sequence = agent.metric("kwatt_samples_total")
                wait_for("another sample", lambda: agent.metric("kwatt_samples_total") > sequence)  # noqa: B023
                page = agent.get("/metrics")[1]
                check_process_books(page)
                now = processes(page)
                check(all(now.get(one.pid, uj) >= uj for one, uj in ((o, last.get(o.pid, 0)) for o in odd)), f"{last} -> {now}")
                last = now
                to = (two, one)[round_ % 2]
                for process in odd:
                    (to.folder / "cgroup.procs").write_text(str(process.pid))
            if shutil.which("promtool"):
                lint = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True, check=False)
                check(lint.returncode == 0 and not lint.stderr, f"promtool: {lint.stderr}{lint.stdout}")
            for process in odd:
                process.kill()
                process.wait()
            rig.check_books(agent.view())


def test_blind() -> None:
    """An agent in a PID namespace of its own, as a pod is: it says what it cannot see, and the rest is as ever."""
    with rig.folder() as name, rig.Cgroup("vm") as group:
        folder = pathlib.Path(name)
        agent = rig.Agent(folder, "--interval", "500ms", "--metrics-processes", "100")
        agent.wrapper = ["unshare", "--pid", "--fork", "--kill-child"]
        machine = group.run(*QEMU) if shutil.which(QEMU[0]) else group.run(*BURN)
        with agent:
            check("processes are hidden" in agent.log.read_text(), agent.log.read_text())
            view = agent.next_view()
            found = rig.workload(view, cgroup=group.path)
            check(found is not None and found["kind"] == "cgroup", f"{found}")
            rig.check_books(view)
            # by the numbers of its own namespace others would be read
            check("kwatt_processes" not in agent.get("/metrics")[1], "processes of another namespace")
        machine.kill()
        machine.wait()


def main() -> int:
    for test in (test_blind, test_processes, test_odd_processes, test_names):
        print(test.__name__, flush=True)
        test()
    return 0


if __name__ == "__main__":
    sys.exit(main())
