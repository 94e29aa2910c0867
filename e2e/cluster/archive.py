# SPDX-License-Identifier: Apache-2.0
"""Container images of a few static programs, without a registry or a builder: archives that `ctr images import` takes."""
import hashlib
import io
import json
import pathlib
import platform
import tarfile

from process import build, call, need

HERE = pathlib.Path(__file__).resolve().parent
PAUSE = "registry.k8s.io/pause:3.10"    # what containerd is told to hold a pod's namespaces with
TOOL = "kwatt.test/tool:1"              # busybox, and load.c as /load


def tar(entries: list[tuple[str, bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data, mode in entries:
            info = tarfile.TarInfo(path.lstrip("/"))
            info.size, info.mode = len(data), mode
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def image(name: str, entrypoint: list[str], files: dict[str, bytes]) -> bytes:
    layer = tar([(path, data, 0o755) for path, data in sorted(files.items())])
    digest = hashlib.sha256(layer).hexdigest()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    config = json.dumps({"architecture": machine, "os": "linux", "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin"]},
                         "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]).encode()
    return tar([(config_name, config, 0o644), (f"{digest}/layer.tar", layer, 0o644), ("manifest.json", manifest, 0o644)])


def compiled(source: pathlib.Path) -> bytes:
    """A static program from one C file, cached under a hash of it."""
    path = build.cache() / f"{source.stem}-{platform.machine()}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    with build.locked(path):
        if not path.is_file():
            temporary = path.with_suffix(".new")
            call([need("gcc", "gcc"), "-O2", "-static", "-s", "-pthread", "-o", temporary, source])
            temporary.rename(path)
    return path.read_bytes()


def write(folder: pathlib.Path) -> list[pathlib.Path]:
    """pause.tar and tool.tar in `folder`."""
    busybox = pathlib.Path(need("busybox", "busybox-static")).read_bytes()
    if b"/ld-linux" in busybox[:4096]:
        raise build.Missing("busybox is not static (Debian package busybox-static)")
    tool = {"/bin/busybox": busybox, "/load": compiled(HERE / "load.c")}
    made = {"pause.tar": image(PAUSE, ["/pause"], {"/pause": compiled(HERE / "pause.c")}),
            "tool.tar": image(TOOL, ["/load"], tool)}
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in made]
