#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kwatt-extender as kube-scheduler meets it: the real program, a real redis-server, sockets of our own.

Samples are written to Redis by the reference in api/README.md, so this also proves that reference sufficient.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from extender_rig import PATIENCE_S, POD, PROGRAM, Case, curve, read_answer, sample, wait_for


class WithRedis(Case):
    # with an interval of 200 ms a node turns stale after this second
    options = ("--stale-after", "1s")

    def test_before_during_and_after_redis(self):
        # before: neutral, and ready
        self.assertEqual(self.extender.scores("cheap", "dear"), [5, 5])
        self.assertEqual(self.extender.ask("/healthz").status, 200)
        self.assertEqual(self.extender.ask("/readyz").status, 200)
        self.assertEqual(self.extender.metric("kwatt_extender_redis_up"), 0)

        def placed():
            self.publish("cheap", 1000, 60)
            self.publish("dear", 1000, 180)
            return self.extender.scores("dear", "cheap", "unknown") == [0, 10, 0]

        self.redis.start()
        wait_for("nodes are scored", placed)
        self.assertEqual(self.extender.metric("kwatt_extender_redis_up"), 1)
        self.assertEqual(self.extender.metric("kwatt_extender_nodes"), 2)

        # killed: answered throughout, from the last snapshot and then neutrally
        self.redis.kill()
        wait_for("nodes are neutral", lambda: self.extender.scores("dear", "cheap") == [5, 5])
        wait_for("stale nodes are counted",
                 lambda: self.extender.metric("kwatt_extender_nodes_stale") == 2)
        self.assertEqual(self.extender.metric("kwatt_extender_redis_up"), 0)
        self.assertEqual(self.extender.metric("kwatt_extender_nodes"), 2)

        # back (empty: it kept nothing)
        self.redis.start()
        wait_for("nodes are scored again", placed)
        log = self.extender.log()
        self.assertEqual(log.count("lost Redis"), 1, log)

    def test_stale_node_is_neutral(self):
        self.redis.start()
        self.publish("old", 0, 60, t_unix_ms=int(time.time() * 1000) - 3600000)

        def placed():
            self.publish("cheap", 1000, 60)
            self.publish("dear", 1000, 180)
            return self.extender.scores("cheap", "old", "dear") == [10, 0, 0]

        wait_for("an old sample is not placed by", placed)

    def test_redis_hangs(self):
        self.redis.start()

        def placed():
            self.publish("cheap", 1000, 60)
            self.publish("dear", 1000, 180)
            return self.extender.scores("dear", "cheap") == [0, 10]

        wait_for("nodes are scored", placed)
        self.redis.process.send_signal(signal.SIGSTOP)
        wait_for("nodes are neutral", lambda: self.extender.scores("dear", "cheap") == [5, 5])
        wait_for("the hanging Redis is noticed", lambda: self.extender.metric("kwatt_extender_redis_up") == 0)
        # tearDown stops the extender while Redis still hangs

    def test_hostile_records(self):
        self.redis.start()
        call = self.redis.call
        call("ZADD", "kwatt:v1:nodes", "inf", "infinite", "-5", "negative", "1", "", "1", "a{b}c",
             "1", b"a\0b", "1", "x" * 300, "1", b"\xff\xfe", "1", "wrongtype", "1", "no-record", "1",
             "bad-json", "1", "bad-curve", "1", "other-schema", "1", "liar", "1", "huge", "1", "numbers")
        call("SET", "kwatt:v1:node:{wrongtype}", "x")
        now = int(time.time() * 1000)
        for node, text in (("bad-json", '{"schema":1,'), ("other-schema", '{"schema":2}'),
                           ("liar", sample("cheap", 1, 0)), ("huge", "[" * 3000000),
                           ("numbers", sample("numbers", 1, 2 ** 63))):
            call("HSET", "kwatt:v1:node:{%s}" % node, "sample", text, "curve", curve(60))
        call("HSET", "kwatt:v1:node:{bad-curve}", "sample", sample("bad-curve", 1, 0), "curve",
             '{"schema":1,"capacity_mcpu":0,"knots":[]}')

        def placed():
            self.publish("cheap", 1000, 60)
            self.publish("dear", 1000, 180)
            return self.extender.scores("cheap", "liar", "bad-curve", "dear", "huge") == [10, 0, 0, 0, 0]

        wait_for("good nodes are scored beside bad ones", placed)
        for reason in ("name", "missing", "sample", "curve", "schema", "reply"):
            wait_for(f"a record is skipped for its {reason}", lambda: self.extender.metric(
                'kwatt_extender_records_skipped_total{reason="%s"}' % reason) > 0)
        self.assertEqual(self.extender.metric("kwatt_extender_nodes_unpriced"), 1)
        # and that is told once, not each time that all nodes are read
        told = []
        for _ in range(2):
            reads = self.extender.metric("kwatt_extender_whole_refreshes_total")
            wait_for("all nodes are read again", lambda: self.extender.metric("kwatt_extender_whole_refreshes_total") > reads + 2)
            told.append(self.extender.log().count("records left out"))
        self.assertEqual(told[0], told[1], self.extender.log())
        # the index itself of another type: the last snapshot stays in force
        before = self.extender.metric("kwatt_extender_nodes")
        failures = self.extender.metric("kwatt_extender_redis_failures_total")
        call("SET", "kwatt:v1:nodes", "x")
        wait_for("the bad index is noticed",
                 lambda: self.extender.metric("kwatt_extender_redis_failures_total") > failures)
        self.assertEqual(self.extender.metric("kwatt_extender_nodes"), before)
        self.assertGreater(now, 0)

    def test_many_clients_while_nodes_change(self):
        self.redis.start()
        names = ["n%d" % i for i in range(200)]
        failures = []

        def ask():
            try:
                for _ in range(30):
                    self.extender.scores(*names)
                    self.extender.metric("kwatt_extender_nodes")
            except Exception as e:  # pylint: disable=broad-except
                failures.append(e)

        clients = [threading.Thread(target=ask) for _ in range(6)]
        for client in clients:
            client.start()
        rounds = 0
        while any(client.is_alive() for client in clients) or rounds == 0:
            rounds += 1
            for i, name in enumerate(names[rounds % 3::7]):
                self.publish(name, i * 30, 60 + i * 5)
            self.redis.call("ZREM", "kwatt:v1:nodes", names[rounds % len(names)])
        for client in clients:
            client.join()
        self.assertEqual(failures, [])

    def test_node_that_left_is_forgotten(self):
        self.redis.start()
        self.publish("a", 0, 60)
        self.publish("b", 0, 60)
        wait_for("both are known", lambda: self.extender.metric("kwatt_extender_nodes") == 2)
        self.redis.call("ZREM", "kwatt:v1:nodes", "a")
        wait_for("one is left", lambda: self.extender.metric("kwatt_extender_nodes") == 1)


