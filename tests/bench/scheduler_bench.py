# SPDX-License-Identifier: Apache-2.0
"""Pods per second of the real kube-scheduler: alone, with kwatt's extender, with one that answers a constant, with one in Go.

usage: scripts/bench scheduler [--quick]       20 minutes, 7 with --quick, and some for the first build of Kubernetes

etcd, kube-apiserver and kube-scheduler are real and on loopback; nodes are objects of a real one's size (12 kB) without kubelets,
and no controllers run. A run: 1000 pods of 4 kB are created while the scheduler is down, then it is started, and its own counter
of scheduled pods is read until it has all: watching pods from here would cost more than what is measured. The rate is the slope
from the first reading that is not 0 to the last but the final one. Modes take turns, each round the other way round, and a ratio
is the median of the rounds' ratios: what else the machine does falls on all alike. There are as many rounds as the time allows,
one at least. kwatt's CPU holds its reading of Redis once a second too, which is much of it where few pods a second are placed.

Tiers and no extender differ by less than two runs of either do, so these two have many rounds of their own, five at least, and the
quartiles of the rounds' ratios stand beside the median.

All nodes fit, so each extender gets and gives equal lists:
  500 nodes    percentageOfNodesToScore 100, as `kwatt scheduler-config --filter` prints: 500 names a call
  5000 nodes   the scheduler's own sample of a tenth, as in a cluster that leaves it alone: 500 names a call
  tiers        no extender, and nodes labelled by a kwatt-extender that watches them; the configuration that `kwatt scheduler-config
               --tiers` prints
  Nodes form   nodeCacheCapable false, 40 pods a run: each takes a tenth of a second, nearly all of it the scheduler's own

The fleet in Redis is written by fleet_fill; the static extender is static_extender.c; the Go one is e2e/tools/goextender.
Environment, for a test on a small scale: KWATT_BENCH_NODES "500 5000", KWATT_BENCH_PODS "1000 40", KWATT_BENCH_MINUTES 19,
KWATT_BENCH_PAIRS 5; to look closer at a part: KWATT_BENCH_PART tiers.
"""
import base64
import collections
import concurrent.futures
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "e2e")]
from apiserver import ApiServer  # noqa: E402  (its folder was put on the path just now)
from process import Failure, build, check, free_ports, need, wait_for  # noqa: E402

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", ROOT / "build/release")).resolve()
BOTH, SCORE = "filter + prioritize", "prioritize"
NAMES, OBJECTS = "names", "Nodes"
# kwatt loses no more than this against an answer that costs nothing, and gains this on an extender in Go
KEEPS, GAINS = 0.95, 1.25
TIERS_KEEP = 0.95       # of a scheduler's pods a second without any extender
EXTENDERS = ("kwatt", "static", "go")
SAMPLE_FROM = 1000      # nodes from which on the scheduler's own sample is left alone
CREATORS = 4            # connections that create objects
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 300  # for one run, far above what any takes


def numbers(name: str, default: str) -> list[float]:
    return [float(word) for word in os.environ.get(f"KWATT_BENCH_{name}", default).split()]


NODES = [int(n) for n in numbers("NODES", "500 5000")]
PODS = dict(zip((NAMES, OBJECTS), map(int, numbers("PODS", "1000 40"))))
SECONDS = 60 * numbers("MINUTES", "6" if os.environ.get("KWATT_BENCH_QUICK") == "1" else "19")[0]
PAIRS = int(numbers("PAIRS", "5")[0])


@dataclasses.dataclass(frozen=True)
class Mode:
    who: str            # none, tiers, static, kwatt, go
    verbs: str = ""
    form: str = NAMES

    def __str__(self) -> str:
        return f"{self.who}, {self.verbs}, {self.form}" if self.verbs else self.who


PAIR = [Mode("none"), Mode("tiers")]
# kwatt stands beside the one it is bound to most tightly
MODES = [Mode("none"), *(Mode(who, verbs) for verbs in (BOTH, SCORE) for who in ("go", "kwatt", "static"))]
OBJECT_MODES = [Mode(who, verbs, OBJECTS) for verbs in (BOTH, SCORE) for who in ("go", "kwatt", "static")]


