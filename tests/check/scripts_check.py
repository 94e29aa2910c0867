# SPDX-License-Identifier: Apache-2.0
"""Scripts: shellcheck for shell, compilation for Python, and every script of the tree says how it is used."""
import os
import pathlib
import py_compile
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["KWATT_SOURCE_DIR"])
SKIP = {"build", ".git", ".cache"}

failed = 0
for path in sorted(p for p in ROOT.rglob("*") if p.is_file() and not SKIP & set(p.relative_to(ROOT).parts)):
    with path.open("rb") as file:
        first = file.readline()
    if path.suffix == ".py" or (first.startswith(b"#!") and b"python" in first):
        try:
            with tempfile.NamedTemporaryFile() as out:
                py_compile.compile(str(path), cfile=out.name, doraise=True)
        except py_compile.PyCompileError as error:
            failed += 1
            print(error)
    elif path.suffix == ".sh" or (first.startswith(b"#!") and b"sh" in first):
        done = subprocess.run(["shellcheck", str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            failed += 1
            print(done.stdout)
sys.exit(1 if failed else 0)
