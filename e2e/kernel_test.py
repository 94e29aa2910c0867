#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent on the kernel of a fresh Debian: booted in an emulator (machine.py), with cgroups laid out as systemd does.

One of its two CPUs goes and comes back while the agent counts. It has an ACPI power meter, by the kernel's own driver: what the
agent says of the whole machine must be what it shows.
"""
import json
import os
import pathlib
import sys

import acpi
from machine import METER, PRELUDE, blocks, boot, emulator, initrd, kernel
from process import Failure, build, check

AGENT = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", "build/debug")) / "node-agent" / "kwatt-node-agent"
BACKENDS = ("ebpf", "ebpf-raw", "cgroup-files")
METER_MW = 262000
BURNER = "/system.slice/burner.service"
HOT = "/system.slice/hot.service"
REQUESTS = 5
ZONE = "fixture/class/powercap/intel-rapl:0"

INIT = PRELUDE + """
burn() { sh -c 'echo $$ >"$0/cgroup.procs"; while :; do :; done' "$1" & burner=$!; }
all() {
    send "$1 check" agent --check
    for backend in ebpf ebpf-raw cgroup-files; do
        send "$1 $backend" agent --once --interval 2s --accounting $backend --listen '' --sysfs /fixture
    done
    send "$1 nobody" start-stop-daemon -S -c nobody -x /bin/agent -- --once --interval 1s --listen ''
}
echo "<<<kernel"; uname -r; echo "<<<end"

mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/init.scope /sys/fs/cgroup/system.slice/burner.service /sys/fs/cgroup/user.slice
echo $$ >/sys/fs/cgroup/init.scope/cgroup.procs
burn /sys/fs/cgroup/system.slice/burner.service
all v2
kill -9 $burner; wait $burner 2>/dev/null

# a CPU that goes and comes back while the agent counts, and a server where requests are counted
ip link set lo up
mkdir /sys/fs/cgroup/system.slice/hot.service /sys/fs/cgroup/system.slice/web.service
agent --interval 1s --accounting ebpf --meter model --listen 127.0.0.1:9891 >/tmp/agent.log 2>&1 & agent=$!
until wget -q -O /dev/null http://127.0.0.1:9891/readyz 2>/dev/null; do sleep 0.1; done
burn /sys/fs/cgroup/system.slice/hot.service; first=$burner
burn /sys/fs/cgroup/system.slice/hot.service
sh -c 'echo $$ >/sys/fs/cgroup/system.slice/web.service/cgroup.procs; exec httpd -f -p 127.0.0.1:80 -h /etc' & web=$!
for online in 0 1 0 1; do
    sleep 0.4; echo $online >/sys/devices/system/cpu/cpu1/online; cat /sys/devices/system/cpu/online >>/tmp/online
