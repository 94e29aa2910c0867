#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes charts/kwatt/values.schema.json: the chart's own values from the tables below, the programs' from the programs.

usage: schema.py [--write] BUILD_DIR      prints the schema, or writes it; BUILD_DIR has the programs

A program prints its options with --dump-options; each that has a key in its configuration file becomes a property of
agent.config, extender.config or recommender.config, with its type, range, default and help. What the chart decides itself is left
out there, and so an error. e2e/chart_test.py fails where the schema that is committed is not the one that this prints.
"""
import json
import pathlib
import subprocess
import sys

SCHEMA = pathlib.Path(__file__).resolve().parent / "kwatt/values.schema.json"
REDIS = {f"redis.{key}" for key in ("url", "user", "passwordFile", "caFile", "certFile", "keyFile", "serverName", "sentinelUser",
                                    "sentinelPasswordFile")}
PROGRAMS = {    # program, and keys that the chart sets
    "agent": ("node-agent/kwatt-node-agent", {"nodeName", "redis", "listen", "tls", "sysfs", "procfs", "hostRoot", "kubeconfig", "kubelet.address",
                                              "kubelet.tokenFile", "enforceCap.record"}),
    "extender": ("extender/kwatt-extender", REDIS | {"listen", "tls", "ownNamespace", "kubeconfig", "caps", "zones", "leaderElection.enabled",
                                                         "leaderElection.namespace", "leaderElection.name"}),
    "recommender": ("vpa-recommender/kwatt-vpa-recommender",
                    REDIS | {"listen", "tls", "kubernetes", "leaderElection.enabled", "leaderElection.namespace", "leaderElection.name"}),
}
HOST = r"(\[[0-9a-fA-F:.]+\]|[^:@/,\[\]]+)(:[0-9]+)?"
REDIS_URL = rf"^(rediss?://{HOST}(/[0-9]+)?|rediss?\+sentinel://{HOST}(,{HOST})*/[^@/]+(/[0-9]+)?)?$"
DURATION = r"^[0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d)$"
SIZE = r"^[0-9]+(k|M|G|T|Ki|Mi|Gi|Ti)?$"


def option(row: dict) -> dict:
    schema = {"description": " ".join(row["help"].split())}
    if "default" in row:
        schema["description"] += f" (default: {row['default'] or 'empty'})"
    kind, limits = row["type"], {}
    if "max" in row:
        limits = {"minimum": row["min"], "maximum": row["max"]}
    if kind == "bool":
        return {**schema, "type": "boolean"}
    if kind == "integer":
        return {**schema, "type": kind, **limits}
    if kind == "number":    # as a text too: that is what --set makes of a fraction
        return {**schema, "type": ["number", "string"], "pattern": r"^[0-9]+(\.[0-9]+)?$", **limits}
    if kind == "choice":
        return {**schema, "enum": row["choices"]}
    if kind == "duration":
        if limits:
            schema["description"] += f"; {row['min'] / 1e9:g} s to {row['max'] / 1e9:g} s"
        return {**schema, "type": "string", "pattern": DURATION}
    if kind == "size":
        return {**schema, "type": ["string", "integer"], "pattern": SIZE, **({"minimum": row["min"]} if limits else {})}
    return {**schema, "type": "string", **({"minLength": row["min"], "maxLength": row["max"]} if limits else {})}


def config(build: pathlib.Path, program: str, own: set[str]) -> dict:
    """An object with the program's keys, nested as its file is."""
    rows = json.loads(subprocess.run([build / program, "--dump-options"], check=True, capture_output=True).stdout)["options"]
    root = {"type": "object", "additionalProperties": False, "properties": {}}
    for row in rows:
        key = row.get("key")
        if key is None or key in own or key.split(".")[0] in own:
            continue
        at = root
        *path, last = key.split(".")
        for name in path:
            at = at["properties"].setdefault(name, {"type": "object", "additionalProperties": False, "properties": {}})
        at["properties"][last] = option(row)
    return root


def closed(**properties: dict) -> dict:
    return {"type": "object", "additionalProperties": False, "properties": properties}


TEXT, FLAG = {"type": "string"}, {"type": "boolean"}
WATTS = {"type": ["string", "number"], "pattern": "^[0-9.]+[kMeE0-9]*$", "exclusiveMinimum": 0}
ZONE_TEXT = {"type": "string", "pattern": "^[ -~]*$", "maxLength": 127}
ZONE_VALUES = {"type": "object", "propertyNames": {"pattern": "^[-A-Za-z0-9_.]{1,63}$"},
               "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1e6}}
CAP = {"anyOf": [WATTS, closed(hard=WATTS, soft=WATTS)]}
OBJECTS = {"type": "array", "items": {"type": "object"}}
TEXTS = {"type": "array", "items": TEXT}
ANY = {"type": "object"}
MAP = {"type": "object", "additionalProperties": TEXT}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
COUNT = {"type": "integer", "minimum": 0, "maximum": 100}
NAME = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", "maxLength": 253}
INTERVAL = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}
SHARE = {"type": ["integer", "string"], "pattern": "^[0-9]+%?$", "minimum": 0}
IMAGE = closed(repository={"type": "string", "minLength": 1}, tag=TEXT,
               digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
               pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]})
