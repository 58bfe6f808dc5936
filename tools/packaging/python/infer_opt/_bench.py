"""How fast models are, in this process."""
import ctypes
import os
import random
import statistics
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from ._arrays import Inputs, in_order, zeros
from ._library import Error, check, library
from ._model import Model
from ._session import Session

_BLOCK_NS = 5_000_000


class Speed(NamedTuple):
    """Milliseconds of a run: the median with its 95 % interval, the 90th percentile, the least."""
    median_ms: float
    low_ms: float
    high_ms: float
    p90_ms: float
    least_ms: float
    runs: int


class SpeedRatio(NamedTuple):
    """Time of the model over that of `against`, by blocks of runs in turns: the median with its 95 % interval. verdict: "faster",
    "slower", "same" (within 2 %), "unclear"."""
    ratio: float
    low: float
    high: float
    verdict: str
    model: Speed
    against: Speed


def bench(model: Union[Model, Session, str, os.PathLike, bytes],
          inputs: Union[Dict[str, Any], Sequence[Any], Any, None] = None, *,
          against: Union[Model, Session, str, os.PathLike, bytes, None] = None, seconds: float = 3.0, warmup: float = 0.5,
          device: str = "cpu", threads: int = 0) -> Union[Speed, SpeedRatio]:
    """Runs the model for `seconds`, after `warmup` seconds that do not count; with `against`, both in turns, half of the time each.

    inputs: as Session.run takes them; without any, random numbers (integers: zeros) where the model's extents are all known. The
    clock is the library's: Python's own time is not in it. Models are fused (Model.fuse) unless they are sessions. Starts of processes
    differ by more than runs do: `infer-bench compare` starts several, and decides."""
    if not (seconds > 0 and warmup >= 0):
        raise Error(1, "seconds are above 0, warmup is not negative")
    timed = [_Timed(m, inputs, device, threads) for m in (model, against) if m is not None]
    for t in timed:
        t.warm(warmup)
    until = time.monotonic() + seconds
    first = True
    while time.monotonic() < until or len(timed[0].blocks) < 10:
        for t in timed if first else reversed(timed):
            t.block()
        first = not first
    speeds = [t.speed() for t in timed]
    if against is None:
        return speeds[0]
    ratios = sorted(a / b for a, b in zip(timed[0].blocks, timed[1].blocks))
    low, high = _interval(ratios)
    verdict = "faster" if high < 0.98 else "slower" if low > 1.02 else "same" if low > 0.98 and high < 1.02 else "unclear"
    return SpeedRatio(statistics.median(ratios), low, high, verdict, *speeds)


class _Timed:
    def __init__(self, model, inputs, device, threads):
        self._session = model if isinstance(model, Session) else Session(_fused(model), device=device, threads=threads)
        values = self._session.inputs
        self._given = Inputs(in_order(values, _made(values) if inputs is None else inputs))
        self._runs, self._ns = 1, []
        self.blocks: List[float] = []  # ns of a run, by block

    def _time(self, runs):
        took = (ctypes.c_int64 * runs)()
        check(library.infer_session_time(self._session._open(), self._given.tensors, self._given.count, runs, took))
        return list(took)

    def warm(self, seconds):
        until = time.monotonic() + seconds
        took = self._time(1) + self._time(1)
        while time.monotonic() < until:
            took = self._time(self._runs)
            self._runs = max(1, min(100_000, int(_BLOCK_NS / max(statistics.median(took), 1))))

    def block(self):
        took = self._time(self._runs)
        self._ns += took
        self.blocks.append(statistics.median(took))

    def speed(self):
        ns = sorted(self._ns)
        low, high = _interval(sorted(self.blocks))
        return Speed(statistics.median(self.blocks) / 1e6, low / 1e6, high / 1e6, ns[int(0.9 * (len(ns) - 1))] / 1e6, ns[0] / 1e6,
                     len(ns))


def _fused(model):
    return (model.clone() if isinstance(model, Model) else Model(model)).fuse()


def _interval(ordered):
    """95 %, of the median, by ranks (binomial)."""
    n = len(ordered)
    at = max(0, int(n / 2 - 0.98 * n**0.5))
    return ordered[at], ordered[n - 1 - at]


def _made(values):
    made = []
    numbers = random.Random(0)
    for v in values:
        if v.shape is None or not all(isinstance(d, int) for d in v.shape):
            raise Error(1, f"inputs are needed: the extents of {v.name} are not known")
        made.append(zeros(v.dtype, v.shape, numbers.gauss if v.dtype in ("f32", "f64") else None))
    return made
