#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chart without a cluster: helm's own checks, every switch renders, mistakes are named, and nothing that is written down twice
has drifted apart (schema and programs' options, dashboard and metrics, scheduler configuration and examples).
"""
import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import traceback

import chart
from process import build, call, check, need, wait_for

sys.path.insert(0, str(build.ROOT / "charts"))
import schema  # noqa: E402  (its folder was put on the path just now)

# A mistake, and what helm says of it.
MISTAKES = [
    ({"agnet.enabled": False}, "agnet"),
    ({"agent.config": {"intervall": "5s"}}, "'/agent/config': additional properties 'intervall' not allowed"),
    ({"agent.config": {"interval": 5}}, "'/agent/config/interval': got number, want string"),
    ({"agent.config": {"interval": "5 s"}}, "'/agent/config/interval': '5 s' does not match pattern"),
    ({"agent.config": {"meter": "rapl"}}, "'/agent/config/meter': value must be one of 'auto', 'perf', 'powercap'"),
    ({"agent.config": {"idleWatts": -1}}, "'/agent/config/idleWatts': minimum: got -1, want 0"),
    ({"agent.config": {"model": "/etc/kwatt/models/rack.json"}}, "agent.config.model names a file of agent.modelsConfigMap, which is empty"),
    ({"agent.capabilities": ["SYS_MODULE"]}, "'/agent/capabilities/0': value must be one of"),
    ({"agent.config": {"listen": ":80"}}, "'listen' not allowed"),
    ({"extender.config": {"redis": {"url": "redis://x"}}}, "'/extender/config/redis': additional properties 'url' not allowed"),
    ({"extender.config": {"threads": 0}}, "'/extender/config/threads': minimum: got 0, want 1"),
    ({"extender.zones": {"configMap": "carbon"}}, "extender.zones needs extender.config.watchNodes"),
    ({"extender.config": {"watchNodes": True}, "extender.zones": {"values": {"x": 1}}}, "extender.zones.values needs unit and source"),
    ({"extender.config": {"watchNodes": True}, "extender.zones": {"values": {"x": 1}, "configMap": "c", "unit": "u", "source": "s"}},
     "give values or configMap"),
    ({"extender.zones": {"values": {"x": -1}}}, "'/extender/zones/values/x': minimum"),
    ({"extender.config": {"zones": "/file"}}, "'zones' not allowed"),
    ({"extender.antiAffinity": "hard"}, "'/extender/antiAffinity': value must be one of"),
    ({"extender.service.clusterIP": "kwatt.example"}, "'/extender/service/clusterIP'"),
    ({"scheduler.weight": 0}, "'/scheduler/weight': minimum"),
    ({"extender.config": {"powerTiers": {"enabled": True}}}, "extender.config.powerTiers.enabled needs extender.config.watchNodes"),
    ({"extender.config": {"leaderElection": {"enabled": True}}}, "'enabled' not allowed"),
    ({"scheduler.enabled": True, "scheduler.tiers": True}, "scheduler.tiers needs extender.config.powerTiers.enabled"),
    ({"image.digest": "latest"}, "'/image/digest'"),
    ({"externalRedis.url": "redis://user:secret@host"}, "'/externalRedis/url'"),
    ({"externalRedis.url": "rediss+sentinel://a,user:secret@b/m"}, "'/externalRedis/url'"),
    ({"externalRedis.url": "redis+sentinel://a,b"}, "'/externalRedis/url'"),
    ({"redis.enabled": False, "externalRedis.url": "redis://h", "externalRedis.tls.caKey": "ca.crt"}, "externalRedis.tls is of no use"),
    ({"redis.enabled": False, "externalRedis.url": "rediss://h", "externalRedis.tls.caKey": "ca.crt"},
     "externalRedis.tls.existingSecret is needed"),
    ({"redis.enabled": False, "externalRedis.url": "rediss://h", "externalRedis.tls.keyKey": "k"}, "keyKey needs certKey"),
    ({"redis.enabled": False, "externalRedis.url": "rediss://h", "externalRedis.sentinel.user": "u"}, "externalRedis.sentinel is of no use"),
    ({"redis.enabled": False}, "externalRedis.url is needed with redis.enabled=false"),
    ({"redis.enabled": False, "externalRedis.url": "redis://h", "externalRedis.agent": {"user": "a", "passwordKey": "k"}},
     "externalRedis.existingSecret is needed"),
    ({"recommender.leaderElection.enabled": False}, "recommender.replicas above 1 needs recommender.leaderElection.enabled"),
    ({"recommender.config": {"leaderElection": {"enabled": False}}}, "'enabled' not allowed"),
    ({"monitoring.podMonitor.enabled": True, "monitoring.serviceMonitor.enabled": True}, "choose podMonitor or serviceMonitor"),
    ({"agent.config": {"tls": {"certFile": "x"}}}, "'tls' not allowed"),
    ({"tls.enabled": True, "tls.extender.existingSecret": "x"},
     "existingSecret is given for extender, and not for agent, recommender, client"),
    ({"scheduler.enabled": True, "extender.enabled": False}, "scheduler.enabled needs extender.enabled"),
]


def switches(node: dict, path: str = "") -> set[str]:
    """Paths of every boolean of the schema that is the chart's own."""
    if node.get("type") == "boolean":
        return {path}
    found: set[str] = set()
    for name, child in node.get("properties", {}).items():
        found |= switches(child, f"{path}.{name}".lstrip("."))
    return {each for each in found if ".config." not in each}


def schema_is_current(_: chart.Helm) -> None:
    made = schema.text(chart.BUILD)
    check(made == schema.SCHEMA.read_text(),
          "charts/kwatt/values.schema.json is not what the programs say; run charts/schema.py --write BUILD_DIR")


def versions_agree(_: chart.Helm) -> None:
    wanted = re.search(r"project\(kwatt VERSION (\S+)", (build.ROOT / "CMakeLists.txt").read_text())[1]
    for name, pattern in (("charts/kwatt/Chart.yaml", r"^appVersion: (\S+)"), ("deploy/Dockerfile", r"^ARG KWATT_VERSION=(\S+)")):
        found = re.search(pattern, (build.ROOT / name).read_text(), re.M)[1]
        check(found == wanted, f"{name} says {found}, CMakeLists.txt {wanted}")


def lint(helm: chart.Helm) -> None:
    helm.run("lint", "--strict", chart.CHART)
    for case in ("scheduler-filter", "external", "service-monitor"):
        helm.run("lint", "--strict", chart.CHART, *helm.values(chart.CASES[case]))


def every_switch_renders(helm: chart.Helm) -> None:
    tried = {path for case in chart.CASES.values() for path in case}
    missing = switches(schema.schema(chart.BUILD)) - tried
    check(not missing, f"no case of e2e/chart.py turns {', '.join(sorted(missing))}")
    default = helm.rendered({})
    for name, case in chart.CASES.items():
        text = helm.rendered(case)
        check("<no value>" not in text and "<nil>" not in text, f"case {name} renders an absent value")
        check(name == "default" or re.sub(r"(password|users\.acl): \S+", "", text)
              != re.sub(r"(password|users\.acl): \S+", "", default), f"case {name} changes nothing")


def mistakes_are_named(helm: chart.Helm) -> None:
    for case, text in MISTAKES:
        done = helm.template(case)
        check(done.returncode != 0, f"{case} is taken")
        check(text in done.stderr, f"{case}: {text!r} is not said, but:\n{done.stderr}")


def programs_take_what_is_rendered(helm: chart.Helm) -> None:
    """Each program reads the file that the chart makes of the values, and finds them in it."""
    for component, case, line in (("agent", "agent", "idleWatts: 95.5"), ("extender", "extender", "defaultCpuMcpu: 1000000"),
                                  ("extender", "extender", "timeout: 1s"), ("recommender", "recommender", "interval: 30s"),
                                  ("agent", "default", "interval: 5s")):
        text = helm.rendered(chart.CASES[case], "--show-only", f"templates/{component}.yaml")
        block = re.search(r"  kwatt\.yaml: \|\n((?:    .*\n|\n)+)", text)[1]
        file = helm.folder / "kwatt.yaml"
        file.write_text(re.sub(r"^    ", "", block, flags=re.M))
        program = chart.BUILD / schema.PROGRAMS[component][0]
        done = subprocess.run([program, "--config", file, "--dump-config"], capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"{component} refuses the file of case {case}: {done.stderr}\n{block}")
        check(line in done.stdout, f"{component} does not have {line} of case {case}:\n{done.stdout}")


def the_agent_may_write_power_limits_alone(helm: chart.Helm) -> None:
    """Of the node, and only where it is to enforce a cap."""
    for case, wanted in (("default", set()), ("agent", set()), ("beside-kubernetes", set()), ("no-cap", set()), ("enforced-cap", {
            ("/host/sys/devices/virtual/powercap", "/sys/devices/virtual/powercap"), ("/run/kwatt-node-agent", "/run/kwatt-node-agent")})):
        text = helm.rendered(chart.CASES[case], "--show-only", "templates/agent.yaml")
        of_the_node = dict(re.findall(r"- name: (\S+)\n +hostPath: \{path: \"?([^\",]+)", text))
        mounts = re.findall(r"- \{name: (\S+), mountPath: ([^,}]+)(.*)\}", text)
        check(len(mounts) > 2 and len(of_the_node) > 1, f"case {case} is not read by this test:\n{text}")
        written = {(path, of_the_node[name]) for name, path, more in mounts if name in of_the_node and "readOnly: true" not in more}
        check(written == wanted, f"the agent of case {case} may write {written}")
        check("add: [BPF, PERFMON, DAC_READ_SEARCH]" in text, f"the agent of case {case} has other capabilities")


def zones_are_what_the_program_takes(helm: chart.Helm) -> None:
    """The extender reads the file that the chart makes of the values."""
    text = helm.rendered(chart.CASES["zones"], "--show-only", "templates/extender.yaml")
    file = helm.folder / "zones"
    file.write_text(re.sub(r"^    ", "", re.search(r"  zones: \|\n((?:    .*\n)+)", text)[1], flags=re.M))
    kubeconfig = helm.folder / "nowhere.kubeconfig"
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {"token": "t"}}],
                                      "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                                      "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))
    with (helm.folder / "zones.log").open("w+") as log, subprocess.Popen(
            [chart.BUILD / schema.PROGRAMS["extender"][0], "--listen", f"unix:{helm.folder}/z", "--redis", f"unix://{helm.folder}/none",
             "--zones", file, "--watch-nodes", "--kubeconfig", kubeconfig], stdout=log, stderr=log) as program:
        try:
            wait_for("the zones to be read", lambda: "zones" in pathlib.Path(log.name).read_text() or program.poll() is not None)
        finally:
            program.terminate()
        said = pathlib.Path(log.name).read_text()
    check("read the zones" in said and "zones=3" in said and "grid operator, week 48" in said, f"{said}\n{file.read_text()}")


