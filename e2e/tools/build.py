#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the programs that end-to-end tests run beside kwatt, from pinned Go modules, and caches them.

usage: build.py FAMILY[/PROGRAM]...    builds what is missing; prints the folder of each
       build.py vpa-crd                prints the path of the VPA's CRD file
       build.py list                   families, versions, programs, and what is built

As a module: programs() and source() return paths, or raise Missing where this machine cannot have them.

Each subfolder here is a family: a Go module of its own with its go.sum (they pin different versions of the same
libraries), whose `tool` lines are its programs. go.mod is the only place where a version stands. What is built lies in
$KWATT_CACHE (else build/tools of the source tree, outside the preset folders, which share it) under a hash of the
family's files and of the flags. A cold build of Kubernetes takes some 7 minutes on 2 cores, of everything 20.

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
# Flags of every build: names of this machine stay out of the programs, symbol tables are of no use to a test, and two
# packages at a time, since the largest take 2 GB each.
FLAGS = ["-p", "2", "-trimpath", "-buildvcs=false"]
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


def note_time(what: str, begin: float) -> None:
    """For the table of scripts/test, which names the file."""
    if os.environ.get("KWATT_TIMES"):
        with open(os.environ["KWATT_TIMES"], "a", encoding="utf-8") as file:
            file.write(f"{time.monotonic() - begin:.0f} built {what}\n")


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


