"""A BERT of two layers with random weights, in a folder as sentence-transformers writes it."""

import json

import numpy as np

WORDS = ["[UNK]", "[CLS]", "[SEP]", *["a", "fine", "film", "that", "was", "dull", "and", "much", "too", "long"]]
WIDTH, HEADS, LAYERS = 12, 3, 2


def weights(seed=0):
    rng = np.random.default_rng(seed)

    def some(*shape):
        return rng.normal(0, 0.4, shape).astype(np.float32)

    held = {
        "embeddings.word_embeddings.weight": some(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": some(16, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
        "embeddings.position_ids": np.arange(16)[None],
    }
    linear = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH)}
    linear |= {"attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH)}
    linear |= {"intermediate.dense": (40, WIDTH), "output.dense": (WIDTH, 40)}
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for name, (wide, deep) in linear.items():
            held |= {f"{at}{name}.weight": some(wide, deep), f"{at}{name}.bias": some(wide)}
    norms = [name for at in range(LAYERS) for name in (f"{at}.attention.output", f"{at}.output")]
    for name in ["embeddings", *(f"encoder.layer.{name}" for name in norms)]:
        held |= {f"{name}.LayerNorm.weight": 1 + some(WIDTH), f"{name}.LayerNorm.bias": some(WIDTH)}
    return held


def tiny_bert(made):
    """Write it to the new folder `made`, and return that."""
    import tokenizers
    from safetensors.numpy import save_file

    made.mkdir()
    save_file(weights(), made / "model.safetensors")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(made / "tokenizer.json"))
    config = {"model_type": "bert", "hidden_act": "gelu", "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    config |= {"layer_norm_eps": 1e-12, "hidden_size": WIDTH, "max_position_embeddings": 16}
    (made / "config.json").write_text(json.dumps(config))
    return made
