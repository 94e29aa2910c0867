# SPDX-License-Identifier: Apache-2.0
"""The recommender, asked to stop while an API server that lists and watches answers nothing else, or Redis nothing."""
import http.server
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import traceback

from recommender import Failure, Recommender, Redis, missing, until

PODS = 50           # each of another owner: as many questions without an answer
GIVE_UP_S = 25      # one call waits for 30 s; a busy machine needs a few seconds to stop

VPA = {"metadata": {"name": "v", "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": "1"},
       "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "recommenders": [{"name": "kwatt"}]}}


def pod(i: int) -> dict:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"r{i}", "uid": f"r{i}", "controller": True}
    return {"metadata": {"name": f"p{i}", "namespace": "n", "uid": f"p{i}", "resourceVersion": "1", "labels": {"a": "b"},
                         "ownerReferences": [owner]},
            "spec": {"nodeName": "node", "containers": [{"name": "c"}]}, "status": {"phase": "Running"}}


class Server(http.server.ThreadingHTTPServer):
    """Lists, watches, and gives the Deployment where it is told to; holds every other request."""
    daemon_threads = True
    gives_target = False
    held = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        name = path.rsplit("/", 1)[1]
        if name in ("pods", "verticalpodautoscalers") and "watch=true" not in query:
            items = [VPA] if name == "verticalpodautoscalers" else [pod(i) for i in range(PODS)]
            self.give({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
        elif name in ("pods", "verticalpodautoscalers"):
            self.send_response(200)
            self.end_headers()
            time.sleep(600)
        elif name == "d" and self.server.gives_target:
            self.give({"kind": "Deployment", "apiVersion": "apps/v1",
                       "metadata": {"name": "d", "namespace": "n", "uid": "d"},
                       "spec": {"selector": {"matchLabels": {"a": "b"}}}})
        else:
            self.server.held += 1
            time.sleep(600)

    def give(self, value: dict) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args) -> None:
        pass


def test(folder: pathlib.Path, redis: Redis, gives_target: bool) -> None:
    server = Server(("127.0.0.1", 0), Handler)
    server.gives_target = gives_target
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = folder / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}))
    program = Recommender(folder, redis, "--kubeconfig", str(config))
    try:
        until("a call hangs", lambda: server.held > 0)
        start = time.monotonic()
        program.stop()
        took = time.monotonic() - start
        print(f"{'an owner' if gives_target else 'a target'} without an answer: stopped after {took:.2f} s")
        if took > GIVE_UP_S:
            raise Failure(f"it stopped only after {took:.1f} s")
    except Exception:
        print(program.log.read_text()[-4000:], file=sys.stderr)
        raise
    finally:
        program.process.kill()
        server.shutdown()


def test_redis(folder: pathlib.Path, redis: Redis) -> None:
    program = Recommender(folder, redis, "--redis-timeout", "30s")
    program.loops(1)
    redis.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(1.5)     # a loop a second: it waits by now
        start = time.monotonic()
        program.stop()
        took = time.monotonic() - start
        print(f"Redis without an answer: stopped after {took:.2f} s")
        if took > GIVE_UP_S:
            raise Failure(f"it stopped only after {took:.1f} s")
    finally:
        program.process.kill()
        redis.process.send_signal(signal.SIGCONT)


def main() -> int:
    lack = missing()
    if lack is not None:
        print(f"SKIP: {lack}")
        return 1 if os.environ.get("CI") == "true" else 77
    with tempfile.TemporaryDirectory(prefix="kwatt-recommender-") as folder:
        redis = Redis(pathlib.Path(folder))
        try:
            for gives_target in (False, True):
                test(pathlib.Path(folder), redis, gives_target)
            test_redis(pathlib.Path(folder), redis)
        except Exception:  # whatever it is, the test failed by it
            traceback.print_exc()
            return 1
        finally:
            redis.kill()
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
