#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the real kube-scheduler sends to an extender, for tests/unit/extender/recorded.

usage: e2e/record_extender.py [FOLDER]     default: tests/unit/extender/recorded; KWATT_KUBERNETES=oldest for the oldest version

Real are etcd, kube-apiserver and kube-scheduler; nodes are objects. The scheduler asks an extender of this program's own, which lets
everything pass, once with nodeCacheCapable and once without, for: a pod with all that a pod can have; one that needs victims; and the
same when it is nominated. Bodies are kept byte for byte, but for times, unique ids and versions of objects, which are replaced by
ones of the same length, so that a recording made anew differs where the scheduler does. Written as VERSION/FORM_VERB_POD.json.
"""
import http.server
import json
import pathlib
import re
import sys
import threading
import traceback

from apiserver import ApiServer
from process import build, check, free_ports, wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMS = {"names": "true", "nodes": "false"}
TIME = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"')
UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VERSION = re.compile(rb'"resourceVersion":"\d+"')


class Server(ApiServer):
    programs = ("kube-apiserver", "kube-scheduler")
    # claims for devices: beta in the oldest version
    options = ("--feature-gates=DynamicResourceAllocation=true", "--runtime-config=api/all=true")


class Recorder(http.server.ThreadingHTTPServer):
    """An extender that lets everything pass and keeps what it is asked."""

    def __init__(self, port: int):
        super().__init__(("127.0.0.1", port), Handler)
        self.asked: list[tuple[str, bytes]] = []

    def find(self, verb: str, pod: str, nominated: bool = False) -> bytes | None:
        for asked, body in self.asked:
            about = json.loads(body)["Pod"]
            if (asked, about["metadata"]["name"]) == (verb, pod) and bool(about["status"].get("nominatedNodeName")) == nominated:
                return body
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def do_POST(self) -> None:
        verb = self.path.rsplit("/", 1)[1]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((verb, body))
        args = json.loads(body)
        if verb == "filter":
            answer = {"Nodes": args["Nodes"], "NodeNames": args["NodeNames"], "FailedNodes": {}, "Error": ""}
        elif verb == "prioritize":
            answer = []
        else:
            victims = args["NodeNameToMetaVictims"] or {
                node: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in each["Pods"]], "NumPDBViolations": each["NumPDBViolations"]}
                for node, each in args["NodeNameToVictims"].items()}
            answer = {"NodeNameToMetaVictims": victims}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_) -> None:
        pass


def node(number: int) -> dict:
    room = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi", "example.org/press": "2"}
    name = f"orchard-{number}"
    return {"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "north"},
        "annotations": {"note": "a \"quote\", a \\ and <tags> & \u00e9\u4e16\U0001f34e"}}, "status": {
            "capacity": room, "allocatable": room, "images": [
                {"names": [f"registry.example.org/press@sha256:{number:064x}", "registry.example.org/press:v1"], "sizeBytes": 123456789}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}]}}


def container(name: str, cpu: str, **more) -> dict:
    return {"name": name, "image": "registry.example.org/press:v1", "resources": {
        "requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": "4", "memory": "1Gi"}}, **more}


def plain(name: str, cpu: str, priority: str) -> dict:
    return {"metadata": {"name": name}, "spec": {"priorityClassName": priority, "terminationGracePeriodSeconds": 0,
                                                "automountServiceAccountToken": False, "containers": [container("main", cpu)]}}


def rich() -> dict:
    """One pod with what scheduling, volumes and devices know."""
    term = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["press"]}]},
            "topologyKey": "kubernetes.io/hostname"}
    return {"metadata": {"name": "rich", "labels": {"app": "press"}, "annotations": {
        "kwatt.io/placement": "efficient", "kwatt.io/expected-cpu": "750m", "text": "\u0000 is not allowed, \u0001\t\n\u2028 are"}}, "spec": {
            "priorityClassName": "high", "automountServiceAccountToken": False, "preemptionPolicy": "PreemptLowerPriority",
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "hostname": "rich", "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["north", "south"]}]}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": {"matchFields": [
                        {"key": "metadata.name", "operator": "NotIn", "values": ["orchard-9"]}]}}]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "namespaceSelector": {}}]}},
            "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {"key": "a", "value": "b"}],
            "topologySpreadConstraints": [{"maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable":
                                           "ScheduleAnyway", "labelSelector": term["labelSelector"]}],
            "resourceClaims": [{"name": "device", "resourceClaimName": "nothing"}],
            "initContainers": [container("first", "1500m"), container("proxy", "100m", restartPolicy="Always")],
            "containers": [container("main", "500m", env=[
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "TEXT", "value": "\u00e9 \"$(POD)\""}],
                lifecycle={"preStop": {"sleep": {"seconds": 1}}}, livenessProbe={"httpGet": {"path": "/", "port": 80}},
                volumeMounts=[{"name": "disk", "mountPath": "/disk"}]), container("side", "250m")],
            "volumes": [{"name": "disk", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec()}}},
                        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                        {"name": "all", "projected": {"sources": [{"downwardAPI": {"items": [
                            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}]}}


def claim_spec() -> dict:
    return {"accessModes": ["ReadWriteOnce"], "storageClassName": "later", "resources": {"requests": {"storage": "1Gi"}}}


class Scenario:
    def __init__(self, server: Server, form: str):
        self.server, self.form, self.namespace = server, form, form
        self.recorder = Recorder(free_ports(1)[0])
        threading.Thread(target=self.recorder.serve_forever, daemon=True).start()

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def start_scheduler(self):
        path = self.server.dir / f"scheduler-{self.form}.yaml"
        path.write_text(f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {self.server.kubeconfig}
leaderElection:
  leaderElect: false
extenders:
- urlPrefix: http://127.0.0.1:{self.recorder.server_port}
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  weight: 3
  nodeCacheCapable: {FORMS[self.form]}
  httpTimeout: 30s
""")
        return self.server.spawn("kube-scheduler", [
            str(self.server.bin / "kube-scheduler"), "--config", str(path), "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}", "--feature-gates=DynamicResourceAllocation=true"])

    def create(self, pod: dict) -> dict:
        return self.server.request("POST", self.pods, {"apiVersion": "v1", "kind": "Pod", **pod})

    def create_claims(self, pod: dict) -> None:
        """What controllers would make for the rich pod, none of which run."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "rich", "uid": pod["metadata"]["uid"], "controller": True}
        self.server.request("POST", f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims", {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "rich-disk", "ownerReferences": [owner]},
            "spec": claim_spec()})

    def record(self) -> dict[str, bytes]:
        versions = self.server.request("GET", "/apis/resource.k8s.io")["versions"]
        self.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.server.request("POST", f"/apis/{versions[0]['groupVersion']}/namespaces/{self.namespace}/resourceclaims",
                            {"metadata": {"name": "nothing"}, "spec": {"devices": {}}})
        for number in range(3):
            self.create(plain(f"low-{number}", "2500m", "low"))
        scheduler = self.start_scheduler()
        try:
            return self.ask()
        finally:
            scheduler.kill()
            scheduler.wait()
            self.recorder.shutdown()
            for pod in self.server.request("GET", self.pods)["items"]:
                self.delete(pod["metadata"]["name"])

    def delete(self, name: str) -> None:
        self.server.request("DELETE", f"{self.pods}/{name}", {"gracePeriodSeconds": 0})

    def wait(self, verb: str, pod: str, nominated: bool = False) -> bytes:
        return wait_for(f"{verb} of {pod}", lambda: self.recorder.find(verb, pod, nominated))

    def ask(self) -> dict[str, bytes]:
        wait_for("every low pod to be placed", lambda: all(
            pod["spec"].get("nodeName") for pod in self.server.request("GET", self.pods)["items"]))
        self.create_claims(self.create(rich()))
        kept = {f"{verb}_rich": self.wait(verb, "rich") for verb in ("filter", "prioritize")}
        self.create(plain("high", "3", "high"))
        kept["preempt_high"] = self.wait("preempt", "high")
        kept["filter_nominated"] = self.wait("filter", "high", nominated=True)
        return {f"{self.form}_{name}": body for name, body in kept.items()}


def trimmed(body: bytes) -> bytes:
    seen: dict[bytes, bytes] = {}

    def uid(found: re.Match) -> bytes:
        return seen.setdefault(found[0], b"00000000-0000-4000-8000-%012d" % len(seen))
    body = TIME.sub(b'"2026-01-01T00:00:00Z"', body)
    return VERSION.sub(b'"resourceVersion":"1"', UID.sub(uid, body))


def record(folder: pathlib.Path) -> None:
    with Server() as server:
        version = server.request("GET", "/version")["gitVersion"]
        for name, value in (("low", 1), ("high", 1000)):
            server.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
        server.request("POST", "/apis/storage.k8s.io/v1/storageclasses", {
            "metadata": {"name": "later"}, "provisioner": "example.org/none", "volumeBindingMode": "WaitForFirstConsumer"})
        for number in range(3):
            server.request("POST", "/api/v1/nodes", node(number))
            # nobody calls it ready, and admission has tainted it
            server.request("PATCH", f"/api/v1/nodes/orchard-{number}", {"spec": {"taints": None}}, "application/merge-patch+json")
        for form in FORMS:
            for name, body in Scenario(server, form).record().items():
                path = folder / version / f"{name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(trimmed(body))
                print(f"{path}: {path.stat().st_size} bytes")


def main() -> int:
    if sys.argv[1:2] in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    check(len(sys.argv) <= 2, "one folder at most")
    try:
        record(pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else ROOT / "tests/unit/extender/recorded")
    except build.Missing as error:
        return build.end(error)
    except Exception:  # the logs of the programs were shown
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