def rights_are_given_where_wanted(helm: chart.Helm) -> None:
    """No role and no binding without rbac.create, whatever is switched on; with it, those that the extender needs."""
    every = {"extender.config": {"watchNodes": True, "writeHeadroom": True, "events": True, "powerTiers": {"enabled": True}},
             "agent.config": {"pods": "api"}, "scheduler.enabled": True}
    kinds = {create: set(re.findall(r"^kind: (\w*Role\w*)$", helm.rendered({**every, "rbac.create": create}), re.M)) for create in (True, False)}
    check(kinds[False] == set(), f"without rbac.create there are {kinds[False]}")
    check(kinds[True] == {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}, f"with rbac.create there are {kinds[True]}")
    rules = helm.rendered(every, "--show-only", "templates/extender.yaml")
    check("verbs: [list, watch, patch]" in rules and "verbs: [create, patch]" in rules, "the extender may not do what was switched on")


def an_external_redis_reaches_every_program(helm: chart.Helm) -> None:
    for name in ("external", "external-tls", "external-sentinel"):
        case = chart.CASES[name]
        for template in ("agent", "extender", "recommender", "tests/works"):
            text = helm.rendered(case, "--show-only", f"templates/{template}.yaml")
            url = re.search(r'name: KWATT_REDIS\n +value: "(.*)"\n', text)[1]
            check(url == case["externalRedis.url"], f"{template} of case {name} is given {url!r}")
            named = set(re.findall(r"value: /etc/kwatt/redis/(\S+)\n", text))
            mounted = set(re.findall(r"\{key: \S+, path: (\S+)\}", text))
            check(named == mounted, f"{template} of case {name} is told of {named}, but has {mounted}")
            check(named >= {"ca.crt"} or name == "external", f"{template} of case {name} has {named}")


