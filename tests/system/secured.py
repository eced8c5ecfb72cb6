"""Real nodes as they are run between machines: TLS on both ports, tokens made by the command."""

import contextlib
import ssl
import subprocess
import sys

import aiohttp

from bench.cluster import Nodes
from tests.consensus.certs import make_certs

API_NAME = "localhost"
PROGRAM_S = 50


def run_program(*words, **options):
    """The program `shard-coordinator` with these words."""
    return subprocess.run(
        [sys.executable, "-m", "coordinator", *words],
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
        **options,
    )


class SecuredNodes(Nodes):
    """Nodes with a folder of certificates and tokens; asks go with the token `boss`."""

    def __init__(self, folder, processes, size=3, *, log_format="text"):
        super().__init__(folder, processes, size, has_journal=True)
        self.folder = folder
        self.log_format = log_format
        self.tokens = folder / "tokens.toml"
        self.secrets = {}
        self.lines = {}
        self.certs = make_certs(folder / "certs", *self.names, API_NAME)
        self.api = {
            name: url.replace("http://127.0.0.1", f"https://{API_NAME}")
            for name, url in self.api.items()
        }
        self.add("boss", "--role", "operator")

    def add(self, label, *words):
        """A token of this label, made by the command, and known to nodes from now on."""
        path = self.folder / f"{label}.token"
        made = run_program("token", "new", "--label", label, "--out", str(path), *words)
        assert made.returncode == 0, made.stderr
        self.secrets[label] = path.read_text().strip()
        assert self.secrets[label] not in made.stdout + made.stderr
        self.lines[label] = made.stdout
        self.write()
        return path

    def withdraw(self, label):
        del self.lines[label]
        self.write()

    def write(self, spoilt=""):
        self.tokens.write_text("[tokens]\n" + "".join(self.lines.values()) + spoilt)
        self.tokens.chmod(0o640)

    def config(self, name):
        path = super().config(name)
        text, certs = path.read_text(), self.certs
        bind = self.api[name].replace(f"https://{API_NAME}", "127.0.0.1")
        text = text.replace(
            f'bind = "{self.api[name]}"', f'bind = "{bind}"\nadvertised_url = "{self.api[name]}"'
        )
        path.write_text(
            f"{text}[security]\n"
            f'peer_ca = "{certs}/ca.pem"\npeer_certificate = "{certs}/{name}.pem"\n'
            f'peer_key = "{certs}/{name}.key"\ntokens_file = "{self.tokens}"\n'
            f'api_certificate = "{certs}/{API_NAME}.pem"\napi_key = "{certs}/{API_NAME}.key"\n'
            f'api_ca = "{certs}/ca.pem"\n'
            f'[log]\nlevel = "debug"\nformat = "{self.log_format}"\n'
        )
        return path

    @property
    def tls(self):
        return ssl.create_default_context(cafile=self.certs / "ca.pem")

    @contextlib.asynccontextmanager
    async def running(self):
        """Started and ready; connections are released at the end, processes by `Processes`."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self.tls),
            headers={"Authorization": f"Bearer {self.secrets['boss']}"},
        )
        try:
            await self.start_all()
            yield self
        finally:
            await self.close()
