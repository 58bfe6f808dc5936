"""Models: read, rewritten, compared, written."""
import ctypes
import functools
import os
import weakref
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Union

from ._arrays import TYPES
from ._library import (CAccuracy, CCompareOptions, CPruneOptions, CPruneReport, CQuantizeOptions, CQuantizeReport, CValue, check,
                       library)
from ._work import Work, text, texts

Samples = Iterable[Union[Dict[str, Any], Sequence[Any], Any]]
ProgressFunction = Callable[[str, int, int], Any]
EvalFunction = Callable[[Any], Any]  # of a Session


class Value(NamedTuple):
    """An input or output. `shape`: a number, the name of an open extent, or None; None where the rank is not known."""
    name: str
    dtype: str
    shape: Optional[List[Union[int, str, None]]]


class QuantizeReport(NamedTuple):
    """`held_out_sqnr_db`, of a recipe: of the worst output on the samples that chose its steps. `cost_us_*`, of a recipe: of one run by
    its cost table, of the fused FP32 model and of the result. `*_metric`: what eval_fn returned of the model as it came, and of the
    result. NaN where not known. `recipe`: that made the result; "" in modes without."""
    integer_layers: int
    quantizable_layers: int
    weight_bytes_before: int
    weight_bytes_after: int
    calibration_samples: int
    held_out_sqnr_db: float
    cost_us_before: float
    cost_us_after: float
    golden_metric: float
    candidate_metric: float
    recipe: str


class PruneReport(NamedTuple):
    """`weights` and `zeros` of the layers that were selected; `channels_removed` of prune(flops=...), `products_split` of
    prune(rank=...) and prune(low_rank=...), parameters and FLOPs of all three; `*_metric` are those of QuantizeReport."""
    calibration_samples: int
    weights: int
    zeros: int
    parameters_before: int
    parameters_after: int
    flops_before: int
    flops_after: int
    channels_removed: int
    golden_metric: float
    candidate_metric: float
    products_split: int


class Accuracy(NamedTuple):
    """Of one output over all samples; NaN where not measured. `rows` of scores, whose highest is compared; `kl`, the mean divergence
    of their distributions. `*_top1`, with labels, of the first output: accuracy."""
    name: str
    samples: int
    elements: int
    sqnr_db: float
    max_abs_error: float
    max_error_ratio: float
    cosine: float
    unequal: int
    non_finite_mismatches: int
    rows: int
    top1_agreement: float
    kl: float
    golden_top1: float
    candidate_top1: float


