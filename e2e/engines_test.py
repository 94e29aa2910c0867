#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers that a real docker and a real podman run, beside each other: their names, images and energy by a running agent."""
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

import agent_rig as rig
from agent_rig import check, wait_for

BUSYBOX = pathlib.Path("/bin/busybox")   # of busybox-static: needs no library
IMAGE = "localhost/kwatt-e2e:1"
SLEEP = ["/busybox", "sleep", "100000"]
BURN = ["/busybox", "sh", "-c", "while :; do :; done"]
# A machine may not let anybody raise a limit, not even root.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]


def image_tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(BUSYBOX, "busybox")
        for name in ("proc", "sys", "dev", "etc", "tmp"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return out.getvalue()


def v1_folders() -> list[pathlib.Path]:
    rows = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    return [pathlib.Path(row[1]) for row in rows if row[2] == "cgroup"]


def without_v2() -> list[str]:
    """Before a command: a mount name space in which a hybrid machine has its v1 controllers only, since crun refuses both."""
    rows = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    v2 = [row[1] for row in rows if row[2] == "cgroup2"]
    if not v2 or not v1_folders():
        return []
    return ["unshare", "--mount", "sh", "-c", f"umount {v2[0]} && exec \"$@\"", "sh"]


class Engine:
    """What docker and podman have in common: their command line."""

    name: str

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.prefix = without_v2()
        self.running: list[str] = []

    def command(self, *words: str) -> list[str]:
        raise NotImplementedError

    def call(self, *words: str, stdin: bytes = b"") -> str:
        done = subprocess.run([*self.prefix, *self.command(*words)], input=stdin, capture_output=True, check=False, timeout=120)
        check(done.returncode == 0, f"{self.name} {words[0]}: exit {done.returncode}\n{done.stderr.decode()}")
        return done.stdout.decode().strip()

    def run(self, name: str, command: list[str]) -> str:
        """@return the container's id."""
        self.running.append(name)
        return self.call("run", "--detach", "--network", "none", *LIMITS, "--name", name, IMAGE, *command).splitlines()[-1]

    def start(self) -> None:
        self.call("import", "-", IMAGE, stdin=image_tar())

    def remove(self, name: str) -> None:
        self.running.remove(name)
        self.call("rm", "--force", name)

    def end(self) -> None:
        for name in self.running:
            with contextlib.suppress(rig.Failure):   # it may be what failed
                self.call("rm", "--force", name)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.end()


class Podman(Engine):
    name = "podman"

    def command(self, *words: str) -> list[str]:
        run = self.folder / "podman"
        return ["podman", "--root", str(self.folder / "var/lib/containers/storage"), "--runroot", str(run), "--tmpdir",
                str(run / "tmp"), "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "crun", "--events-backend",
                "file", *words]


class Docker(Engine):
    name = "docker"

    def __init__(self, folder: pathlib.Path):
        super().__init__(folder)
        self.daemon = None
        self.log = folder / "dockerd.log"

    def command(self, *words: str) -> list[str]:
        return ["docker", "--host", f"unix://{self.folder}/docker.sock", *words]

    def start(self) -> None:
        run = self.folder / "docker"
        run.mkdir()
        with self.log.open("wb") as log:
            self.daemon = subprocess.Popen(
                [*self.prefix, "dockerd", "--host", f"unix://{self.folder}/docker.sock", "--data-root",
                 str(self.folder / "var/lib/docker"), "--exec-root", str(run), "--pidfile", str(run / "pid"), "--bridge", "none",
                 "--iptables=false", "--storage-driver", "vfs", "--exec-opt", "native.cgroupdriver=cgroupfs"],
                stdout=log, stderr=log, preexec_fn=rig.die_with_parent)
        wait_for("docker", self.answers)
        super().start()

    def answers(self) -> bool:
        check(self.daemon.poll() is None, f"dockerd ended:\n{self.log.read_text()}")
        try:
            return bool(self.call("version", "--format", "{{.Server.Version}}"))
        except rig.Failure:
            return False

    def end(self) -> None:
        if self.daemon is None or self.daemon.poll() is not None:
            return
        super().end()
        self.daemon.terminate()
        self.daemon.wait(rig.WAIT_SECONDS)


@contextlib.contextmanager
def tidy_cgroups():
    """Removes the engines' own parents, where they were not there before."""
    parents = [folder / name for folder in [*v1_folders(), rig.cgroup_mount()] for name in ("docker", "libpod_parent")]
    fresh = [parent for parent in parents if not parent.exists()]
    try:
        yield
    finally:
        for parent in fresh:
            for folder, _, _ in os.walk(parent, topdown=False):
                with contextlib.suppress(OSError):
                    pathlib.Path(folder).rmdir()


def watch(folder: pathlib.Path, engines: list[Engine]) -> None:
    meter = rig.Meter(folder / "sys", 0)
    ids = {f"{engine.name}-{what}": engine.run(f"{engine.name}-{what}", command)
           for engine in engines for what, command in (("idle", SLEEP), ("busy", BURN))}
    options = ("--sysfs", str(folder / "sys"), "--meter", "powercap", "--interval", "500ms", "--idle-watts", "2", "--host-root",
               str(folder))
    with rig.Agent(folder, *options) as agent, rig.Drawing(meter, 12, 0):
        for name, number in ids.items():
            found = wait_for(f"the name of {name}", lambda name=name, number=number: rig.workload(agent.view(), id=number, name=name))
            check(found["kind"] == "container" and found.get("image") == IMAGE, str(found))
        late = {f"{engine.name}-late": engine.run(f"{engine.name}-late", SLEEP) for engine in engines}
        for name, number in late.items():
            wait_for(f"the name of {name}", lambda name=name, number=number: rig.workload(agent.view(), id=number, name=name))
        time.sleep(2)   # to draw something
        view = agent.next_view()
        rig.check_books(view)
        for engine in engines:
            idle, busy = (rig.workload(view, id=ids[f"{engine.name}-{what}"])["active_uj"] for what in ("idle", "busy"))
            check(busy > 100 * max(idle, 1) or idle == 0 < busy, f"{engine.name}: {busy} uJ of the busy one, {idle} of the idle one")
        page = agent.get("/metrics")[1]
        for name in ids:
            check(f'container_name="{name}"' in page, page)
        for engine in engines:
            engine.remove(f"{engine.name}-busy")
        for engine in engines:
            wait_for(f"{engine.name}'s busy container to end", lambda number=ids[f"{engine.name}-busy"]:
                     rig.workload(agent.view(), id=number).get("ended_unix_ms"))
        rig.check_books(agent.next_view())
        check(agent.terminate() == 0, agent.log.read_text())


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: runs containers")
    for program, package in (("dockerd", "docker.io"), ("podman", "podman"), ("crun", "crun"), ("conmon", "conmon")):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/libexec/podman") is None:
            rig.skip(f"no {program} (Debian package {package})")
    if not BUSYBOX.exists():
        rig.skip(f"no {BUSYBOX} (Debian package busybox-static)")
    with rig.folder() as name, tidy_cgroups():
        folder = pathlib.Path(name)
        with Docker(folder) as docker, Podman(folder) as podman:
            watch(folder, [docker, podman])
    return 0


if __name__ == "__main__":
    sys.exit(main())
