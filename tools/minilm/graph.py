"""The graphs of the packaged model (see `build.py`)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from safetensors.numpy import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
)

Arithmetic = Literal["int8", "int8-weights", "float32"]
"""Of a graph: `int8-weights` has the weights of `int8` and multiplies them in float32."""
ort_onnx: Any = onnx  # onnx's own annotations are partial
OPSET = 17
IR_VERSION = 9
FUSED = "com.microsoft"
LARGE = 100_000
"""Bytes of a tensor."""
ZERO_POINT = 128  # activations are uint8 around 128, weights int8: the pairing the CPU's dot product instructions take
LEVELS = 127


@dataclass(frozen=True)
class Shape:
    """The sizes of a BERT encoder, from its config.json."""

    layers: int
    heads: int
    hidden: int
    epsilon: float
    block: int = 0
    """If not 0, the words of quantized graphs have 4 bits, and a scale for so many."""

    @classmethod
    def read(cls, config: Path) -> "Shape":
        """The sizes in a config.json; ValueError for a model that is built differently."""
        raw: dict[str, Any] = json.loads(config.read_bytes())
        kind = (raw["model_type"], raw["hidden_act"], raw.get("position_embedding_type", "absolute"))
        if kind != ("bert", "gelu", "absolute"):
            raise ValueError(f"only BERT with gelu and absolute positions can be exported, not {kind}")
        return cls(
            raw["num_hidden_layers"],
            raw["num_attention_heads"],
            raw["hidden_size"],
            raw["layer_norm_eps"],
            raw.get("block", 0),
        )


@dataclass
class BertGraph:
    """Nodes and weights in the order added; `node` and `weight` return the name of what they added."""

    arithmetic: Arithmetic
    nodes: list[Any] = field(default_factory=list[Any])
    weights: dict[str, Any] = field(default_factory=dict[str, Any])

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(ort_onnx.helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def weight(self, name: str, values: NDArray[Any]) -> str:
        self.weights[name] = ort_onnx.numpy_helper.from_array(np.asarray(values, order="C"), name)
        return name

    def model(self, output: str, hidden: int) -> Any:
        helper, kinds = ort_onnx.helper, ort_onnx.TensorProto
        inputs = [
            helper.make_tensor_value_info(name, kinds.INT64, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        outputs = [helper.make_tensor_value_info(output, kinds.FLOAT, ["batch", "tokens", hidden])]
        graph = helper.make_graph(self.nodes, "bert", inputs, outputs, list(self.weights.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        has_int4 = any(tensor.data_type == kinds.INT4 for tensor in self.weights.values())
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION + has_int4)


@dataclass(frozen=True)
class Quantized:
    """A tensor (.., k) as uint8 around ZERO_POINT, and the float scale (.., 1) of each of its rows."""

    values: str
    scale: str


def write_graph(source: Path, target: Path, arithmetic: Arithmetic, weights: Path | None = None) -> None:
    """Write the model in `source` (config.json, model.safetensors) to `target`: same source, same bytes.

    `weights` is a graph in the same folder that has the same int8 weights: `target` refers to them there.
    """
    shape = Shape.read(source / "config.json")
    tensors: dict[str, NDArray[Any]] = load_file(str(source / "model.safetensors"))
    model = encoder(shape, tensors, arithmetic)
    if weights is not None:
        refer_to(weights, model)
    target.write_bytes(model.SerializeToString(deterministic=True))
    ort_onnx.checker.check_model(str(target))


def refer_to(file: Path, model: Any) -> None:
    """Replace the large weights of a model by references to the same bytes in a file, which has all of them."""
    content = file.read_bytes()
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) < LARGE:
            continue
        offset = content.index(tensor.raw_data)
        values = {"location": file.name, "offset": str(offset), "length": str(len(tensor.raw_data))}
        tensor.ClearField("raw_data")
        tensor.data_location = ort_onnx.TensorProto.EXTERNAL
        for key, value in values.items():
            tensor.external_data.add(key=key, value=value)


def encoder(shape: Shape, tensors: dict[str, NDArray[Any]], arithmetic: Arithmetic) -> Any:
    """The model: (batch, tokens) ids and mask to (batch, tokens, hidden) token vectors."""
    graph = BertGraph(arithmetic)
    if arithmetic == "int8":
        graph.weight("one", np.array(1, dtype=np.float32))
        graph.weight("levels", np.array(LEVELS, dtype=np.float32))
        graph.weight("least", np.array(1e-9, dtype=np.float32))
        graph.weight("zero_point", np.array(ZERO_POINT, dtype=np.uint8))
    mask = graph.node("Cast", "attention_mask", to=ort_onnx.TensorProto.INT32)
    stream = embeddings(graph, shape, tensors)
    for layer in range(shape.layers):
        prefix = f"encoder.layer.{layer}."
        stream = attention(graph, shape, tensors, prefix, stream, mask)
        stream = feed_forward(graph, shape, tensors, prefix, stream)
    return graph.model(stream, shape.hidden)


def embeddings(graph: BertGraph, shape: Shape, tensors: dict[str, NDArray[Any]]) -> str:
    """Word, position and first-segment embeddings, normalized; in int8, each word has a scale of its own."""
    words = tensors["embeddings.word_embeddings.weight"]
    if graph.arithmetic != "float32" and shape.block:
        packed, scales = int4_by_block(words, shape.block)
        graph.weights["words"] = ort_onnx.helper.make_tensor(
            "words", ort_onnx.TensorProto.INT4, words.shape, packed.tobytes(), raw=True
        )
        table = ("words", "input_ids", graph.weight("word_scales", scales))
        word = graph.node("GatherBlockQuantized", *table, domain=FUSED, quantize_axis=1, block_size=shape.block)
    elif graph.arithmetic != "float32":
        words, scales = int8_by_last_axis(words)
        word = graph.node("Gather", graph.weight("words", words), "input_ids")
        word = graph.node("Cast", word, to=ort_onnx.TensorProto.FLOAT)
        word = graph.node("Mul", word, graph.node("Gather", graph.weight("word_scales", scales), "input_ids"))
    else:
        word = graph.node("Gather", graph.weight("words", words), "input_ids")
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    graph.weight("positions", tensors["embeddings.position_embeddings.weight"] + segment)
    graph.weight("start", np.array([0], dtype=np.int64))
    tokens = graph.node("Shape", "input_ids", start=1, end=2)
    position = graph.node("Slice", "positions", "start", tokens, "start")
    summed = graph.node("Add", word, position)
    gain, bias = (plain(graph, tensors, f"embeddings.LayerNorm.{part}") for part in ("weight", "bias"))
    return graph.node("LayerNormalization", summed, gain, bias, epsilon=shape.epsilon)


def attention(
    graph: BertGraph, shape: Shape, tensors: dict[str, NDArray[Any]], prefix: str, stream: str, mask: str
) -> str:
    quantized = quantize(graph, stream)
    parts = [f"{prefix}attention.self.{part}" for part in ("query", "key", "value")]
    projected = [multiply(graph, tensors, quantized, f"{part}.weight") for part in parts]
    bias = graph.weight(f"{prefix}qkv.bias", np.concatenate([tensors[f"{part}.bias"] for part in parts]))
    mixed = graph.node("MultiHeadAttention", *projected, bias, mask, domain=FUSED, num_heads=shape.heads)
    return add_and_normalize(graph, shape, tensors, f"{prefix}attention.output.", mixed, stream)


def feed_forward(graph: BertGraph, shape: Shape, tensors: dict[str, NDArray[Any]], prefix: str, stream: str) -> str:
    wide = multiply(graph, tensors, quantize(graph, stream), f"{prefix}intermediate.dense.weight")
    wide = graph.node("BiasGelu", wide, plain(graph, tensors, f"{prefix}intermediate.dense.bias"), domain=FUSED)
    return add_and_normalize(graph, shape, tensors, f"{prefix}output.", wide, stream)


def add_and_normalize(
    graph: BertGraph, shape: Shape, tensors: dict[str, NDArray[Any]], prefix: str, branch: str, stream: str
) -> str:
    """The branch through its output layer, added to the stream and normalized."""
    branch = multiply(graph, tensors, quantize(graph, branch), f"{prefix}dense.weight")
    names = ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
    weights: Sequence[str] = [plain(graph, tensors, prefix + name) for name in names]
    return graph.node("SkipLayerNormalization", branch, stream, *weights, domain=FUSED, epsilon=shape.epsilon)


def quantize(graph: BertGraph, stream: str) -> Quantized | str:
    """Each token's vector as uint8, scaled by its own largest component; unchanged for float32 arithmetic."""
    if graph.arithmetic != "int8":
        return stream
    largest = graph.node("ReduceMax", graph.node("Abs", stream), axes=[-1], keepdims=1)
    scale = graph.node("Div", graph.node("Max", largest, "least"), "levels")
    scaled = graph.node("Mul", stream, graph.node("Reciprocal", scale))
    return Quantized(values=graph.node("QuantizeLinear", scaled, "one", "zero_point"), scale=scale)


