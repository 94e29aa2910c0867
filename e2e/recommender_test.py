# SPDX-License-Identifier: Apache-2.0
"""The recommender on a machine without an API server: advice for every workload, over outages and hostile records."""
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback

from recommender import Agent, Failure, Recommender, Redis, missing, until

MIB = 1 << 20
NODE = "node-a"
ADVICE = f"kwatt:v1:advice:{{{NODE}}}"
PODS = f"kwatt:v1:pods:{{{NODE}}}"


def check(truth: bool, what: str) -> None:
    if not truth:
        raise Failure(what)


def advice(redis: Redis, id_: str) -> dict | None:
    text = redis.call("HGET", ADVICE, id_)
    return None if text is None else json.loads(text)


def steady(redis: Redis, agent: Agent, id_: str, samples: int = 3) -> dict:
    """Advice of a workload once it rests on some samples."""
    def enough():
        agent.publish()
        got = advice(redis, id_)
        return got if got is not None and got["samples"] >= samples else None
    return until(f"advice for {id_}", enough)


def check_amounts(got: dict, mcpu: tuple[int, int], memory: int) -> None:
    check(mcpu[0] <= got["target_mcpu"] <= mcpu[1], f"target_mcpu of {got} is not within {mcpu}")
    check(got["target_bytes"] == memory, f"target_bytes of {got} is not {memory}")
    check(got["lower_mcpu"] <= got["target_mcpu"] <= got["upper_mcpu"], f"bounds of {got}")
    check(got["lower_bytes"] <= got["target_bytes"] <= got["upper_bytes"], f"bounds of {got}")
    # wide, since little was seen, but no absurd number
    check(got["upper_mcpu"] <= 1000000 and got["upper_bytes"] <= 10**12, f"upper bounds of {got}")


def test_first_advice(redis: Redis, agent: Agent, program: Recommender) -> None:
    agent.add("/system.slice/half.service", 0.5, 500_000_000)
    agent.add("ab" * 32, 2.0, 4_000_000_000, "container", {"ab" * 32: ("", 2.0, 4_000_000_000)})
    agent.add("5f4e3d2c-0000-4111-8222-333344445555", 0.3, 200 * MIB, "pod",
              {"aa": ("web", 0.25, 100 * MIB), "bb": ("side", 0.05, 10 * MIB)})
    got = steady(redis, agent, "/system.slice/half.service")
    check(len(got["containers"]) == 1 and got["containers"][0]["name"] == "/system.slice/half.service", f"containers of {got}")
    # P90 + 15 % of half a core is 587m, its bucket's width apart (5 %) where the clock shakes the rate
    check_amounts(got["containers"][0], (540, 640), 587804717)
    got = steady(redis, agent, "ab" * 32)
    check(got["containers"][0]["name"] == "ab" * 32, f"name in {got}")
    check_amounts(got["containers"][0], (2260, 2560), 4743403291)
    got = steady(redis, agent, "5f4e3d2c-0000-4111-8222-333344445555")
    by_name = {c["name"]: c for c in got["containers"]}
    check(set(by_name) == {"web", "side"}, f"containers of {got}")
    check_amounts(by_name["web"], (270, 330), 131072000)    # the floor of 250 MiB, shared by two
    check_amounts(by_name["side"], (50, 100), 131072000)
    check(program.get("/readyz")[0] == 200 and program.get("/healthz")[0] == 200, "ready and healthy")
    check("no API server" in program.log.read_text(), "the log does not say that there is no API server")


def test_ended_and_gone(redis: Redis, agent: Agent) -> None:
    agent.add("/system.slice/short.service", 0.1, 10 * MIB)
    agent.add("/system.slice/gone.service", 0.1, 10 * MIB)
    steady(redis, agent, "/system.slice/short.service", 1)
    steady(redis, agent, "/system.slice/gone.service", 1)
    agent.workloads["/system.slice/short.service"]["more"]["ended_unix_ms"] = 1
    del agent.workloads["/system.slice/gone.service"]
    redis.call("HDEL", PODS, "/system.slice/gone.service")
    agent.publish()
    for id_ in ("/system.slice/short.service", "/system.slice/gone.service"):
        until(f"advice for {id_} is removed", lambda: advice(redis, id_) is None)
    del agent.workloads["/system.slice/short.service"]
    redis.call("HDEL", PODS, "/system.slice/short.service")


