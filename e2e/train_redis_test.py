#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kwatt train from what real agents published in a real Redis: what is kept, what comes while it follows, and what is refused."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import traceback

import agent_rig as rig
from agent_rig import check, wait_for

KWATT = (rig.BUILD / "cli" / "kwatt").absolute()
WAVES = "import time\nwhile True:\n t = time.process_time()\n while time.process_time() - t < 1: pass\n time.sleep(2)"


def train(folder: pathlib.Path, *arguments: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([KWATT, "train", *arguments], cwd=folder, env=dict(os.environ, **env), capture_output=True, text=True,
                          check=False)


class Machine:
    """Stands where the meter's drawing expects cgroups: all CPU time of this machine."""

    def cpu_seconds(self) -> float:
        user, nice, system = map(int, pathlib.Path("/proc/stat").read_text().split()[1:4])
        return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def agent(folder: pathlib.Path, redis: rig.Redis, node: str, *options: str) -> rig.Agent:
    (folder / node).mkdir()
    return rig.Agent(folder / node, "--interval", "1s", "--redis", f"unix://{redis.socket}", "--counters", "off", *options, node=node)


def refused(folder: pathlib.Path, code: int, why: str, *arguments: str, **env: str) -> None:
    done = train(folder, *arguments, **env)
    check(done.returncode == code and why in done.stderr, f"{arguments}: {done}")


def samples(redis: rig.Redis) -> int:
    return sum(redis.command("XLEN", f"kwatt:v1:feed:{k}") for k in range(8))


def wrong_input(folder: pathlib.Path, redis: rig.Redis) -> None:
    url = f"unix://{redis.socket}"
    refused(folder, 2, "--node and --seconds are for --redis", "--node", "metered")
    refused(folder, 2, "--node and --seconds are for --redis", "--seconds", "5", "a.csv", KWATT_REDIS=url)
    refused(folder, 2, "--group-by is for CSV", "--redis", url, "--group-by", "x")
    refused(folder, 2, "comes from a model", "--redis", url, "--node", "guessed")
    refused(folder, 2, "there twice", "--redis", url, "--node", "metered,metered")
    refused(folder, 1, "no agent has published a sample of node \"gone\"", "--redis", url, "--node", "metered,gone")
    refused(folder, 2, "is no node name", "--redis", url, "--node", "a b")
    refused(folder, 2, "scheme", "--redis", "wrong://x")
    refused(folder, 1, "No such file", "--redis", f"unix://{folder}/none.sock")


def unlike(redis: rig.Redis, folder: pathlib.Path) -> None:
    """A node of other processors is not mixed in, nor one that only says it is there."""
    fields = redis.command("HMGET", "kwatt:v1:node:{metered}", "sample", "info")
    sample, info = (json.loads(field) for field in fields)
    check("totals" in sample and sample["totals"]["cpu_uj"] == sum(p["cpu"]["measured_uj"] for p in sample["packages"]), f"{sample}")
    info.update(node="other", cpu_model="Another")
    redis.command("HSET", "kwatt:v1:node:{other}", "sample", json.dumps(dict(sample, node="other")), "info", json.dumps(info))
    redis.command("ZADD", "kwatt:v1:nodes", str(sample["t_unix_ms"]), "other")
    redis.command("ZADD", "kwatt:v1:nodes", str(sample["t_unix_ms"]), "gone")
    refused(folder, 2, "choose nodes alike: --node", "--redis", f"unix://{redis.socket}")
    redis.command("DEL", "kwatt:v1:node:{other}")


def spoil(redis: rig.Redis) -> None:
    """Entries that are none, and an agent of before: they cost nothing but themselves."""
    feeds = [f"kwatt:v1:feed:{k}" for k in range(8)]
    old = {"schema": 1, "node": "metered", "epoch": 5, "t_unix_ms": 5, "interval_ns": 10**9, "packages": [], "watts_mw": 1,
           "used_mcpu": 1, "allocatable_mcpu": 1, "idle_mw": 1, "meter": "powercap"}
    for feed in feeds:
        redis.command("XADD", feed, "*", "sample", "{")
        redis.command("XADD", feed, "*", "other", "x")
    for seq in (1, 2):
        redis.command("XADD", feeds[0], "*", "sample", json.dumps(dict(old, seq=seq)))


def learn(folder: pathlib.Path, redis: rig.Redis) -> subprocess.CompletedProcess | None:
    """Follows for a while; done where that brought something, and with what was kept before it is enough."""
    kept = samples(redis)
    done = train(folder, "--redis", f"unix://{redis.socket}", "--seconds", "4", "--out", "m.json", "--threads", "2")
    [told] = [line.split() for line in done.stdout.splitlines() if line.startswith("metered: ")] or [None]
    if told is None or int(told[1]) < 10:
        check(done.returncode == 1 and ("too short" in done.stderr or "nothing there to learn from" in done.stderr), f"{done}")
        return None
    return done if samples(redis) > kept else None


def two_nodes(folder: pathlib.Path, url: str) -> subprocess.CompletedProcess | None:
    """Each node is a group: told by a model of the other."""
    done = train(folder, "--redis", url, "--seconds", "2", "--node", "metered,second", "--threads", "2")
    return done if "W on metered (" in done.stdout and "W on second (" in done.stdout else None


def test_history_and_feed() -> None:
    """A node with a meter is learnt from, one without is not; what comes later counts, too."""
    with rig.folder() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        redis = stack.enter_context(rig.Redis(folder))
        url = f"unix://{redis.socket}"
        refused(folder, 1, "no agent has published there", "--redis", url)
        meter = rig.Meter(folder / "sys", 1000)
        stack.enter_context(rig.Drawing(meter, 20, 30, (Machine(),)))
        guessed = stack.enter_context(agent(folder, redis, "guessed", "--meter", "model"))
        wait_for("its first sample in Redis", lambda: samples(redis) >= 1)
        refused(folder, 1, "none of the 1 nodes there has a meter", "--redis", url)
        check("totals" not in guessed.view()["sample"], "an estimate is nothing to learn from")
        stack.enter_context(agent(folder, redis, "metered", "--meter", "powercap", "--sysfs", str(folder / "sys")))
        burn = subprocess.Popen([sys.executable, "-c", WAVES], preexec_fn=rig.die_with_parent)
        stack.callback(burn.wait)
        stack.callback(burn.kill)
        wait_for("a sample of it", lambda: redis.command("HGET", "kwatt:v1:node:{metered}", "sample") is not None)
        unlike(redis, folder)
        wrong_input(folder, redis)
        spoil(redis)
        done = wait_for("enough to learn from", lambda: learn(folder, redis), seconds=300)
        check("guessed" not in done.stdout and "part 10 of 10" in done.stdout, f"{done}")
        saved = (folder / "m.json").exists()
        check(saved if done.returncode == 0 else "nothing is saved" in done.stderr and not saved, f"{done}")
        print(done.stdout.splitlines()[0])
        if saved:
            base = json.loads((folder / "m.json").read_text())["power_model"]["package"]["base_w"]
            print(f"  {base:.1f} W at no load, 20 in truth")
        stack.enter_context(agent(folder, redis, "second", "--meter", "powercap", "--sysfs", str(folder / "sys")))
        done = wait_for("two nodes with rows", lambda: two_nodes(folder, url), seconds=300)
        check("one recording only" not in done.stdout and "part " not in done.stdout, f"{done}")
        redis.command("CONFIG", "SET", "requirepass", "secret")
        (folder / "password").write_text("secret\n")
        refused(folder, 1, "Redis", "--redis", url)
        done = train(folder, "--redis-password-file", "password", "--node", "metered", KWATT_REDIS=url)
        check("package: misses" in done.stdout, f"{done}")


def main() -> int:
    if shutil.which("redis-server") is None:
        print("SKIP: redis-server is not installed")
        return 1 if os.environ.get("CI") == "true" else 77
    try:
        test_history_and_feed()
    except rig.Failure:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
