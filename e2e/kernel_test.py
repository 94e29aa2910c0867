#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent on the kernel of a fresh Debian: booted in an emulator, with cgroups laid out as systemd does.

It has an ACPI power meter, by the kernel's own driver: what the agent says of the whole machine must be what it shows.

The kernel is the one that this Debian's linux-image-amd64 names (6.1 on Debian 12), taken out of its package without
installing it, or the file that KWATT_KERNEL names. The machine is emulated in software: needs no KVM and no root. The
root file system is the agent, its libraries, and busybox. KWATT_QEMU names another emulator.

Everything that the guest says comes over its serial line; what the agent prints is sent as blocks between marks.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import acpi
from process import Failure, build, call, check, die_with_parent

AGENT = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", "build/debug")) / "node-agent" / "kwatt-node-agent"
BUSYBOX = pathlib.Path("/bin/busybox")
BOOT_SECONDS = 280  # takes 25 on an idle machine, 45 on a busy one
BACKENDS = ("ebpf", "ebpf-raw", "cgroup-files")
METER = "acpi_power_meter"
METER_MW = 262000
BURNER = "/system.slice/burner.service"
# Two virtual CPUs in one thread: with a thread each, the emulator loses code that the kernel patches while tracing starts.
MACHINE = ["-machine", "q35", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "1024", "-nodefaults",
           "-display", "none", "-serial", "stdio", "-no-reboot"]

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t devtmpfs dev /dev; mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /tmp
send() { echo "<<<$1"; shift; "$@" 2>/tmp/log; echo "<<<log"; cat /tmp/log; echo "<<<end"; }
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


def kernel_package() -> str:
    """The package that linux-image-amd64 stands for."""
    for tool in ("apt-cache", "apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise build.Missing(f"no {tool}: the kernel's package cannot be had")
    text = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True,
                          check=False).stdout
    found = re.search(r"Depends: (linux-image-\S+)", text)
    if found is None:
        raise build.Missing("no package linux-image-amd64 in apt's lists")
    return found[1]


def kernel() -> tuple[pathlib.Path, pathlib.Path | None]:
    """The kernel image and its driver of power meters; kept where other tests keep the programs that they build."""
    if "KWATT_KERNEL" in os.environ:
        return pathlib.Path(os.environ["KWATT_KERNEL"]), None
    package = kernel_package()
    image = build.cache() / "kernel" / package.replace("linux-image", "vmlinuz", 1)
    module = image.with_name(image.name.replace("vmlinuz", METER, 1) + ".ko")
    if image.exists() and module.exists():
        return image, module
    image.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kwatt-e2e.") as folder:
        os.chmod(folder, 0o755)     # apt fetches as a user of its own
        fetched = subprocess.run(["apt-get", "-q", "download", package], cwd=folder, capture_output=True, text=True,
                                 check=False)
        packages = list(pathlib.Path(folder).glob("*.deb"))
        if fetched.returncode != 0 or not packages:
            raise build.Missing(f"{package} cannot be fetched: {fetched.stderr.strip().splitlines()[-1:]}")
        call(["dpkg-deb", "--extract", packages[0], folder])
        for kept, pattern in ((image, "boot/vmlinuz-*"), (module, f"lib/modules/*/kernel/drivers/hwmon/{METER}.ko")):
            found = next(pathlib.Path(folder).glob(pattern), None)
            check(found is not None, f"{package} holds no {pattern}")
            part = kept.with_name(f"{kept.name}.{os.getpid()}")
            shutil.copy(found, part)
            part.rename(kept)
    return image, module


