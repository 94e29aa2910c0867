# SPDX-License-Identifier: Apache-2.0
"""What a scenario is: a function on a running cluster with kwatt in it. See docs/cluster.md for how to add one.

    from scenario import World, run

    def test(world: World) -> None:
        world.teach()                                   # else no node is known to be better
        world.pod("web", cpu="200m", args=["100"])      # uses a tenth of a core, wherever it lands
        check(world.node_of("web") != "node2", "it went to the wasteful node")

    if __name__ == "__main__":
        sys.exit(run(test))

It has a namespace of its own, which goes when it ends. It waits on conditions, never sleeps, and leaves cluster and kwatt as it
found them: run() checks that everything runs before and after.
"""
import contextlib
import os
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from addons import STOCK_URL  # noqa: E402  (these need modules of the folder above)
from archive import TOOL  # noqa: E402
from cluster import Cluster, default_state  # noqa: E402
from installed import Installed  # noqa: E402
from kwatt import BUILD, PATIENCE, TRUTH, Kwatt, Processes  # noqa: E402
from node import hierarchies  # noqa: E402
from process import Failure, build, check, wait_for  # noqa: E402

__all__ = ["BUILD", "Cluster", "Failure", "PATIENCE", "SLOPES", "STOCK_URL", "TRUTH", "World", "build", "check", "default_state", "guarded", "hierarchies", "kwatt_on", "run",
           "wait_for"]


SLOPES = {name: curve[-1][1] / curve[-1][0] for name, curve in TRUTH.items()}    # watts a core


def kwatt_on(cluster: Cluster) -> Kwatt:
    """What runs on a cluster already, else what is wanted there."""
    kinds = {kind.__name__: kind for kind in (Installed, Processes)}
    note = cluster.dir / "kwatt/kind"
    wanted = note.read_text() if note.is_file() else os.environ.get("KWATT_CLUSTER_KWATT", "installed").capitalize()
    check(wanted in kinds, f"KWATT_CLUSTER_KWATT={wanted}: installed or processes")
    return kinds[wanted](cluster)


