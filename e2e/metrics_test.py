#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a running agent and answers what Kepler's dashboards ask.

The queries are those of the board that Kepler ships (its job, zone and name variables filled in, as Grafana does); what they
must answer is known, since the meter draws what this test says. Pods and a container are real cgroups that burn CPU time.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import agent_rig as rig
from agent_rig import check, wait_for

IDLE_WATTS, WATTS = 10.0, 30.0
POD = "11111111-2222-4333-8444-555555555555"
CONTAINER = "c0" * 32
JOB = 'job="kepler"'

# Query, and least and most of the sum of what it answers; None: any number of series above zero.
KEPLER_BOARD = [
    (f"count by (instance, model_name)(kepler_node_cpu_info{{{JOB}}})", None),
    (f"group by (node_name,zone)(kepler_node_cpu_watts{{{JOB}}})", (1, 1)),
    (f'kepler_node_cpu_watts{{{JOB}, instance=~".+", zone=~"package"}}', (0.9 * WATTS, 1.1 * WATTS)),
    (f'kepler_node_cpu_idle_watts{{{JOB}, instance=~".+", zone=~"package"}}', (0.8 * IDLE_WATTS, 1.2 * IDLE_WATTS)),
    (f'kepler_node_cpu_active_watts{{{JOB}, instance=~".+", zone=~"package"}}', (15, 25)),
    (f'sum by (zone) (kepler_node_cpu_watts{{{JOB}, zone=~"package"}})', (0.9 * WATTS, 1.1 * WATTS)),
    (f'sum by (zone) (kepler_pod_cpu_watts{{{JOB}, zone=~"package", pod_namespace=~".*"}})', (0.1, WATTS)),
    (f'topk(10,sum by (pod_namespace,zone)(kepler_pod_cpu_watts{{{JOB}, zone=~"package"}}))', (0.1, WATTS)),
    (f'kepler_pod_cpu_watts{{{JOB},pod_namespace=~".*", zone=~"package",pod_name=~".*"}}', (0.1, WATTS)),
    (f'sum by (zone) (kepler_container_cpu_watts{{{JOB}, zone=~"package"}})', (0.1, WATTS)),
    (f'topk(10,sum by (container_name,zone)(kepler_container_cpu_watts{{{JOB}, zone=~"package"}}))', (0.1, WATTS)),
    (f'sum by (zone) (kepler_process_cpu_watts{{{JOB}, zone=~"package"}})', (0.1, WATTS)),
    (f'topk(10,sum by (comm,zone)(kepler_process_cpu_watts{{{JOB}, zone=~"package"}}))', (0.1, WATTS)),
    (f'label_join(count by (pid, comm) (kepler_process_cpu_watts{{{JOB}}}), "process", " | ", "comm", "pid")', None),
    (f'abs(sum(kepler_node_cpu_active_watts{{{JOB}, zone="package"}}) - sum(kepler_process_cpu_watts{{{JOB}, zone="package"}}))',
     (0, WATTS)),
    (f'abs(sum(rate(kepler_process_cpu_joules_total{{{JOB}, container_id!="", zone="package"}}[20s]))'
     f' - sum(rate(kepler_container_cpu_joules_total{{{JOB}, zone="package"}}[20s])))', (0, 0.2 * WATTS)),
    (f'topk(10,kepler_process_cpu_watts{{{JOB}, zone=~"package", type="container", container_id="{CONTAINER}"}})', (0.1, WATTS)),
    (f'rate(kepler_process_cpu_joules_total{{{JOB}, zone="package", container_id="{CONTAINER}"}}[20s])', (0.1, WATTS)),
    (f'sum by (zone) (kepler_vm_cpu_watts{{{JOB}, zone=~"package"}})', (0, WATTS)),
    (f'topk(10,sum by (vm_name,zone)(kepler_vm_cpu_watts{{{JOB}, zone=~"package"}}))', (0, WATTS)),
    (f'rate(kepler_node_cpu_joules_total{{{JOB}, zone="package"}}[20s])', (0.8 * WATTS, 1.2 * WATTS)),
    (f'rate(kepler_node_cpu_active_joules_total{{{JOB}, zone="package"}}[20s])', (14, 26)),
    (f'rate(kepler_node_cpu_idle_joules_total{{{JOB}, zone="package"}}[20s])', (0.7 * IDLE_WATTS, 1.3 * IDLE_WATTS)),
    (f'sum(rate(kepler_pod_cpu_joules_total{{{JOB}}}[20s])) by (pod_name, pod_namespace)', (0.1, WATTS)),
    (f"sum(kepler_node_cpu_usage_ratio{{{JOB}}}) by (node_name) * 100", (0.1, 100)),
    ('kepler_build_info{job="kepler"}', (1, 1)),
    ("count(kwatt_sample_quality)", (10, 40)),
    # what is measured is all there is: the board's "attribution gap", over what kwatt has
    ('abs(sum(kepler_node_cpu_joules_total) - sum(kepler_node_cpu_idle_joules_total) - sum(kwatt_node_pods_joules_total)'
     ' - sum(kwatt_node_system_joules_total) - sum(kwatt_node_unattributed_joules_total))', (0, 1e-5)),
]
# The same gap over processes, with what those drew that ended or are not listed.
KEPLER_BOARD.append((
    'abs(sum(kwatt_node_pods_joules_total) + sum(kwatt_node_system_joules_total) - sum(kepler_process_cpu_joules_total)'
    ' - sum(kwatt_processes_unlisted_joules) - sum(kwatt_processes_ended_joules_total))', (0, 1e-5)))
