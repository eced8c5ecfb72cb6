"""TLS on the Raft port: who is let in, what strangers are told, and certificates that change."""

import asyncio
import contextlib
import os
import random
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.corpus import spoiled
from coordinator.consensus import ConsensusConfig, ConsensusError, ConsensusNode
from coordinator.consensus import link as link_module
from coordinator.consensus.certificates import Certificates, CertificatesRefused
from coordinator.consensus.handshake import Hello, Refusal, decode_hello, encode_hello
from coordinator.consensus.session import Session, Untrusted
from tests.consensus.certs import client_context, copy_of, files_of, make_certs
from tests.consensus.cluster import Cluster, Register
from tests.consensus.test_links import connect, framed, read_frame, said_until_closed
from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Members n1 to n3, n9 of the same CA that is no member, and a CA of somebody else's."""
    root = tmp_path_factory.mktemp("certs")
    make_certs(root / "own", "n1", "n2", "n3", "n9")
    make_certs(root / "foreign", "n1", "n2")
    return root


@pytest.fixture
def certs(made_once, tmp_path):
    return copy_of(made_once / "own", tmp_path / "own")


@pytest.fixture
def foreign(made_once):
    return made_once / "foreign"


class Secured(Cluster):
    """A cluster with certificates from a folder."""

    def __init__(self, folder, size=3, **settings):
        super().__init__(size, **settings)
        self.folder = folder

    def config(self, name, **changes):
        return super().config(name, **{"certificates": files_of(self.folder, name), **changes})


@contextlib.asynccontextmanager
async def lone(folder, **settings):
    """n1 of three with its certificate, the others played by the test."""
    made = Secured(folder, **settings)
    try:
        await made.boot("n1")
        yield made
    finally:
        await made.kill("n1")


async def connect_with(made, context):
    reader, writer = await connect(made)
    await writer.start_tls(context)
    return reader, writer


@pytest.fixture
def decoded(monkeypatch):
    """Every frame that anybody tried to decode."""
    frames = []

    def noted(decode):
        def noting(frame):
            frames.append(bytes(frame))
            return decode(frame)

        return noting

    for name in ("decode_hello", "decode_message"):
        monkeypatch.setattr(link_module, name, noted(getattr(link_module, name)))
    return frames


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_cluster_under_tls_commits_large_and_small_entries(run, certs):
    async def scenario():
        made = Secured(certs)
        try:
            for name in made.addresses:
                await made.boot(name)
            leader = await made.elected()
            sizes = (1, 16_383, 16_384, 16_385, 1 << 20)
            for place, size in enumerate(sizes, 1):
                assert await leader.propose(b"x" * size) == place
            await asyncio.gather(*(leader.propose(b"y") for _ in range(200)))
            await until(lambda: all(len(m.values) == 205 for m in made.machines.values()))
            links = [link for node in made.nodes.values() for link in node._links.up.values()]
            assert len(links) == 6
            assert {link._session._tls.version() for link in links} == {"TLSv1.3"}
            await made.kill("n1")
            await made.boot("n1")
            await until(lambda: len(made.machines["n1"].values) == 205)
        finally:
            await asyncio.gather(*(node.stop() for node in made.nodes.values()))

    run(scenario())


async def test_a_member_with_its_certificate_is_greeted(certs):
    async with lone(certs) as made:
        reader, writer = await connect_with(made, client_context(certs, "n2"))
        writer.write(framed(encode_hello(Hello("n2", "n1", None, "http://n2"))))
        assert decode_hello(await read_frame(reader)).name == "n1"
        assert made.nodes["n1"].status().has_quorum
        writer.close()
        await until(lambda: not made.nodes["n1"].status().has_quorum)


@pytest.mark.parametrize(
    "said",
    [
        framed(encode_hello(Hello("n2", "n1", None, ""))),
        b"\x16\x03\x01\x00\x04abcd",
        b"\x16\x03\x01\xff\xff" + b"a" * 70_000,
        b"GET / HTTP/1.1\r\n\r\n",
        os.urandom(256),
    ],
    ids=["plaintext hello", "half a handshake", "endless handshake", "http", "random"],
)
async def test_who_speaks_no_tls_gets_no_byte_and_is_not_decoded(certs, decoded, said):
    async with lone(certs) as made:
        made.nodes["n1"]._replica.link_policy.handshake_s = 0.5
        reader, writer = await connect(made)
        writer.write(said)
        assert await said_until_closed(reader) == b""
        assert decoded == []
        writer.close()


