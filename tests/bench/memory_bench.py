# SPDX-License-Identifier: Apache-2.0
"""Resident memory of each program of `kwatt up`, beside the redis-server of the same run.

Starts the release build with ports and a state folder of its own, lets it run for SETTLE_S, and reads the
resident set of every child from /proc. Prints one JSON object a line, as scripts/bench wants it.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KWATT = pathlib.Path(os.environ["KWATT_BUILD_DIR"]) / "cli" / "kwatt"
SETTLE_S = 15  # the recommender's second loop and a dozen samples are past
REFERENCE = "redis-server"
PROGRAMS = ("kwatt", "kwatt-node-agent", "kwatt-extender", "kwatt-vpa-recommender", REFERENCE)


def status(pid: int) -> dict[str, str]:
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def program(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/exe").resolve().name
    except OSError:
        return ""


def children(parent: int) -> list[int]:
    pids = [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()]
    return [p for p in pids if status(p).get("PPid") == str(parent)]


def resident_mib(pid: int) -> float:
    return int(status(pid)["VmRSS"].split()[0]) / 1024


def main() -> int:
    if shutil.which(REFERENCE) is None:
        print(f"SKIP: no {REFERENCE} here")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        listen = [f"--{name}-listen=127.0.0.1:0" for name in ("agent", "extender", "recommender")]
        up = subprocess.Popen([KWATT, "up", f"--state-dir={folder}", "--for=10m", "--json", *listen],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(SETTLE_S)
            # redis-server is a link to another program of its package: the one child that is not ours
            mib = {}
            for pid in [up.pid, *children(up.pid)]:
                name = program(pid)
                mib[name if name in PROGRAMS else REFERENCE] = resident_mib(pid)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()
    missing = [name for name in PROGRAMS if name not in mib]
    if missing:
        print(f"did not run: {', '.join(missing)}", file=sys.stderr)
        return 1
    for name in PROGRAMS[:-1]:
        print(json.dumps({"name": f"memory.{name}_mib", "value": round(mib[name], 1), "unit": "MiB",
                          "reference": {"name": REFERENCE, "value": round(mib[REFERENCE], 1)},
                          "ratio": round(mib[name] / mib[REFERENCE], 2), "bound": None, "better": "lower"}))
    return 0


sys.exit(main())
