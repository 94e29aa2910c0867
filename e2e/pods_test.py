#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of pods where Kubernetes is not as it should be: a kubelet that lies, breaks off, wants another token or has another's
certificate, and one that refuses, where a real API server is watched instead. What a real kubelet says: cluster/top_test.py.
"""
import contextlib
import http.server
import json
import os
import pathlib
import ssl
import sys
import tempfile
import threading
import uuid

import agent_rig
import apiserver
from pki import Authority
from process import check, wait_for

NODE = "node-1"
LIMIT = 32 << 20


def pod(uid: str, name: str, container: str = "", **metadata) -> dict:
    statuses = [{"name": "main", "containerID": f"containerd://{container}"}] if container else []
    return {"metadata": {"uid": uid, "name": name, "namespace": "shop", **metadata},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "x"}]},
            "status": {"phase": "Running", "containerStatuses": statuses}}


def pod_list(*pods: dict) -> bytes:
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}).encode()


class Kubelet:
    """Answers with what `say` returns: status, body, and how many bytes of it arrive."""

    def __init__(self, authority: Authority, certificate: str):
        self.tokens: list[str] = []
        self.say = lambda token: (200, pod_list())
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:   # noqa: N802 (the name that http.server wants)
                outer.tokens.append(self.headers.get("Authorization", ""))
                status, body, *sent = outer.say(outer.tokens[-1]) if self.path == "/pods" else (404, b"")
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body[:sent[0]] if sent else body)
                self.close_connection = bool(sent)

            def log_message(self, *_) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.folder / f"{certificate}.crt", authority.folder / f"{certificate}.key")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.handle_error = lambda *_: None      # who does not like the certificate breaks off
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Pods:
    """Cgroups as a kubelet makes them, below a root of this test's own."""

    def __init__(self, root: agent_rig.Cgroup):
        self.root, self.made = root, []

    def make(self, uid: str, container: str) -> None:
        folder = self.root.folder
        for name in ("kubepods", "burstable", f"pod{uid}", container):
            folder /= name
            if not folder.exists():
                folder.mkdir()
                self.made.append(folder)

    def remove(self) -> None:
        for folder in reversed(self.made):
            folder.rmdir()


class Agent(agent_rig.Agent):
    """An agent that asks this kubelet."""

    def __init__(self, folder: pathlib.Path, root: agent_rig.Cgroup, kubelet: Kubelet, ca: pathlib.Path, *options: object):
        self.kubelet = kubelet
        mine = folder / f"agent-{kubelet.address}"
        mine.mkdir()
        super().__init__(mine, "--accounting", "cgroup-files", "--meter", "model", "--interval", "1s", "--cgroup-root", root.path,
                         "--outside", "absent", "--kubelet", kubelet.address, "--kubelet-ca", str(ca / "ca.crt"),
                         "--kubelet-token-file", str(folder / "token"), *map(str, options), node=NODE)

    def pod(self, uid: str) -> dict:
        """Its record; {} until there is one."""
        return next((each for each in self.view()["pods"] if each["id"] == uid), {})

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def __exit__(self, *ended) -> None:
        try:
            if ended[0] is None:
                check(self.process.poll() is None and self.terminate() == 0, f"the agent's end:\n{self.text()[-2000:]}")
        except BaseException:
            print(self.text()[-3000:], file=sys.stderr)
            raise
        finally:
            super().__exit__(*ended)
            self.kubelet.close()


