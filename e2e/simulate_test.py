# SPDX-License-Identifier: Apache-2.0
"""kwatt simulate placement on the example files of docs/placement, and on files that are none."""
import contextlib
import json
import os
import pathlib
import pty
import subprocess
import tempfile

SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("KWATT_SOURCE_DIR", "KWATT_BUILD_DIR"))
FLEET, PODS = (SOURCE / "docs" / "placement" / name for name in ("fleet.csv", "pods.csv"))


def kwatt(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUILD / "cli" / "kwatt", "simulate", *map(str, arguments)], capture_output=True, text=True, check=False)


def simulate(*arguments: object) -> dict:
    done = kwatt("placement", "--fleet", FLEET, "--pods", PODS, "-o", "json", *arguments)
    assert done.returncode == 0 and done.stderr == "", done
    return json.loads(done.stdout)


def policies() -> None:
    all_of_them = simulate()
    rows = {row["policy"]: row for row in all_of_them["policies"]}
    assert list(rows) == ["spread", "pack", "marginal", "peaks", "kwatt", "tiers"], rows
    assert all_of_them == simulate("--policy", "all"), "not the same twice"
    assert rows["kwatt"]["energy_uj"] < 0.7 * rows["spread"]["energy_uj"], rows
    assert len({row["work_mcpu_s"] for row in rows.values()}) == 1, "policies did other work"
    assert {row["unplaced"] for row in rows.values()} == {0}, rows
    alone = simulate("--policy", "kwatt")["policies"]
    assert len(alone) == 1 and "saved_percent" not in alone[0] and alone[0]["energy_uj"] == rows["kwatt"]["energy_uj"], alone
    noisy = simulate("--noise", "0.05", "--interval", "60s", "--late", "30s", "--no-resource-scores", "--weight", "5", "--seed", "7")
    assert noisy["policies"][4]["energy_uj"] < 0.8 * rows["spread"]["energy_uj"], noisy
    table = kwatt("placement", "--fleet", FLEET, "--pods", PODS)
    assert table.returncode == 0 and len(table.stdout.splitlines()) == 7 and table.stdout.startswith("POLICY"), table
    print("ok policies")


def refusals() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bad = pathlib.Path(folder, "bad.csv")
        bad.write_text("node,work_units,load_pct,watts\na,4,0,10\na,4,100,many\n")
        cases = [
            ((), "kwatt simulate: what?"),
            (("profit",), 'kwatt simulate: there is no "profit"'),
            (("placement",), "--fleet is not given"),
            (("placement", "--fleet", FLEET), "--pods is not given"),
            (("placement", "--fleet", bad, "--pods", PODS), f'{bad}: line 3, column 4 (watts): "many" is no number'),
            (("placement", "--fleet", FLEET, "--pods", f"{folder}/none"), f"{folder}/none: "),
            (("placement", "--fleet", FLEET, "--pods", PODS, "--policy", "best"), "--policy"),
        ]
        for arguments, text in cases:
            done = kwatt(*arguments)
            assert done.returncode == 2 and text in done.stderr and done.stdout == "", (arguments, done)
    usage = kwatt("placement", "--help")
    assert usage.returncode == 0 and "Examples:" in usage.stdout and "--[no-]resource-scores" in usage.stdout, usage
    assert kwatt("--help").returncode == 0
    print("ok refusals")


def progress() -> None:
    """What is under way is said at a terminal, and nowhere else."""
    command = [BUILD / "cli" / "kwatt", "simulate", "placement", "--fleet", str(FLEET), "--pods", str(PODS)]
    silent = subprocess.run(command, capture_output=True, text=True, check=True)
    assert silent.stderr == "", silent
    ours, terminal = pty.openpty()
    shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, text=True, check=True)
    os.close(terminal)
    said = ""
    with contextlib.suppress(OSError):  # its end
        while True:
            said += os.read(ours, 4096).decode()
    os.close(ours)
    assert shown.stdout == silent.stdout, shown
    assert "policy 1 of 6: spread" in said and "policy 6 of 6: tiers" in said and said.endswith("\r\033[K"), said
    print("ok progress")


policies()
refusals()
progress()
