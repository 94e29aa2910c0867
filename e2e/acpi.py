# SPDX-License-Identifier: Apache-2.0
"""A machine with an ACPI power meter: the table that describes one, as an emulator's firmware hands it to the kernel."""
import struct


def _package(body: bytes) -> bytes:
    """A body with its length in front, as AML counts it (the length's own bytes included)."""
    if len(body) + 1 < 64:
        return bytes([len(body) + 1]) + body
    length = len(body) + 2
    return bytes([0x40 | length & 15, length >> 4]) + body


def _number(value: int) -> bytes:
    return b"\x0c" + struct.pack("<I", value)


def _text(value: str) -> bytes:
    return b"\x0d" + value.encode() + b"\0"


def _returns(name: bytes, value: bytes) -> bytes:
    """A method without arguments."""
    return b"\x14" + _package(name + b"\0\xa4" + value)


def power_meter(milliwatts: int) -> bytes:
    """An SSDT with one device ACPI000D that measures the whole machine, and draws always the same."""
    # flags: can measure; unit: mW; type: input; accuracy, sampling time, shortest and longest mean; then nothing to be set
    capabilities = [1, 0, 0, 100000, 1000, 1000, 1000, 0, 0, 0, 0]
    described = b"\x12" + _package(bytes([len(capabilities) + 3]) + b"".join(map(_number, capabilities)) +
                                   _text("kwatt") + _text("1") + _text("e2e"))
    device = b"\x5b\x82" + _package(
        b"PMTR" + b"\x08_HID" + _text("ACPI000D") + b"\x08_PMC" + described + _returns(b"_PMM", _number(milliwatts)) +
        _returns(b"_PMD", b"\x12" + _package(b"\0")) + _returns(b"_GAI", _number(1000)))
    body = b"\x10" + _package(b"\\_SB_" + device)
    table = bytearray(b"SSDT" + struct.pack("<I", 36 + len(body)) + b"\x02\0" + b"KWATT " + b"METER   " +
                      struct.pack("<I4sI", 1, b"KWAT", 1) + body)
    table[9] = -sum(table) & 255
    return bytes(table)
