"""The desk of a service over several owners: it asks each for the votes of its teachers on rows of a paid block."""

import base64
import io
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.files import read_toml
from ostrakon.ledger.fits import Refused
from ostrakon.service.local_host import is_local
from ostrakon.service.owner import Terms
from ostrakon.validation import InvalidInput, line, quote

SECONDS = 60
"""How long an owner may take for an answer."""
_BYTES = 2**19
"""Bytes of features in one request."""
_FILES = {"token_file", "certificate"}
_KEYS = {"name", "url", *_FILES}
_ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]+)?", re.ASCII)
"""HOST or HOST:PORT, without anything that two readers of an address may understand otherwise."""
_NOISE = ("threshold", "sigma1", "sigma2")


@dataclass(kw_only=True)
class RemoteOwner:
    """An owner with a service of its own, to which this desk is a client.

    Parameters
    ----------
    name : str
    url : str
        ``https://HOST:PORT``; without TLS on this machine alone.
    token_file : pathlib.Path
        Holds the token that `ostrakon service client` showed there.
    certificate : pathlib.Path, optional
        The certificate of the owner's service, if it signed that itself.

    Attributes
    ----------
    facts : dict
        What the owner said of itself (`ostrakon.service.owner.OwnerVotes.facts`).
    blocks_left : int
        How many blocks fit into its account, as far as this desk knows.
    """

    name: str
    url: str
    token_file: Path
    certificate: Path | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    blocks_left: int = 0

    def __post_init__(self) -> None:
        self.name = line("name of an owner", self.name)
        parts = urlsplit(self.url) if isinstance(self.url, str) else urlsplit("")
        local = parts.scheme == "http" and is_local(parts.hostname or "")
        is_address = _ADDRESS.fullmatch(parts.netloc) is not None and parts.path in ("", "/") and not parts.query
        if not (is_address and (local or parts.scheme == "https")):
            raise InvalidInput(f"url of owner {self.name} must be https://HOST:PORT, got {quote(self.url)}.")
        try:
            self._token = Path(self.token_file).read_text(encoding="utf-8").strip()
            # What is sent without TLS never leaves this machine, by a proxy neither.
            way = (
                urllib.request.ProxyHandler({})
                if local
                else urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.certificate))
            )
            self._opener = urllib.request.build_opener(way, _NoRedirects)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"token_file and certificate of owner {self.name} must be a readable token and a certificate ({error})."
            ) from None

    def greet(self) -> None:
        """Ask the owner for its `facts`. Errors: as of `votes`."""
        self.facts = self._request("/v1/owner")

    def ask_room(self, terms: Terms) -> None:
        """Ask the owner how many blocks of these terms fit. Errors: as of `votes`."""
        self.blocks_left = int(self._request("/v1/room", asdict(terms))["blocks_left"])

    def votes(self, block: str, terms: Terms, features: NDArray[Any]) -> NDArray[np.int64]:
        """Return the votes of the owner's teachers, shape (rows, classes). The owner pays for the block first.

        Raises
        ------
        Refused
            If its account has no room for the block.
        InvalidInput
            If the owner cannot be reached, refuses, or says something else than votes.
        """
        rows = max(1, _BYTES // max(1, features[:1].nbytes))
        # At least one request: it pays for the block.
        parts = [features[start : start + rows] for start in range(0, max(1, len(features)), rows)]
        counts = [self._votes(block, terms, part) for part in parts]
        return np.concatenate(counts)

    def _votes(self, block: str, terms: Terms, features: NDArray[Any]) -> NDArray[np.int64]:
        file = io.BytesIO()
        np.save(file, np.ascontiguousarray(features), allow_pickle=False)
        request = {**asdict(terms), "block": block, "features": base64.b64encode(file.getvalue()).decode()}
        reply = self._request("/v1/votes", request)
        try:
            counts = np.array(reply["votes"], dtype=np.int64).reshape(len(features), len(self.facts["classes"]))
            left = int(reply["blocks_left"])
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(f"Owner {self.name} must give votes on {len(features)} rows, and it did not.") from None
        if (counts < 0).any() or (counts.sum(axis=1) != self.facts["teachers"]).any():
            raise InvalidInput(f"Owner {self.name} must give one vote of each of its teachers, and it did not.")
        self.blocks_left = left
        return counts

    def _request(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            self.url.rstrip("/") + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            code, why = _refusal(error)
            if code == "spent":
                self.blocks_left = 0
                raise Refused(f"The account of owner {self.name} has no room for another block.") from None
            raise InvalidInput(f"Owner {self.name} refused with status {error.code}: {why}") from None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"Owner {self.name} cannot be reached at {self.url} ({error}).") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An owner that names another address is refused, because the token would be sent there, too."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _refusal(error: urllib.error.HTTPError) -> tuple[str, str]:
    try:
        sentence = json.load(error)["error"]
        return str(sentence["code"]), str(sentence["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", str(error.reason)


def read_owners(path: str | os.PathLike[str]) -> tuple[tuple[RemoteOwner, ...], dict[str, float]]:
    """Read the other owners of a service from a TOML file.

    Parameters
    ----------
    path : str or path-like
        Tables ``[[owner]]`` with name, url, token_file and, if its certificate is its own, certificate. Above them, if
        wanted, threshold, sigma1 and sigma2 of Confident-GNMax over the votes of all owners. Files are relative to it.

    Returns
    -------
    tuple of (tuple of RemoteOwner, dict)
        The owners, and the parameters that are given.

    Raises
    ------
    InvalidInput
        If the file has other keys or no owner, or two owners share a name or an address.
    """
    content = read_toml("owners", path)
    tables = content.pop("owner", None)
    if not isinstance(tables, list) or not tables or set(content) - set(_NOISE):
        raise InvalidInput(f"{path} must hold tables [[owner]] and, above them, no more than {', '.join(_NOISE)}.")
    owners = list[RemoteOwner]()
    for table in tables:
        if not isinstance(table, Mapping) or not _KEYS - {"certificate"} <= set(table) <= _KEYS:
            raise InvalidInput(f"Every owner in {path} must have {', '.join(sorted(_KEYS))}, got {quote(table)}.")
        entries: dict[str, Any] = dict(table)
        for key in _FILES & set(entries):
            entries[key] = Path(path).parent / str(entries[key])
        owners.append(RemoteOwner(**entries))
    for one in ("name", "url"):
        values = [getattr(owner, one) for owner in owners]
        if len(set(values)) < len(values):
            raise InvalidInput(f"Owners in {path} must differ in {one}, got {', '.join(values)}.")
    return tuple(owners), content


def join(own: Mapping[str, Any], owners: Sequence[RemoteOwner], terms: Terms) -> None:
    """Refuse owners whose classes, unit or features of the public rows differ from the desk's; ask for room.

    Parameters
    ----------
    own : mapping
        The desk's `facts`.
    owners : sequence of RemoteOwner
        After `RemoteOwner.greet`.
    terms : Terms
        Of the blocks of the desk.

    Raises
    ------
    InvalidInput
        One sentence that names the owner and what differs.
    """
    words = {
        "classes": "the same classes in the same order",
        "unit": "the same unit of privacy",
        "features": "the same features of the public rows (the same public file, columns, representation and versions)",
    }
    for owner in owners:
        for fact, same in words.items():
            if owner.facts.get(fact) != own[fact]:
                raise InvalidInput(f"Owner {owner.name} must have {same} as this desk, and it does not.")
        if not isinstance(owner.facts.get("teachers"), int) or owner.facts["teachers"] < 1:
            raise InvalidInput(f"Owner {owner.name} must have teachers, got {quote(owner.facts.get('teachers'))}.")
    for owner in owners:
        owner.ask_room(terms)
