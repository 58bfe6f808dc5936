"""A classifier of small images that costs a hundredth of the demo model: for tests of what commands do, whatever the numbers are.

usage: small_model.py FILE (of 32x32 images, as the demo model takes them)

Its weights are random, by a seed; it has what pruning tells apart: a residual sum, a depthwise convolution, 1x1 convolutions and products."""
import pathlib
import random
import struct
import sys

import onnx_wire as wire

PREPROCESS = "resize=16,interp=nearest,scale=1/255,layout=nchw"


def weights(name, dims, numbers):
    count, inputs = 1, 1
    for i, d in enumerate(dims):
        count, inputs = count * d, inputs * (d if i else 1)
    scale = (2 / inputs) ** 0.5
    return wire.tensor(name, dims, struct.pack(f"<{count}f", *(numbers.gauss(0, scale) for _ in range(count))))


def small_model(seed=7, side=16, named=True):
    """The bytes of the file; named: layers have names, not only their results. Input: image f32[batch,1,side,side], side a multiple of 8; output: logits f32[batch,10]."""
    numbers, nodes, constants = random.Random(seed), [], []

    def layer(op, x, name, dims, *attributes):
        constants.append(weights(name + ".w", dims, numbers))
        nodes.append(wire.node(op, [x, name + ".w"], [name], attributes, name if named else ""))
        return name

    def relu(x):
        nodes.append(wire.node("Relu", [x], [x + ".r"]))
        return x + ".r"

    pads = wire.ints_attribute("pads", [1, 1, 1, 1])

    def strides(n):
        return wire.ints_attribute("strides", [n, n])

    x = relu(layer("Conv", "image", "stem", [16, 1, 3, 3], pads, strides(side // 8)))
    y = relu(layer("Conv", x, "wide", [32, 16, 1, 1]))
    y = relu(layer("Conv", y, "depthwise", [32, 1, 3, 3], pads, wire.int_attribute("group", 32)))
    nodes.append(wire.node("Add", [x, layer("Conv", y, "narrow", [16, 32, 1, 1])], ["sum"]))
    x = relu(layer("Conv", "sum", "last", [16, 16, 3, 3], pads, strides(2)))
    nodes.append(wire.node("Flatten", [x], ["flat"]))
    x = relu(layer("MatMul", "flat", "hidden", [256, 128]))
    layer("MatMul", x, "logits", [128, 10])
    return wire.model(nodes, [wire.value_info("image", ["batch", 1, side, side])], [wire.value_info("logits", ["batch", 10])], constants)


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(small_model(side=32))
