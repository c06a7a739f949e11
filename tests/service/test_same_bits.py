"""A row has the same features, to the last bit, alone, in a batch and in the run."""

import numpy as np
import pandas as pd
import pytest

from ostrakon.cli.train import train_from
from ostrakon.run.stages.features import view_of
from ostrakon.service import open_service
from tiny_onnx import numbers, words, written

NOISE = {"threshold": 14.0, "sigma1": 6.0, "sigma2": 4.0}


def onnx_text(folder):
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, **{f"w{number}": number for number in range(1, 30)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    how = written(folder, words(), 'kind = "text"\n')
    made.save(str(folder / "tokenizer.json"))
    return how


def table(rng, *, text):
    frame = pd.DataFrame({name: rng.normal(size=500).round(6) for name in ("x", "y", "z")})
    label = np.where(frame["x"] + frame["y"] > 0, "yes", "no")
    if text:
        tokens = rng.integers(1, 30, (500, 6))
        frame = pd.DataFrame({"note": [" ".join(f"w{at}" for at in row) for row in tokens], "x": frame["x"]})
    return frame, label


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "text", "tfidf"])
def test_a_row_has_the_same_bits_alone_in_a_batch_and_in_the_run(tmp_path, kind):
    frame, label = table(np.random.default_rng(1), text=kind != "table")
    frame[:350].assign(ill=label[:350]).to_csv(tmp_path / "private.csv", index=False)
    frame[350:].to_csv(tmp_path / "public.csv", index=False)
    how = {
        "table": lambda: written(tmp_path / "net", numbers(), 'kind = "table"\n'),
        "text": lambda: onnx_text(tmp_path / "net"),
        "tfidf": lambda: "tfidf",
    }[kind]()
    files = {"private": str(tmp_path / "private.csv"), "public": str(tmp_path / "public.csv"), "target": "ill"}
    options = {"teachers": 20, "teacher": "naive-bayes", "queries": 20, "student": "logistic", "delta": 1e-5, "jobs": 1}
    train_from({**files, **options, **NOISE, "classes": "no,yes", "representation": how}, out=tmp_path / "run")
    rows = frame[350:400].to_dict("records")
    with open_service(
        tmp_path / "run", ledger=f"sqlite:///{tmp_path / 'budget.db'}", budget=100.0, block=5
    ) as labeller:
        in_run = np.asarray(view_of(labeller.task.X_public, how, seed=0).transform(labeller.task.X_public))[:50]
        (together,), (keys,) = labeller._features([labeller.read("a", 1000, rows)])
        alone = [labeller._features([labeller.read("a", 1000, [row])]) for row in rows]
    assert together.tobytes() == in_run.tobytes()
    assert b"".join(features[0].tobytes() for features, _ in alone) == together.tobytes()
    assert [one[0][0] for _, one in alone] == list(keys)
    assert len(set(keys)) == 50
