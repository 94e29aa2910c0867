# SPDX-License-Identifier: Apache-2.0
"""kwatt from its chart, by `helm install`, with the image of deploy/Dockerfile."""
import base64
import contextlib
import json
import sys

import chart
import image
import image_parts
from cluster import Cluster
from kwatt import IDLE_W, STALE_S, Kwatt
from process import Failure, build, check, wait_for

KINDS = ("daemonsets", "deployments", "statefulsets")
PARTS = ("agent", "extender", "recommender", "redis")
COMPONENT = "app.kubernetes.io/component"
ORDERLY = (0, 137, 143)                 # exit codes of a container that ended by itself, or was ended


def parts_of(name: str) -> dict:
    """An image's name as the chart's values have it. It is in the nodes already."""
    repository, tag = name.rsplit(":", 1)
    return {"repository": repository, "tag": tag, "pullPolicy": "Never"}


def unsettled(kind: str, item: dict, nodes: int) -> str:
    """Why a workload's controller is not done with it, by its status; "" where it is."""
    status = item["status"]
    if status.get("observedGeneration", 0) < item["metadata"]["generation"]:
        return "a change is not seen yet"
    if kind == "daemonsets":
        wanted = nodes
        counts = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable")
    else:
        wanted = item["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    wrong = [f"{name} is {status.get(name, 0)}" for name in counts if status.get(name, 0) != wanted]
    return f"{', '.join(wrong)}, not {wanted}" if wrong else ""


def pod_trouble(pod: dict) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "is ending"
    if not any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])):
        return "is not ready"
    for container in pod["status"].get("containerStatuses", []):
        ended = container.get("lastState", {}).get("terminated", {})
        # a container that went down with its node has no code that means anything
        if ended.get("exitCode", 0) not in ORDERLY and "Unknown" not in ended["reason"]:
            return f"crashed with {ended['exitCode']}"
    return ""


