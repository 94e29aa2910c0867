#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler asks an extender by HTTPS, with the configuration that `kwatt scheduler-config` prints and a client
certificate; certificates change while pods are placed; who has no certificate is refused."""
import contextlib
import pathlib
import shutil
import subprocess
import sys

from scenario import BUILD, PATIENCE, World, check, run, wait_for

from pki import Authority
from process import Failure, die_with_parent

PORT = 9895


class Served:
    """An extender of its own beside the installed one, whose certificates are mounted as the kubelet does it."""

    def __init__(self, world: World):
        self.world, self.control = world, world.cluster.control
        self.host = world.cluster.address(0, 1)
        self.url = f"https://{self.host}:{PORT}"
        self.dir, self.log = world.cluster.dir / "tls", world.cluster.dir / "tls-extender.log"
        self.process: subprocess.Popen | None = None
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir()
        self.authority = Authority(self.dir / "pki")
        self.authority.make()
        self.authority.certificate("client", "/CN=kube-scheduler", "DNS:kube-scheduler")
        self.swap(0)
        for file in ("tls.crt", "tls.key"):
            (self.dir / file).symlink_to(f"..data/{file}")

    def swap(self, number: int) -> None:
        self.authority.certificate(f"server{number}", "/CN=kwatt-extender", f"DNS:kwatt.test,DNS:generation{number}")
        data = self.dir / f"..{number}"
        data.mkdir()
        for end in ("crt", "key"):
            shutil.copy(self.authority.folder / f"server{number}.{end}", data / f"tls.{end}")
        (self.dir / "..next").symlink_to(data.name)
        (self.dir / "..next").rename(self.dir / "..data")

    def start(self) -> None:
        command = [BUILD / "extender/kwatt-extender", "--listen", f"{self.host}:{PORT}", "--tls-cert-file", self.dir / "tls.crt",
                   "--tls-private-key-file", self.dir / "tls.key", "--client-ca-file", self.authority.folder / "ca.crt",
                   "--redis", "unix:///nowhere/redis.sock"]
        # not of the cluster's processes: it is gone afterwards, and all of those are to run
        with self.control.network(), open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            preexec_fn=die_with_parent)
        wait_for("the extender", lambda: self.ask("/healthz", name="kwatt.test", shown=False) == "ok\n")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            check(self.process.wait(60) == 0, f"the extender ended by {self.process.returncode}:\n{self.log.read_text()}")
            self.process = None

    def ask(self, path: str, name: str, shown: bool = True, more: tuple = ()) -> str:
        """By curl, under a name that the certificate must have."""
        pki: pathlib.Path = self.authority.folder
        with contextlib.suppress(Failure):
            return self.control.run("curl", "--silent", "--cacert", pki / "ca.crt", "--connect-to", f"{name}:{PORT}:{self.host}:{PORT}",
                                    *(["--cert", pki / "client.crt", "--key", pki / "client.key"] if shown else []), *more,
                                    f"https://{name}:{PORT}{path}")
        return ""

    def asked(self) -> int:
        page = self.ask("/metrics", name="kwatt.test")
        return sum(int(line.rsplit(" ", 1)[1]) for line in page.splitlines()
                   if line.startswith("kwatt_extender_requests_total") and 'verb="prioritize"' in line)

    def configuration(self) -> str:
        pki = self.authority.folder
        return self.control.run(BUILD / "cli/kwatt", "scheduler-config", "--check", "--extender-url", self.url, "--ca-file", pki / "ca.crt",
                                "--cert-file", pki / "client.crt", "--key-file", pki / "client.key", "--server-name", "kwatt.test",
                                "--http-timeout", PATIENCE)


def places(world: World, served: Served, count: int, name: str) -> None:
    before = served.asked()
    for number in range(count):
        world.bound(f"{name}-{number}", cpu="10m")
    now = served.asked()
    check(now == before + count, f"the scheduler asked {now - before} times for {count} pods:\n"
                                 f"{world.cluster.control.log('kube-scheduler')[-1500:]}\n{served.log.read_text()[-1500:]}")


def scenario(world: World, served: Served) -> None:
    served.start()
    world.cluster.start_scheduler(served.configuration())
    places(world, served, 2, "first")
    for number in (1, 2):
        served.swap(number)
        places(world, served, 2, f"during-{number}")
        wait_for("the new certificate", lambda number=number: served.ask("/healthz", name=f"generation{number}", shown=False))
    # the scheduler's next connection, with another client certificate of the same authority
    served.authority.certificate("client", "/CN=kube-scheduler-2", "DNS:kube-scheduler")
    served.stop()
    served.start()
    places(world, served, 2, "after")
    check(served.ask("/prioritize", name="kwatt.test", shown=False, more=("--data", "{}")) == "403 a client certificate is needed here\n",
          "a client without a certificate is answered")


def test(world: World) -> None:
    before = (world.cluster.dir / "scheduler.yaml").read_text()
    served = Served(world)
    try:
        scenario(world, served)
    finally:
        served.stop()
        world.cluster.start_scheduler(before)


if __name__ == "__main__":
    sys.exit(run(test))
