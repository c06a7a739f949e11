"""An owner's key, which it keeps to itself, and its certificate, which everybody has."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ostrakon.data.files import private_folder, write_atomically
from ostrakon.study.owners import owner_name
from ostrakon.validation import InvalidInput, whole


def make_certificate(
    owner: str, out: str | os.PathLike[str] = ".", *, days: int = 730, today: datetime | None = None
) -> tuple[Path, Path]:
    """Write OWNER.key, which stays with its owner alone, and OWNER.crt, which is public, into `out`; their paths.

    A key on the curve P-256 and a certificate that it signs itself, valid for so many days from `today` (now), and for
    the day before, as clocks differ. Nobody has to vouch for it: it is a public fact of the study.
    Errors: `InvalidInput` where one of the files is there, or the package `cryptography` is not.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise InvalidInput("Making a certificate needs cryptography: pip install 'ostrakon[study]'.") from None
    name, length = owner_name("name", owner), whole("days", days, at_least=1, at_most=3650)
    folder = private_folder(out)
    key_path, path = folder / f"{name}.key", folder / f"{name}.crt"
    there = next((each for each in (key_path, path) if each.exists()), None)
    if there is not None:
        raise InvalidInput(f"out must not hold {there.name} already, and {there} is there: it is not replaced.")
    start = datetime.now(UTC) if today is None else today
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
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
    write_atomically(path, made.public_bytes(serialization.Encoding.PEM), mode=0o644)
    return key_path, path
