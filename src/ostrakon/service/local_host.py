"""Which hosts are this machine, so that what is sent there needs no TLS."""

import ipaddress


def is_local(host: str) -> bool:
    """Return whether `host` is a loopback address or localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
