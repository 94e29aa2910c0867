#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kwatt train from recordings of the agent and from this machine, as it runs: the same way as from CSV, with the error stated."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import traceback

import agent_rig as rig
from agent_rig import check

KWATT = (rig.BUILD / "cli" / "kwatt").absolute()
SIMULATE = (rig.BUILD / "tests" / "sim" / "node" / "sim_record").absolute()


def train(folder: pathlib.Path, *arguments: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([KWATT, "train", *arguments], cwd=folder, env=dict(os.environ, **env), capture_output=True, text=True,
                          check=False)


def simulate(path: pathlib.Path, seed: int, threads: int, seconds: int = 30) -> None:
    with path.open("w") as file:
        subprocess.run([SIMULATE, str(seed), "10", str(threads), str(seconds)], stdout=file, check=True)


def test_recordings() -> None:
    """Three recordings are three programs; what they teach is a model that the agent takes."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        for seed, threads in ((3, 4), (4, 10), (5, 16)):
            simulate(folder / f"{seed}.jsonl", seed, threads)
        done = train(folder, "--threads", "32", "--out", "m.json", "3.jsonl", "4.jsonl", "5.jsonl")
        check(done.returncode == 0, f"{done}")
        check("saved: m.json" in done.stdout and "one recording only" not in done.stdout, done.stdout)
        package = json.loads((folder / "m.json").read_text())["power_model"]["package"]
        names = {feature["name"] for feature in package["features"]}
        check({"cycles", "cache_misses"} <= names <= {"cpu_time", "cycles", "instructions", "cache_misses"}, f"{package}")
        groups = package["error"]["groups"]
        check([group["name"] for group in groups] == ["3.jsonl", "4.jsonl", "5.jsonl"], f"{groups}")
        check(all(28 <= group["rows"] <= 30 for group in groups), f"{groups}")
        check(package["error"]["mae_w"] < package["error"]["mean_mae_w"], f"{package['error']}")
        told = subprocess.run([rig.AGENT.absolute(), "--check", "--model", str(folder / "m.json")], capture_output=True, text=True,
                              check=False)
        check("m.json" in told.stdout, f"{told}")
        threads = json.loads((folder / "3.jsonl").read_text().split("\n")[0])["cpus_online"]
        done = train(folder, "--out", "own.json", "3.jsonl", "4.jsonl", "5.jsonl")
        check(json.loads((folder / "own.json").read_text())["threads"] == threads, f"{threads} threads: {done}")
        done = train(folder, "--features", "cpu_time", "3.jsonl")
        check("one recording only" in done.stdout and "part 10 of 10" in done.stdout, f"{done}")


def test_trees() -> None:
    """Trees are grown by the library where it is installed, the same ones each time, and asked without it."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        files = ("a.csv", "b.csv", "c.csv")
        for number, file in enumerate(files):
            rows = [f"{busy / 10},{30 + (3 + number / 10) * busy / 10 + busy * busy / 2000}" for busy in range(number, 160, 3)]
            (folder / file).write_text("\n".join(["cpu_time,package_w", *rows]) + "\n")
        (folder / "empty").mkdir()
        for library in ("libxgboost.so.0", "libxgboost.so"):
            (folder / "empty" / library).write_bytes(b"")
        done = train(folder, "--method", "trees", "--out", "m.json", *files, LD_LIBRARY_PATH=str(folder / "empty"))
        check(done.returncode == 1 and "trees need the XGBoost library" in done.stderr and "package libxgboost0" in done.stderr,
              f"{done}")
        check(not (folder / "m.json").exists(), "nothing was trained")
        arguments = ("--threads", "16", "--method", "trees", *files)
        done = train(folder, "--out", "m.json", *arguments)
        if "need the XGBoost library" in done.stderr and os.environ.get("CI") != "true":
            print(f"  not tried: {done.stderr.strip()}")
            return
        check(done.returncode == 0 and "saved: m.json" in done.stdout, f"{done}")
        model = json.loads((folder / "m.json").read_text())
        package = model["power_model"]["package"]
        check(model["schema"] == 2 and 10 <= len(package["trees"]) <= 128, f"{model}")
        check(package["error"]["mae_w"] < package["error"]["mean_mae_w"], f"{package['error']}")
        done = train(folder, "--out", "again.json", *arguments)
        check((folder / "again.json").read_bytes() == (folder / "m.json").read_bytes(), f"{done}")
        told = subprocess.run([rig.AGENT.absolute(), "--check", "--model", str(folder / "m.json")], capture_output=True, text=True,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(folder / "empty")), check=False)
        check("usable (trees), missed" in told.stdout, f"{told}")
        done = train(folder, "--method", "forest", *files)
        check(done.returncode == 2 and "terms, trees" in done.stderr, f"{done}")


