#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the accounting counts beside time, on another kernel and on a core with two threads: an emulated machine (machine.py).

The tests of the accounting that run on this machine's kernel run there, too: they compare with what that kernel itself says.
Its scheduler takes interrupts out of its clock, which few others do: the bucket of soft interrupts is the kernel's own there.
"""
import json
import os
import pathlib
import re
import sys

from machine import PRELUDE, SIBLINGS, blocks, boot, emulator, initrd, kernel
from process import Failure, build, check

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", "build/debug"))
AGENT = BUILD / "node-agent/kwatt-node-agent"
TESTS = ("bpf_features", "bpf_kernel_threads")

INIT = PRELUDE + """
ip link set lo up
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/system.slice/burner.service
send kernel uname -r
send siblings cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list
sh -c 'echo $$ >/sys/fs/cgroup/system.slice/burner.service/cgroup.procs; while :; do :; done' & burner=$!
send agent agent --once --interval 3s --accounting ebpf --meter model --softirq --listen ''
kill -9 $burner; wait $burner 2>/dev/null; rmdir /sys/fs/cgroup/system.slice/burner.service /sys/fs/cgroup/system.slice
for test in """ + " ".join(TESTS) + """; do send $test $test; done
poweroff -f
"""


def judge(found: dict[str, tuple[str, str]]) -> None:
    check("kernel" in found, f"the guest said nothing: {sorted(found)}")
    print(f"kernel {found['kernel'][0].strip()}", flush=True)
    check(found["siblings"][0].strip() == "0-1", f"the machine has no core with two threads: {found['siblings'][0]}")
    out, log = found["agent"]
    check(out.startswith("{"), f"no view\n{out}{log}")
    check("feature=smt" not in log, f"the agent does not count by siblings:\n{log}")
    view = json.loads(out)
    system = view["sample"]["system"]
    print(f"  kernel threads: {system['kernel_cpu_ns'] / 1e6:.3f} ms, the root's processes: {system['root_cpu_ns'] / 1e6:.3f} ms", flush=True)
    check(system.get("interrupts_cpu_ns", 0) > 0, f"interrupts used nothing: {system}")
    check(system["kernel_cpu_ns"] > 0, f"kernel threads used nothing: {system}")
    parts = sum(system[f"{part}_uj"] for part in ("kernel", "interrupts", "root", "slices", "other"))
    said = sum(package["cpu"]["system_uj"] for package in view["sample"]["packages"])
    check(parts == said, f"the parts of the system have {parts} uJ, it has {said}")
    for test in TESTS:
        check(test in found, f"the machine ended before {test}: {sorted(found)}")
        out, log = found[test]
        for line in re.findall(r"^.*ms.*$", out, re.M):
            print(f"  {test}: {line}", flush=True)
        check("[  PASSED  ]" in out + log and "FAILED" not in out + log, f"{test}:\n{out[-6000:]}{log[-3000:]}")


def main() -> int:
    try:
        qemu = emulator()
        programs = {"agent": AGENT, **{test: BUILD / f"tests/unit/node-agent/unit_node-agent_{test}_test" for test in TESTS}}
        for program in programs.values():
            if not program.exists():
                raise build.Missing(f"{program} is not built")
        image, _ = kernel()
        said = boot(qemu, image, initrd(INIT, programs, {"etc/passwd": b"root:x:0:0::/:/bin/sh\n"}), cpus=SIBLINGS)
        if "-v" in sys.argv[1:]:
            print(said)
        judge(blocks(said))
    except build.Missing as missing:
        print(f"SKIP: {missing}")
        return 77
    except Failure as failure:
        print(f"FAIL: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
