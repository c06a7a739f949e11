"""What a frozen encoder makes of private rows is kept whole, and made again where it was damaged."""

import numpy as np
import pandas as pd
import pytest

from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.votes import CachedTransform, transform_of
from tiny_bert import WORDS, tiny_bert


def texts(rows, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"note": [" ".join(rng.choice(WORDS[3:], 5)) for _ in range(rows)]})


def test_rows_are_encoded_once(tmp_path):
    asked = []

    def transform(X):
        asked.append(len(X))
        return np.asarray(X, np.float32) * 2

    X = np.random.default_rng(0).normal(size=(1200, 3))
    kept = CachedTransform(transform=transform, folder=tmp_path / "features", view_digest="a")
    first = kept(X)
    assert asked == [512, 512, 176]
    assert np.array_equal(first, np.asarray(X, np.float32) * 2)
    assert np.array_equal(kept(X), first)
    assert len(asked) == 3
    CachedTransform(transform=transform, folder=tmp_path / "features", view_digest="b")(X[:512])
    assert len(asked) == 4, "another view's features are not taken for these"
    file = sorted((tmp_path / "features").iterdir())[0]
    file.write_bytes(file.read_bytes()[:-9])
    assert np.array_equal(kept(X), first)
    assert (tmp_path / "features").stat().st_mode & 0o777 == 0o700
    assert kept(X[:0]).shape == (0, 3)


def test_rows_of_a_run_in_memory_are_encoded_once():
    asked, cache = [], {}
    options = {"transform": lambda X: asked.append(len(X)) or X * 2, "folder": None, "cache": cache}
    X = np.random.default_rng(0).normal(size=(600, 3))
    for _ in range(2):
        assert np.array_equal(CachedTransform(**options, view_digest="a")(X), X * 2)
    assert asked == [512, 88]
    CachedTransform(**options, view_digest="b")(X)
    assert len(asked) == 4, "another view's features are not taken for these"


def test_only_what_takes_long_is_kept(tmp_path):
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    public, private = texts(60, 0), texts(20, 1)
    slow = view_of(public, f"text:{tiny_bert(tmp_path / 'tiny')}")
    made = transform_of(slow, tmp_path / "features")(private)
    assert np.array_equal(made, slow.transform(private))
    assert len(list((tmp_path / "features").iterdir())) == 1
    assert transform_of(slow, None)(private).tobytes() == made.tobytes()
    transform_of(view_of(public, "tfidf"), tmp_path / "other")(private)
    assert not (tmp_path / "other").exists()


def test_what_a_statement_says_of_an_encoder(tmp_path):
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    public = texts(60, 0)
    view = view_of(public, f"text:{tiny_bert(tmp_path / 'tiny')}")
    facts = view.encoder_facts()["encoder"]
    assert facts.startswith("tiny, SHA-256 of its weights ")
    assert facts.endswith("trained on: unknown")
    assert view.encoder_facts("our public website")["encoder"].endswith("trained on: our public website")
    assert view_of(public, "tfidf").encoder_facts() == {}
    given = view_of(pd.DataFrame({"seen.0": [1.0, 2.0, 4.0], "seen.1": [2.0, 1.0, 0.0]}))
    assert given.encoder_facts()["encoder"].endswith("trained on: unknown")
    assert given.encoder_facts("LAION")["encoder"].endswith("trained on: LAION")
    assert view_of(np.eye(9)).encoder_facts() == {}
