# SPDX-License-Identifier: Apache-2.0
"""kwatt-extender and what was learnt of workloads: a real redis-server that holds profiles, good ones and hostile ones."""
import json
import tempfile
import time
import unittest

import extender_rig
from extender_rig import Extender, wait_for

INDEX = "kwatt:v1:profiles"


def pod(name, kind, owner, cpu=None, namespace="orchard", **annotations):
    container = {"name": "c"} if cpu is None else {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "namespace": namespace, "annotations": annotations, "creationTimestamp": "2026-11-29T19:53:37Z",
                         "labels": {"pod-template-hash": "7d4b"},
                         "ownerReferences": [{"apiVersion": "x/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}]},
            "spec": {"containers": [container]}}


class Profiles(extender_rig.Case):
    def learn(self, member, age_s=0, score=None, **fields):
        """A profile as the recommender writes it; `fields` replace its own."""
        namespace, kind, name = member.split("/")
        now = int(time.time() * 1000)
        document = {"schema": 1, "namespace": namespace, "kind": kind, "name": name, "t_unix_ms": now - age_s * 1000, "pods_permille": 12000,
                    "used_mcpu": 500, "sigma_mcpu": 20, "core_mw": 3900, "estimated": False, **fields}
        self.redis.call("HSET", "kwatt:v1:profile:" + member, "profile", json.dumps(document))
        self.redis.call("ZADD", INDEX, score or now, member)

    def why(self, body, extender=None):
        """The decision on a pod."""
        extender = extender or self.extender
        extender.scores("barn-a", "barn-b", pod=body)
        page = extender.ask("/explain?pod=" + body["metadata"]["name"]).json()
        return page["decisions"][0]

    def expect(self, body, mcpu, source):
        def look():
            decision = self.why(body)
            return decision if (decision["mcpu"], decision["mcpu_from"]) == (mcpu, source) else None
        return wait_for(f"{mcpu} mcpu from {source}", look)

    def setUp(self):
        super().setUp()
        self.redis.start()
        for node, watts in (("barn-a", 60), ("barn-b", 180)):
            self.publish(node, 1000, watts)
        wait_for("nodes are known", lambda: self.extender.metric("kwatt_extender_nodes") == 2)

    def test_sources(self):
        self.expect(pod("p", "ReplicaSet", "press-7d4b", "2"), 2000, "requests")
        self.learn("orchard/Deployment/press")
        decision = self.expect(pod("p", "ReplicaSet", "press-7d4b", "2"), 875, "profile")      # (12 x 500 + 4 x 2000) / 16
        profile = decision["profile"]
        self.assertEqual((profile["kind"], profile["name"], profile["pods_permille"], profile["used_mcpu"], profile["sigma_mcpu"], profile["core_mw"],
                          profile["weight_permille"], profile["assumed_mcpu"], profile["assumed_from"]),
                         ("Deployment", "press", 12000, 500, 20, 3900, 750, 2000, "requests"))
        self.expect(pod("p", "ReplicaSet", "press-7d4b"), 400, "profile")                      # (12 x 500 + 4 x 100) / 16
        self.expect(pod("p", "ReplicaSet", "press-7d4b", "2", **{"kwatt.io/expected-cpu": "3"}), 3000, "annotation")
        self.expect(pod("p", "ReplicaSet", "press-7d4b", "2", namespace="meadow"), 2000, "requests")
        self.expect(pod("p", "ReplicaSet", "press", "2"), 2000, "requests")
        self.learn("orchard/CronJob/backup", used_mcpu=1500)
        self.expect(pod("p", "Job", "backup-29933033"), 1150, "profile")
        # how long its pods live: (99 x 300 s + an hour) / 100
        self.assertEqual((decision["life_ms"], decision["life_from"]), (3600000, "default"))
        self.learn("orchard/CronJob/prune", lived_ms=29700000, ended_permille=99000)
        decision = self.expect(pod("p", "Job", "prune-29933033"), 400, "profile")
        self.assertEqual((decision["life_ms"], decision["life_from"], decision["wake_over_ms"]), (333000, "profile", 1800000))
        decision = self.why(pod("p", "Job", "prune-29933033", **{"kwatt.io/expected-lifetime": "90s"}))
        self.assertEqual((decision["life_ms"], decision["life_from"], decision["wake_over_ms"]), (90000, "annotation", 90000))
        text = self.extender.ask("/explain?pod=p&as=text").body.decode()
        self.assertIn("pods of CronJob prune were there for 8.2 h, all together, and 99 of them ended; waking a node counts over 1800 s", text)
        # learnt anew
        self.learn("orchard/Deployment/press", pods_permille=96000, used_mcpu=1000)
        self.expect(pod("p", "ReplicaSet", "press-7d4b", "2"), 1040, "profile")
        text = self.extender.ask("/explain?pod=p&as=text").body.decode()
        self.assertIn("96 pods of Deployment press used 1.000 cores each, +- 0.020 from pod to pod; this weighs 96 %, 2.000 cores (requests) "
                      "the rest", text)
        self.assertGreater(self.extender.metric('kwatt_extender_pods_expected_total{from="profile"}'), 0)

    def test_hostile_profiles(self):
        far = int(time.time() * 1000) + 10 ** 10
        self.learn("orchard/Deployment/absurd", used_mcpu=10 ** 9)
        self.learn("orchard/Deployment/none", pods_permille=0)
        self.learn("orchard/Deployment/eternal", lived_ms=10 ** 13)
        self.learn("orchard/Deployment/ended", ended_permille=10 ** 8)
        self.learn("orchard/Deployment/alien", name="other")
        self.learn("orchard/Deployment/tomorrow", schema=2)
        self.learn("orchard/Deployment/future", age_s=-10 ** 6)
        self.learn("orchard/Deployment/old", age_s=9 * 86400)
        self.learn("orchard/Deployment/loud", score=far)
        for member in ("x", "a/b", "a/b/c/d", "orchard/Bad Kind/a", "a" * 5000, "//", "\xff/b/c"):
            self.redis.call("ZADD", INDEX, far, member)
        self.redis.call("ZADD", INDEX, 5, "orchard/Deployment/missing")
        self.redis.call("ZADD", INDEX, 6, "orchard/Deployment/type")
        self.redis.call("SET", "kwatt:v1:profile:orchard/Deployment/type", "x")
        self.redis.call("HSET", "kwatt:v1:profile:orchard/Deployment/large", "profile", "x" * 100000)
        self.redis.call("ZADD", INDEX, 7, "orchard/Deployment/large")
        for name in ("absurd", "eternal", "ended", "none", "alien", "tomorrow", "future", "old", "missing", "type", "large"):
            self.expect(pod("p", "DaemonSet", name, "2"), 2000, "requests")
            self.expect(pod("p", "ReplicaSet", name + "-7d4b", "2"), 2000, "requests")
        # and hide no other, whenever it comes
        self.learn("orchard/Deployment/press")
        self.expect(pod("p", "ReplicaSet", "press-7d4b", "2"), 875, "profile")
        self.learn("orchard/Deployment/press", pods_permille=96000, used_mcpu=1000)
        self.expect(pod("p", "ReplicaSet", "press-7d4b", "2"), 1040, "profile")
        for reason in ("document", "stale", "schema", "reply", "missing"):
            name = 'kwatt_extender_profiles_skipped_total{reason="%s"}' % reason
            wait_for(name, lambda name=name: self.extender.metric(name) > 0)
        self.assertEqual(self.extender.metric("kwatt_extender_nodes"), 2)

    def test_many_and_two_replicas(self):
        for i in range(5000):
            self.learn("orchard/Deployment/w-%d" % i, used_mcpu=i + 1)
        with tempfile.TemporaryDirectory() as folder:
            other = Extender(folder, self.redis.path)
            try:
                for extender in (self.extender, other):
                    wait_for("all are learnt", lambda e=extender: e.metric("kwatt_extender_profiles") == 5000)
                for i in range(0, 5000, 250):
                    body = pod("p", "ReplicaSet", "w-%d-7d4b" % i, "1")
                    one, two = (self.why(body, extender) for extender in (self.extender, other))
                    self.assertEqual(one["mcpu"], (12 * (i + 1) + 4 * 1000 + 8) // 16)
                    self.assertEqual((one["mcpu"], one["profile"], one["best"]), (two["mcpu"], two["profile"], two["best"]))
            finally:
                self.assertEqual(other.stop(), 0, other.log())

    def test_forbidden(self):
        """A Redis whose rules are older than profiles."""
        self.redis.call("ACL", "SETUSER", "default", "resetkeys", "~kwatt:v1:nodes", "~kwatt:v1:node:*", "~kwatt:v1:feed:*")
        wait_for("it is told", lambda: "profiles of workloads cannot be read" in self.extender.log())
        self.publish("barn-c", 1000, 60)
        wait_for("nodes go on", lambda: self.extender.metric("kwatt_extender_nodes") == 3)
        self.expect(pod("p", "ReplicaSet", "press-7d4b", "2"), 2000, "requests")
        self.assertEqual(self.extender.log().count("profiles of workloads cannot be read"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
