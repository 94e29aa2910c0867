# SPDX-License-Identifier: Apache-2.0
"""A kwatt-extender and a redis-server for one test each, and a client that sees every byte."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

BUILD = os.environ.get("KWATT_BUILD_DIR", "build/debug")
PROGRAM = os.path.join(BUILD, "extender", "kwatt-extender")
# Far above what anything here takes; no test fails because a machine is slow.
PATIENCE_S = 60


def wait_for(what, check):
    """Calls `check` until it gives something true, and gives that."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("not within %d s: %s" % (PATIENCE_S, what))


class Redis:
    """A redis-server on a unix socket in its own folder."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "redis.sock")
        self.process = None

    def start(self):
        with open(os.path.join(self.folder, "redis.log"), "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
                 "--appendonly", "no", "--dir", self.folder], stdout=log, stderr=log)
        wait_for("redis-server answers", self.is_up)

    def is_up(self):
        try:
            return self.call("PING") == b"PONG"
        except OSError:
            return False

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def call(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE_S)
            s.connect(self.path)
            s.sendall(b"*%d\r\n" % len(words) +
                      b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            line = s.makefile("rb").readline()
        if line[:1] == b"-":
            raise AssertionError("redis: %r" % line)
        return line[1:].strip()


def sample(node, seq, used_mcpu, t_unix_ms=None, interval_ms=200):
    return json.dumps({
        "schema": 1, "node": node, "epoch": 1760000000000, "seq": seq,
        "t_unix_ms": t_unix_ms or int(time.time() * 1000), "interval_ns": interval_ms * 1000000,
        "packages": [], "watts_mw": 30000, "used_mcpu": used_mcpu, "allocatable_mcpu": 8000,
        "idle_mw": 20000, "meter": "model"})


# what api/README.md says of digests; of a sample what is there of it
DIGEST = ("schema", "node", "epoch", "seq", "t_unix_ms", "interval_ns", "platform", "watts_mw", "used_mcpu", "work_mcpu", "allocatable_mcpu",
          "idle_mw", "quality", "meter")


def digest(text):
    """The short form of a sample, as agents write it to the feeds."""
    whole = json.loads(text)
    return json.dumps({"packages": [], **{key: whole[key] for key in DIGEST if key in whole}})


def serve_all(listener, serve):
    """Calls `serve(connection)` of each connection, in a thread of its own, until the listener is closed."""
    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()


def publish(redis, text, curve_text):
    """What an agent writes of its sample: the whole of it in the node's hash, the short form in its feed."""
    whole = json.loads(text)
    redis.call("HSET", "kwatt:v1:node:{%s}" % whole["node"], "sample", text, "curve", curve_text)
    redis.call("ZADD", "kwatt:v1:nodes", whole["t_unix_ms"], whole["node"])
    redis.call("XADD", "kwatt:v1:feed:%d" % shard(whole["node"]), "MAXLEN", "~", 2048, "*", "sample", digest(text), "curve", curve_text)


def curve(full_watts):
    return json.dumps({
        "schema": 1, "capacity_mcpu": 8000, "estimated": True,
        "knots": [{"load_permille": 0, "mw": 20000}, {"load_permille": 1000, "mw": full_watts * 1000}]})


def shard(node):
    """The feed of a node: FNV-1a of its name, modulo 8."""
    value = 0xcbf29ce484222325
    for byte in node.encode():
        value = (value ^ byte) * 0x100000001b3 % 2 ** 64
    return value % 8


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


def read_answer(stream, method="POST"):
    """One answer from a connection; None where it was closed instead."""
    line = stream.readline()
    if not line:
        return None
    status = int(line.split()[1])
    headers = {}
    for line in iter(stream.readline, b"\r\n"):
        if not line:
            return None
        name, value = line.decode().split(":", 1)
        headers[name.strip().lower()] = value.strip()
    if status == 100:
        return Answer(status, headers, b"")
    assert "content-length" in headers, headers
    assert "transfer-encoding" not in headers, headers
    length = int(headers["content-length"])
    return Answer(status, headers, b"" if method == "HEAD" else stream.read(length))


class Extender:
    def __init__(self, folder, redis_path, *options, environment=None):
        self.log_path = os.path.join(folder, "extender.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--listen", "127.0.0.1:0", "--redis", "unix://" + redis_path,
                 "--refresh", "100ms", *options], stdout=log, stderr=log, env={**os.environ, **(environment or {})})
        self.port = int(wait_for("the extender names its port", self.find_port))

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def find_port(self):
        assert self.process.poll() is None, self.log()
        found = re.search(r"serving .*port=(\d+)", self.log())
        return found and found.group(1)

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def ask(self, path, body=None, method=None):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        head = "%s %s HTTP/1.1\r\nHost: x\r\n" % (method, path)
        if body is not None:
            head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        with self.connect() as s:
            try:
                s.sendall(head.encode() + b"\r\n" + (body or b""))
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the end of the body; the answer may be there
            return read_answer(s.makefile("rb"), method)

    def scores(self, *names, pod=None):
        answer = self.ask("/prioritize", {"Pod": pod or POD, "Nodes": None, "NodeNames": names})
        assert answer.status == 200, answer.body
        got = answer.json()
        assert [e["Host"] for e in got] == list(names)
        assert all(type(e["Score"]) is int and 0 <= e["Score"] <= 10 for e in got)
        return [e["Score"] for e in got]

    def metric(self, name):
        for line in self.ask("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE_S)


POD = {"metadata": {"name": "p", "namespace": "orchard"},
       "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}


class Case(unittest.TestCase):
    options = ()
    environment = {}  # more of it, for the extender

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kwatt-e2e-")
        self.redis = Redis(self.folder)
        self.extender = Extender(self.folder, self.redis.path, *self.options, environment=self.environment)
        self.seq = 0

    def tearDown(self):
        try:
            self.assertIsNone(self.extender.process.poll(), "the extender ended: " + self.extender.log())
            self.assertEqual(self.extender.stop(), 0, self.extender.log())
        finally:
            if self.extender.process.poll() is None:
                self.extender.process.kill()
                self.extender.process.wait()
            self.redis.kill()
            shutil.rmtree(self.folder)

    def publish(self, node, used_mcpu, full_watts, **kw):
        self.seq += 1
        publish(self.redis, sample(node, self.seq, used_mcpu, **kw), curve(full_watts))
