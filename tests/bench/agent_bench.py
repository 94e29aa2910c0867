#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a real agent costs: CPU per published sample, memory, start, and a page of metrics, beside a floor and its peers.

Real pods' cgroups with sleeping processes, twenty of them busy for 2.5 % each; the agent of the release build as it is
started by default (a sample every 5 s, made of windows; eBPF), with a powercap tree, publishing to a real Redis and scraped
once per sample. All of it counts, as the scheduler accounts it to the agent's threads: the median of windows of 5 s.

References of the same run, while nothing else of it runs: a program that only reads every cpu.stat through files kept open;
Scaphandre where it is installed (SCAPHANDRE_BIN, or on the PATH), scraped every 5 s, behind a powercap tree and a
/proc/modules of a name space of its own where the machine has none; Kepler where KEPLER_BIN names one, with its fake meter.

Everything made here is removed at the end, also by Ctrl-C; what a killed run left is removed by the next. About five
minutes; KWATT_BENCH_SECONDS (20) is how long each case is watched.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("KWATT_BUILD_DIR", str(ROOT / "build" / "release"))
sys.path.insert(0, str(ROOT / "e2e"))
import agent_rig as rig  # noqa: E402  (its folder was put on the path just now)

FLOOR = rig.BUILD / "tests" / "bench" / "agent_floor"
SECONDS = float(os.environ.get("KWATT_BENCH_SECONDS", "20"))
SAMPLE_SECONDS = 5
QUICK = bool(os.environ.get("KWATT_BENCH_QUICK"))   # the two small cases, without peers
CASES = ((50, 750), (200, 3000), (200, 6000), (1000, 5000))
PEERS_AT = (200, 3000)
PEER_WAIT_SECONDS = 300   # Scaphandre needs more than a minute for 3000 processes on a busy machine
BUSY = 20
PREFIX = "kwatt-bench-"
SLEEPERS = "i=1; while [ $i -lt %d ]; do sleep 100000 & i=$((i+1)); done; wait"
BUSY_LOOP = """
import time
while True:
    used = time.process_time()
    while time.process_time() - used < 0.0025: pass
    time.sleep(0.0975)
"""

# A name space in which a machine without RAPL has some: Scaphandre reads /sys/class/powercap and ends where there is no
# /proc/modules. What it watches are the processes that are there when it starts.
DISGUISE = """
set -e
mkdir -p "$0/proc" "$0/real"
mount --make-rprivate /
mount --bind /proc "$0/real"
mount --bind "$0/sys/class" /sys/class
mount -t tmpfs tmpfs "$0/proc"
for entry in "$0"/real/*; do ln -s "$entry" "$0/proc/${entry##*/}"; done
[ -e "$0/proc/modules" ] || echo "intel_rapl_common 40960 1 - Live 0x0" > "$0/proc/modules"
mount --bind "$0/proc" /proc
exec "$@"
"""


def say(text: str) -> None:
    print(f"agent_bench: {text}", file=sys.stderr, flush=True)


