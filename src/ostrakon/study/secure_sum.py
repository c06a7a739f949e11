"""The sum of the owners' noisy tables by MPyC. Each owner takes part from its own machine, at the same time."""

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.checksummed import digest_of_json
from ostrakon.run.folder import RunFolder
from ostrakon.study.certificates import require_valid_now
from ostrakon.study.join import home_of, require_expected
from ostrakon.study.study import Study
from ostrakon.study.tables import LARGEST, read_share, share_path, shares_folder, write_sum
from ostrakon.validation import InvalidInput, positive

PROGRAM = Path(__file__).with_name("party.py")
_FEWEST = 2


@dataclass(frozen=True, kw_only=True)
class OpenedSum:
    """A sum that the owners opened.

    Parameters
    ----------
    path : pathlib.Path
        The file, which is the same for all owners.
    owners : tuple of str
        The owners whose tables are in it.
    seconds : float
        From the first share to the opened sum, on this machine.
    bytes_sent : int
        By this owner, before TLS.
    """

    path: Path
    owners: tuple[str, ...]
    seconds: float
    bytes_sent: int


def sum_study(
    study: Study | str | os.PathLike[str],
    *,
    owner: str,
    key: str | os.PathLike[str],
    keep: str | os.PathLike[str] | None = None,
    shares: str | os.PathLike[str] | None = None,
    without: Sequence[str] = (),
    wait: float = 300.0,
    listen: str | None = None,
    expect: str | None = None,
    say: Callable[[str], None] = lambda stage: None,
) -> OpenedSum:
    """Take part in the sum of all owners' tables, which is opened for all of them. All owners run this together.

    Parameters
    ----------
    study : Study, or str or path-like
        The study or its folder.
    owner : str
        The owner that takes part. It has joined.
    key : str or path-like
        The file of the private key of its certificate.
    keep : str or path-like, optional
        As of `join_study`.
    shares : str or path-like, optional
        The folder for the opened sum. Default: `shares_folder`.
    without : sequence of str
        Owners that dropped out. All other owners must name the same ones.
    wait : float above 0
        Seconds to wait for the other owners, and for each of their answers.
    listen : str, optional
        HOST:PORT to listen on. Default: the port of the owner's address, on every interface.
    expect : str, optional
        As of `join_study`.
    say : callable
        Called with a sentence about each stage.

    Returns
    -------
    OpenedSum

    Raises
    ------
    InvalidInput
        If owners are missing, another program answers for one of them, or the owners cannot finish the sum.

    Notes
    -----
    Guarantee: as the study says. The table is used in sums of one set of owners only. From two sums that differ by one
    owner, that owner's table would follow, with only its own share of the noise.
    """
    terms = study if isinstance(study, Study) else Study.read(study)
    require_expected(terms, expect)
    if not terms.exchange.summed:
        raise InvalidInput(
            f"This study's exchange is {terms.exchange.name}: its tables are handed over, and `finish` sums them."
        )
    who, seconds = terms.owner(owner).name, positive("wait", wait)
    left = {terms.owner(name, given_as="without").name for name in without}
    if who in left:
        raise InvalidInput(f"without must name other owners, and {who} is you.")
    owners = [one.name for one in terms.owners if one.name not in left]
    if len(owners) < _FEWEST:
        raise InvalidInput(f"without must leave at least {_FEWEST} owners to sum, got {len(owners)}.")
    terms.mechanism_of(len(owners))
    settings = _settings(terms, owners, who, key=Path(key), wait=seconds, listen=listen)
    home = home_of(terms, who, keep)
    if not home.description.exists():
        raise InvalidInput(f"{home.path} is not the folder of an owner that has joined: join first, or say where.")
    with home.opened():
        table_owner, table = read_share(share_path(home.private, who), terms)
        if table_owner != who:
            raise InvalidInput(f"{home.path} is the folder of {table_owner}, and owner is {who}.")
        _require_same_owners(home, owners)
        say(f"Waiting for {', '.join(name for name in owners if name != who)}")
        with _start_party(settings) as party:
            party.expect("ready")
            # From here on, the other owners may have shares of this table.
            home.add("sum", {"owners": owners})
            say("Adding up, without anybody seeing another's table")
            party.send([int(value) for value in table.ravel()])
            result = party.expect("opened")
    most = len(owners) * LARGEST
    if any(abs(number) > most for number in result["opened"]):
        raise InvalidInput(
            "The numbers that were opened cannot be the sum of tables: an owner sent others than the program does, and "
            "nobody can tell who; nothing was stored, and your table keeps its noise."
        )
    total = np.asarray(result["opened"], np.int64).reshape(table.shape)
    path = write_sum(shares_folder(terms, shares), terms, owners, total)
    return OpenedSum(
        path=path,
        owners=tuple(owners),
        seconds=result["seconds"],
        bytes_sent=result["bytes"],
    )


