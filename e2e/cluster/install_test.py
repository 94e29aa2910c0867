#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kwatt as a user installs it: the image of deploy/Dockerfile, the chart as shipped, on a real cluster of two nodes.

The agent accounts with eBPF from a pod that has nothing but the documented capabilities; the cluster's scheduler asks the extender
at the address that `kwatt scheduler-config` found; a second scheduler places what names it; `helm test` passes; an upgrade keeps
passwords and data; an uninstallation leaves nothing.
"""
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
from process import Failure, build, check, wait_for  # noqa: E402

USER = 65532


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

    def pages(self, component: str, port: int) -> list[str]:
        return [self.cluster.get(f"http://{address}:{port}/metrics") for address in self.addresses(component)]

    def value(self, component: str, port: int, name: str) -> float:
        """Sum over the component's pods of a metric's series."""
        return sum(float(line.rsplit(" ", 1)[1]) for page in self.pages(component, port) for line in page.splitlines()
                   if line.startswith(name))

    def answered(self) -> float:
        """How often a scheduler was told scores."""
        return self.value("extender", 9890, 'kwatt_extender_requests_total{verb="prioritize",outcome="ok"}')

    def passwords(self) -> str:
        return self.cluster.kubectl("get", "secret", "kwatt-redis", "-n", chart.NAMESPACE, "-o", "jsonpath={.data}")

    def place(self, name: str, scheduler: str) -> None:
        """Creates a pod, waits until it is bound, removes it."""
        self.cluster.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": {
            "schedulerName": scheduler, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": TOOL, "imagePullPolicy": "Never", "args": ["0"]}]}})
        self.cluster.until(f"pod {name} to be placed", f"/api/v1/namespaces/default/pods/{name}",
                           lambda pod: pod["spec"].get("nodeName"))
        self.cluster.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")


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
    tested = it.helm("test", chart.RELEASE, "--timeout", "3m")
    check("Phase:          Succeeded" in tested, f"helm test:\n{tested}")


def is_asked(it: AsUser) -> None:
    """By the cluster's scheduler, over the address that the command found."""
    before = it.answered()
    text = it.control.run(chart.BUILD / "cli/kwatt", "scheduler-config", "--check", "--kubeconfig", it.cluster.dir / "admin.kubeconfig")
    it.cluster.start_scheduler(text)
    it.place("asked", "default-scheduler")
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


def serves_beside_the_scheduler(it: AsUser) -> None:
    """On control plane nodes, at a port of theirs that only they reach."""
    it.cluster.kubectl("label", "node", "node1", "node-role.kubernetes.io/control-plane=")
    it.put("upgrade", it.plain | {"extender": {"replicas": 1, "controlPlane": True, "hostPort": {"enabled": True}}})
    check([pod["spec"]["nodeName"] for pod in it.pods("extender")] == ["node1"], "the extender is not on the control plane")
    wait_for("the port of the node", lambda: it.cluster.get("http://127.0.0.1:9890/healthz"), 30)
    it.control.run(chart.BUILD / "cli/kwatt", "scheduler-config", "--check", "--extender-url", "http://127.0.0.1:9890")


def leaves_nothing(it: AsUser) -> None:
    it.helm("uninstall", chart.RELEASE, "--wait", "--timeout", "3m")
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
        for step in (installs, is_asked, upgrades, serves_beside_the_scheduler, leaves_nothing):
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
