"""Features of colour images from a dictionary of small patches, learned from public images: no network, no download."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils import check_random_state

from ostrakon.features.pixels import as_colours, brightest_of, resized
from ostrakon.features.rowwise import row_digest
from ostrakon.numerics.threads import on_one_thread
from ostrakon.progress import tracked
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import FloatArray

SIDE, PATCH = 32, 6
"""Pixels of a side of the resized images, and of a patch."""
PLACES = SIDE - PATCH + 1
CONTRAST, WHITENING, THRESHOLD = 10 / 255**2, 0.1, 1.0
"""Added to the variance of a patch (pixels from 0 to 1) and of a direction; and the threshold of a response."""
_AN_IMAGE = 25
_MOST = 250_000


class PatchFeatures(TransformerMixin, BaseEstimator):
    """Images to the responses of each quarter to every patch of a dictionary, and to its negative.

    atoms: patches of the dictionary, 2 or more. random_state: seed of the sample of patches it is learned from.
    Images are grey or in colour and resized to 32 by 32 pixels; a patch has 6 by 6 pixels, is standardized to mean 0
    and variance 1, and whitened. Features: for each quarter, the square root of the mean over its patches of
    max(z - 1, 0) and of max(-z - 1, 0), where z is the product of a patch with an atom. Output: float64 (images,
    8 atoms).

    Guarantee: the dictionary is a function of the images of `fit` alone, and the features of an image depend on the
    dictionary and that image, to the last bit: one image at a time, on one thread.
    Errors: `InvalidInput` for anything but images.
    Source: Coates and Ng 2011 (whitened patches, soft thresholds, sums over quarters).

    >>> images = np.random.default_rng(0).random((30, 8, 8, 3))
    >>> PatchFeatures(atoms=4, random_state=0).fit_transform(images).shape
    (30, 32)
    """

    def __init__(self, atoms: int = 400, random_state: int | None = None) -> None:
        self.atoms = atoms
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the dictionary: centres of k-means on whitened patches, of length 1."""
        atoms = whole("atoms", self.atoms, at_least=2)
        from sklearn.cluster import MiniBatchKMeans  # here, because tables have no patches

        name = "The public rows"
        self.brightest_ = 255.0 if np.asarray(X).dtype == np.uint8 else brightest_of(X, name=name)
        images = as_colours(X, brightest=self.brightest_, name=name)
        if not len(images):
            raise InvalidInput("The representation needs public rows, got none.")
        self.shape_ = np.shape(X)[1:]
        random = check_random_state(self.random_state)
        per_image = max(1, min(_AN_IMAGE, _MOST // len(images)))
        seen = tracked(images, "Cutting patches", total=len(images))
        chosen = [_patches(image)[random.choice(PLACES**2, per_image, replace=False)] for image in seen]
        patches = np.concatenate(chosen)
        mean = patches.mean(axis=0)
        variances, directions = np.linalg.eigh(np.cov(patches, rowvar=False))
        whiten = (directions / np.sqrt(variances + WHITENING)) @ directions.T
        centres = MiniBatchKMeans(
            min(atoms, len(patches)), batch_size=4096, n_init=1, max_iter=30, random_state=random.randint(2**31)
        ).fit((patches - mean) @ whiten)
        centroids = centres.cluster_centers_.astype(np.float64)
        lengths = np.linalg.norm(centroids, axis=1, keepdims=True)
        self.atoms_ = np.ascontiguousarray(whiten @ (centroids / np.maximum(lengths, 1e-12)).T)
        self.shift_ = mean @ self.atoms_
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return features of every image, float64 (images, features)."""
        if np.shape(X)[1:] != self.shape_:
            raise InvalidInput(f"X must hold images of {self.shape_}, as the public ones are, got {np.shape(X)[1:]}.")
        images = as_colours(X, brightest=self.brightest_)
        # Full blocks repeat images.
        marks = [row_digest(image) for image in images]
        by_mark = dict(zip(marks, images, strict=True))
        # Every image is computed by one thread, so the number of workers does not change its features.
        with on_one_thread(), ThreadPoolExecutor(effective_n_jobs(-1)) as workers:
            responses = workers.map(self._one, by_mark.values())
            features = dict(zip(by_mark, tracked(responses, "Comparing patches", total=len(by_mark)), strict=True))
        return np.stack([features[mark] for mark in marks]) if marks else np.empty((0, 8 * self.atoms_.shape[1]))

    def _one(self, image: NDArray[Any]) -> FloatArray:
        likeness = _patches(image) @ self.atoms_ - self.shift_
        similarities = np.concatenate(
            [np.maximum(likeness - THRESHOLD, 0), np.maximum(-likeness - THRESHOLD, 0)], axis=1
        )
        return np.sqrt(_QUARTERS @ similarities).ravel()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "atoms_")


class EvenedComponents(PCA):
    """Principal components, each divided by the square root of its standard deviation: half of a whitening.

    A few directions no longer dominate the others, and the first ones are still the largest.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of X."""
        super().fit(X)
        lengths = np.maximum(self.explained_variance_, 1e-12 * self.explained_variance_[0]) ** 0.25
        self.components_ = self.components_ / lengths[:, None]
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Return `fit` and `transform`."""
        return self.fit(X).transform(X)


def quarters() -> FloatArray:
    """Return the weight of every position of a patch in the mean of each quarter, (4, positions)."""
    half = -(-PLACES // 2)
    sides = [np.arange(PLACES) < half, np.arange(PLACES) >= PLACES - half]
    return np.stack([np.outer(down, across).ravel() for down in sides for across in sides]) / half**2


def places() -> NDArray[np.int64]:
    """Return the indices of the values of each patch in a flat image (32, 32, 3), (positions, values of a patch)."""
    corner = np.arange(PLACES)[:, None] * SIDE + np.arange(PLACES)
    within = np.arange(PATCH)[:, None] * SIDE + np.arange(PATCH)
    pixels = corner.reshape(-1, 1) + within.ravel()
    return (pixels[:, :, None] * 3 + np.arange(3)).reshape(PLACES**2, -1)


def _patches(image: NDArray[Any]) -> FloatArray:
    """Return all patches of an image (rows, columns, 3), with mean 0 and variance 1, (positions, values of a patch)."""
    patches = resized(image, SIDE, SIDE).ravel()[_PLACES]
    patches -= patches.mean(axis=1, keepdims=True)
    return patches / np.sqrt(np.square(patches).mean(axis=1, keepdims=True) + CONTRAST)


_QUARTERS, _PLACES = quarters(), places()
