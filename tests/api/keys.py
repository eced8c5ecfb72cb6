"""Files of tokens for tests: what each bearer is to be, and the secrets that were made for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator.api.tokens import digest_of, minted


class Keys:
    """A file of tokens that grows and shrinks; `keys["label"]` is a secret."""

    def __init__(self, folder: Path, **lines: Mapping[str, Any]) -> None:
        self.path = folder / "tokens.toml"
        self.secrets: dict[str, str] = {}
        self._lines: dict[str, str] = {}
        self.write()
        for label, fields in lines.items():
            self.add(label, **fields)

    def __getitem__(self, label: str) -> str:
        return self.secrets[label]

    def add(self, label: str, **fields: Any) -> str:
        secret = minted()
        self.secrets[label] = secret
        told = {"sha256": digest_of(secret).hex(), **fields}
        self._lines[label] = ", ".join(f"{key} = {toml(value)}" for key, value in told.items())
        self.write()
        return secret

    def withdraw(self, label: str) -> None:
        del self._lines[label]
        self.write()

    def write(self) -> None:
        lines = [f'"{label}" = {{ {fields} }}\n' for label, fields in self._lines.items()]
        self.path.write_text("[tokens]\n" + "".join(lines))
        self.path.chmod(0o600)

    @property
    def settings(self) -> str:
        return f'[security]\ntokens_file = "{self.path}"\n'

    def bearer(self, label: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self[label]}"}


def toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