def _require_same_owners(home: RunFolder, owners: list[str]) -> None:
    before = (home.read() or {}).get("sum", {}).get("owners")
    if before is not None and before != owners:
        raise InvalidInput(
            f"without must leave the owners with which this table was summed first, {', '.join(before)}, got "
            f"{', '.join(owners)}: the difference of two such sums would show one owner's table under its share of the "
            "noise alone."
        )


def _settings(
    study: Study, owners: list[str], who: str, *, key: Path, wait: float, listen: str | None
) -> dict[str, Any]:
    if not key.is_file():
        raise InvalidInput(f"key must be the file of the private key, got {key}.")
    try:
        version = importlib.metadata.version("mpyc")
    except importlib.metadata.PackageNotFoundError:
        raise InvalidInput("The sum needs MPyC: pip install '.[study]'.") from None
    taking = [study.owner(name) for name in owners]
    own = study.owner(who)
    require_valid_now(who, own.certificate or "")
    if listen is None:
        here: tuple[str | None, int] = (None, own.host_and_port[1])
    else:
        host, _, port = listen.rpartition(":")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise InvalidInput(f"listen must be HOST:PORT or :PORT, got {listen!r}.")
        here = (host.removeprefix("[").removesuffix("]") or None, int(port))
    # Both sides of a connection must agree on the study, the owners that take part, and MPyC's version.
    agreed = digest_of_json({"study": study.hash, "owners": owners, "mpyc": version})
    return {
        "names": owners,
        "numbers": len(study.queries) * len(study.classes),
        "index": owners.index(who),
        "hosts": [one.host_and_port[0] for one in taking],
        "ports": [one.host_and_port[1] for one in taking],
        "certificates": [one.certificate for one in taking],
        "own": own.certificate,
        "key": str(key.resolve()),
        "protocol": f"ostrakon-sum-{agreed}",
        "listen": here,
        "wait": wait,
    }


class _Party:
    """The program that takes part. Both directions carry one JSON value a line."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def send(self, content: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(content) + "\n")
            self._process.stdin.flush()

    def expect(self, event: str) -> dict[str, Any]:
        """Return the line with that event; a failure raises `InvalidInput`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        message: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
        if "failed" in message:
            raise InvalidInput(message["failed"])
        if event not in message:
            last = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise InvalidInput(
                f"The sum ended without a result ({''.join(last) or 'its program was killed'}): start it again; this "
                "owner's table keeps its noise."
            )
        return message


@contextlib.contextmanager
def _start_party(settings: dict[str, Any]) -> Generator[_Party]:
    """Run the program in a private folder. Both end with the block."""
    with tempfile.TemporaryDirectory(prefix="ostrakon-sum-") as scratch:
        own, errors = Path(scratch) / "own.crt", Path(scratch) / "errors"
        own.write_text(settings["own"], encoding="utf-8")
        with open(errors, "w", encoding="utf-8") as error_file:
            process = subprocess.Popen(
                # -P: a module in this folder must not replace a library's.
                [sys.executable, "-P", str(PROGRAM)],
                cwd=scratch,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=error_file,
                text=True,
                encoding="utf-8",
            )
        # It limits its own time. If it hangs, it ends a minute after every wait would be over.
        guard = threading.Timer(4 * settings["wait"] + 60, process.kill)
        guard.daemon = True
        guard.start()
        try:
            party = _Party(process, errors)
            party.send({**settings, "certificate": str(own)})
            yield party
        finally:
            guard.cancel()
            with contextlib.suppress(BrokenPipeError):
                if process.stdin is not None:
                    process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
