#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings end to end: what a live agent gave each workload, its recording gives again, to the microjoule."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

import agent_rig as rig
from agent_rig import check, wait_for

KWATT = rig.BUILD / "cli" / "kwatt"


def replay(path: str, *more: str, stdin=None) -> dict:
    done = subprocess.run([KWATT.absolute(), "replay", path, "--json", *more], stdin=stdin, capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, f"kwatt replay ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def lines_of(path: pathlib.Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def burn(group: rig.Cgroup, share: float) -> subprocess.Popen:
    program = f"import time\nwhile True:\n t = time.process_time()\n while time.process_time() - t < {share} / 50: pass\n time.sleep(.02)"
    return group.run(sys.executable, "-c", program)


def same_energies(method: str) -> None:
    with rig.folder() as name, rig.Cgroup("one") as one, rig.Cgroup("two") as two:
        folder = pathlib.Path(name)
        path = folder / "case.jsonl"
        meter = rig.Meter(folder / "sys", 1000)
        redis = rig.Redis(folder)
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--meter", "powercap", "--idle-watts", "20",
                          "--attribution", method, "--record", str(path), "--redis", f"unix://{redis.socket}")
        with redis, agent:
            with contextlib.ExitStack() as burners, rig.Drawing(meter, 20, 30, (one, two)) as drawing:
                for group, share in ((one, 0.7), (two, 0.3)):
                    process = burners.enter_context(burn(group, share))
                    burners.callback(process.kill)
                wait_for("windows", lambda: lines_of(path) > 6)
                with rig.Cgroup("late") as late, burn(late, 0.5) as process:
                    seen = lines_of(path)
                    wait_for("windows with a third workload", lambda: lines_of(path) > seen + 3)
                    process.kill()
                wait_for("windows without it", lambda: lines_of(path) > seen + 6)
                drawing.stop()
            check(agent.terminate() == 0, "the agent did not end well")
            check("recording closed" in agent.log.read_text(), "the end of the recording is not in the log")
            key = "{" + rig.NAME + "}"
            sample = json.loads(redis.command("HGET", "kwatt:v1:node:" + key, "sample"))
            pods = [json.loads(text) for text in redis.command("HVALS", "kwatt:v1:pods:" + key)]
        check(path.stat().st_mode & 0o777 == 0o600, "others may read the recording")
        again = replay(str(path))
        check(again["recorded_method"] == method, f"the recording says {again['recorded_method']}")
        check(not any(again["flags"].values()), f"flags: {again['flags']}")
        [result] = again["methods"]
        [domain] = result["domains"]
        truth = sample["packages"][0]["cpu"]
        for field in ("measured_uj", "idle_uj", "pods_uj", "system_uj", "unattributed_uj"):
            check(domain[field] == truth[field], f"{method}: {field} is {domain[field]} again, was {truth[field]}")
        check(domain["conservation_error_uj"] == 0, "the books do not balance")
        given = {row.get("workload", "").split(" ")[1]: row for row in result["workloads"] if row["w"] != 0}
        check(any(pod["active_uj"] > 0 for pod in pods), "nobody drew anything: the test is wrong")
        for pod in pods:
            row = given[pod["id"]]
            check(row["cpu_uj"] == pod["active_uj"] and row["sigma_uj"] == pod["sigma_uj"],
                  f"{pod['id']}: {row} again, was {pod['active_uj']} +- {pod['sigma_uj']}")
        every = replay(str(path), "--attribution", "all")
        check(len(every["methods"]) == 7 and every["methods"][0]["domains"][0]["measured_uj"] == truth["measured_uj"],
              "all methods see the same energy")
        print(f"  {method}: {again['windows']} windows, {domain['measured_uj']} uJ, {len(pods)} workloads")


def test_kalman() -> None:
    """The filter, live and over its recording; a workload is born and ends meanwhile."""
    same_energies("kalman")


def test_ratio() -> None:
    """CPU time, the same."""
    same_energies("ratio-cpu")


def test_killed() -> None:
    """kill -9 leaves a file that is good up to its last whole line; a second agent does not write over it."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        path = folder / "case.jsonl"
        options = ("--interval", "1s", "--record", str(path))
        agent = rig.Agent(folder, *options)
        with agent:
            wait_for("windows", lambda: lines_of(path) > 5)
            agent.kill()
        whole = lines_of(path)
        check(replay(str(path))["windows"] == whole - 1, "windows are missing")
        with path.open("ab") as file:
            file.write(b'{"t_ns":12345')
        again = replay(str(path))
        check(again["flags"]["cut"] and again["windows"] == whole - 1, f"flags: {again['flags']}")
        done = subprocess.run([KWATT.absolute(), "replay", str(path), "--attribution", "guess"], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 2 and "no method is called" in done.stderr, f"{done.returncode}: {done.stderr}")
        second = subprocess.run([rig.AGENT.absolute(), "--listen", "", *options], capture_output=True, text=True, check=False,
                                timeout=rig.WAIT_SECONDS)
        check(second.returncode == 1 and "not written over" in second.stderr, f"{second.returncode}: {second.stderr}")


def test_pipe() -> None:
    """--record - into kwatt replay -; and a reader that goes away does not end the agent."""
    command = [rig.AGENT.absolute(), "--listen", "", "--redis", "", "--interval", "1s", "--record", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=rig.die_with_parent) as agent:
        reader = subprocess.Popen([KWATT.absolute(), "replay", "-", "--json"], stdin=agent.stdout, stdout=subprocess.PIPE,
                                  text=True, preexec_fn=rig.die_with_parent)
        agent.stdout.close()
        time.sleep(4)
        agent.terminate()
        text = reader.communicate(timeout=rig.WAIT_SECONDS)[0]
        log = agent.stderr.read()
    check(json.loads(text)["windows"] > 0 and reader.returncode == 0, f"{text} {log}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=rig.die_with_parent) as agent:
        agent.stdout.readline()
        agent.stdout.close()
        for line in agent.stderr:
            if "cannot be written" in line:
                break
        check(agent.poll() is None, "the agent ended with its reader")
        agent.terminate()
        check(agent.wait(rig.WAIT_SECONDS) == 0, "the agent did not end well")


TESTS = [test_kalman, test_ratio, test_killed, test_pipe]


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: makes cgroups and loads BPF")
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
