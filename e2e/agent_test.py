#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent end to end: real processes in real cgroups, a real Redis, real containers, and a meter whose truth is known.

KWATT_E2E_SECONDS shortens the two minutes of the first test, for looking by hand.
"""
import contextlib
import json
import mmap
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

import agent_rig as rig
from agent_rig import check, wait_for

SECONDS = float(os.environ.get("KWATT_E2E_SECONDS", "120"))
IDLE_WATTS, CORE_WATTS = 20.0, 30.0

# Burns in slots of a duty cycle, and tells its CPU time through a shared page. The second one follows the first at a
# third of its CPU time, so that the ratio holds however busy the machine is otherwise.
BURNER = """
import mmap, struct, sys, time
file = open(sys.argv[1], "r+b")
page = mmap.mmap(file.fileno(), 4096)
leads = sys.argv[2] == "lead"
while True:
    start, used = time.monotonic(), time.process_time()
    if leads:
        while time.process_time() - used < 0.02: pass
        page[0:8] = struct.pack("d", time.process_time())
    else:
        goal = struct.unpack("d", page[0:8])[0] / 3
        while time.process_time() < goal: pass
    time.sleep(max(0.001, 0.05 - (time.monotonic() - start)))
"""


def burner(group: rig.Cgroup, page: pathlib.Path, role: str) -> subprocess.Popen:
    return group.run(sys.executable, "-c", BURNER, str(page), role)


def test_three_to_one() -> None:
    """Two workloads at 3:1, a counter that wraps in the middle, energy exact to the microjoule."""
    with rig.folder() as name, rig.Cgroup("three") as three, rig.Cgroup("one") as one:
        folder = pathlib.Path(name)
        page = folder / "page"
        page.write_bytes(bytes(mmap.PAGESIZE))
        half = int((IDLE_WATTS + 0.5 * CORE_WATTS) * SECONDS / 2 * 1e6)
        meter = rig.Meter(folder / "sys", rig.Meter.MODULUS - half)
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--meter", "powercap",
                          "--idle-watts", str(IDLE_WATTS), "--attribution", "ratio-cpu")
        with agent:
            burners = [burner(three, page, "lead"), burner(one, page, "follow")]
            with rig.Drawing(meter, IDLE_WATTS, CORE_WATTS, (three, one)) as drawing:
                end = time.monotonic() + SECONDS
                seen = 0
                while time.monotonic() < end:
                    measured = rig.check_books(agent.view())["measured_uj"]
                    check(measured >= seen, f"energy fell from {seen} to {measured}")
                    seen = measured
                    time.sleep(1)
                drawing.stop()
            for process in burners:
                process.send_signal(signal.SIGSTOP)
            view = agent.next_view()
            total = rig.check_books(view)
            check(total["measured_uj"] == meter.counted,
                  f"measured {total['measured_uj']} uJ, drawn {meter.counted} uJ")
            check(meter.wraps == 1, f"the counter wrapped {meter.wraps} times: the test is wrong")
            check(agent.metric("kwatt_sample_quality_windows_total", flag="wrapped") == 1, "no wrap was flagged")
            check(total["unattributed_uj"] == 0, f"{total['unattributed_uj']} uJ are nobody's")
            high, low = (rig.workload(view, id=group.path) for group in (three, one))
            check(high is not None and low is not None, f"workloads: {[pod['id'] for pod in view['pods']]}")
            true_ratio = three.cpu_seconds() / one.cpu_seconds()
            ratio = high["active_uj"] / low["active_uj"]
            print(f"  CPU {true_ratio:.3f}:1, energy {ratio:.3f}:1, measured {total['measured_uj']} uJ, "
                  f"idle {total['idle_uj']}, pods {total['pods_uj']}, system {total['system_uj']}")
            check(abs(true_ratio - 3) < 0.15, f"the burners ran at {true_ratio}:1: the test is wrong")
            check(abs(ratio - 3) <= 0.15, f"energies are {ratio}:1")
            joules = agent.metric("kepler_node_cpu_joules_total", zone="package")
            check(abs(joules - total["measured_uj"] / 1e6) < 1e-3, f"/metrics says {joules} J")
            for process in burners:
                process.kill()
                process.wait()
            check(agent.terminate() == 0, "the agent did not end well")


def test_redis_dies() -> None:
    """Redis killed and restarted empty: counters never fall and nothing is missing at the end."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        redis = rig.Redis(folder)
        key = "kwatt:v1:node:{" + rig.NAME + "}"
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--redis", f"unix://{redis.socket}")

        def sample() -> dict | None:
            text = redis.command("HGET", key, "sample")
            return json.loads(text) if text else None

        with redis, agent:
            epoch = wait_for("a sample in redis", sample)["epoch"]
            with rig.Drawing(meter, 50, 0) as drawing:
                wait_for("energy in redis", lambda: rig.energies({"sample": sample()})["measured_uj"] > 0)
                before = rig.energies({"sample": sample()})["measured_uj"]
                redis.kill()
                time.sleep(3)
                seq = agent.view()["sample"]["seq"]
                check(wait_for("sampling to go on", lambda: agent.view()["sample"]["seq"] > seq), "")
                redis.start()
                again = wait_for("the sample after the restart", sample)
                check(again["epoch"] == epoch, "another epoch without a restart of the agent")
                check(rig.energies({"sample": again})["measured_uj"] >= before, "energy fell")
                drawing.stop()
            wait_for("all energy in redis",
                     lambda: rig.energies({"sample": sample()})["measured_uj"] == meter.counted)
            check(redis.command("ZSCORE", "kwatt:v1:nodes", rig.NAME) is not None, "the node is not listed")
            check(0 < redis.command("TTL", key) <= 3600, "the node's key never expires")
            log = agent.log.read_text()
            check(log.count("redis is out of reach") == 1, f"not said once:\n{log}")
            check(log.count("publishing to redis") == 2, f"not said twice:\n{log}")


