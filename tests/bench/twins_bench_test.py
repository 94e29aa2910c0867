#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of twins on made-up runs, of which all is known: what it says of kwatt, and of the meters beside it."""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent / "twins_bench.py"
IDLE_W, COPY_W = 100, 20


def bench(shared: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, BENCH], env=dict(os.environ, KWATT_SHARED=shared), capture_output=True, text=True,
                          check=False)


def write_pass(folder: pathlib.Path, tool: str, series: list[str], scopes: tuple[str, str], host: str) -> None:
    """Idle for a minute, then two equal copies for two, then idle. The meter shares idle out, all of it."""
    lines = ["t_s,series,scope,socket,w"]
    for t in range(5, 240, 5):
        running = 60 < t <= 180
        lines.append(f"{t}.00,{host},pkg,all,{IDLE_W + 2 * COPY_W * running}")
        lines += [f"{t}.00,{name},{scopes[0]},{scopes[1]},{IDLE_W / 2 + COPY_W}" for name in series if running]
    with gzip.open(folder / "runs" / f"ep2-01-{tool}.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


def check(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(text)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kwatt-twins.") as shared:
        done = bench(shared)
        check(done.returncode == 77 and done.stdout.startswith("SKIP: no recorded runs"), f"without data: {done}")
        folder = pathlib.Path(shared) / "data" / "twins"
        (folder / "runs").mkdir(parents=True)
        rows = [f"ep2-01-{tool},p{p},ep.D,/benchmark,60,180,118,40" for tool in ("scaphandre", "smartwatts") for p in (1, 2)]
        (folder / "programs.csv").write_text("run,p,program,cgroup,start_s,end_s,reported_s,threads\n" + "\n".join(rows) + "\n")
        write_pass(folder, "scaphandre", ["proc_ep.D_1", "proc_ep.D_2"], ("process", ""), "host")
        write_pass(folder, "smartwatts", ["est_cg", "est_cg2"], ("pkg", "0"), "rapl")
        done = bench(shared)
        check(done.returncode == 0, f"{done}")
        figures = [json.loads(line) for line in done.stdout.splitlines()]
    print(done.stdout)
    check(len(figures) == 15, f"{len(figures)} figures")
    for figure in figures:
        name, value, theirs = figure["name"], figure["value"], figure.get("reference", {}).get("value")
        if "apart" in name:
            check(value < 0.001 and theirs == 0, f"equal copies are apart: {figure}")
        elif "off what was measured" in name:
            check(value == 0 and abs(theirs) < 1e-9, f"{figure}")
        elif "above idle" in name:
            check(0.8 < value < 1.2 and abs(theirs - (IDLE_W + 2 * COPY_W) / (2 * COPY_W)) < 1e-9, f"{figure}")
        else:
            check("sigmas" in figure["unit"] and value < 2, f"{figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