class Model:
    """An ONNX model. `source`: a path, or the bytes of a file."""

    def __init__(self, source: Union[str, os.PathLike, bytes]):
        handle = ctypes.c_void_p()
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
            check(library.infer_model_load_bytes(data, len(data), ctypes.byref(handle)))
        else:
            check(library.infer_model_load(os.fsencode(source), ctypes.byref(handle)))
        self._handle = handle
        weakref.finalize(self, library.infer_model_free, handle)

    def fuse(self, level: int = 3) -> "Model":
        """Rewrites the model as `infer-opt fuse` does, without its checks, and returns it."""
        check(library.infer_model_fuse(self._handle, level))
        return self

    def quantize(self, calibration: Optional[Samples] = None, *, mode: str = "static", labels: Optional[Sequence[Any]] = None,
                 include: Iterable[str] = (), exclude: Iterable[str] = (), format: Optional[str] = None, recipe: Optional[str] = None,
                 observer: Optional[str] = None, activations: Optional[str] = None, weights: Optional[str] = None,
                 symmetric_activations: bool = False, per_tensor: bool = False, reduce_range: bool = False, keep_first: int = 0,
                 keep_last: int = 0, bits: int = 0, block: Optional[int] = None, asymmetric: bool = False, accuracy_level: int = 0,
                 method: Optional[str] = None, sparsity: float = 0.0, nm: Optional[str] = None, blocks: Optional[str] = None,
                 eval_fn: Optional[EvalFunction] = None, max_drop: Optional[float] = None,
                 device: str = "cpu", threads: int = 0, progress: Optional[ProgressFunction] = None) -> QuantizeReport:
        """Rewrites the model as `infer-opt quantize --opset max` does, without its gates, comparison and measurement.

        calibration: an iterable of inputs as Session.run takes them; a sequence is read by index, again and again, and never held.
        labels: a class per sample, or a list of them where the model makes several rows of scores of it; then accuracy is what
        counts. mode: "static", "dynamic", "weight-only", "fp16", "bf16"; the other options are those of the command, and an option
        of another mode is an error. block: 0 for a scale per output. sparsity, nm, blocks ("16x4"): weights become zero while they are rounded.
        progress: called with step, done, total (0: not known); False ends the work. The model stays as it was where this raises.

        eval_fn: the caller's metric, more is better: called with a Session of the model as it came, then of the fused candidate,
        returns a number; the session is closed when it returns. The candidate is taken where it loses at most max_drop, in the
        metric's unit (0.005 where not given; math.inf: any loss), else Error "gate". In mode "static" without a recipe, "fast",
        "balanced" and "best" are tried until one is taken."""
        work = Work(self.inputs, calibration, labels, progress)
        included, excluded = texts(include), texts(exclude)
        options = CQuantizeOptions(
            size=ctypes.sizeof(CQuantizeOptions), mode=mode.encode(), calibration=work.samples, device=device.encode(), threads=threads,
            progress=work.progress, include=included, exclude=excluded, format=text(format), recipe=text(recipe),
            observer=text(observer), activations=text(activations), weights=text(weights), symmetric_activations=symmetric_activations,
            per_tensor=per_tensor, reduce_range=reduce_range, keep_first=keep_first, keep_last=keep_last, bits=bits,
            block=0 if block is None else block or -1, asymmetric=asymmetric, accuracy_level=accuracy_level, method=text(method),
            sparsity=sparsity, nm=text(nm), blocks=text(blocks), **work.judge(eval_fn, max_drop, self._adopter()))
        report = CQuantizeReport(size=ctypes.sizeof(CQuantizeReport))
        work.run(library.infer_model_quantize, self._handle, ctypes.byref(options), ctypes.byref(report))
        return QuantizeReport(*(getattr(report, name) for name in QuantizeReport._fields[:-1]), report.recipe.decode())

    def prune(self, calibration: Optional[Samples] = None, *, sparsity: float = 0.0, nm: Optional[str] = None,
              blocks: Optional[str] = None, flops: float = 0.0, rank: float = 0.0, low_rank: float = 0.0,
              method: Optional[str] = None, allocation: Optional[str] = None,
              labels: Optional[Sequence[Any]] = None, include: Iterable[str] = (), exclude: Iterable[str] = (),
              eval_fn: Optional[EvalFunction] = None, max_drop: Optional[float] = None, device: str = "cpu", threads: int = 0,
              progress: Optional[ProgressFunction] = None) -> PruneReport:
        """Rewrites the model as `infer-opt prune --opset max` does, without fine-tuning, gates, comparison and measurement.

        sparsity: share of the weights that become zero; nm: "2:4"; blocks: "1x4"; flops: share of the FLOPs that stays, by removing
        channels; rank: share of its full rank that each product keeps, split in two; low_rank: share of the weights' bytes that stays
        so, with calibration. Without calibration, weights are chosen by magnitude alone. The rest as quantize()."""
        work = Work(self.inputs, calibration, labels, progress)
        included, excluded = texts(include), texts(exclude)
        options = CPruneOptions(
            size=ctypes.sizeof(CPruneOptions), calibration=work.samples, device=device.encode(), threads=threads, progress=work.progress,
            include=included, exclude=excluded, sparsity=sparsity, nm=text(nm), blocks=text(blocks), method=text(method),
            allocation=text(allocation), flops=flops, rank=rank, low_rank=low_rank, **work.judge(eval_fn, max_drop, self._adopter()))
        report = CPruneReport(size=ctypes.sizeof(CPruneReport))
        work.run(library.infer_model_prune, self._handle, ctypes.byref(options), ctypes.byref(report))
        return PruneReport(*(getattr(report, name) for name in PruneReport._fields))

    def _adopter(self):
        """Makes a Session of a handle to a candidate, whose inputs and outputs are the model's."""
        from ._session import Session  # which needs this module
        return functools.partial(Session._adopt, inputs=self.inputs, outputs=self.outputs)

    def save(self, path: Union[str, os.PathLike]) -> None:
        """As ONNX, in whole or not at all; operators that only infer-opt has as model-local functions."""
        check(library.infer_model_save(self._handle, os.fsencode(path)))

    @property
    def warnings(self) -> List[str]:
        """Of the last function that loaded or changed the model."""
        return library.infer_model_warnings(self._handle).decode("utf-8", "replace").splitlines()

    @property
    def nodes(self) -> int:
        return library.infer_model_nodes(self._handle)

    @property
    def inputs(self) -> List[Value]:
        return self._values(library.infer_model_inputs, library.infer_model_input)

    @property
    def outputs(self) -> List[Value]:
        return self._values(library.infer_model_outputs, library.infer_model_output)

    def _values(self, count, read):
        values = []
        for i in range(count(self._handle)):
            v = CValue()
            check(read(self._handle, i, ctypes.byref(v)))
            shape = None
            if v.rank >= 0:
                shape = [v.dims[d] if v.dims[d] >= 0 else v.symbols[d].decode() or None for d in range(v.rank)]
            values.append(Value(v.name.decode("utf-8", "replace"), TYPES.get(v.dtype, (f"type {v.dtype}",))[0], shape))
        return values


def compare(model: Union[Model, str, os.PathLike, bytes], golden: Union[Model, str, os.PathLike, bytes], samples: Samples, *,
            labels: Optional[Sequence[Any]] = None, device: str = "cpu", threads: int = 0,
            progress: Optional[ProgressFunction] = None) -> List[Accuracy]:
    """What `model` computes beside `golden`, by output, as `infer-opt compare` measures it. samples, labels, progress: as for
    Model.quantize."""
    model, golden = (m if isinstance(m, Model) else Model(m) for m in (model, golden))
    work = Work(golden.inputs, samples, labels, progress)
    options = CCompareOptions(ctypes.sizeof(CCompareOptions), device.encode(), threads, work.progress, None)
    handle = ctypes.c_void_p()
    work.run(library.infer_model_compare, golden._handle, model._handle, work.samples, ctypes.byref(options), ctypes.byref(handle))
    try:
        return [_accuracy(handle, i) for i in range(library.infer_comparison_outputs(handle))]
    finally:
        library.infer_comparison_free(handle)


def _accuracy(handle, i):
    a = CAccuracy(size=ctypes.sizeof(CAccuracy))
    check(library.infer_comparison_output(handle, i, ctypes.byref(a)))
    return Accuracy(a.name.decode("utf-8", "replace"), *(getattr(a, name) for name in Accuracy._fields[1:]))