def cpu_ns(pid: int) -> int:
    """On-CPU time of all threads."""
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def rss_bytes(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def remove_tree(top: pathlib.Path) -> None:
    """Ends the processes of a cgroup tree and removes it."""
    folders = sorted((pathlib.Path(f) for f, _, _ in os.walk(top)), key=lambda f: len(f.parts), reverse=True)

    def gone() -> bool:
        for folder in folders:
            with contextlib.suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                folder.rmdir()
        return not top.exists()
    rig.wait_for(f"{top} to be empty", gone)


def sweep() -> None:
    """Removes what runs left that were killed."""
    for top in rig.cgroup_mount().glob(PREFIX + "*"):
        pid = top.name[len(PREFIX):].split("-")[0]
        if pid.isdigit() and not pathlib.Path(f"/proc/{pid}").exists():
            say(f"removing {top}, left by a run that was killed")
            remove_tree(top)


class Load:
    """`pods` pods of one container each, with `processes` in all of them together."""

    def __init__(self, pods: int, processes: int):
        self.pods, self.per_pod = pods, processes // pods
        self.path = f"/{PREFIX}{os.getpid()}-{pods}"
        self.top = rig.cgroup_mount() / self.path[1:]
        self.leaves = [self.top / "kubepods" / "burstable" / f"pod{i:08x}-0000-4000-8000-000000000000" / f"{i:064x}"
                       for i in range(pods)]
        self.shells: list[subprocess.Popen] = []

    def run(self, leaf: pathlib.Path, *command) -> None:
        def enter():
            (leaf / "cgroup.procs").write_text(str(os.getpid()))
            rig.die_with_parent()
        self.shells.append(subprocess.Popen(command, preexec_fn=enter))

    def __enter__(self):
        say(f"making {self.pods} pods of {self.per_pod} processes")
        try:
            for i, leaf in enumerate(self.leaves):
                leaf.mkdir(parents=True)
                busy = i < BUSY
                # sleepers that lose their shell must go too: they are ended by their cgroup
                self.run(leaf, "/bin/sh", "-c", SLEEPERS % (self.per_pod - busy))
                if busy:
                    self.run(leaf, sys.executable, "-c", BUSY_LOOP)
            rig.wait_for("all processes", lambda: sum(
                len((leaf / "cgroup.procs").read_text().split()) for leaf in self.leaves) >= self.pods * self.per_pod)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        say("removing them")
        remove_tree(self.top)
        for shell in self.shells:
            shell.wait()


def median_ms(pid: int, scrape) -> float:
    """On-CPU ms per 5 s, with one scrape in each."""
    used = []
    for _ in range(max(3, round(SECONDS / SAMPLE_SECONDS))):
        end, before = time.monotonic() + SAMPLE_SECONDS, cpu_ns(pid)
        time.sleep(SAMPLE_SECONDS / 2)
        scrape()
        time.sleep(max(0.0, end - time.monotonic()))
        used.append((cpu_ns(pid) - before) / 1e6)
    return statistics.median(used)


def floor_ms(load: Load) -> float:
    files = [str(leaf / ("cpu.stat" if (leaf / "cpu.stat").exists() else "cpuacct.usage")) for leaf in load.leaves]
    return float(subprocess.run([FLOOR, *files], stdout=subprocess.PIPE, text=True, check=True).stdout) / 1e6


def start_seconds(agent: rig.Agent) -> float:
    begin = time.monotonic()
    agent.start(poll_seconds=0.005)
    return time.monotonic() - begin


def page_ms(agent: rig.Agent, pages: int = 20) -> float:
    before = cpu_ns(agent.process.pid)
    for _ in range(pages):
        agent.get("/metrics")
    return (cpu_ns(agent.process.pid) - before) / 1e6 / pages


def measure_agent(load: Load, accounting: str) -> dict:
    with rig.folder() as name, rig.Redis(pathlib.Path(name)) as redis:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--cgroup-root", load.path, "--accounting", accounting,
                          "--redis", f"unix://{redis.socket}")
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: agent.__exit__())
            started = start_seconds(agent)
            pid = agent.process.pid
            time.sleep(SAMPLE_SECONDS + 1)   # the first samples learn the machine

            def scrape():
                meter.advance(100_000_000)
                agent.get("/metrics")
            ms = median_ms(pid, scrape)
            view = agent.view()
            seen = sum(pod["kind"] == "pod" for pod in view["pods"])
            rig.check(seen == load.pods, f"the agent sees {seen} of {load.pods} pods")
            return {"ms": ms, "rss": rss_bytes(pid), "start": started, "page": page_ms(agent),
                    "accounting": view["sample"]["accounting"]}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def measure_peer(name: str, command: list[str], port: int, marker: str) -> dict | None:
    """A peer's CPU per 5 s with a scrape in each; None where it does not run here."""
    def scrape() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return answer.read().decode(errors="replace")

    def works() -> bool:
        rig.check(process.poll() is None, f"{name} ended")
        try:
            return marker in scrape()
        except OSError:
            return False
        finally:
            time.sleep(2)   # asked more often, Scaphandre freezes

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=rig.die_with_parent)
    try:
        rig.wait_for(f"{name}'s first figures", works, seconds=PEER_WAIT_SECONDS)
        time.sleep(SAMPLE_SECONDS)
        return {"ms": median_ms(process.pid, scrape), "rss": rss_bytes(process.pid)}
    except rig.Failure as failure:
        say(f"{name} is left out: {failure}")
        return None
    finally:
        process.kill()
        process.wait()