def hostile(folder: pathlib.Path, authority: Authority, root: agent_rig.Cgroup, pods: Pods) -> None:
    """A bad answer each to agents of their own, then good ones: the names come all the same."""
    uid, container = str(uuid.uuid4()), os.urandom(32).hex()
    good = pod_list(pod(uid, "late", container, labels={"team": "a", "secret": "b"}),
                    pod("x", "Not A Name"), {"metadata": 7}, pod("y", "fine"))
    bad = [(500, b"no"), (200, b"<html>"), (200, good, len(good) // 2), (200, b'{"items":[' + b" " * LIMIT + b"]}"),
           (200, b'{"items":' + b"[" * 100000), (200, b'{"kind":"PodList"}'), (200, b"")]
    pods.make(uid, container)
    with contextlib.ExitStack() as stack:
        agents = []
        for answer in bad:
            kubelet, left = Kubelet(authority, "kubelet"), [answer]
            kubelet.say = lambda _, left=left: left.pop() if left else (200, good)
            agents.append(stack.enter_context(Agent(folder, root, kubelet, authority.folder, "--pods=kubelet", "--pod-labels=team")))
        for answer, agent in zip(bad, agents):
            named = wait_for(f"the name after {answer[1][:20]!r}", lambda agent=agent: agent.pod(uid).get("namespace") and agent.pod(uid))
            check((named["name"], named["namespace"], named["qos"]) == ("late", "shop", "Burstable"), f"the pod is {named}")
            check(named["labels"] == {"team": "a"}, f"labels {named['labels']}")
            check([each["name"] for each in named["containers"]] == ["main"], f"containers {named['containers']}")
            check("names of pods cannot be had" in agent.text(), f"the cause was not said:\n{agent.text()}")
    print("ok hostile answers")


def fat(folder: pathlib.Path, authority: Authority, root: agent_rig.Cgroup, pods: Pods) -> None:
    """A node of 1000 pods with 20 KiB of annotations each."""
    uid, container = str(uuid.uuid4()), os.urandom(32).hex()
    pods.make(uid, container)
    annotations = {"config": "x" * (20 << 10)}
    answer = pod_list(*(pod(str(uuid.uuid4()), f"fat-{n}", annotations=annotations) for n in range(999)),
                      pod(uid, "last", container, annotations=annotations))
    kubelet = Kubelet(authority, "kubelet")
    kubelet.say = lambda _: (200, answer)
    with Agent(folder, root, kubelet, authority.folder, "--pods=kubelet") as agent:
        wait_for("the last pod's name", lambda: agent.pod(uid).get("name") == "last")
    print(f"ok a list of {len(answer) >> 20} MiB")


def renewed(folder: pathlib.Path, authority: Authority, root: agent_rig.Cgroup, pods: Pods) -> None:
    uid, container = str(uuid.uuid4()), os.urandom(32).hex()
    pods.make(uid, container)
    kubelet = Kubelet(authority, "kubelet")
    kubelet.say = lambda auth: (200, pod_list(pod(uid, "renewed", container))) if auth == "Bearer second-token" else (401, b"")
    with Agent(folder, root, kubelet, authority.folder, "--pods=kubelet") as agent:
        wait_for("the first token to be refused", lambda: "Bearer first-token" in kubelet.tokens)
        (folder / "token.new").write_text("second-token\n")
        (folder / "token.new").rename(folder / "token")     # as the kubelet renews a projected one
        wait_for("the pod's name", lambda: agent.pod(uid).get("name") == "renewed")
        check("401" in agent.text() and "-token" not in agent.text(), f"a cause is missing, or a secret is said:\n{agent.text()}")
    print("ok a token that is renewed")


def certificates(folder: pathlib.Path, authority: Authority, root: agent_rig.Cgroup, pods: Pods) -> None:
    """One that names the node alone is good, another authority's is not, and then nothing is sent."""
    uid, container = str(uuid.uuid4()), os.urandom(32).hex()
    pods.make(uid, container)
    other = Authority(folder / "other-pki")
    other.make()
    self_made, foreign = Kubelet(authority, "node"), Kubelet(authority, "kubelet")
    self_made.say = foreign.say = lambda _: (200, pod_list(pod(uid, "named", container)))
    with Agent(folder, root, self_made, authority.folder, "--pods=kubelet") as good, \
            Agent(folder, root, foreign, other.folder, "--pods=kubelet") as bad:
        wait_for("the pod's name", lambda: good.pod(uid).get("name") == "named")
        wait_for("the refusal to be said", lambda: "names of pods cannot be had" in bad.text())
        check(not foreign.tokens, "a token went to whom nobody vouches for")
        check(bad.pod(uid)["namespace"] == "", "a name came from there")
    print("ok certificates")


def refused(folder: pathlib.Path, server: apiserver.ApiServer, root: agent_rig.Cgroup, pods: Pods) -> None:
    """A kubelet that asks for nodes/proxy says 403; the API server is watched instead, by the chart's rights and no more."""
    rules = [{"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]},
             {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    kubeconfig = server.service_account("agent", rules=rules)
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})

    def create(name: str, node: str) -> str:
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
        return server.request("POST", "/api/v1/namespaces/shop/pods", {
            "metadata": {"name": name, "labels": {"pod-template-hash": "5d4"},
                         "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4", "uid": "u",
                                              "controller": True}]}, "spec": spec})["metadata"]["uid"]
    first, elsewhere = create("web-5d4-a", NODE), create("web-5d4-b", "node-2")
    pods.make(first, os.urandom(32).hex())
    pods.make(elsewhere, os.urandom(32).hex())
    kubelet = Kubelet(server.authority, "kubelet")
    kubelet.say = lambda _: (403, b"Forbidden")
    with Agent(folder, root, kubelet, server.authority.folder, "--kubeconfig", kubeconfig) as agent:
        named = wait_for("the pod's name", lambda: agent.pod(first).get("namespace") and agent.pod(first))
        check((named["name"], named["owner_kind"], named["owner_name"]) == ("web-5d4-a", "Deployment", "web"), f"it is {named}")
        check("403" in agent.text() and "nodes/pods" in agent.text(), f"the cause was not said:\n{agent.text()}")
        check(agent.pod(elsewhere)["namespace"] == "", "the watch is not limited to the node")
        later = create("web-5d4-c", NODE)
        pods.make(later, os.urandom(32).hex())
        wait_for("a later pod's name", lambda: agent.pod(later).get("name") == "web-5d4-c")
        asked = len(kubelet.tokens)
        server.request("DELETE", f"/api/v1/namespaces/shop/pods/{named['name']}?gracePeriodSeconds=0")
        server.kill()
        server.start()
        last = create("web-5d4-d", NODE)
        pods.make(last, os.urandom(32).hex())
        wait_for("a name after the API server's restart", lambda: agent.pod(last).get("name") == "web-5d4-d")
        check(agent.pod(first)["name"] == "web-5d4-a", "a pod that is gone keeps its name")
        check(len(kubelet.tokens) == asked, "a kubelet that refused is asked again and again")
    print("ok a kubelet that refuses, the API server instead")


def test(server: apiserver.ApiServer) -> None:
    authority = server.authority
    authority.certificate("kubelet", f"/CN=system:node:{NODE}", "IP:127.0.0.1")
    authority.certificate("node", f"/CN={NODE}", f"DNS:{NODE}")
    with tempfile.TemporaryDirectory(prefix="kwatt-pods-") as name, agent_rig.Cgroup("pods") as root:
        pods, folder = Pods(root), pathlib.Path(name)
        (folder / "token").write_text("first-token\n")
        try:
            hostile(folder, authority, root, pods)
            fat(folder, authority, root, pods)
            renewed(folder, authority, root, pods)
            certificates(folder, authority, root, pods)
            refused(folder, server, root, pods)
        finally:
            pods.remove()


if __name__ == "__main__":
    sys.exit(apiserver.run(test))