async def refused(made, context, hello):
    """What TLS lets through to whoever says hello with this certificate."""
    writer = None
    try:
        reader, writer = await connect_with(made, context)
        writer.write(framed(encode_hello(hello)))
        return await said_until_closed(reader)
    except (ssl.SSLError, ConnectionResetError):
        return b""
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(ssl.SSLError, ConnectionResetError):
                await writer.wait_closed()


async def test_nothing_is_decoded_from_a_peer_without_a_members_certificate(
    certs, foreign, decoded
):
    hello = Hello("n2", "n1", None, "")
    async with lone(certs) as made:
        assert await refused(made, client_context(certs), hello) == b""
        assert await refused(made, client_context(foreign, "n2"), hello) == b""
        assert await refused(made, client_context(certs, "n9"), hello) == b""
        # Its own certificate, stolen or not, makes nobody a peer of this node.
        assert await refused(made, client_context(certs, "n1"), hello) == b""
        assert decoded == []
        assert not made.nodes["n1"].status().has_quorum


async def test_a_member_cannot_speak_in_the_name_of_another(certs):
    async with lone(certs) as made:
        reader, writer = await connect_with(made, client_context(certs, "n2"))
        writer.write(framed(encode_hello(Hello("n3", "n1", None, ""))))
        refusal = decode_hello(await read_frame(reader))
        assert refusal == Refusal("the certificate shown is not for the name that was said")
        assert not made.nodes["n1"].status().has_quorum
        writer.close()


async def test_tls_below_1_3_is_refused(certs):
    async with lone(certs) as made:
        old = client_context(certs, "n2", ssl.TLSVersion.TLSv1_2)
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await connect_with(made, old)


async def test_a_dialler_says_nothing_to_whoever_is_not_the_member_it_dialled(certs, caplog):
    """n2 dials n1, and n3's certificate answers there."""
    made = Secured(certs)
    impostor = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    impostor.load_cert_chain(certs / "n3.pem", certs / "n3.key")
    heard = []

    async def answer(reader, writer):
        heard.append(await said_until_closed(reader))
        writer.close()

    host, port = made.addresses["n1"].split(":")
    server = await asyncio.start_server(answer, host, int(port), ssl=impostor)
    try:
        await made.boot("n2")
        await until(lambda: len(heard) > 1)
        assert set(heard) == {b""}
        assert "its certificate is for n3, not for n1" in caplog.text
        assert made.nodes["n2"]._links.up == {}
    finally:
        await made.kill("n2")
        server.close()
        await server.wait_closed()


async def test_a_dialler_is_told_why_its_certificate_was_refused(certs, foreign, caplog):
    """n2 has a certificate of another CA, but trusts both."""
    mixed = copy_of(certs, certs.parent / "mixed")
    for end in ("pem", "key"):
        shutil.copy(foreign / f"n2.{end}", mixed / f"n2.{end}")
    both = (certs / "ca.pem").read_bytes() + (foreign / "ca.pem").read_bytes()
    (mixed / "ca.pem").write_bytes(both)
    made = Secured(certs)
    try:
        await made.boot("n1")
        await made.boot("n2", certificates=files_of(mixed, "n2"))
        await until(lambda: "no TLS: tlsv1 alert unknown ca" in caplog.text)
        assert "certificate refused: " in caplog.text
        assert made.nodes["n1"]._links.up == {}
    finally:
        await asyncio.gather(*(node.stop() for node in made.nodes.values()))


async def test_members_with_and_without_tls_do_not_link(certs):
    made = Secured(certs)
    try:
        await made.boot("n1")
        await made.boot("n2", certificates=None)
        await made.boot("n3", certificates=None)
        await until(lambda: "n2" in made.nodes["n3"]._links.up)
        await asyncio.sleep(0.5)
        assert made.nodes["n1"]._links.up == {}
        assert list(made.nodes["n2"]._links.up) == ["n3"]
    finally:
        await asyncio.gather(*(node.stop() for node in made.nodes.values()))


