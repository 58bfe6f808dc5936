#!/usr/bin/env python3
"""Which products of uint8 by int8 ONNX Runtime adds exactly on this processor, with weights of 8 bits and of 7.

usage: pair_sums.py

`quantize --target ort` gives weights 7 bits where 8 saturate on processors without VNNI (docs/adr/0051, 0054): every operator
must be exact with 7 bits, and ConvInteger, whose weights keep 8, with 8 bits, too. Weights lie near the ends of their range, so
that pairs saturate where they can. Exits 1 when one is not exact, 77 when there is no ONNX Runtime."""
import sys

import judging
from judging import np, onnx, ort

H, T = onnx.helper, onnx.TensorProto
MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(1)


def weights_near_the_ends(most, shape):
    return (RANDOM.integers(most // 2, most + 1, shape) * RANDOM.choice([-1, 1], shape, p=[0.2, 0.8])).astype(np.int8)


def output_of(node, x, **constants):
    """The first output of one node that reads x, and constants by name."""
    name, dtype = node.input[0], H.np_dtype_to_tensor_dtype(x.dtype)
    graph = H.make_graph([node], "g", [H.make_tensor_value_info(name, dtype, x.shape)],
                         [H.make_empty_tensor_value_info(node.output[0])],
                         [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    model = H.make_model(graph, ir_version=9, opset_imports=[H.make_opsetid("", 17), H.make_opsetid(MICROSOFT, 1)])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, {name: x})[0]


def convolved(x, w):
    """Sums of [1,C,H,W] by [M,C,3,3] in int64."""
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.int64), (3, 3), axis=(1, 2))
    return np.einsum("chwij,mcij->mhw", windows, w.astype(np.int64))[None]


def mat_mul_integer(w_most):
    x, w = RANDOM.integers(0, 256, (16, 64)).astype(np.uint8), weights_near_the_ends(w_most, (64, 32))
    got = output_of(H.make_node("MatMulInteger", ["x", "w"], ["y"]), x, w=w)
    return np.array_equal(got, x.astype(np.int64) @ w)


def dynamic_quantize_mat_mul(w_most):
    x, w = RANDOM.integers(0, 256, (16, 64)).astype(np.float32), weights_near_the_ends(w_most, (64, 32))
    x[0, :2] = 0, 255  # steps of 1
    got = output_of(H.make_node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain=MICROSOFT), x, w=w, s=np.float32(1))
    return np.array_equal(got, (x.astype(np.int64) @ w).astype(np.float32))


def dynamic_quantize_lstm(w_most):
    """Beside LSTM in f32; the state's weights are 0, so that one product decides."""
    depth, cells = 64, 16
    w = weights_near_the_ends(w_most, (1, depth, 4 * cells))
    zeros, scale = np.zeros((1, cells, 4 * cells), np.int8), np.full((1, 4 * cells), 1 / (4.0 * w_most), np.float32)
    point = np.zeros((1, 4 * cells), np.int8)
    x = (RANDOM.integers(0, 256, (1, 1, depth)) / 255).astype(np.float32)
    x[0, 0, :2] = 0, 1
    names = ["x", "w", "r", "", "", "", "", "", "s", "p", "s", "p"]
    got = output_of(H.make_node("DynamicQuantizeLSTM", names, ["y"], domain=MICROSOFT, hidden_size=cells), x, w=w, r=zeros,
                    s=scale, p=point)
    want = output_of(H.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=cells), x,
                     w=(w * scale).transpose(0, 2, 1).astype(np.float32), r=zeros.transpose(0, 2, 1).astype(np.float32))
    return np.abs(got - want).max() < 1e-5


def q_linear_conv(w_most):
    x, w = RANDOM.integers(0, 256, (1, 8, 8, 8)).astype(np.uint8), weights_near_the_ends(w_most, (8, 8, 3, 3))
    step = 4096.0
    got = output_of(H.make_node("QLinearConv", ["x", "one", "xz", "w", "one", "wz", "step", "yz"], ["y"]), x, w=w,
                    one=np.float32(1), xz=np.uint8(0), wz=np.int8(0), step=np.float32(step), yz=np.uint8(0))
    return np.array_equal(got, np.clip(np.rint(convolved(x, w) / step), 0, 255).astype(np.uint8))


def conv_integer(w_most):
    x, w = RANDOM.integers(0, 256, (1, 8, 8, 8)).astype(np.uint8), weights_near_the_ends(w_most, (8, 8, 3, 3))
    return np.array_equal(output_of(H.make_node("ConvInteger", ["x", "w"], ["y"]), x, w=w), convolved(x, w))


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    good = True
    print(f"sums of 8 bits {'may' if judging.ort_saturates() else 'do not'} saturate on this processor")
    for exact in (mat_mul_integer, dynamic_quantize_mat_mul, dynamic_quantize_lstm, q_linear_conv, conv_integer):
        wide, narrow = exact(127), exact(63)
        must_be_wide = exact is conv_integer or not judging.ort_saturates()
        passed = narrow and (wide or not must_be_wide)
        good = good and passed
        print(f"{'pass' if passed else 'FAIL'} {exact.__name__}: 8 bits {'exact' if wide else 'not exact'}, "
              f"7 bits {'exact' if narrow else 'not exact'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
