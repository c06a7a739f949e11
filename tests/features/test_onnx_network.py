"""A network of ONNX: a row is alone, and nothing but ONNX and what lies beside the file is taken."""

import hashlib

import numpy as np
import pytest
from onnx import TensorProto, helper

from ostrakon.features import FrozenEncoder, learn_representation
from ostrakon.features.onnx_network import OnnxNetwork, checksums_of, files_of
from ostrakon.features.preparation import Preparation
from ostrakon.validation import InvalidInput
from tiny_onnx import TABLE, model, numbers, pictures, words, written

NUMBERS = Preparation(kind="table")


def test_features_are_the_networks_to_16_bits():
    network = OnnxNetwork(numbers().SerializeToString(), NUMBERS, name="tiny")
    row = np.array([[0.3, -2.0, 5.0]], np.float32)
    made = network.features({network.only_input: row})
    wanted = row[0].astype(np.float64) @ TABLE
    np.testing.assert_allclose(made, wanted, rtol=2.0**-15)
    assert made.dtype == np.float32
    # 16 significant bits: the eight others of a single number are zero.
    assert not (made.view(np.uint32) & 0xFF).any()


def test_a_chosen_output():
    network = OnnxNetwork(words().SerializeToString(), Preparation(kind="text", output="tokens"), name="tiny")
    assert sorted(network.inputs) == ["attention_mask", "input_ids"]
    with pytest.raises(InvalidInput, match="must have one input, got input_ids, attention_mask"):
        _ = network.only_input
    with pytest.raises(InvalidInput, match="has the outputs tokens, not 'other'"):
        OnnxNetwork(words().SerializeToString(), Preparation(kind="text", output="other"), name="tiny")


def test_several_rows_at_once_are_refused():
    OnnxNetwork(pictures(1).SerializeToString(), NUMBERS, name="tiny")
    with pytest.raises(InvalidInput, match="must take one row at a time"):
        OnnxNetwork(pictures(8).SerializeToString(), NUMBERS, name="tiny")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.zeros((1, 4), np.float32), "takes rows x 3 of float32 as 'x', and was given 1 x 4 of float32: give it as"),
        (np.zeros((1, 3)), "takes rows x 3 of float32 as 'x', and was given 1 x 3 of float64"),
        (np.zeros(3, np.float32), "and was given 3 of float32"),
    ],
)
def test_another_row_is_one_sentence(given, told):
    network = OnnxNetwork(numbers().SerializeToString(), NUMBERS, name="tiny")
    with pytest.raises(InvalidInput, match=told) as refused:
        network.features({"x": given})
    assert "\n" not in str(refused.value)
    assert "ONNXRuntime" not in str(refused.value)


def test_pictures_of_another_size_are_one_sentence():
    image = Preparation(kind="image", size=(8, 8))
    with pytest.raises(InvalidInput) as refused:
        OnnxNetwork(pictures().SerializeToString(), image, name="tiny.onnx").features(
            {"x": np.zeros((1, 3, 2, 2), np.float32)}
        )
    assert str(refused.value) == (
        "The encoder tiny.onnx, which takes rows x 3 x h x w of float32 as 'x', fails on 1 x 3 x 2 x 2 of float32: "
        "see size and layout in tiny.onnx.toml."
    )
    network = OnnxNetwork(pictures().SerializeToString(), image, name="tiny.onnx")
    with pytest.raises(InvalidInput, match=r"and was given 1 x 8 x 8 x 3 of float32: see size and layout in tiny"):
        network.features({"x": np.zeros((1, 8, 8, 3), np.float32)})
    with pytest.raises(InvalidInput, match="has the inputs x, not 'y'"):
        network.features({"y": np.zeros((1, 3, 8, 8), np.float32)})


def test_features_that_are_not_finite_are_refused_of_public_rows_alone(tmp_path):
    name = written(tmp_path, numbers(), 'kind = "table"\n')
    with pytest.raises(InvalidInput, match="finite features"):
        FrozenEncoder(name).fit(np.array([[np.inf, 0, 0], [0, 0, 0]]))
    learned = learn_representation(name, np.random.default_rng(0).normal(size=(20, 3)))
    assert np.isfinite(learned.transform(np.array([[1e300, 3e38, -3e38], [np.nan, 0, 0]]), private=True)).all()


