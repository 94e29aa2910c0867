# SPDX-License-Identifier: Apache-2.0
"""The recommender against a real etcd and kube-apiserver: a status that kubectl shows, and what may go wrong around it."""
import json
import os
import pathlib
import sys
import tempfile
import time

import apiserver
from recommender import Agent, Failure, Recommender, Redis, missing, until

MIB = 1 << 20

DEPLOY = pathlib.Path(__file__).resolve().parents[1] / "deploy/vpa"

WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.kwatt.test}
spec:
  group: kwatt.test
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
"""


def check(truth: bool, what: str) -> None:
    if not truth:
        raise Failure(what)


def documents(text: str):
    """Objects of several JSON documents that stand one after another."""
    while text.strip():
        one, end = json.JSONDecoder().raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        yield one


class World:
    """The cluster as the test makes it."""

    def __init__(self, server: apiserver.ApiServer, agent: Agent):
        self.server = server
        self.agent = agent

    def get(self, *args: str) -> dict:
        return json.loads(self.server.kubectl("get", *args, "-o", "json"))

    def apply(self, *objects: dict) -> None:
        self.server.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def workload(self, name: str, labels: dict, containers: dict, more: dict | None = None) -> dict:
        """A Deployment and its ReplicaSet, as the controllers would make it. Returns the ReplicaSet's owner reference."""
        template = {"metadata": {"labels": labels}, "spec": self.spec(containers, more)}
        self.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
                    "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}})
        owner = self.reference("apps/v1", "Deployment", name)
        hashed = {**labels, "pod-template-hash": "abc"}
        template = {**template, "metadata": {"labels": hashed}}
        self.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "metadata": {"name": f"{name}-abc", "namespace": "shop", "labels": hashed, "ownerReferences": [owner]},
                    "spec": {"replicas": 1, "selector": {"matchLabels": hashed}, "template": template}})
        return self.reference("apps/v1", "ReplicaSet", f"{name}-abc")

    def reference(self, version: str, kind: str, name: str) -> dict:
        uid = self.get(f"{kind.lower()}s", name, "-n", "shop")["metadata"]["uid"]
        return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}

    @staticmethod
    def spec(containers: dict, more: dict | None) -> dict:
        return {"containers": [{"name": name, "image": "example.com/x:1"} for name in containers], **(more or {})}

    def pod(self, name: str, labels: dict, owner: dict | None, containers: dict, more: dict | None = None) -> str:
        """A pod that runs, as a kubelet would say; its agent reports it. containers: name -> (cores, memory)."""
        metadata = {"name": name, "namespace": "shop", "labels": labels}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                    "spec": {"nodeName": self.agent.node, **self.spec(containers, more)}})
        ids = {each: f"{name}-{each}".encode().hex().ljust(64, "0")[:64] for each in containers}
        self.server.kubectl("patch", "pod", name, "-n", "shop", "--subresource=status", "--type=merge", "-p", json.dumps(
            {"status": {"phase": "Running", "containerStatuses": [
                {"name": each, "containerID": f"containerd://{ids[each]}", "image": "example.com/x:1", "imageID": "x",
                 "ready": True, "restartCount": 0, "state": {"running": {}}} for each in containers]}}))
        uid = self.get("pod", name, "-n", "shop")["metadata"]["uid"]
        # the agent may not know the names yet: the recommender finds them by container id
        self.agent.add(uid, sum(c for c, _ in containers.values()), 0, "pod",
                       {ids[each]: ("", cores, memory) for each, (cores, memory) in containers.items()})
        return uid

    def vpa(self, name: str, kind: str, target: str, recommender: str | None = "kwatt", version: str = "apps/v1",
            policies: list | None = None) -> None:
        spec: dict = {"targetRef": {"apiVersion": version, "kind": kind, "name": target}, "updatePolicy": {"updateMode": "Off"}}
        if recommender is not None:
            spec["recommenders"] = [{"name": recommender}]
        if policies is not None:
            spec["resourcePolicy"] = {"containerPolicies": policies}
        self.apply({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
                    "metadata": {"name": name, "namespace": "shop"}, "spec": spec})

    def status(self, name: str) -> dict:
        return self.get("vpa", name, "-n", "shop").get("status", {})

    def conditions(self, name: str) -> dict:
        return {c["type"]: c for c in self.status(name).get("conditions", [])}

    def recommended(self, name: str) -> dict:
        """Container -> recommendation."""
        entries = self.status(name).get("recommendation", {}).get("containerRecommendations", [])
        check([e["containerName"] for e in entries] == sorted(e["containerName"] for e in entries), "entries are not sorted")
        return {e["containerName"]: e for e in entries}

    def wait(self, what: str, test):
        def step():
            self.agent.publish()
            return test()
        return until(what, step)