def test_agent_dies() -> None:
    """The agent killed and restarted: a newer epoch that starts at nothing; SIGSTOP: a gap and the whole energy."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        redis = rig.Redis(folder)
        pods_key = "kwatt:v1:pods:{" + rig.NAME + "}"
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--redis", f"unix://{redis.socket}")
        with redis, agent:
            redis.command("HSET", pods_key, "left-over", "{}")
            first = agent.view()["sample"]["epoch"]
            meter.advance(7_000_000)
            agent.next_view()
            agent.process.send_signal(signal.SIGSTOP)
            meter.advance(5_000_000)
            time.sleep(4)
            agent.process.send_signal(signal.SIGCONT)
            wait_for("the gap", lambda: agent.metric("kwatt_sample_quality_windows_total", flag="gap") >= 1)
            total = rig.check_books(agent.next_view())
            check(total["measured_uj"] == meter.counted, f"{total} after SIGSTOP, drawn {meter.counted}")
            agent.kill()
            meter.advance(3_000_000)
            counted = meter.counted
            agent.start()
            view = agent.view()
            check(view["sample"]["epoch"] > first, "the epoch is not newer")
            check(rig.check_books(view)["measured_uj"] == 0, "energy of before the start was counted")
            meter.advance(2_000_000)
            total = rig.check_books(agent.next_view())
            check(total["measured_uj"] == meter.counted - counted, f"{total}")
            wait_for("left-over records to go", lambda: "left-over" not in redis.command("HKEYS", pods_key))


def test_fork_storm() -> None:
    """Processes of a millisecond are counted, and a cgroup that ended keeps its joules."""
    storm = "i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i+1)); done"
    with rig.folder() as name:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--idle-watts", "10")
        with agent, rig.Drawing(meter, 40, 0):
            with rig.Cgroup("storm") as group:
                group.run("/bin/sh", "-c", storm).wait()
                truth = group.cpu_seconds()
                view = agent.next_view()
                counted = rig.workload(view, id=group.path)
                check(counted is not None, "the storm is not listed")
                print(f"  fork storm: {truth:.3f} s by the kernel, {counted['cpu_ns'] / 1e9:.3f} s by the agent "
                      f"({view['sample']['accounting']})")
                check(abs(counted["cpu_ns"] / 1e9 - truth) < 0.15 * truth + 0.05, "CPU time was lost or invented")
            ended = wait_for("the end to be seen", lambda: next(
                (pod for pod in agent.view()["pods"] if pod["id"] == group.path and pod["ended_unix_ms"] > 0), None))
            check(ended["active_uj"] >= counted["active_uj"] > 0, "the ended cgroup lost joules")
            check(ended["watts_mw"] == 0, "an ended cgroup draws watts")
            rig.check_books(agent.next_view())


def churn(number: int, ending: threading.Event) -> None:
    """Makes nested cgroups that live for one short process, until the end."""
    made = 0
    while not ending.is_set():
        made += 1
        with rig.Cgroup(f"churn-{number}-{made}") as outer:
            inner = rig.Cgroup(f"churn-{number}-{made}/inner")
            with inner if made % 2 else contextlib.nullcontext(outer) as group:
                group.run("/bin/sh", "-c", f"i=0; while [ $i -lt {made % 3 * 3000} ]; do i=$((i+1)); done").wait()
        time.sleep(0.02)


def test_churn() -> None:
    """Cgroups that come and go, an agent that is stopped, a counter that jumps: every view balances, nothing falls."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", rig.Meter.MODULUS - 5_000_000)
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "300ms")
        ending = threading.Event()
        threads = [threading.Thread(target=churn, args=(i, ending)) for i in range(2)]
        with agent:
            for thread in threads:
                thread.start()
            try:
                before: dict = {}
                for turn in range(60):
                    meter.advance((0, 1, 17, 1_000_000, 30_000_000)[turn % 5])
                    if turn % 12 == 11:
                        agent.process.send_signal(signal.SIGSTOP)
                        time.sleep(1)
                        agent.process.send_signal(signal.SIGCONT)
                    view = agent.view()
                    now = {**rig.check_books(view), "departed": view["departed_uj"],
                           **{pod["id"]: pod["active_uj"] for pod in view["pods"]}}
                    fell = [key for key in now if now[key] < before.get(key, 0)]
                    check(not fell, f"energy fell: {[(key, before[key], now[key]) for key in fell]}")
                    before = now
                    time.sleep(0.2)
            finally:
                ending.set()
                for thread in threads:
                    thread.join()
            total = rig.check_books(agent.next_view())
            check(total["measured_uj"] == meter.counted, f"{total}, drawn {meter.counted}")
            check(meter.wraps == 1, f"the counter wrapped {meter.wraps} times: the test is wrong")


