"""The certificates by which owners know each other where they speak with each other."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ostrakon.validation import InvalidInput, shown

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def read_certificate(path: Path) -> str:
    """The certificate in a PEM file, as text. Errors: as `require_certificate`; a file that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(f"certificate must be a readable PEM file, got {path} ({reason}).") from None
    return require_certificate(str(path), text)


def require_certificate(name: str, value: Any) -> str:
    """`value` as one certificate in PEM, without anything beside it.

    Errors: `InvalidInput` for what is no certificate, holds several, or holds a private key.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be one certificate in PEM, got {shown(value)}.")
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
    """Refuse a certificate whose time has not come, or is over, by this machine's clock."""
    try:
        from cryptography import x509
    except ImportError:
        raise InvalidInput("Reading a certificate needs cryptography: pip install 'ostrakon[study]'.") from None
    read, now = x509.load_pem_x509_certificate(pem.encode()), datetime.now(UTC)
    if not read.not_valid_before_utc <= now <= read.not_valid_after_utc:
        raise InvalidInput(
            f"certificate of {owner} is valid from {read.not_valid_before_utc:%Y-%m-%d} to "
            f"{read.not_valid_after_utc:%Y-%m-%d}, and this machine's clock says {now:%Y-%m-%d %H:%M} UTC: set the "
            "clock right, or make another certificate and create the study with that."
        )
