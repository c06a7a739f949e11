"""Characters drawn once for every font that has them, larger than needed, to be distorted later."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ostrakon.validation import InvalidInput

SIDE = 64
_CAP_HEIGHT = 34
_BASELINE = 47

# Characters that differ by more than size: letters first, then the other scripts and signs that most fonts have.
CHARACTERS = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "abdefghijlmnqrt23456789"
    "ΓΔΘΛΞΠΣΦΨΩαβγδεζηθλμξπρσφχψω"
    "БДЖИЙЛЦЧШЩЪЫЬЭЮЯбвгджйъыэюя"
    "!?&%@#$€£¥§¶©®+=<>{}[]()/\\*~^±÷×¿¡«»∂√∞∫≈≠≤≥¬¢ßæœøđłŧðþÆŒÞ"
)
# Fonts of pieces and placeholders: they have a shape for a letter, but not the letter.
_NOT_LETTERS = ("lastresort", "nonuni", "siz", "display", "cmex", "emoji", "symbol", "dingbat", "icon", "barcode")
_LATIN_ONLY = "cm"  # Computer Modern's files in Matplotlib use an encoding of their own beyond letters and digits.


def font_files(*, system: bool = True) -> list[Path]:
    """Font files that hold ordinary letters: Matplotlib's own, and with `system` those found on this machine."""
    shipped = sorted(Path(matplotlib.get_data_path(), "fonts", "ttf").glob("*.ttf"))
    found = [Path(name) for name in font_manager.findSystemFonts()] if system else []
    files: dict[str, Path] = {}
    for file in [*shipped, *sorted(found, key=lambda file: (file.name, str(file)))]:
        if not any(word in file.name.lower() for word in _NOT_LETTERS):
            files.setdefault(file.name.lower(), file)
    return list(files.values())


@functools.lru_cache(maxsize=4)
def glyph_shapes(n_classes: int, *, system: bool = True) -> tuple[tuple[str, ...], tuple[NDArray[np.float32], ...]]:
    """The first `n_classes` characters that at least three fonts have, and their shapes.

    Returns the characters, and for each of them its drawings in [0, 1], shape (fonts, SIDE, SIDE), all different.
    """
    fonts = [_Font(file) for file in font_files(system=system)]
    characters: list[str] = []
    shapes: list[NDArray[np.float32]] = []
    for character in CHARACTERS:
        if len(characters) == n_classes:
            break
        drawn = _different([font.draw(character) for font in fonts if font.has(character)])
        if len(drawn) >= 3:
            characters.append(character)
            shapes.append(np.stack(drawn))
    if len(characters) < n_classes:
        raise InvalidInput(f"n_classes must be at most {len(characters)} with the fonts found here, got {n_classes}.")
    return tuple(characters), tuple(shapes)


class _Font:
    def __init__(self, file: Path) -> None:
        self.latin_only = file.name.startswith(_LATIN_ONLY)
        try:
            self.known = {chr(code) for code in FT2Font(str(file)).get_charmap() if code > 32}
            # Sizes are set so that capitals have one height in all fonts.
            top = ImageFont.truetype(str(file), 100).getbbox("H", anchor="ls")[1]
            self.font = ImageFont.truetype(str(file), round(100 * _CAP_HEIGHT / max(-top, 20)))
        except (OSError, RuntimeError, ValueError):
            self.known = set()

    def has(self, character: str) -> bool:
        plain = character.isascii() and character.isalnum()
        return character in self.known and (plain or not self.latin_only)

    def draw(self, character: str) -> NDArray[np.float32]:
        image = Image.new("L", (SIDE, SIDE))
        left, _, right, _ = self.font.getbbox(character, anchor="ls")
        place = ((SIDE - left - right) / 2, _BASELINE)
        ImageDraw.Draw(image).text(place, character, fill=255, font=self.font, anchor="ls")
        return np.asarray(image, np.float32) / np.float32(255)


def _different(drawings: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
    kept: dict[bytes, NDArray[np.float32]] = {}
    for drawing in drawings:
        if drawing.max() > 0.5:
            kept.setdefault(drawing.tobytes(), drawing)
    return list(kept.values())
