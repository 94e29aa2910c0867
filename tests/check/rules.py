# SPDX-License-Identifier: Apache-2.0
"""The style rules that a program can check. CONTRIBUTING.md gives the reasons, by the same names.

Each rule is a generator: it takes a Tree and yields Finding(path, line, what is wrong, remedy).
"""
import re
import subprocess
from typing import NamedTuple

import ctext


class Finding(NamedTuple):
    path: str
    line: int
    text: str
    remedy: str


COMPONENTS = {"node-agent": "agent_", "extender": "ext_", "vpa-recommender": "rec_", "cli": "cli_"}
PRODUCT = ("api", "common", "bpf", *COMPONENTS)

# Who may include whom (docs/architecture.md, "Folders"). tests and e2e may include everything.
ALLOWED = {
    "api": {"api"},
    "common": {"common"},
    "bpf": {"bpf"},
    **{name: {"api", "common", name} for name in COMPONENTS},
}
ALLOWED["node-agent"].add("bpf")

# Third-party header; it stands in exactly one .c of the product, or in the files of the pattern in WRAPPERS.
THIRD_PARTY = {
    "libbpf": r"bpf/(bpf|libbpf|btf)\.h|bpf/\w+\.skel\.h",
    "hiredis": r"hiredis/.*|hiredis\.h",
    "libmicrohttpd": r"microhttpd\.h",
    "gnutls": r"gnutls/.*",
    "libcurl": r"curl/.*",
    "libyaml": r"yaml\.h",
    "libcap": r"sys/capability\.h",
    "libseccomp": r"seccomp\.h",
    "openssl": r"openssl/.*",
}

WRAPPERS = {"libbpf": r"node-agent/bpf_\w+\.c"}

BANNED = {
    r"strto(l|ll|ul|ull|d|f|ld|imax|umax)|ato[ifl]|atoll|v?f?sscanf|f?scanf": "kw_parse_* of common/num.h read the whole text, with a range",
    r"strcpy|strcat|sprintf|vsprintf|gets|strncpy|strncat": "snprintf, or struct kw_buf of common/buf.h",
    r"strtok|strerror|localtime|gmtime|ctime|asctime|rand|srand|getpwnam|getpwuid": "the _r form, or kw_errno of common/log.h",
    r"alloca|strdupa": "a bounded array or malloc: the stack is not ours to guess",
    r"system|popen": "posix_spawn or execve with an argument list: no shell between",
    r"signal": "kw_loop_add_signals of common/loop.h",
    r"abort|assert": "return -errno; outside data is never an assertion",
}
NUMBERS_LIVE_HERE = "common/num.c"

# Files that decide are pure: no log, clock, Redis, HTTP, file. A name here that is gone is a finding, too.
PURE = [
    "node-agent/apportion.c", "node-agent/attribution_ratio.c", "node-agent/counter.c", "node-agent/curve.c",
    "node-agent/counts.c", "node-agent/doubt.c", "node-agent/integrator.c", "node-agent/msr_rapl.c",
    "node-agent/identity.c", "node-agent/identity_machine.c", "node-agent/idle_policy.c", "node-agent/idle_prior.c",
    "node-agent/kalman_domain.c", "node-agent/kalman_model.c", "node-agent/kin.c", "node-agent/ledger.c",
    "node-agent/pace.c", "node-agent/period.c", "node-agent/power_limit.c",
    "extender/hull.c", "extender/protocol.c", "extender/score.c", "extender/score_rows.c", "extender/sim.c", "extender/sim_place.c", "extender/sim_plugins.c",
    "extender/zone_prices.c", "extender/zones.c",
    "vpa-recommender/estimator.c", "vpa-recommender/feed.c", "vpa-recommender/histogram.c",
    "vpa-recommender/memory_peaks.c",
    "api/cpu_class.c", "api/curve.c", "api/power_model.c", "api/power_model_kepler.c", "api/power_model_trees.c", "api/quantity.c", "api/selector.c",
    "cli/feed_rows.c", "cli/fit.c",
]
IMPURE = r"common/(log|clock|redis|http_\w+|kube|file|loop)\.h|time\.h|sys/time\.h|fcntl\.h|unistd\.h"

QUANTITIES = r"(timeout|interval|duration|deadline|delay|elapsed|latency|period|age|energy|power|watts|joules|memory|uptime)"


class Tree:
    """The files under check: path -> text, as git tracks them (or as a test hands them in)."""

    def __init__(self, files: dict[str, str], root: str | None = None):
        self.files = files
        self.root = root

    def c(self, *tops):
        for path, text in sorted(self.files.items()):
            if path.endswith((".c", ".h")) and (not tops or path.split("/")[0] in tops):
                yield path, text