def mcpu(text: str) -> int:
    scale = {"m": 1, "k": 1000000}.get(text[-1])
    return int(text) * 1000 if scale is None else int(text[:-1]) * scale


def test_status(world: World) -> None:
    owner = world.workload("web", {"app": "web"}, {"web": 0, "side": 0})
    world.pod("web-1", {"app": "web", "pod-template-hash": "abc"}, owner, {"web": (0.5, 500_000_000), "side": (0.05, 10 * MIB)})
    world.vpa("ours", "Deployment", "web")
    world.vpa("theirs", "Deployment", "web", recommender=None)
    world.vpa("another", "Deployment", "web", recommender="somebody")
    world.wait("the VPA has a recommendation", lambda: len(world.recommended("ours")) == 2)
    got = world.recommended("ours")
    check(540 <= mcpu(got["web"]["target"]["cpu"]) <= 640, f"target of {got['web']}")
    check(got["web"]["target"]["memory"] == "587804717", f"target of {got['web']}")
    check(got["side"]["target"]["memory"] == "125Mi", f"floor in {got['side']}")
    check(got["web"]["uncappedTarget"] == got["web"]["target"], f"uncapped of {got['web']}")
    for each in got.values():
        check(mcpu(each["lowerBound"]["cpu"]) <= mcpu(each["target"]["cpu"]) <= mcpu(each["upperBound"]["cpu"]), f"bounds of {each}")
    status = world.status("ours")
    check(status.get("observedGeneration") == 1, f"observedGeneration of {status}")
    conditions = world.conditions("ours")
    check(conditions["RecommendationProvided"]["status"] == "True", f"{conditions}")
    check(conditions["LowConfidence"]["status"] == "True", f"{conditions}")
    check([c["type"] for c in status["conditions"]] == sorted(conditions), "conditions are not sorted")

    table = world.server.kubectl("get", "vpa", "-n", "shop")
    rows = {line.split()[0]: line.split() for line in table.splitlines()}
    print(table)
    # side stands first: CPU and MEM of the first entry, then PROVIDED
    check(rows["ours"][2].endswith("m") and rows["ours"][3] == "125Mi" and rows["ours"][4] == "True", table)
    for name in ("theirs", "another"):
        check(len(rows[name]) == 3 and world.status(name) == {}, f"{name} was touched: {table}")


def test_quiet(world: World, program: Recommender) -> None:
    """Where nothing changes, nothing is written; where the user changes the policy, it is followed at once."""
    version = world.get("vpa", "ours", "-n", "shop")["metadata"]["resourceVersion"]
    written = program.metric('kwatt_recommender_status_patches_total{result="written"}')
    program.loops(3)    # without new records
    check(world.get("vpa", "ours", "-n", "shop")["metadata"]["resourceVersion"] == version, "written without need")
    check(program.metric('kwatt_recommender_status_patches_total{result="written"}') == written, "patches without need")
    check(program.metric('kwatt_recommender_status_patches_total{result="unchanged"}') > 0, "no unchanged status counted")


def test_policy(world: World) -> None:
    world.vpa("ours", "Deployment", "web", policies=[
        {"containerName": "side", "mode": "Off"},
        {"containerName": "*", "controlledResources": ["cpu"], "minAllowed": {"cpu": "900m"}, "maxAllowed": {"cpu": "950m"}}])
    world.wait("the policy is followed", lambda: list(world.recommended("ours")) == ["web"])
    web = world.recommended("ours")["web"]
    check(web["target"] == {"cpu": "900m"} and web["lowerBound"] == {"cpu": "900m"} and web["upperBound"] == {"cpu": "950m"}, f"{web}")
    check(mcpu(web["uncappedTarget"]["cpu"]) < 700 and "memory" not in web["uncappedTarget"], f"{web}")
    check(world.status("ours").get("observedGeneration") == 2, "observedGeneration does not follow")
    since = world.conditions("ours")["RecommendationProvided"]["lastTransitionTime"]
    world.vpa("ours", "Deployment", "web")
    world.wait("the policy is gone", lambda: len(world.recommended("ours")) == 2)
    check(world.conditions("ours")["RecommendationProvided"]["lastTransitionTime"] == since, "time of a condition changed")


