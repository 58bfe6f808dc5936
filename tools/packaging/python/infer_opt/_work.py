"""Calls that work for a while: the samples that they read, who is told, and exceptions of a caller's own functions."""
import ctypes
import math

from ._arrays import Inputs, in_order
from ._library import CSamples, CTensor, Error, Evaluate, Progress, ReadSample, check

_INTERNAL = 7
DEFAULT_DROP = 0.005  # what recipes aim for: half a point of a share


class Work:
    """One call. What a caller's function raises ends it, and is raised by it."""

    def __init__(self, values, samples, labels, progress):
        self._raised = None
        self._kept = [Progress(self._tell_of(progress))]
        self.progress = self._kept[0]
        self.samples = None if samples is None else self._samples(values, samples, labels)
        if samples is None and labels is not None:
            raise Error(1, "labels without the samples that they are of")

    def run(self, function, *arguments):
        code = function(*arguments)
        if self._raised is not None:
            raise self._raised
        check(code)

    def judge(self, eval_fn, max_drop, adopt):
        """The members of options that hold the caller's metric. adopt: makes a Session of a handle."""
        if eval_fn is None:
            if max_drop is not None:
                raise Error(1, "max_drop without the eval_fn whose loss it limits")
            return {}
        if not callable(eval_fn):
            raise Error(1, f"eval_fn is a {type(eval_fn).__name__}, which cannot be called")
        self._kept.append(Evaluate(self._evaluate_of(eval_fn, adopt)))
        return {"evaluate": self._kept[-1], "max_drop": DEFAULT_DROP if max_drop is None else max_drop}

    def _evaluate_of(self, eval_fn, adopt):
        def evaluate(_, handle, metric):
            try:
                with adopt(ctypes.c_void_p(handle)) as session:
                    metric[0] = _number(eval_fn(session))
                return 0
            except BaseException as e:
                self._raised = e
                return _INTERNAL

        return evaluate

    def _samples(self, values, samples, labels):
        """Sequences are read by index, others are iterated once and held."""
        if not (hasattr(samples, "__len__") and hasattr(samples, "__getitem__")) or isinstance(samples, (dict, str, bytes)):
            if isinstance(samples, (dict, str, bytes)):
                raise Error(1, f"samples are an iterable of inputs, not a {type(samples).__name__}")
            samples = list(samples)
        read = ReadSample(self._read_of(values, samples))
        c = CSamples(size=ctypes.sizeof(CSamples), count=len(samples), read=read)
        self._kept += [read, c, samples]
        if labels is not None:
            each, numbers = _labels(labels, len(samples))
            c.labels = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
            c.labels_per_sample = each
        return ctypes.pointer(c)

    def _read_of(self, values, samples):
        held = []

        def read(_, i, tensors):
            try:
                given = Inputs(in_order(values, samples[i]))
                if given.count != len(values):
                    raise Error(1, f"sample {i} has {given.count} inputs, the model {len(values)}")
                held[:] = [given]  # until the next one
                ctypes.memmove(tensors, given.tensors, given.count * ctypes.sizeof(CTensor))
                return 0
            except BaseException as e:  # also KeyboardInterrupt: the library ends the call first
                self._raised = e
                return _INTERNAL

        return read

    def _tell_of(self, progress):
        def tell(_, step, done, total):
            try:
                return 0 if progress is None or progress(step.decode(), done, total) is not False else 1
            except BaseException as e:
                self._raised = e
                return 1

        return tell


def _number(value):
    """What eval_fn returned, as a float: numbers, and arrays and tensors of one."""
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise Error(1, f"eval_fn returned {' '.join(repr(value).split())[:60]}, where a finite number is wanted")
    return number


def _labels(labels, count):
    """Classes of each sample: numbers, or lists of equally many."""
    rows = [[int(x) for x in row] if hasattr(row, "__len__") else [int(row)] for row in labels]
    widths = {len(row) for row in rows}
    if len(rows) != count or len(widths) > 1 or 0 in widths:
        raise Error(1, f"{len(rows)} labels of {sorted(widths)} classes for {count} samples: as many of each sample")
    return widths.pop() if widths else 1, [x for row in rows for x in row]


def texts(items):
    """A list of C's that ends with NULL; None for an empty one."""
    items = [items] if isinstance(items, str) else list(items or ())
    return (ctypes.c_char_p * (len(items) + 1))(*(i.encode() for i in items), None) if items else None


def text(value):
    return None if value is None else value.encode()
