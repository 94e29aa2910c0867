#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clock of a machine is set, an hour forth and three back: no joule is lost or invented, no node seems stale or fresh for it.

The clock of the machine that runs the tests is not theirs to set, so this is one in an emulator (machine.py): two agents, Redis, the
extender and the recommender on it, and a meter that a loop advances. One of the agents is killed between the steps: a node that is
silent has to become stale whatever the clock says.
"""
import json
import os
import pathlib
import sys

from machine import PRELUDE, blocks, boot, emulator, initrd, kernel
from process import Failure, build, check, need

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", "build/debug"))
PROGRAMS = {"agent": BUILD / "node-agent/kwatt-node-agent", "extender": BUILD / "extender/kwatt-extender",
            "recommender": BUILD / "vpa-recommender/kwatt-vpa-recommender"}
ZONE = "fixture/class/powercap/intel-rapl:0"
START_UJ, STALE_S = 5_000_000, 5
STEPS = ("start", "forth", "back", "silent", "end")

INIT = PRELUDE + f"""
ip link set lo up
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/system.slice/burner.service
sh -c 'echo $$ >/sys/fs/cgroup/system.slice/burner.service/cgroup.procs; while :; do i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done; usleep 50000; done' &
redis=redis://127.0.0.1:6379
redis-server --save '' --appendonly no --bind 127.0.0.1 --dir /tmp >/tmp/redis.log &
get() {{ curl -sf -m 30 "http://127.0.0.1:$1"; }}
until_true() {{ until "$@" >/dev/null 2>&1; do usleep 100000; done; }}
for node in steady other; do
    port=$([ $node = steady ] && echo 9891 || echo 9893)
    agent --node-name $node --interval 1s --sysfs /fixture --listen 127.0.0.1:$port --redis $redis 2>/tmp/$node.log &
    eval $node=$!
