#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An API server that refuses, is overloaded, forgets, lies or is cut off, before the real kwatt-extender with all that it can do there: it
scores by what Redis has all the while, says each thing once, asks ever more rarely, and ends when it is told to.
"""
import json
import os
import shutil
import socket
import tempfile
import threading

from extender_rig import Case, Extender, Redis, serve_all, wait_for
from extender_test import main

OPTIONS = ("--watch-pods", "--watch-nodes", "--write-headroom", "--events", "--power-tiers", "--leader-elect", "--leader-elect-namespace", "kwatt",
           "--stale-after", "1h")
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
ROUNDS = 4      # of lists, before it is judged


class Api:
    """Reads requests; `answer(path, is_watch, connection)` gives bytes, or None to close."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.answer, self.asked, self.over = self.listener.getsockname()[1], answer, {}, threading.Event()
        serve_all(self.listener, self.serve)

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                while line := stream.readline():
                    method, target, _ = line.decode().split()
                    lengths = [int(head.split(b":")[1]) for head in iter(stream.readline, b"\r\n") if head.lower().startswith(b"content-length")]
                    stream.read(sum(lengths))
                    path, is_watch = target.split("?")[0], "watch=true" in target
                    key = path + (" watch" if is_watch else "")
                    self.asked[key] = self.asked.get(key, 0) + 1
                    answer = self.answer(self, method, path, is_watch, connection)
                    if answer is None:
                        return
                    connection.sendall(answer)
            except (OSError, ValueError):
                pass

    def close(self):
        self.over.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def answer(status, body=b"", head=""):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ("HTTP/1.1 %d x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n" % (status, head, len(body))).encode() + body


def failure(code, message):
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


def refuses(code, message, head=""):
    return lambda api, method, path, is_watch, connection: answer(code, failure(code, message), head)


def listing(path, items=(), **metadata):
    return answer(200, {"kind": "PodList" if "pods" in path else "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "5", **metadata},
                        "items": items})


def lists(watch):
    """Lists are empty and well; `watch` is what comes of watching; nothing may be written."""
    def give(api, method, path, is_watch, connection):
        if is_watch:
            return watch(api, connection)
        return listing(path) if method == "GET" and "leases" not in path else answer(403, failure(403, "not to be written"))
    return give


def pages(items, **metadata):
    return lambda api, method, path, is_watch, connection: answer(403, failure(403, "no")) if "leases" in path else listing(path, items, **metadata)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def huge(api, connection):
    connection.sendall(CHUNKED + chunk(b'{"type":"ADDED","object":{"metadata":{"name":"'))
    for _ in range(2000):
        connection.sendall(chunk(b"x" * 65536))


