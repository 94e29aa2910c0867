#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kwatt as a user installs it: the image of deploy/Dockerfile, the chart as shipped, on a real cluster of two nodes.

The agent accounts with eBPF from a pod that has nothing but the documented capabilities; the cluster's scheduler asks the extender
at the address that `kwatt scheduler-config` found; a second scheduler places what names it; `helm test` passes; an upgrade keeps
passwords and data; with TLS the scheduler shows a certificate, and places on the efficient node; an uninstallation leaves nothing.
"""
import base64
import json
import os
import pathlib
import re
import sys
import tarfile
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import chart  # noqa: E402  (shared modules stand one folder up)
import image  # noqa: E402
import image_parts  # noqa: E402
from archive import TOOL  # noqa: E402
from cluster import Cluster  # noqa: E402
from installed import Installed, parts_of  # noqa: E402
from kwatt import PATIENCE  # noqa: E402
from process import Failure, build, check, wait_for  # noqa: E402

USER = 65532
# Watts a core of two models, for nodes that have no meter: node1 is the better server.
MODELS = {"node1": 9, "node2": 34}


class AsUser(Installed):
    """With the chart's own values as far as this machine can: no meter that tests made, Redis on a volume."""

    def __init__(self, cluster: Cluster):
        super().__init__(cluster)
        self.dir.mkdir()
        self.image = self.load()
        scheduler = image_parts.scheduler(self.dir, cluster.bin)
        for node in cluster.nodes:
            node.load(scheduler)
        self.plain = self.base_values(self.image) | {"scheduler": {"image": parts_of(image_parts.SCHEDULER)}}
        self.plain["agent"]["config"]["meter"] = "model"
        self.pki: pathlib.Path | None = None    # files of who asks; None: kwatt serves plain HTTP

    def ask(self, component: str, address: str, port: int, path: str, *more: object, shown: bool = True) -> str:
        """What a pod answers by HTTPS, and its status on a line of its own; shown: with a client certificate."""
        name = f"kwatt-{component}.{chart.NAMESPACE}.svc"
        keys = ["--cert", self.pki / "tls.crt", "--key", self.pki / "tls.key"] if shown else []
        return self.control.run("curl", "--silent", "--show-error", "--cacert", self.pki / "ca.crt", *keys, "--connect-to",
                                f"{name}:{port}:{address}:{port}", "--write-out", "\n%{http_code}", *more, f"https://{name}:{port}{path}")

    def pages(self, component: str, port: int) -> list[str]:
        if self.pki is None:
            return [self.cluster.get(f"http://{address}:{port}/metrics") for address in self.addresses(component)]
        return [self.ask(component, address, port, "/metrics") for address in self.addresses(component)]

    def value(self, component: str, port: int, name: str) -> float:
        """Sum over the component's pods of a metric's series."""
        return sum(float(line.rsplit(" ", 1)[1]) for page in self.pages(component, port) for line in page.splitlines()
                   if line.startswith(name))

    def answered(self) -> float:
        """How often a scheduler was told scores."""
        return self.value("extender", 9890, 'kwatt_extender_requests_total{verb="prioritize",outcome="ok"}')

    def passwords(self) -> str:
        return self.cluster.kubectl("get", "secret", "kwatt-redis", "-n", chart.NAMESPACE, "-o", "jsonpath={.data}")

    def create(self, name: str, cpu: str, **more: str) -> dict:
        pod = {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1, **more, "containers": [
            {"name": "main", "image": TOOL, "imagePullPolicy": "Never", "args": ["0"], "resources": {"requests": {"cpu": cpu}}}]}}
        self.cluster.request("POST", "/api/v1/namespaces/default/pods", pod)
        return pod

    def delete(self, name: str) -> None:
        self.cluster.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")

    def place(self, name: str, scheduler: str = "default-scheduler") -> str:
        """Creates a pod, waits until it is bound, removes it. Returns its node."""
        self.create(name, "100m", schedulerName=scheduler)
        node = self.cluster.until(f"pod {name} to be placed", f"/api/v1/namespaces/default/pods/{name}",
                                  lambda pod: pod["spec"].get("nodeName"))
        self.delete(name)
        return node

    def configure_scheduler(self, *options: object) -> None:
        """The cluster's own, by what the command prints, which has asked the extender itself first."""
        self.cluster.start_scheduler(self.control.run(chart.BUILD / "cli/kwatt", "scheduler-config", "--check", "--http-timeout", PATIENCE,
                                                     *options))


