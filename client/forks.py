"""What must not live on in a forked child.

A child has a copy of everything and runs none of it: it hears of no lost lease and sends no
heartbeat, but its copy of a handle would still say `may_act()`. Decides nothing; whoever has
something to give up registers here.
"""

import logging
import os
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

_owners: Final[weakref.WeakKeyDictionary[Any, Callable[[Any], object]]] = (
    weakref.WeakKeyDictionary()
)


def give_up_in_child(owner: T, act: Callable[[T], object]) -> None:
    """Call `act(owner)` in every child that is forked from here on, as long as `owner` lives."""
    _owners[owner] = act


def _in_child() -> None:
    for owner, act in list(_owners.items()):
        try:
            act(owner)
        except Exception:  # noqa: BLE001 - whatever one meets, the others give up too
            _log.exception("not_given_up_in_child owner=%r", owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
