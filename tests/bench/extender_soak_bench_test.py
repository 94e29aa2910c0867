# SPDX-License-Identifier: Apache-2.0
"""extender_soak_bench.py on a small scale: no request is lost while Redis and the API server are killed, certificates renewed and clients
stall. No verdict on figures."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent / "extender_soak_bench.py"
SCALE = {"KWATT_BENCH_QUICK": "1", "KWATT_BENCH_NODES": "1000", "KWATT_BENCH_CALLS": "3000", "KWATT_BENCH_SECONDS": "1"}


def main() -> int:
    if not shutil.which("redis-server"):
        print("SKIP: no redis-server")
        return 1 if os.environ.get("CI") == "true" else 77
    done = subprocess.run([sys.executable, BENCH], env={**os.environ, **SCALE}, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    figures = {each["name"]: each["value"] for each in map(json.loads, done.stdout.splitlines())}
    lost = figures["extender_soak.clients_that_lost_a_request"] + figures["extender_soak.requests_lost_over_tls"]
    return 0 if done.returncode == 0 and lost == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