@dataclasses.dataclass
class Reading:
    at: float
    pods: int           # scheduled so far
    scheduler_us: float     # CPU so far
    extender_us: float


@dataclasses.dataclass
class Run:
    pods_per_s: float
    extender_us: float  # CPU for each pod
    both_us: float      # of scheduler and extender


class Server(ApiServer):
    """etcd and kube-apiserver that hold nobody back."""

    programs = ("kube-apiserver", "kubectl", "kube-scheduler")
    options = ("--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--max-mutating-requests-inflight=0")

    def forget(self, kind: str) -> None:
        """Removes objects in etcd itself: one call in place of thousands."""
        begin = f"/registry/{kind}/"
        self.etcd_call("kv/deleterange", {"key": base64.b64encode(begin.encode()).decode(),
                                          "range_end": base64.b64encode(begin[:-1].encode() + b"0").decode()})

    def post(self, path: str, objects: list[dict]) -> None:
        """Creates objects over a few connections."""
        def work(part: int) -> None:
            connection = self.connect(120)
            for each in objects[part::CREATORS]:
                connection.request("POST", path, json.dumps(each), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
                check(answer.status == 201, f"{path}: {answer.status} {text[:500]}")
            connection.close()
        with concurrent.futures.ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(work, range(CREATORS)))


def node(name: str) -> dict:
    """A node as large as real ones are: most of it are names of images."""
    room = {"cpu": "128", "memory": "512Gi", "pods": "1000", "ephemeral-storage": "1Ti"}
    images = [{"names": [f"registry.example.org/team-{n}/service-{n}@sha256:{n:064x}", f"registry.example.org/team-{n}/service-{n}:v1"],
               "sizeBytes": 100000000 + n} for n in range(50)]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{len(name) % 3}"}}, "status": {
            "capacity": room, "allocatable": room, "images": images, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}]}}


