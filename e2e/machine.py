# SPDX-License-Identifier: Apache-2.0
"""A machine of a test's own, booted in an emulator: what a test may not do to the machine it runs on, it does there.

The kernel is the one that this Debian's linux-image-amd64 names (6.1 on Debian 12), taken out of its package without
installing it, or the file that KWATT_KERNEL names. The machine is emulated in software: needs no KVM and no root. Its
root file system holds what the test puts there, and /init, which the kernel runs. KWATT_QEMU names another emulator.

Everything that the guest says comes over its serial line; PRELUDE has `send NAME COMMAND...`, which sends what a
command prints as a block between marks.
"""
import gzip
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

from process import Failure, build, call, check, die_with_parent

BUSYBOX = pathlib.Path("/bin/busybox")
METER = "acpi_power_meter"
BOOT_SECONDS = 840  # takes 25 on an idle machine; ten times that beside a dozen others
# Two virtual CPUs in one thread: with a thread each, the emulator loses code that the kernel patches while tracing starts.
MACHINE = ["-machine", "q35", "-accel", "tcg,thread=single", "-m", "1024", "-nodefaults", "-display", "none", "-serial", "stdio",
           "-no-reboot"]
CORES = ["-cpu", "max", "-smp", "2"]
# One core with two threads. As the emulator names the vendor otherwise, the kernel would not ask the CPU for its threads.
SIBLINGS = ["-cpu", "max,vendor=GenuineIntel", "-smp", "2,sockets=1,cores=1,threads=2"]
PRELUDE = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t devtmpfs dev /dev; mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /tmp
send() { echo "<<<$1"; shift; "$@" 2>/tmp/log; echo "<<<log"; cat /tmp/log; echo "<<<end"; }
"""


def emulator() -> str:
    """Its path. Raises Missing where no machine can be emulated."""
    qemu = os.environ.get("KWATT_QEMU") or shutil.which("qemu-system-x86_64")
    if os.uname().machine != "x86_64":
        raise build.Missing("the emulated machine is an x86-64, this one is not")
    if qemu is None:
        raise build.Missing("no qemu-system-x86_64 (Debian package qemu-system-x86)")
    if not BUSYBOX.exists():
        raise build.Missing(f"no {BUSYBOX} (Debian package busybox-static)")
    return qemu


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


def initrd(init: str, programs: dict[str, pathlib.Path], files: dict[str, bytes | None]) -> bytes:
    """A first root with busybox, the programs under their new names in /bin, what they are linked with, and files (None: a folder)."""
    loaded = {name: path.read_bytes() for program in programs.values() for name, path in libraries(program).items()}
    binaries = {f"bin/{name}": path.read_bytes() for name, path in {"busybox": BUSYBOX, **programs}.items()}
    folders = dict.fromkeys(("bin", "dev", "proc", "sys", "tmp", "lib", "lib64", "etc"))
    every = {**folders, "init": init.encode(), **files, **binaries, **loaded}
    return gzip.compress(archive(every, {"init", *binaries, *loaded}), 1)


def boot(qemu: str, image: pathlib.Path, content: bytes, acpi: bytes = b"", cpus: list[str] | None = None) -> str:
    """Runs the machine until it powers itself off. acpi: one more table for its firmware. Returns what it said."""
    with tempfile.TemporaryDirectory(prefix="kwatt-e2e.") as folder:
        root = pathlib.Path(folder) / "initrd"
        root.write_bytes(content)
        table = pathlib.Path(folder) / "table.aml"
        table.write_bytes(acpi)
        command = [qemu, *MACHINE, *(cpus or CORES), *(["-acpitable", f"file={table}"] if acpi else []), "-kernel", image, "-initrd", root,
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
