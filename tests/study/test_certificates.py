"""An owner's key and certificate: made once, the key for its owner alone, the certificate for everybody."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from ostrakon.study import make_certificate
from ostrakon.study.certificates import read_certificate, require_certificate, require_valid_now
from ostrakon.validation import InvalidInput


def test_a_key_and_its_certificate(tmp_path):
    key, public = make_certificate("north", tmp_path / "keys", days=90)
    assert (key.name, public.name) == ("north.key", "north.crt")
    assert oct(key.stat().st_mode)[-3:] == "600"
    assert oct(public.stat().st_mode)[-3:] == "644"
    assert "PRIVATE KEY" in key.read_text()
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(public, key)
    made = x509.load_pem_x509_certificate(public.read_bytes())
    left = made.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=89) < left < timedelta(days=91)
    assert made.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=23)
    require_valid_now("north", read_certificate(public))


def test_what_is_there_is_not_replaced(tmp_path):
    key, public = make_certificate("north", tmp_path)
    before = key.read_bytes()
    public.unlink()
    with pytest.raises(InvalidInput, match=r"north\.key is there: it is not replaced"):
        make_certificate("north", tmp_path)
    assert key.read_bytes() == before
    assert not public.exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"owner": "North"}, "name of an owner must be"),
        ({"owner": "../a"}, "name of an owner must be"),
        ({"days": 0}, "days must be an integer of at least 1"),
        ({"days": 1e9}, "days must be an integer"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_certificate(**{"owner": "north", "out": tmp_path, **changes})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("days", [-900, 30])
def test_a_certificate_is_held_against_the_clock(tmp_path, days):
    _, public = make_certificate("north", tmp_path, today=datetime.now(UTC) + timedelta(days=days))
    with pytest.raises(InvalidInput, match=r"certificate of north is valid from .* and this machine's clock says"):
        require_valid_now("north", public.read_text())


def test_a_certificate_is_one_certificate_and_nothing_else(tmp_path):
    key, public = make_certificate("north", tmp_path)
    pem = public.read_text()
    assert require_certificate("c", "words before\n" + pem) == pem
    for wrong, sentence in (
        (pem + pem, "must hold one certificate in PEM, got 2"),
        ("", "got 0"),
        (pem + key.read_text(), "holds a private key, which stays secret"),
        (pem[:60] + pem[70:], "cannot be read"),
        (pem.replace("M", "!"), "cannot be read"),
        (3, "must be one certificate in PEM, got 3"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            require_certificate("c", wrong)
    (tmp_path / "odd").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "odd", tmp_path / "none", tmp_path):
        with pytest.raises(InvalidInput, match="certificate must be a readable PEM file"):
            read_certificate(path)
