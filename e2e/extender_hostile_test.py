#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that mean harm, at the real kwatt-extender, beside one that does not.

The healthy one has a connection of its own and asks all the while; it must have each of its answers, whatever the others do. What the
others send is answered right, or with a clear status and text, or their connection is closed; memory stays bounded.
"""

import json
import os
import random
import resource
import select
import socket
import struct
import threading
import time

from extender_rig import PATIENCE_S, Case, read_answer, wait_for
from extender_test import main

BODY = b'{"NodeNames":["a"]}'
HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\n"
NODES = 5000     # whole ones, of 14.7 kB
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


class Healthy(threading.Thread):
    """Asks over one connection until told to stop."""

    def __init__(self, extender):
        super().__init__(daemon=True)
        self.socket = extender.connect()
        self.stream = self.socket.makefile("rb")
        self.enough, self.answers, self.failure, self.slowest_s = False, 0, None, 0.0

    def run(self):
        try:
            while not self.enough:
                begin = time.monotonic()
                self.socket.sendall(REQUEST)
                answer = read_answer(self.stream)
                assert answer is not None and answer.status == 200 and answer.json()["NodeNames"] == ["a"], answer
                self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
                self.answers += 1
                time.sleep(0.002)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure


class Watched(Case):
    """With a healthy client beside."""

    def setUp(self):
        super().setUp()
        self.healthy = Healthy(self.extender)
        self.healthy.start()

    def tearDown(self):
        before = self.healthy.answers
        try:
            wait_for("the healthy client is answered", lambda: self.healthy.failure or self.healthy.answers > before)
            self.healthy.enough = True
            self.healthy.join(PATIENCE_S)
            self.assertIsNone(self.healthy.failure)
            print("%s: %d healthy answers, the slowest after %.0f ms" % (self.id(), self.healthy.answers, 1000 * self.healthy.slowest_s))
        finally:
            self.healthy.socket.close()
            super().tearDown()

    def memory_kib(self, what="VmRSS"):
        with open("/proc/%d/status" % self.extender.process.pid, encoding="ascii") as status:
            return int(next(line for line in status if line.startswith(what + ":")).split()[1])


class Hostile(Watched):
    def talk(self, sent, half_close=False):
        """All that comes back for some bytes, until the extender closes or falls silent."""
        with self.extender.connect() as s:
            try:
                s.sendall(sent)
                if half_close:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            got = b""
            while select.select([s], [], [], PATIENCE_S if half_close else 1.0)[0]:
                try:
                    more = s.recv(65536)
                except ConnectionResetError:
                    break
                if not more:
                    break
                got += more
            return got

    def statuses(self, sent, half_close=False):
        return [int(part[:3]) for part in self.talk(sent, half_close).split(b"HTTP/1.1 ")[1:]]

    def test_what_go_reads(self):
        """Keys in any case, twice (the last counts), null, unknown ones at any depth, and names with escapes: as encoding/json has it."""
        rng = random.Random(7)

        def spelt(key):
            return "".join(rng.choice((c.lower(), c.upper())) for c in key)

        def junk(depth):
            if depth < 6 and rng.random() < 0.4:
                return [junk(depth + 1) for _ in range(3)]
            if depth < 6 and rng.random() < 0.4:
                return {spelt("Items"): junk(depth + 1), "": junk(depth + 1)}
            return rng.choice((None, "", "x", "\u00e9\U0001f600", "a\"\\/\b", True, False, 1e300, -0.0, 2 ** 63 - 1))

        def name():
            return "".join(rng.choice("ab-.\u00e9\U0001f600\"\\\n") for _ in range(rng.randrange(60)))

        for round_ in range(400):
            names, members = None, []
            for _ in range(rng.randrange(1, 4)):
                names = rng.choice((None, [name() for _ in range(rng.randrange(90))], ["plain-%d" % i for i in range(rng.randrange(200))]))
                members.append((spelt("NodeNames"), names))
            rest = [(spelt("Pod"), rng.choice((None, {"metadata": None, "spec": junk(0)}, {"spec": {"containers": [None, {}]}}))),
                    ("Unknown", junk(0)), (spelt("Nodes"), None)]
            members = rest[:2] + members + rest[2:]
            # with and without blanks, names in their own bytes or escaped
            text = "{" + ",".join("%s:%s" % (json.dumps(k), json.dumps(v, ensure_ascii=rng.random() < 0.5, separators=rng.choice(((",", ":"), None))))
                                  for k, v in members) + "}"
            answer = self.extender.ask(rng.choice(("/filter", "//any/Path/filter")), text.encode()).json()
            if names is None:
                self.assertIn("neither Nodes nor NodeNames", answer["Error"], text)
            else:
                self.assertEqual((answer["NodeNames"], answer["Error"]), (names, ""), "round %d: %s" % (round_, text))
                scores = self.extender.ask("/prioritize", text.encode()).json()
                self.assertEqual([e["Host"] for e in scores], names)

    def test_what_is_no_json(self):
        for bad in (b'{"NodeNames":["\xff"]}', b'{"NodeNames":["\\ud800"]}', b'{"NodeNames":["\\u00"]}', b'{"NodeNames":[1]}', b'{"x":1e99999}',
                    b'{"NodeNames":["a"]}{}', b'{"NodeNames":["a",]}', b"[" * 100000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"\xef\xbb\xbf{}", b"nul"):
            self.assertTrue(self.extender.ask("/filter", bad).json()["Error"].startswith("kwatt: "), bad[:50])
            self.assertEqual(self.extender.ask("/prioritize", bad).status, 400)
            self.assertEqual(self.extender.ask("/preempt", b"[" + bad).status, 400)

    def test_preemption(self):
        asked = {"NodeNameToMetaVictims": {"a": {"Pods": [], "NumPDBViolations": 0}, "no-node-of-ours": {"Pods": [{"UID": "u\u00e9"}], "NumPDBViolations": 3},
                                           "b": {"Pods": None, "NumPDBViolations": 0}}}
        got = self.extender.ask("/preempt", {"Pod": None, "NodeNameToVictims": None, **asked}).json()["NodeNameToMetaVictims"]
        self.assertEqual(set(got), set(asked["NodeNameToMetaVictims"]))
        self.assertEqual(got["no-node-of-ours"], {"Pods": [{"UID": "u\u00e9"}], "NumPDBViolations": 3})
        self.assertFalse(got["a"]["Pods"])
        full = {"a": {"Pods": [{"metadata": {"uid": "1", "name": "n"}, "spec": {}}, {"metadata": {"uid": "2"}}], "NumPDBViolations": 1}}
        got = self.extender.ask("/preempt", {"nodeNameToVictims": full, "NODENAMETOMETAVICTIMS": None}).json()["NodeNameToMetaVictims"]
        self.assertEqual(got, {"a": {"Pods": [{"UID": "1"}, {"UID": "2"}], "NumPDBViolations": 1}})

    def test_chunks(self):
        head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        whole = b"%x\r\n" % len(BODY) + BODY + b"\r\n"
        for good in (whole + b"0\r\n\r\n", whole + b"0\r\nX-Trailer: y\r\n\r\n", b"%x;name=value\r\n" % len(BODY) + BODY + b"\r\n0;a\r\n\r\n",
                     b"%016X\r\n" % len(BODY) + BODY + b"\r\n000\r\n\r\n", b"".join(b"1\r\n" + BODY[i:i + 1] + b"\r\n" for i in range(len(BODY))) + b"0\r\n\r\n"):
            got = self.talk(head + good, half_close=True)
            self.assertTrue(got.startswith(b"HTTP/1.1 200 ") and b'"NodeNames":["a"]' in got, (good, got))
        for bad in (b"-1\r\n", b"0x13\r\n", b"ffffffffffffffffff\r\n", b"fffffffffffffff0\r\n", b"g\r\n", b"\r\n", b"5" * 5000, whole[:-2] + b"0\r\n\r\n",
                    whole[:7], whole + b"0\r\n"):
            got = self.statuses(head + bad, half_close=True)
            self.assertIn(got, ([], [400], [413]), (bad[:40], got))

    def test_smuggling(self):
        hidden = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        length = b"Content-Length: %d\r\n" % len(BODY)
        for lines in (length + b"Content-Length: 3\r\n", length + b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\n" + length,
                      b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n", b"Content-Length: +19\r\n", b"Content-Length: 1 9\r\n",
                      b"Content-Length: 19,19\r\n", b"Content-Length : 19\r\n", b"Content-Length:\r\n 19\r\n", b"X: y\n" + length, b":\r\n" + length,
                      b"Content-Length: 99999999999999999999\r\n", b"Content-Length: -1\r\n", b""):
            got = self.talk(HEAD + lines + b"\r\n" + BODY + hidden)
            self.assertNotIn(b"200 OK", got, (lines, got))
            self.assertRegex(got, rb"^(HTTP/1.1 (400|411|413|501) |$)", lines)
            self.assertNotIn(b"\r\n\r\nok\n", got, (lines, got))

    def test_heads(self):
        for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "P0ST"):
            got = self.statuses(b"%s /filter HTTP/1.1\r\nHost: x\r\n\r\n" % method.encode())
            self.assertEqual(len(got), 1, method)
            self.assertIn(got[0], (400, 404, 405, 501), method)
        self.assertEqual(self.extender.ask("/filter", method="HEAD").status, 405)
        self.assertEqual(self.extender.ask("/none", b"{}").status, 404)
        encoded = HEAD + b"Content-Encoding: %s\r\nContent-Length: 19\r\n\r\n" + BODY
        self.assertEqual(self.statuses(encoded % b"gzip"), [415])
        self.assertEqual(self.statuses(encoded % b"Identity"), [200])
        self.assertEqual(self.extender.ask("/filter?x=%00&y=../..", BODY).status, 400)
        for head in (b"POST /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", HEAD + b"X: " + b"y" * 100000 + b"\r\n\r\n",
                     HEAD + b"X: y\r\n" * 20000 + b"\r\n", b"\r\n" * 50000, b"\0" * 100000, b"POST /filter HTTP/9.9\r\n\r\n", b"POST\r\n\r\n",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2):
            got = self.statuses(head, half_close=True)
            self.assertTrue(all(400 <= status < 506 for status in got), (head[:30], got))

    def test_resets(self):
        rng = random.Random(3)
        for i in range(500):
            s = self.extender.connect()
            s.sendall(REQUEST[:rng.randrange(len(REQUEST) + 1)] if i % 2 else REQUEST * 50)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        self.assertEqual(self.extender.scores("a"), [5])

    def test_slow_senders(self):
        crowd = []
        for i in range(150):
            s = self.extender.connect()
            s.sendall(REQUEST[:1 + i % (len(REQUEST) - 1)] if i % 3 else HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n")
            crowd.append(s)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            for s in crowd[::3]:
                try:
                    s.sendall(b"{\r\n1\r\n")
                except OSError:
                    pass  # it may have been told that this leads nowhere
            time.sleep(0.1)
        for s in crowd:
            s.close()

    def crowd(self, n):
        """Connections that say nothing, as many as can be had."""
        silent = []
        for _ in range(n):
            try:
                silent.append(socket.create_connection(("127.0.0.1", self.extender.port), timeout=PATIENCE_S))
            except OSError:
                break
        return silent

    def let_go(self, silent):
        for s in silent:
            s.close()

        def is_answered():
            try:
                return self.extender.ask("/healthz").status == 200
            except (OSError, AttributeError):
                return False
        wait_for("others are let in again", is_answered)

    def test_thousands_of_idle_connections(self):
        before = self.memory_kib()
        silent = self.crowd(min(3000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200))
        answers = self.healthy.answers
        wait_for("the healthy client is answered beside them", lambda: self.healthy.failure or self.healthy.answers > answers + 100)
        # each of --max-connections has some 40 KiB
        self.assertLess(self.memory_kib() - before, 64 << 10)
        self.let_go(silent)

    def test_no_file_descriptors_are_left(self):
        used = len(os.listdir("/proc/%d/fd" % self.extender.process.pid))
        limits = resource.prlimit(self.extender.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.extender.process.pid, resource.RLIMIT_NOFILE, (used + 4, limits[1]))
        silent = self.crowd(200)
        answers = self.healthy.answers
        wait_for("the healthy client is answered beside them", lambda: self.healthy.failure or self.healthy.answers > answers + 100)
        resource.prlimit(self.extender.process.pid, resource.RLIMIT_NOFILE, limits)
        self.let_go(silent)


class Large(Watched):
    """Eight clients with 72 MB each, at once."""
    environment = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}

    def test_eight_at_once(self):
        item = json.dumps({"metadata": {"name": "node-%04d"}, "status": {"images": ["x" * 60] * 230}})
        body = ('{"Nodes":{"items":[' + ",".join(item % i for i in range(NODES)) + "]}}").encode()
        self.assertGreater(len(body), 70 << 20)
        failures = []

        def ask(i):
            try:
                answer = self.extender.ask("/filter" if i % 2 else "/prioritize", body)
                # 503 where all of them together are too much
                assert answer.status in (200, 503), answer.status
                assert answer.status != 200 or answer.body.count(b"node-") == NODES, len(answer.body)
            except Exception as failure:  # pylint: disable=broad-except
                failures.append(failure)

        clients = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        # a body each in a buffer of up to twice its size, an answer as long for half of them, and what a sanitizer adds
        self.assertLess(self.memory_kib("VmHWM"), (8 * 2 + 4 * 2 + 2) * len(body) >> 10)
        wait_for("what was large is given back", lambda: self.memory_kib() < 4 * len(body) >> 10)


if __name__ == "__main__":
    main()
