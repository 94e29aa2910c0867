# SPDX-License-Identifier: Apache-2.0
"""Images of what the chart takes from elsewhere, made of this machine's programs: Redis, and the cluster's own kube-scheduler."""
import pathlib
import re
import subprocess

import archive
from process import need

REDIS = "kwatt.test/redis:1"
SCHEDULER = "kwatt.test/kube-scheduler:1"


def with_libraries(*programs: pathlib.Path) -> dict[str, bytes]:
    """Programs in /bin by their names here, and the shared libraries they load where their loader looks for them."""
    files = {f"/bin/{program.name}": program.read_bytes() for program in programs}
    for program in programs:
        done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)   # a static one has none
        for library in re.findall(r"(/\S+\.so\S*)", done.stdout):
            files[library] = pathlib.Path(library).read_bytes()
    return files


def redis(folder: pathlib.Path) -> pathlib.Path:
    files = with_libraries(pathlib.Path(need("redis-server", "redis-server")), pathlib.Path(need("redis-cli", "redis-tools")))
    path = folder / "redis.tar"
    path.write_bytes(archive.image(REDIS, ["redis-server"], files))
    return path


def scheduler(folder: pathlib.Path, programs: pathlib.Path) -> pathlib.Path:
    path = folder / "kube-scheduler.tar"
    path.write_bytes(archive.image(SCHEDULER, ["kube-scheduler"], with_libraries(programs / "kube-scheduler")))
    return path