def test_nothing_seen(world: World) -> None:
    """The stock recommender would publish its floor here; no usage means no advice."""
    owner = world.workload("silent", {"app": "silent"}, {"main": 0})
    uid = world.pod("silent-1", {"app": "silent"}, owner, {"main": (0.1, MIB)})
    del world.agent.workloads[uid]
    world.vpa("silent", "Deployment", "silent")
    world.wait("the VPA has a condition", lambda: "RecommendationProvided" in world.conditions("silent"))
    condition = world.conditions("silent")["RecommendationProvided"]
    check(condition["status"] == "False" and condition["reason"] == "NoUsageSeen" and condition["message"], f"{condition}")
    check("recommendation" not in world.status("silent"), "a recommendation without any sample")


def test_no_pods(world: World) -> None:
    world.workload("empty", {"app": "empty"}, {"main": 0})
    world.vpa("empty", "Deployment", "empty")
    world.wait("NoPodsMatched", lambda: world.conditions("empty").get("NoPodsMatched", {}).get("status") == "True")
    check(world.conditions("empty")["RecommendationProvided"]["status"] == "False", "provided without pods")


def test_bad_targets(world: World) -> None:
    for name, kind, target, version, text in (
            ("nowhere", "Deployment", "nowhere", "apps/v1", "does not exist"),
            ("not-topmost", "ReplicaSet", "web-abc", "apps/v1", "controlled by Deployment web"),
            ("no-kind", "Gadget", "x", "kwatt.test/v9", "no kind Gadget"),
            ("no-scale", "ConfigMap", "x", "v1", "no scale subresource"),
            ("evil", "Deployment", "../../secrets/x", "apps/v1", "no name of an object")):
        world.vpa(name, kind, target, version=version)
        world.wait(f"{name} is ConfigUnsupported",
                   lambda name=name: world.conditions(name).get("ConfigUnsupported", {}).get("status") == "True")
        condition = world.conditions(name)["ConfigUnsupported"]
        check(text in condition["message"], f"{name}: {condition}")
    # mended by the user: the condition goes
    world.vpa("nowhere", "Deployment", "web")
    world.wait("a mended target", lambda: len(world.recommended("nowhere")) == 2 and "ConfigUnsupported" not in world.conditions("nowhere"))
    world.server.kubectl("delete", "vpa", "-n", "shop", "nowhere", "not-topmost", "no-kind", "no-scale", "evil")


def test_foreign_pods(world: World) -> None:
    """A pod of another Deployment with overlapping labels does not count; one without owner is about to be adopted."""
    other = world.workload("other", {"app": "web", "tier": "x"}, {"other": 0})
    world.pod("other-1", {"app": "web", "tier": "x", "pod-template-hash": "abc"}, other, {"other": (3.0, MIB)})
    world.pod("web-2", {"app": "web"}, None, {"web": (0.5, 500_000_000)})
    world.wait("records of the new pods", lambda: True)
    for _ in range(4):
        world.agent.publish()
        time.sleep(1)
    check(set(world.recommended("ours")) == {"web", "side"}, f"{world.recommended('ours')}")
    check(mcpu(world.recommended("ours")["web"]["target"]["cpu"]) <= 640, "samples of a foreign pod were taken")
    world.server.kubectl("delete", "pod", "-n", "shop", "other-1", "web-2", "--force", "--grace-period=0")


