# SPDX-License-Identifier: Apache-2.0
"""What tests do with an API server, whoever started it: requests, manifests, service accounts."""
import http.client
import json
import pathlib
import ssl

from pki import Authority
from process import Failure, build, wait_for


class KubeApi:
    """Base of what owns an API server. It has `dir`, `authority` and `url`, and says how kubectl and connections get there."""

    dir: pathlib.Path
    authority: Authority
    url: str
    connection: http.client.HTTPSConnection | None = None

    def connect(self, timeout: float) -> http.client.HTTPSConnection:
        raise NotImplementedError

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        raise NotImplementedError

    def admin(self) -> ssl.SSLContext:
        pki = self.authority.folder
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
        return context

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def ready(self) -> bool:
        """Whether the server says so; OSError where it does not answer."""
        connection = self.connect(5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().read() == b"ok"
        except http.client.HTTPException as error:
            raise OSError(f"/readyz: {error}") from error
        finally:
            connection.close()

    def text(self, method: str, path: str, body: object = None, kind: str = "application/json") -> str:
        """One request as admin on a connection that is kept. Raises Failure on any status but 2xx, OSError without a server."""
        kept = self.connection is not None
        try:
            return self.text_once(method, path, body, kind)
        except OSError:
            if not kept:
                raise
        return self.text_once(method, path, body, kind)     # the server closes connections that rested for long

    def text_once(self, method: str, path: str, body: object, kind: str) -> str:
        if self.connection is None:
            self.connection = self.connect(60)
        try:
            self.connection.request(method, path, None if body is None else json.dumps(body),
                                    {"Content-Type": kind, "Accept": "application/json, */*"})
            answer = self.connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            raise OSError(f"{method} {path}: {error}") from error
        if not 200 <= answer.status < 300:
            raise Failure(f"{method} {path}: {answer.status} {text}")
        return text

    def request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> dict:
        """As text(), decoded."""
        return json.loads(self.text(method, path, body, kind))

    def apply(self, manifest: str | pathlib.Path | list[dict]) -> str:
        """Text, a file, or objects."""
        if isinstance(manifest, list):
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifest})
        else:
            text = manifest.read_text() if isinstance(manifest, pathlib.Path) else manifest
        # server-side: no annotation of the size of the object, which the VPA's CRD is too large for
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def apply_vpa_crd(self) -> None:
        self.apply(build.vpa_crd())
        for kind in ("verticalpodautoscalers", "verticalpodautoscalercheckpoints"):
            # not by `kubectl wait`, which fails where a new object has no conditions yet
            self.until(f"the API to serve {kind}", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.autoscaling.k8s.io",
                       lambda crd: any(c["type"] == "Established" and c["status"] == "True"
                                       for c in crd.get("status", {}).get("conditions") or []))

    def service_account(self, name: str, rules: list[dict], namespace: str = "kube-system") -> str:
        """A service account with these cluster-wide RBAC rules. Returns a kubeconfig that names its token by tokenFile."""
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        self.apply([
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
            {**role, "kind": "ClusterRole", "rules": rules},
            {**role, "kind": "ClusterRoleBinding", "subjects": [subject],
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}])
        return self.account_kubeconfig(name, namespace)

    def account_kubeconfig(self, name: str, namespace: str = "kube-system") -> str:
        """A kubeconfig of a service account that exists."""
        self.renew_token(name, namespace)
        return self.authority.kubeconfig(self.dir / f"{name}.kubeconfig", self.url, {"tokenFile": f"{name}.token"})

    def renew_token(self, name: str, namespace: str = "kube-system") -> None:
        """Replaces NAME.token at once, as the kubelet does with a projected token."""
        token = self.kubectl("create", "token", name, "-n", namespace, "--duration=1h")
        temporary = self.dir / f"{name}.token.new"
        temporary.touch(mode=0o600)
        temporary.write_text(token.strip())
        temporary.rename(self.dir / f"{name}.token")

    def until(self, what: str, path: str, test):
        """Waits until test(object at path) is true, and returns what it returned."""
        return wait_for(what, lambda: test(self.request("GET", path)))
