# SPDX-License-Identifier: Apache-2.0
"""clang-tidy 14 over every .c of the product, with the checks of .clang-tidy.

A file whose text, headers' texts and checks are as in the last clean run is not looked at again (the state lies in
the build folder), so that a second run costs nothing.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(os.environ["KWATT_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["KWATT_BUILD_DIR"])
STATE = BUILD / "tidy-clean.json"
TOPS = ("api", "common", "node-agent", "extender", "vpa-recommender", "cli")


def digest(path: pathlib.Path, headers: str) -> str:
    return hashlib.sha256((headers + path.read_text()).encode()).hexdigest()


def tidy(path: str) -> tuple[str, int, str]:
    # gcc's flags that clang does not know are left out by --extra-arg
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(BUILD), "--extra-arg=-Wno-unknown-warning-option", path],
                          capture_output=True, text=True, check=False, cwd=ROOT)
    return path, done.returncode, done.stdout


def main() -> int:
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    sources = sorted({c["file"] for c in commands
                      if pathlib.Path(c["file"]).relative_to(ROOT).parts[0] in TOPS})
    headers = "".join(h.read_text() for top in TOPS for h in sorted((ROOT / top).glob("*.h")))
    headers += (ROOT / ".clang-tidy").read_text()
    clean = json.loads(STATE.read_text()) if STATE.exists() else {}
    todo = [s for s in sources if clean.get(s) != digest(pathlib.Path(s), headers)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, code, output in pool.map(tidy, todo):
            if code == 0 and not re.search(r": (warning|error):", output):
                clean[path] = digest(pathlib.Path(path), headers)
            else:
                failed += 1
                print(output)
    STATE.write_text(json.dumps(clean))
    print(f"{len(sources)} files, {len(todo)} looked at, {failed} with findings")
    return 1 if failed else 0


sys.exit(main())
