# SPDX-License-Identifier: Apache-2.0
"""The BTF of kernels that this machine does not run, out of the packages of Debian's releases.

Packages come through apt, from the place that this machine's Debian comes from, with lists and downloads in a temporary
folder: nothing is installed, and apt's own lists stay as they are. What is taken out (some 5 MB a kernel) is kept where
other tests keep the programs that they build.
"""
import contextlib
import ctypes
import fcntl
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import typing
import zlib

from process import build, call, check

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Releases whose kernels are in use. Small ones: those for clouds have the configuration of the others but for drivers.
SUITES = ("bullseye", "bookworm", "bookworm-backports", "trixie-backports")
PACKAGE = re.compile(r"linux-(?:image|binary)-(\d\S*)-cloud-amd64")


def machine_source() -> str:
    """Where this machine's Debian comes from."""
    for tool in ("apt-get", "apt-cache", "dpkg", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise build.Missing(f"no {tool}: kernels' packages cannot be had")
    if not KEYRING.exists():
        raise build.Missing(f"no {KEYRING}: apt would trust no package of Debian")
    own = re.search(r"VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text())
    text = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)"],
                          capture_output=True, text=True, check=False).stdout
    for line in text.splitlines():
        place, _, what = line.partition(" ")
        if own and what == f"{own[1]} main" and "debian" in place:
            return place
    raise build.Missing("apt has no list of this Debian's packages")


class Apt:
    """One suite's packages, by a configuration of apt's in a folder."""

    def __init__(self, folder: pathlib.Path, place: str, suite: str):
        os.chmod(folder, 0o755)  # apt fetches as a user of its own
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {place} {suite} main\n")
        self.folder = folder
        self.options = [f"-oDir::Etc::sourcelist={folder}/sources.list", "-oDir::Etc::sourceparts=/dev/null",
                        f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache", "-oAcquire::Languages=none",
                        "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "-oAcquire::Retries=2",
                        "-oAPT::Sandbox::User=root"]

    def run(self, *arguments: str) -> str:
        done = subprocess.run([arguments[0], *self.options, *arguments[1:]], cwd=self.folder, capture_output=True, text=True,
                              timeout=240, check=False)
        if done.returncode != 0:
            raise build.Missing(f"{' '.join(arguments[:2])}: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout

    def newest_kernel(self) -> str:
        """The package that holds its image."""
        self.run("apt-get", "-q", "update")
        found = [line.split()[0] for line in self.run("apt-cache", "search", "--names-only", "^linux-").splitlines()]
        kernels = [name for name in found if PACKAGE.fullmatch(name)]
        if not kernels:
            raise build.Missing("no kernel among its packages")
        # "6.12.90+deb12.1" after "6.12.90+deb12"; where an image is two packages, "linux-image" is empty
        return max(kernels, key=lambda name: ([int(number) for number in re.findall(r"\d+", name)], "binary" in name))

    def image(self, package: str) -> bytes:
        self.run("apt-get", "-q", "download", package)
        call(["dpkg-deb", "--extract", next(self.folder.glob("*.deb")), self.folder / "content"])
        found = next((self.folder / "content").glob("**/vmlinuz*"), None)
        if found is None:
            raise build.Missing(f"{package} holds no image")
        return found.read_bytes()


def lz4(packed: bytes, size: int) -> bytes:
    """The format of kernels: blocks of 8 MB."""
    library = ctypes.CDLL("liblz4.so.1")    # apt has it
    out, at = bytearray(), 4
    while at + 4 <= len(packed) and len(out) < size:
        length, = struct.unpack_from("<I", packed, at)
        buffer = ctypes.create_string_buffer(8 << 20)
        done = library.LZ4_decompress_safe(packed[at + 4:at + 4 + length], buffer, length, len(buffer))
        check(done > 0, f"lz4: {done} at {at}")
        out += buffer.raw[:done]
        at += 4 + length
    return bytes(out)


def zstd(packed: bytes, size: int) -> bytes:
    library = ctypes.CDLL("libzstd.so.1")   # dpkg has it
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    buffer = ctypes.create_string_buffer(size)
    done = library.ZSTD_decompress(buffer, size, packed, len(packed))
    check(done == size, f"zstd: {done} of {size} bytes")
    return buffer.raw


FORMATS: dict[bytes, typing.Callable[[bytes, int], bytes]] = {
    b"\x02\x21\x4c\x18": lz4, b"\x28\xb5\x2f\xfd": zstd,
    b"\xfd7zXZ": lambda packed, size: lzma.decompress(packed), b"\x1f\x8b": lambda packed, size: zlib.decompress(packed, 31)}


def unpacked(image: bytes) -> bytes:
    """The kernel proper of a bzImage; its header says where it is (Documentation/x86/boot), its last 4 bytes how long."""
    offset, length = struct.unpack_from("<II", image, 0x248)
    payload = image[(image[0x1f1] + 1) * 512 + offset:][:length]
    size, = struct.unpack("<I", payload[-4:])
    for magic, unpack in FORMATS.items():
        if payload.startswith(magic):
            return unpack(payload[:-4], size)
    raise build.Missing(f"the kernel is packed in an unknown way: {payload[:6].hex()}")


def section(elf: bytes, wanted: bytes) -> bytes:
    """Content of a section of a 64-bit ELF file."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3a)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        at = headers[names][4] + name
        if elf[at:elf.index(b"\0", at)] == wanted:
            return elf[offset:offset + length]
    raise build.Missing(f"the kernel has no section {wanted.decode()}")


def btf(suite: str) -> pathlib.Path:
    """The newest kernel's of a suite, or the one that was the newest when the cache was filled; its name says which."""
    folder = build.cache() / "btf"
    folder.mkdir(exist_ok=True)
    with (folder / f"{suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(StopIteration):
            return next(folder.glob(f"{suite}.linux-*.btf"))
        with tempfile.TemporaryDirectory(prefix="kwatt-e2e.") as name:
            apt = Apt(pathlib.Path(name), machine_source(), suite)
            package = apt.newest_kernel()
            part = folder / f"{suite}.{os.getpid()}"
            part.write_bytes(section(unpacked(apt.image(package)), b".BTF"))
            return part.rename(folder / f"{suite}.linux-{PACKAGE.fullmatch(package)[1]}.btf")
