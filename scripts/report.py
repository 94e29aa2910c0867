# SPDX-License-Identifier: Apache-2.0
"""The end of scripts/test: what was skipped and why, what did not run at all, and where the time went.

usage: report.py JUNIT_XML TIMES

TIMES has a line `SECONDS WHAT` for each step; what tests built on the way (Go programs, the image) is appended by
e2e/tools/build.py as `SECONDS built WHAT`, and is part of the time of the test that waited for it.

A test that cannot run on a machine exits with 77 after a line "SKIP: reason". A skip without a reason is a
fault of the test. What CI may not skip fails by itself where CI=true.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

SLOWEST = 10


def skipped(cases: list[xml.Element]) -> int:
    """Returns how many gave no reason."""
    found, ran, groups = [], set(), []
    for case in cases:
        name = case.get("name")
        group = name.split(".")[0]
        groups += [group] if group not in groups else []
        if case.find("skipped") is None:
            ran.add(group)
            continue
        found.append((name, "; ".join(re.findall(r"SKIP: (.*)", case.findtext("system-out") or ""))))
    if found:
        print(f"\nSkipped on this machine ({len(found)}):")
    for name, reason in found:
        print(f"  {name}: {reason or 'NO REASON GIVEN'}")
    for group in groups:
        if group not in ran:
            print(f"Not one test of the group '{group}' ran.")
    return sum(not reason for _, reason in found)


def times(cases: list[xml.Element], file: pathlib.Path) -> None:
    steps = [line.split(" ", 1) for line in file.read_text().splitlines()]
    print("\nWhere the time went (seconds):")
    for seconds, what in steps:
        if not what.startswith("built "):
            print(f"  {float(seconds):6.0f}  {what}")
    by_test = sorted(((float(case.get("time") or 0), case.get("name")) for case in cases), reverse=True)
    groups: dict[str, list[float]] = {}
    for seconds, name in by_test:
        groups.setdefault(name.split(".")[0], []).append(seconds)
    print("of its tests, some of which ran side by side:")
    for group, each in sorted(groups.items(), key=lambda item: -sum(item[1])):
        print(f"  {sum(each):6.0f}  {group} ({len(each)} tests)")
    built = [(float(seconds), what.removeprefix("built ")) for seconds, what in steps if what.startswith("built ")]
    if built:
        print("in them, what was not in the cache:")
    for seconds, what in built:
        print(f"  {seconds:6.0f}  {what}")
    print(f"the {min(SLOWEST, len(by_test))} slowest tests:")
    for seconds, name in by_test[:SLOWEST]:
        print(f"  {seconds:6.0f}  {name}")


def main() -> int:
    cases = list(xml.parse(sys.argv[1]).getroot().iter("testcase"))
    failed = skipped(cases)
    times(cases, pathlib.Path(sys.argv[2]))
    return 1 if failed else 0


sys.exit(main())
