# SPDX-License-Identifier: Apache-2.0
"""SIGHUP makes the extender read its configuration again, and its certificate is replaced, while clients ask all the time: what is
good holds from then on, what is bad is refused with its place and changes nothing, and no request is lost or answered by halves.
"""
import json
import os
import pathlib
import shutil
import signal
import ssl
import sys
import tempfile
import threading
import time

import extender_rig
from pki import Authority
from process import Failure, build, check, wait_for

NODES = ("a", "b", "c")
BODY = json.dumps({"Pod": extender_rig.POD, "NodeNames": NODES}).encode()
REQUEST = b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
ASKERS = 4      # half of them on a connection that is kept
BURST = 50
GOOD = {"staleAfter": "1h"}


class Extender(extender_rig.Extender):
    """Over TLS."""

    def __init__(self, folder: pathlib.Path, redis: str, *options: str):
        self.trust = ssl.create_default_context(cafile=str(folder / "pki/ca.crt"))
        super().__init__(str(folder), redis, *options)

    def connect(self):
        return self.trust.wrap_socket(super().connect(), server_hostname="127.0.0.1")

    def serial(self) -> str:
        with self.connect() as s:
            return s.getpeercert()["serialNumber"]


class Asker(threading.Thread):
    """Asks until it is told to stop. Anything but a whole answer is a failure, and so is one that mixes two policies."""

    def __init__(self, extender: Extender, kept: bool):
        super().__init__()
        self.extender, self.kept = extender, kept
        self.answers, self.last, self.failure = 0, [], ""
        self.enough = threading.Event()

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                with self.extender.connect() as s:
                    stream = s.makefile("rb")
                    while True:
                        s.sendall(REQUEST)
                        answer = extender_rig.read_answer(stream)
                        scores = [each["Score"] for each in answer.json()]
                        check(answer.status == 200 and scores in ([10, 0, 0], [5, 5, 5]), f"{answer.status} {scores}")
                        self.last = scores
                        self.answers += 1
                        if not self.kept or self.enough.is_set():
                            break
        except Exception as error:  # whatever it is, a request was lost
            self.failure = f"after {self.answers} answers: {error!r}"


class Rig:
    def __init__(self, folder: pathlib.Path):
        self.folder, self.config = folder, folder / "kwatt.yaml"
        self.authority = Authority(folder / "pki")
        self.authority.make()
        self.renew()
        self.write(GOOD)
        self.redis = extender_rig.Redis(str(folder))
        self.redis.start()
        for node, watts in zip(NODES, (30, 90, 90)):
            self.redis.call("HSET", "kwatt:v1:node:{%s}" % node, "sample", extender_rig.sample(node, 1, 1000), "curve", extender_rig.curve(watts))
            self.redis.call("ZADD", "kwatt:v1:nodes", int(time.time() * 1000), node)
        self.extender = Extender(folder, self.redis.path, "--config", str(self.config), "--tls-cert-file", str(folder / "pki/api.crt"),
                                 "--tls-private-key-file", str(folder / "pki/api.key"))
        wait_for("the nodes", lambda: self.extender.metric("kwatt_extender_nodes") == len(NODES))
        self.askers = [Asker(self.extender, kept=number % 2 == 0) for number in range(ASKERS)]
        for asker in self.askers:
            asker.start()

    def renew(self) -> None:
        """Key and certificate one after the other, as whoever writes two files has to."""
        self.authority.certificate("api", "/CN=api", "IP:127.0.0.1")

    def write(self, settings: dict | str) -> None:
        self.config.write_text(settings if isinstance(settings, str) else json.dumps(settings))   # JSON is YAML

    def reload(self, settings: dict | str, said: str) -> None:
        """Until `said` is in what was logged since."""
        before = len(self.extender.log())
        self.write(settings)

        def told() -> bool:
            # again and again, since of equal lines no more than ten are logged in ten seconds
            self.extender.process.send_signal(signal.SIGHUP)
            time.sleep(0.1)
            return said in self.extender.log()[before:].replace('\\"', '"')
        wait_for(f"{said!r} in the log", told)

    def all_answer(self, scores: list[int]) -> None:
        def settled() -> bool:
            self.none_lost()
            return all(asker.last == scores for asker in self.askers)
        wait_for(f"every client to get {scores}", settled)

    def none_lost(self) -> None:
        for asker in self.askers:
            check(not asker.failure, f"a client {'on one connection' if asker.kept else 'on many'} failed {asker.failure}")

    def close(self) -> None:
        for asker in self.askers:
            asker.enough.set()
        for asker in self.askers:
            asker.join()
        if self.extender.process.poll() is None:
            self.extender.process.kill()
            self.extender.process.wait()
        self.redis.kill()