class World:
    def __init__(self, cluster: Cluster, name: str):
        self.cluster, self.kwatt, self.namespace = cluster, kwatt_on(cluster), name
        self.pods = f"/api/v1/namespaces/{name}/pods"

    # ---- life ----

    def begin(self) -> None:
        self.end()
        self.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.cluster.until("the service account", f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default", bool)
        self.all_run()

    def end(self) -> None:
        """Removes the namespace, and waits until its pods have left the nodes."""
        path = f"/api/v1/namespaces/{self.namespace}"
        if self.exists(path):
            self.cluster.request("DELETE", path)
            wait_for(f"namespace {self.namespace} to go", lambda: not self.exists(path))

    def exists(self, path: str) -> bool:
        try:
            return bool(self.cluster.request("GET", path))
        except Failure as error:
            if ": 404 " in str(error):
                return False
            raise

    def all_run(self) -> None:
        """That nothing of the cluster or of kwatt has ended, or is on its way to somewhere else."""
        processes = self.cluster.control.processes()
        ended = [name for name, entry in processes.items() if entry["exit"] is not None]
        check(not ended, f"not running: {', '.join(ended)}")
        self.kwatt.wait_whole()
        self.kwatt.wait_fresh()

    # ---- pods ----

    def manifest(self, name: str, cpu: str = "", memory: str = "16Mi", args: list | None = None, node: str = "",
                 annotations: dict | None = None, labels: dict | None = None, more: dict | None = None) -> dict:
        """A pod of the tool image (see load.c for its args). node: put there without asking the scheduler."""
        requests = {"memory": memory, **({"cpu": cpu} if cpu else {})}
        return {"metadata": {"name": name, "annotations": annotations or {}, "labels": {"app": name, **(labels or {})}},
                "spec": {"containers": [{"name": "main", "image": TOOL, "imagePullPolicy": "Never", "args": args or [],
                                         "resources": {"requests": requests}}],
                         "terminationGracePeriodSeconds": 1, **({"nodeName": node} if node else {}), **(more or {})}}

    def pod(self, name: str, **more) -> dict:
        """Creates a pod and waits until it runs. Returns it."""
        self.cluster.request("POST", self.pods, self.manifest(name, **more))
        return self.running(name)

    def deployment(self, name: str, **more) -> None:
        """Creates a deployment of one such pod; does not wait."""
        template = self.manifest(name, **more)
        self.cluster.request("POST", f"/apis/apps/v1/namespaces/{self.namespace}/deployments", {
            "metadata": {"name": name}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}}})

    def get(self, name: str) -> dict:
        return self.cluster.request("GET", f"{self.pods}/{name}")

    def running(self, name: str) -> dict:
        return self.cluster.until(f"pod {name} to run", f"{self.pods}/{name}",
                                  lambda pod: pod["status"].get("phase") in ("Running", "Succeeded") and pod)

    def delete(self, name: str) -> None:
        self.cluster.request("DELETE", f"{self.pods}/{name}")
        wait_for(f"pod {name} to go", lambda: not self.exists(f"{self.pods}/{name}"))

    def bound(self, name: str, **more) -> str:
        """Creates a pod and waits until the scheduler chose. Returns the node."""
        self.cluster.request("POST", self.pods, self.manifest(name, **more))
        return self.cluster.until(f"pod {name} to be placed", f"{self.pods}/{name}", lambda pod: pod["spec"].get("nodeName"))

    def node_of(self, name: str) -> str:
        return self.get(name)["spec"]["nodeName"]

    # ---- what kwatt knows ----

    def workload(self, node: str, uid: str) -> dict | None:
        return next((pod for pod in self.kwatt.view(node)["pods"] if pod["id"] == uid), None)

    def marginal_watts(self, node: str, cores: float = 0.2) -> float:
        """By the node's curve, as published, from no load on."""
        curve = self.kwatt.view(node)["curve"]
        knots = [(k["load_permille"] * curve["capacity_mcpu"] / 1e6, k["mw"] / 1000) for k in curve["knots"]]
        for (x0, y0), (x1, y1) in zip(knots, knots[1:]):
            if cores <= x1 + 1e-9:
                return (y0 + (y1 - y0) * (cores - x0) / (x1 - x0) - knots[0][1]) / cores
        return (knots[-1][1] - knots[0][1]) / knots[-1][0]

    def learnt(self, truth: dict[str, float], cores: float = 0.2) -> bool:
        """Whether each node's curve is within a third of its truth (watts a core)."""
        return all(abs(self.marginal_watts(node, cores) - watts) < watts / 3 for node, watts in truth.items())

    def teach(self) -> None:
        """Agents learn their node's curve from load, so each gets some; nothing but the meter says which node is which."""
        for node in SLOPES:
            self.pod(f"teach-{node}", node=node, args=["250"])
        wait_for("the agents to learn their curves", lambda: self.learnt(SLOPES))
        for node in SLOPES:
            self.delete(f"teach-{node}")
        self.kwatt.wait_fresh()

    def make_busy(self, node: str) -> None:
        """Loads that no request tells of, until this node is clearly the fullest, and the extenders know."""
        def used(name: str) -> int:
            return self.kwatt.view(name)["sample"]["used_mcpu"]
        # fills closer than 2 % are the same to kwatt, and machines have many cores
        margin = max(300, self.kwatt.view(node)["curve"]["capacity_mcpu"] // 20)
        for number in range(-(-margin * 3 // 2 // 500)):
            self.pod(f"busy-{node}-{number}", node=node, args=["500"])
        others = [each.name for each in self.cluster.nodes if each.name != node]
        samples: dict[int, bool] = {}

        def fullest() -> bool:
            """In three samples running: a pod that starts or ends elsewhere takes a moment, too."""
            samples.setdefault(self.kwatt.view(node)["sample"]["seq"], used(node) > margin + max(map(used, others)))
            return list(samples.values())[-3:] == [True] * 3
        wait_for(f"{node} to be seen busy", fullest)
        self.kwatt.wait_published()

    def end_busy(self, node: str) -> None:
        for pod in self.cluster.request("GET", self.pods)["items"]:
            if pod["metadata"]["name"].startswith(f"busy-{node}-"):
                self.delete(pod["metadata"]["name"])

    def show(self) -> None:
        """Where a failure is looked for."""
        events = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"]
        for event in events[-20:]:
            print(f"  {event['involvedObject']['name']}: {event['reason']}: {event['message']}", file=sys.stderr)
        self.kwatt.show()


def guarded(work) -> int:
    """Runs it. Returns the exit code of a test: 0, 1 with the cause printed, or what Missing asks for."""
    try:
        work()
    except build.Missing as error:
        return build.end(error)
    except Exception:  # whatever it is, the test failed by it
        traceback.print_exc()
        return 1
    return 0


def on_cluster(cluster: Cluster, name: str, test) -> None:
    world = World(cluster, name)
    world.begin()
    begin = time.monotonic()
    try:
        test(world)
        world.end()
        world.all_run()
    except Exception:
        (cluster.dir / "failed").touch()    # whoever ends the cluster keeps its logs
        world.show()
        with contextlib.suppress(Exception):    # the cause is known; the next scenario shall not meet its pods
            world.end()
        raise
    print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)


def run(test) -> int:
    """Runs test(world) on the cluster of this checkout; where none runs, on one that is started for it."""
    name = os.path.basename(sys.argv[0]).removesuffix(".py").removesuffix("_test").replace("_", "-")

    def work() -> None:
        cluster = Cluster(default_state())
        if cluster.alive():
            on_cluster(cluster, name, test)
            return
        with Cluster(default_state()) as own:
            own.up(len(TRUTH), master=os.getpid())
            kwatt_on(own).start()
            on_cluster(own, name, test)
    return guarded(work)