done
extender --listen 127.0.0.1:9890 --redis $redis --stale-after {STALE_S}s 2>/tmp/extender.log &
recommender --listen 127.0.0.1:9892 --redis $redis --interval 1s --sample-interval 1s 2>/tmp/recommender.log &
fresh() {{ get 9890/metrics | grep -q '^kwatt_extender_nodes 2'; }}
stale() {{ get 9890/metrics | grep -q "^kwatt_extender_nodes_stale $1\\$"; }}
seq_now() {{ get 9891/v1/pods | grep -o '"seq":[0-9]*' | head -n 1 | cut -d: -f2; }}
later() {{ [ "$(seq_now)" -ge "$1" ]; }}
# until the agent has gone on for some samples, and the others have taken note
go_on() {{ until_true later $(($(seq_now) + {STALE_S + 3})); }}
state() {{
    send "$1 view" get 9891/v1/pods
    send "$1 extender" get 9890/metrics
    send "$1 recommender" get 9892/metrics
    send "$1 clock" date +%s
}}
until_true fresh; until_true get 9892/readyz; until_true stale 0
# written in place, always as long: readers see whole numbers
sh -c 'n={START_UJ}; while [ ! -e /tmp/stop ]; do n=$((n + 1000000)); printf "%-20s\n" $n 1<>/{ZONE}/energy_uj; usleep 100000; done' &
go_on; state start
date -s @$(($(date +%s) + 3600)) >/dev/null; go_on; state forth
date -s @$(($(date +%s) - 10800)) >/dev/null; go_on; state back
kill -9 $other; until_true stale 1; state silent
touch /tmp/stop; go_on; state end
send "end meter" cat /{ZONE}/energy_uj
for log in steady extender recommender redis; do send "log $log" tail -n 40 /tmp/$log.log; done
poweroff -f
"""


def metric(page: str, name: str) -> float:
    """Sum of the series of that name."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name) and line[len(name)] in "{ ")


def books(view: dict) -> dict:
    """Adds up, to the microjoule; returns the sums over packages."""
    total = dict.fromkeys(("measured", "idle", "pods", "system", "unattributed"), 0)
    for package in view["sample"]["packages"]:
        for key in total:
            total[key] += package.get("cpu", {}).get(f"{key}_uj", 0)
    check(total["measured"] == total["idle"] + total["pods"] + total["system"] + total["unattributed"], f"{total}")
    said = sum(pod["active_uj"] for pod in view["pods"]) + view.get("departed_uj", 0)
    check(said == total["pods"], f"workloads have {said} uJ, the node says {total['pods']}")
    return total


def judge(found: dict[str, tuple[str, str]]) -> None:
    views = {step: json.loads(found[f"{step} view"][0]) for step in STEPS}
    pages = {program: {step: found[f"{step} {program}"][0] for step in STEPS} for program in ("extender", "recommender")}
    clock = {step: int(found[f"{step} clock"][0]) for step in STEPS}
    check(clock["forth"] - clock["start"] >= 3600 and clock["back"] < clock["start"], f"the clock was not set: {clock}")
    for before, step in zip(STEPS, STEPS[1:]):
        old, new = views[before], views[step]
        check(new["sample"]["epoch"] == old["sample"]["epoch"], f"{step}: another epoch, without a restart")
        check(new["sample"]["seq"] > old["sample"]["seq"], f"{step}: no further samples")
        fell = [key for key, value in books(new).items() if value < books(old)[key]]
        check(not fell, f"{step}: {fell} fell from {books(old)} to {books(new)}")
        check(0 < new["sample"]["interval_ns"] < 60e9, f"{step}: a window of {new['sample']['interval_ns']} ns")
        burner = {view: next(pod for pod in views[view]["pods"] if pod["cgroup"].endswith("burner.service")) for view in (before, step)}
        check(burner[step]["cpu_ns"] > burner[before]["cpu_ns"], f"{step}: the burner uses no CPU time")
        check(0 < burner[step]["watts_mw"] < 1e6 or step == "end", f"{step}: the burner draws {burner[step]['watts_mw']} mW")
        age = clock[step] - new["sample"].get("unix_ms", clock[step] * 1000) / 1000
        check(abs(age) < 30, f"{step}: a sample is {age} s old by the clock as it is now")
        loops = [metric(pages["recommender"][each], "kwatt_recommender_loops_total") for each in (before, step)]
        check(loops[1] > loops[0], f"{step}: the recommender stands still")
    for step in STEPS:
        stale = metric(pages["extender"][step], "kwatt_extender_nodes_stale")
        check(stale == (step in ("silent", "end")), f"{step}: {stale:.0f} nodes are stale")
    drawn = int(found["end meter"][0]) - START_UJ
    check(books(views["end"])["measured"] == drawn, f"measured {books(views['end'])['measured']} uJ, drawn {drawn}")
    print(f"  {drawn / 1e6:.0f} J in {views['end']['sample']['seq']} samples: all there")


def main() -> int:
    try:
        qemu = emulator()
        for program in PROGRAMS.values():
            if not program.exists():
                raise build.Missing(f"{program} is not built")
        programs = {**PROGRAMS, "redis-server": pathlib.Path(need("redis-server", "redis-server")),
                    "curl": pathlib.Path(need("curl", "curl"))}     # the static busybox cannot even look up an address
        files: dict[str, bytes | None] = dict.fromkeys(("fixture", "fixture/class", "fixture/class/powercap", ZONE))
        files |= {f"{ZONE}/name": b"package-0\n", f"{ZONE}/energy_uj": b"%-20d\n" % START_UJ,
                  f"{ZONE}/max_energy_range_uj": b"262143328850\n"}
        said = boot(qemu, kernel()[0], initrd(INIT, programs, files))
        if "-v" in sys.argv[1:]:
            print(said)
        found = blocks(said)
        check("end meter" in found, f"the guest said:\n{said[-3000:]}")
        try:
            judge(found)
        except Failure:
            for name in ("steady", "extender", "recommender", "redis"):
                print(f"---- {name}\n{found[f'log {name}'][0]}")
            raise
    except build.Missing as missing:
        print(f"SKIP: {missing}")   # also in CI: an emulator is not to be had everywhere
        return 77
    except Failure as failure:
        print(f"FAIL: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
