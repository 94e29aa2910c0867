#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two kwatt-extenders at one Redis give the same bytes to the same requests: pods of many sizes, names in many orders, both forms; also
where one of them came later, or was started again while nodes published, came and went.
"""
import json
import random
import tempfile
import time

from extender_rig import Case, Extender, curve, publish, sample, wait_for
from extender_test import main

NODES = 120
REQUESTS = 1000
MODELS = 5      # of machines; one of them learns apart, the others as one each


class Replicas(Case):
    # samples of one moment must not turn stale between the two
    options = ("--stale-after", "1h")

    def setUp(self):
        super().setUp()
        self.rng = random.Random(11)
        self.others = []
        self.redis.start()
        self.load = {"node-%03d" % i: self.rng.randrange(8000) for i in range(NODES)}

    def tearDown(self):
        try:
            for other in self.others:
                self.assertEqual(other.stop(), 0, other.log())
        finally:
            super().tearDown()

    def another(self):
        self.others.append(Extender(tempfile.mkdtemp(dir=self.folder), self.redis.path, *self.options))
        return self.others[-1]

    def bring(self, names=None):
        """What agents publish: the nodes' loads, and their curves, which differ a little between machines of one model."""
        for name in names or list(self.load):
            self.seq += 1
            number = int(name[5:])
            model = number % MODELS
            text = json.loads(curve(60 + 25 * model + (number // MODELS) % 4))
            if model > 0:
                text["machine"] = "%016x" % (model * 7919)
            publish(self.redis, sample(name, self.seq, self.load[name]), json.dumps(text))

    def settled(self, *extenders):
        """They have read what was published last, and have settled what nodes of a model share: once in ten seconds."""
        names = sorted(self.load)
        begin = [(e, e.metric("kwatt_extender_refreshes_total")) for e in extenders]
        wait_for("all have read a few times", lambda: all(e.metric("kwatt_extender_refreshes_total") > n + 25 for e, n in begin))
        pod = self.request(0, names)
        wait_for("all say the same", lambda: len({e.ask("/prioritize", pod).body for e in extenders}) == 1)

    def request(self, i, names):
        rng = random.Random(i)
        chosen = rng.sample(names, rng.randrange(1, len(names))) if i % 3 else list(names)
        if i % 7 == 0:
            chosen += ["unknown-%d" % rng.randrange(9), chosen[0]]
        if i % 2:
            rng.shuffle(chosen)
        annotations = rng.choice(({}, {}, {"kwatt.io/placement": rng.choice(("efficient", "performance", "off"))},
                                  {"kwatt.io/expected-cpu": "%dm" % rng.randrange(1, 9000)}, {"kwatt.io/expected-watts": str(rng.randrange(1, 90))}))
        pod = {"metadata": {"name": "p-%d" % (i % 50), "namespace": "orchard", "uid": "uid-%d" % i, "annotations": annotations},
               "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "%dm" % rng.choice((1, 50, 100, 999, 2000, 7999, 64000))}}}
                                       for _ in range(rng.randrange(3))]}}
        form = {"Nodes": {"items": [{"metadata": {"name": name}} for name in chosen]}, "NodeNames": None} if i % 5 == 4 else \
               {"Nodes": None, "NodeNames": chosen}
        return json.dumps({"Pod": pod, **form}).encode()

    def compare(self, *extenders):
        names = sorted(self.load)
        told_apart = 0
        for i in range(REQUESTS):
            body = self.request(i, names)
            for verb in ("/filter", "/prioritize"):
                answers = [(a.status, a.body) for a in (extender.ask(verb, body) for extender in extenders)]
                self.assertEqual(len(set(answers)), 1, "request %d of %s: %r: %r" % (i, verb, body[:300], answers))
                told_apart += verb == "/prioritize" and len({e["Score"] for e in json.loads(answers[0][1])}) > 1
        self.assertGreater(told_apart, REQUESTS // 2)  # or nothing was shown

    def test_same_answers(self):
        self.bring()
        second = self.another()
        self.settled(self.extender, second)
        self.compare(self.extender, second)
        # nodes publish, one after the other and in any order, some come and some learn another curve, while one replica is away
        self.assertEqual(self.others.pop().stop(), 0)
        for _ in range(10):
            for name in self.rng.sample(sorted(self.load), 40):
                self.load[name] = self.rng.randrange(8000)
                self.bring([name])
            time.sleep(0.2)
        for i in range(NODES, NODES + 20):
            self.load["node-%03d" % i] = self.rng.randrange(8000)
            self.bring(["node-%03d" % i])
        again = self.another()
        self.settled(self.extender, again)
        self.compare(self.extender, again)
        # both saw other requests before, and in another order
        for i in range(0, 200):
            again.ask("/prioritize", self.request(REQUESTS + i, sorted(self.load)))
        self.compare(self.extender, again)


if __name__ == "__main__":
    main()
