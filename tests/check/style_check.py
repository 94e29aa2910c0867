# SPDX-License-Identifier: Apache-2.0
"""Runs the style rules over the repository.

usage: style_check.py [RULE...]       default: all; each finding prints path:line: [rule] what is wrong; remedy
"""
import os
import pathlib
import subprocess
import sys

import rules

ROOT = pathlib.Path(os.environ.get("KWATT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))


def tracked() -> dict[str, str]:
    """What git tracks or would track; outside a checkout (a source archive) every file but the build's."""
    listing = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        names = listing.stdout.splitlines()
    else:
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and "build" not in p.parts]
    files = {}
    for name in names:
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            try:
                files[name] = path.read_text()
            except UnicodeDecodeError:
                continue
    return files


def main() -> int:
    names = sys.argv[1:] or list(rules.RULES)
    unknown = [n for n in names if n not in rules.RULES]
    if unknown:
        print(f"no rule {unknown[0]} (known: {', '.join(rules.RULES)})", file=sys.stderr)
        return 2
    tree = rules.Tree(tracked(), str(ROOT))
    found = 0
    for name in names:
        for finding in rules.RULES[name](tree):
            print(f"{finding.path}:{finding.line}: [{name}] {finding.text}; remedy: {finding.remedy}")
            found += 1
    print(f"{found} findings of {len(names)} rules in {len(tree.files)} files")
    return 1 if found else 0


sys.exit(main())
