#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What attribution learns outlives the agent: in a real Redis, over kill -9, unless it is not to be trusted."""
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

import agent_rig as rig
from agent_rig import check, wait_for

KEY = "kwatt:v1:attribution:{" + rig.NAME + "}"
TRUE_IDLE, SAID_IDLE, LEARNT_IDLE, CORE = 35, 20, 30, 30
GOES_ON = "attribution goes on from what was learnt before"
REFUSED = "what was learnt before is not used"


def options(folder: pathlib.Path, redis: rig.Redis, idle: int = SAID_IDLE) -> tuple[str, ...]:
    return ("--sysfs", str(folder / "sys"), "--interval", "1s", "--meter", "powercap", "--attribution", "kalman",
            "--idle-watts", str(idle), "--sleep-watts", "4.5", "--wake-joules", "30000", "--redis", f"unix://{redis.socket}")


def length(redis: rig.Redis) -> int:
    return redis.command("STRLEN", KEY)


def burst(group: rig.Cgroup) -> subprocess.Popen:
    """Load that comes and goes: idle power cannot be told from a constant one."""
    return group.run(sys.executable, "-c", "import time\nwhile True:\n end = time.time() + 1\n"
                     " while time.time() < end: pass\n time.sleep(1)")


def idle_of(agent: rig.Agent) -> int:
    return agent.view()["sample"]["idle_mw"]


def sureness(agent: rig.Agent) -> int:
    return sum(knot["confidence_permille"] for knot in agent.view()["curve"]["knots"])


def check_goes_on(agent: rig.Agent, before: int, times: int) -> int:
    """Idle power begins near where it was, not at what the agent is told of it."""
    wait_for("the state to be taken up", lambda: agent.log.read_text().count(GOES_ON) == times)
    idle = idle_of(agent)
    check(abs(idle - before) < abs(idle - SAID_IDLE * 1000), f"idle power was {before} mW, begins at {idle} mW again")
    rig.check_books(agent.view())
    return idle


def follow(agent: rig.Agent, redis: rig.Redis) -> None:
    with agent:
        # not the first step away from what was said: single windows of the first minute move it by some watts
        wait_for("idle power to be learnt", lambda: idle_of(agent) > LEARNT_IDLE * 1000, 300)
        before, sure = idle_of(agent), sureness(agent)
        check(sure > 20, f"the curve is sure of nothing: {sure}")
        curve = agent.view()["curve"]
        check((curve["sleep_mw"], curve["wake_uj"]) == (4500, 30_000_000_000), f"asleep, and to wake: {curve}")
        redis.command("DEL", KEY)
        check(agent.terminate() == 0, "the agent did not end well")   # saves
    check(length(redis) > 100, "nothing was saved at the end")
    with agent:
        check_goes_on(agent, before, 1)
        check(sureness(agent) > sure * 0.9, f"the curve was sure by {sure}, begins by {sureness(agent)} again")
        redis.command("SET", KEY, "x")
        wait_for("the state to be saved while the agent runs", lambda: length(redis) > 100, 120)
        before = idle_of(agent)
        agent.kill()
    with agent:
        after = check_goes_on(agent, before, 2)
        print(f"  {length(redis)} bytes; idle {before} mW before kill -9, {after} mW after")


def test_killed() -> None:
    """kill -9: the next agent begins with the idle power and the intensities of the last one."""
    with rig.folder() as name, rig.Cgroup("load") as load:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        redis = rig.Redis(folder)
        agent = rig.Agent(folder, *options(folder, redis))
        with redis, rig.Drawing(meter, TRUE_IDLE, CORE, (load,)):
            with burst(load) as burner:
                try:
                    follow(agent, redis)
                finally:
                    burner.kill()


def test_refused() -> None:
    """Rubbish, another machine and what is no right of the agent's: said once, and it learns anew."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        redis = rig.Redis(folder)
        with redis, rig.Drawing(meter, TRUE_IDLE, CORE):
            redis.command("SET", KEY, "rubbish")
            with rig.Agent(folder, *options(folder, redis)) as agent:
                wait_for("a refusal", lambda: REFUSED in agent.log.read_text())
                check("it is something else" in agent.log.read_text() or "ends too soon" in agent.log.read_text(),
                      agent.log.read_text())
                check(agent.terminate() == 0 and length(redis) > 100, "the rubbish is still there")
                agent.log.unlink()
            with rig.Agent(folder, *options(folder, redis, SAID_IDLE + 10)) as agent:
                wait_for("a refusal", lambda: "idle power was configured otherwise" in agent.log.read_text())
                agent.kill()
                agent.log.unlink()
            redis.command("ACL", "SETUSER", "default", "resetkeys", "~kwatt:v1:nodes", "~kwatt:v1:node:*", "~kwatt:v1:pods:*",
                          "~kwatt:v1:feed:*")
            with rig.Agent(folder, *options(folder, redis)) as agent:
                wait_for("a refusal", lambda: "is not kept over restarts" in agent.log.read_text())
                wait_for("a sample in redis", lambda: "publishing to redis" in agent.log.read_text())
                time.sleep(3)
                check(agent.log.read_text().count("is not kept over restarts") == 1, "said more than once")
                check(agent.terminate() == 0, "the agent did not end well")


def test_no_redis() -> None:
    """Redis down: the first sample comes as soon as without; when Redis comes back, all goes on."""
    with rig.folder() as name:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        redis = rig.Redis(folder)
        with rig.Drawing(meter, TRUE_IDLE, CORE), rig.Agent(folder, *options(folder, redis)) as agent:
            check(agent.view()["sample"]["seq"] >= 1, "no sample")
            redis.start()
            with redis:
                wait_for("publication", lambda: redis.command("EXISTS", "kwatt:v1:node:{" + rig.NAME + "}"))
                check(agent.terminate() == 0, "the agent did not end well")
                wait_for("the state", lambda: length(redis) > 0, 5)


TESTS = [test_killed, test_refused, test_no_redis]


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
