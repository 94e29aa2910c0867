#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong values of options of all programs, from flags, environment and file: exit status 2, and a text that says which value and what it
would have to be; a password that stands in one is not repeated.
"""
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("KWATT_BUILD_DIR", "build/debug")
PATIENCE_S = 60
EXTENDER, AGENT, RECOMMENDER = (os.path.join(BUILD, *path) for path in (
    ("extender", "kwatt-extender"), ("node-agent", "kwatt-node-agent"), ("vpa-recommender", "kwatt-vpa-recommender")))
KWATT = os.path.join(BUILD, "cli", "kwatt")
URLS = ("junk", "http://127.0.0.1", "redis://", "redis://127.0.0.1:0", "redis://127.0.0.1:x", "redis://:pass@127.0.0.1", "unix://relative", "redis://a/b")
LISTENS = ("junk", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "::1:80", "unix:", "unix:/" + "x" * 200)
ADDRESSES = ("junk", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "::1:80", "unix:", "unix:relative", "http://", "http://127.0.0.1:0",
             "https://user:pass@127.0.0.1", "http://127.0.0.1/?query")


class Usage(unittest.TestCase):
    def check(self, command, names, **more):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, **more)
        self.assertEqual((done.returncode, done.stdout), (2, ""), (command, done))
        self.assertIn(names, done.stderr, command)
        self.assertIn("--help", done.stderr, command)
        self.assertNotIn("pass@", done.stderr, command)
        self.assertLess(len(done.stderr.splitlines()), 4, (command, done.stderr))

    def test_urls_of_redis(self):
        for program in ([EXTENDER], [AGENT], [RECOMMENDER], [KWATT, "explain"], [KWATT, "top"], [KWATT, "check"], [KWATT, "up"], [KWATT, "train"]):
            for url in URLS if program == [EXTENDER] else URLS[:1] + URLS[-3:]:
                self.check([*program, "--redis", url], "--redis: redis URL: ")
            self.check(program, "KWATT_REDIS: redis URL: ", env={**os.environ, "KWATT_REDIS": "junk"})

    def test_listening(self):
        for program in (EXTENDER, AGENT, RECOMMENDER):
            for address in LISTENS if program == EXTENDER else LISTENS[:4]:
                self.check([program, "--listen", address], "--listen: listen address '")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("threads: 2\nlisten: junk\n")
            file.flush()
            self.check([EXTENDER, "--config", file.name], "%s:2: listen: listen address 'junk'" % file.name)
        for flag in ("--agent-listen", "--extender-listen", "--recommender-listen"):
            self.check([KWATT, "up", flag, "junk"], flag + ": \"junk\" is no address: give HOST:PORT")

    def test_whom_to_ask(self):
        for command in ([KWATT, "explain", "--extender"], [KWATT, "explain", "--agent"], [KWATT, "top", "--agent"]):
            for address in ADDRESSES:
                self.check([*command, address], command[-1] + ": ")

    def test_what_does_not_go_together(self):
        """Found later than at the first look, by programs that run for long."""
        for command, words in (([EXTENDER, "--ca-x"], "--ca-x"), ([EXTENDER, "--write-headroom"], "--write-headroom wants --watch-nodes"),
                               ([EXTENDER, "--redis-ca-file", "/none"], "this URL has no TLS"),
                               ([RECOMMENDER, "--redis-ca-file", "/none"], "this URL has no TLS"),
                               ([EXTENDER, "--tls-cert-file", "/none"], "tls-private-key-file")):
            done = subprocess.run([*command, "--listen", "127.0.0.1:0"], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 2, (command, done))
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    absent = [program for program in (EXTENDER, AGENT, RECOMMENDER, KWATT) if not os.access(program, os.X_OK)]
    if absent:
        print("SKIP: not there: " + ", ".join(absent))
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    unittest.main()