def pod(number: int) -> dict:
    settings = [{"name": f"SETTING_{n}", "value": f"a value of some \"length\", as they are, {n}"} for n in range(30)]
    return {"metadata": {"name": f"pod-{number:05}", "labels": {"app": "bench"}}, "spec": {
        "tolerations": [{"operator": "Exists"}], "automountServiceAccountToken": False, "containers": [
            {"name": "main", "image": "none", "env": settings, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}}


def cpu_us(pid: int) -> float:
    """CPU time of a process so far; clock_getcpuclockid() makes the same of its id."""
    return time.clock_gettime(~pid << 3 | 2) * 1e6


class Bench:
    def __init__(self, server: Server):
        self.server = server
        self.nodes = 0
        self.ports: dict[str, int] = {}
        self.running: dict[str, subprocess.Popen] = {}
        self.redis = f"unix://{server.dir}/redis.sock"
        self.tiers = subprocess.run([BUILD / "cli/kwatt", "scheduler-config", "--tiers"], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.go = build.programs("goextender") / "goextender"

    # ---- what stands around the scheduler ----

    def spawn(self, name: str, *command: object) -> None:
        self.running[name] = self.server.spawn(name, [str(word) for word in command])

    def end(self, *names: str) -> None:
        for process in [self.running.pop(name) for name in names if name in self.running]:
            process.kill()
            process.wait()

    def start_redis(self) -> None:
        self.redis_cli = need("redis-cli", "redis-tools")
        self.spawn("redis", need("redis-server", "redis-server"), "--port", 0, "--unixsocket", f"{self.server.dir}/redis.sock",
                   "--save", "", "--dir", self.server.dir)
        wait_for("redis", lambda: subprocess.run([self.redis_cli, "-s", f"{self.server.dir}/redis.sock", "PING"], capture_output=True,
                                                 check=False).stdout == b"PONG\n")

    def grow(self, nodes: int) -> None:
        """So many nodes in the cluster and in Redis, and extenders that know them."""
        names = subprocess.run([BUILD / "tests/bench/fleet_fill", self.redis, str(nodes)], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.split()
        new = names[self.nodes:]
        self.server.post("/api/v1/nodes", [node(name) for name in new])
        self.nodes = nodes
        self.end(*EXTENDERS)
        self.ports = dict(zip(EXTENDERS, free_ports(len(EXTENDERS))))
        listen = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        asked = min(nodes, 500) if nodes >= SAMPLE_FROM else nodes
        self.spawn("kwatt", BUILD / "extender/kwatt-extender", "--listen", listen["kwatt"], "--redis", self.redis,
                   "--stale-after", "1h", "--log-level", "warn")
        self.spawn("static", BUILD / "tests/bench/static_extender", listen["static"], asked)
        self.spawn("go", self.go, listen["go"])
        wait_for("kwatt's extender to know the nodes", lambda: self.page("kwatt", "kwatt_extender_nodes ") == nodes)
        self.label(len(new))
        for name in ("static", "go"):
            wait_for(f"the {name} extender", lambda name=name: self.page(name))

    def label(self, new: int) -> None:
        """Labels the new nodes, as an extender does that writes tiers, and ends it: labels change too seldom to be felt in a run."""
        port = free_ports(1)[0]
        self.ports["labels"] = port
        self.spawn("labels", BUILD / "extender/kwatt-extender", "--listen", f"127.0.0.1:{port}", "--redis", self.redis, "--stale-after", "1h",
                   "--log-level", "warn", "--watch-nodes", "--power-tiers", "--power-tiers-per-second", 100, "--kubeconfig",
                   self.server.kubeconfig)
        wait_for("the nodes to be labelled", lambda: self.page("labels", "kwatt_extender_tier_writes_total ") >= new, PATIENCE_SECONDS)
        self.end("labels")

    def page(self, name: str, start: str = "") -> float:
        """A metric of an extender; without its name: 1 if it answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(start)) if start else 1

    # ---- one run ----

    def config(self, mode: Mode) -> str:
        # its own limit is 50 requests a second, far below what is measured
        text = f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {self.server.kubeconfig}
  qps: 10000
  burst: 10000
leaderElection:
  leaderElect: false
"""
        if self.nodes < SAMPLE_FROM:
            text += "percentageOfNodesToScore: 100\n"
        if mode.who == "tiers":
            return text + self.tiers[self.tiers.index("profiles:"):]
        if mode.who == "none":
            return text
        verb = "\n  filterVerb: filter" if mode.verbs == BOTH else ""
        return f"""{text}extenders:
- urlPrefix: http://127.0.0.1:{self.ports[mode.who]}{verb}
  prioritizeVerb: prioritize
  weight: 3
  nodeCacheCapable: {"true" if mode.form == NAMES else "false"}
  httpTimeout: 30s
"""

    def start_scheduler(self, mode: Mode) -> int:
        """Returns the port of its metrics."""
        port = free_ports(1)[0]
        path = self.server.dir / "scheduler.yaml"
        path.write_text(self.config(mode))
        self.spawn("kube-scheduler", self.server.bin / "kube-scheduler", "--config", path, "--bind-address=127.0.0.1",
                   f"--secure-port={port}", "--authorization-always-allow-paths=/metrics")
        return port

    def scheduled(self, connection: http.client.HTTPSConnection) -> int:
        """Pods that the scheduler has placed, by its own metrics; 0 as long as it does not serve them."""
        check(self.running["kube-scheduler"].poll() is None, "kube-scheduler ended")
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0
        found = re.search(r'^scheduler_schedule_attempts_total\{[^}]*result="scheduled"[^}]*\} (\S+)', text, re.M)
        return int(float(found[1])) if found else 0

    def readings(self, mode: Mode, count: int) -> list[Reading]:
        """From the scheduler's start until all pods are placed."""
        context = ssl._create_unverified_context()    # it makes its own certificate
        connection = http.client.HTTPSConnection("127.0.0.1", self.start_scheduler(mode), timeout=10, context=context)
        scheduler, extender = self.running["kube-scheduler"].pid, self.running.get(mode.who)
        seen: list[Reading] = []
        end = time.monotonic() + PATIENCE_SECONDS
        with contextlib.closing(connection):
            while not seen or seen[-1].pods < count:
                time.sleep(POLL_SECONDS)
                pods = self.scheduled(connection)
                seen.append(Reading(time.monotonic(), pods, cpu_us(scheduler), cpu_us(extender.pid) if extender else 0))
                check(seen[-1].at < end, f"{mode}: {pods} of {count} pods were placed within {PATIENCE_SECONDS} s")
        return seen

    def run(self, mode: Mode) -> Run:
        count = PODS[mode.form]
        pods = "/api/v1/namespaces/default/pods"
        self.server.post(pods, [pod(n) for n in range(count)])
        asked = self.page("kwatt", "kwatt_extender_requests_total") if mode.who == "kwatt" else 0
        readings = self.readings(mode, count)
        self.end("kube-scheduler")
        left = self.server.request("GET", f"{pods}?limit=1&fieldSelector=spec.nodeName=")["items"]
        check(not left, "pods were counted and not bound")
        if mode.who == "kwatt":
            asked = self.page("kwatt", "kwatt_extender_requests_total") - asked
            check(asked >= count * (2 if mode.verbs == BOTH else 1), f"kwatt was asked {asked:.0f} times for {count} pods")
        for kind in ("pods", "events"):
            self.server.forget(kind)
        return slope(readings)


def slope(readings: list[Reading]) -> Run:
    """The rate between the first reading that is not 0 and the last but one: when the last pod came, between two readings, nobody
    knows. Where that leaves too little (few pods), over all readings. So is the extender's CPU: a pod is scored well before it counts
    as bound. The scheduler's is not: it has a start."""
    seen = [each for each in readings if each.pods > 0]
    first, last = readings[0], seen[-1]
    if len(seen) > 2 and seen[-2].pods - seen[0].pods > last.pods / 2:
        first, last = seen[0], seen[-2]
    pods = last.pods - first.pods
    extender_us = (readings[-1].extender_us - readings[0].extender_us) / readings[-1].pods
    return Run(pods / (last.at - first.at), extender_us, (last.scheduler_us - first.scheduler_us) / pods + extender_us)


# share: of the time; least and most: rounds
Scenario = collections.namedtuple("Scenario", "nodes form modes share least most")


def scenarios() -> list[Scenario]:
    parts = [("tiers", NAMES, PAIR, 2, PAIRS, 40), ("extenders", NAMES, MODES, 3, 1, 9), ("extenders", OBJECTS, OBJECT_MODES, 1, 1, 9)]
    wanted = os.environ.get("KWATT_BENCH_PART")
    return [Scenario(nodes, *part[1:]) for nodes in NODES for part in parts if wanted in (None, part[0])]


def tell(name: str, value: float, unit: str, better: str, **more) -> None:
    print(json.dumps({"name": name, "value": round(value, 1), "unit": unit, "better": better, **more}), flush=True)


class Report:
    """The figures of one scenario."""

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.runs: dict[Mode, list[Run]] = {mode: [] for mode in scenario.modes}

    def mode(self, who: str, verbs: str) -> Mode:
        return Mode(who, verbs, self.scenario.form) if who not in ("none", "tiers") else Mode(who)

    def median(self, mode: Mode, field: str) -> float:
        return statistics.median(getattr(run, field) for run in self.runs[mode])

    def compare(self, who: str, verbs: str, other: str, field: str, **more) -> None:
        """One line: who beside other, by the median of the rounds' ratios."""
        mine, theirs = self.mode(who, verbs), self.mode(other, verbs)
        if mine not in self.runs or theirs not in self.runs:
            return
        pairs = [(getattr(a, field), getattr(b, field)) for a, b in zip(self.runs[mine], self.runs[theirs])]
        what = {"pods_per_s": "", "extender_us": ": its CPU per pod", "both_us": ": CPU per pod, the scheduler's too"}[field]
        where = f"{self.scenario.nodes} nodes, {self.scenario.form}, {verbs}" if verbs else f"{self.scenario.nodes} nodes"
        tell(f"{where}: {who}{what}", self.median(mine, field),
             *(("pods/s", "higher") if field == "pods_per_s" else ("us", "lower")),
             reference={"name": other, "value": round(self.median(theirs, field), 1)},
             ratio=round(statistics.median(a / b for a, b in pairs), 3), **more)

    def print_pair(self) -> None:
        """Tiers beside no extender, and how far the rounds' ratios lie apart."""
        none, tiers = PAIR
        self.compare("tiers", "", "none", "pods_per_s", bound=TIERS_KEEP)
        self.compare("tiers", "", "none", "both_us")
        for what, field in (("", "pods_per_s"), (": CPU per pod", "both_us")):
            ratios = sorted(getattr(a, field) / getattr(b, field) for a, b in zip(self.runs[tiers], self.runs[none]))
            for quartile, index in (("lower", len(ratios) // 4), ("upper", -1 - len(ratios) // 4)):
                print(json.dumps({"name": f"{self.scenario.nodes} nodes: tiers{what}: {quartile} quartile of the rounds' ratios",
                                  "value": round(ratios[index], 3), "unit": f"of none's, {len(ratios)} rounds"}), flush=True)

    def print(self) -> None:
        if self.scenario.modes is PAIR:
            self.print_pair()
            return
        none = Mode("none")
        if none in self.runs:
            tell(f"{self.scenario.nodes} nodes: no extender", self.median(none, "pods_per_s"), "pods/s", "higher")
        for verbs in (BOTH, SCORE):
            for who in ("static", "go", "kwatt"):
                self.compare(who, verbs, "none", "pods_per_s")
            self.compare("kwatt", verbs, "none", "both_us")
            self.compare("kwatt", verbs, "static", "pods_per_s", bound=KEEPS)
            self.compare("kwatt", verbs, "go", "pods_per_s", bound=GAINS)
            self.compare("kwatt", verbs, "static", "extender_us")
            self.compare("kwatt", verbs, "go", "extender_us")


class Schedule:
    """How many rounds there is time for."""

    def __init__(self, scenarios: list[Scenario]):
        self.end = time.monotonic() + SECONDS
        self.left = list(scenarios)

    def share(self) -> float:
        """Seconds for the scenario that comes next: its part of what is left."""
        weights = [scenario.share for scenario in self.left]
        return max(self.end - time.monotonic(), 0) * weights[0] / sum(weights)

    def one_more(self, rounds: int, begin: float, share: float) -> bool:
        spent, scenario = time.monotonic() - begin, self.left[0]
        return rounds < scenario.least or (rounds < scenario.most and spent + spent / rounds <= share)

    def say(self, text: str) -> None:
        left = self.end - time.monotonic()
        print(f"kwatt: {text} ({left / 60:.1f} min left)" if left > 0 else f"kwatt: {text}", file=sys.stderr, flush=True)


def measure(server: Server) -> None:
    schedule = Schedule(scenarios())
    bench = Bench(server)
    bench.start_redis()
    try:
        for scenario in list(schedule.left):
            if scenario.nodes != bench.nodes:
                schedule.say(f"creating {scenario.nodes} nodes")
                bench.grow(scenario.nodes)
            report, rounds = Report(scenario), 0
            begin, share = time.monotonic(), schedule.share()
            while schedule.one_more(rounds, begin, share):
                rounds += 1
                for mode in scenario.modes[::1 if rounds % 2 else -1]:
                    report.runs[mode].append(bench.run(mode))
                    schedule.say(f"{scenario.nodes} nodes, round {rounds}: {mode}: {report.runs[mode][-1].pods_per_s:.0f} pods/s")
            schedule.left.pop(0)
            report.print()
    finally:
        bench.end(*bench.running)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))    # and clean up
    try:
        for program in ("extender/kwatt-extender", "tests/bench/static_extender", "tests/bench/fleet_fill", "cli/kwatt"):
            check((BUILD / program).is_file(), f"no {BUILD / program}")
        with Server() as server:
            measure(server)
    except build.Missing as error:
        return build.end(error)
    except Failure as error:
        print(f"scheduler_bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
