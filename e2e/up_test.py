#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kwatt up` as a user runs it: the built programs, a real redis-server, a state folder and ports of its own."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", pathlib.Path(__file__).parent.parent / "build/debug"))
KWATT = BUILD / "cli/kwatt"
AGENT = BUILD / "node-agent/kwatt-node-agent"
FREE_PORTS = ["--agent-listen", "127.0.0.1:0", "--extender-listen", "127.0.0.1:0", "--recommender-listen", "127.0.0.1:0"]
# generous: the machine may be busy; a test fails on what happens, not on when
PATIENCE_S = 90


def alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def children(pid):
    """Pids and names of the direct children of a process."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = stat.rsplit(")", 1)[1].split()[:2]
        if int(parent) == pid and state not in "ZX":
            found[int(entry.name)] = pathlib.Path(command.split(" ")[0]).name
    return found


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {PATIENCE_S} s in vain for {what}")


def redis_send(path, *commands):
    """Runs commands on a Redis behind a unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        for command in commands:
            parts = [p if isinstance(p, bytes) else str(p).encode() for p in command]
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            assert connection.recv(65536)[:1] != b"-", command


class UpTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kwatt-up-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.state = self.folder / "state"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("KWATT_") and k != "NO_COLOR"}

    def command(self, *options, state=None):
        return [str(KWATT), "up", "--state-dir", str(state or self.state), *FREE_PORTS, *options]

    def run_up(self, *options, **more):
        return subprocess.run(self.command(*options), **{"env": self.env, "text": True, "capture_output": True,
                                                         "timeout": PATIENCE_S, "check": False, **more})

    def start(self, *options, env=None):
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            up = subprocess.Popen(self.command(*options), env=env or self.env, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=err)
        self.addCleanup(self.end, up)
        return up

    @staticmethod
    def end(up):
        if up.poll() is None:
            up.kill()
        up.wait()

    def said(self):
        return (self.folder / "err").read_text()

    def shown(self):
        return (self.folder / "out").read_text()

    def lock(self):
        text = (self.state / "lock").read_text() if (self.state / "lock").exists() else ""
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def started(self, up, name="kwatt-node-agent"):
        return wait_for(f"{name} under {up.pid}; it said: {self.said()}",
                        lambda: next((pid for pid, n in children(up.pid).items() if n == name), None))

    def test_json_is_one_document_that_conserves(self):
        done = subprocess.run(self.command("--for", "3s", "--json"), env=self.env, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for key in ("version", "duration_s", "meter", "estimated", "totals", "conservation_error_uj", "workloads"):
            self.assertIn(key, report)
        totals = report["totals"]
        self.assertGreaterEqual(report["duration_s"], 3)
        self.assertEqual(report["conservation_error_uj"], 0)
        self.assertEqual(totals["measured_uj"],
                         totals["idle_uj"] + totals["pods_uj"] + totals["system_uj"] + totals["unattributed_uj"])
        self.assertGreater(totals["measured_uj"], 0)
        self.assertEqual(sum(w["active_uj"] for w in report["workloads"]) + report["departed_uj"], totals["pods_uj"])
        energies = [w["active_uj"] for w in report["workloads"]]
        self.assertEqual(energies, sorted(energies, reverse=True))
        for workload in report["workloads"]:
            self.assertAlmostEqual(workload["watts"], workload["active_uj"] / 1e6 / report["duration_s"], places=3)

    def test_for_ends_near_its_time_whatever_the_interval(self):
        for run_s, interval in (("3s", "5s"), ("2500ms", "2s"), ("1ns", "1s")):
            done = subprocess.run(self.command("--for", run_s, "--interval", interval, "--json"), env=self.env, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(json.loads(done.stdout)["totals"]["measured_uj"], 0)

    def test_a_second_one_is_refused_and_told_how_to_stop_the_first(self):
        up = self.start()
        wait_for("the lock", lambda: self.lock().get("agent"))
        second = subprocess.run(self.command(), env=self.env, capture_output=True, text=True, timeout=PATIENCE_S,
                                check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"kill {up.pid}", second.stderr)
        self.assertIn(self.lock()["agent"], second.stderr)
        self.assertIsNone(up.poll())

    def test_interrupt_ends_everything(self):
        up = self.start("--interval", "200ms")
        wait_for(f"a table; it said: {self.said()}", lambda: "WORKLOAD" in self.shown())
        started = children(up.pid)
        self.assertIn("kwatt-node-agent", started.values())
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(PATIENCE_S), 0, self.said())
        self.assertEqual([n for p, n in started.items() if alive(p)], [])
        self.assertFalse((self.state / "redis.sock").exists())

    def test_a_second_interrupt_does_not_wait_for_a_program_that_hangs(self):
        up = self.start()
        agent = self.started(up)
        started = children(up.pid)
        os.kill(agent, signal.SIGSTOP)
        up.send_signal(signal.SIGINT)
        wait_for("word of it", lambda: "Ctrl-C again" in self.said())
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(PATIENCE_S), 0, self.said())
        self.assertEqual([n for p, n in started.items() if alive(p)], [])

    def test_kill_leaves_nothing_behind(self):
        up = self.start()
        self.started(up)
        started = children(up.pid)
        up.kill()
        up.wait()
        wait_for("the end of " + str(started), lambda: not any(alive(p) for p in started))
        # and the lock is free again
        done = subprocess.run(self.command("--for", "1s", "--json"), env=self.env, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_killed_program_is_started_again(self):
        up = self.start()
        for name in ("kwatt-node-agent", "redis-server"):
            with self.subTest(name):
                if name == "redis-server" and not shutil.which(name):
                    self.skipTest("no redis-server here")
                pid = self.started(up, name)
                os.kill(pid, signal.SIGKILL)
                wait_for(f"another {name}", lambda: any(n == name and p != pid for p, n in children(up.pid).items()))
                wait_for("word of it", lambda: f"{name} was started again" in self.said())
        self.assertIsNone(up.poll())

    def test_top_shows_the_running_one(self):
        self.start()
        wait_for("a sample", lambda: "node=" in "".join(f"{k}={v}" for k, v in self.lock().items() if v))
        wait_for("a node name", lambda: self.lock().get("node"))
        for options in (["--once"], ["--once", "--sort", "joules"], ["--json"]):
            done = subprocess.run([KWATT, "top", "--state-dir", self.state, *options], env=self.env, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            if options == ["--json"]:
                self.assertEqual(json.loads(done.stdout)["conservation_error_uj"], 0)
            else:
                self.assertIn("WORKLOAD", done.stdout)
        if not shutil.which("redis-server"):
            return
        redis = self.lock()["redis"]
        nodes = wait_for("the node in Redis", lambda: json.loads(subprocess.run(
            [KWATT, "top", "--redis", redis, "--json"], env=self.env, text=True, capture_output=True,
            timeout=PATIENCE_S, check=True).stdout))
        self.assertEqual(nodes[0]["node"], self.lock()["node"])

    @unittest.skipUnless(shutil.which("redis-server"), "no redis-server here")
    def test_top_passes_over_hostile_records(self):
        path = self.folder / "redis.sock"
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir",
                                   self.folder], stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, server)
        wait_for("redis-server", path.exists)
        energy = {"measured_uj": 9, "idle_uj": 4, "pods_uj": 4, "system_uj": 1}
        sample = {"schema": 1, "node": "good", "epoch": 1000, "seq": 1, "t_unix_ms": 2000, "interval_ns": 1, "watts_mw": 1,
                  "packages": [{"package": 0, "cpu": energy}], "used_mcpu": 1, "allocatable_mcpu": 1, "idle_mw": 1,
                  "meter": "\u001b[2Jevil"}
        pod = {"schema": 1, "kind": "unit", "id": "/a", "name": "n\u001b]0;owned\u0007", "epoch": 1000, "t_unix_ms": 2000,
               "cpu_ns": 5, "active_uj": 3}
        redis_send(path,
                   ("ZADD", "kwatt:v1:nodes", 1, "good", 1, "later", 1, "broken", 1, "no name", 1, b"\xff\x00", 1, "typed"),
                   ("HSET", "kwatt:v1:node:{good}", "sample", json.dumps(sample), "curve", "}{", "info", "[]"),
                   ("HSET", "kwatt:v1:node:{later}", "sample", json.dumps({**sample, "schema": 2})),
                   ("HSET", "kwatt:v1:node:{broken}", "sample", b"\xff{" * 1000),
                   ("HSET", "kwatt:v1:pods:{good}", "/a", json.dumps(pod), "/b", "x", "/c", json.dumps({**pod, "id": 7})),
                   ("SET", "kwatt:v1:advice:{good}", "not a hash"),
                   ("HSET", "kwatt:v1:node:{typed}", "other", "field"))
        for options in (["--once"], ["--json"], ["--node", "good", "--once"], ["--node", "good", "--json"]):
            done = subprocess.run([KWATT, "top", "--redis", f"unix://{path}", *options], env=self.env, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            if "--json" in options:
                report = json.loads(done.stdout)
                report = report[0] if "--node" not in options else report
                self.assertEqual((report["node"], report["departed_uj"]), ("good", 1))
                self.assertEqual([w["id"] for w in report["workloads"]], ["/a"])
            else:
                self.assertIn("good", done.stdout)
                self.assertNotIn("\x1b", done.stdout)
        for node, words in (("later", "another version"), ("broken", "malformed"), ("absent", "no agent has published")):
            done = subprocess.run([KWATT, "top", "--redis", f"unix://{path}", "--node", node, "--once"], env=self.env,
                                  text=True, capture_output=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    def test_without_redis_server_it_measures_and_says_what_is_missing(self):
        empty = self.folder / "path"
        empty.mkdir()
        done = subprocess.run(self.command("--for", "1s", "--json"), env={**self.env, "PATH": str(empty)},
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("redis-server is not installed", done.stderr)
        self.assertGreater(json.loads(done.stdout)["totals"]["measured_uj"], 0)

    def test_a_state_folder_that_cannot_be_used_is_named_with_the_remedy(self):
        for state in ("/proc/kwatt-state", "/dev/null/state"):
            done = subprocess.run(self.command("--for", "1s", "--json", state=state), env=self.env, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(state, done.stderr)
            self.assertIn("--state-dir", done.stderr)

    def mounted(self, options):
        """A small tmpfs with these options; skips where this user may not mount."""
        self.state.mkdir(mode=0o700)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "kwatt-test", self.state], text=True,
                              capture_output=True, check=False)
        if done.returncode:
            self.skipTest(f"cannot mount here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", self.state], check=False)

    def test_read_only_and_full_state_folders(self):
        self.mounted("size=64k,mode=700")
        (self.state / "lock").write_text("")
        with open(self.state / "ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"x" * 4096)
            except OSError:
                pass
        for words in ("No space left", "Read-only file system"):
            with self.subTest(words):
                done = self.run_up("--for", "1s", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn("--state-dir", done.stderr)
                other = pathlib.Path(re.search("Going on with (\\S+) instead", done.stderr)[1])
                self.addCleanup(shutil.rmtree, other, ignore_errors=True)
                self.assertEqual(other.stat().st_mode & 0o777, 0o700)
                self.assertGreater(json.loads(done.stdout)["totals"]["measured_uj"], 0)
                subprocess.run(["mount", "-o", "remount,ro", self.state], check=True)

    def test_a_document_that_cannot_be_written_is_an_error(self):
        for redirection, form in ((">/dev/full", ["--json"]), (">&-", ["--json"]), (">/dev/full", [])):
            done = subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", *self.command("--for", "1s", *form)],
                                  env=self.env, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 1, redirection)
            self.assertIn("cannot write to stdout", done.stderr)
        self.assertTrue((self.state / "lock").read_text().startswith("pid="))

    def test_a_busy_port_is_named_with_its_flag(self):
        with socket.create_server(("127.0.0.1", 0)) as busy:
            port = busy.getsockname()[1]
            done = subprocess.run(self.command("--extender-listen", f"127.0.0.1:{port}"), env=self.env, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"127.0.0.1:{port} is in use", done.stderr)
        self.assertIn("--extender-listen", done.stderr)

    def test_an_agent_that_refuses_its_arguments_ends_the_run_with_its_words(self):
        done = subprocess.run(self.command("--meter", "crystal-ball", "--for", "30s", "--json"), env=self.env, text=True,
                              capture_output=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("crystal-ball", done.stderr)
        self.assertNotIn("starting it again", done.stderr)

    def test_a_wrong_value_names_its_flag_and_gives_2(self):
        for flag, value in (("--agent-listen", "nonsense"), ("--extender-listen", "127.0.0.1:99999"), ("--redis", "ftp://x"),
                            ("--kubeconfig", "/nonexistent"), ("--redis-password-file", "/nonexistent"),
                            ("--for", "1y"), ("--interval", "1ms"), ("--sort", "luck")):
            done = self.run_up(flag, value)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(f"kwatt up: {flag}", done.stderr)
        with socket.create_server(("127.0.0.1", 0)) as closed:
            one = f"127.0.0.1:{closed.getsockname()[1]}"
        done = self.run_up("--agent-listen", one, "--extender-listen", one)
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_relative_state_folder(self):
        done = subprocess.run(self.command("--for", "1s", "--json", state="some/state"), env=self.env, text=True,
                              capture_output=True, timeout=PATIENCE_S, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "some/state/lock").exists())

    def test_a_redis_that_does_not_answer_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"redis://127.0.0.1:{closed.getsockname()[1]}"
        done = self.run_up("--redis", url, "--for", "2s", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("no Redis"), 1, done.stderr)
        self.assertIn(url, done.stderr)
        done = self.run_up("--redis", url, "--for", "2s")
        self.assertIn("No Redis: scores are neutral", done.stdout)

    def test_a_silent_agent_is_told_of(self):
        up = self.start("--interval", "200ms")
        wait_for("a table", lambda: "WORKLOAD" in self.shown())
        agent = self.started(up)
        os.kill(agent, signal.SIGSTOP)
        wait_for("word of it", lambda: "no word from the agent" in self.said())
        os.kill(agent, signal.SIGCONT)

    def test_a_terminal_is_redrawn_in_place_and_left_clean(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(KWATT, self.command("--interval", "200ms"), {**self.env, "TERM": "xterm", "COLUMNS": "100"})
        seen = b""
        try:
            deadline = time.monotonic() + PATIENCE_S
            while seen.count(b"WORKLOAD") < 3 and time.monotonic() < deadline:
                if select.select([terminal], [], [], 1)[0]:
                    seen += os.read(terminal, 65536)
            started = children(pid)
            os.write(terminal, b"\x03")  # Ctrl-C through the terminal: to the foreground group only
            while True:
                try:
                    chunk = os.read(terminal, 65536)
                except OSError:
                    break
                if not chunk:
                    break
                seen += chunk
        finally:
            os.close(terminal)
            _, status = os.waitpid(pid, 0)
        text = seen.decode(errors="replace")
        self.assertGreaterEqual(text.count("WORKLOAD"), 3, text)
        self.assertRegex(text, "\x1b\\[\\d+A")
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, text)
        self.assertEqual([n for p, n in started.items() if alive(p)], [])
        self.assertIsNone(re.search("ERROR|AddressSanitizer", text))

    def test_check_says_what_there_is(self):
        done = subprocess.run([KWATT, "check", "--json"], env=self.env, text=True, capture_output=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        checks = json.loads(done.stdout)["checks"]
        self.assertTrue(all(c["state"] in ("ok", "degraded", "missing") for c in checks))
        self.assertIn("redis", [c["item"] for c in checks])

    def test_kubectl_finds_it_as_a_plugin(self):
        done = subprocess.run([BUILD / "cli/kubectl-kwatt", "--help"], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn("up", done.stdout)


if __name__ == "__main__":
    for program in (KWATT, AGENT):
        if not program.exists():
            print(f"SKIP: {program} is not built")
            sys.exit(77)
    unittest.main(verbosity=2)