class Large(Case):
    """What a scheduler without nodeCacheCapable sends of 5000 nodes."""
    # a sanitizer that holds back what was freed would be measured with it
    environment = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}

    def memory_kib(self):
        with open("/proc/%d/status" % self.extender.process.pid, encoding="ascii") as status:
            return int(next(line for line in status if line.startswith("VmRSS:")).split()[1])

    def test_72_megabytes(self):
        # one Node, 14.5 kB, as large as they are with their images; only its name differs
        pad = json.dumps({"images": [{"names": ["registry.example.org/team/service@sha256:%064x" % i], "sizeBytes": i} for i in range(108)]})
        items = ['{"metadata":{"name":"node-%04d"},"status":%s}' % (i, pad) for i in range(5000)]
        body = ('{"Pod":%s,"Nodes":{"items":[%s]},"NodeNames":null}' % (json.dumps(POD), ",".join(items))).encode()
        self.assertGreater(len(body), 60 << 20)
        held = []
        for i in range(5):
            answer = self.extender.ask("/filter", body)
            self.assertEqual(answer.status, 200)
            self.assertIn(b",".join(item.encode() for item in items[:50]), answer.body)
            self.assertEqual(answer.body.count(b'"metadata":{"name":"node-'), 5000)
            self.assertTrue(answer.body.endswith(b'"Error":""}'))
            if i == 0:
                scores = self.extender.ask("/prioritize", body).json()
                self.assertEqual([e["Host"] for e in scores], ["node-%04d" % k for k in range(5000)])
            held.append(self.memory_kib())
        # a body and an answer at most are kept for the next request, and no more with each: three more would be three more bodies
        self.assertLess(min(held[3:]) - held[1], len(body) >> 10, held)


