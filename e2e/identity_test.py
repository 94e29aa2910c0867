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


def test_names() -> None:
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
                machine.kill()
                machine.wait()
                burner.kill()
                burner.wait()
                rig.check_books(agent.next_view())
                check(agent.terminate() == 0, agent.log.read_text())


def main() -> int:
    if shutil.which(QEMU[0]) is None:
        rig.skip(f"{QEMU[0]} is not installed")
    for test in (test_names,):
        print(test.__name__, flush=True)
        test()
    return 0


if __name__ == "__main__":
    sys.exit(main())
