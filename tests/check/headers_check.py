# SPDX-License-Identifier: Apache-2.0
"""Compiles every header of the product alone: what it uses, it includes."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(os.environ["KWATT_SOURCE_DIR"])
BUILD = os.environ["KWATT_BUILD_DIR"]
TOPS = ("api", "common", "node-agent", "extender", "vpa-recommender", "cli")

failed = 0
headers = [h for top in TOPS for h in sorted((ROOT / top).glob("*.h"))]
for header in headers:
    name = header.relative_to(ROOT)
    done = subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                           f"-I{ROOT}", f"-I{BUILD}", "-x", "c", "-"],
                          input=f'#include "{name}"\n', text=True, capture_output=True, check=False)
    if done.returncode:
        failed += 1
        print(f"{name}: [header-alone] does not compile alone; remedy: include what it uses\n{done.stderr}")
print(f"{len(headers)} headers, {failed} do not compile alone")
sys.exit(1 if failed else 0)
