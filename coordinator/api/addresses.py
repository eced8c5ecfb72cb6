"""Whose address it is, for whatever is counted by address. It must not know what is counted."""

import ipaddress


def network_of(host: str) -> str:
    """The address, or the network that one subscriber has of IPv6: a /64 holds 2^64 addresses."""
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        return host
