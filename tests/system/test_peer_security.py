"""Real nodes under TLS: they serve, take renewed certificates, and give strangers nothing."""

import asyncio
import shutil
import signal

import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from tests.consensus.certs import make_certs
from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


class SecuredNodes(Nodes):
    """Nodes whose Raft ports have certificates from a folder."""

    def config(self, name):
        path = super().config(name)
        certs = path.parent / "certs"
        with path.open("a") as file:
            file.write(
                f'[security]\npeer_ca = "{certs}/ca.pem"\n'
                f'peer_certificate = "{certs}/{name}.pem"\npeer_key = "{certs}/{name}.key"\n'
            )
        return path


async def heard_of(address, said):
    """All that the port answers to these bytes."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(said)
    try:
        async with asyncio.timeout(5.0):
            return await reader.read(-1)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_cluster_under_tls_serves_renews_its_certificates_and_is_deaf_to_strangers(
    tmp_path,
):
    make_certs(tmp_path / "certs", "n1", "n2", "n3")
    async with Processes(tmp_path) as processes:
        nodes = SecuredNodes(tmp_path, processes)
        try:
            await nodes.start_all()
            await nodes.first_write("before")
            for address in nodes.raft.values():
                assert await heard_of(address, b"\x80\x04\x95" + b"x" * 200) == b""
            make_certs(tmp_path / "certs", "n1", "n2", "n3")
            for name in nodes.names:
                processes.send(name, signal.SIGHUP)
                log = tmp_path / f"{name}.log"
                await until(lambda log=log: "certificates_read" in log.read_text())
            # A restarted node links with renewed certificates only.
            await nodes.kill("n3")
            await nodes.first_write("meanwhile")
            await nodes.start("n3")
            await nodes.ready(["n3"])
            await nodes.first_write("after")
        finally:
            await nodes.close()


async def test_a_node_whose_key_others_can_read_says_so_and_does_not_start(tmp_path):
    make_certs(tmp_path / "certs", "n1")
    (tmp_path / "certs" / "n1.key").chmod(0o644)
    async with Processes(tmp_path) as processes:
        nodes = SecuredNodes(tmp_path, processes, 1)
        await nodes.start("n1")
        assert await processes.finish("n1", 20.0) == 1
        assert "can be read by others (mode 0644): chmod 600" in (tmp_path / "n1.log").read_text()