class Installed(Kwatt):
    """As a user would; what scenarios need of it goes through the cluster's API."""

    def __init__(self, cluster: Cluster):
        super().__init__(cluster)
        self.helm_program = build.programs("helm") / "helm"

    # ---- helm ----

    def helm(self, *words: object) -> str:
        return self.control.run(self.helm_program, *words, "-n", chart.NAMESPACE,
                                env={"KUBECONFIG": str(self.cluster.dir / "admin.kubeconfig")})

    def put(self, verb: str, values: dict) -> None:
        """helm install or upgrade, until nothing of it moves any more: --wait is content with most pods, old ones among them."""
        file = self.dir / "values.json"
        file.write_text(json.dumps(values))
        self.helm(verb, chart.RELEASE, chart.CHART, "--values", file, "--wait", "--timeout", "10m",
                  *(["--create-namespace"] if verb == "install" else []))
        self.wait_settled(f"helm {verb}")

    def load(self) -> image.Image:
        """Puts the images into the nodes. Returns kwatt's."""
        made = image.kwatt()
        archives = [made.archive, image_parts.redis(self.dir)]
        for node in self.cluster.nodes:
            node.load(*archives)
        return made

    def base_values(self, made: image.Image) -> dict:
        """What any installation here has to say: its images, where its nodes' cgroups are, and that it cannot wait."""
        root = self.cluster.nodes[0].cgroup.removesuffix("node1")
        return {"image": parts_of(made.name),
                "agent": {"config": {"interval": "1s"}, "extraArgs": [f"--cgroup-root={root}$(KWATT_NODE_NAME)"]},
                "recommender": {"config": {"interval": "1s", "sampleInterval": "1s"}},
                "redis": {"image": parts_of(image_parts.REDIS)}}

    def values(self, made: image.Image) -> dict:
        """Those of the scenarios: each agent reads its node's meter."""
        values = self.base_values(made)
        agent = values["agent"]
        agent["config"] |= {"idleWatts": IDLE_W, "podLabels": "app"}
        agent["extraArgs"] += ["--outside=absent", "--sysfs=/meters/$(KWATT_NODE_NAME)"]
        agent["extraVolumes"] = [{"name": "meters", "hostPath": {"path": str(self.dir / "sysfs"), "type": "Directory"}}]
        agent["extraVolumeMounts"] = [{"name": "meters", "mountPath": "/meters", "readOnly": True}]
        values["extender"] = {"config": {"staleAfter": f"{STALE_S}s"}}
        values["redis"]["persistence"] = {"enabled": False}
        return values

    def start_programs(self) -> None:
        made = self.load()
        for node in self.cluster.nodes:
            # the meter's tree with the machine's cgroups in it, as mounts of the cluster's own
            cgroups = self.dir / "sysfs" / node.name / "fs/cgroup"
            cgroups.mkdir(parents=True)
            self.control.run("mount", "--rbind", "/sys/fs/cgroup", cgroups)
        self.put("install", self.values(made))

    # ---- what is there ----

    def all_pods(self, component: str) -> list[dict]:
        path = f"/api/v1/namespaces/{chart.NAMESPACE}/pods?labelSelector={COMPONENT}%3D{component}"
        return self.cluster.request("GET", path)["items"]

    def pods(self, component: str) -> list[dict]:
        """Without those that are ending."""
        return [pod for pod in self.all_pods(component) if "deletionTimestamp" not in pod["metadata"]]

    def moving(self) -> list[str]:
        """What of the installation is on its way to somewhere else, with what is known of it. A pod that is ready does not mean that it
        stays: its workload's controller has to be done, and every pod of it to be a new one."""
        nodes = len(self.cluster.request("GET", "/api/v1/nodes")["items"])
        troubles, seen = [], set()
        for kind in KINDS:
            path = f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/{kind}?labelSelector=app.kubernetes.io/instance%3D{chart.RELEASE}"
            for item in self.cluster.request("GET", path)["items"]:
                part = item["metadata"]["labels"][COMPONENT]
                seen.add(part)
                why = unsettled(kind, item, nodes)
                pods = self.all_pods(part)
                wanted = nodes if kind == "daemonsets" else item["spec"]["replicas"]
                if not why and len(pods) != wanted:
                    why = f"{len(pods)} pods, not {wanted}"
                why = why or next((f"{pod['metadata']['name']} {trouble}" for pod in pods if (trouble := pod_trouble(pod))), "")
                troubles += [f"{part} ({why})"] if why else []
        return [*troubles, *(part for part in PARTS if part not in seen)]

    def wait_settled(self, what: str) -> None:
        def settled() -> bool:
            troubles = self.moving()
            check(not troubles, ", ".join(troubles))
            return True
        wait_for(f"{what} to be through", settled)

    def missing(self) -> list[str]:
        return [*super().missing(), *self.moving()]

    def restarts(self, component: str) -> int:
        return sum(status["restartCount"] for pod in self.pods(component) for status in pod["status"].get("containerStatuses", []))

    def show(self) -> None:
        super().show()
        print(self.cluster.kubectl("get", "pods", "-A", "-o", "wide"), file=sys.stderr)
        for component in PARTS:
            print(self.cluster.kubectl("logs", "-n", chart.NAMESPACE, "-l", f"{COMPONENT}={component}", "--prefix", "--tail=15"),
                  file=sys.stderr)

    # ---- where it is ----

    def service(self, name: str) -> str:
        return self.cluster.request("GET", f"/api/v1/namespaces/{chart.NAMESPACE}/services/{name}")["spec"]["clusterIP"]

    def addresses(self, component: str) -> list[str]:
        """Of its pods, as far as they have one."""
        return [pod["status"]["podIP"] for pod in self.pods(component) if pod["status"].get("podIP")]

    def extender_url(self) -> str:
        return f"http://{self.service('kwatt-extender')}:9890"

    def replica_urls(self) -> list[str]:
        return [f"http://{address}:9890" for address in self.addresses("extender")]

    def recommender_urls(self) -> list[str]:
        return [f"http://{address}:9892" for address in self.addresses("recommender")]

    def agent_url(self, node: str) -> str:
        for pod in self.pods("agent"):
            if pod["spec"].get("nodeName") == node and pod["status"].get("podIP"):
                return f"http://{pod['status']['podIP']}:9891"
        raise Failure(f"no agent on {node}")

    def record(self, node: str, uid: str) -> str:
        return self.cluster.kubectl("exec", "-n", chart.NAMESPACE, "statefulset/kwatt-redis", "--", "redis-cli", "--user", "reader",
                                    "--no-auth-warning", "-a", self.reader_password(), "HMGET", f"kwatt:v1:pods:{{{node}}}", uid).strip()

    def reader_password(self) -> str:
        secret = self.cluster.request("GET", f"/api/v1/namespaces/{chart.NAMESPACE}/secrets/kwatt-redis")["data"]
        return base64.b64decode(secret["reader-password"]).decode()

    def reader_options(self) -> list:
        file = self.dir / "reader-password"
        file.touch(mode=0o600)
        file.write_text(self.reader_password())
        address = self.service("kwatt-redis")
        if address == "None":
            address = self.pods("redis")[0]["status"]["podIP"]
        return ["--redis", f"redis://{address}:6379", "--redis-user", "reader", "--redis-password-file", file]

    # ---- faults ----

    def patch(self, path: str, patch: dict) -> None:
        self.cluster.request("PATCH", path, patch, "application/strategic-merge-patch+json")

    @contextlib.contextmanager
    def without(self, part: str):
        component, _, node = part.partition("-")

        def of_part(pods: list[dict]) -> list[dict]:
            return [pod for pod in pods if not node or pod["spec"].get("nodeName") == node]
        there = of_part(self.pods(component))
        check(there, f"no pod of {part}")
        kind, name = {"redis": ("statefulsets", "kwatt-redis"), "agent": ("daemonsets", "kwatt-agent")}.get(
            component, ("deployments", f"kwatt-{component}"))
        path = f"/apis/apps/v1/namespaces/{chart.NAMESPACE}/{kind}/{name}"
        if node:
            # the pods of other nodes stay as they are, and are as they should be again when the old template is back
            strategy = self.cluster.request("GET", path)["spec"]["updateStrategy"]
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}]}}}
            away, back = ({"spec": {"updateStrategy": how, "template": {"spec": {"affinity": where}}}} for how, where in (
                ({"type": "OnDelete", "rollingUpdate": None}, affinity), (strategy, None)))
        else:
            away, back = ({"spec": {"replicas": count}} for count in (0, len(there)))
        self.patch(path, away)
        try:
            # its controller has to know first: it would replace what others end
            wait_for(f"{part} to be given up", lambda: not of_part(self.pods(component)))
            for pod in of_part(self.all_pods(component)):
                with contextlib.suppress(Failure):      # it may be gone already
                    self.cluster.request(
                        "DELETE", f"/api/v1/namespaces/{chart.NAMESPACE}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
            wait_for(f"{part} to be gone", lambda: not of_part(self.all_pods(component)))
            yield
        finally:
            self.patch(path, back)
        self.wait_settled(f"the return of {part}")
        self.wait_fresh()
