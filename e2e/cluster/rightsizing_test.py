#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""VPAs that name kwatt get their status from it, and the stock updater resizes their pods in place; others are not touched."""
import pathlib
import sys

from scenario import World, check, run, wait_for


def vpa(world: World, name: str, recommenders: list) -> str:
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{world.namespace}/verticalpodautoscalers"
    world.cluster.request("POST", path, {
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                 "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
                 **({"recommenders": recommenders} if recommenders else {})}})
    return f"{path}/{name}"


def mcpu(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def pod_of(world: World, app: str) -> dict:
    pods = world.cluster.request("GET", f"{world.pods}?labelSelector=app%3D{app}")["items"]
    check(len(pods) == 1, f"{len(pods)} pods of {app}")
    return pods[0]


def cpu_shares(folder: pathlib.Path) -> int:
    """What the kernel was told: cpu.shares of v1, cpu.weight of v2."""
    cpu = pathlib.Path(str(folder).replace("/cpuacct/", "/cpu/"))
    return int(next(f for f in (cpu / "cpu.shares", cpu / "cpu.weight") if f.exists()).read_text())


def test(world: World) -> None:
    for name, recommenders in (("ours", [{"name": "kwatt"}]), ("theirs", [])):
        world.deployment(name, cpu="600m", memory="64Mi", args=["100"])
        before = wait_for(f"the pod of {name}", lambda app=name: pod_of(world, app))
        world.running(before["metadata"]["name"])
    before = pod_of(world, "ours")
    node = world.cluster.node(before["spec"]["nodeName"])
    folder = node.pod_cgroup(before["metadata"]["uid"])
    shares = cpu_shares(folder)

    paths = {name: vpa(world, name, recommenders) for name, recommenders in (("ours", [{"name": "kwatt"}]), ("theirs", []))}
    target = world.cluster.until("kwatt's recommendation", paths["ours"], lambda vpa: vpa.get("status", {}).get(
        "recommendation", {}).get("containerRecommendations", [{}])[0].get("target"))
    check(50 <= mcpu(target["cpu"]) <= 300, f"100 m are used, {target} is recommended")

    def resized() -> dict | None:
        pod = pod_of(world, "ours")
        now = pod["status"]["containerStatuses"][0].get("resources", {}).get("requests", {}).get("cpu", "600m")
        return pod if mcpu(now) < 400 else None
    after = wait_for("the updater to resize the pod", resized)
    check(after["metadata"]["uid"] == before["metadata"]["uid"], "the pod was recreated, not resized in place")
    check(after["status"]["containerStatuses"][0]["restartCount"] == 0, "the container was restarted")
    wait_for("the cgroup to have the new request", lambda: cpu_shares(folder) < shares)

    # the stock recommender, without metrics here, says so in its VPA; nobody else writes there
    theirs = world.cluster.until("the stock recommender's conditions", paths["theirs"],
                                 lambda vpa: vpa.get("status", {}).get("conditions"))
    managers = {entry["manager"] for entry in world.cluster.request("GET", paths["theirs"])["metadata"]["managedFields"]}
    check(not any("kwatt" in manager for manager in managers), f"{managers} wrote into {theirs}")



if __name__ == "__main__":
    sys.exit(run(test))