def test_hostile_records(redis: Redis, agent: Agent, program: Recommender) -> None:
    agent.add("/system.slice/victim.service", 0.1, 10 * MIB)
    steady(redis, agent, "/system.slice/victim.service", 2)
    before = advice(redis, "/system.slice/victim.service")["containers"][0]["target_mcpu"]
    now = int(time.time() * 1000)
    good = agent.record("/system.slice/victim.service", now / 1000)
    bad = {"cut": "{\"schema\":1,", "text": "not json", "empty": "", "array": "[1,2]", "nul": b"\x00\xff\xfe",
           "other-id": json.dumps(good),
           "future": json.dumps({**good, "id": "future", "t_unix_ms": 2**62}),
           "past": json.dumps({**good, "id": "past", "t_unix_ms": 1}),
           "negative": json.dumps({**good, "id": "negative", "cpu_ns": -5}),
           "deep": "[" * 5000, "version": json.dumps({**good, "id": "version", "schema": 99})}
    for field, value in bad.items():
        redis.call("HSET", PODS, field, value)
    redis.call("ZADD", "kwatt:v1:nodes", now, "evil{node}")
    redis.call("ZADD", "kwatt:v1:nodes", now, b"nul\x00node")
    redis.call("ZADD", "kwatt:v1:nodes", now, "wrong-type")
    redis.call("ZADD", "kwatt:v1:nodes", now, "wrong-advice")
    redis.call("SET", "kwatt:v1:pods:{wrong-type}", "a string, not a hash")
    redis.call("SET", "kwatt:v1:advice:{wrong-advice}", "a string, not a hash")
    other = Agent(redis, "wrong-advice")
    other.add("/x.service", 0.1, MIB)
    try:
        # a node whose key is no hash must not keep the others from their advice
        samples = advice(redis, "/system.slice/victim.service")["samples"]
        for _ in range(3):
            other.publish()
            program.loops(1)
        got = steady(redis, agent, "/system.slice/victim.service", samples + 2)
        check(program.metric("kwatt_recommender_redis_errors_total") == 0, "one node's key reads as an outage of Redis")
        check(abs(got["containers"][0]["target_mcpu"] - before) <= before * 0.12, f"{before} became {got}")
        for reason in ("malformed", "other-schema", "refused"):
            check(program.metric(f'kwatt_recommender_records_total{{result="{reason}"}}') > 0, f"no {reason} record counted")
        for id_ in bad:
            check(advice(redis, id_) is None, f"there is advice for {id_}")
        check(program.log.read_text().count("another schema version") == 1, "another schema version is not said once")
    finally:
        redis.call("HDEL", PODS, *bad)
        redis.call("ZREM", "kwatt:v1:nodes", "evil{node}", b"nul\x00node", "wrong-type", "wrong-advice")
        redis.call("DEL", "kwatt:v1:pods:{wrong-type}", "kwatt:v1:pods:{wrong-advice}",
                   "kwatt:v1:advice:{wrong-advice}")


def test_new_epoch(redis: Redis, agent: Agent) -> None:
    """An agent that starts again counts from zero: nobody jumps."""
    id_ = "/system.slice/half.service"
    before = steady(redis, agent, id_)
    agent.epoch += 1000
    agent.started = time.time() - 1
    after = steady(redis, agent, id_, before["samples"] + 2)
    check(after["containers"][0]["target_mcpu"] <= before["containers"][0]["target_mcpu"] * 1.12, f"{before} became {after}")


def test_redis_killed(redis: Redis, agent: Agent, program: Recommender) -> None:
    id_ = "/system.slice/half.service"
    before = steady(redis, agent, id_)
    redis.kill()
    program.loops(2)
    check(program.get("/readyz")[0] == 503, "ready without Redis")
    check(program.get("/healthz")[0] == 200, "an outage of Redis makes it unhealthy: it would be restarted for nothing")
    check("Redis cannot be read" in program.log.read_text(), "the log does not say that Redis is gone")
    redis.start()   # empty: it saves nothing
    after = steady(redis, agent, id_)
    check(after["samples"] > before["samples"], f"history was lost: {before['samples']} samples became {after['samples']}")
    until("ready again", lambda: program.get("/readyz")[0] == 200)
    check("Redis is back" in program.log.read_text(), "the log does not say that Redis is back")


def test_http(program: Recommender) -> None:
    status, page = program.get("/metrics")
    check(status == 200 and "kwatt_recommender_advices" in page, "metrics")
    status, page = program.get("/metrics", "application/openmetrics-text; version=1.0.0")
    check(page.endswith("# EOF\n"), "OpenMetrics ends with # EOF")
    check(program.get("/nothing")[0] == 404, "an unknown path is 404")


def main() -> int:
    lack = missing()
    if lack is not None:
        print(f"SKIP: {lack}")
        return 1 if os.environ.get("CI") == "true" else 77
    with tempfile.TemporaryDirectory(prefix="kwatt-recommender-") as folder:
        redis = Redis(pathlib.Path(folder))
        program = Recommender(pathlib.Path(folder), redis)
        agent = Agent(redis, NODE)
        try:
            test_first_advice(redis, agent, program)
            test_ended_and_gone(redis, agent)
            test_hostile_records(redis, agent, program)
            test_new_epoch(redis, agent)
            test_redis_killed(redis, agent, program)
            test_http(program)
            program.stop()
        except Exception:  # whatever it is, the test failed by it
            traceback.print_exc()
            print(program.log.read_text()[-4000:], file=sys.stderr)
            return 1
        finally:
            program.process.kill()
            redis.kill()
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