def test_other_kinds(world: World) -> None:
    labels = {"app": "cron"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.com/x:1"}], "restartPolicy": "Never"}}
    world.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron", "namespace": "shop"},
                 "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}})
    owner = world.reference("batch/v1", "CronJob", "cron")
    world.apply({"apiVersion": "batch/v1", "kind": "Job",
                 "metadata": {"name": "cron-1", "namespace": "shop", "ownerReferences": [owner]}, "spec": {"template": template}})
    job = world.reference("batch/v1", "Job", "cron-1")
    world.pod("cron-1-a", labels, job, {"main": (0.5, 300 * MIB)}, {"restartPolicy": "Never"})
    world.vpa("cron", "CronJob", "cron", version="batch/v1")
    world.server.apply(WIDGETS)
    world.server.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/widgets.kwatt.test")
    world.apply({"apiVersion": "kwatt.test/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"},
                 "spec": {"replicas": 1}})
    world.server.kubectl("patch", "widgets.kwatt.test", "w", "-n", "shop", "--subresource=status", "--type=merge",
                         "-p", json.dumps({"status": {"replicas": 1, "selector": "app=widget,tier in (a,b)"}}))
    uid = world.get("widgets.kwatt.test", "w", "-n", "shop")["metadata"]["uid"]
    world.pod("w-1", {"app": "widget", "tier": "b"}, {"apiVersion": "kwatt.test/v1", "kind": "Widget", "name": "w", "uid": uid,
                                                      "controller": True}, {"main": (1.0, 300 * MIB)})
    world.vpa("widget", "Widget", "w", version="kwatt.test/v1")
    for name in ("cron", "widget"):
        world.wait(f"{name} has a recommendation", lambda name=name: list(world.recommended(name)) == ["main"])


def test_oom(world: World) -> None:
    before = int(world.recommended("ours")["web"]["target"]["memory"])
    finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    statuses = world.get("pod", "web-1", "-n", "shop")["status"]["containerStatuses"]
    for status in statuses:
        if status["name"] == "web":
            status["restartCount"] = 1
            status["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": finished,
                                                  "containerID": status["containerID"]}}
    world.server.kubectl("patch", "pod", "web-1", "-n", "shop", "--subresource=status", "--type=merge",
                         "-p", json.dumps({"status": {"containerStatuses": statuses}}))
    # 500 MB used + 100 MiB, and its bucket and margin
    world.wait("the memory target rises", lambda: int(world.recommended("ours")["web"]["target"]["memory"]) > before)
    target = int(world.recommended("ours")["web"]["target"]["memory"])
    check(604_857_600 * 1.15 <= target <= 604_857_600 * 1.15 * 1.06, f"{target}")


def test_outages(world: World, program: Recommender, redis: Redis) -> None:
    before = world.recommended("ours")
    redis.kill()
    program.loops(3)
    check(world.recommended("ours") == before, "the advice changed without Redis")
    redis.start()
    world.server.kill()
    program.loops(2)
    check(program.get("/healthz")[0] == 200, "unhealthy without the API server")
    until("the log says it", lambda: "API server cannot be used" in program.log.read_text())
    world.server.start()
    check(set(world.recommended("ours")) == set(before), "the advice is lost")
    until("the log says it", lambda: "API server is back" in program.log.read_text())
    # goes on: a changed policy is followed
    world.vpa("ours", "Deployment", "web", policies=[{"containerName": "side", "mode": "Off"}])
    world.wait("it goes on", lambda: list(world.recommended("ours")) == ["web"])
    check(program.metric('kwatt_recommender_readings_total{result="sampled"}') > 0, "no samples")


def test_old_crd(world: World, program: Recommender) -> None:
    """A CRD older than 1.7 drops observedGeneration: that must not read as a difference for ever."""
    crd = world.get("crd", "verticalpodautoscalers.autoscaling.k8s.io")
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]["properties"]
        schema["status"]["properties"].pop("observedGeneration", None)
    world.server.kubectl("replace", "-f", "-", stdin=json.dumps(crd))
    # the schema takes a moment to be in force
    until("observedGeneration is dropped", lambda: probe_dropped(world))
    world.vpa("late", "Deployment", "empty")
    world.wait("a condition", lambda: "NoPodsMatched" in world.conditions("late"))
    program.loops(2)
    version = world.get("vpa", "late", "-n", "shop")["metadata"]["resourceVersion"]
    program.loops(3)
    check(world.get("vpa", "late", "-n", "shop")["metadata"]["resourceVersion"] == version, "written without need")