def test_a_broken_file_is_one_sentence(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x01no model" * 9)
    with pytest.raises(InvalidInput, match="cannot be loaded as ONNX"):
        OnnxNetwork(tmp_path / "broken.onnx", NUMBERS, name="broken")
    with pytest.raises(InvalidInput, match="is not an ONNX model"):
        files_of(tmp_path / "broken.onnx")
    with pytest.raises(InvalidInput, match="cannot be read: no such file"):
        files_of(tmp_path / "absent.onnx")


def test_operators_of_others_are_refused(tmp_path):
    custom = model(
        [helper.make_node("Anything", ["x"], ["features"], domain="of.mine")],
        {"x": (TensorProto.FLOAT, [1, 3])},
        {"features": (TensorProto.FLOAT, [1, 3])},
        {},
        domains=("", "of.mine"),
    )
    written(tmp_path, custom, 'kind = "table"\n')
    with pytest.raises(InvalidInput, match=r"got those of 'of\.mine'"):
        files_of(tmp_path / "tiny.onnx")


def test_operators_that_draw_are_refused_wherever_they_are(tmp_path):
    """In a branch that public rows may never take: features of a private row would follow from the rows before it."""
    value = helper.make_tensor_value_info
    branches = {
        name: helper.make_graph([node], name, [], [value(name, TensorProto.FLOAT, [1, 3])])
        for name, node in (
            ("drawn", helper.make_node("RandomNormal", [], ["drawn"], shape=[1, 3], seed=1.0)),
            ("same", helper.make_node("Identity", ["x"], ["same"])),
        )
    }
    rarely = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "five"], ["above"]),
        helper.make_node("If", ["above"], ["features"], then_branch=branches["drawn"], else_branch=branches["same"]),
    ]
    dropout = [helper.make_node("Dropout", ["x", "half", "training"], ["features"])]
    constants = {"five": np.float32(5), "half": np.float32(0.5), "training": np.array(True)}
    for nodes, name in ((rarely, "RandomNormal"), (dropout, "Dropout")):
        made = model(nodes, {"x": (TensorProto.FLOAT, [1, 3])}, {"features": (TensorProto.FLOAT, [1, 3])}, constants)
        written(tmp_path, made, 'kind = "table"\n')
        with pytest.raises(InvalidInput, match=f"its operator {name} draws at random"):
            files_of(tmp_path / "tiny.onnx")


def test_a_file_is_run_as_the_format_in_which_it_was_looked_at(tmp_path):
    """Of the name alone, onnxruntime would take it for its own format, in which nobody has looked at it."""
    (tmp_path / "tiny.ort").write_bytes(numbers().SerializeToString())
    assert files_of(tmp_path / "tiny.ort") == [tmp_path / "tiny.ort"]
    OnnxNetwork(tmp_path / "tiny.ort", NUMBERS, name="tiny")


def test_data_beside_the_model_are_part_of_it(tmp_path):
    external = {"save_as_external_data": True, "location": "tiny.data", "size_threshold": 0}
    written(tmp_path, numbers(), 'kind = "table"\n', **external)
    files = files_of(tmp_path / "tiny.onnx")
    assert [file.name for file in files] == ["tiny.data", "tiny.onnx"]
    assert checksums_of(files)["tiny.data"] == hashlib.sha256((tmp_path / "tiny.data").read_bytes()).hexdigest()
    OnnxNetwork(tmp_path / "tiny.onnx", NUMBERS, name="tiny")


@pytest.mark.parametrize("place", ["../tiny.data", "/etc/hostname", "further/tiny.data", ".."])
@pytest.mark.parametrize("constant", [True, False])
def test_data_elsewhere_are_refused(tmp_path, place, constant):
    made = numbers()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", place
    if constant:
        made.graph.node.add(op_type="Constant", output=["w"]).attribute.add(name="value", type=4, t=tensor)
        del made.graph.initializer[:]
    (tmp_path / "tiny.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(InvalidInput, match="must have its data beside it, not in"):
        files_of(tmp_path / "tiny.onnx")
