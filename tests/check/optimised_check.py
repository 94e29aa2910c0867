# SPDX-License-Identifier: Apache-2.0
"""Builds the four programs as they are released, with warnings as errors.

The optimiser follows values across functions and so warns where a debug build cannot: of what may be used unset, of
text that may be cut, of bounds. The folder is kept below the build folder: only what has changed is compiled again.
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(os.environ["KWATT_SOURCE_DIR"])
FOLDER = pathlib.Path(os.environ["KWATT_BUILD_DIR"]) / "optimised"
LAUNCHER = os.environ.get("CMAKE_C_COMPILER_LAUNCHER") or ("ccache" if shutil.which("ccache") else "")

for command in (["cmake", "--preset", "release", "-B", FOLDER, "-DKWATT_WERROR=ON",
                 f"-DCMAKE_C_COMPILER_LAUNCHER={LAUNCHER}"],
                ["cmake", "--build", FOLDER, "--target", "programs", "--", "-k", "0"]):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        print(done.stdout)
        sys.exit(1)
print(done.stdout.splitlines()[-1])
