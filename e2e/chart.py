# SPDX-License-Identifier: Apache-2.0
"""The chart as tests see it: helm, and the values that every switch of it is tried with."""
import json
import os
import pathlib
import subprocess
import tempfile

from process import Failure, build

CHART = build.ROOT / "charts/kwatt"
BUILD = pathlib.Path(os.environ.get("KWATT_BUILD_DIR", build.ROOT / "build/debug")).resolve()
NAMESPACE = "kwatt"
RELEASE = "kwatt"

PEER = [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}]
TOLERATION = [{"key": "dedicated", "operator": "Exists"}]
# What a user might set, one switch at a time and some together; chart_test.py checks that no switch is missing.
CASES: dict[str, dict] = {
    "default": {},
    "names": {"nameOverride": "watts", "commonLabels": {"team": "green"}, "imagePullSecrets": [{"name": "registry"}]},
    "full-name": {"fullnameOverride": "energy", "image.repository": "registry.example/kwatt", "image.digest": "sha256:" + "a" * 64},
    "no-agent": {"agent.enabled": False},
    "no-extender": {"extender.enabled": False},
    "no-recommender": {"recommender.enabled": False},
    "agent": {"agent.config": {"interval": "1s", "meter": "model", "idleWatts": 95.5, "cgroupRoot": "/kubepods"},
              "agent.priorityClassName": "", "agent.tolerations": TOLERATION, "agent.nodeSelector": {"power": "measured"},
              "agent.extraArgs": ["--cgroup-root=/nodes/$(KWATT_NODE_NAME)"], "agent.podLabels": {"a": "b"},
              "agent.podAnnotations": {"c": "d"}, "agent.extraEnv": [{"name": "KWATT_LOG_LEVEL", "value": "debug"}],
              "agent.extraVolumes": [{"name": "meter", "hostPath": {"path": "/var/meter"}}],
              "agent.extraVolumeMounts": [{"name": "meter", "mountPath": "/meter", "readOnly": True}]},
    "pods-of-kubelet": {"agent.config": {"pods": "kubelet", "podLabels": "team", "kubelet": {"ca": "/host/pki/kubelet.crt"}}},
    "pods-of-api": {"agent.config": {"pods": "api"}},
    "no-pods": {"agent.config": {"pods": "off"}},
    "models": {"agent.modelsConfigMap": "power-models", "agent.config": {"model": "/etc/kwatt/models/rack.json"}},
    "beside-kubernetes": {"agent.hostRoot": "/", "agent.hostPID": True},
    "enforced-cap": {"agent.config": {"enforceCap": {"watts": 250.5}}},
    "no-cap": {"agent.config": {"enforceCap": {"watts": 0}}},
    "processes": {"agent.config": {"metricsProcesses": 500}},
    "old-kernel": {"agent.capabilities": ["SYS_ADMIN", "DAC_READ_SEARCH"]},
    "extender": {"extender.replicas": 3, "extender.service.clusterIP": "10.0.0.90", "extender.antiAffinity": "required",
                 "extender.config": {"threads": 4, "redis": {"timeout": "1s"}, "defaultCpuMcpu": 1000000, "maxBody": "64Mi"},
                 "extender.tolerations": TOLERATION, "extender.service.annotations": {"a": "b"}},
    "no-watch": {"extender.config": {"watchPods": False}},
    "caps": {"extender.config": {"watchPods": False, "watchNodes": True, "writeHeadroom": True, "events": True, "capSoftPermille": 800},
             "extender.caps": {"cluster": "40k", "domains": {"dc1/row2": 16000, "dc1/row2/rack7": {"hard": 8000, "soft": 7000}}}},
    "zones": {"extender.config": {"watchNodes": True}, "extender.zones": {
        "unit": "gCO2eq/kWh", "source": "grid operator, week 48", "values": {"eu-north-1": 25.5, "eu-central-1": 380, "x": 1000000}}},
    "zones-of-a-job": {"extender.config": {"watchNodes": True}, "extender.zones": {"configMap": "carbon"}},
    "host-port": {"extender.hostPort.enabled": True, "extender.controlPlane": True, "extender.podDisruptionBudget.enabled": False,
                  "extender.antiAffinity": "none"},
    "recommender": {"recommender.replicas": 3, "recommender.podDisruptionBudget.enabled": False,
                    "recommender.config": {"interval": "30s", "vpaObjectNamespace": "default", "recommenderName": "watts",
                                           "leaderElection": {"leaseDuration": "30s", "renewDeadline": "20s"}}},
    "recommender-alone": {"recommender.replicas": 1, "recommender.leaderElection.enabled": False},
    "memory-only": {"redis.persistence.enabled": False, "redis.extraConfig": "maxclients 20000\ntimeout 0\n"},
    "keep": {"redis.persistence.keepOnUninstall": True, "redis.persistence.storageClass": "fast", "redis.maxMemory": "1gb"},
    "existing-secret": {"redis.existingSecret": "mine"},
    "external": {"redis.enabled": False, "externalRedis.url": "redis://redis.example:6380/2", "externalRedis.existingSecret": "mine",
                 "externalRedis.agent": {"user": "a", "passwordKey": "a-key"},
                 "externalRedis.extender": {"user": "", "passwordKey": "b-key"}},
    "external-tls": {"redis.enabled": False, "externalRedis.url": "rediss://redis.example", "externalRedis.tls.existingSecret": "cert",
                     "externalRedis.tls.caKey": "ca.crt", "externalRedis.tls.certKey": "tls.crt", "externalRedis.tls.keyKey": "tls.key",
                     "externalRedis.tls.serverName": "redis.internal"},
    "external-sentinel": {"redis.enabled": False, "externalRedis.existingSecret": "mine", "externalRedis.tls.existingSecret": "cert",
                          "externalRedis.url": "rediss+sentinel://s-0.s,s-1.s:26380,[fd00::1]/mymaster/1",
                          "externalRedis.agent": {"user": "a", "passwordKey": "a-key"}, "externalRedis.tls.caKey": "ca",
                          "externalRedis.sentinel": {"user": "watcher", "passwordKey": "s-key"}},
    "scheduler": {"scheduler.enabled": True},
    "scheduler-filter": {"scheduler.enabled": True, "scheduler.filter": True, "scheduler.weight": 5, "scheduler.replicas": 2,
                         "scheduler.image.tag": "v1.30.0"},
    "tiers": {"scheduler.enabled": True, "scheduler.tiers": True, "extender.config": {
        "watchNodes": True, "powerTiers": {"enabled": True, "perSecond": 20, "every": "120s", "mcpu": 500},
        "leaderElection": {"leaseDuration": "30s", "renewDeadline": "20s"}}},
    "no-accounts": {"serviceAccount.create": False, "rbac.create": False, "scheduler.enabled": True},
    "tls": {"tls.enabled": True, "scheduler.enabled": True, "extender.service.clusterIP": "10.0.0.90", "monitoring.annotations": True},
    "tls-server-only": {"tls.enabled": True, "tls.clientCertificates": False, "monitoring.podMonitor.enabled": True,
                        "extender.hostPort.enabled": True, "tls.validityDays": 90},
    "tls-existing": {"tls.enabled": True, "monitoring.serviceMonitor.enabled": True, "tls.agent.existingSecret": "a",
                     "tls.extender.existingSecret": "e", "tls.recommender.existingSecret": "r", "tls.client.existingSecret": "c"},
    "open-network": {"networkPolicy.enabled": False},
    "closed-network": {"networkPolicy.metricsFrom": PEER, "networkPolicy.redisFrom": PEER, "networkPolicy.apiServerPorts": [16443]},
    "annotations": {"monitoring.annotations": True},
    "pod-monitor": {"monitoring.podMonitor.enabled": True, "monitoring.podMonitor.labels": {"release": "prometheus"}},
    "service-monitor": {"monitoring.serviceMonitor.enabled": True},
    "dashboard": {"monitoring.dashboard.enabled": True},
    "no-tests": {"tests.enabled": False},
}


