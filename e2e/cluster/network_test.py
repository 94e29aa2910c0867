#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cluster itself: pods on different nodes reach each other by service name; exec and logs work."""
import sys

from scenario import World, check, run, wait_for

SERVE = 'busybox mkdir /w; busybox echo served >/w/index.html; busybox echo started; exec busybox httpd -f -p 80 -h /w'


def test(world: World) -> None:
    server = world.manifest("server", node="node2")
    server["spec"]["containers"][0]["command"] = ["/bin/busybox", "sh", "-c", SERVE]
    world.cluster.request("POST", world.pods, server)
    world.cluster.request("POST", f"/api/v1/namespaces/{world.namespace}/services", {
        "metadata": {"name": "server"}, "spec": {"selector": {"app": "server"}, "ports": [{"port": 80}]}})
    world.pod("client", node="node1")
    world.running("server")
    address = world.cluster.request("GET", f"/api/v1/namespaces/{world.namespace}/services/server")["spec"]["clusterIP"]

    def inside(*words: str) -> str:
        return world.cluster.kubectl("exec", "-n", world.namespace, "client", "--", "/bin/busybox", *words)
    wait_for("the service's name to resolve", lambda: address in inside("nslookup", f"server.{world.namespace}.svc.cluster.local"))
    request = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 5 " + address + " 80"
    wait_for("an answer across the nodes", lambda: "served" in inside("sh", "-c", request))
    check(world.cluster.kubectl("logs", "-n", world.namespace, "server").strip() == "started", "no log of the pod")


if __name__ == "__main__":
    sys.exit(run(test))
