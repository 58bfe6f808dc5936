"""Arrays on their way into the library and out of it."""
import ctypes
import weakref

from ._library import CTensor, Error, check, library

try:
    import numpy
except ImportError:  # Tensor then
    numpy = None

# ONNX's number of an element type -> its name, the letter of the struct module, NumPy's name, its bytes.
TYPES = {1: ("f32", "f", "float32", 4), 2: ("u8", "B", "uint8", 1), 3: ("i8", "b", "int8", 1), 4: ("u16", "H", "uint16", 2),
         5: ("i16", "h", "int16", 2), 6: ("i32", "i", "int32", 4), 7: ("i64", "q", "int64", 8), 9: ("bool", "?", "bool", 1),
         10: ("f16", "e", "float16", 2), 11: ("f64", "d", "float64", 8), 12: ("u32", "I", "uint32", 4),
         13: ("u64", "Q", "uint64", 8), 14: ("c64", "Zf", "complex64", 8), 15: ("c128", "Zd", "complex128", 16),
         16: ("bf16", "", "", 2)}
_NUMBERS = {letter: number for number, (_, letter, _, _) in TYPES.items() if letter}
_NUMBERS.update({"l": 7, "L": 13})  # of 64-bit Linux
# DLPack's code and bits of an element type -> ONNX's number.
_DLPACK_TYPES = {(0, 8): 3, (0, 16): 5, (0, 32): 6, (0, 64): 7, (1, 8): 2, (1, 16): 4, (1, 32): 12, (1, 64): 13, (2, 16): 10,
                 (2, 32): 1, (2, 64): 11, (4, 16): 16, (5, 64): 14, (5, 128): 15, (6, 8): 9}
_HOST = (1, 3)  # DLPack's memory of the processor, and pinned memory


class _DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DlManaged(ctypes.Structure):
    pass


_DlDeleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DlManaged))
_DlManaged._fields_ = [("tensor", _DlTensor), ("context", ctypes.c_void_p), ("deleter", _DlDeleter)]
_CAPSULE = b"dltensor"  # until somebody takes what is in it


def _python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_capsule_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
# Of a capsule that is being destroyed, and must not be counted again.
_dying_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def _free_capsule(capsule):
    if _dying_is_valid(capsule, _CAPSULE):  # nobody took it
        managed = ctypes.cast(_dying_pointer(capsule, _CAPSULE), ctypes.POINTER(_DlManaged))
        managed.contents.deleter(managed)


_free_capsule_c = _Destructor(_free_capsule)
for _kept in (_free_capsule_c, _CAPSULE):  # capsules may outlive this module
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


class Tensor:
    """An output in the library's memory, which it keeps alive: for where NumPy is missing or has no such type (bf16).

    memoryview(t) from Python 3.12, t.memoryview() before; numpy.asarray(t), torch.from_dlpack(t) and others take it without a copy."""

    def __init__(self, result, index, tensor):
        self._result, self._index = result, index
        self.dtype, self.format, self._numpy, _ = TYPES[tensor.dtype]
        self.shape = tuple(tensor.dims[d] for d in range(tensor.rank))
        self.nbytes = tensor.bytes
        self._memory = _memory_of(result, tensor)

    def memoryview(self):
        """Of the shape and type, or of bytes where memoryview has no such type."""
        view = memoryview(self._memory).cast("B")[:self.nbytes]
        try:
            return view.cast(self.format or "B", self.shape) if self.nbytes else view
        except (ValueError, TypeError):
            return view

    def __buffer__(self, flags):
        return self.memoryview()

    def tolist(self):
        """Nested lists of numbers, or a list of bytes where memoryview has no such type."""
        return self.memoryview().tolist()

    @property
    def __array_interface__(self):
        if not self._numpy:
            raise AttributeError(f"NumPy has no {self.dtype}")
        kind = {"f": "f", "u": "u", "i": "i", "b": "b", "c": "c"}[self.dtype[0]]
        size = next(t[3] for t in TYPES.values() if t[0] == self.dtype)
        return {"shape": self.shape, "typestr": f"{'|' if size == 1 else '<'}{kind}{size}", "version": 3,
                "data": (ctypes.addressof(self._memory), False)}

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device not in (None, (1, 0)) or copy:
            raise BufferError("only memory of the processor, without a copy")
        managed = ctypes.c_void_p()
        check(library.infer_result_dlpack(self._result.handle, self._index, ctypes.byref(managed)))
        return _capsule_new(managed, _CAPSULE, ctypes.cast(_free_capsule_c, ctypes.c_void_p))

    def __dlpack_device__(self):
        return (1, 0)

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<infer_opt.Tensor {self.dtype}{list(self.shape)}>"


