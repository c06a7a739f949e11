"""Texts through a network of ONNX: tokens of the tokenizer beside it, pooled as its preparation says."""

import pickle

import numpy as np
import pandas as pd
import pytest

from ostrakon.features import TextColumns, learn_representation
from ostrakon.features.onnx_text import OnnxText
from ostrakon.validation import InvalidInput
from tiny_onnx import WORDS, numbers, words, written

tokenizers = pytest.importorskip("tokenizers")

VOCABULARY = {"[UNK]": 0, **{f"w{number}": number for number in range(1, 30)}}


@pytest.fixture
def how(tmp_path):
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    how = written(tmp_path, words(), 'kind = "text"\nmax_length = 3\n')
    made.save(str(tmp_path / "tokenizer.json"))
    return how


def test_texts_are_tokens_cut_and_pooled(how):
    made = OnnxText(how).encode(["w4 w9", "w1 w2 w3 w4 w5", ""])
    for row, tokens in zip(made, ([4, 9], [1, 2, 3], [0]), strict=True):
        pooled = WORDS[tokens].mean(axis=0)
        np.testing.assert_allclose(row, pooled / np.linalg.norm(pooled), rtol=1e-4)


def test_a_text_is_alone(how):
    texts = ["w4 w9", "w1 w2 w3", "w7"]
    together = OnnxText(how).encode(texts)
    assert b"".join(OnnxText(how).encode([text]).tobytes() for text in texts) == together.tobytes()


def test_a_column_of_text_becomes_its_embedding(how):
    rng = np.random.default_rng(0)
    notes = [" ".join(rng.choice(list(VOCABULARY), 4)) for _ in range(40)]
    table = pd.DataFrame({"note": notes, "age": rng.normal(size=40)})
    columns = TextColumns(how).fit(table)
    assert columns.transform(table).columns.tolist() == ["age", *(f"note.{at}" for at in range(4))]
    assert "tokenizer.json" in columns.in_words()
    assert columns.in_words().endswith("trained on: unknown")
    assert columns.described("note")["encoder"].endswith("scaled to length 1")
    assert pickle.loads(pickle.dumps(columns)).transform(table).equals(columns.transform(table))
    assert learn_representation(how, table[["note"]]).features == 4


def test_what_is_missing_is_named(how, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"tokenizer\.json is not a tokenizer"):
        OnnxText(how)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(InvalidInput, match=r"tokenizer\.json cannot be read"):
        OnnxText(how)


def test_other_inputs_are_refused(how, tmp_path):
    written(tmp_path, numbers(), 'kind = "text"\n')
    with pytest.raises(InvalidInput, match="may read input_ids, attention_mask and token_type_ids, got 'x'"):
        OnnxText(how)