def spdx(tree):
    for path, text in tree.files.items():
        if not path.endswith((".c", ".h", ".py", ".sh", ".cmake")) and not re.match(r"(scripts/\w+|\.ci/run)$", path):
            continue
        bpf = path.startswith("bpf/")
        licence = "(GPL-2.0-only OR BSD-2-Clause)" if bpf else "Apache-2.0"
        if path.endswith(".cmake"):
            continue
        if f"SPDX-License-Identifier: {licence}" not in "\n".join(text.splitlines()[:2]):
            yield Finding(path, 1, "no licence line", f"start with SPDX-License-Identifier: {licence}")


def pragma_once(tree):
    for path, text in tree.c():
        if path.endswith(".h") and "#pragma once" not in text:
            yield Finding(path, 1, "header without #pragma once", "put it under the licence line")


def include_root(tree):
    """Ours in quotes, spelled from the repository root; <> only for the system's."""
    generated = re.compile(r"bpf/\w+\.skel\.h|tests/bench/\w+\.skel\.h|common/version_generated\.h")
    for path, text in tree.c():
        for line, bracket, name in ctext.includes(text):
            if bracket == '"' and name not in tree.files and not generated.fullmatch(name):
                yield Finding(path, line, f'"{name}" is not spelled from the repository root', "write the path from the root, as component/file.h")
            if bracket == "<" and name in tree.files and not name.startswith("bpf/"):
                yield Finding(path, line, f"<{name}> is ours", f'write "{name}"')


def include_direction(tree):
    for path, text in tree.c(*PRODUCT):
        top = path.split("/")[0]
        for line, bracket, name in ctext.includes(text):
            other = name.split("/")[0]
            if bracket == '"' and "/" in name and other not in ALLOWED[top]:
                yield Finding(path, line, f"{top}/ may not include {other}/", f"{top}/ knows only: {', '.join(sorted(ALLOWED[top]))}; move what both need to api/ (contracts) or common/ (mechanisms)")


def third_party(tree):
    """Each library's header in exactly one .c or its WRAPPERS; jansson only in api/, common/kube_*.c and tests."""
    for library, pattern in THIRD_PARTY.items():
        users = []
        for path, text in tree.c(*(p for p in PRODUCT if p != "bpf")):
            for line, _, name in ctext.includes(text):
                if re.fullmatch(pattern, name) and name not in tree.files:
                    users.append((path, line, name))
        files = sorted({u[0] for u in users})
        for path, line, name in users:
            if path.endswith(".h"):
                yield Finding(path, line, f"{name} ({library}) in a header", "include it in the one .c that wraps the library")
            elif library in WRAPPERS:
                if not re.fullmatch(WRAPPERS[library], path):
                    yield Finding(path, line, f"{name} ({library}) outside {WRAPPERS[library]}", "go through those files")
            elif len(files) > 1 and path != files[0]:
                yield Finding(path, line, f"{name} ({library}) is already wrapped by {files[0]}", "go through that file")
    for path, text in tree.c(*PRODUCT):
        for line, _, name in ctext.includes(text):
            if name == "jansson.h" and not path.startswith("api/") and not re.fullmatch(r"common/kube_\w+\.[ch]", path):
                yield Finding(path, line, "jansson outside api/ and common/kube_*", "decode in api/, or scan with common/json_scan.h")


def banned_call(tree):
    for path, text in tree.c(*PRODUCT):
        if path == NUMBERS_LIVE_HERE:
            continue
        for line, code in enumerate(ctext.blank(text).splitlines(), 1):
            for pattern, remedy in BANNED.items():
                match = re.search(rf"(?<![\w.>])({pattern})\s*\(", code)
                if match and not code.startswith("#"):
                    yield Finding(path, line, f"{match[1]}() is banned", f"use {remedy}")
            if re.search(r"fprintf\s*\(\s*stderr", code) and not path.startswith("cli/") and not path.endswith("/main.c"):
                yield Finding(path, line, "fprintf(stderr", "log it (common/log.h), or return it as struct kw_err")
            if re.search(r"(?<![\w.>])_?exit\s*\(", code) and not path.endswith("/main.c") and not path.startswith("cli/"):
                yield Finding(path, line, "exit() outside main.c", "return the error")


def no_log(tree):
    for path, text in tree.c("api", "common"):
        if path in ("common/log.c", "common/log.h"):
            continue
        for line, code in enumerate(ctext.blank(text).splitlines(), 1):
            if re.search(r"\bkw_log_\w+\s*\(", code):
                yield Finding(path, line, "api/ and common/ never log", "return the error; the program logs it once")


def pure(tree):
    for path in PURE:
        if path not in tree.files:
            if tree.root:
                yield Finding(path, 1, "named as a pure decider, but not there", "mend the list PURE in tests/check/rules.py")
            continue
        for line, _, name in ctext.includes(tree.files[path]):
            if re.fullmatch(IMPURE, name):
                yield Finding(path, line, f"a decider includes {name}", "hand in values and `now`; read and log in the owner")


