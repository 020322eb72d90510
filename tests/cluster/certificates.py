"""The control plane's own certificate authority, and the kubeconfigs of those it vouches for.

Users exist for the API server only as subjects of certificates: the common name is the user, the
organisations are the groups. So a new user is a new certificate, and nothing is stored anywhere.
Which users a test needs is the test's business.
"""

import base64
import ipaddress
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        write_private(key, self.key)
        return certificate, key


class Authority:
    """A certificate authority that lives as long as this object: its key is on no disk."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name)
        builder = _certificate(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def issue_server(self, name: str, addresses: Iterable[str], hosts: Iterable[str]) -> Identity:
        names = x509.SubjectAlternativeName(
            [
                *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
                *(x509.DNSName(host) for host in hosts),
            ]
        )
        return self._issue(_subject(name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> Identity:
        return self._issue(_subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None = None,
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(subject, self._name, key.public_key())
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        # Newer Pythons verify strictly: they refuse a certificate that does not name the key which
        # signed it.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return Identity(certificate, _private_pem(key))


class Pki:
    """The files that the API server reads, and the users that it will believe."""

    ADMIN = "kandev-test-admin"

    def __init__(self, folder: Path, addresses: Iterable[str], hosts: Iterable[str]) -> None:
        folder.mkdir(mode=0o700)
        self.authority = Authority("kandev-test-authority")
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(self.authority.certificate)
        server = self.authority.issue_server("kube-apiserver", addresses, hosts)
        self.server_files = server.write(folder, "apiserver")
        self.admin = self.authority.issue_client(self.ADMIN, ["system:masters"])
        self.admin_files = self.admin.write(folder, "admin")
        private, public = signing_key()
        self.token_key_file, self.token_public_file = folder / "sa.key", folder / "sa.pub"
        write_private(self.token_key_file, private)
        self.token_public_file.write_bytes(public)


def signing_key() -> tuple[bytes, bytes]:
    """Return a private and a public key, in PEM, for the tokens of service accounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return _private_pem(key), public


def write_kubeconfig(path: Path, server: str, authority: bytes, user: str, who: Identity) -> None:
    """Write a kubeconfig that needs no other file. It is JSON, which is YAML too."""
    name = "kandev-test"
    cluster = {"server": server, "certificate-authority-data": _text(authority)}
    credentials = {
        "client-certificate-data": _text(who.certificate),
        "client-key-data": _text(who.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    write_private(path, json.dumps(document, indent=2).encode())


def write_private(path: Path, content: bytes) -> None:
    """Write a file that was never readable by others, not even for a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCK_SKEW,
        not_valid_after=now + _VALID,
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _subject(name: str, groups: Sequence[str] = ()) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
