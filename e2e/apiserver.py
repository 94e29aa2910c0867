#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real etcd and kube-apiserver for end-to-end tests: loopback only, ports of its own, no root, no node.

In a test:

    import apiserver

    def test(server):
        server.apply("apiVersion: v1\\nkind: Namespace\\nmetadata: {name: a}\\n")     # text, or a pathlib.Path
        server.apply_vpa_crd()                                    # autoscaling.k8s.io/v1, established on return
        server.kubectl("get", "pods", "-A", "-o", "json")         # returns stdout; raises Failure with stderr
        server.request("GET", "/api/v1/nodes")                    # a decoded answer, as admin; quicker than kubectl
        program = [..., "--kubeconfig", server.kubeconfig]        # admin, client certificate
        kubeconfig = server.service_account("kwatt", rules=RULES) # RBAC of its own, tokenFile; returns a path
        server.kill()                                             # kill -9 of kube-apiserver; server.start() again
        server.compact()                                          # etcd forgets old versions (410 for who is behind)

    if __name__ == "__main__":
        sys.exit(apiserver.run(test))       # 0, 1, or 77 with a SKIP line; logs are kept and shown on failure

As a command, for looking around:

    e2e/apiserver.py [--vpa] [COMMAND [ARG...]]     runs COMMAND (else a wait for Ctrl-C) with KUBECONFIG set

