"""Certificates for tests, made by the very script that the project offers for it."""

import shutil
import ssl
from pathlib import Path

from bench.cluster import make_certificates
from coordinator.consensus import PeerCertificates


def make_certs(folder, *nodes, days=365):
    """A CA, kept if it is there, and new certificates of these nodes."""
    return make_certificates(folder, *nodes, days=days)


def files_of(folder, node, **names):
    return PeerCertificates(
        ca=str(folder / "ca.pem"),
        certificate=str(folder / f"{node}.pem"),
        private_key=str(folder / f"{node}.key"),
        names=names,
    )


def copy_of(folder, to):
    return Path(shutil.copytree(folder, to, dirs_exist_ok=True))


def client_context(folder, node=None, version=ssl.TLSVersion.TLSv1_3):
    """What a stranger with this certificate, or with none, connects with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if node is not None:
        context.load_cert_chain(folder / f"{node}.pem", folder / f"{node}.key")
    return context
