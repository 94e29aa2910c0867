# SPDX-License-Identifier: Apache-2.0
"""Real cgroups, a fixture power meter with a known truth, a real agent and a real Redis, for agent tests.

Everything made here has this process's id in its name and is removed by the `with` block that made it.
"""
import ctypes
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", "build/debug"))
AGENT = BUILD / "node-agent" / "kwatt-node-agent"
NAME = f"kwatt-e2e-{os.getpid()}"
WAIT_SECONDS = 60   # for things that take milliseconds on an idle machine
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """Something is not as the test needs it."""


def skip(reason: str) -> None:
    print(f"SKIP: {reason}")
    sys.exit(77)


def check(condition: bool, text: str) -> None:
    if not condition:
        raise Failure(text)


def die_with_parent() -> None:
    """In a child: the kernel ends it where the test itself dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(what: str, probe, seconds: float = WAIT_SECONDS, poll_seconds: float = 0.05):
    """The first true value of probe()."""
    end = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        check(time.monotonic() < end, f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(poll_seconds)


def cgroup_mount() -> pathlib.Path:
    """Where cgroups are made: the v2 tree, or v1 cpuacct where there is none."""
    v1 = None
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options = line.split()[:4]
        if kind == "cgroup2":
            return pathlib.Path(folder)
        if kind == "cgroup" and "cpuacct" in options.split(","):
            v1 = pathlib.Path(folder)
    if v1 is None:
        skip("no cgroup file system is mounted")
    return v1


class Cgroup:
    """A cgroup of its own, directly below the root."""

    def __init__(self, name: str):
        self.path = f"/{NAME}-{name}"
        self.folder = cgroup_mount() / self.path[1:]

    def __enter__(self):
        try:
            self.folder.mkdir()
        except OSError as error:
            skip(f"cgroups cannot be made here: {error}")
        return self

    def enter(self) -> None:
        """In a child, before exec: moves it here."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        die_with_parent()

    def run(self, *command, **more) -> subprocess.Popen:
        return subprocess.Popen(command, preexec_fn=self.enter, **more)

    def cpu_seconds(self) -> float:
        stat = self.folder / "cpu.stat"
        if stat.exists():
            for line in stat.read_text().splitlines():
                if line.startswith("usage_usec"):
                    return int(line.split()[1]) / 1e6
        return int((self.folder / "cpuacct.usage").read_text()) / 1e9

    def remove(self) -> None:
        def gone() -> bool:
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return True
            except OSError:
                return False
            return True
        wait_for(f"{self.folder} to be empty", gone)

    def __exit__(self, *_):
        self.remove()


class Meter:
    """A powercap tree with one package whose counter wraps; `advance` is what the truth is."""

    RANGE = 262143328850
    MODULUS = RANGE + 61    # one unit of a 32-bit counter of this range

    def __init__(self, folder: pathlib.Path, start: int):
        self.zone = folder / "class" / "powercap" / "intel-rapl:0"
        self.zone.mkdir(parents=True)
        (self.zone / "name").write_text("package-0\n")
        (self.zone / "max_energy_range_uj").write_text(f"{self.RANGE}\n")
        self.file = os.open(self.zone / "energy_uj", os.O_RDWR | os.O_CREAT, 0o400)
        self.counter = start
        self.counted = 0    # all that was drawn, in uJ
        self.wraps = 0
        self.write()

    def write(self) -> None:
        os.pwrite(self.file, f"{self.counter:<20}\n".encode(), 0)   # always as long: readers see whole numbers

    def advance(self, microjoules: int) -> None:
        self.counted += microjoules
        self.counter += microjoules
        if self.counter >= self.MODULUS:
            self.counter -= self.MODULUS
            self.wraps += 1
        self.write()


class Drawing:
    """A thread that draws idle watts, and watts per busy core of the given cgroups, from a meter."""

    def __init__(self, meter: Meter, idle_watts: float, core_watts: float, cgroups=()):
        self.meter, self.idle, self.core, self.cgroups = meter, idle_watts, core_watts, cgroups
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        last = time.monotonic()
        cpu = sum(group.cpu_seconds() for group in self.cgroups)
        rest = 0.0
        while not self.ending.wait(0.02):
            now, now_cpu = time.monotonic(), sum(group.cpu_seconds() for group in self.cgroups)
            joules = self.idle * (now - last) + self.core * (now_cpu - cpu) + rest
            whole = int(joules * 1e6)
            rest = joules - whole / 1e6
            self.meter.advance(whole)
            last, cpu = now, now_cpu

    def __enter__(self):
        self.thread.start()
        return self

    def stop(self) -> None:
        self.ending.set()
        self.thread.join()

    def __exit__(self, *_):
        self.stop()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=WAIT_SECONDS)
        self.unix_path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(WAIT_SECONDS)
        self.sock.connect(self.unix_path)


