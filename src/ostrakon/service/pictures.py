"""A row of a service whose teachers look at images: one picture, as the text of its PNG or JPEG file in base64."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.images import read_picture
from ostrakon.validation import InvalidInput, quote

IMAGE = "image"
"""The name of the only column, and of its kind."""
MAX_PIXELS = 2**20
"""Pixels of one picture: 1024 x 1024."""
MAX_PICTURES = 100
"""Pictures of one request."""
PICTURES_AT_ONCE, MAX_WAITING_PICTURES = 128, 1000
"""Pictures that the teachers get together, and that may wait for them: decoded ones are large."""


@dataclass(frozen=True, kw_only=True)
class PictureForm:
    """How the pictures of clients are read: as those of a folder beside the public images.

    Parameters
    ----------
    shape : tuple of int
        Of one public image.
    """

    shape: tuple[int, ...]
    columns: ClassVar[tuple[Mapping[str, Any], ...]] = ({"name": IMAGE, "kind": IMAGE},)

    @classmethod
    def of(cls, X_public: Any) -> Self:
        """Return the form of public images.

        Raises
        ------
        InvalidInput
            If they do not have one or three colours and values from 0 to 1.
        """
        shape = X_public.shape[1:]
        colours = {1, 3} & {shape[0], shape[-1]} if len(shape) == 3 else {1}
        if len(shape) not in (2, 3) or not colours or X_public.min() < 0 or X_public.max() > 1:
            raise InvalidInput(
                "A service for images must have public ones with one or three colours and values from 0 to 1, got "
                f"shape {shape} and values from {X_public.min():g} to {X_public.max():g}."
            )
        return cls(shape=shape)

    def read(self, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float32]:
        """Read the pictures of a request, shape (rows, ...).

        Raises
        ------
        InvalidInput
            If one is not a PNG or JPEG file in base64 of at most `MAX_PIXELS`.
        """
        return np.stack([self._picture(number, row[IMAGE]) for number, row in enumerate(rows)])

    def _picture(self, number: int, text: str) -> NDArray[np.float32]:
        try:
            content = base64.b64decode(text, validate=True)
        except ValueError:
            raise InvalidInput(f"Row {number}: {IMAGE} must be text in base64, got {quote(text)}.") from None
        try:
            return read_picture(content, shape=self.shape, most_pixels=MAX_PIXELS)
        except InvalidInput as error:
            raise InvalidInput(f"Row {number}: {error}") from None
