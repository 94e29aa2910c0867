#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Equal programs get equal energy, and all shares make up what was measured: real machines' runs, split by the real code.

Recorded runs of NAS benchmarks (../shared/data/twins, not part of the repository; KWATT_SHARED names its folder), two, three
or N equal ones at once, each time with Scaphandre or with SmartWatts beside it. Truth needs no meter inside the machine: equal
copies are due the same, and together what the packages drew above idle, which was measured before they began; what ended is
due nothing.

CPU time per process is in Scaphandre's passes alone: its value for a process, of the host's, is the share of busy CPU time
(sums 0.99 to 1.006). How much time that was is known where threads never wait: as many CPUs as threads run, 40 at most. Such a
pass becomes a recording (docs/recording.md) of one package, which kwatt-node-agent --replay splits; Scaphandre's own figures
are of the same pass, SmartWatts' of its own pass of the same run. --attribution kalman, which knows the copies for
replicas of one owner, is printed beside them, beside CPU time, and as it does where nobody says that the copies belong together.
"""
import collections
import csv
import gzip
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
AGENT = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", ROOT / "build" / "release")) / "node-agent" / "kwatt-node-agent"
SHARED = pathlib.Path(os.environ.get("KWATT_SHARED", ROOT.parent / "shared"))
DATA = SHARED / "data" / "twins"
CPUS = 40
WINDOW_S = 5
SETS = {"ep2": "2 x ep.D, 40 threads each", "ep3": "3 x ep.D, 40 threads each", "mg2": "2 x mg.D, 40 threads each",
        "many10": "10 x ep.C, 1 thread each", "many20": "20 x ep.C, 1 thread each"}


def rows(path: pathlib.Path) -> list[dict]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return list(csv.DictReader(file))


class Pass:
    """One repetition with one meter: watts by time, of the packages and of each program."""

    def __init__(self, run: str, programs: list[dict]):
        self.name = run
        self.start, self.end = float(programs[0]["start_s"]), float(programs[0]["end_s"])
        self.threads = int(programs[0]["threads"])
        self.host: dict = collections.defaultdict(lambda: collections.defaultdict(float))
        self.parts: dict = collections.defaultdict(lambda: collections.defaultdict(float))
        for row in rows(DATA / "runs" / f"{run}.csv.gz"):
            t, watts = float(row["t_s"]), float(row["w"])
            if row["series"] in ("host", "rapl"):
                self.host[row["scope"]][t] += watts
            elif row["series"].startswith("proc_"):
                self.parts[row["series"]][t] += watts
            elif row["series"].startswith("est_cg") and row["scope"] == "pkg":
                self.parts[row["series"]][t] += watts

    def while_running(self) -> list[float]:
        """Times at which all programs ran for the whole window before."""
        common = set(self.host["pkg"]).intersection(*map(set, self.parts.values()))
        return sorted(t for t in common if self.start + WINDOW_S <= t <= self.end - WINDOW_S)


def recording(run: Pass, akin: bool = True) -> list[dict]:
    """The pass as lines of a recording. @param akin the copies are of one owner. Windows in which some of the programs ran are left out: when in them they began or
    ended is not known."""
    numbers = {name: i + 1 for i, name in enumerate(sorted(run.parts))}
    lines: list[dict] = [{"kwatt_recording": 1, "node": run.name, "meter": "powercap", "features": ["cpu_ns"],
                          "cpus_online": CPUS, "packages": [{"package": 0, "cpus": CPUS}]}]
    times, lost, told = sorted(run.host["pkg"]), 0, False
    full = set(run.while_running())
    for last, t in zip(times, times[1:]):
        ns, host = round((t - last) * 1e9), run.host["pkg"][t]
        if t not in full and t >= run.start and last <= run.end:
            lost += 1
            continue
        workloads: list[dict] = [{"w": 0}]
        for name, number in numbers.items() if t in full else ():
            known = {} if told else {"kind": "unit", "id": name, "kin": "equal" if akin else name}
            cpu_ns = min(CPUS, run.threads * len(numbers)) * ns * run.parts[name][t] / host
            workloads.append({"w": number, **known, "f": [round(cpu_ns)]})
        told = told or t in full
        domain = {"uj": round(host * ns / 1000), "interval_ns": ns}
        lines.append({"t_ns": round((t - times[0]) * 1e9), "interval_ns": ns, "lost": lost,
                      "packages": [{"package": 0, "cpu": domain, "workloads": workloads}]})
        lost = 0
    return lines


def replay(lines: list[dict], method: str) -> dict:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
        file.flush()
        done = subprocess.run([AGENT, f"--replay={file.name}", f"--replay-method={method}", "--json"], capture_output=True,
                              text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{lines[0]['node']}: {done.stderr}")
    return json.loads(done.stdout)["methods"][0]


def spread(values: list[float]) -> float:
    """How far equals are apart, in percent of their mean."""
    return 100 * (max(values) - min(values)) / statistics.fmean(values)


class Result(typing.NamedTuple):
    """Of one pass, over the windows in which all copies ran."""

    apart: float        # how far the copies are apart, percent of their mean
    off_sum: float      # how far all that was handed out is off what was measured, percent
    above_idle: float   # what the copies got, of what the packages drew above the idle power before
    doubt: float        # the copy farthest from the mean, in its stated standard deviations


def dynamic_w(run: Pass, times: list[float]) -> float:
    idle = statistics.median(watts for t, watts in run.host["pkg"].items() if t < run.start)
    return sum(run.host["pkg"][t] - idle for t in times)


def theirs(run: Pass) -> Result:
    """The meter's own figures."""
    times = run.while_running()
    copies = [sum(watts[t] for t in times) for watts in run.parts.values()]
    measured = sum(run.host["pkg"][t] for t in times)
    return Result(spread(copies), 100 * abs(sum(copies) / measured - 1), sum(copies) / dynamic_w(run, times), 0)