class Family:
    """A folder here with its go.mod: module, version, and the programs that its `tool` lines name."""

    def __init__(self, name: str):
        self.name, self.folder = name, HERE / name
        if not (self.folder / "go.mod").is_file():
            raise ValueError(f"no family {name!r} ({', '.join(families())})")
        text = (self.folder / "go.mod").read_text()
        self.own = re.search(r"^module (\S+)", text, re.M)[1]
        block = "".join(re.findall(r"^tool \(\n(.*?)^\)", text, re.M | re.S))
        packages = re.findall(r"^\s*(\S+)$", block, re.M) + re.findall(r"^tool ([^\s(]\S*)$", text, re.M)
        self.programs = {package.rsplit("/", 1)[1]: package for package in packages}
        required = re.findall(r"^(?:require |\t)(\S+) (v\S+)(?: // indirect)?$", text, re.M)
        self.module, self.version = next(
            ((m, v) for m, v in required if any(p == m or p.startswith(m + "/") for p in packages)), (self.own, "own"))

    def flags(self) -> list[str]:
        stamp = ""
        if self.module == "k8s.io/kubernetes":
            # without it kubectl and the server call themselves v0.0.0-master and refuse each other's version skew
            stamp = f" -X k8s.io/component-base/version.gitVersion={self.version}"
        elif self.name == "helm":
            # helm refuses charts whose kubeVersion its own stamp (else v1.20) does not meet, in `helm template`
            kube = re.search(r"k8s\.io/client-go v0\.(\d+)\.", (self.folder / "go.mod").read_text())[1]
            lint, chart = "helm.sh/helm/v3/pkg/lint/rules", "helm.sh/helm/v3/pkg/chartutil"
            stamp = "".join(f" -X {p}.k8sVersion{part}={n}" for p in (lint, chart) for part, n in
                            (("Major", 1), ("Minor", kube)))
        return [*FLAGS, "-ldflags", f"-s -w{stamp}"]

    def key(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            digest.update(path.relative_to(self.folder).as_posix().encode() + b"\0" + path.read_bytes())
        digest.update("\0".join((platform.machine(), *self.flags())).encode())
        return digest.hexdigest()[:16]

    def out(self) -> pathlib.Path:
        return cache() / f"{self.name}-{self.version}-{self.key()}"


def families() -> list[str]:
    return sorted(p.parent.name for p in HERE.glob("*/go.mod"))


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


def compile_programs(family: Family, env: dict[str, str], out: pathlib.Path, names: list[str]) -> None:
    """go build of the named programs, with a line of progress every 15 s. A desktop stays usable beside it."""
    begin = last = time.monotonic()
    packages, tail = 0, []
    command = ["nice", "go", "build", "-v", "-o", f"{out}/", *family.flags(), *(family.programs[n] for n in names)]
    with subprocess.Popen(command, cwd=family.folder, env=env, text=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as process:
        for line in process.stderr:
            packages += 1
            tail = [*tail[-40:], line]
            if time.monotonic() - last > 15:
                last = time.monotonic()
                say(f"  {last - begin:4.0f} s, {packages} packages, now {line.strip()}")
    if process.returncode:
        text = "".join(tail)
        if NO_NETWORK.search(text):
            raise Missing(f"Go modules of {family.name} cannot be fetched: {NO_NETWORK.search(text)[0]}")
        raise RuntimeError(f"go build of {family.folder} failed:\n{text}")
    say(f"built {', '.join(names)} in {time.monotonic() - begin:.0f} s")
    note_time(f"{family.name} {family.version}: {', '.join(names)}", begin)


def programs(name: str, *wanted: str) -> pathlib.Path:
    """The folder that holds the wanted programs of a family (all of them where none is named), built where missing."""
    family = Family(name)
    wanted = wanted or tuple(family.programs)
    path = family.out()

    def missing() -> list[str]:
        return [each for each in wanted if not (path / each).is_file()]
    if not missing():
        return path
    env = go(family.folder, f"{name} {family.version}")
    with locked(path):
        if todo := missing():
            say(f"building {', '.join(todo)} {family.version} (minutes where Go's cache is cold)")
            with tempfile.TemporaryDirectory(dir=cache(), prefix="building-") as temporary:
                compile_programs(family, env, pathlib.Path(temporary), todo)
                path.mkdir(exist_ok=True)
                for each in todo:
                    (pathlib.Path(temporary) / each).rename(path / each)
    return path


def kubernetes(*wanted: str) -> pathlib.Path:
    """Folder with programs of Kubernetes: the newest that is tried, or with KWATT_KUBERNETES=oldest the oldest."""
    which = os.environ.get("KWATT_KUBERNETES") or "newest"
    if which not in ("newest", "oldest"):
        raise ValueError(f"KWATT_KUBERNETES={which}: newest or oldest")
    return programs("kubernetes" if which == "newest" else "kubernetes-oldest", *wanted)


def source(name: str, *files: str) -> list[pathlib.Path]:
    """Files of a family's module, as it publishes them (manifests, CRDs)."""
    family = Family(name)
    paths = [cache() / f"{name}-{family.version}-{family.key()}-{file.replace('/', '-')}" for file in files]
    if all(path.is_file() for path in paths):
        return paths
    env = go(family.folder, f"files of {name} {family.version}")
    with locked(paths[0]), tempfile.TemporaryDirectory() as copy:
        # a copy, so that go never writes into the source tree; its go.sum verifies what is fetched
        for each in ("go.mod", "go.sum"):
            shutil.copy(family.folder / each, copy)
        done = subprocess.run(["go", "mod", "download", "-json", family.module], cwd=copy, env=env, capture_output=True,
                              text=True, check=False)
        if done.returncode:
            text = done.stdout + done.stderr
            if NO_NETWORK.search(text):
                raise Missing(f"the module of {name} cannot be fetched: {NO_NETWORK.search(text)[0]}")
            raise RuntimeError(f"go mod download failed:\n{text}")
        folder = pathlib.Path(json.loads(done.stdout)["Dir"])
        for file, path in zip(files, paths):
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_bytes((folder / file).read_bytes())
            temporary.rename(path)
    return paths


def vpa_crd() -> pathlib.Path:
    """The CRD file of the VPA (verticalpodautoscalers and their checkpoints)."""
    return source("vpa", "deploy/vpa-v1-crd-gen.yaml")[0]


def show() -> None:
    for name in families():
        family = Family(name)
        print(f"{name} {family.version}")
        for program in family.programs:
            print(f"  {program:<26}{'built' if (family.out() / program).is_file() else '-'}")


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    try:
        for word in sys.argv[1:]:
            if word == "list":
                show()
            elif word == "vpa-crd":
                print(vpa_crd())
            else:
                name, _, program = word.partition("/")
                print(programs(name, *[program] if program else []))
    except Missing as error:
        return end(error)
    except (KeyError, ValueError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
