#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All programs on a Redis with TLS that three real sentinels watch: the master is killed, a living one is demoted, and the agent
goes on counting and publishing, the extender and the recommender go on reading, and no joule is lost.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import urllib.request

from pki import Authority
from process import Failure, build, check, die_with_parent, free_ports, need, wait_for

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", build.ROOT / "build/debug")).resolve()
SECRETS = {"redis": "s3cret-redis", "sentinel": "s3cret-sentinel", "kwatt": "s3cret-kwatt", "no-role": "s3cret-no-role"}
NODE, MASTER = "node-of-sentinel", "mymaster"
COMMANDS = "+ping +select +zadd +zremrangebyscore +hset +hdel +hkeys +expire +zrevrange +zcard +hmget +zrange +hlen +hgetall +hvals +xadd +xrange +xrevrange"


class Servers:
    """Three redis-servers and three sentinels, all with TLS alone, in a folder."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.server, self.cli = need("redis-server", "redis-server"), need("redis-cli", "redis-tools")
        self.authority = Authority(folder / "pki")
        self.authority.make()
        self.authority.certificate("server", "/CN=redis", "DNS:localhost,IP:127.0.0.1")
        self.ports = free_ports(6)
        self.processes: dict[int, subprocess.Popen] = {}
        for name, text in SECRETS.items():
            (folder / name).write_text(text + "\n")
        for port in self.ports[:3]:
            self.start(port)
        wait_for("two replicas", lambda: self.call(self.ports[0], "INFO", "replication").count("state=online") == 2)
        for port in self.ports[3:]:
            self.start(port)
        for port in self.ports[3:]:
            wait_for("the sentinels know each other", lambda port=port: self.call(port, "SENTINEL", "CKQUORUM", MASTER)
                     .startswith("OK 3"))
            wait_for("the sentinels know the replicas", lambda port=port: self.call(port, "SENTINEL", "REPLICAS", MASTER)
                     .count("flags") == 2)

    def tls(self, port: int) -> str:
        pki = self.folder / "pki"
        return (f"port 0\ntls-port {port}\nbind 127.0.0.1\ndir {self.folder}/{port}\ntls-cert-file {pki}/server.crt\n"
                f"tls-key-file {pki}/server.key\ntls-ca-cert-file {pki}/ca.crt\ntls-auth-clients no\ntls-replication yes\n")

    def configuration(self, port: int) -> str:
        master = self.ports[0]
        if port in self.ports[3:]:
            return self.tls(port) + (
                f"sentinel monitor {MASTER} 127.0.0.1 {master} 2\nsentinel auth-pass {MASTER} {SECRETS['redis']}\n"
                f"sentinel down-after-milliseconds {MASTER} 1000\nsentinel failover-timeout {MASTER} 4000\n"
                f"requirepass {SECRETS['sentinel']}\nsentinel sentinel-pass {SECRETS['sentinel']}\n")
        more = "" if port == master else f"replicaof 127.0.0.1 {master}\n"
        return self.tls(port) + (
            f"save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nrequirepass {SECRETS['redis']}\nmasterauth {SECRETS['redis']}\n"
            f"user kwatt on >{SECRETS['kwatt']} ~kwatt:v1:* -@all {COMMANDS} +role\n"
            f"user no-role on >{SECRETS['no-role']} ~kwatt:v1:* -@all {COMMANDS}\n" + more)

    def start(self, port: int) -> None:
        (self.folder / str(port)).mkdir(exist_ok=True)
        file = self.folder / f"{port}.conf"
        if not file.exists():   # the programs write what they learn into it
            file.write_text(self.configuration(port))
        mode = ["--sentinel"] if port in self.ports[3:] else []
        with open(self.folder / f"{port}.log", "ab") as log:
            self.processes[port] = subprocess.Popen([self.server, file, *mode], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                                    preexec_fn=die_with_parent)
        wait_for(f"port {port} answers", lambda: self.call(port, "PING") == "PONG")

    def call(self, port: int, *words: str) -> str:
        secret = SECRETS["sentinel" if port in self.ports[3:] else "redis"]
        done = subprocess.run([self.cli, "--no-auth-warning", "-e", "--tls", "--cacert", self.folder / "pki/ca.crt", "-p", str(port),
                               *words], env={**os.environ, "REDISCLI_AUTH": secret}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"{words} on {port}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def master(self) -> int:
        return int(self.call(self.ports[4], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER).split()[1])

    def kill(self, port: int) -> None:
        process = self.processes.pop(port)
        process.kill()
        process.wait()

    def end(self) -> None:
        for port in list(self.processes):
            self.kill(port)


class Programs:
    """Agent, extender and recommender, told of the sentinels; the first one named is nobody."""

    def __init__(self, folder: pathlib.Path, servers: Servers):
        self.folder, self.processes, self.ports = folder, {}, {}
        nobody = free_ports(1)
        hosts = ",".join(f"127.0.0.1:{port}" for port in nobody + servers.ports[3:])
        self.url = f"rediss+sentinel://kwatt@{hosts}/{MASTER}"
        self.options = ["--redis", self.url, "--redis-password-file", folder / "kwatt", "--redis-ca-file", folder / "pki/ca.crt",
                        "--redis-sentinel-password-file", folder / "sentinel"]
        self.start("node-agent/kwatt-node-agent", "--node-name", NODE, "--interval", "200ms", "--meter", "model", "--accounting",
                   "cgroup-files")
        self.start("extender/kwatt-extender", "--refresh", "200ms")
        self.start("vpa-recommender/kwatt-vpa-recommender", "--interval", "1s")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def start(self, path: str, *options: str) -> None:
        name = path.rpartition("/")[2]
        port = free_ports(1)[0]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("KWATT_", "KUBE"))}
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([BUILD / path, *self.options, "--listen", f"127.0.0.1:{port}", *options], env=env,
                                                    stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        self.ports[name] = port

    def get(self, name: str, path: str) -> str:
        check(self.processes[name].poll() is None, f"{name} has ended:\n{self.log(name)[-2000:]}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.ports[name]}{path}", timeout=20) as answer:
            return answer.read().decode()

    def metric(self, name: str, series: str) -> float:
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.get(name, "/metrics"), re.M)
        check(found, f"{name} has no {series}")
        return float(found[1])

    def prioritize(self) -> None:
        """The extender answers whatever Redis does."""
        body = json.dumps({"Pod": {"metadata": {"name": "p"}, "spec": {}}, "NodeNames": [NODE, "unknown"]}).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.ports['kwatt-extender']}/prioritize", body, timeout=20) as answer:
            hosts = [item["Host"] for item in json.loads(answer.read())]
        check(hosts == [NODE, "unknown"], f"prioritize answers {hosts}")

    def end(self) -> None:
        for name, process in self.processes.items():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for name, process in self.processes.items():
            code = process.wait(timeout=60)
            check(code == 0, f"{name} ended with {code}:\n{self.log(name)[-3000:]}")


def conserved(sample: dict) -> int:
    """All that was measured, in microjoules."""
    total = 0
    for package in sample["packages"]:
        for domain in (package[name] for name in ("cpu", "dram") if name in package):
            parts = sum(domain.get(f"{part}_uj", 0) for part in ("idle", "pods", "system", "unattributed"))
            check(domain["measured_uj"] == parts, f"{domain} does not add up")
            total += domain["measured_uj"]
    return total


def published(servers: Servers) -> dict:
    text = servers.call(servers.master(), "HGET", f"kwatt:v1:node:{{{NODE}}}", "sample")
    check(text, "no sample is published")
    return json.loads(text)


def everybody_is_served(servers: Servers, programs: Programs, after: dict | None) -> dict:
    """Newer samples are published by the same agent, and read. @return one of them."""
    def newer() -> dict | None:
        sample = published(servers)
        return sample if after is None or sample["seq"] > after["seq"] else None

    sample = wait_for("a newer sample on the master", newer)
    if after is not None:
        check(sample["epoch"] == after["epoch"], "the agent began anew")
        check(conserved(sample) >= conserved(after), "energy was lost")
    loops = programs.metric("kwatt-vpa-recommender", "kwatt_recommender_loops_total")
    wait_for("the recommender reads", lambda: programs.metric("kwatt-vpa-recommender", "kwatt_recommender_redis_up") == 1 and
             programs.metric("kwatt-vpa-recommender", "kwatt_recommender_loops_total") >= loops + 2)
    wait_for("the extender knows the node", lambda: programs.metric("kwatt-extender", "kwatt_extender_redis_up") == 1)
    programs.prioritize()
    return sample


def master_is_killed(servers: Servers, programs: Programs) -> None:
    before = everybody_is_served(servers, programs, None)
    old = servers.master()
    servers.kill(old)
    programs.prioritize()
    wait_for("a new master", lambda: servers.master() != old)
    after = everybody_is_served(servers, programs, before)
    # what is published is what the agent itself says of that moment, joule by joule
    own = wait_for("the agent's own view", lambda: json.loads(programs.get("kwatt-node-agent", "/v1/pods")))["sample"]
    check(own["epoch"] == after["epoch"] and own["seq"] >= after["seq"] and conserved(own) >= conserved(after),
          "the published sample is not the agent's")
    log = programs.log("kwatt-node-agent")
    check(log.count("redis is out of reach") <= 1 and log.count("publishing to redis") <= 2, f"the agent says too much:\n{log}")


def living_master_is_demoted(servers: Servers, programs: Programs) -> None:
    before = everybody_is_served(servers, programs, None)
    old = servers.master()
    wait_for("the failover begins", lambda: servers.call(servers.ports[4], "SENTINEL", "FAILOVER", MASTER) == "OK")
    wait_for("another master", lambda: servers.master() != old)
    # The sentinels would tell it so in ten seconds, and end its clients. Without that, these learn it from what it refuses
    servers.call(old, "REPLICAOF", "127.0.0.1", str(servers.master()))
    everybody_is_served(servers, programs, before)


def mistakes_are_named(servers: Servers, programs: Programs) -> None:
    folder = programs.folder
    top = [BUILD / "cli/kwatt", "top", "--once", "--redis-ca-file", folder / "pki/ca.crt"]
    sentinels = programs.url.partition("@")[2].rpartition("/")[0]
    kwatt, watch = ["--redis-password-file", folder / "kwatt"], ["--redis-sentinel-password-file", folder / "sentinel"]
    for options, texts in (
            ([f"rediss+sentinel://kwatt@{sentinels}/other", *kwatt, *watch], ["knows no master of this name"]),
            ([f"rediss+sentinel://kwatt@{sentinels}/{MASTER}", *kwatt], ["NOAUTH", "sentinel 127.0.0.1:"]),
            ([f"rediss+sentinel://kwatt@{sentinels}/{MASTER}", *kwatt, "--redis-sentinel-password-file", folder / "kwatt"],
             ["refused (WRONGPASS)", "sentinel 127.0.0.1:"]),
            ([f"rediss+sentinel://no-role@{sentinels}/{MASTER}", "--redis-password-file", folder / "no-role", *watch],
             ["master 127.0.0.1:", "ROLE: NOPERM"]),
            ([f"redis+sentinel://kwatt@{sentinels}/{MASTER}", *kwatt, *watch], ["CA file", "rediss://"]),
            ([f"rediss+sentinel://kwatt@127.0.0.1:{servers.master()}/{MASTER}", *kwatt], ["unknown command 'SENTINEL'"])):
        done = subprocess.run([*top, "--redis", *map(str, options)], capture_output=True, text=True, check=False, timeout=60)
        check(done.returncode != 0, f"{options} is taken: {done.stdout}")
        for text in texts:
            check(text in done.stderr, f"{options}: {text!r} is not said, but:\n{done.stderr}")
        check("s3cret" not in done.stderr + done.stdout, f"a password is shown:\n{done.stderr}")
    done = subprocess.run([*top, "--redis", programs.url, *kwatt, *watch], capture_output=True, text=True, check=False, timeout=60)
    check(done.returncode == 0 and NODE in done.stdout, f"kwatt top: {done.stdout}{done.stderr}")


def no_secret_is_shown(_: Servers, programs: Programs) -> None:
    for name, process in programs.processes.items():
        title = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes() + pathlib.Path(f"/proc/{process.pid}/environ").read_bytes()
        shown = programs.log(name) + title.decode() + programs.get(name, "/metrics")
        check("s3cret" not in shown, f"{name} shows a password")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kwatt-sentinel-") as name:
        folder = pathlib.Path(name)
        try:
            servers = Servers(folder)
        except build.Missing as error:
            return build.end(error)
        programs = Programs(folder, servers)
        try:
            for test in (master_is_killed, living_master_is_demoted, mistakes_are_named, no_secret_is_shown):
                test(servers, programs)
                print(f"ok {test.__name__}", flush=True)
            programs.end()
        except Exception:   # whatever it is, the test failed by it
            traceback.print_exc()
            for log in folder.glob("kwatt-*.log"):
                print(f"--- {log.name}\n{log.read_text()[-2000:]}")
            return 1
        finally:
            for process in programs.processes.values():
                process.kill()
                process.wait()
            servers.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
