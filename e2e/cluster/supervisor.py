# SPDX-License-Identifier: Apache-2.0
"""Process 1 of a cluster: starts, signals and reaps all that belongs to it, in namespaces that end with it.

usage: supervisor.py FOLDER [--with PID]      goes into the background; prints its process id once it serves

It lives in a mount, a network and a process namespace of its own. So there is one thing to end: when it is killed, the kernel
ends every process below it, containers and their shims included, and with the last of them go all mounts and all networks. What
remains on the machine are cgroups and FOLDER, whose names the harness knows.

/run, /var/lib and /var/log are the cluster's own (containerd, kubelet and the network plugins have fixed paths there).
--with: it ends when that process (a test, or what runs tests) does; else it goes on until it is killed.

It serves FOLDER/control.sock: one JSON object a line each way, one request a connection. Requests (`op`):
  spawn   argv, name ("" for a passing command), net (name of a network of `ip netns`, "" for its own), cgroups (folders
          to enter), env, cwd; with the three standard streams as file descriptors. Answers {"pid": N}; without a name it
          then waits, and says {"exit": code} as a second line: negative for a signal, as subprocess does.
  signal  name, signal: answers {"sent": bool}
  list    answers {name: {"pid": N, "exit": null or code}}
"""
import contextlib
import ctypes
import json
import os
import pathlib
import selectors
import signal
import socket
import sys

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE, MS_BIND = 0x4000, 1 << 18, 0x1000
REQUEST_BYTES = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


def kernel(function, *args) -> None:
    if function(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    kernel(LIBC.mount, source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None)


def make_view(folder: pathlib.Path) -> None:
    """The file system as the cluster sees it."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", 0)
    mount("tmpfs", "/run", "tmpfs", 0)
    for name in ("lib", "log"):
        (folder / "var" / name).mkdir(parents=True)
        mount(str(folder / "var" / name), f"/var/{name}", None, MS_BIND)


class Supervisor:
    def __init__(self, folder: pathlib.Path, master: int | None):
        self.named: dict[str, dict] = {}
        self.waiting: dict[int, socket.socket] = {}     # process id -> who asked for it
        self.selector = selectors.DefaultSelector()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(folder / "control.sock"))
        self.server.listen(64)
        if master is not None:      # readable when that process ends
            self.selector.register(master, selectors.EVENT_READ, sys.exit)
        self.wake, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer)
        for each in (signal.SIGINT, signal.SIGHUP):     # of the terminal it was started from
            signal.signal(each, signal.SIG_IGN)

    def run(self) -> None:
        self.selector.register(self.server, selectors.EVENT_READ, self.accept)
        self.selector.register(self.wake, selectors.EVENT_READ, self.reap)
        while True:
            for key, _ in self.selector.select():
                key.data()

    def reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            for entry in self.named.values():
                if entry["pid"] == pid and entry["exit"] is None:
                    entry["exit"] = code
            if pid in self.waiting:
                self.answer(self.waiting.pop(pid), {"exit": code}, last=True)

    @staticmethod
    def answer(client: socket.socket, text: dict, last: bool) -> None:
        with contextlib.suppress(OSError):              # it may have left
            client.sendall(json.dumps(text).encode() + b"\n")
        if last:
            client.close()

    def accept(self) -> None:
        client, _ = self.server.accept()
        client.settimeout(10)
        try:
            line, streams = b"", []
            while not line.endswith(b"\n"):
                more, fds, _, _ = socket.recv_fds(client, REQUEST_BYTES, 3)
                streams += fds
                line += more
                if not more or len(line) > REQUEST_BYTES:
                    raise ValueError("no request")
            try:
                self.serve(client, json.loads(line), streams)
            finally:
                for stream in streams:
                    os.close(stream)
        except (OSError, ValueError, KeyError) as error:
            self.answer(client, {"error": f"{type(error).__name__}: {error}"}, last=True)

    def serve(self, client: socket.socket, request: dict, streams: list[int]) -> None:
        name = request.get("name", "")
        if request["op"] == "list":
            self.answer(client, self.named, last=True)
        elif request["op"] == "signal":
            entry = self.named.get(name)
            alive = entry is not None and entry["exit"] is None
            if alive:
                os.kill(entry["pid"], request["signal"])
            self.answer(client, {"sent": alive}, last=True)
        elif request["op"] == "spawn":
            if name in self.named and self.named[name]["exit"] is None:
                raise ValueError(f"{name} runs already")
            pid = self.spawn(request, streams)
            if name:
                self.named[name] = {"pid": pid, "exit": None}
            else:
                self.waiting[pid] = client
            self.answer(client, {"pid": pid}, last=bool(name))
        else:
            raise ValueError(f"no op {request['op']}")

    def spawn(self, request: dict, streams: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self.become(request, streams)
            except BaseException as error:  # whatever it is, this child must not go on as a second supervisor
                os.write(2, f"{request['argv'][0]}: {error}\n".encode())
            os._exit(127)
        return pid

    @staticmethod
    def become(request: dict, streams: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(each, signal.SIG_DFL)
        if request.get("name"):
            os.setsid()
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        if request.get("net"):
            with open(f"/run/netns/{request['net']}", "rb") as net:
                kernel(LIBC.setns, net.fileno(), CLONE_NEWNET)
        for group in request.get("cgroups", []):
            pathlib.Path(group, "cgroup.procs").write_text("0")
        os.chdir(request.get("cwd") or "/")
        os.execvpe(request["argv"][0], request["argv"], request.get("env") or dict(os.environ))


def main() -> int:
    folder = pathlib.Path(sys.argv[1]).resolve()
    master = os.pidfd_open(int(sys.argv[3])) if sys.argv[2:3] == ["--with"] else None
    kernel(LIBC.unshare, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET)
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with open(reader, "rb") as pipe:
            outside = pipe.read().decode()
        print(outside, flush=True)
        return 0 if outside else 1
    os.setsid()
    outside = os.readlink("/proc/self")     # /proc is still the machine's: the id that others know us by
    make_view(folder)
    supervisor = Supervisor(folder, master)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.write(writer, outside.encode())
    os.close(writer)
    supervisor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
