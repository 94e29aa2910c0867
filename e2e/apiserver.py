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
import ctypes
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tools"))
import build  # noqa: E402  (its folder was put on the path just now)

START_SECONDS = 120     # 4 s on an idle machine; others may be compiling beside us
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """Something did not work as the test needs it."""


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports below the ephemeral range: no outgoing connection takes one while its server is down, nor connects to itself."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10000, max(low, 20000))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports += [port] if port not in ports else []
    return ports


def need(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise build.Missing(f"no {program} (Debian package {package})")
    return path


def call(command: list[str], **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class ApiServer:
    """Use as a context manager, or let run() do it."""

    def __init__(self) -> None:
        self.etcd_program = need("etcd", "etcd-server")
        self.openssl = need("openssl", "openssl")
        self.bin = build.kubernetes()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kwatt-apiserver-"))
        self.etcd = self.server = self.connection = None
        self.url = ""
        self.kubeconfig = str(self.dir / "admin.kubeconfig")

    def __enter__(self) -> "ApiServer":
        try:
            self.make_keys()
            self.start()
        except BaseException:
            self.stop(keep=True)
            raise
        return self

    def __exit__(self, kind, *_) -> None:
        self.stop(keep=kind is not None)

    # ---- keys ----

    def certificate(self, name: str, subject: str, san: str) -> None:
        """A key and a certificate of our CA: pki/NAME.key, pki/NAME.crt."""
        pki = self.dir / "pki"
        (pki / f"{name}.ext").write_text(f"subjectAltName={san}\nextendedKeyUsage=serverAuth,clientAuth\n")
        call([self.openssl, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", pki / f"{name}.key", "-out",
              pki / f"{name}.csr", "-subj", subject])
        call([self.openssl, "x509", "-req", "-in", pki / f"{name}.csr", "-CA", pki / "ca.crt", "-CAkey", pki / "ca.key",
              "-CAcreateserial", "-out", pki / f"{name}.crt", "-days", "2", "-extfile", pki / f"{name}.ext"])

    def make_keys(self) -> None:
        pki = self.dir / "pki"
        pki.mkdir()
        call([self.openssl, "genrsa", "-out", pki / "sa.key", "2048"])
        call([self.openssl, "rsa", "-in", pki / "sa.key", "-pubout", "-out", pki / "sa.pub"])
        call([self.openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pki / "ca.key", "-out",
              pki / "ca.crt", "-subj", "/CN=kwatt-e2e-ca", "-days", "2"])
        self.certificate("api", "/CN=api", "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc,IP:10.0.0.1")
        self.certificate("admin", "/O=system:masters/CN=admin", "DNS:admin")

    def write_kubeconfig(self, path: str | pathlib.Path, user: dict) -> str:
        """JSON is YAML. The CA is inline, so that the file alone is enough."""
        ca = base64.b64encode((self.dir / "pki/ca.crt").read_bytes()).decode()
        pathlib.Path(path).write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e", "preferences": {},
            "clusters": [{"name": "e2e", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": "e2e", "user": user}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}]}, indent=1) + "\n")
        return str(path)

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
            "--profiling=false"])
        self.wait_ready()

    def admin(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.dir / "pki/ca.crt"))
        context.load_cert_chain(str(self.dir / "pki/admin.crt"), str(self.dir / "pki/admin.key"))
        return context

    def wait_ready(self) -> None:
        context = self.admin()
        cause: Exception | None = None
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            for name, process in (("etcd", self.etcd), ("kube-apiserver", self.server)):
                if process.poll() is not None:
                    raise Failure(f"{name} ended with {process.returncode}")
            try:
                connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=context)
                connection.request("GET", "/readyz")
                if connection.getresponse().read() == b"ok":
                    return
            except (OSError, http.client.HTTPException) as error:
                cause = error
            time.sleep(0.1)
        raise Failure(f"kube-apiserver was not ready within {START_SECONDS} s: {cause}")

    def kill(self) -> None:
        """kill -9 of kube-apiserver; etcd goes on. start() brings it back."""
        self.server.kill()
        self.server.wait()
        if self.connection is not None:
            self.connection.close()
            self.connection = None

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

    def request(self, method: str, path: str, body: dict | None = None) -> dict:
        """One request as admin on a connection that is kept. Raises Failure on any status but 2xx, OSError without a server."""
        if self.connection is None:
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.admin())
        try:
            self.connection.request(method, path, None if body is None else json.dumps(body),
                                    {"Content-Type": "application/json", "Accept": "application/json"})
            answer = self.connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            self.connection = None
            raise OSError(f"{method} {path}: {error}") from error
        if not 200 <= answer.status < 300:
            raise Failure(f"{method} {path}: {answer.status} {text}")
        return json.loads(text)

    def apply(self, manifest: str | pathlib.Path) -> str:
        text = manifest.read_text() if isinstance(manifest, pathlib.Path) else manifest
        # server-side: no annotation of the size of the object, which the VPA's CRD is too large for
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def apply_vpa_crd(self) -> None:
        self.apply(build.vpa_crd())
        self.kubectl("wait", "--for=condition=Established", "--timeout=60s",
                     "crd/verticalpodautoscalers.autoscaling.k8s.io",
                     "crd/verticalpodautoscalercheckpoints.autoscaling.k8s.io")

    def service_account(self, name: str, rules: list[dict], namespace: str = "kube-system") -> str:
        """A service account with these cluster-wide RBAC rules. Returns a kubeconfig that names its token by tokenFile."""
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        self.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
            {**role, "kind": "ClusterRole", "rules": rules},
            {**role, "kind": "ClusterRoleBinding", "subjects": [subject],
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}]}))
        self.renew_token(name, namespace)
        return self.write_kubeconfig(self.dir / f"{name}.kubeconfig", {"tokenFile": f"{name}.token"})

    def renew_token(self, name: str, namespace: str = "kube-system") -> None:
        """Replaces NAME.token at once, as the kubelet does with a projected token."""
        token = self.kubectl("create", "token", name, "-n", namespace, "--duration=1h")
        temporary = self.dir / f"{name}.token.new"
        temporary.touch(mode=0o600)
        temporary.write_text(token.strip())
        temporary.rename(self.dir / f"{name}.token")

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


def run(test, *args) -> int:
    """Runs test(server, *args). Returns the exit code: 0, 1 with the cause printed, 77 with a SKIP line."""
    try:
        with ApiServer() as server:
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
