"""Characters drawn once for every font that has them, larger than needed, to be distorted later."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Self

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

from ostrakon.validation import InvalidInput

Drawings = NDArray[np.uint8]
Shapes = tuple[Drawings, ...]

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
# Families that were made from one another's outlines, or may have been, by how the first words of their names begin.
_KIN = {
    "nimbus": r"nimbus|free|tex|urw|c059|p052|z003|d050000l|palladio",
    "cm": r"cm|latin|lm|mathjax",
    "dejavu": r"dejavu|verana|bitstream|arev",
    "liberation": r"liberation|arimo|tinos|cousine",
    "noto": r"noto|open|droid|wenquanyi",
    "lato": r"lato|carlito",
    "mplus": r"m\b|mplus|migmix|migu|umeplus|mona|rounded",
    "ipa": r"ipa|takao",
    "gentium": r"gentium",
    "stix": r"stix|asana",
    "unifont": r"unifont",
    "beteckna": r"beteckna",
    "ocr": r"ocr",
    "berenika": r"beren|klaudia",
    "nanum": r"nanum",
}
_LIKE_LETTERS = 0.5
_LATIN_ONLY = "cm"  # Computer Modern's files in Matplotlib use an encoding of their own beyond letters and digits.


def font_files(*, system: bool = True) -> list[Path]:
    """Return font files with ordinary letters: Matplotlib's own, and with `system` those installed on this machine."""
    shipped = sorted(Path(matplotlib.get_data_path(), "fonts", "ttf").glob("*.ttf"))
    installed = [Path(name) for name in font_manager.findSystemFonts()] if system else []
    files: dict[str, Path] = {}
    for file in [*shipped, *sorted(installed, key=lambda file: (file.name, str(file)))]:
        if not any(word in file.name.lower() for word in _NOT_LETTERS):
            files.setdefault(file.name.lower(), file)
    return list(files.values())


@functools.lru_cache(maxsize=4)
def glyph_shapes(n_classes: int, *, system: bool = True) -> tuple[tuple[str, ...], Shapes]:
    """Return the first `n_classes` characters that at least three fonts have, and their shapes.

    Returns the characters, and for each of them its drawings in 0 to 255, shape (fonts, SIDE, SIDE), all different.
    """
    characters, (shapes,) = _draw_characters(n_classes, [[_Font(file) for file in font_files(system=system)]])
    return characters, shapes


@functools.lru_cache(maxsize=1)
def split_shapes(n_classes: int, *, system: bool = True) -> tuple[tuple[str, ...], Shapes, Shapes]:
    """Return the first `n_classes` characters that at least three fonts of two sides have, and their shapes on either
    side.

    No font, no family of fonts, no pair of fonts with common outlines (as far as names say) and no drawing is
    on both sides. Families go to the side that has fewer fonts, the largest first. Fonts whose letters cannot be
    distinguished, or do not look like letters, are left out, and so is a drawing that a font uses for two characters,
    such as a box for those that it lacks.
    """
    fonts = legible([_Font(file) for file in font_files(system=system)])
    families: dict[str, list[_Font]] = {}
    for font in fonts:
        families.setdefault(font.family, []).append(font)
    sides: tuple[list[_Font], list[_Font]] = ([], [])
    for _, family in sorted(families.items(), key=lambda named: (-len(named[1]), named[0])):
        min(sides, key=len).extend(family)
    characters, (one, other) = _draw_characters(n_classes, sides)
    return characters, one, other


def legible(fonts: "Sequence[_Font]") -> "list[_Font]":
    """Return the fonts whose capitals are all different, and mostly resemble the same letter of other fonts the most.

    Drawings that stand for two characters are dropped from them.
    """
    capitals = CHARACTERS[:26]
    plain = [font for font in fonts if all(map(font.has, capitals))]
    pictures = {font: np.stack([font.draw(letter) for letter in capitals]) for font in plain}
    plain = [font for font in plain if len(_different(list(pictures[font]))) == len(capitals)]
    if not plain:
        return []
    looks = np.stack([gaussian_filter(pictures[font].astype(np.float32), (0, 3, 3))[:, ::4, ::4] for font in plain])
    looks = looks.reshape(len(plain), len(capitals), -1)
    looks -= looks.mean(axis=1, keepdims=True)
    usual = looks.mean(axis=0)
    right = (np.einsum("flp,kp->flk", looks, usual) - (usual**2).sum(axis=1) / 2).argmax(axis=2)
    share = (right == np.arange(len(capitals))).mean(axis=1)
    return [font.without_doubles() for font, recognized in zip(plain, share, strict=True) if recognized > _LIKE_LETTERS]