class Explain(Case):
    def kwatt(self, *words):
        program = os.path.join(os.path.dirname(PROGRAM), "..", "cli", "kwatt")
        return subprocess.run([program, "explain", "--extender", "127.0.0.1:%d" % self.extender.port, *words], capture_output=True,
                              text=True, check=False, timeout=PATIENCE_S)

    def test_why(self):
        done = self.kwatt()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("was not asked about any pod", done.stderr)
        self.redis.start()

        def placed():
            self.publish("cheap", 1000, 60)
            self.publish("dear", 1000, 180)
            return self.extender.scores("dear", "cheap", "unknown") == [0, 10, 0]

        wait_for("nodes are scored", placed)
        latest = self.extender.ask("/explain?pod=orchard/p").json()["decisions"][0]
        self.assertEqual((latest["candidates"], latest["known"], latest["mcpu"], latest["mcpu_from"]), (3, 2, 1000, "requests"))
        self.assertEqual((latest["min_mw"], latest["max_mw"]), (5000, 20000))
        self.assertEqual(latest["best"], [{"node": "cheap", "mw": 5000, "used_mcpu": 1000, "fill_permille": 125, "score": 10, "wake_j": None}])
        self.assertGreaterEqual(latest["data_age_ms"], 0)
        self.assertEqual(self.extender.ask("/explain?pod=other/p").json(), {"decisions": []})
        self.assertEqual(self.extender.ask("/explain?as=text&pod=other/p").status, 404)
        self.extender.scores("dear", "cheap", pod={"metadata": {"name": "off", "namespace": "orchard", "annotations": {
            "kwatt.io/placement": "off"}}})
        done = self.kwatt("orchard/off")
        self.assertIn("neutral: kwatt.io/placement is off", done.stdout)
        done = self.kwatt("p")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("it would add 5.0 W where that is cheapest, 20.0 W where dearest\n  10  +5.0 W   12 % full  cheap\n", done.stdout)
        done = self.kwatt("orchard/p", "--json")
        self.assertEqual(json.loads(done.stdout)["decisions"][0]["best"][0]["node"], "cheap")
        done = self.kwatt("orchard/nobody")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.kwatt("a", "b").returncode, 2)


class DryRun(Case):
    options = ("--dry-run",)

    def test_nothing_is_placed(self):
        self.redis.start()
        self.publish("cheap", 1000, 60)
        self.publish("dear", 1000, 180)

        def known():
            self.assertEqual(self.extender.scores("dear", "cheap"), [5, 5])
            return self.extender.ask("/explain").json()["decisions"][0]["known"] == 2

        wait_for("nodes are scored for the record", known)
        latest = self.extender.ask("/explain").json()["decisions"][0]
        self.assertTrue(latest["dry_run"])
        self.assertEqual(self.extender.ask("/explain").json()["dry_run"], {"pods": 0, "saved_mw": 0})
        self.assertIn("\ndry run: no pod was seen bound yet", self.extender.ask("/explain?as=text").body.decode())
        self.assertEqual([(b["node"], b["score"]) for b in latest["best"]], [("cheap", 10)])


