#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A kwatt-extender that is told to stop while clients ask: whoever has connected is answered, and nobody else can connect."""

import os
import shutil
import socket
import tempfile
import threading
import time
import unittest

from extender_rig import PATIENCE_S, Extender, Redis, read_answer, wait_for
from extender_test import main

BODY = b'{"NodeNames":["a"]}'
REQUEST = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
ROUNDS = 4


class Client(threading.Thread):
    """Asks until nobody listens any more."""

    def __init__(self, connect, per_connection):
        super().__init__(daemon=True)
        self.connect, self.per_connection = connect, per_connection
        self.answered, self.closing, self.unanswered = 0, 0, []
        self.start()

    def run(self):
        while True:
            try:
                s = self.connect()
            except OSError:
                return
            with s:
                self.ask(s)

    def ask(self, s):
        stream = s.makefile("rb")
        for i in range(self.per_connection):
            try:
                s.sendall(REQUEST)
                answer = read_answer(stream)
            except OSError as failure:
                answer = failure
            if answer is None or isinstance(answer, OSError) or answer.status != 200 or answer.json()["NodeNames"] != ["a"]:
                self.unanswered.append((i, answer))
                return
            self.answered += 1
            if answer.headers.get("connection") == "close":
                self.closing += 1
                return


class Stop(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kwatt-e2e-")
        self.redis = Redis(self.folder)

    def tearDown(self):
        self.redis.kill()
        shutil.rmtree(self.folder)

    def check(self, connect, *options):
        answered = 0
        for _ in range(ROUNDS):
            extender = Extender(self.folder, self.redis.path, *options)
            os.remove(extender.log_path)
            clients = [Client(lambda: connect(extender), per) for per in (1, 1, 1, 1, 5, 1000000, 1000000)]
            while not all(client.answered > 20 for client in clients):
                time.sleep(0.01)
            self.assertEqual(extender.stop(), 0)
            for client in clients:
                client.join(PATIENCE_S)
                self.assertFalse(client.is_alive())
                self.assertEqual(client.unanswered, [], "%d per connection, after %d answers" % (client.per_connection, client.answered))
                answered += client.answered
            self.assertGreater(sum(client.closing for client in clients), 0)
        print("%d answers" % answered)

    def test_tcp(self):
        self.check(Extender.connect)

    def test_what_is_slow(self):
        """A request that is sent byte by byte, and one whose connection was only just made."""
        extender = Extender(self.folder, self.redis.path)
        with extender.connect() as slow, extender.connect() as fresh:
            slow.sendall(REQUEST[:20])
            time.sleep(0.1)
            extender.process.terminate()
            wait_for("it is stopping", lambda: "stopping" in extender.log())
            fresh.sendall(REQUEST)
            for i in range(20, len(REQUEST)):
                slow.sendall(REQUEST[i:i + 1])
                time.sleep(0.01)
            for s in (slow, fresh):
                answer = read_answer(s.makefile("rb"))
                self.assertEqual((answer.status, answer.headers["connection"], answer.json()["NodeNames"]), (200, "close", ["a"]))
        self.assertEqual(extender.process.wait(PATIENCE_S), 0)

    def test_unix_socket(self):
        path = os.path.join(self.folder, "extender.sock")

        def connect(_):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(PATIENCE_S)
            try:
                s.connect(path)
            except OSError:
                s.close()
                raise
            return s
        self.check(connect, "--listen", "unix:" + path)


if __name__ == "__main__":
    main()