def bundle(folder: pathlib.Path, cgroup: str) -> None:
    """An OCI bundle whose root holds nothing but busybox."""
    for name in ("bin", "dev", "proc", "run", "sys", "tmp"):
        (folder / "rootfs" / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", folder / "rootfs" / "bin" / "busybox")
    (folder / "config.json").write_text(json.dumps({
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"],
                    "args": ["/bin/busybox", "sh", "-c", "while :; do :; done"]},
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"cgroupsPath": cgroup, "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc")]},
    }))


def check_container(agent: rig.Agent, container: str) -> None:
    """A container that burns CPU is shown under its id, alone in its record."""
    def burning():
        pod = rig.workload(agent.view(), kind="container", id=container)
        return pod if pod is not None and pod["cpu_ns"] > 500_000_000 else None
    shown = wait_for("the container under its id", burning)
    check([c["id"] for c in shown["containers"]] == [container], f"{shown}")
    check(shown["name"] == container[:12], f"called {shown['name']}")


def check_container_end(agent: rig.Agent, container: str) -> None:
    wait_for("its end", lambda: (rig.workload(agent.view(), id=container) or {}).get("ended_unix_ms"))
    check(rig.workload(agent.view(), id=container)["active_uj"] > 0, "the ended container lost its joules")
    rig.check_books(agent.view())


