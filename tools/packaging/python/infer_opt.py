"""Run and rewrite ONNX models with infer-opt's library.

    model = infer_opt.Model("model.onnx").fuse()
    session = infer_opt.Session(model)
    outputs = session.run({"x": array})        # a list, in the order of session.outputs

Arrays are anything with a C-contiguous buffer: NumPy arrays, memoryviews, array.array. Outputs are NumPy arrays where NumPy is
installed, else memoryviews; they share the library's memory and keep it alive. Every function may be called from any thread;
while the library works, other Python threads go on. Errors are infer_opt.Error, whose `code` is one of CODES.

The library is libinfer.so.0: beside this file, named by the variable INFER_LIBRARY, or where the system finds it.
"""
import asyncio
import concurrent.futures
import ctypes
import os
import threading
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

try:
    import numpy
except ImportError:  # memoryviews then
    numpy = None

__all__ = ["CODES", "Error", "Model", "Session", "Value", "version"]

API_VERSION = 1
CODES = ("ok", "invalid argument", "invalid model", "unsupported", "io", "resource", "cancelled", "internal")
# ONNX's number of an element type -> its name, the letter of the struct module, NumPy's name.
_TYPES = {1: ("f32", "f", "float32"), 2: ("u8", "B", "uint8"), 3: ("i8", "b", "int8"), 4: ("u16", "H", "uint16"),
          5: ("i16", "h", "int16"), 6: ("i32", "i", "int32"), 7: ("i64", "q", "int64"), 9: ("bool", "?", "bool"),
          10: ("f16", "e", "float16"), 11: ("f64", "d", "float64"), 12: ("u32", "I", "uint32"), 13: ("u64", "Q", "uint64"),
          14: ("c64", "", "complex64"), 15: ("c128", "", "complex128")}
_NUMBERS = {letter: number for number, (_, letter, _) in _TYPES.items() if letter}
_NUMBERS.update({"l": 7, "L": 13, "Zf": 14, "Zd": 15})  # of 64-bit Linux


class Error(RuntimeError):
    """The library refused or failed; `code` is one of CODES."""

    def __init__(self, code: int, message: str):
        super().__init__(message or CODES[code])
        self.code = CODES[code]


class Value(NamedTuple):
    """An input or output. `shape`: a number, the name of an open extent, or None; None where the rank is not known."""
    name: str
    dtype: str
    shape: Optional[List[Union[int, str, None]]]


class _Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class _Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("symbols", ctypes.POINTER(ctypes.c_char_p))]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("threads", ctypes.c_int32),
                ("instances", ctypes.c_int32), ("max_batch", ctypes.c_int32), ("max_delay_us", ctypes.c_int32)]


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def _load():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libinfer.so.0")
    path = os.environ.get("INFER_LIBRARY") or (beside if os.path.exists(beside) else "libinfer.so.0")
    library = ctypes.CDLL(path)
    pointer, size, code = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    signatures = {
        "version": (ctypes.c_char_p,), "api_version": (code,), "last_error": (ctypes.c_char_p,),
        "model_load": (code, ctypes.c_char_p, pointer), "model_load_bytes": (code, ctypes.c_char_p, size, pointer),
        "model_free": (None, pointer), "model_inputs": (size, pointer), "model_outputs": (size, pointer),
        "model_input": (code, pointer, size, pointer), "model_output": (code, pointer, size, pointer),
        "model_nodes": (size, pointer), "model_fuse": (code, pointer, code), "model_save": (code, pointer, ctypes.c_char_p),
        "session_create": (code, pointer, pointer, pointer), "session_free": (None, pointer),
        "session_run": (code, pointer, pointer, size, pointer),
        "session_submit": (code, pointer, pointer, size, ctypes.c_int64, _Callback, pointer),
        "result_outputs": (size, pointer), "result_output": (code, pointer, size, pointer), "result_free": (None, pointer)}
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, "infer_" + name)
        function.restype, function.argtypes = result, arguments
    if library.infer_api_version() != API_VERSION:
        raise ImportError(f"{path} has API version {library.infer_api_version()}, this module needs {API_VERSION}")
    return library


