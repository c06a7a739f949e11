"""The sum of the owners' noised tables, opened by MPyC: each owner takes part from its own machine, at one time."""

from __future__ import annotations

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
from ostrakon.study.opened import write_sum
from ostrakon.study.share import read_share, share_path, shares_folder
from ostrakon.study.study import Study
from ostrakon.validation import InvalidInput, positive

PROGRAM = Path(__file__).with_name("party.py")
_FEWEST = 2


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A sum that was opened. path: the file, the same for all owners; owners: whose tables are in it.

    seconds: from the first share to the opened sum, on this machine. bytes_sent: by this owner, before TLS. unsure:
    owners that left before they said that they have the sum.
    """

    path: Path
    owners: tuple[str, ...]
    seconds: float
    bytes_sent: int
    unsure: tuple[str, ...]


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
) -> Opened:
    """Take part in the sum of all owners' tables, which is opened for all of them; all run this at the same time.

    owner: who takes part, having joined. key: the file of the private key of its certificate. keep: as of `join_study`.
    shares: the folder for the opened sum (see `ostrakon.study.share.shares_folder`). without: owners that dropped out,
    which all others have to name alike. wait: so many seconds for the others to come, and for each of their answers.
    listen: HOST:PORT to listen on where it is not the port of the owner's address, on every interface. expect: as of
    `join_study`.

    Guarantee: as the study says. The table goes into sums of one set of owners alone: from two sums that differ by an
    owner, that owner's table would follow, under its share of the noise alone.
    Errors: `InvalidInput` where owners are missing or somebody else answers, and all that goes wrong between them.
    """
    known = study if isinstance(study, Study) else Study.read(study)
    require_expected(known, expect)
    if not known.exchange.summed:
        raise InvalidInput(
            f"This study's exchange is {known.exchange.name}: its tables are handed over, and `finish` sums them."
        )
    who, seconds = known.owner(owner).name, positive("wait", wait)
    left = {known.owner(name, given_as="without").name for name in without}
    if who in left:
        raise InvalidInput(f"without must name other owners, and {who} is you.")
    owners = [each.name for each in known.owners if each.name not in left]
    if len(owners) < _FEWEST:
        raise InvalidInput(f"without must leave at least {_FEWEST} owners to sum, got {len(owners)}.")
    known.among(len(owners))
    settings = _settings(known, owners, who, key=Path(key), wait=seconds, listen=listen)
    home = home_of(known, who, keep)
    if not home.description.exists():
        raise InvalidInput(f"{home.path} is not the folder of an owner that has joined: join first, or say where.")
    with home.opened():
        of, table = read_share(share_path(home.private, who), known)
        if of != who:
            raise InvalidInput(f"{home.path} is the folder of {of}, and owner is {who}.")
        _require_same_owners(home, owners)
        say(f"Waiting for {', '.join(name for name in owners if name != who)}")
        with _party(settings, known, who) as party:
            party.expect("ready")
            # From here on shares of this table may be with the others.
            home.add("sum", {"owners": owners})
            say("Adding up, without anybody seeing another's table")
            party.tell([int(value) for value in table.ravel()])
            told = party.expect("opened")
    total = np.asarray(told["opened"], np.int64).reshape(table.shape)
    path = write_sum(shares_folder(known, shares), known, owners, total)
    unsure = tuple(told["unsure"])
    return Opened(path=path, owners=tuple(owners), seconds=told["seconds"], bytes_sent=told["bytes"], unsure=unsure)


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
        raise InvalidInput("The sum needs MPyC: pip install 'ostrakon[study]'.") from None
    taking = [study.owner(name) for name in owners]
    own = study.owner(who)
    require_valid_now(who, own.certificate or "")
    if listen is None:
        here: tuple[str | None, int] = (None, own.place[1])
    else:
        host, _, port = listen.rpartition(":")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise InvalidInput(f"listen must be HOST:PORT or :PORT, got {listen!r}.")
        here = (host.removeprefix("[").removesuffix("]") or None, int(port))
    # What both sides of a connection agree on before anything else: the study, who takes part, and MPyC's version.
    agreed = digest_of_json({"study": study.hash, "owners": owners, "mpyc": version})
    return {
        "names": owners,
        "index": owners.index(who),
        "hosts": [each.place[0] for each in taking],
        "ports": [each.place[1] for each in taking],
        "certificates": [each.certificate for each in taking],
        "own": own.certificate,
        "key": str(key.resolve()),
        "protocol": f"ostrakon-sum-{agreed}",
        "listen": here,
        "wait": wait,
    }


class _Party:
    """The program beside: one line after the other, in both directions."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def tell(self, content: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(content) + "\n")
            self._process.stdin.flush()

    def expect(self, event: str) -> dict[str, Any]:
        """The line that says that event; its failure, as `InvalidInput`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
        if "failed" in told:
            raise InvalidInput(told["failed"])
        if event not in told:
            last = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise InvalidInput(
                f"The sum ended without a result ({''.join(last) or 'its program was killed'}): start it again; this "
                "owner's table keeps its noise."
            )
        return told


@contextlib.contextmanager
def _party(settings: dict[str, Any], study: Study, who: str) -> Generator[_Party]:
    """The program, in a private folder of its own, which is gone afterwards; and so is the program."""
    with tempfile.TemporaryDirectory(prefix="ostrakon-sum-") as scratch:
        own, errors = Path(scratch) / "own.crt", Path(scratch) / "errors"
        own.write_text(settings["own"], encoding="utf-8")
        with open(errors, "w", encoding="utf-8") as told:
            process = subprocess.Popen(
                # -P: no module of this folder in place of a library's.
                [sys.executable, "-P", str(PROGRAM)],
                cwd=scratch,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                encoding="utf-8",
            )
        # It keeps time itself; should it hang, it ends a minute after each wait was over.
        guard = threading.Timer(4 * settings["wait"] + 60, process.kill)
        guard.daemon = True
        guard.start()
        try:
            party = _Party(process, errors)
            party.tell({**settings, "certificate": str(own)})
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
