"""Models on the data of backend test cases, in ONNX Runtime, optimizations off.

usage: case_worker.py LIMIT_S

Each line of stdin is the JSON [MODEL, CASE]; the answer is the JSON {"checker": why onnx.checker
refuses it or "", "verdict": ok, differs or cannot, "reason": why}. CASE is a folder with
test_data_set_k, or with light_output_0.pb (then the input is arange(n) / n). A run of more than
LIMIT_S ends the process by SIGALRM.
"""

import ctypes
import json
import os
import signal
import sys

import judging
from judging import np, onnx, ort

RTOL, ATOL = 1e-3, 1e-7  # those of ONNX's own runner


def read(path, proto):
    with open(path, "rb") as f:
        proto.ParseFromString(f.read())
    return proto


def stored(path, declared):
    """What a .pb file holds: an array, a list, or None for an empty optional."""
    kind = declared.WhichOneof("value")
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(read(path, onnx.OptionalProto()))
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(read(path, onnx.SequenceProto()))
    tensor = read(path, onnx.TensorProto())
    if (declared.tensor_type.elem_type, tensor.data_type) == (onnx.TensorProto.BFLOAT16,
                                                              onnx.TensorProto.UINT16):
        tensor.data_type = onnx.TensorProto.BFLOAT16  # as files before ONNX 1.14 have it
    return onnx.numpy_helper.to_array(tensor)


def foreign(element_type):
    """Whether numpy lacks an element type: bfloat16, float8 and all below 8 bits."""
    return onnx.helper.tensor_dtype_to_np_dtype(element_type).isbuiltin != 1


def ort_value(array, element_type):
    if not foreign(element_type):
        return ort.OrtValue.ortvalue_from_numpy(array)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), element_type)
    raw = onnx.numpy_helper.from_array(array).raw_data
    ctypes.memmove(value.data_ptr(), raw, len(raw))
    return value


def array_of(value):
    if not value.is_tensor() or not foreign(value.element_type()):
        return value.numpy()
    tensor = onnx.TensorProto(data_type=value.element_type(), dims=value.shape())
    tensor.raw_data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return onnx.numpy_helper.to_array(tensor)


def run(session, feeds, types):
    """Outputs in order. Only OrtValues hold element types that numpy lacks."""
    elements = {name: t.tensor_type.elem_type for name, t in types.items()
                if t.HasField("tensor_type")}
    names = [x.name for x in session.get_inputs()] + [x.name for x in session.get_outputs()]
    if not any(foreign(elements[name]) for name in names if elements.get(name)):
        return session.run(None, feeds)
    values = {name: ort_value(np.asarray(v), elements[name]) for name, v in feeds.items()}
    return [array_of(v) for v in session.run_with_ort_values(None, values)]


def difference(got, want):
    """"" or what differs."""
    if want is None or got is None:
        return "" if want is got else "one of them is empty"
    if isinstance(want, list):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return "is not a sequence of %d" % len(want)
        return next((d for d in map(difference, got, want) if d), "")
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return "has extents %s, not %s" % (got.shape, want.shape)
    if want.dtype.kind in "OSU" or got.dtype.kind in "OSU":
        texts = [[x.decode() if isinstance(x, bytes) else str(x) for x in a.reshape(-1)]
                 for a in (got, want)]
        return "" if texts[0] == texts[1] else "has other strings"
    if got.dtype != want.dtype:
        return "is %s, not %s" % (got.dtype, want.dtype)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    close = np.isclose(got, want, rtol=RTOL, atol=ATOL, equal_nan=True)
    if close.all():
        return ""
    at = np.unravel_index(np.argmin(close), close.shape)
    return "%s is %s, not %s (%d of %d differ)" % (list(map(int, at)), got[at], want[at],
                                                   (~close).sum(), close.size)


def ramp(spec):
    n = int(np.prod(spec.shape))
    return (np.arange(n).astype(np.float32) / n).reshape(spec.shape)


def judge(model, case):
    graph = onnx.load(model, load_external_data=False).graph
    types = {x.name: x.type for x in list(graph.input) + list(graph.output)}
    session = judging.session_of(model, optimize=False)
    inputs = session.get_inputs()
    light = os.path.join(case, "light_output_0.pb")
    if os.path.exists(light):
        got = session.run(None, {inputs[0].name: ramp(inputs[0])})
        d = difference(got[0], stored(light, graph.output[0].type))
        return ("differs", d) if d else ("ok", "")
    for data_set in judging.data_sets(case):
        feeds = {x.name: stored(os.path.join(data_set, "input_%d.pb" % i), types[x.name])
                 for i, x in enumerate(inputs)}
        for i, got in enumerate(run(session, feeds, types)):
            path = os.path.join(data_set, "output_%d.pb" % i)
            if not os.path.exists(path):
                continue
            if d := difference(got, stored(path, graph.output[i].type)):
                return "differs", "output '%s' %s" % (graph.output[i].name, d)
    return "ok", ""


def refusal(model):
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as e:
        return str(e) or "refused"
    return ""


def main():
    limit = int(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        model, case = json.loads(line)
        signal.alarm(limit)
        try:
            verdict, reason = judge(model, case)
        except Exception as e:
            verdict, reason = "cannot", str(e) or repr(e)
        answer = {"checker": refusal(model), "verdict": verdict, "reason": reason}
        signal.alarm(0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