def archive(files: dict[str, bytes | None], executable: set[str]) -> bytes:
    """A cpio archive (newc), as the kernel takes it for its first root; None makes a folder."""
    out = bytearray()

    def entry(name: str, mode: int, data: bytes, number: int) -> None:
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out.extend(b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0")
        out.extend(bytes(-len(out) % 4) + data)
        out.extend(bytes(-len(out) % 4))

    for number, (name, data) in enumerate(files.items(), 1):
        if data is None:
            entry(name, stat.S_IFDIR | 0o755, b"", number)
        else:
            mode = 0o755 if name in executable else 0o400 if name.endswith("energy_uj") else 0o644
            entry(name, stat.S_IFREG | mode, data, number)
    entry("TRAILER!!!", 0, b"", 0)
    return bytes(out)


def libraries(program: pathlib.Path) -> dict[str, pathlib.Path]:
    """What a program is linked with, by the name under which it must be found."""
    found = {}
    for line in call(["ldd", program]).splitlines():
        match = re.match(r"\s*(\S+)(?: => (\S+))? \(0x", line)
        if match and (match[2] or match[1].startswith("/")):
            path = pathlib.Path(match[2] or match[1])
            found[match[1].lstrip("/") if match[1].startswith("/") else f"lib/{match[1]}"] = path
    return found


def initrd(module: pathlib.Path | None) -> bytes:
    zone = "fixture/class/powercap/intel-rapl:0"
    files: dict[str, bytes | None] = dict.fromkeys(
        ("bin", "dev", "proc", "sys", "tmp", "lib", "lib64", "etc", "fixture", "fixture/class", "fixture/class/powercap",
         zone))
    files |= {"init": INIT.encode(), "bin/busybox": BUSYBOX.read_bytes(), "bin/agent": AGENT.read_bytes(),
              "etc/passwd": b"nobody:x:65534:65534::/:/bin/sh\n",
              f"{zone}/name": b"package-0\n", f"{zone}/energy_uj": b"5000000\n",
              f"{zone}/max_energy_range_uj": b"262143328850\n"}
    if module is not None:
        files["meter.ko"] = module.read_bytes()
    loaded = {name: path.read_bytes() for name, path in libraries(AGENT).items()}
    return gzip.compress(archive(files | loaded, {"init", "bin/busybox", "bin/agent", *loaded}), 1)


def boot(qemu: str, image: pathlib.Path, module: pathlib.Path | None) -> str:
    """Runs the machine until it powers itself off. Returns what it said."""
    with tempfile.TemporaryDirectory(prefix="kwatt-e2e.") as folder:
        root = pathlib.Path(folder) / "initrd"
        root.write_bytes(initrd(module))
        table = pathlib.Path(folder) / "meter.aml"
        table.write_bytes(acpi.power_meter(METER_MW))
        command = [qemu, *MACHINE, "-acpitable", f"file={table}", "-kernel", image, "-initrd", root,
                   "-append", "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off rdinit=/init"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOOT_SECONDS,
                                  preexec_fn=die_with_parent, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"the machine did not end:\n{(late.stdout or b'').decode(errors='replace')[-3000:]}") from late
    said = done.stdout.decode(errors="replace").replace("\r\n", "\n")
    check(done.returncode == 0, f"qemu: exit {done.returncode}\n{said[-3000:]}{done.stderr.decode()}")
    return said


def blocks(said: str) -> dict[str, tuple[str, str]]:
    """name -> (standard output, log) of each command that the guest ran."""
    return {name: (out, log or "")
            for name, out, log in re.findall(r"<<<(.*)\n(?s:(.*?))(?:<<<log\n(?s:(.*?)))?<<<end\n", said)}


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
        qemu = os.environ.get("KWATT_QEMU") or shutil.which("qemu-system-x86_64")
        if os.uname().machine != "x86_64":
            raise build.Missing("the emulated machine is an x86-64, this one is not")
        if qemu is None:
            raise build.Missing("no qemu-system-x86_64 (Debian package qemu-system-x86)")
        if not BUSYBOX.exists():
            raise build.Missing(f"no {BUSYBOX} (Debian package busybox-static)")
        if not AGENT.exists():
            raise build.Missing(f"{AGENT} is not built")
        image, module = kernel()
        said = boot(qemu, image, module)
        found = blocks(said)
        if "-v" in sys.argv[1:]:
            print(said)
        check("kernel" in found, f"the guest said:\n{said[-3000:]}")
        print(f"kernel {found['kernel'][0].strip()}")
        for layout in ("v2", "hybrid"):
            test_layout(found, layout)
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