class Agent:
    """A running kwatt-node-agent, listening on a unix socket."""

    def __init__(self, folder: pathlib.Path, *options: str, node: str = NAME):
        self.folder, self.options, self.node = folder, options, node
        self.socket = folder / "agent.sock"
        self.log = folder / "agent.log"
        self.process = None
        self.wrapper: list[str] = []    # a command that ends by executing the agent
        self.listen = f"unix:{self.socket}"

    def start(self, poll_seconds: float = 0.05) -> None:
        self.socket.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, AGENT.absolute(), "--node-name", self.node, "--listen", self.listen, *self.options],
                stdout=log, stderr=log, preexec_fn=die_with_parent)
        wait_for("the agent's first sample", self.ready, poll_seconds=poll_seconds)

    def ready(self) -> bool:
        check(self.process.poll() is None, f"the agent ended:\n{self.log.read_text()}")
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def get(self, path: str):
        connection = (UnixConnection(self.socket) if self.listen.startswith("unix:") else
                      http.client.HTTPConnection(self.listen, timeout=WAIT_SECONDS))
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def view(self) -> dict:
        status, body = self.get("/v1/pods")
        check(status == 200, f"/v1/pods: {status} {body}")
        return json.loads(body)

    def metric(self, name: str, **labels: str) -> float:
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name) and line[len(name)] in "{ " and \
                    all(f'{key}="{value}"' in line for key, value in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def next_view(self) -> dict:
        """A view whose window began after now."""
        first = self.view()["sample"]["seq"]

        def later():
            view = self.view()
            return view if view["sample"]["seq"] >= first + 2 else None
        return wait_for("another sample", later)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(WAIT_SECONDS)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


class Redis:
    """A real redis-server on a unix socket, without persistence: what it forgets, the agent must repair."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.process = None

    def start(self) -> None:
        program = shutil.which("redis-server") or skip("redis-server is not installed")
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [program, "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no",
                 "--dir", str(self.folder)], stdout=log, stderr=log, preexec_fn=die_with_parent)
        wait_for("redis", self.answers)

    def answers(self) -> bool:
        try:
            return self.command("PING") == "PONG"
        except OSError:
            return False

    def command(self, *words: str):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(WAIT_SECONDS)
            sock.connect(str(self.socket))
            text = f"*{len(words)}\r\n" + "".join(f"${len(w.encode())}\r\n{w}\r\n" for w in words)
            sock.sendall(text.encode())
            with sock.makefile("rb") as stream:
                return self.reply(stream)

    def reply(self, stream):
        line = stream.readline()
        if not line:
            raise ConnectionError("redis closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else stream.read(size + 2)[:-2].decode()
        if kind == b"*":
            return [self.reply(stream) for _ in range(int(rest))]
        raise Failure(f"redis answered {line!r}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


def folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="kwatt-e2e.")


def energies(view: dict) -> dict:
    """All domains of all packages added up."""
    total = dict.fromkeys(("measured_uj", "idle_uj", "pods_uj", "system_uj", "unattributed_uj"), 0)
    for package in view["sample"]["packages"]:
        for domain in ("cpu", "dram"):
            for key in total:
                total[key] += package.get(domain, {}).get(key, 0)
    return total


def check_books(view: dict) -> dict:
    """measured = idle + pods + system + unattributed, and pods = workloads + departed: to the microjoule."""
    total = energies(view)
    parts = total["idle_uj"] + total["pods_uj"] + total["system_uj"] + total["unattributed_uj"]
    check(parts == total["measured_uj"], f"the books do not balance: {total}")
    pods = sum(pod["active_uj"] for pod in view["pods"]) + view["departed_uj"]
    check(pods == total["pods_uj"], f"workloads have {pods} uJ, the node says {total['pods_uj']}")
    return total


def workload(view: dict, **wanted: str) -> dict | None:
    for pod in view["pods"]:
        if all(pod.get(key) == value for key, value in wanted.items()):
            return pod
    return None
