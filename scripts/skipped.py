# SPDX-License-Identifier: Apache-2.0
"""Lists the tests that a ctest run skipped, each with the reason it printed, and the groups that did not run at all.

usage: skipped.py JUNIT_XML

A test that cannot run on a machine exits with 77 after a line "SKIP: reason". A skip without a reason is a
fault of the test. What CI may not skip fails by itself where CI=true.
"""
import re
import sys
import xml.etree.ElementTree as xml


def main() -> int:
    skipped, ran, groups = [], {}, {}
    for case in xml.parse(sys.argv[1]).getroot().iter("testcase"):
        name = case.get("name")
        group = name.split(".")[0]
        groups[group] = groups.get(group, 0) + 1
        if case.find("skipped") is None:
            ran[group] = ran.get(group, 0) + 1
            continue
        output = case.findtext("system-out") or ""
        reasons = re.findall(r"SKIP: (.*)", output)
        skipped.append((name, "; ".join(reasons)))
    failed = 0
    if skipped:
        print(f"\nSkipped on this machine ({len(skipped)}):")
        for name, reason in skipped:
            print(f"  {name}: {reason or 'NO REASON GIVEN'}")
            failed += not reason
    for group in groups:
        if group not in ran:
            print(f"Not one test of the group '{group}' ran.")
    return 1 if failed else 0


sys.exit(main())
