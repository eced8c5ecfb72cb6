"""Cures of the network's edge: `own-links` and `closed-port`.

Decide how links are kept and who may be at the other end. Must not know how they are made.
"""

from typing import Final

from coordinator.consensus.cures.base import Blueprint, Cure

REDIAL_MIN_S: Final = 0.05
"""A restarted peer is back at once."""
REDIAL_MAX_S: Final = 0.5
"""A peer that is away costs two attempts a second, and is back within one."""


class OwnLinks(Cure):
    """Links are pinged, replaced when silent, and dialled again at once.

    The library lets an idle link between followers look dead, so that the first vote request
    after a leader's death closes the link instead.
    """

    name = "own-links"

    def prepare(self, blueprint: Blueprint) -> None:
        """Sets the pace."""
        links, config = blueprint.links, blueprint.config
        links.ping_interval_s = config.ping_interval_s
        links.dead_after_s = config.link_dead_after_s
        links.redial_min_s = REDIAL_MIN_S
        links.redial_max_s = REDIAL_MAX_S


class ClosedPort(Cure):
    """The port answers members of this cluster only, who prove it, unless it is on loopback.

    The other half, no pickle anywhere, is the codec's and cannot be left out.
    """

    name = "closed-port"

    def prepare(self, blueprint: Blueprint) -> None:
        """Closes it."""
        blueprint.links.certificates = blueprint.config.certificates
        blueprint.links.is_loopback_only = not blueprint.config.insecure
        blueprint.links.checks_cluster = True
