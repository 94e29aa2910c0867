# SPDX-License-Identifier: Apache-2.0
"""A certificate authority for tests, and the kubeconfigs that use it."""
import base64
import json
import pathlib

from process import call, need

DAYS = "30"     # somebody may play with a cluster for a while
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]   # made in a millisecond


class Authority:
    """Keys and certificates as FOLDER/NAME.key and FOLDER/NAME.crt; the authority's own is `ca`."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.openssl = need("openssl", "openssl")

    def make(self) -> None:
        """The authority, and the key pair that signs service account tokens (sa.key, sa.pub)."""
        self.folder.mkdir(mode=0o700)
        call([self.openssl, "req", "-x509", *KEY, "-keyout", self.folder / "ca.key", "-out", self.folder / "ca.crt",
              "-subj", "/CN=kwatt-e2e-ca", "-days", DAYS])
        call([self.openssl, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.folder / "sa.key"])
        call([self.openssl, "ec", "-in", self.folder / "sa.key", "-pubout", "-out", self.folder / "sa.pub"])

    def certificate(self, name: str, subject: str, san: str) -> None:
        key, request, extensions = (self.folder / f"{name}.{end}" for end in ("key", "csr", "ext"))
        extensions.write_text(f"subjectAltName={san}\nextendedKeyUsage=serverAuth,clientAuth\n")
        call([self.openssl, "req", *KEY, "-keyout", key, "-out", request, "-subj", subject])
        call([self.openssl, "x509", "-req", "-in", request, "-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key",
              "-CAcreateserial", "-out", self.folder / f"{name}.crt", "-days", DAYS, "-extfile", extensions])

    def bundle(self) -> str:
        """The authority's certificate as Kubernetes' objects hold it."""
        return base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()

    def kubeconfig(self, path: str | pathlib.Path, url: str, user: dict) -> str:
        """JSON is YAML. The CA is inline, so that the file alone is enough."""
        pathlib.Path(path).write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e", "preferences": {},
            "clusters": [{"name": "e2e", "cluster": {"server": url, "certificate-authority-data": self.bundle()}}],
            "users": [{"name": "e2e", "user": user}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}]}, indent=1) + "\n")
        return str(path)

    def key_pair(self, name: str) -> dict:
        """The user of a kubeconfig that has this certificate, with the key inline."""
        def inline(end: str) -> str:
            return base64.b64encode((self.folder / f"{name}.{end}").read_bytes()).decode()
        return {"client-certificate-data": inline("crt"), "client-key-data": inline("key")}
