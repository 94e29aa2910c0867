# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver and kube-scheduler, a redis-server and kwatt-extenders around a few nodes that are objects without kubelets:
what tests of the extender on the real scheduler have in common. Each inherits Rig, says what its agents publish, and lists its parts.
"""
import os
import pathlib
import subprocess

import apiserver
import extender_rig
from process import check, wait_for

KWATT = os.path.join(extender_rig.BUILD, "cli", "kwatt")
PODS = "/api/v1/namespaces/default/pods"
PATCH = "application/merge-patch+json"
VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}


class Server(apiserver.ApiServer):
    programs = ("kube-apiserver", "kubectl", "kube-scheduler")


class Rig:
    cpu = "64"      # of each node

    def __init__(self, server: Server):
        self.server = server
        self.redis = extender_rig.Redis(str(server.dir))
        self.redis.start()
        self.seq = 0
        self.extenders: dict[str, extender_rig.Extender] = {}
        self.scheduler: subprocess.Popen | None = None

    def publish(self) -> None:
        """What the agents say of their nodes by now."""
        raise NotImplementedError

    # ---- the cluster ----

    def add_node(self, name: str, **metadata: dict[str, str]) -> None:
        room = {"cpu": self.cpu, "memory": "512Gi", "pods": "1000"}
        self.server.request("POST", "/api/v1/nodes", {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata},
            "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}})
        # tainted until a controller, which does not run here, has seen it ready
        self.server.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, PATCH)

    def pod(self, name: str, cpu: str, affinity: dict | None = None, **annotations: str) -> str:
        self.server.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": {
            "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0, "affinity": affinity,
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}})
        return name

    def delete(self, name: str) -> None:
        self.server.request("DELETE", f"{PODS}/{name}", {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def node_of(self, name: str) -> str | None:
        return self.server.request("GET", f"{PODS}/{name}")["spec"].get("nodeName")

    def wait(self, what: str, fact, seconds: float = 120):
        """While the agents publish."""
        return wait_for(what, lambda: self.publish() or fact(), seconds)

    def placed(self, name: str, seconds: float = 120) -> str:
        """Well below the five minutes after which the scheduler tries rejected pods by itself."""
        return self.wait(f"{name} to be placed", lambda: self.node_of(name), seconds)

    # ---- what runs beside it ----

    def start_extender(self, name: str, kubeconfig: str, *options: str) -> extender_rig.Extender:
        folder = self.server.dir / name
        folder.mkdir(exist_ok=True)
        self.extenders[name] = extender_rig.Extender(str(folder), self.redis.path, "--kubeconfig", kubeconfig, "--stale-after", "1h", *options)
        return self.extenders[name]

    def start_scheduler(self, text: str) -> None:
        """@param text its configuration."""
        path = self.server.dir / "scheduler.yaml"
        path.write_text(f"{text}\nleaderElection:\n  leaderElect: false\n")
        self.scheduler = self.server.spawn("kube-scheduler", [
            str(self.server.bin / "kube-scheduler"), "--config", str(path), "--bind-address", "127.0.0.1", "--secure-port", "0"])

    def asking(self, **verbs: str) -> str:
        """A configuration by which each extender is asked about every pod: the scheduler keeps asking one, so all are configured."""
        extenders = "".join(f"- urlPrefix: http://127.0.0.1:{extender.port}\n  nodeCacheCapable: true\n  httpTimeout: 30s\n  weight: 1\n"
                            + "".join(f"  {verb}: {path}\n" for verb, path in (verbs or VERBS).items()) for extender in self.extenders.values())
        return ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 100\n"
                f"clientConnection:\n  kubeconfig: {self.server.kubeconfig}\nextenders:\n{extenders}")

    def metric(self, name: str) -> float:
        """All extenders together."""
        return sum(extender.metric(f"kwatt_extender_{name}") or 0 for extender in self.extenders.values())

    def close(self) -> None:
        for process in [self.scheduler, *(extender.process for extender in self.extenders.values())]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.redis.kill()


def run(make, *parts, server=Server) -> int:
    """The main of a test: make(server) gives the rig, on which the parts are run. Extenders that run at the end have to end well, and
    what they logged is shown where something fails. Returns the exit code."""
    def test(running: apiserver.ApiServer) -> None:
        rig = make(running)
        try:
            for part in parts:
                part(rig)
            for extender in rig.extenders.values():
                check(extender.process.poll() is not None or extender.stop() == 0, extender.log())
        except BaseException:
            for extender in rig.extenders.values():
                print(extender.log())
            raise
        finally:
            rig.close()

    assert pathlib.Path(extender_rig.PROGRAM).is_file(), extender_rig.PROGRAM
    return apiserver.run(test, kind=server)
