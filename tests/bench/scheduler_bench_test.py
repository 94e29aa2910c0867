# SPDX-License-Identifier: Apache-2.0
"""scheduler_bench.py still works: a few nodes and pods, one round, no verdict on speed; and Ctrl-C leaves nothing behind."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# every program in both forms; in the last of these modes it is interrupted
PART = "import sys, scheduler_bench as b; b.MODES, b.OBJECT_MODES = b.MODES[:4], b.OBJECT_MODES[:4]; sys.exit(b.main())"
LAST_WHOLE = "static, filter + prioritize, Nodes"
SKIPPED = 77


def processes_in(folder: str) -> list[str]:
    """Commands whose working folder lies there: all that the benchmark starts are such."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(path / "cwd").startswith(folder):
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:     # it ended meanwhile
            pass
    return found


def run(folder: str) -> tuple[int, str, str]:
    """Runs it until that mode was reported, then interrupts it. Returns exit code, stdout, stderr."""
    env = {**os.environ, "TMPDIR": folder, "PYTHONPATH": str(HERE), "KWATT_BENCH_NODES": "12", "KWATT_BENCH_PODS": "60 6", "KWATT_BENCH_MINUTES": "0",
           "KWATT_BENCH_PAIRS": "2"}
    with subprocess.Popen([sys.executable, "-c", PART], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=env, start_new_session=True) as bench:
        text = ""
        for line in bench.stderr:
            text += line
            if LAST_WHOLE in line:
                os.killpg(bench.pid, signal.SIGINT)     # as a terminal does
        return bench.wait(), bench.stdout.read(), text


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kwatt-bench-") as folder:
        code, out, text = run(folder)
        left = [*os.listdir(folder), *processes_in(folder)]
    if code == SKIPPED:
        print(out, end="")
        return SKIPPED
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    seen = {(row["name"], (row.get("reference") or {}).get("name")) for row in rows}
    name = "12 nodes, names, filter + prioritize: "
    wanted = {("12 nodes: no extender", None)}
    wanted |= {("12 nodes: tiers" + what, "none") for what in ("", ": CPU per pod, the scheduler's too")}
    wanted |= {(f"12 nodes: tiers{what}: {which} quartile of the rounds' ratios", None)
               for what in ("", ": CPU per pod") for which in ("lower", "upper")}
    wanted |= {(name + who, "none") for who in ("static", "go", "kwatt", "kwatt: CPU per pod, the scheduler's too")}
    wanted |= {(name + what, other) for what in ("kwatt", "kwatt: its CPU per pod") for other in ("static", "go")}
    for what, good in ((f"exit code {code}", code == 130), (f"left behind: {left}", not left),
                       (f"figures: {sorted(map(str, seen ^ wanted))}", seen == wanted),
                       (f"values: {rows}", all(row["value"] > 0 for row in rows))):
        if not good:
            print(f"{text}\nFAIL: {what}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