POD = {"priorityClassName": NAME, "tolerations": OBJECTS, "nodeSelector": MAP, "affinity": ANY, "resources": ANY,
       "podAnnotations": MAP, "podLabels": MAP}
MORE = {"extraArgs": TEXTS, "extraEnv": OBJECTS}
MONITOR = closed(enabled=FLAG, interval=INTERVAL, labels=MAP)
USER = closed(user=TEXT, passwordKey=TEXT)


def schema(build: pathlib.Path) -> dict:
    programs = {name: config(build, program, own) for name, (program, own) in PROGRAMS.items()}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the kwatt chart"} | closed(
        **{"global": ANY},      # Helm's own, where this chart is a part of another
        image=IMAGE, imagePullSecrets=OBJECTS, nameOverride=NAME, fullnameOverride=NAME, commonLabels=MAP,
        agent=closed(enabled=FLAG, config=programs["agent"],
                     capabilities={"type": "array", "uniqueItems": True,
                                   "items": {"enum": ["BPF", "PERFMON", "DAC_READ_SEARCH", "SYS_ADMIN"]}},
                     hostSys={"type": "string", "pattern": "^/"}, hostProc={"type": "string", "pattern": "^/"}, modelsConfigMap=NAME,
                     hostRoot={"type": "string", "pattern": "^(/.*)?$"}, hostPID=FLAG,
                     updateStrategy=ANY, extraVolumes=OBJECTS, extraVolumeMounts=OBJECTS, **MORE, **POD),
        extender=closed(enabled=FLAG, replicas=COUNT, config=programs["extender"],
                        caps=closed(cluster=CAP, domains={"type": "object", "additionalProperties": CAP}),
                        zones=closed(unit=ZONE_TEXT, source=ZONE_TEXT, values=ZONE_VALUES, configMap=NAME),
                        service=closed(clusterIP={"type": "string", "pattern": "^[0-9a-fA-F.:]*$"}, port=PORT, annotations=MAP),
                        hostPort=closed(enabled=FLAG, port=PORT, hostIP={"type": "string", "pattern": "^[0-9a-fA-F.:]*$"}),
                        controlPlane=FLAG, podDisruptionBudget=closed(enabled=FLAG, maxUnavailable=SHARE),
                        antiAffinity={"enum": ["preferred", "required", "none"]}, topologySpreadConstraints=OBJECTS,
                        **MORE, **POD),
        recommender=closed(enabled=FLAG, replicas=COUNT, leaderElection=closed(enabled=FLAG),
                           podDisruptionBudget=closed(enabled=FLAG, maxUnavailable=SHARE), config=programs["recommender"], **MORE, **POD),
        tls=closed(enabled=FLAG, clientCertificates=FLAG, validityDays={"type": "integer", "minimum": 1, "maximum": 36500},
                   **dict.fromkeys(("agent", "extender", "recommender", "client"), closed(existingSecret=NAME))),
        redis=closed(enabled=FLAG, existingSecret=NAME, image=IMAGE,
                     persistence=closed(enabled=FLAG, size={"type": "string", "pattern": SIZE}, storageClass=TEXT,
                                        keepOnUninstall=FLAG),
                     maxMemory={"type": "string", "pattern": "^[0-9]+([kKmMgG][bB]?)?$"}, extraConfig=TEXT, **POD),
        externalRedis=closed(url={"type": "string", "pattern": REDIS_URL}, existingSecret=NAME, sentinel=USER,
                             tls=closed(existingSecret=NAME, caKey=TEXT, certKey=TEXT, keyKey=TEXT, serverName=TEXT),
                             agent=USER, extender=USER, recommender=USER, reader=USER),
        scheduler=closed(enabled=FLAG, schedulerName={**NAME, "minLength": 1}, image=IMAGE,
                         weight={"type": "integer", "minimum": 1, "maximum": 100}, httpTimeout=INTERVAL, filter=FLAG, tiers=FLAG,
                         replicas=COUNT, verbosity={"type": "integer", "minimum": 0, "maximum": 10}, **POD),
        rbac=closed(create=FLAG),
        serviceAccount=closed(create=FLAG, annotations=MAP),
        networkPolicy=closed(enabled=FLAG, apiServerPorts={"type": "array", "items": PORT}, metricsFrom=OBJECTS,
                             redisFrom=OBJECTS),
        monitoring=closed(annotations=FLAG, podMonitor=MONITOR, serviceMonitor=MONITOR,
                          dashboard=closed(enabled=FLAG, labels=MAP, annotations=MAP)),
        tests=closed(enabled=FLAG))


def text(build: pathlib.Path) -> str:
    return json.dumps(schema(build), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    write = "--write" in sys.argv
    words = [word for word in sys.argv[1:] if word != "--write"]
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 0 if words in (["-h"], ["--help"]) else 2
    made = text(pathlib.Path(words[0]))
    if write:
        SCHEMA.write_text(made)
    else:
        sys.stdout.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
