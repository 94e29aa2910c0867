# SPDX-License-Identifier: Apache-2.0
"""The harness's side of a cluster's supervisor: commands and named processes inside its namespaces."""
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

from process import Failure, start_time, wait_for

CLONE_NEWNET = 0x40000000
HERE = pathlib.Path(__file__).resolve().parent


class Control:
    """`folder` holds control.sock and the logs. Programs get PATH from `path` first, then this machine's."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.pid = self.started = 0
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder),
                    # etcd 3.4 starts on arm64 only when told that this is meant
                    "ETCD_UNSUPPORTED_ARCH": "arm64"}

    # ---- the supervisor itself ----

    def start(self, master: int) -> None:
        """master: a process that it ends with, by its id; 0: it goes on."""
        command = [sys.executable, str(HERE / "supervisor.py"), str(self.folder), *(["--with", str(master)] if master else [])]
        with (self.folder / "supervisor.log").open("ab") as log:
            line = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                                  check=False).stdout.strip()
        if not line:
            raise Failure(f"the supervisor did not start:\n{(self.folder / 'supervisor.log').read_text()}")
        self.pid = int(line)
        self.started = start_time(self.pid)

    def alive(self) -> bool:
        return self.pid > 0 and start_time(self.pid) == self.started

    def end(self) -> None:
        """Ends every process of the cluster: the kernel does when the first one of a process namespace ends."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        wait_for("the cluster's processes to end", lambda: not self.alive())

    @contextlib.contextmanager
    def network(self):
        """Sockets made in the `with` block belong to the cluster's network, and go on to when it is left."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net", "rb") as home, open(f"/proc/{self.pid}/ns/net", "rb") as net:
            if libc.setns(net.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                libc.setns(home.fileno(), CLONE_NEWNET)

    def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        with self.network():
            return socket.create_connection((host, port), timeout)

    # ---- requests ----

    def ask(self, request: dict, streams: list[int] | None = None, answers: int = 1) -> dict:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.folder / "control.sock"))
            line = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(sock, [line], streams) if streams else 0
            if sent < len(line):    # nothing may follow the whole request: it is answered and closed already
                sock.sendall(line[sent:])
            with sock.makefile("rb") as stream:
                answer = {}
                for _ in range(answers):
                    text = stream.readline()
                    if not text:
                        raise Failure(f"the supervisor went away ({request['op']} {request.get('argv', '')})")
                    answer = json.loads(text)
                    if "error" in answer and len(answer) == 1:
                        raise Failure(f"{request.get('argv', request)}: {answer['error']}")
                return answer

    def spawn(self, name: str, argv: list, net: str = "", cgroups: list | None = None, env: dict | None = None) -> None:
        """A process that goes on, known by its name; its output is appended to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log, open(os.devnull, "rb") as null:
            self.ask({"op": "spawn", "name": name, "argv": list(map(str, argv)), "net": net,
                      "cgroups": list(map(str, cgroups or [])), "env": {**self.env, **(env or {})}, "cwd": str(self.folder)},
                     [null.fileno(), log.fileno(), log.fileno()])

    def run(self, *argv, net: str = "", stdin: str | None = None, env: dict | None = None) -> str:
        """A command to its end. Returns what it wrote to stdout; Failure with all it wrote where it failed."""
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            given.write(stdin or "")
            given.seek(0)
            code = self.ask({"op": "spawn", "argv": list(map(str, argv)), "net": net, "env": {**self.env, **(env or {})},
                             "cwd": str(self.folder)}, [given.fileno(), out.fileno(), err.fileno()], answers=2)["exit"]
            for each in (out, err):
                each.seek(0)
            text = out.read()
            if code:
                raise Failure(f"{' '.join(map(str, argv))}: exit {code}\n{text}{err.read()}")
            return text

    def interact(self, *argv, net: str = "", env: dict | None = None) -> int:
        """A command on this terminal. Returns its exit code."""
        return self.ask({"op": "spawn", "argv": list(map(str, argv)), "net": net, "env": {**os.environ, **self.env, **(env or {})},
                         "cwd": os.getcwd()}, [0, 1, 2], answers=2)["exit"]

    def processes(self) -> dict:
        return self.ask({"op": "list"})

    def running(self, name: str) -> bool:
        entry = self.processes().get(name)
        return entry is not None and entry["exit"] is None

    def send(self, name: str, number: int) -> bool:
        return self.ask({"op": "signal", "name": name, "signal": int(number)})["sent"]

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """Signals a named process and waits for its end; SIGKILL is certain, after SIGTERM somebody may hang."""
        if self.send(name, number):
            wait_for(f"{name} to end", lambda: not self.running(name))

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")
