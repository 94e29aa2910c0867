#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""VPAs that name kwatt get their status from it, and others from the stock recommender: neither touches the other's, also when one
moves. The stock updater resizes pods in place, and the stock admission controller starts new ones with what kwatt recommends."""
import pathlib
import sys

from scenario import STOCK_URL, World, check, run, wait_for

BY_KWATT, BY_DEFAULT = [{"name": "kwatt"}], []      # spec.recommenders; a VPA that names none is the stock one's
KWATT, STOCK = "kwatt", "recommender"      # by which names they write


class Vpa:
    def __init__(self, world: World, name: str, recommenders: list, mode: str):
        self.request = world.cluster.request
        path = f"/apis/autoscaling.k8s.io/v1/namespaces/{world.namespace}/verticalpodautoscalers"
        self.path = f"{path}/{name}"
        self.request("POST", path, {
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                     "updatePolicy": {"updateMode": mode, "minReplicas": 1}, "recommenders": recommenders}})

    def move(self, recommenders: list) -> None:
        self.request("PATCH", self.path, {"spec": {"recommenders": recommenders}}, "application/merge-patch+json")

    def writers(self) -> dict[str, str]:
        """Who wrote the status, and when each did last."""
        fields = self.request("GET", self.path)["metadata"]["managedFields"]
        return {entry["manager"]: entry["time"] for entry in fields if "f:status" in entry["fieldsV1"]}

    def wait_written(self, manager: str, least: int = 0, most: int = 1 << 30) -> None:
        """Until that one has written a recommendation, of so many millicores."""
        def written() -> bool:
            vpa = self.request("GET", self.path)
            containers = vpa.get("status", {}).get("recommendation", {}).get("containerRecommendations")
            check(containers and manager in self.writers(), "there is none")
            check(least <= mcpu(containers[0]["target"]["cpu"]) <= most, f"it is {containers[0]['target']}")
            return True
        wait_for(f"a recommendation by {manager}", written)


def mcpu(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def requested(pod: dict) -> int:
    """Millicores that it was created with, or has been resized to."""
    return mcpu(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def pods_of(world: World, app: str) -> list[dict]:
    return world.cluster.request("GET", f"{world.pods}?labelSelector=app%3D{app}")["items"]


def pod_of(world: World, app: str) -> dict:
    pods = pods_of(world, app)
    check(len(pods) == 1, f"{len(pods)} pods of {app}")
    return pods[0]


def cpu_shares(folder: pathlib.Path) -> int:
    """What the kernel was told: cpu.shares of v1, cpu.weight of v2."""
    cpu = pathlib.Path(str(folder).replace("/cpuacct/", "/cpu/"))
    return int(next(f for f in (cpu / "cpu.shares", cpu / "cpu.weight") if f.exists()).read_text())


def resizes_in_place(world: World, before: dict) -> None:
    folder = world.cluster.node(before["spec"]["nodeName"]).pod_cgroup(before["metadata"]["uid"])
    shares = cpu_shares(folder)

    def resized() -> dict | None:
        pod = pod_of(world, "ours")
        now = pod["status"]["containerStatuses"][0].get("resources", {}).get("requests", {}).get("cpu", "600m")
        return pod if mcpu(now) < 400 else None
    after = wait_for("the updater to resize the pod", resized)
    check(after["metadata"]["uid"] == before["metadata"]["uid"], "the pod was recreated, not resized in place")
    check(after["status"]["containerStatuses"][0]["restartCount"] == 0, "the container was restarted")
    wait_for("the cgroup to have the new request", lambda: cpu_shares(folder) < shares)


def starts_with_it(world: World) -> None:
    """The second pod of the Deployment is created with the recommendation, by the webhook."""
    webhook = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"
    wait_for("the webhook to be registered", lambda: world.exists(webhook))
    known = {pod["metadata"]["uid"] for pod in pods_of(world, "ours")}
    world.cluster.request("PATCH", f"/apis/apps/v1/namespaces/{world.namespace}/deployments/ours", {"spec": {"replicas": 2}},
                          "application/merge-patch+json")
    new = wait_for("a second pod", lambda: [pod for pod in pods_of(world, "ours") if pod["metadata"]["uid"] not in known])[0]
    check("vpaUpdates" in new["metadata"].get("annotations", {}), f"no webhook saw it: {new['metadata']}")
    check(requested(new) < 400, f"it was created with {requested(new)} m")


def loops(world: World) -> tuple[float, float]:
    """How often each recommender has gone round."""
    metric = world.kwatt.metric
    return (sum(metric(url, "kwatt_recommender_loops_total") for url in world.kwatt.recommender_urls()),     # of those one leads
            metric(STOCK_URL, "vpa_recommender_execution_latency_seconds_count", step="total"))


def wait_loops(world: World) -> None:
    """Until a loop of each that began after now is over: two more, and of kwatt there are two."""
    begin = loops(world)
    wait_for("the recommenders to go round", lambda: all(now >= before + 4 for now, before in zip(loops(world), begin)))


def belongs_to(vpa: Vpa, own: str) -> None:
    check(list(vpa.writers()) == [own], f"{vpa.path} is {own}'s; its status was written by {vpa.writers()}")


def test(world: World) -> None:
    for name in ("ours", "theirs"):
        world.deployment(name, cpu="600m", memory="64Mi", args=["100"])
    before = world.running(wait_for("the pod of ours", lambda: pod_of(world, "ours"))["metadata"]["name"])
    ours, theirs = Vpa(world, "ours", BY_KWATT, "InPlaceOrRecreate"), Vpa(world, "theirs", BY_DEFAULT, "Off")

    ours.wait_written(KWATT, 50, 300)       # 100 are used, though not yet at the first look
    resizes_in_place(world, before)
    starts_with_it(world)
    theirs.wait_written(STOCK)
    belongs_to(ours, KWATT)
    belongs_to(theirs, STOCK)

    ours.move(BY_DEFAULT)
    theirs.move(BY_KWATT)
    ours.wait_written(STOCK)
    theirs.wait_written(KWATT)
    wait_loops(world)       # one that had begun before the move may still have written
    old = ours.writers().get(KWATT), theirs.writers().get(STOCK)
    wait_loops(world)
    now = ours.writers().get(KWATT), theirs.writers().get(STOCK)
    check(old == now, f"{KWATT} and {STOCK} write on after the move: {old}, then {now}")


if __name__ == "__main__":
    sys.exit(run(test))
