"""Where a service listens."""

import json
import logging
import sys

import pytest
from cryptography.hazmat.primitives import serialization

from ostrakon.service.web import _log_lines_of_json, require_safe
from ostrakon.study import make_certificate
from ostrakon.validation import InvalidInput


def test_beyond_this_machine_with_tls_alone(tmp_path):
    for host in ("0.0.0.0", "192.0.2.7", "::", "example.org", ""):
        with pytest.raises(InvalidInput, match="must be given to listen beyond this machine"):
            require_safe(host, port=8443, certificate=None, key=None)
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        require_safe(host, port=8443, certificate=None, key=None)
    key, certificate = make_certificate("north", tmp_path)
    require_safe("0.0.0.0", port=8443, certificate=certificate, key=key)
    with pytest.raises(InvalidInput, match="must be given together"):
        require_safe("127.0.0.1", port=8443, certificate=certificate, key=None)
    with pytest.raises(InvalidInput, match="tls_key must be a file"):
        require_safe("127.0.0.1", port=8443, certificate=certificate, key=tmp_path / "d")


def test_files_that_are_no_certificate_and_its_key_are_refused(tmp_path):
    key, certificate = make_certificate("north", tmp_path)
    other, _ = make_certificate("south", tmp_path)
    (tmp_path / "garbage").write_text("garbage")
    (tmp_path / "under").write_bytes(
        serialization.load_pem_private_key(key.read_bytes(), None).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    for shown, held in (
        (tmp_path / "garbage", key),
        (certificate, tmp_path / "garbage"),
        (certificate, other),
        (certificate, tmp_path / "under"),
    ):
        with pytest.raises(InvalidInput, match="must be a certificate and its key in PEM, without a password"):
            require_safe("127.0.0.1", port=8443, certificate=shown, key=held)


@pytest.mark.parametrize("port", [0, 65536, -1, True])
def test_a_port_is_one(port):
    with pytest.raises(InvalidInput, match="port must be"):
        require_safe("127.0.0.1", port=port, certificate=None, key=None)


def test_an_error_is_one_line_of_json_whatever_its_text_is(capsys, monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    # A server in an earlier test may have set these.
    for name, value in (("level", logging.NOTSET), ("handlers", []), ("propagate", True), ("disabled", False)):
        for logger in ("uvicorn", "uvicorn.error"):
            monkeypatch.setattr(logging.getLogger(logger), name, value)
    level = root.level
    try:
        _log_lines_of_json()
        try:
            raise ValueError('\x1b[2J\n{"client": "b"}\u2028')
        except ValueError:
            logging.getLogger("uvicorn.error").exception("It failed: %s", "\x1b]0;x\x07")
        logging.getLogger("uvicorn.error").warning("from a stranger")
    finally:
        root.setLevel(level)
    sys.stderr.flush()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.rstrip("\n").isprintable()
    line = json.loads(said)
    assert line["level"] == "ERROR"
    assert "ValueError: \x1b[2J\n" in line["message"]
