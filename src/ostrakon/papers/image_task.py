"""The image sets of the papers, with teachers and students of our own; nothing is made before it is asked for."""

import math
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ostrakon.data.datasets import Dataset, cifar10, mnist
from ostrakon.features.graph import PublicGraph, build_graph
from ostrakon.features.representation import Representation, learn_representation
from ostrakon.progress import Report
from ostrakon.teachers.ensemble import train_teachers
from ostrakon.teachers.heads import HeadEnsemble
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

Name = Literal["mnist", "cifar10"]
NAMES: dict[Name, str] = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
SEED = 0
MOST_EPOCHS = 20
"""Of teachers with 240 rows, as 250 teachers on MNIST have; see `epochs_for`."""


def epochs_for(rows: int) -> int:
    """Passes of a teacher over its own rows: 20 at 240 rows, fewer where it has more, by their square root; from 2.

    >>> epochs_for(240), epochs_for(750), epochs_for(60_000)
    (20, 11, 2)
    """
    return int(np.clip(round(MOST_EPOCHS * math.sqrt(240 / rows)), 2, MOST_EPOCHS))


class ImageTask:
    """MNIST or CIFAR-10: all training images private, test[:9000] as queries, test[9000:] to measure students on.

    name: "mnist" or "cifar10". data: the folder that holds `mnist/`, or `cifar10.zip` or `cifar-10-batches-bin/`.
    Nothing is read before it is asked for. Errors: `InvalidInput` where the files are missing or damaged.
    """

    def __init__(self, name: Name, data: Path) -> None:
        self.name: Name = name
        self.data = data

    @property
    def is_there(self) -> bool:
        """Whether the data folder has the images, as far as names tell."""
        names = ("mnist",) if self.name == "mnist" else ("cifar10.zip", "cifar-10-batches-bin")
        return any((self.data / name).exists() for name in names)

    @cached_property
    def task(self) -> Dataset:
        """The images and labels."""
        return mnist(self.data / "mnist") if self.name == "mnist" else cifar10(self.data)

    @cached_property
    def representation(self) -> tuple[str, Representation]:
        """(its name, it), learned from the public images: photographs through a frozen encoder where there is one."""
        if self.name == "cifar10":
            try:
                return "photos", learn_representation("photos", self.task.X_public, random_state=SEED)
            except InvalidInput:
                pass  # the extra with the encoder is not installed
        return "hog", learn_representation("hog", self.task.X_public, random_state=SEED)

    @cached_property
    def public(self) -> Any:
        """Features of the queries."""
        return self.representation[1].transform(self.task.X_public)

    @cached_property
    def graph(self) -> PublicGraph:
        """Neighbours among the queries and, after them, the images that measure a student."""
        return build_graph(np.vstack([self.public, self.representation[1].transform(self.task.X_test)]))

    @cached_property
    def _private(self) -> Any:
        return self.representation[1].transform(self.task.X)

    def teach(self, teachers: int, *, progress: bool | Report | None = None) -> tuple[IntArray, str]:
        """Return (classes that `teachers` teachers of equal shares name, (queries, teachers); who they are, in words).

        MNIST: small networks on pixels, which need PyTorch. CIFAR-10: kernel ridge on the representation's features.
        """
        rows, labels = len(self.task.y), self.task.y
        owner = np.random.default_rng(SEED).permutation(rows) % teachers
        options: dict[str, Any] = {"n_teachers": teachers, "classes": 10, "seed": SEED, "progress": progress}
        if self.name == "mnist":
            from ostrakon.teachers.torch_ensemble import TorchEnsemble

            epochs = epochs_for(rows // teachers)
            trained = train_teachers(
                TorchEnsemble("mlp", epochs=epochs), _pixels(self.task.X), labels, owner, **options
            )
            said = trained.predict(_pixels(self.task.X_public), progress=progress)
            return said, f"networks of two layers of 64 on pixels, {epochs} epochs"
        trained = train_teachers(HeadEnsemble(public=self.public), self._private, labels, owner, **options)
        said = trained.predict(self.public, progress=progress)
        return said.astype(np.int64), f"kernel ridge on {self.representation[0]} features"

    def spread(self, rows: IntArray, labels: IntArray) -> float:
        """Test accuracy of what `labels` of the queries `rows` say when spread over the graph of all images."""
        known = np.full(self.graph.size, -1)
        known[rows] = labels
        said = self.graph.spread(known, classes=10).argmax(axis=1)
        return float((said[len(self.public) :] == self.task.y_test).mean())

    def network(self, rows: IntArray, labels: IntArray) -> float:
        """Test accuracy of a network such as a teacher's, trained on `labels` of the queries `rows` alone."""
        from ostrakon.networks.classifier import TorchClassifier

        student = TorchClassifier("mlp", random_state=SEED).fit(_pixels(self.task.X_public[rows]), labels)
        return float((student.predict(_pixels(self.task.X_test)) == self.task.y_test).mean())


def _pixels(images: Any) -> Any:
    return images.reshape(len(images), -1)
