# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test needs of processes: programs of this machine, ports, waiting on conditions."""
import contextlib
import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tools"))
import build  # noqa: E402  (its folder was put on the path just now)

PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """Something did not work as the test needs it."""


def check(truth: object, text: str) -> None:
    if not truth:
        raise Failure(text)


def die_with_parent() -> None:
    """In a child: the kernel ends it where the test itself dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports below the ephemeral range: no outgoing connection takes one while its server is down, nor connects to itself."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10000, max(low, 20000))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports += [port] if port not in ports else []
    return ports


def need(program: str, package: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise build.Missing(f"no {program} (Debian package {package})")
    return path


def call(command: list, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for(what: str, probe, seconds: float = 300, pause: float = 0.1):
    """The first true value of probe(). A Failure or OSError of the probe is one more reason to try again. The time is what the slowest
    of machines may take for anything, since who waits in vain has failed in any case."""
    end = time.monotonic() + seconds
    cause: object = ""
    while True:
        try:
            if value := probe():
                return value
            cause = ""
        except (Failure, OSError) as error:
            cause = f": {error}"
        check(time.monotonic() < end, f"waited {seconds:.0f} s in vain for {what}{cause}")
        time.sleep(pause)


def start_time(pid: int) -> int | None:
    """When a process started, in ticks since boot: with the id it names a process for good. None: there is none, or it ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