def test_refused() -> None:
    """What nothing can be learnt from, each with its reason."""
    header = {"kwatt_recording": 1, "node": "n", "meter": "model", "estimated": True, "features": ["cpu_ns"], "packages": []}
    with rig.folder() as name:
        folder = pathlib.Path(name)
        (folder / "model.jsonl").write_text(json.dumps(header) + "\n")
        (folder / "short.jsonl").write_text(json.dumps(dict(header, estimated=False)) + "\n")
        (folder / "other.jsonl").write_text("{}\n")
        for file, why in (("model.jsonl", "comes from a model"), ("short.jsonl", "no second in which"),
                          ("other.jsonl", "no recording of kwatt")):
            done = train(folder, file)
            check(done.returncode == 1 and why in done.stderr and f"kwatt train: {file}: " in done.stderr, f"{done}")
        simulate(folder / "few.jsonl", 3, 4, 8)
        done = train(folder, "few.jsonl")
        check(done.returncode == 1 and "too short: 8 rows, 10 at least" in done.stderr, f"{done}")
        done = train(folder, "--group-by", "program", "short.jsonl")
        check(done.returncode == 2 and "--group-by is for CSV" in done.stderr, f"{done}")
        done = train(folder)
        check(done.returncode == 2 and "no recording" in done.stderr, f"{done}")


class Machine:
    """Stands where the meter's drawing expects cgroups: all CPU time of this machine."""

    def cpu_seconds(self) -> float:
        user, nice, system = map(int, pathlib.Path("/proc/stat").read_text().split()[1:4])
        return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def test_live() -> None:
    """This machine with a meter for some seconds: what it did and drew is learnt from. What the model is worth depends on what
    else runs here, so that it may also be refused for being worth nothing."""
    with rig.folder() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        stack.enter_context(rig.Drawing(meter, 20, 30, (Machine(),)))
        burn = subprocess.Popen([sys.executable, "-c", "import time\nwhile True:\n t = time.process_time()\n"
                                 " while time.process_time() - t < 1: pass\n time.sleep(2)"], preexec_fn=rig.die_with_parent)
        stack.callback(burn.wait)
        stack.callback(burn.kill)
        done = train(folder, "--live", "25", "--out", "m.json", KWATT_SYSFS=str(folder / "sys"), KWATT_METER="powercap",
                     KWATT_COUNTERS="off")
        check("one recording only" in done.stdout and "package: misses" in done.stdout, f"{done}")
        check("part 10 of 10" in done.stdout, f"{done}")
        saved = (folder / "m.json").exists()
        check(saved if done.returncode == 0 else "nothing is saved" in done.stderr and not saved, f"{done}")
        print(done.stdout.splitlines()[1])
        if saved:
            base = json.loads((folder / "m.json").read_text())["power_model"]["package"]["base_w"]
            print(f"  {base:.1f} W at no load, 20 in truth")


def main() -> int:
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    for test in tests:
        print(f"{test.__name__}: {test.__doc__.splitlines()[0]}", flush=True)
        try:
            test()
        except rig.Failure:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