_library = _load()


def version() -> str:
    """Of the library: "0.1.0"."""
    return _library.infer_version().decode()


def _check(code):
    if code:
        raise Error(code, _library.infer_last_error().decode("utf-8", "replace"))


class Model:
    """An ONNX model. `source`: a path, or the bytes of a file."""

    def __init__(self, source: Union[str, os.PathLike, bytes]):
        handle = ctypes.c_void_p()
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
            _check(_library.infer_model_load_bytes(data, len(data), ctypes.byref(handle)))
        else:
            _check(_library.infer_model_load(os.fsencode(source), ctypes.byref(handle)))
        self._handle = handle
        weakref.finalize(self, _library.infer_model_free, handle)

    def fuse(self, level: int = 3) -> "Model":
        """Rewrites the model as `infer-opt fuse` does, without its checks, and returns it."""
        _check(_library.infer_model_fuse(self._handle, level))
        return self

    def save(self, path: Union[str, os.PathLike]) -> None:
        _check(_library.infer_model_save(self._handle, os.fsencode(path)))

    @property
    def nodes(self) -> int:
        return _library.infer_model_nodes(self._handle)

    @property
    def inputs(self) -> List[Value]:
        return self._values(_library.infer_model_inputs, _library.infer_model_input)

    @property
    def outputs(self) -> List[Value]:
        return self._values(_library.infer_model_outputs, _library.infer_model_output)

    def _values(self, count, read):
        values = []
        for i in range(count(self._handle)):
            v = _Value()
            _check(read(self._handle, i, ctypes.byref(v)))
            shape = None
            if v.rank >= 0:
                shape = [v.dims[d] if v.dims[d] >= 0 else v.symbols[d].decode() or None for d in range(v.rank)]
            values.append(Value(v.name.decode("utf-8", "replace"), _TYPES.get(v.dtype, (f"type {v.dtype}",))[0], shape))
        return values


class _Result:
    """Frees a result when the last array that shares its memory has gone."""

    def __init__(self, handle):
        self._handle = handle
        weakref.finalize(self, _library.infer_result_free, handle)

    def arrays(self):
        return [self._array(i) for i in range(_library.infer_result_outputs(self._handle))]

    def _array(self, i):
        t = _Tensor()
        _check(_library.infer_result_output(self._handle, i, ctypes.byref(t)))
        if t.dtype not in _TYPES:
            raise Error(3, f"output {i} has element type {t.dtype}, which has no buffer format")
        memory = (ctypes.c_char * max(t.bytes, 1)).from_address(t.data) if t.bytes else (ctypes.c_char * 1)()
        memory._result = self  # as long as the array
        shape = [t.dims[d] for d in range(t.rank)]
        if numpy:
            count = t.bytes // numpy.dtype(_TYPES[t.dtype][2]).itemsize
            return numpy.frombuffer(memory, _TYPES[t.dtype][2], count).reshape(shape)
        view = memoryview(memory).cast("B")[:t.bytes]
        return view.cast(_TYPES[t.dtype][1] or "B", shape) if t.bytes and shape else view


class _Inputs:
    """Arrays as the library reads them; keeps what the pointers point to."""

    def __init__(self, arrays):
        self._kept = []
        self.tensors = (_Tensor * max(len(arrays), 1))(*(self._tensor(a) for a in arrays))
        self.count = len(arrays)

    def _tensor(self, array):
        if numpy and not isinstance(array, memoryview):
            array = numpy.asarray(array, order="C")
        view = memoryview(array)
        if not view.c_contiguous:
            raise Error(1, "an input is not C-contiguous")
        number = _NUMBERS.get(view.format.lstrip("@=<"))
        if number is None:
            raise Error(1, f"elements of format {view.format!r} cannot be passed")
        dims = (ctypes.c_int64 * max(view.ndim, 1))(*(view.shape or ()))
        if view.nbytes == 0:
            address = None
        elif numpy:
            address = numpy.asarray(array).ctypes.data
        elif view.readonly:
            copy = (ctypes.c_char * view.nbytes).from_buffer_copy(view.cast("B"))
            self._kept.append(copy)
            address = ctypes.addressof(copy)
        else:
            address = ctypes.addressof((ctypes.c_char * view.nbytes).from_buffer(view.cast("B")))
        self._kept += [array, view, dims]
        return _Tensor(number, view.ndim, ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64)), address, view.nbytes)


