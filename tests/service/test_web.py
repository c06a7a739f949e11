"""Where a service listens."""

import pytest

from ostrakon.service.web import require_safe
from ostrakon.validation import InvalidInput


def test_beyond_this_machine_with_tls_alone(tmp_path):
    for host in ("0.0.0.0", "192.0.2.7", "::", "example.org", ""):
        with pytest.raises(InvalidInput, match="must be given to listen beyond this machine"):
            require_safe(host, port=8443, certificate=None, key=None)
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        require_safe(host, port=8443, certificate=None, key=None)
    (tmp_path / "c").touch()
    require_safe("0.0.0.0", port=8443, certificate=tmp_path / "c", key=tmp_path / "c")
    with pytest.raises(InvalidInput, match="must be given together"):
        require_safe("127.0.0.1", port=8443, certificate=tmp_path / "c", key=None)
    with pytest.raises(InvalidInput, match="tls_key must be a file"):
        require_safe("127.0.0.1", port=8443, certificate=tmp_path / "c", key=tmp_path / "d")


@pytest.mark.parametrize("port", [0, 65536, -1, True])
def test_a_port_is_one(port):
    with pytest.raises(InvalidInput, match="port must be"):
        require_safe("127.0.0.1", port=port, certificate=None, key=None)
