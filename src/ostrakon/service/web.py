"""Listen for requests, beyond this machine with TLS only."""

import contextlib
import json
import logging
import signal
import ssl
import sys
from datetime import UTC, datetime
from pathlib import Path

from ostrakon.service.app import make_app
from ostrakon.service.audit_file import AuditFile
from ostrakon.service.clients import ClientFile
from ostrakon.service.connections import Connection
from ostrakon.service.labeller import Labeller
from ostrakon.service.local_host import is_local
from ostrakon.validation import InvalidInput, whole

import uvicorn  # isort: skip  (after the app, which says what is to be installed)
from fastapi import FastAPI  # isort: skip

_LOG = logging.getLogger(__name__)


def require_safe(host: str, *, port: int, certificate: Path | None, key: Path | None) -> None:
    """Refuse to listen beyond this machine without TLS, and files that are not a certificate and its key.

    Parameters
    ----------
    host : str
    port : int from 1 to 65535
    certificate, key : pathlib.Path or None
        PEM files.

    Raises
    ------
    InvalidInput
        If others could read the traffic, one of the files is missing, or they do not belong together.
    """
    whole("port", port, at_least=1, at_most=65_535)
    if (certificate is None) != (key is None):
        raise InvalidInput("tls_cert and tls_key must be given together.")
    for name, file in (("tls_cert", certificate), ("tls_key", key)):
        if file is not None and not file.is_file():
            raise InvalidInput(f"{name} must be a file, got {file}.")
    if certificate is not None and key is not None:
        try:
            # A password is never asked for: a service must start without a person at the keyboard.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"tls_cert and tls_key must be a certificate and its key in PEM, without a password; {certificate} and "
                f"{key} are not ({getattr(error, 'reason', None) or error})."
            ) from None
    if certificate is None and not is_local(host):
        raise InvalidInput(f"tls_cert and tls_key must be given to listen beyond this machine, got host {host!r}.")


def listen(
    labeller: Labeller,
    clients: ClientFile,
    *,
    audit: Path,
    host: str,
    port: int,
    tls: tuple[Path | None, Path | None] = (None, None),
    desk: str | None = None,
) -> None:
    """Serve until the process gets SIGTERM or SIGINT. Requests that were received are finished.

    Parameters
    ----------
    labeller : Labeller
    clients : ClientFile
    audit : pathlib.Path
        The file of the audit log.
    host : str
    port : int
    tls : tuple of (pathlib.Path or None, pathlib.Path or None)
        Certificate and key, as of `require_safe`.
    desk : str, optional
        As of `make_app`.
    """
    file = AuditFile(audit)
    # uvicorn ends gracefully and then raises the signal again. This handler lets the caller close the store.
    signal.signal(signal.SIGTERM, _exit)
    _allow_many_files()
    _log_lines_of_json()
    _LOG.info("Starting at %s, port %s, with account %s", host, port, labeller.account.name)
    try:
        _run(make_app(labeller, clients, audit=file, desk=desk), file, host=host, port=port, tls=tls)
    finally:
        _LOG.info("Stopped")
        # Logging outlives all modules: with a class of this one, DuckDB would report leaks when Python ends.
        logging.root.handlers.clear()


def _run(app: FastAPI, audit: AuditFile, *, host: str, port: int, tls: tuple[Path | None, Path | None]) -> None:
    certificate, key = tls
    uvicorn.run(
        app,
        http=type("Connection", (Connection,), {"audit": audit}),
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        # Nothing here speaks WebSocket.
        ws="none",
        # X-Forwarded-For is what a caller says: limits by address go by the connection.
        proxy_headers=False,
        # Clients and blocks are counted in one process, whatever WEB_CONCURRENCY says.
        workers=1,
        # uvicorn's access log would repeat paths as they were typed; the audit log says what happened.
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=30,
        backlog=4096,
    )


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return one line, with the traceback in it: no text of an error can begin another or control a terminal."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"at": at, "level": record.levelname, "from": record.name, "message": super().format(record)})


def _log_lines_of_json() -> None:
    """Write the service's own log to the error stream."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _LOG.setLevel(logging.INFO)
    # Strangers can cause warnings of uvicorn and asyncio as often as they like.
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _exit(*_: object) -> None:
    sys.exit(0)


def _allow_many_files() -> None:
    """Allow as many open files as the system lets this process have: each connection is one."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
