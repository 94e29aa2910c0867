#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Redis that is ill, refuses, lies or is another program, behind the real kwatt-extender: its requests are answered all the while, by
what is known or neutrally; what is wrong is said once, in Redis's own words, and forgotten once Redis is well.
"""
import contextlib
import os
import random
import shutil
import socket
import tempfile
import threading
import time

from extender_rig import Case, Extender, Redis, serve_all, wait_for
from extender_test import main

NAMES = ("a", "b", "c")


class Fake:
    """A server on a unix socket that reads commands and answers each with whatever `answer` gives; None closes the connection."""

    def __init__(self, path, answer):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.answer, self.connections, self.over = answer, [], threading.Event()
        serve_all(self.listener, self.serve)

    def serve(self, connection):
        self.connections.append(connection)
        with connection, connection.makefile("rb") as stream:
            try:
                for line in stream:
                    for _ in range(int(line[1:])):
                        stream.read(int(stream.readline()[1:]) + 2)
                    answer = self.answer(self)
                    if answer is None:
                        return
                    connection.sendall(answer)
            except (OSError, ValueError):
                pass

    def close(self):
        self.over.set()
        for one in (self.listener, *self.connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def never(fake):
    fake.over.wait()


RNG = random.Random(5)
# what is answered to each command, and what is to be read of it in the log
ILL = {
    "loading": (lambda _: b"-LOADING Redis is loading the dataset in memory\r\n", "LOADING"),
    "moved": (lambda _: b"-MOVED 3999 127.0.0.1:6381\r\n", "MOVED 3999"),
    "readonly": (lambda _: b"-READONLY You can't write against a read only replica.\r\n", "READONLY"),
    "cut off from its master": (lambda _: b"-MASTERDOWN Link with MASTER is down\r\n", "MASTERDOWN"),
    "wants a password": (lambda _: b"-NOAUTH Authentication required.\r\n", "NOAUTH"),
    "silent": (never, "no answer in time"),
    "gone at once": (lambda _: None, "connection ended"),
    "noise": (lambda _: b"\xaf" + RNG.randbytes(500), "not the Redis protocol"),
    "a web server": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "not the Redis protocol"),
    "without end": (lambda _: b"$9999999999\r\n" + b"x" * 1000, "no answer in time"),
    "two billion elements": (lambda _: b"*2147483647\r\n", "larger than"),
    "nested": (lambda _: b"*1\r\n" * 200000, "not the Redis protocol"),
    "of another type": (lambda _: b":1\r\n", "an unexpected reply"),
    "nil": (lambda _: b"*-1\r\n", "an unexpected reply"),
    "talkative": (lambda _: b"*0\r\n*0\r\n*0\r\n", "more replies than commands"),
    "coloured": (lambda _: b"-ERR \x1b[31mred\x07\xff\r\n", "ERR"),
}


class Late(Case):
    """Whose extender begins when the test says so."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kwatt-e2e-")
        self.redis = Redis(self.folder)
        self.extender, self.seq = None, 0

    def tearDown(self):
        try:
            self.end()
        finally:
            self.redis.kill()
            shutil.rmtree(self.folder)

    def begin(self):
        self.extender = Extender(self.folder, self.redis.path, *self.options)

    def end(self):
        extender, self.extender = self.extender, None
        if extender is not None:
            self.assertEqual(extender.stop(), 0, extender.log())
            os.unlink(extender.log_path)

    def told(self, *words):
        wait_for("%s is told" % (words,), lambda: all(word in self.extender.log() for word in words))

    def bring(self, offset_ms=0):
        """Publishes, and says whether the nodes are told apart."""
        for i, name in enumerate(NAMES):
            self.publish(name, 1000, 60 + 40 * i, t_unix_ms=int(time.time() * 1000) + offset_ms)
        scores = self.extender.scores(*NAMES)
        return scores[0] > scores[2]