def image_is_as_promised(made: image.Image) -> None:
    check(made.size_bytes <= image.LIMIT_BYTES, f"the image has {made.size_bytes >> 20} MiB")
    packages = {each["name"]: each for each in json.loads(made.sbom.read_text())["packages"]}
    for name in ("kwatt", "libc6", "libcurl4", "libmicrohttpd12", "libbpf1", "ca-certificates"):
        check(packages.get(name, {}).get("versionInfo"), f"the bill of materials lacks {name}")
    with tarfile.open(made.archive) as archive:
        about = json.load(archive.extractfile("manifest.json"))[0]
        config = json.load(archive.extractfile(about["Config"]))["config"]
        names = [member.name for layer in about["Layers"]
                 for member in tarfile.open(fileobj=archive.extractfile(layer)) if not member.isdir()]
    check(config["User"] == "65532:65532" and not config.get("Entrypoint"), f"the image runs as {config['User']}")
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    wanted = {"title": "kwatt", "revision": made.commit, "version": image.version()}
    check(wanted.items() <= labels.items(), f"labels: {labels}")
    programs = {pathlib.Path(name).name for name in names if re.match(r"(\./)?(usr/)?s?bin/", name)}
    check(programs == {path.name for path in chart.programs()}, f"programs in the image: {programs}")
    check(not [name for name in names if "asan" in name], "the image holds a sanitizer")
    print(f"ok image of {made.size_bytes / 1e6:.1f} MB, {len(packages)} packages")


def installs(it: AsUser) -> None:
    it.put("install", it.plain)
    check(len(it.pods("agent")) == 2 and len(it.pods("extender")) == 2, "an agent on each node, two extenders")
    check(len({pod["spec"]["nodeName"] for pod in it.pods("extender")}) == 2, "the extenders are on one node")
    for page in it.pages("agent", 9891):
        about = re.search(r"^kwatt_agent_info\{(.*)\} 1", page, re.M)[1]
        check('accounting="ebpf"' in about, f"the agent does not account with eBPF in its pod: {about}")
        check(f'revision="{it.image.commit}"' in page, "the image has another commit than it was built from")
    working = re.compile(r"^kwatt_pod_cpu_seconds_total\{[^}]*\} 0\.[0-9]*[1-9]", re.M)
    wait_for("each agent to see a pod at work on its node", lambda: len(
        [page for page in it.pages("agent", 9891) if working.search(page)]) == 2)
    wait_for("the extenders to know both nodes", lambda: it.value("extender", 9890, "kwatt_extender_nodes ") == 4)
    check(it.value("recommender", 9892, "kwatt_recommender_api_errors_total ") == 0, "the recommender's role is too narrow")
    tested = it.helm("test", chart.RELEASE, "--timeout", "10m")
    check("Phase:          Succeeded" in tested, f"helm test:\n{tested}")


def is_asked(it: AsUser) -> None:
    """By the cluster's scheduler, over the address that the command found."""
    it.configure_scheduler("--kubeconfig", it.cluster.dir / "admin.kubeconfig")
    before = it.answered()
    it.place("asked")
    wait_for("the scheduler to ask", lambda: it.answered() > before)


def upgrades(it: AsUser) -> None:
    before, old = it.passwords(), it.answered()
    claim = it.cluster.kubectl("get", "pvc", "-n", chart.NAMESPACE, "-o", "jsonpath={.items[*].metadata.uid}")
    check(claim, "Redis has no volume")
    agent = it.plain["agent"]
    it.put("upgrade", it.plain | {"scheduler": {**it.plain["scheduler"], "enabled": True},
                                  "agent": {**agent, "config": {**agent["config"], "interval": "2s"}}})
    check(it.passwords() == before, "an upgrade changed passwords")
    check(it.cluster.kubectl("get", "pvc", "-n", chart.NAMESPACE, "-o", "jsonpath={.items[*].metadata.uid}") == claim, "the data is new")
    it.place("second", "kwatt-scheduler")
    wait_for("the second scheduler to ask", lambda: it.answered() > old)


def client_files(it: AsUser) -> pathlib.Path:
    """Of the Secret for who asks, as the installation's notes say."""
    data = it.cluster.request("GET", f"/api/v1/namespaces/{chart.NAMESPACE}/secrets/kwatt-client-tls")["data"]
    folder = it.dir / "pki"
    folder.mkdir(mode=0o700)
    for file in ("ca.crt", "tls.crt", "tls.key"):
        (folder / file).write_bytes(base64.b64decode(data[file]))
    return folder


def with_models(it: AsUser) -> dict:
    """The agent's values with a model for each node, so that one is the efficient server."""
    folder = it.dir / "models"
    folder.mkdir()
    for node, watts in MODELS.items():
        (folder / f"{node}.yaml").write_text(f"interval: 1s\nmeter: model\nidleWatts: 30\nfullWatts: {30 + watts * os.cpu_count()}\n")
    agent = it.plain["agent"]
    return {**agent, "extraArgs": [*agent["extraArgs"], "--config=/models/$(KWATT_NODE_NAME).yaml"],
            "extraVolumes": [{"name": "models", "hostPath": {"path": str(folder), "type": "Directory"}}],
            "extraVolumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": True}]}


