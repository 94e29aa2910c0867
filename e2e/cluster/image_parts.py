# SPDX-License-Identifier: Apache-2.0
"""Images of what the chart takes from elsewhere, made of this machine's programs: Redis, and the cluster's own kube-scheduler."""
import pathlib
import re

import archive
from process import call, need

REDIS = "kwatt.test/redis:1"
SCHEDULER = "kwatt.test/kube-scheduler:1"


def with_libraries(*programs: pathlib.Path) -> dict[str, bytes]:
    """Programs in /bin, and the shared libraries they load where their loader looks for them."""
    files = {f"/bin/{program.name}": program.read_bytes() for program in programs}
    for program in programs:
        for library in re.findall(r"(/\S+\.so\S*)", call(["ldd", program])):
            files[library] = pathlib.Path(library).read_bytes()
    return files


def redis(folder: pathlib.Path) -> pathlib.Path:
    files = with_libraries(pathlib.Path(need("redis-server", "redis-server")).resolve(),
                           pathlib.Path(need("redis-cli", "redis-tools")).resolve())
    # Debian's redis-server is redis-check-rdb by another name
    for program in ("redis-server", "redis-cli"):
        files[f"/bin/{program}"] = pathlib.Path(need(program, program)).read_bytes()
    path = folder / "redis.tar"
    path.write_bytes(archive.image(REDIS, ["redis-server"], files))
    return path


def scheduler(folder: pathlib.Path, programs: pathlib.Path) -> pathlib.Path:
    path = folder / "kube-scheduler.tar"
    path.write_bytes(archive.image(SCHEDULER, ["kube-scheduler"], {"/bin/kube-scheduler": (programs / "kube-scheduler").read_bytes()}))
    return path