def multiply(graph: BertGraph, tensors: dict[str, NDArray[Any]], left: Quantized | str, name: str) -> str:
    """The product with the weight of that name, which torch stores as (outputs, inputs), back in float."""
    if graph.arithmetic == "float32":
        return graph.node("MatMul", str(left), graph.weight(name, tensors[name].T))
    weights, scales = int8_by_last_axis(tensors[name])
    right = graph.weight(name, weights.T)
    columns = graph.weight(f"{name}.scales", scales[:, 0])
    if isinstance(left, str):
        # not DequantizeLinear: onnxruntime would run it for every batch, and computes these nodes once, when it loads
        values = graph.node("Cast", right, to=ort_onnx.TensorProto.FLOAT)
        return graph.node("MatMul", left, graph.node("Mul", values, columns))
    product = graph.node("MatMulIntegerToFloat", left.values, right, "one", columns, "zero_point", domain=FUSED)
    return graph.node("Mul", product, left.scale)


def plain(graph: BertGraph, tensors: dict[str, NDArray[Any]], name: str) -> str:
    return graph.weight(name, tensors[name])


def int8_by_last_axis(values: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(n, k) int8 and the (n, 1) float32 scales that give the (n, k) values back."""
    scales = (np.abs(values).max(axis=1, keepdims=True) / LEVELS).astype(np.float32)
    scales[scales == 0] = 1
    return np.rint(values / scales).astype(np.int8), scales


def int4_by_block(values: NDArray[np.float32], block: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(n, k) values as (n, k / 2) bytes, two in each, and (n, k / block) scales; exact for values that were Q4_0."""
    blocks = values.reshape(-1, block)
    scales = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1) / -8
    scales[scales == 0] = 1
    levels = np.clip(np.rint(blocks / scales), -8, 7).astype(np.int8).view(np.uint8).reshape(len(values), -1)
    halves = levels & np.uint8(15)
    packed = halves[:, ::2] | halves[:, 1::2] << np.uint8(4)
    return packed.astype(np.uint8), scales.astype(np.float32).reshape(len(values), -1)