def cut(api, connection):
    connection.sendall(CHUNKED + chunk(b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"na'))


def silent(api, *_):
    api.over.wait()


# what it does; what is said of its cause; whether its lists are good
ILL = {
    "forbids all": (refuses(403, "forbidden: User \"x\" cannot list resource"), "403: forbidden: User", False),
    "knows nobody": (refuses(401, "Unauthorized"), "401: Unauthorized", False),
    "is overloaded": (refuses(429, "too many requests", "Retry-After: 1\r\n"), "429: too many requests", False),
    "fails": (refuses(500, "etcd is on fire"), "500: etcd is on fire", False),
    "is another program": (lambda *_: answer(503, b"<html>\x1b[31m</html>"), "503", False),
    "forgets its lists": (refuses(410, "too old"), "410: too old", False),
    "closes": (lambda *_: None, "Empty reply", False),
    "points elsewhere": (lambda *_: answer(302, b"", "Location: http://127.0.0.1:1/\r\n"), "302", False),
    "says null": (lambda *_: answer(200, b"null"), "no such object", False),
    "stops in the middle": (lambda api, m, p, w, connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kind\":"), "outstanding|remaining", False),
    "lists junk": (pages([None, 7, {"metadata": {"name": 7}}]), "no such object", False),
    "has lists without end": (pages([], **{"continue": "again"}), "the list does not go on", False),
    "forbids to watch": (lists(lambda *_: answer(403, failure(403, "cannot watch"))), "403: cannot watch", True),
    "cuts its streams": (lists(cut), "outstanding|remaining", True),
    "sends lines without end": (lists(huge), "an event is too large", True),
    "sends garbage": (lists(lambda *_: CHUNKED + chunk(b"\xff\xfe\n") + b"0\r\n\r\n"), "watch event", True),
}


class Ill(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kwatt-e2e-")
        self.redis = Redis(self.folder)
        self.redis.start()
        self.extender, self.seq = None, 0
        for i, name in enumerate("abc"):
            self.publish(name, 1000, 60 + 40 * i)

    def tearDown(self):
        self.redis.kill()
        shutil.rmtree(self.folder)

    def begin(self, api):
        config = os.path.join(self.folder, "kubeconfig")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                       "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:%d" % api.port}}], "users": [{"name": "u", "user": {}}]}, file)
        self.extender = Extender(self.folder, self.redis.path, "--kubeconfig", config, *OPTIONS)
        wait_for("scores tell nodes apart", lambda: self.extender.scores("a", "b", "c")[0] > self.extender.scores("a", "b", "c")[2])

    def end(self, api):
        api.close()
        if self.extender is not None:
            self.assertEqual(self.extender.stop(), 0, self.extender.log())
            os.unlink(self.extender.log_path)

    def check_ill(self, name):
        give, words, lists_well = ILL[name]
        api = Api(give)
        try:
            self.begin(api)
            wait_for("%s: it was asked a few times" % name, lambda: all(api.asked.get("/api/v1/" + what, 0) >= ROUNDS for what in ("pods", "nodes")))
            wait_for("%s: a write failed" % name, lambda: "writes no tiers" in self.extender.log())
            self.assertGreater(self.extender.scores("a", "b", "c")[0], self.extender.scores("a", "b", "c")[2])
            log = self.extender.log()
            for lost in ("pods that start are not seen", "nodes are not seen"):
                self.assertEqual(log.count(lost), 1, log)
                self.assertRegex(log, "%s.*(%s)" % (lost, words))
            for found in ("watching pods that start", "watching nodes"):
                self.assertEqual(log.count(found), 1 if lists_well else 0, log)
            self.assertEqual(log.count("writes no tiers"), 1, log)
            self.assertNotRegex(log, "[\x00-\x09\x0b-\x1f\x7f]")
        finally:
            self.end(api)

    def test_each(self):
        for name in ILL:
            with self.subTest(name):
                self.check_ill(name)

    def test_what_ends_by_itself_is_no_loss(self):
        """410 for a version that is too old, as a status and as an event, and a stream that is silent: lists are read anew, nothing is said."""
        old = json.dumps({"type": "ERROR", "object": failure(410, "too old")}).encode() + b"\n"
        for watch in (lambda *_: answer(410, failure(410, "too old")), lambda *_: CHUNKED + chunk(old) + b"0\r\n\r\n"):
            api = Api(lists(watch))
            try:
                self.begin(api)
                wait_for("lists are read again", lambda: all(api.asked.get("/api/v1/" + what, 0) >= ROUNDS for what in ("pods", "nodes")))  # pylint: disable=cell-var-from-loop
                self.assertNotIn("not seen", self.extender.log())
            finally:
                self.end(api)

    def test_it_ends_though_nobody_answers(self):
        for give in (lambda api, *_: silent(api), lists(silent)):
            api = Api(give)
            try:
                self.begin(api)
                wait_for("it was asked", lambda: len(api.asked) >= 2)  # pylint: disable=cell-var-from-loop
                self.assertEqual(self.extender.stop(), 0)
            finally:
                self.end(api)


if __name__ == "__main__":
    main()
