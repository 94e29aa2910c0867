#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chart against a real API server: every switch passes its schema, an installation keeps its passwords over upgrades and leaves
nothing behind, and the programs get on with the roles and the Redis users that it makes: no more than they need, and no less.
"""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import apiserver
import chart
from process import Failure, call, check, die_with_parent, free_ports, need, wait_for

MONITORS = {"PodMonitor": "podmonitors", "ServiceMonitor": "servicemonitors"}
PRIVILEGES = ["BPF", "PERFMON", "DAC_READ_SEARCH"]
USERS = ["agent", "extender", "recommender", "reader", "probe"]


def monitor_crds() -> str:
    """As much of the Prometheus operator as an object of it needs to be taken."""
    def crd(kind: str, plural: str) -> dict:
        spec = {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.monitoring.coreos.com"}, "spec": spec}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [crd(*pair) for pair in MONITORS.items()]})


class Chart:
    def __init__(self, server: apiserver.ApiServer, folder: pathlib.Path):
        self.server, self.folder = server, folder
        self.helm = chart.Helm(folder, server.kubeconfig)

    def objects(self, case: dict) -> dict[str, dict]:
        """What the API server makes of a case, without keeping it: "Kind/name" -> object."""
        text = self.server.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", "-o", "json",
                                   stdin=self.helm.rendered(case))
        return {f"{item['kind']}/{item['metadata']['name']}": item for item in json.loads(text)["items"]}

    def left(self) -> list[str]:
        """What of the release is in the cluster, of every kind there is."""
        kinds = self.server.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        found = self.server.kubectl("get", ",".join(kinds), "-A", "-l", "app.kubernetes.io/part-of=kwatt", "-o", "name")
        return found.split()


def pod_of(item: dict) -> dict:
    return item["spec"] if item["kind"] == "Pod" else item["spec"]["template"]["spec"]


def every_switch_is_valid(made: Chart) -> None:
    for name, case in chart.CASES.items():
        try:
            objects = made.objects(case)
        except Failure as error:
            raise Failure(f"case {name}: {error}") from error
        for key, item in objects.items():
            if item["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "Pod"):
                least_privilege(name, key, pod_of(item))
    print(f"ok {len(chart.CASES)} cases pass the API server's schema")


def least_privilege(case: str, key: str, pod: dict) -> None:
    where = f"case {case}: {key}"
    agent, asked = key.startswith("DaemonSet/"), chart.CASES[case].get("agent.config", {})
    sees = agent and (chart.CASES[case].get("agent.hostPID", False) or asked.get("metricsProcesses", 0) > 0)
    limits = agent and asked.get("enforceCap", {}).get("watts", 0) > 0
    check(not pod.get("hostNetwork") and not pod.get("hostIPC"), f"{where} is in the host's namespaces")
    check(pod.get("hostPID", False) == sees, f"{where} sees the host's processes, or does not where it is asked to")
    check(pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, f"{where} has no seccomp profile")
    names = asked.get("pods") != "off"
    config = chart.CASES[case].get("extender.config", {})
    pods = config.get("watchPods", True) or config.get("watchNodes", False)
    calls = (any(word in key for word in ("recommender", "kwatt-scheduler")) or (agent and names)
             or (key.startswith("Deployment/") and "extender" in key and pods))
    check(pod.get("automountServiceAccountToken") == calls, f"{where}: who calls the API server has a token, and nobody else")
    writable = {"data", "tmp"} | ({"powercap", "former-limits"} if limits else set())
    for container in pod["containers"]:
        rights = container["securityContext"]
        check(rights["readOnlyRootFilesystem"] and rights["allowPrivilegeEscalation"] is False, f"{where} may write or rise")
        added = chart.CASES[case].get("agent.capabilities", PRIVILEGES) if agent else None
        check(rights["capabilities"] == {"drop": ["ALL"], **({"add": added} if added else {})}, f"{where}: capabilities {rights}")
        check(agent or pod["securityContext"]["runAsNonRoot"], f"{where} may be root")
        check(container["resources"].get("limits", {}).get("memory"), f"{where} has no memory limit")
        check(key.startswith("Pod/") or "livenessProbe" in container and "readinessProbe" in container, f"{where} has no probes")
        for mount in container.get("volumeMounts", []):
            check(mount.get("readOnly") or mount["name"] in writable, f"{where}: {mount['name']} is writable")


def defaults_are_as_documented(made: Chart) -> None:
    objects = made.objects({})
    agent = objects["DaemonSet/kwatt-agent"]["spec"]["template"]["spec"]
    check(agent["priorityClassName"] == "system-node-critical", "the agent's priority")
    check(agent["tolerations"] == [{"operator": "Exists"}], "the agent runs everywhere")
    extender = objects["Deployment/kwatt-extender"]["spec"]
    check(extender["replicas"] == 2 and "podAntiAffinity" in extender["template"]["spec"]["affinity"], "two extenders apart")
    check("PodDisruptionBudget/kwatt-extender" in objects, "a budget for the extender")
    others = [key for key in objects if key.startswith(("ClusterRole", "Role"))
              and not any(name in key for name in ("recommender", "agent", "extender"))]
    check(not others, f"only the recommender, the agent and the extender have a role, and {others}")
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    kubelet = {"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}
    for case, rules in (("default", [kubelet, pods]), ("pods-of-kubelet", [kubelet]), ("pods-of-api", [pods])):
        role = made.objects(chart.CASES[case])["ClusterRole/kwatt-kwatt-agent"]
        check(role["rules"] == rules, f"case {case}: the agent may {role['rules']}")
    check("ClusterRole/kwatt-kwatt-agent" not in made.objects(chart.CASES["no-pods"]), "an agent that asks nobody has a role")
    check(objects["ClusterRole/kwatt-kwatt-extender"]["rules"] == [pods], "the extender may more than see pods")
    check("ClusterRole/kwatt-kwatt-extender" not in made.objects(chart.CASES["no-watch"]), "an extender that asks nobody has a role")
    role = objects["ClusterRole/kwatt-kwatt-recommender"]["rules"]
    shipped = made.server.kubectl("create", "--dry-run=client", "-o", "json", "-f",
                                  str(chart.build.ROOT / "deploy/vpa/rbac.yaml"))
    decoder, rules = json.JSONDecoder(), None
    while shipped.strip():      # one document after the other
        item, end = decoder.raw_decode(shipped.lstrip())
        shipped = shipped.lstrip()[end:]
        for each in item.get("items", [item]):
            rules = each["rules"] if each["kind"] == "ClusterRole" else rules
    check(role == rules, "the chart's role of the recommender is not that of deploy/vpa/rbac.yaml")
    lease = objects["Role/kwatt-recommender"]["rules"]
    check([(rule["resources"], rule["verbs"], rule.get("resourceNames")) for rule in lease]
          == [(["leases"], ["create"], None), (["leases"], ["get", "update"], ["kwatt-recommender"])], f"the role for the Lease: {lease}")
    recommender = objects["Deployment/kwatt-recommender"]["spec"]
    check(recommender["replicas"] == 2 and "podAntiAffinity" in recommender["template"]["spec"]["affinity"], "two recommenders apart")
    check(recommender["strategy"]["type"] == "RollingUpdate" and "PodDisruptionBudget/kwatt-recommender" in objects, "their life")
    alone = made.objects(chart.CASES["recommender-alone"])
    check(alone["Deployment/kwatt-recommender"]["spec"]["strategy"]["type"] == "Recreate", "two at once without a Lease")
    check("Role/kwatt-recommender" not in alone and "PodDisruptionBudget/kwatt-recommender" not in alone, "what one does not need")
    bound = made.objects(chart.CASES["recommender"])
    check(bound["Role/kwatt-kwatt-recommender"]["metadata"]["namespace"] == "default", "one namespace, one role in it")
    print("ok defaults, roles")


def secret(made: Chart) -> dict[str, str]:
    item = json.loads(made.server.kubectl("get", "secret", "kwatt-redis", "-n", chart.NAMESPACE, "-o", "json"))
    return {key: base64.b64decode(value).decode() for key, value in item["data"].items()}


def certificates_are_kept(made: Chart) -> None:
    """Over upgrades; but one whose names change is made anew, by the same authority."""
    def held(component: str) -> dict[str, str]:
        return json.loads(made.server.kubectl("get", "secret", f"kwatt-{component}-tls", "-n", chart.NAMESPACE, "-o", "json"))["data"]

    def upgrade(**more: object) -> dict[str, dict[str, str]]:
        made.helm.run("upgrade", chart.RELEASE, chart.CHART, "-n", chart.NAMESPACE, *made.helm.values({"tls.enabled": True, **more}))
        return {component: held(component) for component in ("authority", "agent", "extender", "recommender", "client")}
    first = upgrade()
    check(first["extender"]["ca.crt"] == first["authority"]["tls.crt"], "certificates of another authority")
    check(upgrade() == first, "an upgrade changed certificates")
    moved = upgrade(**{"extender.hostPort.enabled": True, "extender.hostPort.hostIP": "127.0.0.2"})
    check(moved["extender"]["tls.crt"] != first["extender"]["tls.crt"], "the extender's certificate has not its new address")
    check({**moved, "extender": 0} == {**first, "extender": 0}, "other certificates changed with the extender's")
    check(moved["extender"]["ca.crt"] == first["extender"]["ca.crt"], "the authority changed")
    notes = made.helm.run("get", "notes", chart.RELEASE, "-n", chart.NAMESPACE)
    check("get secret kwatt-client-tls" in notes and "--key-file /etc/kubernetes/kwatt/tls.key" in notes, f"notes without HTTPS:\n{notes}")
    done = subprocess.run([chart.BUILD / "cli/kwatt", "scheduler-config", "--kubeconfig", made.server.kubeconfig, "--ca-file", "/ca.crt"],
                          check=False, capture_output=True, text=True)
    check("urlPrefix: https://" in done.stdout and "serverName: kwatt-extender.kwatt.svc" in done.stdout,
          f"scheduler-config of an HTTPS Service: {done.stdout}{done.stderr}")


def life(made: Chart) -> dict[str, str]:
    """Install, upgrade, roll back, uninstall. Returns what the Secret held."""
    made.helm.run("install", chart.RELEASE, chart.CHART, "-n", chart.NAMESPACE)
    first = secret(made)
    check(sorted(first) == sorted([f"{user}-password" for user in USERS] + ["users.acl"]), f"the Secret holds {sorted(first)}")
    check(len({first[f"{user}-password"] for user in USERS}) == len(USERS), "each user has a password of its own")
    check(not any(first[f"{user}-password"] in first["users.acl"] for user in USERS), "the rules hold hashes, not passwords")
    made.helm.run("upgrade", chart.RELEASE, chart.CHART, "-n", chart.NAMESPACE,
                  *made.helm.values({"agent.config": {"interval": "2s"}, "scheduler.enabled": True, "extender.replicas": 3}))
    check(secret(made) == first, "an upgrade changed passwords")
    text = made.server.kubectl("get", "cm", "kwatt-agent", "-n", chart.NAMESPACE, "-o", "jsonpath={.data}")
    check("interval: 2s" in text, "an upgrade did not bring its values")
    made.helm.run("rollback", chart.RELEASE, "1", "-n", chart.NAMESPACE)
    check(secret(made) == first, "a rollback changed passwords")
    notes = made.helm.run("get", "notes", chart.RELEASE, "-n", chart.NAMESPACE)
    for text in ("NEXT STEP", "kubectl kwatt scheduler-config --namespace kwatt"):
        check(text in notes, f"notes do not tell the next step:\n{notes}")
    found = subprocess.run([chart.BUILD / "cli/kwatt", "scheduler-config", "--kubeconfig", made.server.kubeconfig], check=False,
                           capture_output=True, text=True)
    address = made.server.kubectl("get", "svc", "kwatt-extender", "-n", chart.NAMESPACE, "-o", "jsonpath={.spec.clusterIP}")
    check(f"urlPrefix: http://{address}:9890\n" in found.stdout, f"scheduler-config finds no Service: {found.stdout}{found.stderr}")
    certificates_are_kept(made)
    made.helm.run("uninstall", chart.RELEASE, "-n", chart.NAMESPACE)
    # Kubernetes' own controllers, which do not run here, would remove what they made; the chart's objects go at once
    wait_for("everything to go", lambda: not made.left(), 30)
    lost = subprocess.run([chart.BUILD / "cli/kwatt", "scheduler-config", "--kubeconfig", made.server.kubeconfig], check=False,
                          capture_output=True, text=True)
    check(lost.returncode == 1 and "no Service of kwatt's extender" in lost.stderr, f"scheduler-config after all: {lost.stderr}")
    print("ok install, upgrade, rollback, uninstall")
    return first


class Live:
    """A real redis-server with the chart's configuration and users, and the programs with theirs."""

    def __init__(self, made: Chart, passwords: dict[str, str]):
        self.made, self.folder, self.passwords = made, made.folder, passwords
        self.processes: list[subprocess.Popen] = []
        self.redis_port, self.agent, self.extender, self.recommender = free_ports(4)
        text = made.objects(chart.CASES["memory-only"])["ConfigMap/kwatt-redis"]["data"]["redis.conf"]
        self.write("users.acl", passwords["users.acl"])
        self.write("redis.conf", text.replace("/etc/redis/acl/", f"{self.folder}/").replace("dir /data", f"dir {self.folder}")
                   .replace("port 6379", f"port {self.redis_port}").replace("bind * -::*", "bind 127.0.0.1"))
        for user in USERS:
            self.write(user, passwords[f"{user}-password"])

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def spawn(self, name: str, *command: object) -> None:
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                                   preexec_fn=die_with_parent))

    def redis(self, user: str, *words: str) -> str:
        done = subprocess.run([need("redis-cli", "redis-tools"), "-p", str(self.redis_port), "--no-auth-warning",
                               *(["--user", user, "--pass", self.passwords[f"{user}-password"]] if user else []), *words],
                              capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip()

    def start(self, name: str, program: str, port: int, *more: object) -> None:
        self.spawn(name, chart.BUILD / program, "--listen", f"127.0.0.1:{port}", "--redis", f"redis://127.0.0.1:{self.redis_port}",
                   "--redis-user", name, "--redis-password-file", self.folder / name, *more)

    def page(self, port: int, path: str = "/metrics") -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read().decode()

    @staticmethod
    def kwatt(*words: object) -> str:
        return call([chart.BUILD / "cli/kwatt", *map(str, words)])

    def loops(self) -> float:
        return float(self.page(self.recommender).split("\nkwatt_recommender_loops_total ")[1].split("\n")[0])

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def programs_get_on(made: Chart, passwords: dict[str, str]) -> None:
    live = Live(made, passwords)
    objects = made.objects({})
    rules = objects["ClusterRole/kwatt-kwatt-recommender"]["rules"] + objects["Role/kwatt-recommender"]["rules"]
    kubeconfig = made.server.service_account("charted", rules=rules, namespace=chart.NAMESPACE)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    made.server.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
         "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
             "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]}}}},
        {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web", "namespace": "default"},
         "spec": {"targetRef": target, "recommenders": [{"name": "kwatt"}]}}]}))
    try:
        live.spawn("redis", need("redis-server", "redis-server"), live.folder / "redis.conf")
        wait_for("Redis", lambda: live.redis("probe", "-e", "ping") == "PONG", 30)
        live.start("agent", "node-agent/kwatt-node-agent", live.agent, "--accounting", "cgroup-files", "--meter", "model",
                   "--interval", "500ms", "--node-name", "charted")
        live.start("extender", "extender/kwatt-extender", live.extender)
        live.start("recommender", "vpa-recommender/kwatt-vpa-recommender", live.recommender, "--kubeconfig", kubeconfig,
                   "--interval", "1s", "--leader-elect", "--leader-elect-namespace", chart.NAMESPACE,
                   "--leader-elect-name", "kwatt-recommender")
        wait_for("the extender to know the node", lambda: "\nkwatt_extender_nodes 1\n" in live.page(live.extender))
        wait_for("the recommender to be ready", lambda: live.page(live.recommender, "/readyz"))
        wait_for("the VPA to be seen", lambda: 'unsupported_config="false"} 1\n' in live.page(live.recommender))
        wait_for("the recommender to lead", lambda: "\nkwatt_recommender_leader 1\n" in live.page(live.recommender))
        loops = live.loops()
        wait_for("two more loops", lambda: live.loops() >= loops + 2)
        check("\nkwatt_recommender_api_errors_total 0\n" in live.page(live.recommender), "the chart's role is too narrow")
        # as in the pod of `helm test`
        seen = live.kwatt("top", "--once", "--redis", f"redis://127.0.0.1:{live.redis_port}", "--redis-user", "reader",
                          "--redis-password-file", live.folder / "reader")
        check("charted" in seen, f"kwatt top shows no node:\n{seen}")
        live.kwatt("scheduler-config", "--check", "--extender-url", f"http://127.0.0.1:{live.extender}")
        refused(live)
    except BaseException:
        for log in live.folder.glob("*.log"):
            print(f"---- {log.name}\n{log.read_text(errors='replace')[-1500:]}", file=sys.stderr)
        raise
    finally:
        live.stop()
    print("ok programs under their roles and users")