def _draw_characters(n_classes: int, sides: "Sequence[Sequence[_Font]]") -> tuple[tuple[str, ...], list[Shapes]]:
    """Return characters that at least three fonts of every side have, and the drawings of each side; none is on two
    sides.
    """
    characters: list[str] = []
    shapes: list[list[Drawings]] = [[] for _ in sides]
    for character in CHARACTERS:
        if len(characters) == n_classes:
            break
        keys: set[bytes] = set()
        drawings: list[list[Drawings]] = []
        for fonts in sides:
            here = _different([font.draw(character) for font in fonts if font.has(character)])
            drawings.append([drawing for drawing in here if drawing.tobytes() not in keys])
            keys.update(drawing.tobytes() for drawing in here)
        if min(map(len, drawings)) >= 3:
            characters.append(character)
            for of_side, own in zip(shapes, drawings, strict=True):
                of_side.append(np.stack(own))
    if len(characters) < n_classes:
        raise InvalidInput(f"n_classes must be at most {len(characters)} with the fonts found here, got {n_classes}.")
    return tuple(characters), [tuple(of_side) for of_side in shapes]


class _Font:
    """The characters that a font file has, and how it draws them. family: of related fonts, by its name."""

    def __init__(self, file: Path) -> None:
        self.latin_only = file.name.startswith(_LATIN_ONLY)
        self.family = ""
        try:
            opened = FT2Font(str(file))
            self.family = _kin(opened.family_name)
            self.known = {chr(code) for code in opened.get_charmap() if code > 32}
            # Sizes are set so that capitals have one height in all fonts.
            top = ImageFont.truetype(str(file), 100).getbbox("H", anchor="ls")[1]
            self.font = ImageFont.truetype(str(file), round(100 * _CAP_HEIGHT / max(-top, 20)))
        except (OSError, RuntimeError, ValueError):
            self.known = set()

    def has(self, character: str) -> bool:
        plain = character.isascii() and character.isalnum()
        return character in self.known and (plain or not self.latin_only)

    def draw(self, character: str) -> Drawings:
        image = Image.new("L", (SIDE, SIDE))
        left, _, right, _ = self.font.getbbox(character, anchor="ls")
        origin = ((SIDE - left - right) / 2, _BASELINE)
        ImageDraw.Draw(image).text(origin, character, fill=255, font=self.font, anchor="ls")
        return np.asarray(image, np.uint8)

    def without_doubles(self) -> Self:
        """Return the same font, without the characters that it draws alike."""
        drawings = {character: self.draw(character).tobytes() for character in CHARACTERS if self.has(character)}
        often = Counter(drawings.values())
        one = copy(self)
        one.known = {character for character, drawing in drawings.items() if often[drawing] == 1}
        return one


def _kin(family: str) -> str:
    """Return the first word of a family's name, or that of the one whose outlines it was made from.

    >>> _kin("DejaVu Sans Mono"), _kin("FreeSerif"), _kin("TeX Gyre Heros Cn")
    ('dejavu', 'nimbus', 'nimbus')
    """
    word = (family.split() or [""])[0].lower()
    return next((origin for origin, heirs in _KIN.items() if re.match(heirs, word)), word)


def _different(drawings: Sequence[Drawings]) -> list[Drawings]:
    by_digest: dict[bytes, Drawings] = {}
    for drawing in drawings:
        if drawing.max() > 127:
            by_digest.setdefault(drawing.tobytes(), drawing)
    return list(by_digest.values())