async def test_a_stranger_that_never_ends_its_handshake_is_closed_in_time(certs):
    async with lone(certs) as made:
        made.nodes["n1"]._replica.link_policy.handshake_s = 0.4
        reader, writer = await connect(made)
        started = asyncio.get_running_loop().time()
        assert await said_until_closed(reader) == b""
        assert 0.3 < asyncio.get_running_loop().time() - started < 2.0
        writer.close()


async def test_strangers_in_a_handshake_count_and_members_still_get_in(certs):
    async with lone(certs) as made:
        strangers = [await connect(made) for _ in range(9)]
        assert await said_until_closed(strangers[0][0], 1.0) == b""
        reader, writer = await connect_with(made, client_context(certs, "n2"))
        writer.write(framed(encode_hello(Hello("n2", "n1", None, ""))))
        assert decode_hello(await read_frame(reader)).name == "n1"
        for _, stranger in [*strangers, (reader, writer)]:
            stranger.close()


async def test_a_port_off_loopback_needs_no_flag_under_tls(certs):
    made = Secured(certs, 1)
    made.addresses["n1"] = made.addresses["n1"].replace("127.0.0.1", "0.0.0.0")
    await made.boot("n1")
    await made.elected()
    await made.kill("n1")


# Certificates that change.


def serial_of(folder, node):
    shown = subprocess.run(
        ["openssl", "x509", "-in", folder / f"{node}.pem", "-noout", "-serial"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    )
    return shown.stdout.strip().removeprefix("serial=").lstrip("0")


async def serial_shown(made):
    """The serial number of the certificate that n1 shows to whoever connects now."""
    context = client_context(made.folder, "n2")
    context.load_verify_locations(made.folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    _, writer = await connect_with(made, context)
    shown = writer.get_extra_info("ssl_object").getpeercert()
    writer.close()
    return shown["serialNumber"].lstrip("0")


async def test_a_renewed_certificate_is_shown_on_new_links_and_old_links_stay(certs):
    async with lone(certs) as made:
        reader, writer = await connect_with(made, client_context(certs, "n3"))
        writer.write(framed(encode_hello(Hello("n3", "n1", None, ""))))
        await read_frame(reader)
        former = await serial_shown(made)
        assert former == serial_of(certs, "n1")
        make_certs(certs, "n1")
        renewed = serial_of(certs, "n1")
        assert renewed != former
        async with asyncio.timeout(5.0):
            while await serial_shown(made) != renewed:
                writer.write(framed(b"\x81\xa4type\xa4ping"))
                await asyncio.sleep(0.1)
        assert "n3" in made.nodes["n1"]._links.up
        writer.close()


async def test_a_half_renewed_certificate_leaves_the_former_in_use_until_it_is_whole(certs, caplog):
    new = make_certs(copy_of(certs, certs.parent / "new"), "n1")
    async with lone(certs) as made:
        former = serial_of(certs, "n1")
        shutil.copy(new / "n1.key", certs / "n1.key")
        await until(lambda: "certificates_kept" in caplog.text, 5.0)
        assert await serial_shown(made) == former
        shutil.copy(new / "n1.pem", certs / "n1.pem")
        made.nodes["n1"].refresh_certificates()
        assert await serial_shown(made) == serial_of(new, "n1") != former


async def test_a_ca_is_replaced_while_both_are_trusted(certs, foreign):
    """One bundle first, then the certificates, and the cluster links all the way."""
    own = (certs / "ca.pem").read_bytes()
    made = Secured(certs, 2)
    try:
        await made.boot("n1")
        await made.boot("n2")
        await made.elected()
        (certs / "ca.pem").write_bytes(own + (foreign / "ca.pem").read_bytes())
        for node in made.nodes.values():
            node.refresh_certificates()
        for name in ("n1", "n2"):
            for end in ("pem", "key"):
                shutil.copy(foreign / f"{name}.{end}", certs / f"{name}.{end}")
            made.nodes[name].refresh_certificates()
            made.nodes[name]._links.sever()
            leader = await made.elected()
            await leader.propose(name.encode())
    finally:
        await asyncio.gather(*(node.stop() for node in made.nodes.values()))


# Files that cannot be used.


def unusable(certs, what):
    own = files_of(certs, "n1")
    match what:
        case "readable key":
            Path(own.private_key).chmod(0o640)
        case "no key":
            Path(own.private_key).unlink()
        case "another key":
            shutil.copy(certs / "n2.key", own.private_key)
        case "no ca":
            Path(own.ca).write_text("nothing")
        case "another ca":
            shutil.copy(certs.parent / "foreign.pem", own.ca)
        case "another name":
            return files_of(certs, "n2")
        case "ended":
            make_certs(certs, "n1", days=-1)
        case "password":
            subprocess.run(
                ["openssl", "ec", "-in", own.private_key, "-aes256", "-passout", "pass:x",  # noqa: S607
                 "-out", own.private_key],
                check=True, capture_output=True, timeout=10,
            )  # fmt: skip
            Path(own.private_key).chmod(0o600)
    return own


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("readable key", r"n1\.key can be read by others \(mode 0640\): chmod 600"),
        ("no key", r"n1\.key: No such file"),
        ("another key", r"n1\.key: key values mismatch"),
        ("no ca", r"ca\.pem: .*it must hold the CA"),
        ("another ca", r"does not pass its own check against .*ca\.pem: certificate refused"),
        ("another name", r"n2\.pem is for n2: its subjectAltName needs DNS:n1"),
        ("ended", r"certificate has expired"),
        ("password", r"private key has a password"),
    ],
)
async def test_a_node_does_not_start_with(certs, foreign, what, told):
    shutil.copy(foreign / "ca.pem", certs.parent / "foreign.pem")
    config = ConsensusConfig(
        name="n1",
        peers={"n1": "127.0.0.1:1"},
        api_url="",
        certificates=unusable(certs, what),
    )
    node = ConsensusNode(config, Register(), rng=random.Random(1))
    with pytest.raises(ConsensusError, match=told):
        await node.start()


