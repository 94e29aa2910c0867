#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent's BPF programs against the types of kernels that this machine does not run (kernel_btf.py, btf_probe.c).

For each kernel: whatever a program reads without asking first is there, what it asks for is there where it is expected, and
nothing that was not found can be reached by the verifier. It proves placement, not loading: the emulated kernel of
kernel_test.py does that for one of them.
"""
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import kernel_btf
from process import Failure, build, check

PROBE = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", "build/debug")) / "e2e" / "btf_probe"
# A case for each number that a subsystem may have, of which the kernel's own is taken.
CASES = "struct css_set.subsys["
# What the programs ask for, and these kernels have: the clock without what a hypervisor stole, plain ids, cpuacct.
ASKED = {"struct task_struct.se.cfs_rq": True, "struct cfs_rq.rq": True, "struct rq.clock_task": True,
         "struct kernfs_node___o.id": False, "enum cgroup_subsys_id::cpuacct_cgrp_id": True}


@dataclasses.dataclass
class Expected:
    requests: bool          # tracepoints at the end of a socket's send and receive


# Debian's kernels; the order is that of their age. The last is whatever is newest.
KERNELS = {
    "bullseye": Expected(requests=False),            # 5.10
    "bookworm": Expected(requests=False),            # 6.1
    "bookworm-backports": Expected(requests=True),   # 6.12
    "trixie-backports": Expected(requests=True),
}


@dataclasses.dataclass
class Relocations:
    """What libbpf said of one program's."""
    missing: set[str]
    found: set[str]
    asked: dict[str, bool]  # what it asks for -> whether it is there


def relocations(said: str) -> dict[str, Relocations]:
    """By program."""
    programs: dict[str, Relocations] = {}
    specs: dict[tuple[str, str], tuple[str, str]] = {}
    for program, number, text in re.findall(r"^libbpf: prog '(\w+)': relo #(\d+): (.*)$", said, re.M):
        of = programs.setdefault(program, Relocations(set(), set(), {}))
        spec = re.match(r"<(\w+)> \[\d+\] (.+?)(?: \(| = |$)", text)
        if spec:
            specs[program, number] = spec[1], spec[2]
            continue
        kind, what = specs.get((program, number), ("", ""))
        if "substituting insn" in text:
            of.missing.add(what)
        elif "patched insn" in text:
            if kind.endswith("exists"):
                of.asked[what] = text.rsplit("->", 1)[1].strip() == "1"
            else:
                of.found.add(what)
    return programs


def test_kernel(suite: str, expected: Expected) -> None:
    path = kernel_btf.btf(suite)
    done = subprocess.run([PROBE, path], capture_output=True, text=True, timeout=120, check=False)
    parts = dict(re.findall(r"^<<<(\w+ \w+)\n((?s:.*?))<<<result", done.stdout, re.M))
    check(set(parts) == {"sched all", "sched raw", "requests all", "requests raw"}, f"{path.name}: {done.stdout[-3000:]}")
    for part, said in parts.items():
        if "EPERM" in said or "Operation not permitted" in said:
            raise build.Missing("needs root: this kernel's verifier is asked")
    check(done.returncode == 0, f"{path.name}: this kernel's verifier reaches what is not there:\n{done.stdout[-3000:]}")
    tracepoints = dict(re.findall(r"^tracepoint (\w+) (yes|no)$", done.stdout, re.M))
    check(tracepoints["sched_switch"] == "yes" and tracepoints["inet_sock_set_state"] == "yes", f"{path.name}: {tracepoints}")
    for name in ("sock_recv_length", "sock_send_length"):
        check((tracepoints[name] == "yes") == expected.requests, f"{path.name}: {tracepoints}")
    for part in ("sched all", "requests all"):
        found = relocations(parts[part])
        check(len(found) >= 4, f"{path.name}, {part}: relocations of {sorted(found)} only")
        for program, of in found.items():
            absent = tuple(what for what, there in of.asked.items() if not there)
            wrong = {what for what in of.missing if not what.startswith((CASES, *absent))}
            check(not wrong, f"{path.name}, {program}: {sorted(wrong)} is read and not there")
    asked = {what: there for of in relocations(parts["sched all"]).values() for what, there in of.asked.items()}
    check(asked | ASKED == asked, f"{path.name}: {asked}")
    print(f"{suite}: {path.stem.split('.', 1)[1]}: requests {'yes' if expected.requests else 'no'}; "
          f"{', '.join(f'{what} {there}' for what, there in sorted(asked.items()))}")


def main() -> int:
    missing = []
    try:
        if os.uname().machine != "x86_64":
            raise build.Missing("the kernels are an x86-64's, this machine is not")
        if not PROBE.exists():
            raise build.Missing(f"{PROBE} is not built")
        for suite, expected in KERNELS.items():
            try:
                test_kernel(suite, expected)
            except build.Missing as reason:
                missing.append(f"{suite}: {reason}")
    except build.Missing as reason:
        missing.append(str(reason))
    except Failure as failure:
        print(f"FAIL: {failure}")
        return 1
    for reason in missing:
        print(f"SKIP: {reason}")
    return 77 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
