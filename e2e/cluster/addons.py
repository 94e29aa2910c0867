# SPDX-License-Identifier: Apache-2.0
"""What clusters have beside the control plane, as processes: metrics-server, and the stock VPA programs."""
from process import build

METRICS_PORT, WEBHOOK_PORT = 4443, 8944
STOCK_URL = "http://127.0.0.1:8942"     # of the stock recommender's metrics, in the cluster's network
VPA_PROGRAMS = ("recommender", "updater", "admission-controller")


def start_metrics_server(cluster) -> None:
    """Behind the API server as metrics.k8s.io. It scrapes as often as it can be told to."""
    programs = build.programs("metrics-server")
    host, service = cluster.address(0, 1), "metrics-server.kube-system.svc"
    cluster.authority.certificate("metrics-server", f"/CN={service}", f"DNS:{service}")
    kubeconfig = cluster.dir / "admin.kubeconfig"
    cluster.control.spawn("metrics-server", [
        programs / "metrics-server", f"--secure-port={METRICS_PORT}", f"--bind-address={host}",
        "--metric-resolution=10s", "--kubelet-request-timeout=9s",
        # node names do not resolve, and the kubelets' certificates are of this cluster's own authority
        "--kubelet-preferred-address-types=InternalIP", f"--kubelet-certificate-authority={cluster.authority.folder}/ca.crt",
        f"--tls-cert-file={cluster.authority.folder}/metrics-server.crt",
        f"--tls-private-key-file={cluster.authority.folder}/metrics-server.key",
        *(f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-"))])
    cluster.outside_service("kube-system", "metrics-server", host, {"https": ("TCP", METRICS_PORT)})
    cluster.apply([{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.metrics.k8s.io"},
                    "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                             "caBundle": cluster.authority.bundle(),
                             "service": {"name": "metrics-server", "namespace": "kube-system", "port": METRICS_PORT}}}])


def start_vpa(cluster) -> None:
    """Recommender, updater and admission controller under their own roles. They look often, and at young pods too."""
    programs = build.programs("vpa", *VPA_PROGRAMS)
    pki, host = cluster.authority.folder, cluster.address(0, 1)
    cluster.apply_vpa_crd()
    # one file has the roles of all three, but the account of one
    cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"vpa-{name}", "namespace": "kube-system"}}
                   for name in VPA_PROGRAMS])
    cluster.apply(build.source("vpa", "deploy/vpa-rbac.yaml")[0])
    cluster.authority.certificate("vpa-webhook", "/CN=vpa-webhook", f"IP:{host}")
    for name, options in {
            "recommender": ["--recommender-interval=2s", "--storage=checkpoint", f"--address={STOCK_URL.removeprefix('http://')}"],
            "updater": ["--updater-interval=2s", "--min-replicas=1", "--in-recommendation-bounds-eviction-lifetime-threshold=1s",
                        "--address=127.0.0.1:8943"],
            "admission-controller": ["--register-by-url=true", f"--webhook-address=https://{host}", f"--webhook-port={WEBHOOK_PORT}",
                                     f"--port={WEBHOOK_PORT}", f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/vpa-webhook.crt",
                                     f"--tls-private-key={pki}/vpa-webhook.key", "--address=127.0.0.1:8945"]}.items():
        cluster.control.spawn(f"vpa-{name}", [programs / name, "--kubeconfig", cluster.account_kubeconfig(f"vpa-{name}"),
                                              "--v=2", *options])
