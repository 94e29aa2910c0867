# SPDX-License-Identifier: Apache-2.0
"""clang-tidy 14 over every .c of the product, with the checks of .clang-tidy.

A file is looked at again only where something that clang-tidy sees of it has changed since its last clean run: its
text, the headers of this repository that it includes (as the preprocessor lists them), its compiler flags, the checks.
What is clean is written down in the build folder as it is found, so that a run that was stopped is not lost.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(os.environ["KWATT_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["KWATT_BUILD_DIR"])
STATE = BUILD / "tidy-clean.json"
TOPS = ("api", "common", "node-agent", "extender", "vpa-recommender", "cli")
SAVE_EVERY = 10


def words(command: dict) -> list[str]:
    return command.get("arguments") or shlex.split(command["command"])


def includes(command: dict) -> list[pathlib.Path]:
    """The file itself and what it includes of this repository and of the build folder."""
    flags = [w for w in words(command) if not re.match(r"-(c|o|M\w*)$|.*\.o$", w)]
    # -MG: a header that is yet to be generated is listed and not opened
    done = subprocess.run([*flags, "-MM", "-MG"], capture_output=True, text=True, check=False, cwd=command["directory"])
    if done.returncode != 0:
        sys.exit(f"{' '.join(flags)} -MM failed:\n{done.stderr}")
    # "target.o: a.c b.h \" with blanks in names escaped by a backslash
    names = shlex.split(done.stdout.replace("\\\n", " ").partition(": ")[2])
    paths = [pathlib.Path(command["directory"], name).resolve() for name in names]
    return [p for p in paths if p.is_relative_to(ROOT.resolve()) or p.is_relative_to(BUILD.resolve())]


@functools.lru_cache(maxsize=None)
def content(path: pathlib.Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest() if path.exists() else b"absent"


def digest(command: dict) -> str:
    total = hashlib.sha256(content(ROOT / ".clang-tidy"))
    total.update("\0".join(words(command)).encode())
    for path in includes(command):
        total.update(str(path).encode() + content(path))
    return total.hexdigest()


def tidy(path: str) -> tuple[str, int, str]:
    # gcc's flags that clang does not know are left out by --extra-arg
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(BUILD), "--extra-arg=-Wno-unknown-warning-option", path],
                          capture_output=True, text=True, check=False, cwd=ROOT)
    return path, done.returncode, done.stdout + (done.stderr if done.returncode != 0 else "")


def main() -> int:
    commands = {c["file"]: c for c in json.loads((BUILD / "compile_commands.json").read_text())
                if pathlib.Path(c["file"]).relative_to(ROOT).parts[0] in TOPS}
    clean = json.loads(STATE.read_text()) if STATE.exists() else {}
    clean = {path: known for path, known in clean.items() if path in commands}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = dict(zip(commands, pool.map(digest, commands.values())))
        todo = [path for path in commands if clean.get(path) != digests[path]]
        # the longest first: no core waits for a big file begun last
        todo.sort(key=lambda path: -pathlib.Path(path).stat().st_size)
        runs = [pool.submit(tidy, path) for path in todo]
        for n, run in enumerate(concurrent.futures.as_completed(runs), 1):
            path, code, output = run.result()
            if code == 0 and not re.search(r": (warning|error):", output):
                clean[path] = digests[path]
            else:
                failed += 1
                print(output, flush=True)
            if n % SAVE_EVERY == 0:
                STATE.write_text(json.dumps(clean))
    STATE.write_text(json.dumps(clean))
    print(f"{len(commands)} files, {len(todo)} looked at, {failed} with findings")
    return 1 if failed else 0


sys.exit(main())
