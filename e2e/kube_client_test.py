# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client (common/kube.h) against a real kube-apiserver: get, pages, patch, a watch that outlives kill -9.

The client runs as the program tests/integration/kube_apiserver_test, whose events are replayed into a model of the collection. The
model takes nothing twice and nothing out of order, and must equal what the server says at the end of each step.
"""
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import apiserver
from apiserver import Failure

PROGRAM = pathlib.Path(os.environ["KWATT_BUILD_DIR"]) / "tests/integration/kube_apiserver_test"
MAPS = "/api/v1/namespaces/e2e/configmaps"
PATIENCE = 120      # only a failing test waits so long


def client(kubeconfig: str, *args: str) -> list[str]:
    done = subprocess.run([PROGRAM, kubeconfig, *args], capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.stderr or done.returncode not in (0, 1):
        raise Failure(f"{args}: exit {done.returncode}\n{done.stderr}")
    return done.stdout.splitlines()


def must(what: object, why: object) -> None:
    if not what:
        raise Failure(why)


class Watch:
    """The watch program, and the model that its events make."""

    def __init__(self, kubeconfig: str) -> None:
        self.process = subprocess.Popen([PROGRAM, kubeconfig, "watch", MAPS], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, preexec_fn=apiserver.die_with_parent)
        self.lines: queue.Queue[str] = queue.Queue()
        self.model: dict[str, int] = {}
        self.listing: dict[str, int] | None = None
        self.seen = {"begin": 0, "end": 0, "added": 0, "modified": 0, "deleted": 0, "down": 0, "up": 0, "stopped": 0}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("")

    def take(self, line: str) -> None:
        word, *rest = line.split()
        self.seen[word] += 1
        if word in ("down", "up", "stopped"):
            return
        if word == "begin":
            self.listing = {}
        elif word == "end":
            self.model, self.listing = self.listing, None
        else:
            name, version = rest[0], int(rest[1])
            model = self.model if self.listing is None else self.listing
            must((word == "added") == (name not in model), f"lost or doubled: {line}, had {model.get(name)}")
            must(version > model.get(name, 0), f"out of order: {line}, had {model.get(name)}")
            if word == "deleted":
                del model[name]
            else:
                model[name] = version

    def until(self, what, why: str) -> None:
        """Takes events until what() holds."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            try:
                line = self.lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise Failure(f"not within {PATIENCE} s: {why}; seen {self.seen}") from None
            must(line, f"the watch ended before: {why}")
            self.take(line)

    def until_equal(self, server: apiserver.ApiServer, why: str) -> None:
        items = server.request("GET", MAPS)["items"]
        truth = {i["metadata"]["name"]: int(i["metadata"]["resourceVersion"]) for i in items}
        self.until(lambda: self.listing is None and self.model == truth, why)
        time.sleep(0.3)     # what comes now would be surplus
        while not self.lines.empty():
            self.take(self.lines.get())
        must(self.model == truth, f"{why}: more events than changes")

    def stop(self) -> None:
        self.process.stdin.close()
        line = ""
        while not line.startswith("stopped"):
            line = self.lines.get(timeout=PATIENCE)
            must(line, "the watch program ended without a word")
        self.process.wait(PATIENCE)
        # the contract says a second; a busy machine gets five
        must(int(line.split()[1]) < 5000, f"the watch took {line.split()[1]} ms to stop")


def make(server: apiserver.ApiServer, name: str, value: str = "0") -> None:
    server.request("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})


def change(server: apiserver.ApiServer, name: str, value: str) -> None:
    server.request("PUT", f"{MAPS}/{name}", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                                             "data": {"v": value}})


def churn(server: apiserver.ApiServer, prefix: str) -> None:
    for i in range(20):
        make(server, f"{prefix}-{i}")
    for i in range(20):
        change(server, f"{prefix}-{i}", "1")
    for i in range(0, 20, 2):
        server.request("DELETE", f"{MAPS}/{prefix}-{i}")


def requests(server: apiserver.ApiServer) -> None:
    admin = server.kubeconfig
    server.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: e2e}\n")
    make(server, "one")
    must(client(admin, "get", f"{MAPS}/one")[0].startswith("object one "), "get")
    must(client(admin, "get", f"{MAPS}/none")[0].startswith("error ENOENT "), "get of what is not there")
    patch = json.dumps([{"op": "replace", "path": "/data/v", "value": "patched"}])
    must(client(admin, "patch", f"{MAPS}/one", patch)[0].startswith("object one "), "patch")
    must(server.request("GET", f"{MAPS}/one")["data"]["v"] == "patched", "the patch did not arrive")
    line = client(admin, "patch", f"{MAPS}/one", json.dumps([{"op": "remove", "path": "/data/none"}]))[0]
    must(line.startswith("error EREMOTEIO ") and "422" in line, f"a patch that does not apply: {line}")

    limited = server.service_account("reader", [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}])
    must(client(limited, "get", f"{MAPS}/one")[0].startswith("object one "), "get with a service account's token file")
    line = client(limited, "list", "/api/v1/secrets")[0]
    must(line.startswith("error EACCES ") and "forbidden" in line and "reader" in line, f"forbidden: {line}")
    (server.dir / "reader.token").write_text("rubbish")
    line = client(limited, "get", f"{MAPS}/one")[0]
    must(line.startswith("error EACCES ") and "401" in line and "rubbish" not in line, f"bad token: {line}")


def pages(server: apiserver.ApiServer) -> None:
    for i in range(1100):
        make(server, f"page-{i}")
    lines = client(server.kubeconfig, "list", MAPS)
    names = [line.split()[1] for line in lines if line.startswith("item ")]
    must(len(names) == 1101 and len(set(names)) == 1101, f"{len(names)} items, {len(set(names))} different")
    must(lines[-1].startswith("version "), lines[-1])
    server.request("DELETE", f"{MAPS}?limit=0")


def watch(server: apiserver.ApiServer) -> None:
    make(server, "first")
    w = Watch(server.kubeconfig)
    w.until_equal(server, "the first list")
    churn(server, "plain")
    w.until_equal(server, "changes")
    must(w.seen["begin"] == 1 and w.seen["down"] == 0, f"listed again without need: {w.seen}")

    # killed and back: what happened before and after is seen once
    churn(server, "before")
    server.kill()
    w.until(lambda: w.seen["down"] > 0, "a killed server is noticed")
    server.start()
    churn(server, "after")
    w.until_equal(server, "kill -9 and restart of the API server")
    must(w.seen["up"] + w.seen["begin"] >= 2, f"nobody said that the server is back: {w.seen}")

    # behind: while the watch sleeps without a connection (else its socket would collect the events), the versions
    # that it knows are compacted away
    lists = w.seen["begin"]
    w.process.send_signal(signal.SIGSTOP)
    server.kill()
    server.start()
    churn(server, "asleep")
    server.kill()
    server.compact()
    server.start()
    churn(server, "compacted")
    w.process.send_signal(signal.SIGCONT)
    w.until_equal(server, "410 after a compaction")
    must(w.seen["begin"] > lists, f"resumed from a version that is gone: {w.seen}")
    churn(server, "last")
    w.until_equal(server, "changes after a new list")
    print(f"events: {w.seen}")
    w.stop()


def test(server: apiserver.ApiServer) -> None:
    for step in (requests, pages, watch):
        begin = time.monotonic()
        step(server)
        print(f"{step.__name__}: {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(apiserver.run(test))
