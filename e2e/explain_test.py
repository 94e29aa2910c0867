#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a workload's watts come from: `kwatt explain --pod` of a real agent, asked itself and through Redis."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import agent_rig as rig
from agent_rig import check, wait_for

KWATT = rig.BUILD / "cli" / "kwatt"
BURN = "while True: pass"


def explain(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([KWATT.absolute(), "explain", *words], capture_output=True, text=True, check=False)


def told(*words: str) -> dict:
    done = explain(*words, "--json")
    check(done.returncode == 0, f"kwatt explain ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def same_as_record(answer: dict, method: str, view: dict, path: str) -> None:
    [record] = [pod for pod in view["pods"] if pod["id"] == path]
    workload = answer["workload"]
    check(answer["method"] == method and answer["meter"] == "powercap", f"{answer}")
    check(set(record) <= set(workload) | {"ended_unix_ms"}, f"{set(record) - set(workload)} are missing")
    check(workload["cpu_ns"] >= record["cpu_ns"] > 0 and workload["active_uj"] > 0, f"{workload}")
    check(answer["idle_mw"]["none"] == 0 and answer["idle_mw"]["equal"] == workload["idle_equal_mw"], f"{answer['idle_mw']}")
    check(0 < workload["idle_equal_mw"] <= answer["idle_mw"]["node"], f"{answer['idle_mw']}")


def all_of(method: str) -> None:
    with rig.folder() as name, rig.Cgroup("one") as one, rig.Cgroup("two") as two:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        redis = rig.Redis(folder)
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--meter", "powercap", "--idle-watts", "20",
                          "--attribution", method, "--redis", f"unix://{redis.socket}")
        of_agent, of_redis = ("--agent", agent.listen), ("--redis", f"unix://{redis.socket}")
        with redis, agent, contextlib.ExitStack() as burners, rig.Drawing(meter, 20, 30, (one, two)):
            for group in (one, two):
                burners.callback(burners.enter_context(group.run(sys.executable, "-c", BURN)).kill)

            def drawing():
                view = agent.next_view()
                return view if {one.path, two.path} <= {pod["id"] for pod in view["pods"] if pod["watts_mw"] > 0} else None
            view = wait_for("both to draw", drawing)
            equal = sum(pod["idle_equal_mw"] for pod in view["pods"] if "idle_equal_mw" in pod)
            check(equal == view["sample"]["idle_mw"], f"the equal shares are {equal} of {view['sample']['idle_mw']} mW")
            for group in (one, two):
                same_as_record(told("--pod", group.path, *of_agent), method, view, group.path)
                wait_for("the same in Redis", lambda g=group: explain("--pod", g.path, *of_redis).returncode == 0)
                same_as_record(told("--pod", group.path, *of_redis), method, view, group.path)
            knows = "intensity_permille" in told("--pod", one.path, *of_agent)["workload"]
            check(knows == (method == "kalman"), f"{method}: an intensity is there: {knows}")
            text = explain("--pod", one.path, *of_redis, "--node", rig.NAME).stdout
            for word in (method, "CPU time", "by policy requests", "0.00 W  (in use)", rig.NAME):
                check(word in text, f"{word} is missing in\n{text}")
            check(("does not say how sure" in text) == (method != "kalman"), text)
            print(text)
            for words in (of_agent, of_redis):
                done = explain("--pod", "shop/nobody", *words)
                check(done.returncode == 1 and "nobody" in done.stderr and done.stdout == "", f"{done}")
        done = explain("--pod", one.path, *of_agent)
        check(done.returncode == 1 and "no agent answers" in done.stderr, f"{done}")


def test_kalman() -> None:
    """The filter: with an intensity, and how sure it is."""
    all_of("kalman")


def test_ratio() -> None:
    """By CPU time: no intensity is made up."""
    all_of("ratio-cpu")


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: makes cgroups and loads BPF")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))    # ctest's time-out: leave nothing behind
    for test in (test_kalman, test_ratio):
        print(f"{test.__name__}: {test.__doc__.strip()}", flush=True)
        test()
    return 0


if __name__ == "__main__":
    sys.exit(main())