def good_ones_hold(rig: Rig) -> None:
    rig.all_answer([10, 0, 0])
    rig.reload({**GOOD, "dryRun": True}, "read the configuration again")
    rig.all_answer([5, 5, 5])
    rig.reload({**GOOD, "ownNamespace": "orchard"}, "read the configuration again")     # the pod's
    rig.all_answer([5, 5, 5])
    rig.reload(GOOD, "read the configuration again")
    rig.all_answer([10, 0, 0])
    rig.reload({"staleAfter": "1s"}, "read the configuration again")    # the samples are older by now, or soon
    rig.all_answer([5, 5, 5])
    rig.reload({**GOOD, "logLevel": "debug", "threads": 7, "maxConnections": 9}, 'options="--threads --max-connections"')
    rig.all_answer([10, 0, 0])
    print("ok good ones hold")


def bad_ones_are_refused(rig: Rig) -> None:
    for bad, words in (({"dryRun": True, "staleAfter": "tomorrow"}, ("kwatt.yaml", "staleAfter", "tomorrow")),
                       ({"dryRun": True, "capSoftPermille": 1001}, ("kwatt.yaml", "capSoftPermille", "1001")),
                       ("dryRun: [", ("kwatt.yaml",)), ({"dryRun": True, "noSuchKey": 1}, ("noSuchKey",))):
        before = len(rig.extender.log())
        rig.reload(bad, "the configuration stays as it was")
        told = rig.extender.log()[before:]
        check(all(word in told for word in words), f"{words} are not all in {told}")
        check(rig.extender.metric("kwatt_extender_config_refused") == 1, "the metric does not say so")
        rig.all_answer([10, 0, 0])
    rig.config.unlink()
    rig.extender.process.send_signal(signal.SIGHUP)
    wait_for("a file that is gone to be told", lambda: "cannot read it" in rig.extender.log())
    rig.all_answer([10, 0, 0])
    rig.reload(GOOD, "read the configuration again")
    check(rig.extender.metric("kwatt_extender_config_refused") == 0, "the metric stays")
    print("ok bad ones are refused")


def certificates_and_bursts(rig: Rig) -> None:
    for _ in range(3):
        before = rig.extender.serial()
        rig.renew()
        wait_for("the new certificate", lambda before=before: rig.extender.serial() != before)
    for number in range(BURST):
        rig.write({**GOOD, "dryRun": number % 2 == 0})
        rig.extender.process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    rig.reload(GOOD, "read the configuration again")
    rig.all_answer([10, 0, 0])
    print("ok certificates and bursts")


def test(folder: pathlib.Path) -> None:
    rig = Rig(folder)
    try:
        for part in (good_ones_hold, bad_ones_are_refused, certificates_and_bursts):
            part(rig)
    except BaseException:
        print(rig.extender.log())
        raise
    finally:
        rig.close()
    rig.none_lost()
    print(f"{sum(asker.answers for asker in rig.askers)} answers, none lost")


def main() -> int:
    try:
        if not shutil.which("redis-server") or not os.access(extender_rig.PROGRAM, os.X_OK):
            raise build.Missing(f"no redis-server or no {extender_rig.PROGRAM}")
        with tempfile.TemporaryDirectory(prefix="kwatt-e2e-") as folder:
            test(pathlib.Path(folder))
    except build.Missing as error:
        return build.end(error)
    except Failure as error:
        print(f"FAIL: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
