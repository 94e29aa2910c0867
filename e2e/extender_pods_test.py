# SPDX-License-Identifier: Apache-2.0
"""kwatt-extender and the pods that start: a real kube-apiserver, a real redis-server, and pods bound as a scheduler binds them.

Two equal nodes are told of in Redis, `full` with more load; what is placed there in a moment must turn the scores before any agent has
measured it, and must be forgotten once the pod was measured, deleted, or had its end.
"""
import json
import pathlib
import sys
import time

import apiserver
import extender_rig
from extender_rig import curve, publish, sample
from process import check, wait_for

RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
PODS = "/api/v1/namespaces/default/pods"
BURST = 500


class Rig:
    def __init__(self, server: apiserver.ApiServer):
        self.server = server
        self.redis = extender_rig.Redis(str(server.dir))
        self.redis.start()
        self.kubeconfig = server.service_account("extender", RULES)
        self.extender = self.another()
        self.seq = 0

    def another(self, *options: str) -> extender_rig.Extender:
        folder = self.server.dir / f"extender-{len(list(self.server.dir.glob('extender-*')))}"
        folder.mkdir()
        return extender_rig.Extender(str(folder), self.redis.path, "--watch-pods", "--kubeconfig", self.kubeconfig, "--stale-after", "1h",
                                     *options)

    def publish(self, **used_mcpu: int) -> None:
        """A sample of each node, of the tenth of a second before it."""
        self.seq += 1
        for node, used in used_mcpu.items():
            publish(self.redis, sample(node, self.seq, used, interval_ms=100), curve(60))

    def pod(self, name: str, cpu: str, **annotations: str) -> str:
        """Creates a pod; returns its path."""
        self.server.request("POST", PODS, {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": {
                "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}})
        return f"{PODS}/{name}"

    def bind(self, path: str, node: str, options: str = "") -> None:
        name = path.rsplit("/", 1)[1]
        self.server.request("POST", f"{path}/binding{options}", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                                                                 "target": {"apiVersion": "v1", "kind": "Node", "name": node}})

    def phase(self, path: str, phase: str) -> None:
        self.server.request("PATCH", f"{path}/status", {"status": {"phase": phase}}, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        self.server.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def in_flight(self, count: int, extender: extender_rig.Extender | None = None) -> None:
        extender = extender or self.extender
        wait_for(f"{count} pods in flight", lambda: extender.metric("kwatt_extender_pods_in_flight") == count)

    def measured(self, **used_mcpu: int) -> None:
        """Samples come until none is in flight."""
        wait_for("none in flight", lambda: self.publish(**used_mcpu) or self.extender.metric("kwatt_extender_pods_in_flight") == 0)

    def scores(self) -> list[int]:
        """Of a pod of one core: of two equal nodes the fuller wins, by a level for a twentieth of fill; one that it would overload does not."""
        return self.extender.scores("full", "free")

    def until(self, scores: list[int]) -> None:
        wait_for(f"scores {scores}", lambda: self.scores() == scores)

    def close(self) -> None:
        if self.extender.process.poll() is None:
            self.extender.stop()
        self.redis.kill()


def placed_pods_count(rig: Rig) -> None:
    rig.publish(full=3000, free=1000)
    rig.until([10, 5])
    path = rig.pod("one", "4")
    check(rig.scores() == [10, 5], "a pod that is nowhere counts")
    rig.bind(path, "free")      # 5 of 8 cores there by now, of which 4 are not measured
    rig.in_flight(1)
    rig.until([5, 10])
    rig.server.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")    # told again
    rig.phase(path, "Running")
    rig.measured(full=3000, free=5000)
    rig.until([5, 10])           # and now it is measured
    rig.delete(path)
    rig.publish(full=3000, free=1000)
    rig.until([10, 5])
    print("ok a pod counts from its binding until it is measured")


def pods_that_never_start(rig: Rig) -> None:
    deleted, failed = rig.pod("deleted", "4"), rig.pod("failed", "4", **{"kwatt.io/expected-cpu": "3500m"})
    rig.bind(deleted, "free")
    rig.bind(failed, "free")
    rig.in_flight(2)
    rig.delete(deleted)
    rig.phase(failed, "Failed")
    # they left the watch, and may have run for all it says: the next samples settle it
    rig.measured(full=3000, free=1000)
    rig.until([10, 5])
    rig.delete(failed)
    print("ok pods that never start are forgotten")


def two_replicas_agree(rig: Rig) -> None:
    other = rig.another("--refresh", "1s")
    paths = [rig.pod(f"many-{i}", "100m") for i in range(20)]
    for path in paths:
        rig.bind(path, "free")
    rig.in_flight(20)
    rig.in_flight(20, other)
    rig.until([10, 10])       # three cores here and three there
    wait_for("the same scores", lambda: other.scores("full", "free") == rig.scores())
    check(other.stop() == 0, other.log())
    for path in paths:
        rig.delete(path)
    rig.measured(full=3000, free=1000)
    print("ok two replicas agree")


def tries_leave_no_trace(rig: Rig) -> None:
    rig.until([10, 5])
    path = rig.pod("tried", "4")
    for _ in range(3):
        check(rig.scores() == [10, 5], "a pod that was asked about counts")
    rig.bind(path, "free", "?dryRun=All")
    check(rig.server.request("GET", path)["spec"].get("nodeName") is None, "a dry run has bound it")
    rig.bind(path, "free")
    rig.in_flight(1)
    try:
        rig.bind(path, "full")
    except apiserver.Failure:
        pass        # 409: it is bound
    else:
        raise apiserver.Failure("a pod was bound twice")
    rig.until([5, 10])
    check(rig.extender.metric("kwatt_extender_pods_in_flight") == 1, "a binding that failed counts")
    rig.delete(path)
    rig.measured(full=3000, free=1000)
    rig.until([10, 5])
    print("ok retries, dry runs and bindings that fail leave no trace")


def a_burst_is_spread(rig: Rig) -> None:
    """500 pods of a hundredth of a core between two samples, each asked about and bound where it is cheapest: 8 cores have 3 and 1 in use,
    and the fuller one is the cheaper one only as long as it has room."""
    went = {"full": 0, "free": 0}
    paths = []
    for number in range(BURST):
        paths.append(rig.pod(f"burst-{number}", "10m"))
        full, free = rig.scores()
        node = "full" if full > free else "free"
        rig.bind(paths[-1], node)
        went[node] += 1
        if number % 50 == 49:   # however slow the machine is
            rig.in_flight(number + 1)
    rig.in_flight(BURST)
    check(min(went.values()) >= BURST / 10, f"the burst was piled up: {went}")
    check(rig.extender.metric('kwatt_extender_pods_skipped_total{reason="room"}') == 0, "pods of the burst do not count")
    for path in paths:
        rig.delete(path)
    rig.measured(full=3000, free=1000)
    print(f"ok a burst of {BURST} pods is spread: {went}")


def api_server_goes(rig: Rig) -> None:
    path = rig.pod("meanwhile", "4")
    rig.bind(path, "free")
    rig.in_flight(1)
    rig.server.kill()
    wait_for("the loss is told", lambda: rig.extender.metric("kwatt_extender_watching_pods") == 0)
    check("pods that start are not seen" in rig.extender.log(), rig.extender.log())
    # ten seconds later what was in flight is taken to be in the samples
    rig.measured(full=3000, free=1000)
    rig.until([10, 5])
    rig.server.start()
    wait_for("it is watching again", lambda: rig.extender.metric("kwatt_extender_watching_pods") == 1, 120)
    rig.in_flight(1)
    rig.until([5, 10])       # it waits still
    rig.delete(path)
    print("ok the API server may go and come")


def test(server: apiserver.ApiServer) -> None:
    rig = Rig(server)
    try:
        wait_for("the pods are watched", lambda: rig.extender.metric("kwatt_extender_watching_pods") == 1)
        for part in (placed_pods_count, pods_that_never_start, two_replicas_agree, tries_leave_no_trace, a_burst_is_spread, api_server_goes):
            part(rig)
        check(rig.extender.metric('kwatt_extender_pods_skipped_total{reason="bad"}') == 0, "a pod was not understood")
        check(rig.extender.stop() == 0, rig.extender.log())
    except BaseException:
        print(json.dumps({"log": rig.extender.log()}))
        raise
    finally:
        rig.close()


if __name__ == "__main__":
    assert pathlib.Path(extender_rig.PROGRAM).is_file(), extender_rig.PROGRAM
    sys.exit(apiserver.run(test))
