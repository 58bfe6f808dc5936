#!/usr/bin/env python3
"""Operators outside the families of layer_map.py, at extents that exported models have, beside ONNX Runtime.

operator_map.py [--bin DIR] [--before DIR] [--python FILE] [--threads N] [--filter GLOB]... [--above R] [--json FILE]

The list is fixed: positions of maxima, sorting, sums along an axis, gathering and scattering, boxes, resizing with
antialias, integer arithmetic, casts, seldom forms of recurrent layers, reductions; and the forms of operator_forms.py.
How it measures and what it prints:
layer_map.py. With --before, all rows are printed, with the ratio of both builds.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import sys
import tempfile

import operator_forms
from layer_map import TOLERANCE, TOOLS, Layer, Worker, compare, kernels_of, np, report
from operator_forms import R, f, i64, ints

def bools(share, *shape):
    return R.random(shape) < share


def boxes(n, size):
    corner, extent = R.random((n, 2)) * size * 0.8, R.random((n, 2)) * size * 0.2
    return np.concatenate([corner, corner + extent], 1).astype(np.float32)


def pooling():
    for name, shape, window, stride, pad in [("stem", (1, 64, 112, 112), 3, 2, 1), ("unpool", (1, 64, 56, 56), 2, 2, 0),
                                            ("small", (1, 256, 14, 14), 3, 1, 1)]:
        yield Layer("MaxPool", {"x": f(*shape)}, {}, {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [pad] * 4},
                    "MaxPool with indices " + name, outputs=("y", "i"))
    yield Layer("LpPool", {"x": f(1, 64, 28, 28)}, {}, {"kernel_shape": [3, 3], "strides": [2, 2]}, "LpPool")
    yield Layer("GlobalLpPool", {"x": f(1, 512, 14, 14)}, {}, {}, "GlobalLpPool")
    yield Layer("MaxUnpool", {"x": f(1, 64, 28, 28), "i": np.arange(64 * 28 * 28).reshape(1, 64, 28, 28) * 4}, {},
                {"kernel_shape": [2, 2], "strides": [2, 2]}, "MaxUnpool")


def picking():
    yield Layer("NonZero", {"x": bools(0.1, 1, 8400)}, {}, {}, "NonZero bool 1x8400")
    yield Layer("NonZero", {"x": bools(0.5, 256, 256)}, {}, {}, "NonZero bool 256x256")
    yield Layer("NonZero", {"x": f(100, 80) * bools(0.2, 100, 80)}, {}, {}, "NonZero f32 100x80")
    yield Layer("NonZero", {"x": ints(2, 1, 512)}, {}, {}, "NonZero i64 1x512")
    yield Layer("Compress", {"x": f(8400, 4), "c": bools(0.1, 8400)}, {}, {"axis": 0}, "Compress axis 0 8400x4")
    yield Layer("Compress", {"x": f(100000), "c": bools(0.3, 100000)}, {}, {}, "Compress 100000")
    yield Layer("Unique", {"x": ints(80, 8400)}, {}, {"sorted": 1}, "Unique i64 8400", outputs=("y", "a", "b", "c"))
    yield Layer("Unique", {"x": f(1000)}, {}, {"sorted": 1}, "Unique f32 1000")
    yield Layer("TopK", {"x": f(1, 8400), "k": i64(300)}, {}, {}, "TopK 300 of 8400", outputs=("y", "i"))
    yield Layer("TopK", {"x": f(1, 1000)}, {"k": i64(5)}, {}, "TopK 5 of 1000", outputs=("y", "i"))
    yield Layer("TopK", {"x": f(1, 50257)}, {"k": i64(50)}, {}, "TopK 50 of 50257", outputs=("y", "i"))
    yield Layer("TopK", {"x": f(1, 20, 1024)}, {"k": i64(1024)}, {}, "TopK all of 20x1024", outputs=("y", "i"))
    yield Layer("TopK", {"x": f(1, 16, 28, 28)}, {"k": i64(3)}, {"axis": 1}, "TopK 3 along axis 1", outputs=("y", "i"))
    yield Layer("TopK", {"x": ints(10000, 1, 8400)}, {"k": i64(100)}, {}, "TopK i64 100 of 8400", outputs=("y", "i"))
    yield Layer("ArgMax", {"x": f(1, 21, 128, 128)}, {}, {"axis": 1}, "ArgMax axis 1 21x128x128")
    yield Layer("ArgMax", {"x": f(1, 128, 1000)}, {}, {"axis": -1}, "ArgMax axis -1 128x1000")
    yield Layer("ArgMax", {"x": ints(1000, 1, 512)}, {}, {"axis": -1}, "ArgMax i64 1x512")
    yield Layer("ArgMax", {"x": ints(1000, 16, 77, kind=np.int32)}, {}, {"axis": -1}, "ArgMax i32 16x77")
    yield Layer("Hardmax", {"x": f(128, 1000)}, {}, {}, "Hardmax 128x1000")


def along():
    for shape, axis in [((1, 512), 1), ((1, 197, 768), 1), ((8, 100, 100), 2), ((1, 64, 64), 1), ((1, 64, 64), 2)]:
        yield Layer("CumSum", {"x": f(*shape)}, {"a": np.array(axis, np.int64)}, {},
                    "CumSum f32 %s axis %d" % ("x".join(map(str, shape)), axis))
    yield Layer("CumSum", {"x": ints(2, 1, 512)}, {"a": np.array(1, np.int64)}, {}, "CumSum i64 1x512")
    yield Layer("CumSum", {"x": ints(2, 16, 512, kind=np.int32)}, {"a": np.array(1, np.int64)}, {}, "CumSum i32 16x512")
    yield Layer("CumSum", {"x": f(8, 1000)}, {"a": np.array(1, np.int64)}, {"exclusive": 1, "reverse": 1},
                "CumSum exclusive reverse 8x1000")
    x = {"x": f(1, 197, 768)}
    for op in ["ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceLogSum"]:
        for axis in (1, 2):
            v = {"x": np.abs(f(1, 197, 768))} if op == "ReduceLogSum" else x
            yield Layer(op, v, {"a": i64(axis)}, {}, "%s axis %d" % (op, axis))
    for op in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]:
        for shape, axis in [((1, 512), 1), ((32, 64, 64), 1), ((32, 64, 64), 2)]:
            yield Layer(op, {"x": ints(3, *shape)}, {"a": i64(axis)}, {}, "%s i64 %s axis %d" % (op, "x".join(map(str, shape)), axis))
    yield Layer("ReduceSum", {"x": ints(3, 32, 4096, kind=np.int32)}, {"a": i64(1)}, {}, "ReduceSum i32 32x4096")
    yield Layer("ReduceMean", {"x": f(8, 64, 28, 28)}, {"a": i64(0, 2, 3)}, {}, "ReduceMean axes 0 2 3")
    yield Layer("ReduceMax", {"x": ints(255, 1, 64, 56, 56, kind=np.uint8)}, {"a": i64(2, 3)}, {}, "ReduceMax u8")
    yield Layer("ReduceMax", {"x": f(4, 3, 128, 128)}, {"a": i64(0, 1)}, {}, "ReduceMax axes 0 1")
    yield Layer("LpNormalization", {"x": f(1, 197, 768)}, {}, {"axis": -1, "p": 2}, "LpNormalization axis -1")
    yield Layer("MeanVarianceNormalization", {"x": f(1, 64, 56, 56)}, {}, {}, "MeanVarianceNormalization")


def indexing():
    yield Layer("GatherElements", {"x": f(1, 8400, 80), "i": ints(8400, 1, 300, 80)}, {}, {"axis": 1}, "GatherElements 300x80 of 8400")
    yield Layer("GatherElements", {"x": f(100, 1000), "i": ints(1000, 100, 1000)}, {}, {"axis": 1}, "GatherElements last 100x1000")
    yield Layer("GatherElements", {"x": f(1, 300, 4), "i": ints(300, 1, 300, 4)}, {}, {"axis": 1}, "GatherElements 300x4")
    yield Layer("GatherElements", {"x": f(64, 56, 56), "i": ints(64, 64, 56, 56)}, {}, {"axis": 0}, "GatherElements axis 0 64x56x56")
    yield Layer("GatherElements", {"x": f(12, 197, 393), "i": ints(393, 12, 197, 197)}, {}, {"axis": 2}, "GatherElements relative positions")
    yield Layer("GatherND", {"x": f(1, 197, 768), "i": np.stack([ints(1, 100), ints(197, 100)], -1)}, {}, {}, "GatherND rows")
    yield Layer("GatherND", {"x": f(100, 1000), "i": np.stack([ints(100, 10000), ints(1000, 10000)], -1)}, {}, {}, "GatherND elements")
    yield Layer("Gather", {"x": f(1, 64, 56, 56), "i": ints(56, 28)}, {}, {"axis": 3}, "Gather axis 3")
    yield Layer("Gather", {"x": ints(1000, 1, 512), "i": ints(512, 100)}, {}, {"axis": 1}, "Gather i64")
    yield Layer("ScatterND", {"x": f(1, 197, 768), "i": np.stack([ints(1, 50), R.permutation(197)[:50]], -1), "u": f(50, 768)}, {}, {},
                "ScatterND rows")
    yield Layer("ScatterND", {"x": f(100, 1000), "i": np.stack([np.repeat(np.arange(100), 100), np.tile(np.arange(0, 1000, 10), 100)], -1),
                              "u": f(10000)}, {}, {}, "ScatterND elements")
    yield Layer("ScatterElements", {"x": f(100, 1000), "i": np.tile(np.arange(0, 1000, 4), (100, 1)), "u": f(100, 250)}, {}, {"axis": 1},
                "ScatterElements last")
    yield Layer("ScatterElements", {"x": f(1000, 64), "i": ints(1000, 500, 64), "u": f(500, 64)}, {}, {"axis": 0, "reduction": "add"},
                "ScatterElements add axis 0")
    yield Layer("OneHot", {"i": ints(1000, 128), "v": f(2)}, {"d": np.array(1000, np.int64)}, {}, "OneHot 128 of 1000", order=["i", "d", "v"])
    yield Layer("Trilu", {"x": f(1, 12, 197, 197)}, {}, {"upper": 0}, "Trilu f32")
    yield Layer("Trilu", {"x": bools(0.5, 512, 512)}, {}, {"upper": 1}, "Trilu bool")
    yield Layer("Range", {}, {"s": np.int64(0), "l": np.int64(1000), "d": np.int64(1)}, {}, "Range const 1000")
    yield Layer("Range", {"s": np.array(0, np.int64), "l": np.array(10000, np.int64), "d": np.array(1, np.int64)}, {}, {}, "Range i64 10000")
    yield Layer("Range", {"s": np.array(0, np.float32), "l": np.array(10000, np.float32), "d": np.array(1, np.float32)}, {}, {}, "Range f32 10000")
    yield Layer("EyeLike", {"x": f(256, 256)}, {}, {}, "EyeLike 256")
    yield Layer("ReverseSequence", {"x": f(100, 8, 64), "l": ints(100, 8, low=1)}, {}, {"batch_axis": 1, "time_axis": 0}, "ReverseSequence")
    yield Layer("Tile", {"x": ints(100, 1, 512)}, {"r": i64(16, 1)}, {}, "Tile i64")
    yield Layer("Expand", {"x": bools(0.5, 1, 1, 1, 512)}, {"s": i64(1, 12, 512, 512)}, {}, "Expand bool")
    for mode in ("reflect", "edge", "wrap"):
        yield Layer("Pad", {"x": f(1, 64, 56, 56)}, {"p": i64(0, 0, 1, 1, 0, 0, 1, 1)}, {"mode": mode}, "Pad " + mode, opset=19)
    yield Layer("Pad", {"x": f(1, 16, 3000)}, {"p": i64(0, 0, 200, 0, 0, 200)}, {"mode": "reflect"}, "Pad reflect 1d")
    yield Layer("Shape", {"x": f(1, 64, 56, 56)}, {}, {}, "Shape")
    yield Layer("Size", {"x": f(1, 64, 56, 56)}, {}, {}, "Size")
    yield Layer("DepthToSpace", {"x": f(1, 64, 56, 56)}, {}, {"blocksize": 2, "mode": "CRD"}, "DepthToSpace CRD")
    yield Layer("SpaceToDepth", {"x": f(1, 64, 56, 56)}, {}, {"blocksize": 2}, "SpaceToDepth")
    yield Layer("Slice", {"x": f(1, 64, 56, 56)}, {"s": i64(-1), "e": i64(-10 ** 9), "a": i64(3), "p": i64(-1)}, {}, "Slice reversed")
    yield Layer("Transpose", {"x": ints(9, 1, 64, 56, 56, kind=np.uint8)}, {}, {"perm": [0, 2, 3, 1]}, "Transpose u8")
    yield Layer("CenterCropPad", {"x": f(1, 64, 56, 56)}, {"s": i64(48, 48)}, {"axes": [2, 3]}, "CenterCropPad")


def boxed():
    def nms(boxes_of, n, classes, score=0.3):
        b, s = boxes(n, 640)[None], R.random((1, classes, n)).astype(np.float32)
        return Layer("NonMaxSuppression", {"b": b, "s": s}, {"m": i64(200), "o": np.float32([0.5]), "t": np.float32([score])}, {},
                     "NonMaxSuppression %d boxes, %d classes" % (n, classes))
    yield nms(boxes, 8400, 1, 0.5)
    yield nms(boxes, 1000, 80, 0.7)
    yield nms(boxes, 300, 4)
    for ratio in (0, 2):
        yield Layer("RoiAlign", {"x": f(1, 64, 50, 50), "b": boxes(100, 400), "i": np.zeros(100, np.int64)}, {},
                    {"output_height": 7, "output_width": 7, "sampling_ratio": ratio, "spatial_scale": 0.125}, "RoiAlign ratio %d" % ratio)
    yield Layer("RoiAlign", {"x": f(1, 64, 50, 50), "b": boxes(100, 400), "i": np.zeros(100, np.int64)}, {},
                {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.125, "mode": "max"}, "RoiAlign max")
    yield Layer("MaxRoiPool", {"x": f(1, 64, 50, 50), "r": np.concatenate([np.zeros((100, 1), np.float32), boxes(100, 400)], 1)}, {},
                {"pooled_shape": [7, 7], "spatial_scale": 0.125}, "MaxRoiPool")
    for mode in ("linear", "cubic"):
        for c, size, to in ((3, 224, 112), (64, 56, 28), (64, 28, 40)):
            yield Layer("Resize", {"x": f(1, c, size, size)}, {"": None, "z": i64(1, c, to, to)}, {"mode": mode, "antialias": 1},
                        "Resize antialias %s c%d %d to %d" % (mode, c, size, to), order=["x", "", "", "z"])
    yield Layer("Resize", {"x": f(1, 64, 28, 28)}, {"": None, "z": i64(1, 64, 41, 41)}, {"mode": "cubic"}, "Resize cubic 28 to 41",
                order=["x", "", "", "z"])
    yield Layer("Resize", {"x": f(1, 64, 28, 28)}, {"": None, "z": i64(1, 64, 41, 41)}, {"mode": "nearest"}, "Resize nearest 28 to 41",
                order=["x", "", "", "z"])
    yield Layer("Resize", {"x": ints(255, 1, 3, 224, 224, kind=np.uint8)}, {"": None, "z": i64(1, 3, 112, 112)}, {"mode": "linear"},
                "Resize linear u8", order=["x", "", "", "z"])
    yield Layer("Resize", {"x": f(1, 16, 12, 20, 20)}, {"": None, "z": i64(1, 16, 24, 40, 40)}, {"mode": "linear"}, "Resize linear 3d",
                order=["x", "", "", "z"])
    yield Layer("Resize", {"x": f(1, 56, 56, 64)}, {"": None, "z": i64(1, 112, 112, 64)}, {"mode": "linear"}, "Resize linear channels last",
                order=["x", "", "", "z"])
    yield Layer("Resize", {"x": f(1, 64, 100)}, {"": None, "z": i64(1, 64, 200)}, {"mode": "linear"}, "Resize linear 1d",
                order=["x", "", "", "z"])
    yield Layer("Upsample", {"x": f(1, 64, 28, 28)}, {"s": np.float32([1, 1, 2, 2])}, {"mode": "nearest"}, "Upsample", opset=9)
    yield Layer("GridSample", {"x": f(1, 8, 8, 16, 16), "g": R.uniform(-1, 1, (1, 8, 16, 16, 3)).astype(np.float32)}, {}, {"mode": "linear"},
                "GridSample 3d", opset=20)
    yield Layer("AffineGrid", {"t": f(1, 2, 3)}, {"z": i64(1, 3, 56, 56)}, {}, "AffineGrid", opset=20)


def elements():
    shape = (1, 64, 56, 56)
    yield Layer("Mod", {"x": f(*shape), "z": np.abs(f(*shape)) + 1}, {}, {"fmod": 1}, "Mod f32 fmod")
    yield Layer("Mod", {"x": f(*shape)}, {"z": np.float32(1)}, {"fmod": 1}, "Mod f32 fmod scalar")
    for kind in (np.int64, np.int32):
        name = "i64" if kind == np.int64 else "i32"
        for op in ("Add", "Mul", "Div", "Sub", "Mod", "Max", "Min", "Pow", "Equal", "Less", "GreaterOrEqual"):
            yield Layer(op, {"x": ints(100, 1, 12, 128, 128, kind=kind), "z": ints(3, 1, 12, 128, 128, low=1, kind=kind)}, {}, {},
                        "%s %s" % (op, name))
        yield Layer("Where", {"c": bools(0.5, 1, 1, 128, 128), "x": ints(9, 1, 12, 128, 128, kind=kind)}, {"z": kind(7)}, {}, "Where " + name)
        yield Layer("Clip", {"x": ints(100, 1, 12, 128, 128, kind=kind)}, {"l": kind(3), "h": kind(60)}, {}, "Clip " + name)
        for op in ("Abs", "Neg", "Sign"):
            yield Layer(op, {"x": ints(100, 1, 12, 128, 128, low=-100, kind=kind)}, {}, {}, "%s %s" % (op, name))
    yield Layer("Mul", {"x": ints(100, 1, 512), "z": ints(9, 1, 512)}, {}, {}, "Mul i64 1x512")
    yield Layer("Div", {"x": ints(10000, 300)}, {"z": np.int64(80)}, {}, "Div i64 by constant 300")
    yield Layer("Mod", {"x": ints(10000, 300)}, {"z": np.int64(80)}, {}, "Mod i64 by constant 300")
    yield Layer("BitShift", {"x": ints(100, 65536, kind=np.uint8)}, {"z": np.uint8(2)}, {"direction": "RIGHT"}, "BitShift u8")
    yield Layer("BitwiseAnd", {"x": ints(100, 65536, kind=np.int32), "z": ints(100, 65536, kind=np.int32)}, {}, {}, "BitwiseAnd i32")
    for op in ("And", "Or", "Xor"):
        yield Layer(op, {"x": bools(0.5, 1, 1, 512, 512), "z": bools(0.5, 1, 1, 1, 512)}, {}, {}, op)
    yield Layer("Not", {"x": bools(0.5, 512, 512)}, {}, {}, "Not")
    yield Layer("Equal", {"x": bools(0.5, 512, 512), "z": bools(0.5, 512, 512)}, {}, {}, "Equal bool")
    for op in ("Greater", "Equal", "LessOrEqual"):
        yield Layer(op, {"x": f(*shape)}, {"z": np.float32(0.5)}, {}, op + " f32")
    for op in ("IsNaN", "IsInf", "Sign", "Round", "Ceil", "Reciprocal", "Not", "Selu", "Celu", "Mish", "ThresholdedRelu", "Shrink", "Softsign",
               "Gelu", "Sin", "Cos", "Log"):
        x = bools(0.5, *shape) if op == "Not" else np.abs(f(*shape)) if op == "Log" else f(*shape)
        yield Layer(op, {"x": x}, {}, {}, op + " f32" * (op != "Not"), opset=20)
    yield Layer("PRelu", {"x": f(*shape)}, {"s": f(64, 1, 1)}, {}, "PRelu")
    yield Layer("Where", {"c": bools(0.5, 1, 1, 128, 128), "x": f(1, 12, 128, 128)}, {"z": np.float32(-1e9)}, {}, "Where f32 mask")
    yield Layer("Add", {"x": R.normal(size=shape), "z": R.normal(size=shape)}, {}, {}, "Add f64")
    kinds = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}
    numbers = {"f32": 1, "f64": 11, "f16": 10, "i64": 7, "i32": 6, "u8": 2, "bool": 9}
    for a, b in [("f32", "i64"), ("i64", "f32"), ("f32", "i32"), ("i32", "f32"), ("f32", "bool"), ("bool", "f32"), ("f32", "u8"), ("u8", "f32"),
                 ("i64", "i32"), ("i32", "i64"), ("i64", "bool"), ("bool", "i64"), ("f32", "f64"), ("f64", "f32"), ("f32", "f16"), ("f16", "f32"),
                 ("bool", "i32"), ("i64", "f64")]:
        yield Layer("Cast", {"x": (ints(100, *shape) if a != "bool" else bools(0.5, *shape)).astype(kinds[a])}, {}, {"to": numbers[b]},
                    "Cast %s to %s" % (a, b))
    yield Layer("Einsum", {"a": f(1, 128, 12, 64), "b": f(1, 128, 12, 64)}, {}, {"equation": "bqhd,bkhd->bhqk"}, "Einsum bqhd,bkhd->bhqk")
    yield Layer("Einsum", {"a": f(1, 12, 128, 64), "b": f(128, 128, 64)}, {}, {"equation": "bhwc,wkc->bhwk"}, "Einsum batched rows")
    yield Layer("Einsum", {"a": f(64, 768), "b": f(768, 768)}, {}, {"equation": "ij,jk->ik"}, "Einsum ij,jk->ik")
    yield Layer("Einsum", {"a": f(512), "b": f(32)}, {}, {"equation": "i,j->ij"}, "Einsum outer")
    yield Layer("Einsum", {"a": f(4, 64, 100), "b": f(4, 64, 100)}, {}, {"equation": "bnc,bnc->bn"}, "Einsum bnc,bnc->bn")
    for op, shapes in (("Sum", 3), ("Mean", 3), ("Max", 3), ("Min", 3)):
        yield Layer(op, {n: f(1, 64, 28, 28) for n in "abc"[:shapes]}, {}, {}, op + " of 3")
    yield Layer("Det", {"x": f(100, 3, 3)}, {}, {}, "Det 100x3x3")


def integers():
    yield Layer("DynamicQuantizeLinear", {"x": f(1, 128, 768)}, {}, {}, "DynamicQuantizeLinear", outputs=("y", "s", "z"))
    yield Layer("MatMulInteger", {"a": ints(255, 128, 768, kind=np.uint8)}, {"b": ints(127, 768, 768, low=-127, kind=np.int8),
                                                                          "z": np.uint8(128)}, {}, "MatMulInteger 128x768x768")
    yield Layer("MatMulInteger", {"a": ints(255, 1, 768, kind=np.uint8)}, {"b": ints(127, 768, 768, low=-127, kind=np.int8),
                                                                        "z": np.uint8(128)}, {}, "MatMulInteger 1x768x768")
    yield Layer("ConvInteger", {"x": ints(255, 1, 64, 28, 28, kind=np.uint8)}, {"w": ints(127, 64, 64, 3, 3, low=-127, kind=np.int8),
                                                                             "z": np.uint8(128)}, {"pads": [1] * 4}, "ConvInteger")
    s = np.float32(0.02)
    yield Layer("QLinearConv", {"x": ints(255, 1, 64, 28, 28, kind=np.uint8)},
                {"s": s, "z": np.uint8(128), "w": ints(127, 64, 64, 3, 3, low=-127, kind=np.int8), "t": s, "v": np.int8(0), "o": np.float32(0.5),
                 "p": np.uint8(128)}, {"pads": [1] * 4}, "QLinearConv")
    yield Layer("QLinearMatMul", {"x": ints(255, 128, 768, kind=np.uint8)},
                {"s": s, "z": np.uint8(128), "w": ints(127, 768, 768, low=-127, kind=np.int8), "t": s, "v": np.int8(0), "o": np.float32(0.5),
                 "p": np.uint8(128)}, {}, "QLinearMatMul")
    yield Layer("QuantizeLinear", {"x": f(1, 64, 56, 56)}, {"s": s, "z": np.uint8(128)}, {}, "QuantizeLinear")
    yield Layer("DequantizeLinear", {"x": ints(255, 1, 64, 56, 56, kind=np.uint8)}, {"s": s, "z": np.uint8(128)}, {}, "DequantizeLinear")


def recurrent():
    def layer(op, steps, batch, width, hidden, name, more=None, attributes=None, lengths=False, **kw):
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        constants = {"w": f(1, gates * hidden, width) / 16, "r": f(1, gates * hidden, hidden) / 16, "b": f(1, 2 * gates * hidden)}
        order = ["x", "w", "r", "b"]
        inputs = {"x": f(steps, batch, width)}
        if lengths:
            inputs["l"] = ints(steps, batch, low=1, kind=np.int32)
        if more:
            constants.update(more)
        if lengths or more:
            order += ["l" if lengths else ""]
        if more:
            order += ["", "", "p"]
            constants[""] = None
        return Layer(op, inputs, constants, {"hidden_size": hidden, **(attributes or {})}, "%s %s" % (op, name), order=order)
    for steps, batch, hidden in ((50, 1, 128), (20, 8, 64)):
        tail = "%d steps of %d, %d" % (steps, batch, hidden)
        yield layer("LSTM", steps, batch, 64, hidden, "plain " + tail)
        yield layer("LSTM", steps, batch, 64, hidden, "peepholes " + tail, {"p": f(1, 3 * hidden)})
        yield layer("LSTM", steps, batch, 64, hidden, "clip " + tail, attributes={"clip": 3.0})
        yield layer("LSTM", steps, batch, 64, hidden, "activations " + tail, attributes={"activations": ["HardSigmoid", "Softsign", "Relu"]})
        yield layer("LSTM", steps, batch, 64, hidden, "lengths " + tail, lengths=True)
        yield layer("GRU", steps, batch, 64, hidden, "lengths " + tail, lengths=True)
        yield layer("GRU", steps, batch, 64, hidden, "clip " + tail, attributes={"clip": 3.0})
        yield layer("GRU", steps, batch, 64, hidden, "activations " + tail, attributes={"activations": ["HardSigmoid", "Relu"]})
        yield layer("RNN", steps, batch, 64, hidden, "plain " + tail)
        yield layer("RNN", steps, batch, 64, hidden, "relu " + tail, attributes={"activations": ["Relu"]})
        yield layer("RNN", steps, batch, 64, hidden, "lengths " + tail, lengths=True)


def convolutions():
    for c, size, stride in ((32, 112, 2), (96, 56, 2), (144, 28, 2), (64, 56, 1), (384, 14, 2)):
        yield Layer("Conv", {"x": f(1, c, size, size)}, {"w": f(c, 1, 7, 7) / 49, "b": f(c)},
                    {"group": c, "pads": [3] * 4, "strides": [stride] * 2}, "Conv depthwise 7x7 c%d %d s%d" % (c, size, stride))


FAMILIES = [pooling, picking, along, indexing, boxed, elements, integers, recurrent, convolutions] + operator_forms.FAMILIES


def layers():
    for family in FAMILIES:
        for layer in family():
            layer.family = family.__name__
            yield layer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--before", type=pathlib.Path, help="binaries of an older build")
    parser.add_argument("--python", default=sys.executable, help="of ONNX Runtime's worker")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--filter", action="append", help="only layers with such a name; more than once: any of them")
    parser.add_argument("--above", type=float, default=1.15)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.least_loss_us = 0
    cpus = sorted(os.sched_getaffinity(0))[:args.threads]

    def start():
        workers = [Worker([str(args.bin / "infer-bench"), "peers-worker"], cpus),
                   Worker([args.python, str(TOOLS / "engines/ort_worker.py")], cpus),
                   Worker([str(args.before / "infer-bench"), "peers-worker"], cpus) if args.before else None]
        workers[1].ask(op="hello")
        return workers

    workers, results = start(), []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for layer in layers():
            if not any(fnmatch.fnmatch(layer.name, g) for g in args.filter or ["*"]):
                continue
            try:
                result = compare(layer, *workers, args.threads, folder)
                result["kernels"] = kernels_of(args.bin, folder / "layer.onnx")
            except Exception as e:  # of an engine, or of the onnx package
                result = {"name": layer.name, "family": layer.family, "failed": str(e) or repr(e)}
                workers = start()
            results.append(result)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    if args.before:
        print("| layer | us | ONNX Runtime | ratio before | ratio | kernels |\n|---|---:|---:|---:|---:|---|")
        for r in results:
            if "ratio" in r:
                print("| %s | %.1f | %.1f | %.2f | %.2f | %s |" % (r["name"], r["us"], r["their_us"], r["before_ratio"], r["ratio"], r["kernels"]))
        print()
    sys.exit(report(results, args))


if __name__ == "__main__":
    main()
