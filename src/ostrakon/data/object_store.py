"""A folder in S3-compatible object storage: every object is written in one request, and is complete or absent.

The S3 client finds endpoint, region and credentials itself (AWS_ENDPOINT_URL, AWS_PROFILE, the role of a machine, ...):
ostrakon never receives them, so it cannot store them.
"""

import os
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ostrakon.data.files import CONTINUES, CannotWrite, read_toml
from ostrakon.validation import InvalidInput

_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9._=-]+)+)/?")
_PRIVATE = ("private", "bucket-owner-full-control")
_OPTIONS = {
    "ACL": _PRIVATE,
    "ServerSideEncryption": ("AES256", "aws:kms", "aws:kms:dsse"),
    "SSEKMSKeyId": None,
    "BucketKeyEnabled": (True, False),
}
"""Options of every put, by their names in the S3 API. A customer's own key (SSE-C) would be a secret in a file."""


@dataclass(frozen=True)
class ObjectPath:
    """An object, or a folder of objects, as a path: cheap to send to a worker, without credentials.

    uri: s3://bucket/key. options: of every put, (name, value).
    """

    uri: str
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> "ObjectPath":
        return ObjectPath(f"{self.uri}/{name}", self.options)

    @property
    def parent(self) -> "ObjectPath":
        """The folder of the object."""
        return ObjectPath(self.uri.rpartition("/")[0], self.options)

    def read_bytes(self) -> bytes:
        """Return the content. Raises `OSError`; `FileNotFoundError` where there is none."""
        return talk(self.uri, lambda: client().cat_file(self.uri))

    def below(self, suffix: str) -> list[str]:
        """Return the URIs of the objects in this folder with this suffix (in any case), in order; its own if it is an
        object.

        Raises `OSError`; `InvalidInput` for a name that the client would read as another object's.
        """
        names = [name for name in self._listed() if name.lower().endswith(suffix)]
        for name in names:
            # "?versionId=" in a name requests a version of the object named before it.
            if "/".join(client().split_path(name)[:2]) != name:
                raise InvalidInput(f"s3://{name} must have another name: the client of S3 reads another object by it.")
        return [f"s3://{name}" for name in names]

    def stamps(self) -> tuple[tuple[str, ...], ...]:
        """Return the name, ETag, size and time of the objects in this folder (or of itself), which change when one is
        rewritten.

        Raises `OSError`.
        """
        objects = self._listed()
        return tuple(
            (name, *(str(objects[name].get(key)) for key in ("ETag", "size", "LastModified"))) for name in objects
        )

    def _listed(self) -> dict[str, Any]:
        objects = talk(self.uri, lambda: client().find(self.uri, detail=True))
        return {name: objects[name] for name in sorted(objects)}

    def put(self, content: bytes, *, create: bool = False) -> None:
        """Write the content in one request, so that readers see all of it or nothing.

        create: refuse to replace an object (If-None-Match: *); raises `FileExistsError` if it exists.
        Raises `CannotWrite` if storage refuses it or does not answer.
        """
        options: dict[str, Any] = dict(self.options)
        if create and not talk(self.uri, _knows_conditions):
            raise InvalidInput("s3:// needs a client that knows If-None-Match: pip install -U botocore s3fs.")
        try:
            mode = "create" if create else "overwrite"
            talk(self.uri, lambda: client().pipe_file(self.uri, content, mode=mode, **options))
        except FileExistsError:
            raise
        except OSError as error:
            raise CannotWrite(f"{self.uri} could not be written: {error}; {CONTINUES}.") from error


@dataclass(frozen=True)
class StoredFolder:
    """Where to keep shards in object storage. scratch: the local folder in which they are made first."""

    folder: ObjectPath
    scratch: Path


AnyPath = str | os.PathLike[str] | ObjectPath


