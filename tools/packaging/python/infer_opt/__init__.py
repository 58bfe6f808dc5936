"""Run, fuse, quantize, prune and compare ONNX models with infer-opt's library.

    model = infer_opt.Model("model.onnx").fuse()
    session = infer_opt.Session(model)
    outputs = session.run({"x": array})        # a list, in the order of session.outputs

    small = infer_opt.Model("model.onnx")
    report = small.quantize(samples)           # an iterable of inputs: arrays, or dictionaries of arrays by name
    accuracy = infer_opt.compare(small, "model.onnx", others)
    small.save("int8.onnx")
    print(infer_opt.bench(small).median_ms, infer_opt.compare_speed("model.onnx", small).verdict)

Arrays are anything with a buffer (NumPy arrays, memoryviews, array.array) or with __dlpack__ (torch tensors), and what NumPy makes an
array of. Outputs are NumPy arrays where NumPy is installed and has their type, else Tensor; they share the library's memory and keep it
alive, whatever becomes of the session. Every function may be called from any thread; while the library works, other Python threads go
on. Errors are infer_opt.Error, whose `code` is one of CODES; what a caller's own function raises, comes out as it is.

The library is libinfer.so.0: beside this file, named by the variable INFER_LIBRARY, or where the system finds it.
"""
from ._arrays import Tensor
from ._bench import BenchReport, SpeedReport, bench, compare_speed
from ._library import CODES, Error, version
from ._model import Accuracy, Model, PruneReport, QuantizeReport, Value, compare
from ._session import Session

__all__ = ["Accuracy", "BenchReport", "CODES", "Error", "Model", "PruneReport", "QuantizeReport", "Session", "SpeedReport", "Tensor", "Value",
           "bench", "compare", "compare_speed", "version"]
