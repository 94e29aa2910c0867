#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends the shared cluster; nothing of it is left on the machine. Logs stay where a scenario failed."""
import pathlib
import subprocess
import sys

from scenario import Cluster, build, check, default_state, guarded, hierarchies


def left(cluster: Cluster) -> list[str]:
    """What there is of a cluster outside of its folder: processes, mounts, networks, cgroups."""
    found = [f"cgroup {path}" for mount in hierarchies() for path in mount.glob(f"{cluster.id}-*")]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(cluster.dir) in process.joinpath("cmdline").read_text():
                found.append(f"process {process.name}")
        except OSError:
            continue
    mounts = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line.split()[1]}" for line in mounts if str(cluster.dir) in line]
    networks = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    return found + [f"network {line}" for line in networks.splitlines() if line.startswith("node")]


def main() -> None:
    cluster = Cluster(default_state())
    if not cluster.record.is_file():
        raise build.Missing("no cluster was started")
    failed = (cluster.dir / "failed").exists()
    cluster.down(keep=failed)
    if failed:
        print(f"logs are kept in {cluster.dir}")
    check(not left(cluster), f"left behind: {left(cluster)}")


if __name__ == "__main__":
    sys.exit(guarded(main))
