# SPDX-License-Identifier: Apache-2.0
"""What pods use, from their agent's records through the recommender to the extender: a real kube-apiserver and a real redis-server.

There is no VPA, nor its CRD: profiles are learnt of every workload.
"""
import json
import os
import pathlib
import sys
import tempfile
import time

import apiserver
import extender_rig
from process import check
from recommender import Agent, Recommender, Redis, missing, until

RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
INDEX = "kwatt:v1:profiles"
AGE_S = 600     # of the pods, as their agent says


class World:
    def __init__(self, server: apiserver.ApiServer, redis: Redis):
        self.server = server
        self.redis = redis
        self.agent = Agent(redis)
        self.agent.started -= AGE_S

    @staticmethod
    def owned(kind: str | None, name: str) -> dict:
        metadata: dict = {"labels": {"app": name, "pod-template-hash": "7d4b"}}
        if kind is not None:
            metadata["ownerReferences"] = [{"apiVersion": "x/v1", "kind": kind, "name": name, "uid": "u", "controller": True}]
        return metadata

    def pod(self, name: str, kind: str | None, owner: str, cores: float, node: str | None = None, watts: float = 4) -> str:
        """A pod that runs on a node, as its agent reports it. Returns its uid."""
        answer = self.server.request("POST", "/api/v1/namespaces/default/pods", {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **self.owned(kind, owner)},
            "spec": {"nodeName": node or self.agent.node, "automountServiceAccountToken": False,
                     "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "2"}}}]}})
        uid = answer["metadata"]["uid"]
        self.agent.add(uid, cores, 1 << 20, "pod")
        self.agent.workloads[uid]["watts"] = watts
        return uid

    def publish(self) -> None:
        for uid, workload in self.agent.workloads.items():
            seconds = time.time() - self.agent.started
            workload["more"].update(active_uj=int(workload["cores"] * seconds * workload.get("watts", 4) * 1e6))
        self.agent.publish()

    def profile(self, member: str) -> dict | None:
        self.publish()
        text = self.redis.call("HGET", f"kwatt:v1:profile:{member}", "profile")
        return None if text is None else json.loads(text)


def learnt(world: World, program: Recommender, extender: extender_rig.Extender) -> None:
    for i, cores in enumerate((0.4, 0.4, 0.5, 0.5, 0.6, 0.6)):
        world.pod(f"press-{i}", "ReplicaSet", "press-7d4b", cores)
    world.pod("lone", None, "lone", 1)
    world.pod("elsewhere", "DaemonSet", "probe", 1, node="node-b")      # and yet node-a's agent tells of it
    world.agent.add("11111111-2222-3333-4444-555555555555", 3, 1, "pod", namespace="default", owner_kind="Deployment", owner_name="press")
    profile = until("the profile", lambda: world.profile("default/Deployment/press"))
    near(profile["used_mcpu"], 500)
    near(profile["sigma_mcpu"], 82)
    near(profile["core_mw"], 4000)
    check(profile["pods_permille"] == 6000, f"{profile}")
    check([m.decode() for m in world.redis.call("ZRANGE", INDEX, 0, -1)] == ["default/Deployment/press"], "others are learnt, too")
    check(690000 < world.redis.call("TTL", "kwatt:v1:profile:default/Deployment/press") <= 691200, "it does not expire")
    for fate in ("used", "unknown", "unowned"):
        until(f"{fate} are counted", lambda fate=fate: program.metric(f'kwatt_recommender_profile_records_total{{result="{fate}"}}') > 0)

    # the next pod of it is expected to use that: (6 x 500 + 4 x 2000) / 10
    def next_pod():
        extender.scores("barn-a", pod={"metadata": {"name": "next", "namespace": "default", **world.owned("ReplicaSet", "press-7d4b")},
                                       "spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}})
        decision = extender.ask("/explain?pod=next").json()["decisions"][0]
        return decision if decision["mcpu_from"] == "profile" else None
    decision = until("the extender has it", next_pod)
    near(decision["mcpu"], 1100)
    check(decision["profile"]["assumed_mcpu"] == 2000, f"{decision}")
    print("ok learnt")


def quiet(world: World, program: Recommender) -> None:
    """What does not change is not written."""
    program.loops(3)
    written = program.metric("kwatt_recommender_profiles_written_total")
    for _ in range(4):
        world.publish()
        program.loops(1)
    check(program.metric("kwatt_recommender_profiles_written_total") == written, "it is written again and again")
    print("ok quiet")


def lives(world: World, extender: extender_rig.Extender) -> None:
    """How long pods live says the API server: of one that no agent tells of, which runs for a moment and goes."""
    path = "/api/v1/namespaces/default/pods"
    metadata = {"name": "short", **world.owned("ReplicaSet", "press-7d4b")}
    world.server.request("POST", path, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
        "nodeName": "node-a", "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "none"}]}})
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    world.server.request("PATCH", path + "/short/status", {"status": {"phase": "Running", "startTime": started}},
                         kind="application/merge-patch+json")
    time.sleep(2)
    world.server.request("DELETE", path + "/short", {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    profile = until("its end is learnt", lambda: (lambda p: p if p["ended_permille"] > 0 else None)(world.profile("default/Deployment/press")))
    check(990 <= profile["ended_permille"] <= 1000 and 1000 <= profile["lived_ms"] <= 60000, f"{profile}")

    def decision():
        body = {"metadata": {"name": "next", "namespace": "default", **world.owned("ReplicaSet", "press-7d4b")}, "spec": {"containers": []}}
        extender.scores("barn-a", pod=body)
        got = extender.ask("/explain?pod=next").json()["decisions"][0]
        return got if got["life_from"] == "profile" else None
    got = until("the extender has it", decision)
    near(got["life_ms"], 1800000)       # an hour and a moment for one end and the one assumed
    check(got["ended_permille"] == profile["ended_permille"] and got["wake_over_ms"] == max(got["life_ms"], 1800000), f"{got}")
    print("ok lives")


def gone_pods_stay_known(world: World, folder: pathlib.Path, program: Recommender, kubeconfig: str) -> Recommender:
    """Three pods go; another recommender takes over, which has never seen them."""
    program.stop()
    for uid in list(world.agent.workloads)[:3]:
        del world.agent.workloads[uid]
        world.redis.call("HDEL", "kwatt:v1:pods:{node-a}", uid)
    for i in range(3):
        world.server.request("DELETE", f"/api/v1/namespaces/default/pods/press-{i}",
                             {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    for i in range(3):
        world.pod(f"press-new-{i}", "ReplicaSet", "press-7d4b", 0.2)
    # they began a moment ago, as far as the agent can tell
    for uid in list(world.agent.workloads)[-3:]:
        world.agent.workloads[uid]["more"]["started_unix_ms"] = int(time.time() * 1000)
    program = Recommender(folder, world.redis, "--kubeconfig", kubeconfig)
    program.loops(2)
    world.publish()
    profile = world.profile("default/Deployment/press")
    check(profile["pods_permille"] == 6000, f"pods that are too young count: {profile}")
    print("ok gone pods stay known")
    return program


def near(value: int, want: int) -> None:
    check(abs(value - want) <= want * 0.03 + 1, f"{value}, not {want}")


def test(server: apiserver.ApiServer) -> None:
    kubeconfig = server.service_account("recommender", RULES + [
        {"apiGroups": ["autoscaling.k8s.io"], "resources": ["verticalpodautoscalers"], "verbs": ["list", "watch"]}])
    with tempfile.TemporaryDirectory(prefix="kwatt-profiles-") as name:
        folder = pathlib.Path(name)
        redis = Redis(folder)
        program = Recommender(folder, redis, "--kubeconfig", kubeconfig)
        extender = extender_rig.Extender(name, str(redis.path))
        world = World(server, redis)
        try:
            learnt(world, program, extender)
            quiet(world, program)
            lives(world, extender)
            program = gone_pods_stay_known(world, folder, program, kubeconfig)
            program.stop()
            check(extender.stop() == 0, extender.log())
        except BaseException:
            print(program.log.read_text()[-6000:], file=sys.stderr)
            raise
        finally:
            program.process.kill()
            extender.process.kill()
            redis.kill()


if __name__ == "__main__":
    lack = missing()
    if lack is not None:
        print(f"SKIP: {lack}")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    sys.exit(apiserver.run(test))
