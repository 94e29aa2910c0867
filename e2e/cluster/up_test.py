#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts the cluster that the scenarios of one ctest run share, with kwatt in it. It ends with ctest, if down_test.py does not end it."""
import os
import sys

from scenario import TRUTH, Cluster, default_state, guarded, kwatt_on


def main() -> None:
    cluster = Cluster(default_state())
    if cluster.record.is_file():    # of a run that was interrupted
        cluster.down()
    cluster.up(len(TRUTH), master=os.getppid())
    try:
        kwatt_on(cluster).start()
    except Exception:
        cluster.show_logs()
        cluster.down(keep=True)
        raise


if __name__ == "__main__":
    sys.exit(guarded(main))