def programs() -> list[pathlib.Path]:
    return [BUILD / "cli/kwatt", BUILD / "node-agent/kwatt-node-agent", BUILD / "extender/kwatt-extender",
            BUILD / "vpa-recommender/kwatt-vpa-recommender"]


class Helm:
    """helm with folders of its own, and no cluster unless a kubeconfig is given."""

    def __init__(self, folder: pathlib.Path, kubeconfig: str = ""):
        self.program = build.programs("helm", "helm") / "helm"
        self.folder = folder
        self.env = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "KUBECONFIG": kubeconfig or str(folder / "none")}

    def call(self, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run([str(self.program), *map(str, words)], env=self.env, capture_output=True, text=True,
                              check=False, timeout=300)

    def run(self, *words: object) -> str:
        done = self.call(*words)
        if done.returncode:
            raise Failure(f"helm {' '.join(map(str, words[:2]))}: {done.stdout}{done.stderr}")
        return done.stdout

    def values(self, case: dict) -> list[str]:
        """Options that give a case's values: a file (JSON is YAML), as a user would."""
        nested: dict = {}
        for path, value in case.items():
            at = nested
            *names, last = path.split(".")
            for name in names:
                at = at.setdefault(name, {})
            at[last] = value
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".yaml", delete=False) as file:
            json.dump(nested, file)
        return ["--values", file.name]

    def template(self, case: dict, *more: str) -> subprocess.CompletedProcess:
        return self.call("template", RELEASE, CHART, "--namespace", NAMESPACE, *self.values(case), *more)

    def rendered(self, case: dict, *more: str) -> str:
        done = self.template(case, *more)
        if done.returncode:
            raise Failure(f"helm template of {case}: {done.stderr}")
        return done.stdout
