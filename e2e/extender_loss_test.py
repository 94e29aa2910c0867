# SPDX-License-Identifier: Apache-2.0
"""Power caps while the API server is gone: a real kube-apiserver is killed and started again beside a real kube-scheduler and two
kwatt-extenders. What was known of caps holds, what nobody can tell of is said, and whoever waited for room that came meanwhile is
placed once the API server is back.
"""
import json
import sys

import scheduler_rig
from extender_caps_test import NODES, Rig
from process import check

CLOSED = "kwatt: no room under the node's power cap"


def filtered(rig: Rig, name: str, uid: str, cpu: str) -> dict:
    pod = {"metadata": {"namespace": "default", "name": uid, "uid": uid},
           "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}}
    answer = rig.extenders[name].ask("/filter", {"Pod": pod, "Nodes": None, "NodeNames": NODES})
    check(answer.status == 200, str(answer.body))
    return answer.json()


def passes(rig: Rig, uid: str, cpu: str) -> list[list[str]]:
    """Nodes that pass, by each extender. Who passes counts for minutes."""
    return [filtered(rig, name, uid, cpu)["NodeNames"] for name in rig.extenders]


def caps_are_full(rig: Rig) -> None:
    for node in NODES:      # 110 W each, and 50 W of room
        rig.annotate(node, power_cap_watts="160")
    rig.wait("the caps to be known", lambda: all(rig.annotation(node, "headroom-watts") == "50" for node in NODES))
    rig.start_scheduler(rig.asking())
    check(sorted(rig.placed(rig.pod(f"first-{n}", "3")) for n in range(2)) == sorted(NODES), "two pods of 30 W have room on one node")
    rig.pod("waits", "2400m")
    check("no room under the node's power cap" in rig.refused("waits"), "a pod has room where there is none")
    decision = json.loads(rig.extenders["one"].ask("/explain?pod=default/waits").body)["decisions"][0]
    check(decision["starting_pods_unseen"] is False, "the API server is there, and pods are said to be unseen")
    print("ok caps are full, and a pod waits")


def what_is_known_holds(rig: Rig) -> None:
    rig.server.kill()
    rig.wait("the loss to be noticed", lambda: rig.metric("watching_pods") == 0 and rig.metric("watching_nodes") == 0)
    for name in rig.extenders:
        answer = filtered(rig, name, "tried", "2400m")
        check(answer["NodeNames"] == [] and answer["FailedNodes"] == dict.fromkeys(NODES, CLOSED), f"a cap that is known does not hold: {answer}")
        text = rig.extenders[name].ask("/explain?pod=default/tried&as=text").body.decode()
        check("the API server was away: pods that started were not seen" in text, text)
    # scores reckon with what is in flight no longer, and that is said by a count of none
    rig.wait("the ledger to be empty for scores", lambda: rig.metric("pods_in_flight") == 0)
    # but a pod that is bound and waits for its start may start at any time, for all that is known
    check(passes(rig, "more", "2400m") == [[], []], "pods in flight are forgotten with the API server")
    check(passes(rig, "small", "500m") == [list(NODES)] * 2, "a pod that has room is held up")
    print("ok what is known of caps holds, and what is not known is said")


def room_that_comes(rig: Rig) -> None:
    """Nobody can be told of it now."""
    failures = rig.metric("kube_write_failures_total")
    rig.used = dict.fromkeys(NODES, 0)      # 10 W each: 25 W are left, what was let in meanwhile taken off
    rig.wait("writes to fail", lambda: rig.metric("kube_write_failures_total") > failures + 2)
    for extender in rig.extenders.values():
        for words in ("pods that start are not seen", "nodes are not seen: their caps and domains stay"):
            check(extender.log().count(words) == 1, f"{words!r} is said {extender.log().count(words)} times")
    print("ok room comes while the API server is gone, and that it is gone is said once")


def nobody_is_forgotten(rig: Rig) -> None:
    wakes = rig.metric("wakes_total")
    rig.server.start()
    rig.wait("pods and nodes to be watched again", lambda: rig.metric("watching_pods") == 2 and rig.metric("watching_nodes") == 2)
    check(rig.placed("waits", 280) in NODES, "not placed")
    check(rig.metric("wakes_total") > wakes, "the scheduler tried it by itself")
    rig.wait("all to be in flight again", lambda: rig.metric("pods_in_flight") == 2 * 3)
    print("ok the pod that waited is woken and placed, and the ledger is whole again")


if __name__ == "__main__":
    sys.exit(scheduler_rig.run(Rig, caps_are_full, what_is_known_holds, room_that_comes, nobody_is_forgotten))