def test_a_member_may_have_another_name_in_its_certificate(certs):
    made = Certificates(files_of(certs, "n9", n1="N9"), "n1")
    assert made.name_of("n1") == "n9"
    assert made.name_of("n2") == "n2"
    with pytest.raises(CertificatesRefused, match="needs DNS:other"):
        Certificates(files_of(certs, "n9", n1="other"), "n1")


def test_a_certificate_near_its_end_is_told_once_a_day(certs, caplog):
    now = [0.0]
    made = Certificates(files_of(certs, "n1"), "n1", wall=lambda: now[0])
    made.refresh()
    assert "certificate_ends" not in caplog.text
    now[0] = made.ends_at_s - 3 * 86_400
    for _ in range(5):
        made.refresh()
        now[0] += 3_600
    assert caplog.text.count("days_left=3.0") == caplog.text.count("certificate_ends") == 1
    now[0] += 86_400
    made.refresh()
    assert caplog.text.count("certificate_ends") == 2


def test_a_session_without_the_peers_certificate_ends_with_an_alert_only_after_it_spoke(certs):
    made = Certificates(files_of(certs, "n1"), "n1")
    with pytest.raises(Untrusted) as strange:
        made.session(is_server=True).receive(b"x" * 100)
    assert strange.value.answer == b""
    context = client_context(certs)
    context.load_verify_locations(certs / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    stranger = Session(context, is_server=False)
    acceptor = made.session(is_server=True)
    _, answer = acceptor.receive(stranger.begin())
    _, flight = stranger.receive(answer)
    with pytest.raises(Untrusted, match="peer did not return a certificate") as honest:
        acceptor.receive(flight)
    assert honest.value.answer != b""
    assert acceptor.names is None


@pytest.fixture(scope="session")
def acceptor_of(made_once):
    return Certificates(files_of(made_once / "own", "n1"), "n1")


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_bytes_of_a_stranger_are_half_a_handshake_or_untrusted(acceptor_of, data):
    """Junk, and a dialler's true first flight with something wrong in it."""
    flight = acceptor_of.session(is_server=False).begin()
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    said = data.draw(st.sampled_from((data.draw(st.binary(max_size=200)), spoiled(flight, rng))))
    acceptor = acceptor_of.session(is_server=True)
    told = opened = b""
    try:
        opened, _ = acceptor.receive(said)
    except Untrusted as error:
        told = error.answer
    assert (told, opened, acceptor.names) == (b"", b"", None)