def measure_scaphandre(folder: pathlib.Path) -> dict | None:
    program = os.environ.get("SCAPHANDRE_BIN") or shutil.which("scaphandre")
    if program is None:
        say("Scaphandre is not installed: its figures are left out")
        return None
    port = free_port()
    command = [program, "prometheus", "-a", "127.0.0.1", "-p", str(port)]
    if not (pathlib.Path("/sys/class/powercap/intel-rapl:0").exists() and pathlib.Path("/proc/modules").exists()):
        for zone, text in (("intel-rapl", "intel-rapl"), ("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "dram")):
            top = folder / "sys" / "class" / "powercap" / zone
            top.mkdir(parents=True)
            for file, content in (("name", text), ("energy_uj", "1000000"), ("max_energy_range_uj", "262143328850"),
                                  ("enabled", "1")):
                (top / file).write_text(content + "\n")
        command = ["unshare", "--mount", "sh", "-c", DISGUISE, str(folder), *command]
    say("watching Scaphandre")
    return measure_peer("Scaphandre", command, port, "scaph_process_")


def measure_kepler(folder: pathlib.Path) -> dict | None:
    program = os.environ.get("KEPLER_BIN")
    if program is None:
        return None
    port = free_port()
    config = folder / "kepler.yaml"
    config.write_text("dev:\n  fake-cpu-meter:\n    enabled: true\n")
    say("watching Kepler")
    return measure_peer("Kepler", [program, "--config.file", str(config), "--web.listen-address", f"127.0.0.1:{port}"], port,
                        "kepler_process_cpu")


def figure(name: str, value: float, unit: str, reference=None, bound=None, on_value: bool = False) -> None:
    line = {"name": name, "value": round(value, 3), "unit": unit, "bound": bound, "better": "lower"}
    if reference is not None:
        line["reference"] = {"name": reference[0], "value": round(reference[1], 3)}
        line["ratio"] = round(value / reference[1], 4)
    if on_value:
        line["bound_on"] = "value"
    print(json.dumps(line), flush=True)


def run_case(pods: int, processes: int, peers: bool) -> dict:
    size = f"{pods} pods, {processes} processes"
    with Load(pods, processes) as load:
        say("watching the agent")
        result = measure_agent(load, "auto")
        floor = floor_ms(load)
        figure(f"agent: CPU per 5 s sample, {result['accounting']}, {size}", result["ms"], "ms",
               ("read every cpu.stat once, files kept open", floor), 6)
        figure(f"agent: resident memory, {size}", result["rss"] / 2**20, "MiB", None, 15 if pods <= 200 else 32)
        if pods == 1000:
            figure("agent: CPU per page of /metrics, 1000 pods", result["page"], "ms", None, 5)
            figure("agent: start to first sample, 1000 pods", result["start"], "s", None, 1)
        if peers:
            files = measure_agent(load, "cgroup-files")
            figure(f"agent: CPU per 5 s sample, {files['accounting']}, {size}", files["ms"], "ms",
                   ("read every cpu.stat once, files kept open", floor))
            with rig.folder() as name:
                scaphandre = measure_scaphandre(pathlib.Path(name))
            if scaphandre is not None:
                figure(f"agent: CPU per 5 s sample against Scaphandre, {size}", result["ms"], "ms",
                       ("Scaphandre, scraped every 5 s", scaphandre["ms"]), 0.02)
                figure(f"agent: resident memory against Scaphandre, {size}", result["rss"] / 2**20, "MiB",
                       ("Scaphandre", scaphandre["rss"] / 2**20))
            with rig.folder() as name:
                kepler = measure_kepler(pathlib.Path(name))
            if kepler is not None:
                figure(f"agent: CPU per 5 s sample against Kepler, {size}", result["ms"], "ms",
                       ("Kepler, scraped every 5 s", kepler["ms"]))
        return result


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: makes cgroups and loads BPF")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # leave no cgroup behind
    sweep()
    if QUICK:
        for case in CASES[:2]:
            run_case(*case, False)
        return 0
    results = {case: run_case(*case, case == PEERS_AT) for case in CASES}
    # twice the processes in as many pods: more only by what the machine's noise is
    figure("agent: CPU per 5 s sample, 200 pods, 6000 processes", results[(200, 6000)]["ms"], "ms",
           ("the same with 3000 processes", results[(200, 3000)]["ms"]), 1.25)
    return 0


if __name__ == "__main__":
    sys.exit(main())
