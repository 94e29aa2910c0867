#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the programs that end-to-end tests run beside kwatt, from pinned Go modules, and caches them.

usage: build.py kubernetes     prints the folder that holds kube-apiserver and kubectl
       build.py vpa-crd        prints the path of the VPA's CRD file

As a module: kubernetes() and vpa_crd() return the path, or raise Missing where this machine cannot have it.

Each subfolder here is a Go module of its own with its go.sum, since they pin different versions of the same libraries. What
is built lies in $KWATT_CACHE (else build/tools of the source tree, outside the preset folders, which share it)
under a hash of go.mod and go.sum. A cold build of Kubernetes takes some 7 minutes on 2 cores.

Go is needed only where nothing is cached. Where it is missing or too old, or modules cannot be fetched, Missing says so:
a test then skips; where CI=true nothing may be missing, and it is a failure.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ.get("KWATT_SOURCE_DIR") or HERE.parent.parent)
KUBERNETES_VERSION = re.search(r"k8s\.io/kubernetes (v\S+)", (HERE / "kubernetes/go.mod").read_text())[1]
# What go says where it cannot reach its module proxy: the machine's lack, not the build's fault.
NO_NETWORK = re.compile(r"dial tcp|no such host|i/o timeout|connection refused|proxyconnect|network is unreachable|"
                        r"module lookup disabled")


class Missing(Exception):
    """This machine cannot have the program; the text says what it needs."""


def end(error: Missing) -> int:
    """Exit code of a test that met Missing, with its reason printed: 77 skips, but CI may not skip."""
    if os.environ.get("CI") == "true":
        print(f"FAIL: {error} (CI=true: nothing may be missing)", flush=True)
        return 1
    print(f"SKIP: {error}", flush=True)
    return 77


def say(text: str) -> None:
    print(f"kwatt: {text}", file=sys.stderr, flush=True)


def cache() -> pathlib.Path:
    path = pathlib.Path(os.environ.get("KWATT_CACHE") or ROOT / "build/tools")
    path.mkdir(parents=True, exist_ok=True)
    return path


def go(module: pathlib.Path, what: str) -> dict[str, str]:
    """Checks the Go installation against the module's go line. Returns the environment to run it with."""
    wanted = re.search(r"^go (\S+)", (module / "go.mod").read_text(), re.M)[1]
    env = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    found = "none"
    if shutil.which("go"):
        found = subprocess.run(["go", "env", "GOVERSION"], env=env, capture_output=True, text=True,
                               check=False).stdout.strip().removeprefix("go")
    numbers = [int(n) for n in re.findall(r"\d+", found)[:3]]
    if numbers < [int(n) for n in wanted.split(".")[:2]]:
        raise Missing(f"Go {wanted} or newer is needed to build {what} (found: {found})")
    return env


def key(module: pathlib.Path, *more: str) -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    digest.update("\0".join((platform.machine(), *more)).encode())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def locked(path: pathlib.Path):
    """Two tests that need the same program build it once."""
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process builds {path.name}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compile_tools(module: pathlib.Path, env: dict[str, str], out: pathlib.Path, flags: list[str]) -> None:
    """go build of the module's `tool` lines, with a line of progress every 15 s."""
    begin = last = time.monotonic()
    packages, tail = 0, []
    with subprocess.Popen(["go", "build", "-v", "-o", f"{out}/", *flags, "tool"], cwd=module, env=env, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        for line in process.stderr:
            packages += 1
            tail = [*tail[-40:], line]
            if time.monotonic() - last > 15:
                last = time.monotonic()
                say(f"  {last - begin:4.0f} s, {packages} packages, now {line.strip()}")
    if process.returncode:
        text = "".join(tail)
        if NO_NETWORK.search(text):
            raise Missing(f"Go modules of {module.name} cannot be fetched: {NO_NETWORK.search(text)[0]}")
        raise RuntimeError(f"go build of {module} failed:\n{text}")
    say(f"built {', '.join(sorted(p.name for p in out.iterdir()))} in {time.monotonic() - begin:.0f} s")


def kubernetes() -> pathlib.Path:
    """Folder with kube-apiserver and kubectl."""
    module = HERE / "kubernetes"
    # without the stamp kubectl and the server call themselves v0.0.0-master and refuse each other's version skew
    flags = ["-ldflags", f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"]
    path = cache() / f"kubernetes-{KUBERNETES_VERSION}-{key(module, *flags)}"
    if path.is_dir():
        return path
    env = go(module, f"Kubernetes {KUBERNETES_VERSION}")
    with locked(path):
        if path.is_dir():
            return path
        say(f"building kube-apiserver and kubectl {KUBERNETES_VERSION} (some 7 minutes where Go's cache is cold)")
        with tempfile.TemporaryDirectory(dir=cache(), prefix="building-") as temporary:
            out = pathlib.Path(temporary) / "bin"
            out.mkdir()
            compile_tools(module, env, out, flags)
            out.rename(path)
    return path


def vpa_crd() -> pathlib.Path:
    """The CRD file of the VPA (verticalpodautoscalers and their checkpoints)."""
    module = HERE / "vpa"
    path = cache() / f"vpa-crd-{key(module)}.yaml"
    if path.is_file():
        return path
    env = go(module, "the VPA's CRDs")
    with locked(path), tempfile.TemporaryDirectory() as copy:
        # a copy, so that go never writes into the source tree; its go.sum verifies what is fetched
        for name in ("go.mod", "go.sum"):
            shutil.copy(module / name, copy)
        done = subprocess.run(["go", "mod", "download", "-json", "k8s.io/autoscaler/vertical-pod-autoscaler"], cwd=copy,
                              env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            text = done.stdout + done.stderr
            if NO_NETWORK.search(text):
                raise Missing(f"the VPA's module cannot be fetched: {NO_NETWORK.search(text)[0]}")
            raise RuntimeError(f"go mod download failed:\n{text}")
        source = pathlib.Path(json.loads(done.stdout)["Dir"]) / "deploy/vpa-v1-crd-gen.yaml"
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(source.read_bytes())
        temporary.rename(path)
    return path


def main() -> int:
    makers = {"kubernetes": kubernetes, "vpa-crd": vpa_crd}
    if len(sys.argv) != 2 or sys.argv[1] not in makers:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(makers[sys.argv[1]]())
    except Missing as error:
        return end(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