def object_path(uri: str, options: str | os.PathLike[str] | None = None) -> ObjectPath:
    """Return the folder at `uri`, s3://BUCKET/FOLDER. options: TOML file with the options of every put.

    The file may have ACL ("private" or "bucket-owner-full-control"), ServerSideEncryption, SSEKMSKeyId and
    BucketKeyEnabled, as S3 defines them. Nothing is sent yet.
    Errors: `InvalidInput` for another scheme, a bucket without a folder, credentials in the address, other options,
    an ACL that lets others read, a missing client (the extra `s3`).
    """
    path = stored_path("store", uri)
    settings = {} if options is None else read_toml("store-options", options)
    for name, value in settings.items():
        if name not in _OPTIONS:
            raise InvalidInput(f"store-options may have {', '.join(_OPTIONS)}, got {name}.")
        choices = _OPTIONS[name]
        if not (isinstance(value, str) and value if choices is None else type(value) is type(choices[0])):
            raise InvalidInput(f"store-options: {name} must be of another type.")
        if choices is not None and value not in choices:
            raise InvalidInput(f"store-options: {name} must be one of {', '.join(map(str, choices))}, got {value!r}.")
    return ObjectPath(path.uri, tuple(sorted(settings.items())))


def is_uri(path: AnyPath) -> bool:
    """Return whether a path is an address somewhere else, such as s3://BUCKET/KEY.

    >>> is_uri("s3://hospital/patients"), is_uri("/data/patients.csv")
    (True, False)
    """
    return isinstance(path, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def stored_path(name: str, uri: str) -> ObjectPath:
    """Return the path s3://BUCKET/KEY of an object or folder; nothing is sent yet. name: its role, for messages.

    Errors: `InvalidInput` for another scheme, a bucket without a key, credentials in the address, a missing client.
    """
    if _URI.fullmatch(uri) is None or ".." in uri:
        # Not repeated in the message: it may contain a password.
        raise InvalidInput(
            f"{name} must be s3://BUCKET/FOLDER: a bucket's name has 3 to 63 small letters, digits, dots and dashes, a "
            "folder's letters, digits, dots, dashes, underscores and equals signs; without credentials (those come "
            "from the environment)."
        )
    client()
    return ObjectPath(uri.rstrip("/"))


def as_file(path: AnyPath) -> Path | ObjectPath:
    """Return a local path, or one in object storage, to read from."""
    return path if isinstance(path, ObjectPath) else Path(path)


def client() -> Any:
    """Return the S3 client of fsspec.

    Errors: `InvalidInput` if it is missing (the extra `s3`), or configured to let others read what it puts.
    """
    # Others may write at the same time, so listings must not be cached.
    try:
        s3fs = import_module("s3fs")
    except ImportError:
        raise InvalidInput("s3:// needs the client of S3; install it with pip install '.[s3]'.") from None
    filesystem = s3fs.S3FileSystem(use_listings_cache=False)
    # fsspec reads its own settings from the environment and from files, which must not make objects public.
    if (filesystem.s3_additional_kwargs or {}).get("ACL") not in (None, *_PRIVATE):
        raise InvalidInput(
            f"fsspec's own settings of S3 must give no ACL but {' or '.join(_PRIVATE)}: with another one, others could "
            "read what is put."
        )
    return filesystem


def _knows_conditions() -> bool:
    # An older client silently ignores arguments that it does not know.
    return "IfNoneMatch" in client().s3.meta.service_model.operation_model("PutObject").input_shape.members


def endpoint() -> str:
    """Return the endpoint of the client, without credentials: https://HOST[:PORT]. Raises `OSError`."""
    url = urlsplit(str(talk("s3://", lambda: client().s3.meta.endpoint_url)))
    return f"{url.scheme}://{url.hostname}{'' if url.port is None else f':{url.port}'}"


def talk(uri: str, ask: Any) -> Any:
    """Return the answer of storage to `ask`. Raises `OSError`, without credentials, for every error of it or its
    client.
    """
    try:
        return ask()
    except (FileNotFoundError, InvalidInput):
        raise
    except Exception as error:
        code = getattr(error, "response", None) or getattr(error.__cause__, "response", None) or {}
        name = str(code.get("Error", {}).get("Code", "")) or type(error).__name__
        if isinstance(error, FileExistsError) or name == "PreconditionFailed":
            raise FileExistsError(uri) from None
        raise OSError(f"storage answered {name}") from None
