# SPDX-License-Identifier: Apache-2.0
"""A million requests to kwatt-extender while 15000 agents publish and things break; and what the publishing alone costs.

usage: scripts/bench extender_soak [--quick]        two minutes; with --quick a tenth of the requests

All is real: a redis-server, the extender, and the fleet of fleet.c, each node of which publishes every 5 s. First nobody asks: the
extender's CPU is that of following the feeds. Then it is asked for 500 of the names over and over on two connections, and meanwhile
Redis is killed and comes back empty, twice; clients stall in the middle of a head and of a body; others send rubbish and vanish.
Resident memory is read once all buffers have their size, and at the end. A second extender beside it follows the same Redis, watches
pods and nodes of a real kube-apiserver, and is asked over TLS with a client certificate; each time its certificate is renewed and the
kube-apiserver killed and started again (where it can be had; else a line on stderr says why that was left out).
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "e2e")]
import apiserver  # noqa: E402  (its folder was put on the path just now)
from pki import Authority  # noqa: E402
from process import Failure, check, die_with_parent, free_ports, need, wait_for  # noqa: E402

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", ROOT / "build/release")).resolve()
QUICK = os.environ.get("KWATT_BENCH_QUICK") == "1"
NODES, NAMES = int(os.environ.get("KWATT_BENCH_NODES", "15000")), 500
CALLS = int(os.environ.get("KWATT_BENCH_CALLS", "50000" if QUICK else "500000"))    # of each connection
CONNECTIONS = 2
WATCHED_SECONDS = int(os.environ.get("KWATT_BENCH_SECONDS", "10" if QUICK else "30"))
FOREVER = 100000
# a body and an answer kept for a connection, and the allocator's own
GROWTH_MIB = 1.0
MEMORY_MIB = 12.0       # of 15000 nodes


def tell(name: str, value: float, unit: str, **more) -> None:
    print(json.dumps({"name": f"extender_soak.{name}", "value": round(value, 3), "unit": unit, "better": "lower", **more}), flush=True)


def cpu_s(pid: int) -> float:
    """CPU time of a process so far; clock_getcpuclockid() makes the same of its id."""
    return time.clock_gettime(~pid << 3 | 2)


def anonymous_mib(pid: int, which=min) -> float:
    """Resident memory but for files (the kernel drops pages of libraries when it likes); the least of some readings, since a refresh has
    two snapshots for a moment, or what `which` says of them."""
    def reading() -> int:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("RssAnon:")).split()[1])
    readings = []
    for _ in range(30):
        readings.append(reading())
        time.sleep(0.1)
    return which(readings) / 1024


class Guarded:
    """The second extender: behind TLS, and with an API server."""

    def __init__(self, soak: "Soak"):
        self.soak, self.port = soak, free_ports(1)[0]
        self.authority, self.version, self.requests, self.lost, self.enough = Authority(soak.folder / "pki"), 0, 0, 0, False
        self.authority.make()
        self.authority.certificate("client", "/CN=scheduler", "DNS:scheduler")
        self.renew()
        self.server, options = self.api(), []
        if self.server is not None:
            options = ["--watch-pods", "--watch-nodes", "--kubeconfig", self.server.kubeconfig]
        served = soak.folder / "served"
        soak.spawn("guarded", BUILD / "extender/kwatt-extender", "--listen", f"127.0.0.1:{self.port}", "--redis", soak.url, "--log-level", "warn",
                   "--tls-cert-file", served / "tls.crt", "--tls-private-key-file", served / "tls.key", "--client-ca-file", self.authority.folder / "ca.crt",
                   *options)
        self.asking = threading.Thread(target=self.ask)

    @staticmethod
    def api() -> apiserver.ApiServer | None:
        server = None
        try:
            server = apiserver.ApiServer()
            return server.__enter__()
        except (Failure, SystemExit, OSError) as why:
            print(f"extender_soak: without a kube-apiserver: {why}", file=sys.stderr)
            return None

    def renew(self) -> bytes:
        """A new certificate, swapped in with its key by one rename, as a kubelet does. Returns it."""
        self.version += 1
        self.authority.certificate("server", f"/CN=extender-{self.version}", "IP:127.0.0.1")
        folder = self.soak.folder / f"served-{self.version}"
        folder.mkdir()
        for end, name in (("crt", "tls.crt"), ("key", "tls.key")):
            shutil.copy(self.authority.folder / f"server.{end}", folder / name)
        (self.soak.folder / "next").symlink_to(folder)
        (self.soak.folder / "next").replace(self.soak.folder / "served")
        return ssl.PEM_cert_to_DER_cert((folder / "tls.crt").read_text())

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.authority.folder / "ca.crt"))
        context.load_cert_chain(self.authority.folder / "client.crt", self.authority.folder / "client.key")
        client = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        client.connect()
        return client

    def shown(self) -> bytes:
        """The certificate that a new connection sees."""
        with contextlib.closing(self.connect()) as client:
            return client.sock.getpeercert(binary_form=True)

    def metric(self, name: str) -> float:
        with contextlib.closing(self.connect()) as client:
            client.request("GET", "/metrics")
            page = client.getresponse().read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(f"{name} "))

    def ask(self) -> None:
        """Requests over one connection for as long as all this takes."""
        body = json.dumps({"Pod": {}, "Nodes": None, "NodeNames": [f"node-{i}" for i in range(NAMES)]}).encode()
        try:
            client = self.connect()
            while not self.enough:
                client.request("POST", "/prioritize", body)
                answer = client.getresponse()
                check(answer.status == 200 and len(json.loads(answer.read())) == NAMES, "an answer of another size")
                self.requests += 1
            client.close()
        except (OSError, http.client.HTTPException, Failure) as why:
            print(f"extender_soak: over TLS: {why!r}", file=sys.stderr)
            self.lost += 1

    def is_up(self) -> bool:
        with contextlib.suppress(OSError):
            return self.metric("kwatt_extender_redis_up") == 1
        return False

    def start(self) -> None:
        wait_for("the extender behind TLS", self.is_up)
        self.asking.start()

    def watches(self, up: int) -> bool:
        return {self.metric(f"kwatt_extender_watching_{what}") for what in ("pods", "nodes")} == {up}

    def break_things(self) -> None:
        new = self.renew()
        if self.server is not None:
            wait_for("pods and nodes to be watched", lambda: self.watches(1))
            self.server.kill()
            wait_for("the loss of the API server to be seen", lambda: self.watches(0))
        wait_for("the new certificate to be shown", lambda: self.shown() == new)
        if self.server is not None:
            self.server.start()
            wait_for("pods and nodes to be watched again", lambda: self.watches(1))

    def end(self) -> None:
        self.enough = True
        if self.asking.is_alive():
            self.asking.join()
        if self.server is not None:
            self.server.stop(keep=False)

    def tell(self) -> None:
        tell("requests_lost_over_tls", self.lost, f"of {self.requests}, {self.version - 1} certificates renewed" +
             (", API server lost as often" if self.server is not None else ""), bound=0, bound_on="value")


class Soak:
    def __init__(self, folder: pathlib.Path):
        self.folder, self.port = folder, free_ports(1)[0]
        self.url = f"unix://{folder}/redis.sock"
        self.running: dict[str, subprocess.Popen] = {}
        self.guarded: Guarded

    def spawn(self, name: str, *command: object) -> subprocess.Popen:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                                  preexec_fn=die_with_parent)
        return self.running[name]

    def end(self, name: str) -> None:
        if name in self.running:
            process = self.running.pop(name)
            process.kill()
            process.wait()

    def start_redis(self) -> None:
        self.spawn("redis", need("redis-server", "redis-server"), "--port", 0, "--unixsocket", self.folder / "redis.sock", "--save", "",
                   "--dir", self.folder)

    def publish(self) -> None:
        self.end("fleet")
        self.spawn("fleet", BUILD / "tests/bench/fleet_fill", self.url, NODES, FOREVER)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def metric(self, name: str) -> float:
        with self.connect() as sock:
            sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            page = sock.makefile("rb").read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(f"{name} "))

    def start(self) -> None:
        self.start_redis()
        wait_for("redis", (self.folder / "redis.sock").exists)
        self.extender = self.spawn("extender", BUILD / "extender/kwatt-extender", "--listen", f"127.0.0.1:{self.port}", "--redis", self.url,
                                   "--log-level", "warn")
        self.publish()
        wait_for("the extender to know the fleet", self.knows)

    def knows(self) -> bool:
        with contextlib.suppress(OSError):
            return (self.metric("kwatt_extender_redis_up") == 1 and self.metric("kwatt_extender_nodes") == NODES and
                    self.metric("kwatt_extender_nodes_stale") == 0)
        return False

    def measure_publishing(self) -> None:
        pids = [self.running[name].pid for name in ("extender", "redis")]
        time.sleep(2)
        before, begin = [cpu_s(pid) for pid in pids], time.monotonic()
        time.sleep(WATCHED_SECONDS)
        seconds = time.monotonic() - begin
        mine, theirs = [100 * (cpu_s(pid) - was) / seconds for pid, was in zip(pids, before)]
        tell(f"cpu_of_{NODES}_nodes_every_5_s", mine, "% of a core", reference={"name": "redis-server", "value": round(theirs, 3)},
             ratio=round(mine / theirs, 3))
        tell(f"memory_of_{NODES}_nodes_every_5_s", anonymous_mib(self.extender.pid, statistics.median), "MiB, without libraries",
             bound=MEMORY_MIB, bound_on="value")

    def stall(self) -> list[socket.socket]:
        """Clients that stop where it hurts, and some that are gone at once."""
        stalled = []
        for text in (b"POST /filter HT", b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
                     b"POST /prioritize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n"):
            stalled.append(self.connect())
            stalled[-1].sendall(text)
            with self.connect() as gone:
                gone.sendall(text + b"\0\xff" * 500)
        return stalled

    def break_things(self, asking: list[subprocess.Popen]) -> None:
        for _ in range(2):
            stalled = self.stall()
            self.end("redis")
            wait_for("the outage to be seen", lambda: self.metric("kwatt_extender_redis_up") == 0)
            self.start_redis()
            wait_for("the fleet to be known again", self.knows)
            self.guarded.break_things()
            for sock in stalled:
                sock.close()
        check(all(each.poll() in (None, 0) for each in asking), "a client ended early")

    def ask(self) -> None:
        self.guarded = Guarded(self)
        self.guarded.start()
        try:
            self.ask_all()
            self.guarded.tell()
        finally:
            self.guarded.end()

    def ask_all(self) -> None:
        def client(calls: int) -> subprocess.Popen:
            return subprocess.Popen([BUILD / "tests/bench/asker", *map(str, (self.port, calls, NAMES, NODES))], preexec_fn=die_with_parent)
        warm = [client(2000) for _ in range(CONNECTIONS)]
        check(all(each.wait() == 0 for each in warm), "a request was lost")
        self.break_things([])   # what an outage takes once
        before = anonymous_mib(self.extender.pid)
        cpu = cpu_s(self.extender.pid)
        asking = [client(CALLS) for _ in range(CONNECTIONS)]
        self.break_things(asking)
        lost = sum(each.wait() != 0 for each in asking)
        tell("clients_that_lost_a_request", lost, f"of {CONNECTIONS}, {CALLS} requests each", bound=0, bound_on="value")
        tell("cpu_per_request", (cpu_s(self.extender.pid) - cpu) / CALLS / CONNECTIONS * 1e6, "us, with all that runs beside")
        after = anonymous_mib(self.extender.pid)
        tell("memory", after, "MiB, without libraries")
        tell("memory_growth", after - before, f"MiB over {CALLS * CONNECTIONS} requests", bound=GROWTH_MIB, bound_on="value")


def main() -> int:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kwatt-soak-"))
    soak = Soak(folder)
    try:
        soak.start()
        soak.measure_publishing()
        soak.ask()
    finally:
        for name in list(soak.running):
            soak.end(name)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