def serves_tls(it: AsUser) -> None:
    """To who shows a certificate of the chart's authority; the cluster's scheduler does, and heeds the answer."""
    it.put("upgrade", it.plain | {"tls": {"enabled": True}, "agent": with_models(it)})
    it.pki = client_files(it)
    for component, port in (("agent", 9891), ("extender", 9890), ("recommender", 9892)):
        for address in it.addresses(component):
            refused = it.ask(component, address, port, "/metrics", shown=False)
            check(refused.endswith("\n403"), f"a client without a certificate gets of the {component}: {refused}")
            check(it.ask(component, address, port, "/healthz", shown=False) == "ok\n\n200", f"no probe of the {component}")
    tested = it.helm("test", chart.RELEASE, "--timeout", "10m")
    check("Phase:          Succeeded" in tested, f"helm test:\n{tested}")

    # requests make the wasteful node the emptier one, which the scheduler's own plugins prefer
    requests = it.create("requests", "400m", nodeName="node1")
    question = json.dumps({"Pod": requests, "Nodes": None, "NodeNames": list(MODELS)})
    wanted = [{"Host": "node1", "Score": 10}, {"Host": "node2", "Score": 0}]

    def known() -> bool:
        answers = [it.ask("extender", address, 9890, "/prioritize", "--data", question) for address in it.addresses("extender")]
        check(all(json.loads(answer.split("\n")[0]) == wanted for answer in answers), f"they say {answers}")
        return True
    wait_for("both extenders to know the efficient node", known)
    it.configure_scheduler("--kubeconfig", it.cluster.dir / "admin.kubeconfig", "--ca-file", it.pki / "ca.crt",
                           "--cert-file", it.pki / "tls.crt", "--key-file", it.pki / "tls.key")
    before = it.answered()
    chosen = it.place("by-tls")
    check(chosen == "node1", f"the wasteful node was chosen:\n{it.control.log('kube-scheduler')[-1500:]}")
    wait_for("the scheduler to ask", lambda: it.answered() > before)
    it.delete("requests")


def serves_beside_the_scheduler(it: AsUser) -> None:
    """By plain HTTP again, on control plane nodes, at a port of theirs that only they reach."""
    it.pki = None
    it.cluster.kubectl("label", "node", "node1", "node-role.kubernetes.io/control-plane=")
    it.put("upgrade", it.plain | {"extender": {"replicas": 1, "controlPlane": True, "hostPort": {"enabled": True}}})
    check([pod["spec"]["nodeName"] for pod in it.pods("extender")] == ["node1"], "the extender is not on the control plane")
    wait_for("the port of the node", lambda: it.cluster.get("http://127.0.0.1:9890/healthz"))
    it.configure_scheduler("--extender-url", "http://127.0.0.1:9890")
    before = it.answered()
    it.place("beside")
    wait_for("the scheduler to ask", lambda: it.answered() > before)


def leaves_nothing(it: AsUser) -> None:
    it.helm("uninstall", chart.RELEASE, "--wait", "--timeout", "10m")
    kinds = [kind for kind in it.cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
             if not kind.startswith("events")]
    for label in ("app.kubernetes.io/part-of=kwatt", "app.kubernetes.io/instance=kwatt"):
        words = ("get", ",".join(kinds), "-A", "-l", label, "-o", "name")
        wait_for("everything to go", lambda words=words: not it.cluster.kubectl(*words).strip())


def volume(folder: pathlib.Path) -> str:
    """A volume without a storage class, as a cluster's administrator would offer one."""
    (folder / "volume").mkdir()
    os.chown(folder / "volume", USER, USER)     # an fsGroup does not reach into a host's folder
    return json.dumps({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "redis"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder / "volume")}}})


def scenario(folder: pathlib.Path) -> None:
    with Cluster(folder / "c") as cluster:
        cluster.up(2)
        cluster.apply_vpa_crd()
        cluster.apply(volume(folder))
        it = AsUser(cluster)
        for step in (installs, is_asked, upgrades, serves_tls, serves_beside_the_scheduler, leaves_nothing):
            begin = time.monotonic()
            try:
                step(it)
            except Exception:
                print(cluster.kubectl("get", "pvc,svc", "-A", "-o", "wide"), file=sys.stderr)
                print(cluster.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp")[-6000:], file=sys.stderr)
                it.show()
                raise
            print(f"ok {step.__name__} ({time.monotonic() - begin:.0f} s)", flush=True)


def main() -> int:
    try:
        image_is_as_promised(image.kwatt())
        with tempfile.TemporaryDirectory(prefix="kwi-") as folder:      # short: unix sockets lie in it
            scenario(pathlib.Path(folder))
    except build.Missing as error:
        return build.end(error)
    except (Exception, Failure):  # whatever it is, the test failed by it
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