def doc_comment(tree):
    for path, text in tree.c("api", "common", *COMPONENTS):
        if path.endswith(".h"):
            for name, line, _, documented in ctext.declarations(text):
                if not documented:
                    yield Finding(path, line, f"{name}() has no doc comment", "say meaning, units, ranges, ownership and errors in /** */ above it (or above its group)")


def unit_name(tree):
    """A quantity carries its unit in its name: timeout_ms, not timeout."""
    pattern = re.compile(rf"\b(?:u?int(?:8|16|32|64)?_t|unsigned|int|long|size_t|double|float)\s+(?:\w+_)?{QUANTITIES}\s*[;,)=\[]")
    for path, text in tree.c("api", "common", *COMPONENTS):
        for line, code in enumerate(ctext.blank(text).splitlines(), 1):
            match = pattern.search(code)
            if match:
                yield Finding(path, line, f"a quantity without its unit: {match[1]}", "end the name in _ns _us _ms _s _uj _mw _mcpu _bytes _permille")


def prefix(tree):
    """Public functions carry the prefix of their layer; static ones carry none."""
    prefixes = {"api": "kw_", "common": "kw_", **COMPONENTS}
    for path, text in tree.c(*prefixes):
        want = prefixes[path.split("/")[0]]
        if path.endswith(".h"):
            for name, line, _, _ in ctext.declarations(text):
                if not name.startswith(want) and name != "__attribute__":
                    yield Finding(path, line, f"{name}() lacks the prefix {want}", f"rename it {want}{name}")
        else:
            bare = ctext.blank(text).splitlines()
            for name, first, _ in ctext.functions(text):
                if any(bare[i].startswith("static") for i in range(first - 1, min(first + 1, len(bare)))) \
                        and name.startswith(("kw_", *COMPONENTS.values())):
                    yield Finding(path, first, f"static {name}() carries a public prefix", "drop the prefix: having one means public")


def length(tree):
    for path, text in tree.c():
        lines = text.count("\n")
        limit = 80 if path.endswith("/main.c") else 500
        if lines > limit:
            yield Finding(path, limit, f"{lines} lines, at most {limit}", "find the noun that is missing and give it a file")
        for name, first, last in ctext.functions(text):
            if last - first > 80:
                yield Finding(path, first, f"{name}() has {last - first} lines, at most 80 (aim at 60)", "take a step out as a function with a name")


def leftover(tree):
    for path, text in tree.files.items():
        if path.startswith("tests/check/") or not path.endswith((".c", ".h", ".py", ".cmake", ".sh")):
            continue
        for line, code in enumerate(text.splitlines(), 1):
            match = re.search(r"\b(TODO|FIXME|XXX|HACK)\b", code)
            if match:
                yield Finding(path, line, f"{match[1]} in code", "do it, or file an issue and leave the code true")


def machine_path(tree):
    hosts = "|".join(("pypi" + r"\.org", "python" + "hosted", "crates" + r"\.io", "npm" + r"js\.org", "proxy" + r"\.golang",
                      "sum" + r"\.golang", "repo1?" + r"\.maven", "deb" + r"\.debian\.org"))
    for path, text in tree.files.items():
        for line, code in enumerate(text.splitlines(), 1):
            if re.search(rf"(?<![\w.])/(?:work|farm|root)/|{hosts}", code) and path != "tests/check/rules.py":
                yield Finding(path, line, "a path of somebody's machine, or a registry's host", "derive it from the repository's folder or leave it to the client's configuration")


def formatting(tree):
    """clang-format 14 decides the layout."""
    if not tree.root:
        return
    paths = [p for p, _ in tree.c()]
    done = subprocess.run(["clang-format-14", "--dry-run", "--ferror-limit=1", *paths], cwd=tree.root,
                          capture_output=True, text=True, check=False)
    for match in re.finditer(r"^(\S+?):(\d+):\d+: (?:warning|error): code should be clang-formatted", done.stderr, re.M):
        yield Finding(match[1], int(match[2]), "not formatted", f"clang-format-14 -i {match[1]}")
    if done.returncode and not done.stderr.strip():
        yield Finding(".clang-format", 1, f"clang-format-14 failed with {done.returncode}", "run it by hand")


RULES = {
    "spdx": spdx, "pragma-once": pragma_once, "include-root": include_root, "include-direction": include_direction,
    "third-party": third_party, "banned-call": banned_call, "no-log": no_log, "pure": pure,
    "doc-comment": doc_comment, "unit-name": unit_name, "prefix": prefix, "length": length,
    "leftover": leftover, "machine-path": machine_path, "formatting": formatting,
}