class Session:
    """A model compiled for a device: "cpu", "reference", "vulkan", "vulkan:1".

    threads: of one run, 0 for all cores. instances: runs that go on at once. max_batch: requests that may share a run, where
    an axis is proved to be a batch; max_delay: seconds that a request waits for others."""

    def __init__(self, model: Union[Model, str, os.PathLike, bytes], *, device: str = "cpu", threads: int = 0, instances: int = 1,
                 max_batch: int = 1, max_delay: float = 0.0):
        model = model if isinstance(model, Model) else Model(model)
        self.inputs, self.outputs = model.inputs, model.outputs
        options = _Options(ctypes.sizeof(_Options), device.encode(), threads, instances, max_batch, int(max_delay * 1e6))
        handle = ctypes.c_void_p()
        _check(_library.infer_session_create(model._handle, ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle
        self._waiting: Dict[int, Any] = {}
        self._lock, self._next = threading.Lock(), 0
        self._told = _Callback(self._tell_of(self._waiting))
        self._close = weakref.finalize(self, Session._free, handle, self._told)

    def close(self) -> None:
        """Ends what has not begun as cancelled. Not in a callback of a future."""
        self._close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def run(self, inputs: Union[Dict[str, Any], Sequence[Any], Any]) -> List[Any]:
        """The outputs for inputs by name, in order, or for the only one."""
        given = _Inputs(self._in_order(inputs))
        result = ctypes.c_void_p()
        _check(_library.infer_session_run(self._open(), given.tensors, given.count, ctypes.byref(result)))
        return _Result(result).arrays()

    def submit(self, inputs, timeout: Optional[float] = None) -> "concurrent.futures.Future[List[Any]]":
        """Returns at once; the future holds what run() would return. The inputs may not be changed before it is done."""
        given = _Inputs(self._in_order(inputs))
        future: "concurrent.futures.Future[List[Any]]" = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            self._next += 1
            ticket = self._next
        self._waiting[ticket] = (future, given)
        microseconds = -1 if timeout is None else max(int(timeout * 1e6), 0)
        code = _library.infer_session_submit(self._open(), given.tensors, given.count, microseconds, self._told, ticket)
        if code:
            del self._waiting[ticket]
            _check(code)
        return future

    async def run_async(self, inputs, timeout: Optional[float] = None) -> List[Any]:
        return await asyncio.wrap_future(self.submit(inputs, timeout))

    def _open(self):
        if not self._close.alive:
            raise Error(1, "the session is closed")
        return self._handle

    def _in_order(self, inputs):
        if isinstance(inputs, dict):
            names = [v.name for v in self.inputs]
            unknown = [n for n in inputs if n not in names]
            missing = [n for n in names if n not in inputs]
            if unknown or missing:
                raise Error(1, f"inputs are {names}: unknown {unknown}, missing {missing}")
            return [inputs[n] for n in names]
        return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]

    @staticmethod
    def _tell_of(waiting):
        def tell(ticket, code, error, result):
            future, _ = waiting.pop(ticket)
            if code:
                future.set_exception(Error(code, error.decode("utf-8", "replace")))
            else:
                try:
                    future.set_result(_Result(ctypes.c_void_p(result)).arrays())
                except Error as e:
                    future.set_exception(e)

        return tell

    @staticmethod
    def _free(handle, told):
        _library.infer_session_free(handle)  # waits for the callbacks, which `told` keeps
