"""Types of infer_opt, whose docstrings say what things do."""
import concurrent.futures
import os
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

_Array = Any  # a buffer, __dlpack__, or what NumPy makes an array of
_Inputs = Union[Dict[str, _Array], Sequence[_Array], _Array]
_Source = Union["Model", str, "os.PathLike[str]", bytes]
_Progress = Callable[[str, int, int], Any]
_EvalFn = Callable[["Session"], Any]
_Labels = Sequence[Union[int, Sequence[int]]]

CODES: Tuple[str, ...]

class Error(RuntimeError):
    code: str
    def __init__(self, code: int, message: str) -> None: ...

class Value(NamedTuple):
    name: str
    dtype: str
    shape: Optional[List[Union[int, str, None]]]

class QuantizeReport(NamedTuple):
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

class Tensor:
    dtype: str
    format: str
    nbytes: int
    shape: Tuple[int, ...]
    def memoryview(self) -> memoryview: ...
    def tolist(self) -> Any: ...
    @property
    def __array_interface__(self) -> Dict[str, Any]: ...
    def __buffer__(self, flags: int) -> Any: ...
    def __dlpack__(self, *, stream: Any = ..., max_version: Optional[Tuple[int, int]] = ..., dl_device: Optional[Tuple[int, int]] = ...,
                   copy: Optional[bool] = ...) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...
    def __len__(self) -> int: ...

class Model:
    def __init__(self, source: Union[str, "os.PathLike[str]", bytes]) -> None: ...
    def fuse(self, level: int = ...) -> "Model": ...
    def quantize(self, calibration: Optional[Iterable[_Inputs]] = ..., *, mode: str = ..., labels: Optional[_Labels] = ...,
                 include: Iterable[str] = ..., exclude: Iterable[str] = ..., format: Optional[str] = ..., recipe: Optional[str] = ...,
                 observer: Optional[str] = ..., activations: Optional[str] = ..., weights: Optional[str] = ...,
                 symmetric_activations: bool = ..., per_tensor: bool = ..., reduce_range: bool = ..., keep_first: int = ...,
                 keep_last: int = ..., bits: int = ..., block: Optional[int] = ..., asymmetric: bool = ..., accuracy_level: int = ...,
                 method: Optional[str] = ..., sparsity: float = ..., nm: Optional[str] = ..., blocks: Optional[str] = ...,
                 eval_fn: Optional[_EvalFn] = ..., max_drop: Optional[float] = ..., device: str = ..., threads: int = ...,
                 progress: Optional[_Progress] = ...) -> QuantizeReport: ...
    def prune(self, calibration: Optional[Iterable[_Inputs]] = ..., *, sparsity: float = ..., nm: Optional[str] = ...,
              blocks: Optional[str] = ..., flops: float = ..., rank: float = ..., low_rank: float = ...,
              method: Optional[str] = ..., allocation: Optional[str] = ..., labels: Optional[_Labels] = ..., include: Iterable[str] = ..., exclude: Iterable[str] = ...,
              eval_fn: Optional[_EvalFn] = ..., max_drop: Optional[float] = ..., device: str = ..., threads: int = ...,
              progress: Optional[_Progress] = ...) -> PruneReport: ...
    def save(self, path: Union[str, "os.PathLike[str]"]) -> None: ...
    @property
    def warnings(self) -> List[str]: ...
    @property
    def nodes(self) -> int: ...
    @property
    def inputs(self) -> List[Value]: ...
    @property
    def outputs(self) -> List[Value]: ...

class Session:
    inputs: List[Value]
    outputs: List[Value]
    def __init__(self, model: _Source, *, device: str = ..., threads: int = ..., instances: int = ..., max_batch: int = ...,
                 max_delay: float = ...) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> "Session": ...
    def __exit__(self, *_: Any) -> None: ...
    def run(self, inputs: _Inputs) -> List[Any]: ...
    def submit(self, inputs: _Inputs, timeout: Optional[float] = ...) -> "concurrent.futures.Future[List[Any]]": ...
    async def run_async(self, inputs: _Inputs, timeout: Optional[float] = ...) -> List[Any]: ...

class BenchReport(NamedTuple):
    median_ms: float
    median_ci95_ms: Tuple[float, float]
    min_ms: float
    p90_ms: Optional[float]
    p99_ms: Optional[float]
    throughput_per_s: float
    runs: int
    warmup_runs: int
    warmup_stable: bool
    threads: int
    load_ms: float
    compile_ms: float
    first_ms: float
    warnings: List[str]
    report: Dict[str, Any]

class SpeedReport(NamedTuple):
    verdict: str
    change: Optional[float]
    change_ci95: Optional[Tuple[float, float]]
    medians_ms: Tuple[float, float]
    starts: int
    seconds: float
    warnings: List[str]
    report: Dict[str, Any]

def bench(model: _Source, *, threads: Optional[int] = ..., batch: Optional[int] = ..., runs: Optional[int] = ...,
          min_time: Optional[float] = ..., max_time: Optional[float] = ..., warmup: Optional[int] = ..., cold: Optional[int] = ...,
          device: Optional[str] = ..., options: Sequence[str] = ...) -> BenchReport: ...
def compare_speed(a: _Source, b: _Source, *, threads: Optional[int] = ..., budget: Optional[float] = ..., min_effect: Optional[float] = ...,
                  device: Optional[str] = ..., options: Sequence[str] = ...) -> SpeedReport: ...
def compare(model: _Source, golden: _Source, samples: Iterable[_Inputs], *, labels: Optional[_Labels] = ..., device: str = ...,
            threads: int = ..., progress: Optional[_Progress] = ...) -> List[Accuracy]: ...
def version() -> str: ...