def ours(run: Pass, method: str = "kalman", akin: bool = True) -> Result:
    """kwatt's, which learns idle and everything else from the same windows."""
    result = replay(recording(run, akin), method)
    [domain] = result["domains"]
    rows_of = [row for row in result["workloads"] if row["w"] != 0]
    copies = [row["cpu_uj"] / 1e6 for row in rows_of]
    handed_out = sum(domain[key] for key in ("idle_uj", "system_uj", "pods_uj", "unattributed_uj"))
    mean = statistics.fmean(copies)
    doubt = max(abs(row["cpu_uj"] - 1e6 * mean) / max(row["sigma_uj"], 1) for row in rows_of)
    return Result(spread(copies), 100 * abs(handed_out / domain["measured_uj"] - 1),
                  sum(copies) / (WINDOW_S * dynamic_w(run, run.while_running())), doubt)


def emit(name: str, value: float, unit: str, reference: tuple[str, float] | None = None, **more) -> None:
    figure = {"name": f"twins.{name}", "value": value, "unit": unit, **more}
    if reference is not None:
        figure["reference"] = {"name": reference[0], "value": reference[1]}
        if reference[1] > 0:
            figure["ratio"] = value / reference[1]
    print(json.dumps(figure), flush=True)


def report(what: str, own: list[Result], untold: list[Result], peers: dict[str, list[Result]]) -> None:
    def median(of: list[Result], field: str) -> float:
        return statistics.median(getattr(result, field) for result in of)

    for peer, results in peers.items():
        emit(f"{what}: copies apart, median", median(own, "apart"), "% of their mean", (peer, median(results, "apart")))
        emit(f"{what}: copies apart, worst", max(r.apart for r in own), "% of their mean", (peer, max(r.apart for r in results)))
        emit(f"{what}: all shares, off what was measured, worst", max(r.off_sum for r in own), "%",
             (peer, max(r.off_sum for r in results)), bound=0, bound_on="value", better="lower")
        emit(f"{what}: copies together, of the power above idle, median", median(own, "above_idle"), "x",
             (peer, median(results, "above_idle")))
    by_time = peers["kwatt by CPU time"]
    emit(f"{what}: copies apart, owners untold, median", median(untold, "apart"), "% of their mean",
         ("kwatt by CPU time", median(by_time, "apart")))
    emit(f"{what}: copies apart, owners untold, worst", max(r.apart for r in untold), "% of their mean",
         ("kwatt by CPU time", max(r.apart for r in by_time)))
    emit(f"{what}: farthest copy from their mean, worst", max(r.doubt for r in own), "stated sigmas", bound=2, better="lower")


def main() -> int:
    if not (DATA / "programs.csv").exists():
        print(f"SKIP: no recorded runs in {DATA} (KWATT_SHARED names the folder above data)")
        return 77
    programs = collections.defaultdict(list)
    for row in rows(DATA / "programs.csv"):
        programs[row["run"]].append(row)
    for group, what in SETS.items():
        passes = {tool: [Pass(run, programs[run]) for run in programs if re.fullmatch(rf"{group}-\d+-{tool}", run)]
                  for tool in ("scaphandre", "smartwatts")}
        if all(passes.values()):
            runs = passes["scaphandre"]
            peers = {name: [theirs(run) for run in passes[name.lower()]] for name in ("Scaphandre", "SmartWatts")}
            peers["kwatt by CPU time"] = [ours(run, "ratio-cpu") for run in runs]
            report(what, [ours(run) for run in runs], [ours(run, akin=False) for run in runs], peers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
