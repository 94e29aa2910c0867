#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster with kwatt in it, to play with: what scripts/run --cluster starts. Ctrl-C ends and removes it.

usage: play.py        two nodes: an efficient server and a wasteful one (docs/cluster.md)
"""
import os
import signal
import sys

from scenario import Cluster, World, build, check, default_state, guarded, kwatt_on

HINTS = """
Two servers are up. node1 draws 9 W a core, node2 34 W; kwatt has to find that out. In another terminal (as root):

  {tool} kubectl get pods -A -o wide
  {tool} exec {kwatt} top {redis}
  {tool} kubectl run busy --image=kwatt.test/tool:1 --image-pull-policy=Never -- 400      uses 0.4 cores
  {tool} kubectl delete pod busy
  {tool} status          programs and their logs

Ctrl-C here ends it and removes everything."""


def main() -> None:
    state = default_state().with_name(default_state().name + "-play")
    os.environ["KWATT_CLUSTER"] = str(state)
    cluster = Cluster(state)
    check(not cluster.alive(), f"a cluster runs in {state} already")
    cluster.up()
    try:
        kwatt = kwatt_on(cluster)
        kwatt.start()
        world = World(cluster, "play")
        world.begin()
        for node in cluster.nodes:      # a little load, so that there is something to see and to learn from
            world.pod(f"hello-{node.name}", node=node.name, args=["200"])
        tool = f"KWATT_CLUSTER={state} e2e/cluster/cluster.py"
        redis = " ".join(map(str, kwatt.reader_options()))
        print(HINTS.format(tool=tool, kwatt=build.ROOT / "build/release/cli/kwatt", redis=redis), flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)    # impatience shall leave nothing behind
        print("\nkwatt: ending the cluster", file=sys.stderr)
        cluster.down()


if __name__ == "__main__":
    if sys.argv[1:]:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)
    sys.exit(guarded(main))