def dashboard_shows_what_exists(_: chart.Helm) -> None:
    text = (chart.CHART / "dashboards/kwatt.json").read_text()
    names = set(re.findall(r"\b(?:kwatt|kepler)_[a-z_]+", text))
    check(len(names) > 20, "the dashboard has lost its panels")
    sources = "".join(path.read_text() for folder in ("node-agent", "extender", "vpa-recommender")
                      for path in (build.ROOT / folder).glob("*.c"))
    for name in names:
        check(f'"{name.removesuffix("_bucket")}"' in sources, f"the dashboard shows {name}, which no program has")


def dashboard_asks_what_prometheus_understands(helm: chart.Helm) -> None:
    """promtool reads every query, as a rule of a file."""
    panels = json.loads((chart.CHART / "dashboards/kwatt.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    for name, value in (("$__rate_interval", "5m"), ("$__range", "1h"), ("$node", ".*")):
        queries = [query.replace(name, value) for query in queries]
    check(len(queries) > 20 and not [query for query in queries if "$" in query], "a variable that Grafana does not have")
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = helm.folder / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    call([need("promtool", "prometheus"), "check", "rules", file])


def scheduler_configurations_agree(helm: chart.Helm) -> None:
    def printed(*words: str) -> str:
        return subprocess.run([chart.BUILD / "cli/kwatt", "scheduler-config", *words], check=True, capture_output=True,
                              text=True).stdout

    example = (build.ROOT / "deploy/kube-scheduler/kwatt.yaml").read_text()
    text = printed("--extender-url", "http://127.0.0.1:9890")
    check(example.split("\n", 1)[1] == text, "deploy/kube-scheduler/kwatt.yaml is not what kwatt scheduler-config prints")
    tls = ["--server-name", "kwatt-extender.kwatt.svc", "--ca-file", "/etc/kwatt/tls/ca.crt", "--cert-file", "/etc/kwatt/tls/tls.crt",
           "--key-file", "/etc/kwatt/tls/tls.key"]
    for case, words in (("scheduler", []), ("tiers", ["--tiers"]), ("scheduler-filter", ["--filter", "--weight", "5"]), ("tls", tls)):
        rendered = helm.rendered(chart.CASES[case], "--show-only", "templates/scheduler.yaml")
        scheme = "https" if words is tls else "http"
        url = [] if case == "tiers" else ["--extender-url", f"{scheme}://kwatt-extender.kwatt.svc:9890"]
        text = printed(*url, "--scheduler-name", "kwatt-scheduler", *words)
        lines = [line.strip().removeprefix("- ") for line in text.splitlines() if not line.strip().startswith("#")]
        ours = {line.strip().removeprefix("- ") for line in rendered.splitlines()}
        for line in lines:
            elsewhere = not line or line.startswith(("#", "clientConnection", "kubeconfig"))
            check(elsewhere or line in ours, f"the chart's second scheduler (case {case}) lacks {line!r}")
        check(("filterVerb" in rendered) == (case == "scheduler-filter"), "the filter verb stands where it should not")


def certificates_are_what_the_programs_take(helm: chart.Helm) -> None:
    """openssl verifies each that the chart makes, for the name that it is met by and for its purpose; and kwatt serves it."""
    openssl = need("openssl", "openssl")
    text = helm.rendered(chart.CASES["tls"], "--show-only", "templates/tls.yaml")
    files = {}
    for document in text.split("\n---\n"):
        name = re.search(r"name: kwatt-(\w+)-tls\n", document)
        for key, value in re.findall(r"^  ((?:tls|ca)\.\w+): (\S+)$", document, re.M):
            file = helm.folder / f"{name[1]}-{key}"
            file.write_bytes(base64.b64decode(value))
            file.chmod(0o600)
            files[(name[1], key)] = file
    for component in ("agent", "extender", "recommender", "client"):
        check(files[(component, "ca.crt")].read_bytes() == files[("authority", "tls.crt")].read_bytes(), f"{component} has another authority")
        purpose = "sslclient" if component == "client" else "sslserver"
        host = [] if component == "client" else ["-verify_hostname", f"kwatt-{component}.kwatt.svc"]
        call([openssl, "verify", "-purpose", purpose, *host, "-CAfile", files[(component, "ca.crt")], files[(component, "tls.crt")]])
    call([openssl, "verify", "-verify_ip", "10.0.0.90", "-CAfile", files[("authority", "tls.crt")], files[("extender", "tls.crt")]])
    done = subprocess.run([chart.BUILD / schema.PROGRAMS["extender"][0], "--listen", "unix:" + str(helm.folder / "s"), "--tls-cert-file",
                           files[("extender", "tls.crt")], "--tls-private-key-file", files[("agent", "tls.key")]], check=False,
                          capture_output=True, text=True, timeout=60)
    check(done.returncode == 2 and "does not belong to certificate" in done.stderr, f"keys are mixed up: {done.stderr}")


def main() -> int:
    tests = [schema_is_current, versions_agree, lint, every_switch_renders, mistakes_are_named, programs_take_what_is_rendered,
             the_agent_may_write_power_limits_alone, rights_are_given_where_wanted, zones_are_what_the_program_takes,
             an_external_redis_reaches_every_program, dashboard_shows_what_exists, dashboard_asks_what_prometheus_understands, scheduler_configurations_agree,
             certificates_are_what_the_programs_take]
    with tempfile.TemporaryDirectory(prefix="kwatt-chart-") as folder:
        try:
            helm = chart.Helm(pathlib.Path(folder))
        except build.Missing as error:
            return build.end(error)
        failed = 0
        for test in tests:
            try:
                test(helm)
                print(f"ok {test.__name__}", flush=True)
            except build.Missing as error:
                return failed or build.end(error)
            except Exception:  # whatever it is, the test failed by it
                traceback.print_exc()
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
