"""The certificates by which owners recognise each other when they connect, and the keys that belong to them."""

import os
import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ostrakon.data.files import private_folder, write_atomically
from ostrakon.validation import InvalidInput, quote, whole

RESERVED = ("shares", "finished", "partial")
"""Names that no owner may have, because folders beside a study are named STUDY-OWNER and STUDY- with these."""
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


def owner_name(name: str, value: Any) -> str:
    """Return `value`, refused unless it can be the name of an owner.

    Parameters
    ----------
    name : str
        The parameter, for the message.
    value : str
        Up to 40 small letters, digits and inner hyphens, but none of `RESERVED`.

    Raises
    ------
    InvalidInput
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidInput(
            f"{name} of an owner must be up to 40 small letters, digits and inner hyphens, got {quote(value)}."
        )
    if value in RESERVED:
        raise InvalidInput(
            f"{name} of an owner must not be {' or '.join(RESERVED)}, which name folders, got {value!r}."
        )
    return value


def read_certificate(path: Path) -> str:
    """Read the certificate in a PEM file.

    Returns
    -------
    str
        One certificate in PEM.

    Raises
    ------
    InvalidInput
        If the file cannot be read, and as of `require_certificate`.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(f"certificate must be a readable PEM file, got {path} ({reason}).") from None
    return require_certificate(str(path), text)


def require_certificate(name: str, value: Any) -> str:
    """Return `value` as one certificate in PEM, without anything beside it.

    Parameters
    ----------
    name : str
        The parameter, for the message.
    value : str

    Raises
    ------
    InvalidInput
        If it is not one certificate, or contains a private key.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be one certificate in PEM, got {quote(value)}.")
    if "PRIVATE KEY" in value:
        raise InvalidInput(f"{name} must hold a certificate alone, and it holds a private key, which stays secret.")
    if value.count(_BEGIN) != 1 or value.count(_END) != 1:
        raise InvalidInput(f"{name} must hold one certificate in PEM, got {value.count(_BEGIN)}.")
    pem = value[value.index(_BEGIN) : value.index(_END) + len(_END)] + "\n"
    try:
        der = ssl.PEM_cert_to_DER_cert(pem)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidInput(f"{name} must hold a certificate in PEM, and it cannot be read ({error}).") from None
    return ssl.DER_cert_to_PEM_cert(der)


def require_valid_now(owner: str, pem: str) -> None:
    """Refuse a certificate that is not valid now by this machine's clock.

    Parameters
    ----------
    owner : str
        For the message.
    pem : str

    Raises
    ------
    InvalidInput
        If the certificate is not valid yet or not any more, or the package `cryptography` is missing.
    """
    try:
        from cryptography import x509
    except ImportError:
        raise InvalidInput("Reading a certificate needs cryptography: pip install '.[study]'.") from None
    certificate, now = x509.load_pem_x509_certificate(pem.encode()), datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise InvalidInput(
            f"certificate of {owner} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}, and this machine's clock says {now:%Y-%m-%d %H:%M} UTC: set "
            "the clock right, or make another certificate and create the study with that."
        )


def make_certificate(
    owner: str, out: str | os.PathLike[str] = ".", *, days: int = 730, today: datetime | None = None
) -> tuple[Path, Path]:
    """Make an owner's key, which stays with its owner, and its certificate, which is public.

    The key is on the curve P-256, and the certificate is signed by it. Nobody else has to sign it, because it is a
    public fact of the study.

    Parameters
    ----------
    owner : str
        As of `owner_name`.
    out : str or path-like
        The folder for OWNER.key and OWNER.crt.
    days : int from 1 to 3650
        Number of days for which the certificate is valid. It is also valid for the day before, because clocks differ.
    today : datetime.datetime, optional
        The first of these days. Default: now.

    Returns
    -------
    tuple of (pathlib.Path, pathlib.Path)
        The files of the key and of the certificate.

    Raises
    ------
    InvalidInput
        If one of the files exists already, or the package `cryptography` is missing.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise InvalidInput("Making a certificate needs cryptography: pip install '.[study]'.") from None
    name, length = owner_name("name", owner), whole("days", days, at_least=1, at_most=3650)
    folder = private_folder(out)
    key_path, path = folder / f"{name}.key", folder / f"{name}.crt"
    existing = next((file for file in (key_path, path) if file.exists()), None)
    if existing is not None:
        raise InvalidInput(f"out must not hold {existing.name} already, and {existing} is there: it is not replaced.")
    start = datetime.now(UTC) if today is None else today
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - timedelta(days=1))
        .not_valid_after(start + timedelta(days=length))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    write_atomically(key_path, key.private_bytes(serialization.Encoding.PEM, form, plain), mode=0o600)
    write_atomically(path, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)
    return key_path, path
