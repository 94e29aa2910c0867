#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the image of deploy/Dockerfile for real, without a registry, and caches it.

usage: image.py            builds what is missing; prints the path of the archive (docker-archive, for `ctr images import`)
       image.py --load ENGINE   loads it into docker, podman or `ctr` (ENGINE is the command, with its arguments)

As a module: kwatt() returns an Image, or raises build.Missing where this machine cannot build one.

The Dockerfile begins FROM debian:bookworm-slim. Where no registry is reachable, debootstrap makes that base from the mirror that
this machine's own apt uses, and buildah gives it the name. buildah then builds in a chroot, with a storage of plain folders, which
wants no more of the kernel than root and chroot. The base is made once; the image again where a source of it changed (its key is a
hash of what .dockerignore lets in): 1 minute on two idle cores, 3 where others compile beside it; the base takes half a minute more.
"""
import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import build  # noqa: E402  (its folder was put on the path just now)

SUITE = "bookworm"
BASE = f"docker.io/library/debian:{SUITE}-slim"
NAME = "docker.io/library/kwatt"
LIMIT_BYTES = 40 << 20
WORK = "building-image-"    # 3 GB while it builds
KEPT = 4
SBOM = "usr/share/kwatt/sbom.spdx.json"
# apt settings of this machine that decide whether the mirror can be used at all
APT_SETTINGS = re.compile(r"^Acquire::(https?::|Check-)", re.M)


@dataclasses.dataclass
class Image:
    archive: pathlib.Path   # docker-archive
    sbom: pathlib.Path      # SPDX JSON, the same as in the image
    name: str               # docker.io/library/kwatt:TAG, where TAG changes with the sources
    commit: str             # that --version prints
    size_bytes: int         # of the uncompressed layers

    @property
    def tag(self) -> str:
        return self.name.rpartition(":")[2]


def run(command: list, **more) -> str:
    done = subprocess.run(["nice", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False, **more)
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-40:])
        if re.search(r"Could not resolve|Unable to connect|Couldn't download|Failed to fetch|Connection (timed|refused)", end):
            raise build.Missing(f"a Debian mirror cannot be reached: {command[0]} said\n{end}")
        raise RuntimeError(f"{' '.join(map(str, command[:3]))} ... exit {done.returncode}:\n{end}")
    return done.stdout


def need(program: str, package: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise build.Missing(f"no {program} (Debian package {package})")
    return path


def sources() -> list[str]:
    """Files of the build's context: what .dockerignore lets in and git knows (or would add)."""
    allowed = [line[1:].strip() for line in (build.ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    listing = subprocess.run(["git", "-C", str(build.ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "--",
                              *allowed], capture_output=True, text=True, check=False)
    names = listing.stdout.splitlines()
    if listing.returncode:      # a source archive
        names = [str(p.relative_to(build.ROOT)) for a in allowed for p in [build.ROOT / a, *(build.ROOT / a).rglob("*")]]
    return sorted({name for name in names if (build.ROOT / name).is_file()} | {"deploy/Dockerfile", ".dockerignore"})


def key() -> str:
    digest = hashlib.sha256(platform.machine().encode())
    for name in sources():
        path = build.ROOT / name
        digest.update(f"\0{name}\0{path.stat().st_mode & 0o111}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def commit() -> str:
    done = subprocess.run(["git", "-C", str(build.ROOT), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def version() -> str:
    return re.search(r"project\(kwatt VERSION (\S+)", (build.ROOT / "CMakeLists.txt").read_text())[1]


def repositories() -> list[str]:
    """Debian repositories of this machine's apt, as lines of a sources.list; none where it is no Debian of SUITE."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"],
                          capture_output=True, text=True, check=False)
    pairs = dict.fromkeys(tuple(line.split()) for line in done.stdout.splitlines() if len(line.split()) == 2)
    names = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    return [f"deb {uri} {name} main" for uri, name in pairs if name in names and "/debian" in uri]


def settings() -> str:
    """What this machine's apt is told and its base has to be told, too."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    return "\n".join(line for line in dump.splitlines() if APT_SETTINGS.match(line)) + "\n"


def make_base(path: pathlib.Path, lines: list[str], told: str) -> None:
    """A root folder as that of debian:bookworm-slim, in an archive."""
    debootstrap = need("debootstrap", "debootstrap")
    build.say(f"debootstrap of {SUITE} (30 s)")
    mirror = [line.split()[1] for line in lines if line.split()[2] == SUITE][:1]
    with tempfile.TemporaryDirectory(dir=build.cache(), prefix="building-") as temporary:
        root = pathlib.Path(temporary) / "root"
        run([debootstrap, "--variant=minbase", SUITE, root, *mirror])
        if lines:
            (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
        (root / "etc/apt/apt.conf.d/90-host").write_text(told)
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")     # as in the image: packages start no service
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        for folder in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(root / folder)
            (root / folder / "partial").mkdir(parents=True)
        run(["tar", "-C", root, "--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./dev/*", "-cf",
             f"{temporary}/base.tar", "."])
        pathlib.Path(temporary, "base.tar").rename(path)


def base() -> pathlib.Path:
    lines, told = repositories(), settings()
    about = hashlib.sha256("\n".join([*lines, told]).encode()).hexdigest()[:8]     # one of another mirror is of no use
    path = build.cache() / f"debian-{SUITE}-{platform.machine()}-{about}.tar"
    if not path.is_file():
        with build.locked(path):
            if not path.is_file():
                make_base(path, lines, told)
    return path


def read_archive(path: pathlib.Path, sbom: pathlib.Path) -> int:
    """Takes the bill of materials out of an archive. Returns the size of the layers in bytes."""
    size = 0
    with tarfile.open(path) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        for name in manifest["Layers"]:
            size += archive.getmember(name).size
            with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                for member in layer:
                    if member.name.lstrip("./") == SBOM:
                        sbom.write_bytes(layer.extractfile(member).read())
    return size


def make_image(folder: pathlib.Path, tag: str) -> None:
    buildah, foundation = need("buildah", "buildah"), base()
    revision = commit()
    name = f"{NAME}:{tag}"
    for stale in build.cache().glob(f"{WORK}*"):    # of one that was killed: we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=build.cache(), prefix=WORK) as temporary:
        context = pathlib.Path(temporary) / "context"
        for source in sources():
            (context / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(build.ROOT / source, context / source)
        common = [buildah, "--storage-driver", "vfs", "--root", f"{temporary}/storage", "--runroot", f"{temporary}/run"]
        policy = pathlib.Path(temporary) / "policy.json"
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        try:
            container = run([*common, "from", "scratch"]).split()[-1]
            run([*common, "add", container, foundation, "/"])
            run([*common, "config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--cmd",
                 "bash", container])
            run([*common, "commit", "--signature-policy", policy, "--rm", container, BASE])
            build.say("building the image: packages, then the programs (1 to 3 minutes)")
            run([*common, "bud", "--signature-policy", policy, "--isolation", "chroot", "--pull=false", "--format", "docker",
                 "--build-arg", f"KWATT_COMMIT={revision}", "--build-arg", f"KWATT_VERSION={version()}", "--tag", name,
                 "--file", context / "deploy/Dockerfile", context])
            run([*common, "push", "--signature-policy", policy, name, f"docker-archive:{temporary}/kwatt.tar:{name}"])
        finally:
            # folders of the storage may be mounted or closed to writing: buildah knows
            subprocess.run([*common, "rm", "--all"], capture_output=True, check=False)
            subprocess.run([*common, "rmi", "--all", "--force"], capture_output=True, check=False)
        out = pathlib.Path(temporary) / "out"
        out.mkdir()
        pathlib.Path(temporary, "kwatt.tar").rename(out / "kwatt.tar")
        size = read_archive(out / "kwatt.tar", out / "sbom.spdx.json")
        (out / "image.json").write_text(json.dumps({"name": name, "commit": revision, "size_bytes": size}) + "\n")
        out.rename(folder)


def forget_old() -> None:
    """Each change of a source makes another image: the last ones are enough (a test beside us may use the one before)."""
    folders = [path for path in build.cache().glob("image-*") if (path / "image.json").is_file()]
    for path in sorted(folders, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def kwatt() -> Image:
    """The image of the sources at hand."""
    tag = key()
    folder = build.cache() / f"image-{tag}"
    if not (folder / "image.json").is_file():
        if os.geteuid() != 0:
            raise build.Missing("root is needed to build an image (debootstrap, chroot)")
        with build.locked(build.cache() / "image"):
            if not (folder / "image.json").is_file():
                begin = time.monotonic()
                make_image(folder, tag)
                build.say(f"built the image in {time.monotonic() - begin:.0f} s")
                build.note_time("the image", begin)
                forget_old()
    about = json.loads((folder / "image.json").read_text())
    return Image(folder / "kwatt.tar", folder / "sbom.spdx.json", about["name"], about["commit"], about["size_bytes"])


def main() -> int:
    if sys.argv[1:] and (sys.argv[1] != "--load" or len(sys.argv) < 3):
        print(__doc__, file=sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    try:
        image = kwatt()
    except build.Missing as error:
        return build.end(error)
    if sys.argv[1:]:
        engine = shlex.split(" ".join(sys.argv[2:]))
        words = ["images", "import"] if engine[0].endswith("ctr") else ["load", "-i"]
        return subprocess.call([*engine, *words, str(image.archive)])
    print(image.archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