def probe_dropped(world: World) -> bool:
    world.server.kubectl("patch", "vpa", "theirs", "-n", "shop", "--subresource=status", "--type=merge",
                         "-p", json.dumps({"status": {"observedGeneration": int(time.time())}}))
    return "observedGeneration" not in world.status("theirs")


def test_scaled_to_zero_and_deleted(world: World, program: Recommender) -> None:
    before = world.recommended("ours")
    world.server.kubectl("delete", "pod", "-n", "shop", "web-1", "--force", "--grace-period=0")
    world.wait("NoPodsMatched", lambda: world.conditions("ours").get("NoPodsMatched", {}).get("status") == "True")
    check(list(world.recommended("ours")) == list(before), "advice of a workload scaled to zero is lost")
    check(world.conditions("ours")["RecommendationProvided"]["status"] == "True", "provided")
    known = sum_vpas(program)
    world.server.kubectl("delete", "vpa", "ours", "-n", "shop")
    until("the VPA is forgotten", lambda: sum_vpas(program) == known - 1)
    check(program.process.poll() is None, "it lives")


def sum_vpas(program: Recommender) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in program.get("/metrics")[1].splitlines()
               if line.startswith("kwatt_recommender_vpa_objects{"))


def test_restart_keeps_advice(world: World, program: Recommender, folder: pathlib.Path, redis: Redis, kubeconfig: str) -> Recommender:
    """A new process knows less than the status that stands there: it may raise it, but not throw it away."""
    world.wait("no pending change", lambda: len(world.recommended("ours")) == 2)
    program.stop()
    patch = [{"op": "add", "path": f"/status/recommendation/containerRecommendations/1/{field}", "value": {"cpu": "3", "memory": "4Gi"}}
             for field in ("target", "uncappedTarget", "upperBound")]
    world.server.kubectl("patch", "vpa", "ours", "-n", "shop", "--subresource=status", "--type=json", "-p", json.dumps(patch))
    program = Recommender(folder, redis, "--kubeconfig", kubeconfig)
    for _ in range(6):
        world.agent.publish()
        time.sleep(1)
    check(program.metric('kwatt_recommender_readings_total{result="sampled"}') > 0, "no samples")
    check(world.recommended("ours")["web"]["target"] == {"cpu": "3", "memory": "4Gi"}, f"{world.recommended('ours')}")
    return program


def test(server: apiserver.ApiServer) -> None:
    server.apply_vpa_crd()
    server.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
    # under the rules that are shipped, and no others
    shipped = server.kubectl("create", "--dry-run=client", "-o", "json", "-f", str(DEPLOY / "rbac.yaml"))
    rules = next(o["rules"] for o in documents(shipped) if o["kind"] == "ClusterRole")
    kubeconfig = server.service_account("kwatt-recommender", rules=rules)
    server.kubectl("apply", "--dry-run=server", "-f", str(DEPLOY / "example.yaml"))
    with tempfile.TemporaryDirectory(prefix="kwatt-recommender-") as name:
        folder = pathlib.Path(name)
        redis = Redis(folder)
        program = Recommender(folder, redis, "--kubeconfig", kubeconfig)
        world = World(server, Agent(redis))
        try:
            test_status(world)
            test_quiet(world, program)
            test_policy(world)
            test_nothing_seen(world)
            test_no_pods(world)
            test_bad_targets(world)
            test_foreign_pods(world)
            test_other_kinds(world)
            program = test_restart_keeps_advice(world, program, folder, redis, kubeconfig)
            server.kubectl("delete", "vpa", "ours", "-n", "shop")
            world.vpa("ours", "Deployment", "web")
            world.wait("advice anew", lambda: len(world.recommended("ours")) == 2)
            test_oom(world)
            test_outages(world, program, redis)
            test_scaled_to_zero_and_deleted(world, program)
            test_old_crd(world, program)
            program.stop()
        except BaseException:
            print(program.log.read_text()[-6000:], file=sys.stderr)
            raise
        finally:
            program.process.kill()
            redis.kill()


if __name__ == "__main__":
    lack = missing()
    if lack is not None:
        print(f"SKIP: {lack}")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    sys.exit(apiserver.run(test))