def test_runc() -> None:
    """A container started by runc, where containerd's cgroupfs driver would put it, is shown under its id."""
    runc = shutil.which("runc")
    if runc is None or not os.path.exists("/bin/busybox"):
        print("  left out: runc or busybox is not installed")
        return
    container = secrets.token_hex(32)
    with rig.folder() as name:
        folder = pathlib.Path(name)
        bundle(folder / "bundle", f"/{rig.NAME}-runc/{container}")
        state = ["--root", str(folder / "runc")]
        with rig.Agent(folder, "--interval", "1s") as agent:
            with (folder / "runc.log").open("wb") as log:   # a file: the container keeps what it is given open
                started = subprocess.run(
                    [runc, *state, "run", "--detach", "--bundle", str(folder / "bundle"), container],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            if started.returncode != 0:
                print(f"  left out: runc cannot start containers here: {(folder / 'runc.log').read_text().strip()}")
                return
            try:
                check_container(agent, container)
            finally:
                subprocess.run([runc, *state, "delete", "--force", container], check=True)
                remove_leftovers(f"{rig.NAME}-runc")
            check_container_end(agent, container)


def test_containerd() -> None:
    """A container started by a containerd of its own is shown under its id."""
    if not all(map(shutil.which, ("containerd", "ctr", "runc"))) or not os.path.exists("/bin/busybox"):
        print("  left out: containerd or busybox is not installed")
        return
    container, namespace = secrets.token_hex(32), f"{rig.NAME}-containerd"
    with rig.folder() as name:
        folder = pathlib.Path(name)
        bundle(folder / "bundle", "")
        (folder / "config.toml").write_text(
            f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\n  address = "{folder}/containerd.sock"\n')
        ctr = ["ctr", "--address", f"{folder}/containerd.sock", "--namespace", namespace]
        log = (folder / "containerd.log").open("wb")
        quiet = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        daemon = subprocess.Popen(["containerd", "--config", folder / "config.toml"],
                                  preexec_fn=rig.die_with_parent, **quiet)

        def deleted() -> bool:
            subprocess.run([*ctr, "task", "delete", container], **quiet, check=False)
            return subprocess.run([*ctr, "container", "delete", container], **quiet, check=False).returncode == 0

        try:
            wait_for("containerd", lambda: subprocess.run([*ctr, "version"], **quiet, check=False).returncode == 0)
            with rig.Agent(folder, "--interval", "1s") as agent:
                started = subprocess.run(
                    [*ctr, "run", "--detach", "--rootfs", str(folder / "bundle" / "rootfs"), container,
                     "/bin/busybox", "sh", "-c", "while :; do :; done"], **quiet, check=False)
                if started.returncode != 0:
                    print(f"  left out: no containers here: {(folder / 'containerd.log').read_text()[-300:]}")
                    return
                try:
                    check_container(agent, container)
                finally:
                    subprocess.run([*ctr, "task", "kill", "--signal", "KILL", container], **quiet, check=False)
                    wait_for("containerd to let go", deleted)
                    remove_leftovers(namespace)
                check_container_end(agent, container)
        finally:
            daemon.terminate()
            daemon.wait()
            log.close()


def remove_leftovers(name: str) -> None:
    """runc removes a container's cgroups, not the folders that it made above them."""
    for mount in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        if mount.split()[2] in ("cgroup", "cgroup2"):
            try:
                os.rmdir(os.path.join(mount.split()[1], name))
            except OSError:
                pass


def test_fallbacks() -> None:
    """Each accounting backend by its switch, and an agent without root: each says what it uses."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        for backend in ("ebpf", "ebpf-raw", "cgroup-files"):
            with rig.Cgroup(backend) as group:
                agent = rig.Agent(folder, "--interval", "500ms", "--accounting", backend, "--meter", "model")
                try:
                    agent.start()
                except rig.Failure as failure:
                    check(backend != "cgroup-files", str(failure))
                    print(f"  left out: {backend}: {agent.log.read_text().splitlines()[-1]}")
                    continue
                with group.run(sys.executable, "-c", "while True: pass") as process:
                    shown = wait_for(f"CPU time by {backend}", lambda: next(
                        (pod for pod in agent.view()["pods"]
                         if pod["id"] == group.path and pod["cpu_ns"] > 300_000_000), None))
                    process.kill()
                view = agent.view()
                check(view["sample"]["accounting"] == backend, f"{view['sample']}")
                check("estimated" in view["sample"]["quality"] and shown["estimated"], "not flagged as estimated")
                agent.kill()
        os.chmod(folder, 0o755)
        rig.Meter(folder / "sys", 1000)     # its energy_uj is root's alone, as the kernel has it
        agent = shutil.copy(rig.AGENT, folder)      # the build may lie where only root can go
        once = subprocess.run([agent, "--once", "--interval", "500ms", "--sysfs", str(folder / "sys")],
                              capture_output=True, text=True, preexec_fn=lambda: os.setuid(65534), check=False)
        check(once.returncode == 0, f"without root: {once.stderr}")
        view = json.loads(once.stdout)
        check(view["sample"]["accounting"] == "cgroup-files" and "accounting not usable" in once.stderr, once.stderr)
        check("run as root or with CAP_DAC_READ_SEARCH" in once.stderr, once.stderr)
        print(f"  without root: {view['sample']['accounting']}, {view['sample']['meter']}")


TESTS = [test_fallbacks, test_runc, test_containerd, test_fork_storm, test_churn, test_agent_dies, test_redis_dies,
         test_three_to_one]


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: makes cgroups and loads BPF")
    if not rig.AGENT.exists():
        rig.skip(f"{rig.AGENT} is not built")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))    # ctest's time-out: leave nothing behind
    failed = 0
    for test in TESTS:
        if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
            continue
        print(f"{test.__name__}: {test.__doc__.strip()}", flush=True)
        try:
            test()
            print("  passed", flush=True)
        except Exception:   # noqa: BLE001  (the next test may still say something)
            traceback.print_exc(file=sys.stdout)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