def refused(live: Live) -> None:
    """Redis refused nothing to the programs, and refuses what they should not do."""
    for name in ("agent", "extender", "recommender"):
        log = (live.folder / f"{name}.log").read_text(errors="replace")
        check("NOPERM" not in log and "WRONGPASS" not in log, f"Redis refuses something to the {name}:\n{log}")
    check("NOAUTH" in live.redis("", "ping"), "an unnamed client gets in")
    check("NOPERM" not in live.redis("reader", *"XRANGE kwatt:v1:feed:0 - + COUNT 1".split()), "kwatt train may not read feeds")
    for user, command in (("agent", "FLUSHALL"), ("agent", "GET kwatt:v1:x"), ("agent", "CONFIG GET *"), ("agent", "ACL LIST"),
                          ("extender", "ZADD kwatt:v1:nodes 1 x"), ("extender", "HMGET kwatt:v1:pods:{charted} a"),
                          ("recommender", "HSET kwatt:v1:pods:{charted} a b"), ("recommender", "DEL kwatt:v1:nodes"),
                          ("reader", "HSET kwatt:v1:node:{charted} sample {}"), ("reader", "KEYS *"), ("probe", "INFO"),
                          ("probe", "ZRANGE kwatt:v1:nodes 0 -1")):
        check("NOPERM" in live.redis(user, *command.split()), f"{user} may {command}")


def test(server: apiserver.ApiServer) -> None:
    server.apply(monitor_crds())
    server.apply_vpa_crd()
    for name in ("podmonitors", "servicemonitors"):
        server.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{name}.monitoring.coreos.com")
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": chart.NAMESPACE}})
    with tempfile.TemporaryDirectory(prefix="kwatt-chart-") as folder:
        made = Chart(server, pathlib.Path(folder))
        for step in (every_switch_is_valid, defaults_are_as_documented):
            begin = time.monotonic()
            step(made)
            print(f"   {time.monotonic() - begin:.1f} s", flush=True)
        programs_get_on(made, life(made))


if __name__ == "__main__":
    sys.exit(apiserver.run(test))