QEMU = ["qemu-system-x86_64", "-name", "db", "-machine", "none", "-nodefaults", "-nographic", "-S", "-monitor", "none"]
VARIABLES = [   # label_values() of the board: series, and the label that must have a value
    (f"kepler_node_cpu_info{{{JOB}}}", "instance"),
    (f"kepler_node_cpu_watts{{{JOB}}}", "zone"),
    (f"kepler_pod_cpu_watts{{{JOB}}}", "pod_name"),
    ("kepler_container_cpu_watts", "container_name"),
    ("kepler_vm_cpu_watts", "vm_name"),
    ("kepler_process_cpu_watts", "comm"),
]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Prometheus:
    def __init__(self, folder: pathlib.Path, target: int):
        self.folder, self.port = folder, free_port()
        (folder / "prometheus.yml").write_text(
            "scrape_configs:\n- job_name: kepler\n  scrape_interval: 1s\n"
            f"  static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n")
        self.process = None

    def get(self, path: str, **query: str):
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=rig.WAIT_SECONDS) as answer:
            return json.load(answer)["data"]

    def query(self, text: str) -> list[dict]:
        return self.get("/api/v1/query", query=text)["result"]

    def ready(self) -> bool:
        check(self.process.poll() is None, (self.folder / "prometheus.log").read_text())
        try:
            return self.query("up == 1") != []
        except OSError:
            return False

    def __enter__(self):
        with (self.folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log, preexec_fn=rig.die_with_parent)
        try:
            wait_for("prometheus to scrape", self.ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Nested(rig.Cgroup):
    """A cgroup below others that are made for it."""

    def __init__(self, *parts: str):
        super().__init__("/".join(parts))

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def remove(self) -> None:
        folder = self.folder
        while rig.NAME in str(folder):
            wait_for(f"{folder} to be empty", lambda: not folder.exists() or self.try_remove(folder))
            folder = folder.parent
            if any(child.is_dir() for child in folder.iterdir()):
                return

    @staticmethod
    def try_remove(folder: pathlib.Path) -> bool:
        try:
            folder.rmdir()
        except OSError:
            return False
        return True


def sums(result: list[dict]) -> float:
    return sum(float(series["value"][1]) for series in result)


def answers(prometheus: Prometheus, query: str, limits) -> bool:
    result = prometheus.query(query)
    if not result:
        return False
    return limits is None or limits[0] <= sums(result) <= limits[1]


def test() -> None:
    port = free_port()
    with rig.folder() as name, Nested("m", "kubepods", f"pod{POD}", CONTAINER) as pod, \
            Nested("m", "system.slice", f"docker-{CONTAINER}.scope") as container, Nested("m", "system.slice", "vm.service") as unit:
        folder = pathlib.Path(name)
        meter = rig.Meter(folder / "sys", 1000)
        agent = rig.Agent(folder, "--sysfs", str(folder / "sys"), "--interval", "1s", "--meter", "powercap", "--idle-watts",
                          str(IDLE_WATTS), "--cgroup-root", f"/{rig.NAME}-m", "--metrics-processes", "1000", "--metrics-containers",
                          "--metrics-explain")
        agent.listen = f"127.0.0.1:{port}"
        burners = [group.run(sys.executable, "-c", "while True: pass") for group in (pod, container)]
        burners.append(unit.run(*QEMU))
        try:
            with rig.Drawing(meter, WATTS, 0), agent, Prometheus(folder, port) as prometheus:
                time.sleep(6)
                for query, limits in KEPLER_BOARD:
                    wait_for(f"an answer to {query} between {limits}",
                             lambda: answers(prometheus, query, limits), 30)    # noqa: B023
                for series, label in VARIABLES:
                    found = prometheus.get("/api/v1/series", **{"match[]": series})
                    check(any(one.get(label) for one in found), f"{series} has no {label}: {found[:2]}")
                named = prometheus.query(f'kepler_pod_cpu_watts{{pod_id="{POD}"}}')
                check(len(named) == 1 and named[0]["metric"]["state"] == "running", f"{named}")
                per_pod = prometheus.query(f'count({{pod_id="{POD}"}})')
                check(1 <= sums(per_pod) <= 8, f"{per_pod}: too many series for a pod")
                types = prometheus.get("/api/v1/metadata", metric="kepler_node_cpu_joules_total") or \
                    prometheus.get("/api/v1/metadata", metric="kepler_node_cpu_joules")
                check(types and all(one["type"] == "counter" for some in types.values() for one in some), f"{types}")
                lint = subprocess.run(["promtool", "check", "metrics"], input=agent.get("/metrics")[1], text=True,
                                      capture_output=True, check=False)
                check(lint.returncode == 0 and not lint.stderr, f"promtool: {lint.stderr}{lint.stdout}")
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()


def main() -> int:
    if os.geteuid() != 0:
        rig.skip("needs root: makes cgroups and loads BPF")
    if shutil.which("prometheus") is None:
        rig.skip("prometheus is not installed")
    if shutil.which(QEMU[0]) is None:
        rig.skip(f"{QEMU[0]} is not installed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    test()
    return 0


if __name__ == "__main__":
    sys.exit(main())