No controller manager runs: a Deployment makes no pods, `default` has no service account (the admission plug-in that would
ask for it is off), deleted pods without a node vanish at once. Everything lies in one temporary folder and is ended by process
id; the kernel ends the programs where the test itself dies.
"""
import base64
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

from kubeapi import KubeApi
from pki import Authority
from process import Failure, build, call, die_with_parent, free_ports, need

START_SECONDS = 120     # 4 s on an idle machine; others may be compiling beside us


class ApiServer(KubeApi):
    """Use as a context manager, or let run() do it."""

    programs: tuple[str, ...] = ("kube-apiserver", "kubectl")   # in self.bin
    options: tuple[str, ...] = ()                               # of kube-apiserver, besides those below

    def __init__(self) -> None:
        self.etcd_program = need("etcd", "etcd-server")
        self.bin = build.kubernetes(*self.programs)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kwatt-apiserver-"))
        self.authority = Authority(self.dir / "pki")
        self.etcd = self.server = None
        self.url = ""
        self.kubeconfig = str(self.dir / "admin.kubeconfig")

    def __enter__(self) -> "ApiServer":
        try:
            self.make_keys()
            self.start()
        except BaseException as error:
            self.stop(keep=isinstance(error, Exception))
            raise
        return self

    def __exit__(self, kind, *_) -> None:
        self.stop(keep=kind is not None and issubclass(kind, Exception))    # who interrupts it wants nothing left

    # ---- keys ----

    def certificate(self, name: str, subject: str, san: str) -> None:
        """A key and a certificate of our CA: pki/NAME.key, pki/NAME.crt."""
        self.authority.certificate(name, subject, san)

    def make_keys(self) -> None:
        self.authority.make()
        self.certificate("api", "/CN=api", "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc,IP:10.0.0.1")
        self.certificate("admin", "/O=system:masters/CN=admin", "DNS:admin")

    def write_kubeconfig(self, path: str | pathlib.Path, user: dict) -> str:
        return self.authority.kubeconfig(path, self.url, user)

    # ---- processes ----

    def spawn(self, name: str, command: list[str]) -> subprocess.Popen:
        with open(self.dir / f"{name}.log", "ab") as log:
            # etcd 3.4 starts on arm64 only when told that this is meant
            env = {**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64", "HOME": str(self.dir)}
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, cwd=self.dir,
                                    preexec_fn=die_with_parent)

    def start_etcd(self) -> None:
        self.etcd_port, peer = free_ports(2)
        self.etcd = self.spawn("etcd", [
            self.etcd_program, "--data-dir", str(self.dir / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", f"http://127.0.0.1:{self.etcd_port}",
            "--advertise-client-urls", f"http://127.0.0.1:{self.etcd_port}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}"])

    def start(self) -> None:
        """Starts what does not run (etcd once, kube-apiserver also after kill(), on the same port) and waits for readiness."""
        if self.etcd is None:
            self.start_etcd()
            self.port = free_ports(1)[0]
            self.url = f"https://127.0.0.1:{self.port}"
            self.write_kubeconfig(self.kubeconfig, {"client-certificate": "pki/admin.crt", "client-key": "pki/admin.key"})
        pki = self.dir / "pki"
        self.server = self.spawn("kube-apiserver", [
            str(self.bin / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port}",
            # a loopback address may not stand in the endpoints of the service `kubernetes`
            "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
            f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/api.crt", f"--tls-private-key-file={pki}/api.key",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key", "--authorization-mode=RBAC",
            # nobody makes service accounts here, so pods must not wait for theirs
            "--disable-admission-plugins=ServiceAccount",
            "--profiling=false", *self.options])
        self.wait_ready()

    def connect(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.admin())

    def wait_ready(self) -> None:
        cause: Exception | None = None
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            for name, process in (("etcd", self.etcd), ("kube-apiserver", self.server)):
                if process.poll() is not None:
                    raise Failure(f"{name} ended with {process.returncode}")
            try:
                if self.ready():
                    return
            except OSError as error:
                cause = error
            time.sleep(0.1)
        raise Failure(f"kube-apiserver was not ready within {START_SECONDS} s: {cause}")

    def kill(self) -> None:
        """kill -9 of kube-apiserver; etcd goes on. start() brings it back."""
        self.server.kill()
        self.server.wait()
        self.hang_up()

    def stop(self, keep: bool) -> None:
        """Ends both. keep: shows the ends of their logs and leaves the folder."""
        for process in (self.server, self.etcd):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if not keep:
            shutil.rmtree(self.dir, ignore_errors=True)
            return
        for log in sorted(self.dir.glob("*.log")):
            print(f"---- end of {log} ----\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)

    # ---- what tests do with it ----

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.dir), "KUBECONFIG": self.kubeconfig}
        return call([str(self.bin / "kubectl"), *args], input=stdin, env=env, timeout=120)

    def etcd_call(self, path: str, body: dict) -> dict:
        request = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/{path}", json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            return json.load(answer)

    def compact(self) -> int:
        """etcd forgets everything before its current revision, which is returned."""
        revision = int(self.etcd_call("kv/range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"])
        self.etcd_call("kv/compaction", {"revision": str(revision), "physical": True})
        return revision


def run(test, *args, kind: type[ApiServer] = ApiServer) -> int:
    """Runs test(server, *args) with a server of that kind. Returns the exit code: 0, 1 with the cause printed, 77 with a SKIP line."""
    try:
        with kind() as server:
            test(server, *args)
    except build.Missing as error:
        return build.end(error)
    except Exception:  # whatever it is, the test failed by it
        traceback.print_exc()
        return 1
    return 0


def main() -> int:
    args = sys.argv[1:]
    vpa = args[:1] == ["--vpa"]
    args = args[1:] if vpa else args
    if args[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0

    def look_around(server: ApiServer) -> None:
        if vpa:
            server.apply_vpa_crd()
        with contextlib.suppress(KeyboardInterrupt):
            if args:
                path = f"{server.bin}:{os.environ.get('PATH', '')}"
                code = subprocess.call(args, env={**os.environ, "KUBECONFIG": server.kubeconfig, "PATH": path})
                if code:
                    raise Failure(f"{args[0]} ended with {code}")
                return
            print(f"export KUBECONFIG={server.kubeconfig}\nCtrl-C ends it", flush=True)
            signal.pause()

    return run(look_around)


if __name__ == "__main__":
    sys.exit(main())
