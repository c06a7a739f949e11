"""Images: per-record teachers on pictures of letters, in Python.

    python examples/images.py

3,000 private images, each of which votes on the one public representative most like it; 600 public ones.
"""

from __future__ import annotations

import numpy as np

import ostrakon


def main() -> None:
    data = ostrakon.datasets.glyphs(3_000, 600, 300, random_state=0)
    model = ostrakon.PATEClassifier(
        student="svm-rbf(C=1.0, class_weight='balanced')", epsilon=2.0, classes=data.classes, random_state=0
    )
    model.fit(data.X, np.asarray(data.classes)[data.y], X_public=data.X_public)

    guarantee = model.statement_.guarantee
    assert guarantee is not None
    right = (model.released_.predict(data.X_test) == np.asarray(data.classes)[data.y_test]).mean()
    print(f"({guarantee.epsilon:.3f}, {guarantee.delta:g})-DP by {model.mechanism_!r}")
    print(f"{len(model.queries_)} public images were asked about; the student has {right:.1%} of test images right")
    assert right > 0.8


if __name__ == "__main__":
    main()
