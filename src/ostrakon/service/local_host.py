"""Which hosts are this machine, so that what is sent there needs no TLS."""

import ipaddress


def is_local(host: str) -> bool:
    """Whether `host` is a loopback address or localhost.

    Parameters
    ----------
    host : str

    Returns
    -------
    bool

    >>> [is_local(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "127.0.0.1.example.org", "")]
    [True, True, True, False, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
