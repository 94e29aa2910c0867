#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The three programs over HTTPS, as strangers meet them: curl and openssl, and kwatt's own commands. Who gets in, what is refused
and how that reads, and certificates that change while somebody asks."""
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

from pki import Authority
from process import Failure, build, check, die_with_parent, free_ports, need, wait_for

BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", build.ROOT / "build/debug")).resolve()
NAME = "kwatt.test"
SAN = f"DNS:{NAME},IP:127.0.0.1"
PROGRAMS = {"agent": ("node-agent/kwatt-node-agent", ["--meter", "model", "--accounting", "cgroup-files", "--interval", "500ms"], "/v1/pods"),
            "extender": ("extender/kwatt-extender", ["--redis", "unix:///nowhere/redis.sock"], "/metrics"),
            "recommender": ("vpa-recommender/kwatt-vpa-recommender", ["--redis", "unix:///nowhere/redis.sock"], "/metrics")}


def run(*command: object) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=env,
                          timeout=60)


class Rig:
    def __init__(self, folder: pathlib.Path):
        self.folder, self.processes = folder, {}
        self.curl = need("curl", "curl")
        self.ours, self.theirs = Authority(folder / "ours"), Authority(folder / "theirs")
        for authority in (self.ours, self.theirs):
            authority.make()
            authority.certificate("client", "/CN=client", "DNS:client")
        self.served = folder / "served"
        self.swap(0)
        for file in ("tls.crt", "tls.key", "ca.crt"):
            (self.served / file).symlink_to(f"..data/{file}")
        self.ports = dict(zip(PROGRAMS, free_ports(len(PROGRAMS))))

    def swap(self, number: int) -> str:
        """New certificates in place, all at once, as the kubelet puts a Secret's there. Returns the serial number."""
        name = f"server{number}"
        self.ours.certificate(name, "/CN=server", SAN)
        data = self.served / f"..{number}"
        data.mkdir(parents=True)
        for file, source in (("tls.crt", f"{name}.crt"), ("tls.key", f"{name}.key"), ("ca.crt", "ca.crt")):
            (data / file).write_bytes((self.ours.folder / source).read_bytes())
            (data / file).chmod(0o600)
        (self.served / "..next").symlink_to(data.name)
        (self.served / "..next").rename(self.served / "..data")
        return run(self.ours.openssl, "x509", "-noout", "-serial", "-in", data / "tls.crt").stdout.strip()

    def start(self, part: str) -> None:
        program, options, _ = PROGRAMS[part]
        with open(self.folder / f"{part}.log", "wb") as log:
            self.processes[part] = subprocess.Popen(
                [str(BUILD / program), "--listen", f"127.0.0.1:{self.ports[part]}", "--tls-cert-file", str(self.served / "tls.crt"),
                 "--tls-private-key-file", str(self.served / "tls.key"), "--client-ca-file", str(self.served / "ca.crt"), *options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        wait_for(part, lambda: self.get(part, "/healthz", None)[0] == "200" or self.processes[part].poll() is not None)
        check(self.processes[part].poll() is None, f"{part} ended:\n{self.log(part)}")

    def log(self, part: str) -> str:
        return (self.folder / f"{part}.log").read_text(errors="replace")

    def url(self, part: str) -> str:
        return f"https://127.0.0.1:{self.ports[part]}"

    def get(self, part: str, path: str, client: Authority | None, *more: object) -> tuple[str, str]:
        """By curl. Returns the status ("000": none), and the body with what curl says."""
        shown = [] if client is None else ["--cert", client.folder / "client.crt", "--key", client.folder / "client.key"]
        done = run(self.curl, "--silent", "--show-error", "--cacert", self.ours.folder / "ca.crt", *shown, "--write-out", "\n%{http_code}", *more,
                   f"{self.url(part)}{path}")
        return done.stdout.rsplit("\n", 1)[-1], done.stdout + done.stderr

    def handshake(self, part: str, *more: str) -> str:
        return run(self.ours.openssl, "s_client", "-connect", f"127.0.0.1:{self.ports[part]}", "-CAfile", self.ours.folder / "ca.crt",
                   "-verify_return_error", *more)

    def serial(self, part: str) -> str:
        shown = self.handshake(part).stdout
        pem = shown[shown.find("-----BEGIN"):shown.find("-----END CERTIFICATE-----") + 26]
        return subprocess.run([self.ours.openssl, "x509", "-noout", "-serial"], input=pem, capture_output=True, text=True,
                              check=False).stdout.strip()

    def kwatt(self, *words: object) -> subprocess.CompletedProcess:
        return run(BUILD / "cli/kwatt", *words)

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for part, process in self.processes.items():
            check(process.wait(60) == 0, f"{part} ended by {process.returncode}:\n{self.log(part)}")


def who_gets_in(rig: Rig) -> None:
    for part, (_, _, page) in PROGRAMS.items():
        for path in ("/healthz", "/readyz"):
            status, text = rig.get(part, path, None)
            check(status in ("200", "503") and "certificate" not in text, f"{part}{path} without a certificate: {text}")
        status, text = rig.get(part, page, None)
        check(status == "403" and "a client certificate is needed" in text, f"{part}{page} without a certificate: {text}")
        wait_for(f"{part}{page}", lambda part=part, page=page: rig.get(part, page, rig.ours)[0] == "200")
        # curl shows a certificate of another authority too; the handshake ends
        status, text = rig.get(part, page, rig.theirs)
        check(status == "000" and "alert" in text, f"{part}{page} with a foreign certificate: {text}")
        check('"CN = client' in rig.log(part) or "CN=client" in rig.log(part), f"{part} does not say whom it refused:\n{rig.log(part)}")
        status, text = rig.get(part, page, rig.ours, "--http2", "--tlsv1.2", "--tls-max", "1.2")
        check(status == "200", f"{part} by TLS 1.2, HTTP/2 offered: {text}")
    print("ok who gets in")


def what_is_refused(rig: Rig) -> None:
    for part in PROGRAMS:
        for old in ("-tls1_1", "-tls1"):
            done = rig.handshake(part, old, "-cipher", "DEFAULT@SECLEVEL=0")
            check(done.returncode != 0 and "Cipher is (NONE)" in done.stdout, f"{part} speaks {old}: {done.stdout[-300:]}")
        done = rig.handshake(part, "-alpn", "h2,http/1.1")
        check("ALPN protocol: http/1.1" in done.stdout, f"{part}: {done.stdout[-500:]}")
        done = run(rig.curl, "--silent", f"http://127.0.0.1:{rig.ports[part]}/healthz")
        check(done.stdout == "400 plain HTTP sent to an HTTPS port\n", f"{part} over plain HTTP: {done.stdout}{done.stderr}")
    print("ok what is refused")


def commands(rig: Rig) -> None:
    files = ["--ca-file", rig.ours.folder / "ca.crt", "--cert-file", rig.ours.folder / "client.crt", "--key-file",
             rig.ours.folder / "client.key"]
    named = [*files, "--server-name", NAME]
    done = rig.kwatt("scheduler-config", "--check", "--extender-url", rig.url("extender"), *named)
    check(done.returncode == 0 and "enableHTTPS: true" in done.stdout, f"scheduler-config --check: {done.stderr}")
    done = rig.kwatt("scheduler-config", "--check", "--extender-url", rig.url("extender"), *files[:2])
    check(done.returncode == 1 and "status 403" in done.stderr, f"scheduler-config without a certificate: {done.stderr}")
    done = rig.kwatt("scheduler-config", "--check", "--extender-url", rig.url("extender"), *files, "--server-name", "other.test")
    check(done.returncode == 1 and "other.test" in done.stderr, f"scheduler-config of another name: {done.stderr}")
    done = rig.kwatt("top", "--once", "--agent", rig.url("agent"), *named)
    check(done.returncode == 0, f"kwatt top over HTTPS: {done.stderr}")
    done = rig.kwatt("top", "--once", "--agent", rig.url("agent"), "--ca-file", rig.theirs.folder / "ca.crt")
    check(done.returncode != 0 and "certificate" in done.stderr, f"kwatt top trusts whomever: {done.stderr}")
    print("ok kwatt's own commands")


def renewal(rig: Rig) -> None:
    """New certificates while curl asks without a pause over one connection."""
    urls = rig.folder / "urls"
    urls.write_text("".join(f'url = "{rig.url("extender")}/metrics"\noutput = "/dev/null"\n' for _ in range(40)))
    client = rig.ours.folder
    asking = subprocess.Popen([rig.curl, "--silent", "--show-error", "--fail", "--cacert", str(client / "ca.crt"), "--cert",
                               str(client / "client.crt"), "--key", str(client / "client.key"), "--rate", "20/s", "--write-out",
                               "%{http_code} %{num_connects}\\n", "--config", str(urls)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    for number in (1, 2):
        new = rig.swap(number)
        for part in PROGRAMS:
            wait_for(f"the new certificate of {part}", lambda part=part, new=new: rig.serial(part) == new)
    out, err = asking.communicate(timeout=60)
    lines = out.split("\n")[:-1]
    check(asking.returncode == 0 and lines == ["200 1"] + ["200 0"] * 39, f"requests over a renewal: {lines} {err}")
    (rig.served / "..data/tls.crt").write_text("nonsense")
    wait_for("the fault to be told", lambda: "new certificates are unusable" in rig.log("extender"))
    check(rig.get("extender", "/metrics", rig.ours)[0] == "200", "the old certificate is gone")
    check(str(rig.served / "tls.crt") in rig.log("extender").split("are unusable")[1], "the file is not named")
    print("ok renewal")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kwatt-tls-") as folder:
        rig = None
        try:
            rig = Rig(pathlib.Path(folder))
            for part in PROGRAMS:
                rig.start(part)
            for step in (who_gets_in, what_is_refused, commands, renewal):
                step(rig)
            rig.stop()
        except build.Missing as error:
            return build.end(error)
        except (Failure, OSError, subprocess.SubprocessError):
            traceback.print_exc()
            for part in rig.processes if rig else ():
                print(f"---- {part}.log\n{rig.log(part)[-1500:]}", file=sys.stderr)
            return 1
        finally:
            for process in rig.processes.values() if rig else ():
                process.kill()
                process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
