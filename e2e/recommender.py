# SPDX-License-Identifier: Apache-2.0
"""For the recommender's end-to-end tests: a real redis-server, records as an agent publishes them, the program itself."""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR") or pathlib.Path(__file__).resolve().parents[1] / "build/debug")
PROGRAM = BUILD / "vpa-recommender/kwatt-vpa-recommender"
WAIT_SECONDS = 90       # for anything to happen at all; an idle machine needs two


class Failure(Exception):
    """Something did not happen."""


def missing() -> str | None:
    """What this machine lacks for any of these tests."""
    if shutil.which("redis-server") is None:
        return "no redis-server (Debian package redis-server)"
    return None if PROGRAM.exists() else f"{PROGRAM} is not built"


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def until(what: str, test, seconds: float = WAIT_SECONDS):
    """Calls test until it returns something true, which is returned."""
    end = time.monotonic() + seconds
    while True:
        got = test()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.1)


class Redis:
    """A redis-server of the test's own on a unix socket, saving nothing."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.path = folder / "redis.sock"
        self.url = f"unix://{self.path}"
        self.process = None
        self.start()

    def start(self) -> None:
        with open(self.folder / "redis.log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", str(self.path), "--save", "", "--appendonly", "no"],
                cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        until("redis-server answers", self.answers)

    def answers(self) -> bool:
        try:
            return self.call("PING") == b"PONG"
        except OSError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.path.unlink(missing_ok=True)

    def call(self, *args):
        """One command, one connection; errors of the server are raised."""
        parts = [a if isinstance(a, bytes) else str(a).encode() for a in args]
        text = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.path))
            connection.sendall(text)
            with connection.makefile("rb") as reader:
                return self.read(reader)

    def read(self, reader):
        line = reader.readline().rstrip(b"\r\n")
        if not line:
            raise OSError("the server closed the connection")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise Failure(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else reader.read(int(rest) + 2)[:-2]
        return None if rest == b"-1" else [self.read(reader) for _ in range(int(rest))]

    def hash(self, key: str) -> dict:
        flat = self.call("HGETALL", key)
        return dict(zip(flat[::2], flat[1::2]))


class Agent:
    """Publishes records of one node, with counters that grow as fast as it is told."""

    def __init__(self, redis: Redis, node: str = "node-a", epoch: int | None = None):
        self.redis = redis
        self.node = node
        self.epoch = epoch or int(time.time() * 1000)
        self.started = time.time()
        self.workloads: dict[str, dict] = {}

    def add(self, id_: str, cores: float, memory: int, kind: str = "unit", containers: dict | None = None, **more) -> None:
        """containers: id -> (name, cores, memory)."""
        self.workloads[id_] = {"kind": kind, "cores": cores, "memory": memory, "containers": containers or {}, "more": more}

    def record(self, id_: str, now: float) -> dict:
        workload = self.workloads[id_]
        seconds = now - self.started

        def spent(cores: float) -> int:
            return int(cores * seconds * 1e9)

        return {"schema": 1, "kind": workload["kind"], "id": id_, "name": id_.rsplit("/", 1)[-1], "namespace": "",
                "runtime": "", "cgroup": id_, "epoch": self.epoch, "started_unix_ms": int(self.started * 1000),
                "ended_unix_ms": 0, "t_unix_ms": int(now * 1000), "cpu_ns": spent(workload["cores"]), "active_uj": 0,
                "dram_uj": 0, "sigma_uj": 0, "watts_mw": 0, "memory_bytes": workload["memory"], "estimated": True,
                "containers": [{"id": key, "name": name, "cpu_ns": spent(cores), "active_uj": 0, "memory_bytes": memory}
                               for key, (name, cores, memory) in sorted(workload["containers"].items())],
                **workload["more"]}

    def publish(self) -> None:
        now = time.time()
        self.redis.call("ZADD", "kwatt:v1:nodes", int(now * 1000), self.node)
        for id_ in self.workloads:
            self.redis.call("HSET", f"kwatt:v1:pods:{{{self.node}}}", id_, json.dumps(self.record(id_, now)))


class Recommender:
    """The program, with a loop a second and its log in a file."""

    def __init__(self, folder: pathlib.Path, redis: Redis, *args: str):
        self.log = folder / f"recommender-{time.monotonic_ns()}.log"
        with open(self.log, "wb") as log:
            env = {k: v for k, v in os.environ.items() if not k.startswith(("KWATT_", "KUBE"))}
            self.process = subprocess.Popen(
                [str(PROGRAM), "--listen", "127.0.0.1:0", "--redis", redis.url, "--interval", "1s",
                 "--sample-interval", "1s", *args],
                env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        self.port = int(until("the recommender serves", self.said_port)[1])

    def said_port(self):
        if self.process.poll() is not None:
            raise Failure(f"the recommender ended with {self.process.returncode}: {self.log.read_text()}")
        return re.search(r"serving .*port=(\d+)", self.log.read_text())

    def get(self, path: str, accept: str = "*/*") -> tuple[int, str]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept})
        try:
            with opener.open(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        """Value of a sample, spelled with its labels; 0 where it is absent."""
        for line in self.get("/metrics")[1].splitlines():
            if line.rsplit(" ", 1)[0] == name:
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def loops(self, count: int = 2) -> None:
        """Waits until so many more loops have ended."""
        first = self.metric("kwatt_recommender_loops_total")
        until("the loop goes on", lambda: self.metric("kwatt_recommender_loops_total") >= first + count)

    def stop(self) -> None:
        """SIGTERM; the exit code must be 0 and the sanitizers silent."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=WAIT_SECONDS)
        if code:
            raise Failure(f"the recommender ended with {code}: {self.log.read_text()[-4000:]}")