class Ill(Late):
    options = ("--redis-timeout", "200ms")

    def check_ill(self, name):
        answer, words = ILL[name]
        fake = Fake(self.redis.path, answer)
        try:
            self.begin()
            wait_for("%s: it was tried a few times" % name, lambda: self.extender.metric("kwatt_extender_redis_failures_total") >= 3)
            # the requests neither fail nor wait for it
            self.assertEqual(self.extender.scores(*NAMES), [5, 5, 5])
            self.assertIn(b"redis: down", self.extender.ask("/readyz").body)
            log = self.extender.log()
            self.assertEqual(log.count("scores are neutral"), 1, log)
            self.assertIn(words, log)
            self.assertNotRegex(log, "[\x00-\x09\x0b-\x1f\x7f]")
        finally:
            fake.close()
            os.unlink(self.redis.path)
            self.end()

    def test_each(self):
        for name in ILL:
            with self.subTest(name):
                self.check_ill(name)

    def test_another_cause_is_told(self):
        self.begin()
        self.told("No such file")
        fake = Fake(self.redis.path, ILL["loading"][0])
        self.told("for another reason now", "LOADING")  # after half a minute
        fake.close()
        os.unlink(self.redis.path)
        self.redis.start()
        wait_for("scores tell nodes apart", self.bring)
        self.assertEqual(self.extender.log().count("LOADING"), 1)


class Refusing(Late):
    """A real Redis whose ACL has gaps."""
    options = ("--redis-user", "extender")

    def setUp(self):
        super().setUp()
        self.redis.start()

    def allow(self, *rules):
        self.redis.call("ACL", "SETUSER", "extender", "reset", "on", "nopass", *rules)

    def test_the_index(self):
        self.allow("+@all", "-zrevrange", "~*")
        self.begin()
        self.told("scores are neutral", "NOPERM")
        self.assertFalse(self.bring())
        self.allow("+@all", "~kwatt:v1:*")
        wait_for("what is allowed is read", self.bring)

    def test_the_records(self):
        self.allow("+@all", "-hmget", "~*")
        self.begin()
        self.assertFalse(self.bring())
        self.told("records left out", "redis_said=\"NOPERM")
        self.assertEqual(self.extender.scores(*NAMES), [5, 5, 5])
        # each record is left out for one reason
        self.assertEqual(self.extender.metric('kwatt_extender_records_skipped_total{reason="missing"}'), 0)

    def test_the_feeds(self):
        for rule in ("-xrange", "-xrevrange"):
            self.allow("+@all", rule, "~*")
            self.begin()
            wait_for("scores tell nodes apart", self.bring)
            self.told("Redis does not give kwatt:v1:feed:*", "NOPERM")
            whole = self.extender.metric("kwatt_extender_whole_refreshes_total")
            wait_for("all nodes are read a few times", lambda: self.extender.metric("kwatt_extender_whole_refreshes_total") > whole + 3)  # pylint: disable=cell-var-from-loop
            self.assertEqual(self.extender.log().count("Redis does not give"), 1)
            self.end()

    def test_known_nodes_outlive_a_refusal(self):
        self.allow("+@all", "~*")
        self.begin()
        wait_for("scores tell nodes apart", self.bring)
        self.allow("+@all", "-hmget", "-xrange", "-xrevrange", "~*")
        self.bring()
        self.told("records left out", "redis_said=\"NOPERM")
        self.assertIn(b"3 known, 0 stale, 0 unpriced", self.extender.ask("/readyz").body)
        self.assertTrue(self.bring())

    def test_the_password(self):
        self.redis.call("ACL", "SETUSER", "extender", "reset", "on", ">secret", "+@all", "~*")
        self.begin()
        self.told("scores are neutral", "authentication as extender refused")
        self.assertNotIn("secret", self.extender.log())


class Clocks(Late):
    """Agents' clocks that jump against the extender's, which is the same as its own jumping."""
    options = ("--stale-after", "3s")

    def test_jumps(self):
        def is_fresh(offset_ms):
            told_apart = self.bring(offset_ms)
            return told_apart and b"3 known, 0 stale" in self.extender.ask("/readyz").body

        self.redis.start()
        self.begin()
        for offset_ms in (0, 3600000, 0, -3600000, 0, 86400000 * 365, 0):
            for _ in range(40):     # longer than what is stale
                is_fresh(offset_ms)
                time.sleep(0.1)
            wait_for("nodes that publish are fresh though %d ms off" % offset_ms, lambda: is_fresh(offset_ms))  # pylint: disable=cell-var-from-loop
        wait_for("who is silent turns stale", lambda: self.extender.scores(*NAMES) == [5, 5, 5])


if __name__ == "__main__":
    main()
