#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several recommenders on a real kube-apiserver: one of them writes, whatever happens to it, and nobody writes twice."""
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import apiserver
from recommender import Agent, Recommender, Redis, missing, until
from recommender_vpa_test import DEPLOY, World, check, documents

NAMESPACE, NAME = "energy", "kwatt-vpa-recommender"
# short, so that the test is; the shares are those of the defaults
TIMES = ["--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "400ms"]


class Audit:
    """Who has patched a status, as the API server saw it."""

    POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  omitStages: [RequestReceived]
  verbs: [patch]
  resources: [{group: autoscaling.k8s.io, resources: [verticalpodautoscalers/status]}]
- level: None
"""

    def __init__(self, folder: pathlib.Path):
        self.log = folder / "audit.log"
        policy = folder / "audit.yaml"
        policy.write_text(self.POLICY)
        self.options = [f"--audit-policy-file={policy}", f"--audit-log-path={self.log}"]

    def writers(self, since: float = 0) -> list[tuple[float, str, int]]:
        """Time, user and answer of each patch since then."""
        found = []
        for line in self.log.read_text().splitlines() if self.log.exists() else []:
            event = json.loads(line)
            stamp = event["requestReceivedTimestamp"]
            at = time.mktime(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone + float("0" + stamp[19:-1])
            if at >= since:
                found.append((at, event["user"]["username"].rpartition(":")[2], event["responseStatus"]["code"]))
        return found


class Replicas:
    def __init__(self, server: apiserver.ApiServer, folder: pathlib.Path, redis: Redis, rules: list):
        self.server, self.folder, self.redis = server, folder, redis
        # each has an account of its own, so that the audit log tells them apart
        self.configs = {name: server.service_account(name, rules=rules, namespace=NAMESPACE) for name in ("one", "two", "three")}
        self.programs: dict[str, Recommender] = {}

    def start(self, name: str) -> Recommender:
        self.programs[name] = Recommender(self.folder, self.redis, "--kubeconfig", self.configs[name], "--leader-elect",
                                          "--leader-elect-namespace", NAMESPACE, *TIMES)
        return self.programs[name]

    def leaders(self) -> list[str]:
        return [name for name, program in self.programs.items() if program.process.poll() is None
                and program.metric("kwatt_recommender_leader") == 1]

    def leader(self, but: str = "") -> str:
        """The one there is."""
        def found():
            names = [name for name in self.leaders() if name != but]
            check(len(names) <= 1, f"{names} lead at once")
            return names[0] if names else None
        return until("one leads", found)

    def lease(self) -> dict:
        return self.server.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}")["spec"]

    def end(self) -> None:
        for program in self.programs.values():
            program.process.kill()
            program.process.wait()


def change(world: World, number: int) -> None:
    """Makes the status of the VPA another, so that somebody has to write it."""
    world.vpa("ours", "Deployment", "web", policies=[{"containerName": "web", "minAllowed": {"cpu": f"{1000 + number}m"}}])


def followed(world: World, number: int) -> None:
    world.wait(f"change {number} is followed",
               lambda: world.recommended("ours").get("web", {}).get("target", {}).get("cpu") == f"{1000 + number}m")


def one_writes(world: World, replicas: Replicas, audit: Audit) -> str:
    first = replicas.start("one")
    check(replicas.leader() == "one", "the only one does not lead")
    second = replicas.start("two")
    until("the second is ready", lambda: second.get("/readyz") == (200, "ok, standing by\n"))
    until("the first is ready", lambda: first.get("/readyz") == (200, "ok\n"))
    change(world, 1)
    followed(world, 1)
    # the other one reads the same records all the while
    until("the second keeps warm", lambda: second.metric("kwatt_recommender_container_instances") == 1)
    check({user for _, user, _ in audit.writers()} == {"one"}, f"{audit.writers()}")
    lease = replicas.lease()
    check(lease["leaseDurationSeconds"] == 3 and lease["leaseTransitions"] == 0, f"{lease}")
    check(lease["renewTime"].endswith("Z") and len(lease["renewTime"]) == len("2026-01-01T00:00:00.000000Z"), f"{lease}")
    check(first.metric("kwatt_recommender_api_errors_total") + second.metric("kwatt_recommender_api_errors_total") == 0,
          "the role is too narrow")
    return lease["holderIdentity"]


def killed(world: World, replicas: Replicas, holder: str) -> None:
    replicas.programs["one"].process.kill()
    replicas.programs["one"].process.wait()
    check(replicas.leader() == "two", "nobody takes over")
    lease = replicas.lease()
    check(lease["holderIdentity"] != holder and lease["leaseTransitions"] == 1, f"{lease}")
    change(world, 2)
    followed(world, 2)


def stopped_cleanly(world: World, replicas: Replicas) -> None:
    """Who ends hands the lease back: the next one does not wait for its duration."""
    third = replicas.start("three")
    until("the third stands by", lambda: third.get("/readyz") == (200, "ok, standing by\n"))
    begin = time.monotonic()
    replicas.programs["two"].stop()
    check("holderIdentity" not in replicas.lease() or replicas.lease()["leaseTransitions"] == 2, "the lease is not handed back")
    check(replicas.leader() == "three", "nobody takes over")
    print(f"   taken over {time.monotonic() - begin:.1f} s after SIGTERM, of a lease of 3 s")
    check(replicas.lease()["leaseTransitions"] == 2, f"{replicas.lease()}")
    change(world, 3)
    followed(world, 3)


def stopped_by_a_signal(world: World, replicas: Replicas, audit: Audit) -> None:
    """The leader stands still for longer than its lease, then goes on: it writes nothing that the new one did not see."""
    fresh = replicas.start("one")
    until("it stands by", lambda: fresh.get("/readyz") == (200, "ok, standing by\n"))
    old = replicas.programs["three"]
    change(world, 4)        # in the midst of work
    old.process.send_signal(signal.SIGSTOP)
    try:
        def taken():
            return fresh.metric("kwatt_recommender_leader") == 1
        until("the other one takes over", taken)
        since = time.time()
        change(world, 5)
        followed(world, 5)
    finally:
        old.process.send_signal(signal.SIGCONT)
    until("the old one sees it", lambda: "writes nothing" in old.log.read_text() or "another replica writes" in old.log.read_text())
    change(world, 6)
    followed(world, 6)
    old.loops(3)
    writes = audit.writers(since)
    check(writes and not [each for each in writes if each[1] != "one" and each[2] < 300], f"written twice: {writes}")
    check(old.metric("kwatt_recommender_leader") == 0 and fresh.metric("kwatt_recommender_leader") == 1, "two lead")


def api_server_restarts(world: World, replicas: Replicas) -> None:
    """It is away for longer than the lease: nobody writes, and then one does."""
    replicas.server.kill()
    until("nobody leads", lambda: not replicas.leaders())
    replicas.server.start()
    leader = replicas.leader()
    change(world, 7)
    followed(world, 7)
    other = next(name for name, program in replicas.programs.items() if name != leader and program.process.poll() is None)
    until("the other one stands by", lambda: replicas.programs[other].get("/readyz") == (200, "ok, standing by\n"))
    # a lease that somebody deletes is made anew
    replicas.server.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}")
    until("there is a lease", lambda: NAME in replicas.server.text("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"))
    check(replicas.leader() in (leader, other), "nobody leads")


def without_crds(server: apiserver.ApiServer, folder: pathlib.Path, redis: Redis, kubeconfig: str) -> None:
    """One line says that the CRDs are missing, and one that they are there."""
    program = Recommender(folder, redis, "--kubeconfig", kubeconfig)
    try:
        until("it is said", lambda: "CRDs are not installed" in program.log.read_text())
        check(program.get("/readyz")[0] == 503, "ready without VPAs")
        # each try to list them begins as one that might succeed
        tries = program.metric("kwatt_recommender_loops_total")
        until("some tries", lambda: program.metric("kwatt_recommender_loops_total") >= tries + 2)
        server.apply_vpa_crd()
        until("it is ready", lambda: program.get("/readyz")[0] == 200)
        until("it is said", lambda: "CRDs are there" in program.log.read_text())
        log = program.log.read_text()
        for text, times in (("CRDs are not installed", 1), ("CRDs are there", 1), ("is back", 0), ("cannot be used", 0)):
            check(log.count(text) == times, f"{text!r} is said {log.count(text)} times:\n{log}")
        program.stop()
    finally:
        program.process.kill()


def test(server: apiserver.ApiServer, audit: Audit, folder: pathlib.Path) -> None:
    server.apply(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop}}\n---\n"
                 f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n")
    shipped = [o for o in documents(server.kubectl("create", "--dry-run=client", "-o", "json", "-f", str(DEPLOY / "rbac.yaml")))]
    items = [each for o in shipped for each in o.get("items", [o])]
    # of the cluster and of the lease's namespace, as they are shipped
    rules = [rule for item in items if item["kind"] in ("ClusterRole", "Role") for rule in item["rules"]]
    redis = Redis(folder)
    replicas = None
    try:
        begin = time.monotonic()
        without_crds(server, folder, redis, server.service_account("early", rules=rules, namespace=NAMESPACE))
        print(f"ok without_crds {time.monotonic() - begin:.1f} s", flush=True)
        replicas = Replicas(server, folder, redis, rules)
        world = World(server, Agent(redis))
        owner = world.workload("web", {"app": "web"}, {"web": 0})
        world.pod("web-1", {"app": "web", "pod-template-hash": "abc"}, owner, {"web": (0.5, 500_000_000)})
        change(world, 0)
        begin = time.monotonic()
        holder = one_writes(world, replicas, audit)
        print(f"ok one_writes {time.monotonic() - begin:.1f} s", flush=True)
        for step, more in ((killed, [holder]), (stopped_cleanly, []), (stopped_by_a_signal, [audit]), (api_server_restarts, [])):
            begin = time.monotonic()
            step(world, replicas, *more)
            print(f"ok {step.__name__} {time.monotonic() - begin:.1f} s", flush=True)
        conflicts = sum(program.metric('kwatt_recommender_status_patches_total{result="failed"}')
                        for program in replicas.programs.values() if program.process.poll() is None)
        print(f"   {conflicts:.0f} failed patches")
        for program in replicas.programs.values():
            if program.process.poll() is None:
                program.stop()
    except BaseException:
        for log in sorted(folder.glob("recommender-*.log")):
            print(f"---- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
        raise
    finally:
        if replicas is not None:
            replicas.end()
        redis.kill()


def main() -> int:
    lack = missing()
    if lack is not None:
        print(f"SKIP: {lack}")
        return 1 if os.environ.get("CI") == "true" else 77
    with tempfile.TemporaryDirectory(prefix="kwatt-lease-") as name:
        folder = pathlib.Path(name)
        audit = Audit(folder)
        apiserver.ApiServer.options = tuple(audit.options)
        return apiserver.run(test, audit, folder)


if __name__ == "__main__":
    sys.exit(main())