def _memory_of(result, tensor):
    memory = (ctypes.c_char * max(tensor.bytes, 1)).from_address(tensor.data) if tensor.bytes else (ctypes.c_char * 1)()
    memory._result = result  # as long as the array
    return memory


class Result:
    """Frees a result when the last array that shares its memory has gone."""

    def __init__(self, handle):
        self.handle = handle
        weakref.finalize(self, library.infer_result_free, handle)

    def arrays(self):
        return [self._array(i) for i in range(library.infer_result_outputs(self.handle))]

    def _array(self, i):
        t = CTensor()
        check(library.infer_result_output(self.handle, i, ctypes.byref(t)))
        if t.dtype not in TYPES:
            raise Error(3, f"output {i} has element type {t.dtype}, which has no buffer format")
        _, _, name, size = TYPES[t.dtype]
        if not numpy or not name:
            return Tensor(self, i, t)
        return numpy.frombuffer(_memory_of(self, t), name, t.bytes // size).reshape([t.dims[d] for d in range(t.rank)])


class Inputs:
    """Arrays as the library reads them; keeps what the pointers point to."""

    def __init__(self, arrays):
        self._kept = []
        self.tensors = (CTensor * max(len(arrays), 1))(*(self._tensor(a) for a in arrays))
        self.count = len(arrays)

    def _tensor(self, array):
        if isinstance(array, Tensor):
            number = next(n for n, t in TYPES.items() if t[0] == array.dtype)
            return self._made(number, array.shape, ctypes.addressof(array._memory), array.nbytes, array)
        try:
            view = memoryview(array)
        except (TypeError, BufferError, ValueError):
            if hasattr(array, "__dlpack__"):
                return self._of_dlpack(array)
            if not numpy:
                raise Error(1, f"{type(array).__name__} has neither a buffer nor __dlpack__") from None
            view = memoryview(numpy.asarray(array, order="C"))
        return self._of_view(view)

    def _of_view(self, view):
        number = _NUMBERS.get(view.format.lstrip("@=<"))
        if number is None:
            raise Error(1, f"elements of format {view.format!r} cannot be passed")
        if view.nbytes == 0:
            address = None
        elif not view.c_contiguous or (view.readonly and not numpy):
            copy = (ctypes.c_char * view.nbytes).from_buffer_copy(view.tobytes())
            self._kept.append(copy)
            address = ctypes.addressof(copy)
        elif numpy:
            address = numpy.asarray(view).ctypes.data
        else:
            address = ctypes.addressof((ctypes.c_char * view.nbytes).from_buffer(view.cast("B")))
        return self._made(number, view.shape or (), address, view.nbytes, view)

    def _of_dlpack(self, array):
        if array.__dlpack_device__()[0] not in _HOST:
            raise Error(1, "an array of DLPack lies on a device: copy it to the processor's memory first")
        capsule = array.__dlpack__()  # frees what is in it, for nobody takes that
        t = ctypes.cast(_capsule_pointer(capsule, _CAPSULE), ctypes.POINTER(_DlManaged)).contents.tensor
        number = _DLPACK_TYPES.get((t.code, t.bits))
        if number is None or t.lanes != 1:
            raise Error(1, f"elements of DLPack's code {t.code} with {t.bits} bits cannot be passed")
        shape, size, count = [t.shape[d] for d in range(t.ndim)], t.bits // 8, 1
        for d in range(t.ndim - 1, -1, -1):
            if t.strides and shape[d] != 1 and t.strides[d] != count and 0 not in shape:
                return self._of_strided(array)
            count *= shape[d]
        address = (t.data or 0) + t.byte_offset if count else None
        return self._made(number, shape, address, count * size, capsule)

    def _of_strided(self, array):
        if hasattr(array, "contiguous"):  # of torch
            return self._of_dlpack(array.contiguous())
        if not numpy:
            raise Error(1, "an array of DLPack is not C-contiguous")
        return self._of_view(memoryview(numpy.ascontiguousarray(numpy.from_dlpack(array))))

    def _made(self, number, shape, address, size, owner):
        dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self._kept += [owner, dims]
        return CTensor(number, len(shape), ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64)), address, size)


def in_order(values, inputs):
    """Arrays by name, in order, or the only one, as a list in the order of `values`."""
    if isinstance(inputs, dict):
        names = [v.name for v in values]
        unknown = [n for n in inputs if n not in names]
        missing = [n for n in names if n not in inputs]
        if unknown or missing:
            raise Error(1, f"inputs are {names}: unknown {unknown}, missing {missing}")
        return [inputs[n] for n in names]
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
