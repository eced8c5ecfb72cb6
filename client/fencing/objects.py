"""A fence in an object store with conditional puts (S3, GCS, Azure, MinIO: `If-Match`).

Decides how an object carries its epoch, and what to do when somebody else was faster. It must not
know any store's client. There is no transaction over two objects, so each carries an epoch of its
own: a new owner takes over each object that it reads (`take_over`), which is what keeps the former
one from writing to it afterwards.
"""

from typing import Final, Protocol

from client.errors import Contended
from client.fencing.tokens import Owned, Token, fenced_out

_MARK: Final = b"epoch "
_DIGITS_MAX: Final = 16  # an epoch is below 2^53
# Each lost race means that somebody else wrote: the former owner's last write, or our own retry.
TRIES_MAX: Final = 5


class ConditionalObjects(Protocol):
    """What is needed of an object store."""

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Body and ETag, or None when there is no such object."""
        ...

    def put(self, name: str, body: bytes, etag: str | None) -> bool:
        """Write if the object still has this ETag (None: if there is none); False if not."""
        ...


def sealed(token: Owned, payload: bytes) -> bytes:
    """The body of an object that was written under this token."""
    return b"%s%d\n%s" % (_MARK, token.epoch, payload)


def opened(body: bytes) -> tuple[int, bytes]:
    """Epoch and payload of a body; an object from before there was a fence has epoch 0."""
    line, newline, payload = body.partition(b"\n")
    digits = line.removeprefix(_MARK)
    is_sealed = line.startswith(_MARK) and newline and len(digits) <= _DIGITS_MAX
    return (int(digits), payload) if is_sealed and digits.isdigit() else (0, body)


def take_over(objects: ConditionalObjects, name: str, owned: Owned) -> bytes | None:
    """The payload of an object that lower epochs cannot write to any more; None without one.

    What does not exist yet cannot be taken over: create it with `put`, which a former owner's
    creation then does not overwrite.
    """
    token = Token.of(owned)
    for _ in range(TRIES_MAX):
        found = objects.get(name)
        if found is None:
            return None
        body, etag = found
        epoch, payload = opened(body)
        if token.epoch < epoch:
            raise fenced_out(token, epoch)
        if epoch == token.epoch or objects.put(name, sealed(token, payload), etag):
            return payload
    raise Contended(f"object {name!r} was changed by others {TRIES_MAX} times in a row")


def put(objects: ConditionalObjects, name: str, owned: Owned, payload: bytes) -> None:
    """Write an object, or raise `FencedOut`."""
    token = Token.of(owned)
    for _ in range(TRIES_MAX):
        found = objects.get(name)
        epoch, etag = (0, None) if found is None else (opened(found[0])[0], found[1])
        if token.epoch < epoch:
            raise fenced_out(token, epoch)
        if objects.put(name, sealed(token, payload), etag):
            return
    raise Contended(f"object {name!r} was changed by others {TRIES_MAX} times in a row")