class Wire(Case):
    options = ("--max-body", "4Mi", "--idle-timeout", "120s")

    def test_paths_and_methods(self):
        ask = self.extender.ask
        body = {"NodeNames": ["a"]}
        for path in ("/filter", "/kwatt/filter", "/a/b/c/filter", "/filter?x=1"):
            self.assertEqual(ask(path, body).json()["NodeNames"], ["a"], path)
        for path in ("/", "/filter/", "/bind", "/filters", "/a/filter/x"):
            self.assertEqual(ask(path, body).status, 404, path)
        self.assertEqual(ask("/filter").status, 405)
        self.assertIn("POST", ask("/filter").headers["allow"])
        self.assertEqual(ask("/healthz", body).status, 404)
        self.assertEqual(ask("/healthz", method="HEAD").status, 200)
        self.assertEqual(ask("/nothing").status, 404)

    def test_forms(self):
        ask = self.extender.ask
        items = [{"metadata": {"name": n}, "status": {"x": [1, {"y": None}]}} for n in ("a", "b")]
        got = ask("/filter", {"Pod": POD, "Nodes": {"items": items}, "NodeNames": None}).json()
        self.assertEqual(got["Nodes"]["items"], items)
        self.assertIsNone(got["NodeNames"])
        got = ask("/filter", {"Pod": POD, "Nodes": None, "NodeNames": None})
        self.assertEqual(got.status, 200)
        self.assertTrue(got.json()["Error"])
        raw = b'{"nodenames":["\\u0061\\/b","\xc3\xa9"]}'
        self.assertIn(b'"NodeNames":["\\u0061\\/b","\xc3\xa9"]', ask("/filter", raw).body)
        self.assertEqual(ask("/prioritize", {"NodeNames": []}).json(), [])
        victims = {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}, "b": {"Pods": [], "NumPDBViolations": 0}}
        got = ask("/preempt", {"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})
        self.assertEqual(got.json(), {"NodeNameToMetaVictims": victims})

    def test_many_names(self):
        names = ["node-%05d.rack-%03d.example.org" % (i, i % 400) for i in range(15000)]
        got = self.extender.ask("/filter", {"Pod": POD, "NodeNames": names}).json()
        self.assertEqual(got["NodeNames"], names)
        self.assertEqual(self.extender.scores(*names), [5] * len(names))

    def test_too_large(self):
        got = self.extender.ask("/filter", b'{"Pod":"' + b"x" * (5 << 20) + b'"}')
        if got is not None:  # closed early is as good
            self.assertEqual(got.status, 413)
        self.assertEqual(self.extender.ask("/filter", {"NodeNames": ["a"]}).status, 200)

    def test_malformed_bodies(self):
        rng = random.Random(1)
        good = json.dumps({"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "a"}}]},
                           "NodeNames": ["a", "b"]}).encode()
        bits = [b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\0", b"\xff", b"1e999", b"null", b"\\u12"]
        refused = 0
        stream = None
        for i in range(1000):
            body = bytearray(good)
            for _ in range(rng.randrange(1, 5)):
                at = rng.randrange(len(body))
                kind = rng.randrange(4)
                if kind == 0:
                    del body[at:]
                elif kind == 1:
                    body[at:at] = rng.choice(bits)
                elif kind == 2:
                    body[at] = rng.randrange(256)
                else:
                    del body[at:at + rng.randrange(20)]
                body = body or bytearray(b"{")
            verb = ("filter", "prioritize", "preempt")[i % 3]
            if stream is None:
                stream = self.extender.connect()
            stream.sendall(b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" %
                           (verb.encode(), len(body)) + bytes(body))
            answer = read_answer(stream.makefile("rb"))
            self.assertIsNotNone(answer, bytes(body))
            self.assertIn(answer.status, (200, 400), bytes(body))
            try:
                json.loads(bytes(body).decode("utf-8"), parse_constant=lambda _: 1 / 0)
                is_json = True
            except (ValueError, ZeroDivisionError):
                is_json = False
            if not is_json:
                self.assertTrue(answer.status == 400 or answer.json()["Error"], bytes(body))
                refused += 1
            if answer.headers.get("connection") == "close":
                stream.close()
                stream = None
        if stream is not None:
            stream.close()
        self.assertGreater(refused, 500)
        self.assertEqual(self.extender.scores("a"), [5])

    def test_keep_alive_and_pipelining(self):
        body = b'{"NodeNames":["a"]}'
        request = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with self.extender.connect() as s:
            stream = s.makefile("rb")
            for _ in range(50):
                s.sendall(request)
                self.assertEqual(read_answer(stream).status, 200)
            s.sendall(request * 5)
            for _ in range(5):
                self.assertEqual(read_answer(stream).json()["NodeNames"], ["a"])

    def test_http_versions_and_framing(self):
        body = b'{"NodeNames":["a"]}'
        length = b"Content-Length: %d\r\n" % len(body)
        with self.extender.connect() as s:
            s.sendall(b"POST /filter HTTP/1.0\r\n" + length + b"\r\n" + body)
            stream = s.makefile("rb")
            self.assertEqual(read_answer(stream).json()["NodeNames"], ["a"])
            self.assertEqual(stream.read(), b"")  # 1.0 without keep-alive ends with the answer
        with self.extender.connect() as s:
            stream = s.makefile("rb")
            for _ in range(3):  # a 1.0 client that asks for it keeps its connection
                s.sendall(b"POST /filter HTTP/1.0\r\nConnection: Keep-Alive\r\n" + length + b"\r\n" + body)
                self.assertEqual(read_answer(stream).json()["NodeNames"], ["a"])
        with self.extender.connect() as s:
            s.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n" + body)
            s.shutdown(socket.SHUT_WR)  # it has no more to ask, and is answered
            stream = s.makefile("rb")
            self.assertEqual(read_answer(stream).json()["NodeNames"], ["a"])
            self.assertEqual(stream.read(), b"")
        with self.extender.connect() as s:
            s.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + length + b"\r\n")
            stream = s.makefile("rb")
            self.assertEqual(read_answer(stream).status, 100)
            s.sendall(body)
            self.assertEqual(read_answer(stream).json()["NodeNames"], ["a"])
        with self.extender.connect() as s:
            s.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                      b"5\r\n" + body[:5] + b"\r\n%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n")
            answer = read_answer(s.makefile("rb"))
            self.assertIn(answer.status, (200, 411))
            if answer.status == 200:
                self.assertEqual(answer.json()["NodeNames"], ["a"])
        with self.extender.connect() as s:
            s.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\n" + length + b"Transfer-Encoding: chunked\r\n\r\n")
            answer = read_answer(s.makefile("rb"))
            self.assertTrue(answer is None or answer.status == 400)

    def test_slow_clients_delay_nobody(self):
        body = b'{"NodeNames":["a"]}'
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        stalled = [self.extender.connect() for _ in range(20)]
        try:
            for i, s in enumerate(stalled):
                s.sendall((head + body)[:i * 4])
            for _ in range(20):
                self.assertEqual(self.extender.scores("a", "b"), [5, 5])
            # one that sends byte by byte is answered in the end
            with self.extender.connect() as s:
                for byte in head + body:
                    s.sendall(bytes([byte]))
                    time.sleep(0.002)
                self.assertEqual(read_answer(s.makefile("rb")).status, 200)
        finally:
            for s in stalled:
                s.close()

    def test_signals(self):
        self.extender.process.send_signal(signal.SIGHUP)
        wait_for("SIGHUP is logged", lambda: "read the configuration again" in self.extender.log())
        self.assertEqual(self.extender.scores("a"), [5])

    def test_metrics_page(self):
        self.extender.scores("a", "b")
        self.extender.ask("/filter", b"{")
        page = self.extender.ask("/metrics").body
        self.assertEqual(self.extender.metric(
            'kwatt_extender_requests_total{verb="prioritize",outcome="ok"}'), 1)
        self.assertEqual(self.extender.metric(
            'kwatt_extender_requests_total{verb="filter",outcome="refused"}'), 1)
        self.assertEqual(self.extender.metric('kwatt_extender_candidates_total{by="neutral"}'), 2)
        promtool = shutil.which("promtool")
        if promtool:
            done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Usage(unittest.TestCase):
    def test_bad_options_are_explained(self):
        for options, text in ((["--threads", "0"], "threads"), (["--redis", "http://x"], "redis"),
                              (["--no-such-flag"], "no-such-flag")):
            done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", *options], capture_output=True,
                                  check=False, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr.decode())
        done = subprocess.run([PROGRAM, "--help"], capture_output=True, check=True, timeout=PATIENCE_S)
        self.assertIn(b"--stale-after", done.stdout)

    def test_address_in_use_is_named(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            address = "127.0.0.1:%d" % s.getsockname()[1]
            done = subprocess.run([PROGRAM, "--listen", address], capture_output=True, check=False,
                                  timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn(address, done.stderr.decode())


def main():
    missing = [name for name, found in (("redis-server", shutil.which("redis-server")),
                                        (PROGRAM, os.access(PROGRAM, os.X_OK))) if not found]
    if missing:
        print("SKIP: not there: " + ", ".join(missing))
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    unittest.main()


if __name__ == "__main__":
    main()
