#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster with kwatt in it, to play with: what scripts/run --cluster starts. Ctrl-C ends and removes it.

usage: scripts/run --cluster        two nodes: an efficient server and a wasteful one (docs/cluster.md). It has no options.
"""
import os
import signal
import sys

from scenario import Cluster, Failure, World, build, default_state, kwatt_on

HINTS = """
Two servers are up. node1 draws 9 W a core, node2 34 W; kwatt has to find that out. In another terminal (as root):

  {tool} kubectl get pods -A -o wide
  {tool} exec {kwatt} top {redis}
  {tool} kubectl run busy --image=kwatt.test/tool:1 --image-pull-policy=Never -- 400      uses 0.4 cores
  {tool} kubectl delete pod busy
  {tool} status          programs and their logs

Ctrl-C here ends it and removes everything."""


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def play(cluster: Cluster) -> None:
    cluster.up()
    kwatt = kwatt_on(cluster)
    kwatt.start()
    world = World(cluster, "play")
    world.begin()
    for node in cluster.nodes:      # a little load, so that there is something to see and to learn from
        world.pod(f"hello-{node.name}", node=node.name, args=["200"])
    tool = f"KWATT_CLUSTER={cluster.dir} e2e/cluster/cluster.py"
    redis = " ".join(map(str, kwatt.reader_options()))
    print(HINTS.format(tool=tool, kwatt=build.ROOT / "build/release/cli/kwatt", redis=redis), flush=True)
    signal.pause()


def main() -> int:
    state = default_state().with_name(default_state().name + "-play")
    os.environ["KWATT_CLUSTER"] = str(state)
    cluster = Cluster(state)
    if cluster.alive():
        print(f"kwatt: a cluster runs in {state} already; Ctrl-C where it was started, or\n"
              f"  KWATT_CLUSTER={state} e2e/cluster/cluster.py down", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, interrupted)
    try:
        play(cluster)
    except KeyboardInterrupt:
        pass
    except (build.Missing, Failure) as error:
        print(f"kwatt: {error}", file=sys.stderr)
        return 1
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):    # impatience shall leave nothing behind
            signal.signal(each, signal.SIG_IGN)
        if cluster.dir.exists():
            print("\nkwatt: ending the cluster", file=sys.stderr)
            cluster.down()
    return 0


if __name__ == "__main__":
    if sys.argv[1:]:
        asked = sys.argv[1:] in (["--help"], ["-h"])
        print(__doc__ if asked else f"kwatt: --cluster has no option {sys.argv[1]!r}; try --cluster --help",
              file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
    sys.exit(main())