done
for i in 1 2 3 4 5; do wget -q -O /dev/null http://127.0.0.1/passwd; done
kill -9 $first $burner $web; wait $first $burner $web 2>/dev/null
send "hot online" cat /tmp/online
send "hot stat" cat /sys/fs/cgroup/system.slice/hot.service/cpu.stat
# two samples later all of it is booked
sequence() { wget -q -O- http://127.0.0.1:9891/v1/pods | grep -o '"seq":[0-9]*' | grep -o '[0-9]*$'; }
last=$(($(sequence) + 2)); while [ $(sequence) -lt $last ]; do sleep 0.2; done
send "hot view" wget -q -O- http://127.0.0.1:9891/v1/pods
kill $agent; wait $agent; send "hot log" cat /tmp/agent.log
send "tracepoints" grep -c __tracepoint_sock_recv_length /proc/kallsyms
rmdir /sys/fs/cgroup/system.slice/hot.service /sys/fs/cgroup/system.slice/web.service
rmdir /sys/fs/cgroup/system.slice/burner.service
echo $$ >/sys/fs/cgroup/cgroup.procs
umount /sys/fs/cgroup

mount -t tmpfs cgroup /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/unified /sys/fs/cgroup/cpu,cpuacct
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
mount -t cgroup -o cpu,cpuacct cgroup /sys/fs/cgroup/cpu,cpuacct
mkdir -p /sys/fs/cgroup/cpu,cpuacct/system.slice/burner.service
burn /sys/fs/cgroup/cpu,cpuacct/system.slice/burner.service
all hybrid
if [ -e /meter.ko ] && insmod /meter.ko; then
    send "meter check" agent --check
    send "meter" agent --once --interval 7s --accounting cgroup-files --listen ''
fi
poweroff -f
"""


def content(module: pathlib.Path | None) -> bytes:
    files: dict[str, bytes | None] = dict.fromkeys(("fixture", "fixture/class", "fixture/class/powercap", ZONE))
    files |= {"etc/passwd": b"nobody:x:65534:65534::/:/bin/sh\n", f"{ZONE}/name": b"package-0\n",
              f"{ZONE}/energy_uj": b"5000000\n", f"{ZONE}/max_energy_range_uj": b"262143328850\n"}
    if module is not None:
        files["meter.ko"] = module.read_bytes()
    return initrd(INIT, {"agent": AGENT}, files)


def test_layout(found: dict[str, tuple[str, str]], layout: str) -> None:
    """Every backend loads by itself, counts the burner, and books its time under the unit that it belongs to."""
    out, log = found[f"{layout} check"]
    lines = {line.split("\t")[1]: line.split("\t") for line in out.splitlines() if line.count("\t") == 3}
    for backend in BACKENDS:
        check(backend in lines and lines[backend][0] == "ok", f"--check on {layout}:\n{out}{log}")
    check(lines["cgroups"][2] == layout, f"--check took {layout} for {lines['cgroups']}")
    for backend in BACKENDS:
        out, log = found[f"{layout} {backend}"]
        check(out.startswith("{"), f"{layout}, {backend}: no view\n{out}{log}")
        view = json.loads(out)
        check(view["sample"]["accounting"] == backend, f"{view['sample']}")
        burner = next((pod for pod in view["pods"] if pod["cgroup"] == BURNER), None)
        check(burner is not None, f"{layout}, {backend}: the burner is not listed: {view['pods']}")
        check(burner["kind"] == "unit", f"{burner}")
        share = burner["cpu_ns"] / view["sample"]["interval_ns"]
        print(f"  {layout}, {backend}: {share:.3f} CPUs", flush=True)
        check(0.5 < share < 1.05, f"{layout}, {backend}: a burner on a CPU of its own had {share} CPUs")
    out, log = found[f"{layout} nobody"]
    check(out.startswith("{"), f"{layout}, without root: no view\n{out}{log}")
    view = json.loads(out)
    check(view["sample"]["accounting"] == "cgroup-files", f"without root: {view['sample']}")
    check(log.count("accounting not usable") == 2 and "CAP_BPF and CAP_PERFMON" in log, f"without root:\n{log}")


def test_hotplug(found: dict[str, tuple[str, str]]) -> None:
    """CPU time is the kernel's own, whatever CPUs went meanwhile: neither lost nor invented."""
    check(found["hot online"][0].split() == ["0", "0-1", "0", "0-1"], f"CPU 1 did not go and come back: {found['hot online']}")
    truth_ns = int(dict(line.split() for line in found["hot stat"][0].splitlines())["usage_usec"]) * 1000
    out, log = found["hot view"]
    check(out.startswith("{"), f"no view\n{out}{log}{found['hot log'][0]}")
    pods = {pod["cgroup"]: pod for pod in json.loads(out)["pods"]}
    check(HOT in pods, f"the burners are not listed: {sorted(pods)}")
    seen_ns = pods[HOT]["cpu_ns"]
    print(f"  CPUs that go: {seen_ns / 1e6:.3f} ms, the kernel says {truth_ns / 1e6:.3f} ms", flush=True)
    # what the two shells used before they moved themselves, since their last tick, the kernel counts here (4 ms each)
    check(abs(seen_ns - truth_ns) <= 10_000_000 + truth_ns // 1000, f"{seen_ns} ns counted, the kernel says {truth_ns}")


def test_requests(found: dict[str, tuple[str, str]]) -> None:
    """Counted where the kernel has the tracepoints; where not, one line says what is missing."""
    log = found["hot log"][0]
    refused = "feature=requests" in log
    check("feature=smt" in log and "feature=counters" in log, f"it has neither threads of a core nor a PMU:\n{log}")
    if found["tracepoints"][0].strip() == "0":
        check(refused and "Linux 6.3 or later has" in log, f"requests without tracepoints:\n{log}")
        print("  requests: not counted, and said so", flush=True)
        return
    check(not refused, f"requests are not counted:\n{log}")
    view = json.loads(found["hot view"][0])
    web = next((pod for pod in view["pods"] if pod["cgroup"] == "/system.slice/web.service"), {})
    check(web.get("requests_total") == REQUESTS, f"{REQUESTS} requests: {web}")
    print(f"  requests: {REQUESTS} of {REQUESTS}", flush=True)


def test_meter(found: dict[str, tuple[str, str]]) -> None:
    """The kernel's own meter of the whole machine: found, read aside, and published with its age."""
    check("meter check" in found, f"the driver {METER} could not be loaded: {sorted(found)}")
    out, log = found["meter check"]
    check("ok\tplatform-acpi\t1 domains" in out, f"--check with an ACPI meter:\n{out}{log}")
    out, log = found["meter"]
    check(out.startswith("{"), f"ACPI meter: no view\n{out}{log}")
    platform = json.loads(out)["sample"].get("platform")
    print(f"  ACPI meter: {platform}", flush=True)
    check(platform is not None and platform["source"] == "acpi" and abs(platform["mw"] - METER_MW) <= 1,
          f"ACPI meter of {METER_MW} mW: {platform}\n{log}")


def main() -> int:
    try:
        qemu = emulator()
        if not AGENT.exists():
            raise build.Missing(f"{AGENT} is not built")
        image, module = kernel()
        said = boot(qemu, image, content(module), acpi.power_meter(METER_MW))
        found = blocks(said)
        if "-v" in sys.argv[1:]:
            print(said)
        check("kernel" in found, f"the guest said:\n{said[-3000:]}")
        print(f"kernel {found['kernel'][0].strip()}")
        for layout in ("v2", "hybrid"):
            test_layout(found, layout)
        test_hotplug(found)
        test_requests(found)
        if module is not None:
            test_meter(found)
    except build.Missing as missing:
        print(f"SKIP: {missing}")   # also in CI: where an emulator cannot be had, the machine's own kernel was tested
        return 77
    except Failure as failure:
        print(f"FAIL: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
