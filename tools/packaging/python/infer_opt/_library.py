"""libinfer.so.0 and its structures (infer.h) by ctypes."""
import ctypes
import os

API_VERSION = 1
CODES = ("ok", "invalid argument", "invalid model", "unsupported", "io", "resource", "cancelled", "internal", "gate")


class Error(RuntimeError):
    """The library refused or failed; `code` is one of CODES."""

    def __init__(self, code: int, message: str):
        super().__init__(message or CODES[code])
        self.code = CODES[code]


class CTensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class CValue(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("symbols", ctypes.POINTER(ctypes.c_char_p))]


class CSessionOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("threads", ctypes.c_int32),
                ("instances", ctypes.c_int32), ("max_batch", ctypes.c_int32), ("max_delay_us", ctypes.c_int32)]


Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
ReadSample = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(CTensor))
Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
Evaluate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_double))
_Texts = ctypes.POINTER(ctypes.c_char_p)


class CSamples(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("count", ctypes.c_size_t), ("inputs", ctypes.POINTER(CTensor)), ("read", ReadSample),
                ("user", ctypes.c_void_p), ("labels", ctypes.POINTER(ctypes.c_int64)), ("labels_per_sample", ctypes.c_size_t)]


_WORK = [("calibration", ctypes.POINTER(CSamples)), ("device", ctypes.c_char_p), ("threads", ctypes.c_int32), ("progress", Progress),
         ("user", ctypes.c_void_p), ("include", _Texts), ("exclude", _Texts)]
_JUDGE = [("evaluate", Evaluate), ("max_drop", ctypes.c_double)]
_METRICS = [("golden_metric", ctypes.c_double), ("candidate_metric", ctypes.c_double)]


class CQuantizeOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("mode", ctypes.c_char_p), *_WORK,
                *((name, ctypes.c_char_p) for name in ("format", "recipe", "observer", "activations", "weights")),
                *((name, ctypes.c_int32) for name in ("symmetric_activations", "per_tensor", "reduce_range", "keep_first", "keep_last",
                                                      "bits", "block", "asymmetric", "accuracy_level")),
                ("method", ctypes.c_char_p), *_JUDGE, ("sparsity", ctypes.c_double), ("nm", ctypes.c_char_p), ("blocks", ctypes.c_char_p)]


class CQuantizeReport(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t),
                *((name, ctypes.c_int64) for name in ("integer_layers", "quantizable_layers", "weight_bytes_before",
                                                      "weight_bytes_after", "calibration_samples")),
                *((name, ctypes.c_double) for name in ("held_out_sqnr_db", "cost_us_before", "cost_us_after")), *_METRICS,
                ("recipe", ctypes.c_char_p)]


class CPruneOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), *_WORK, ("sparsity", ctypes.c_double),
                *((name, ctypes.c_char_p) for name in ("nm", "blocks", "method", "allocation")), ("flops", ctypes.c_double), *_JUDGE,
                ("rank", ctypes.c_double), ("low_rank", ctypes.c_double)]


class CPruneReport(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t),
                *((name, ctypes.c_int64) for name in ("calibration_samples", "weights", "zeros", "parameters_before",
                                                      "parameters_after", "flops_before", "flops_after", "channels_removed")),
                *_METRICS, ("products_split", ctypes.c_int64)]


class CCompareOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("threads", ctypes.c_int32), ("progress", Progress),
                ("user", ctypes.c_void_p)]


class CAccuracy(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("samples", ctypes.c_int64), ("elements", ctypes.c_int64),
                *((name, ctypes.c_double) for name in ("sqnr_db", "max_abs_error", "max_error_ratio", "cosine")),
                *((name, ctypes.c_int64) for name in ("unequal", "non_finite_mismatches", "rows")),
                *((name, ctypes.c_double) for name in ("top1_agreement", "kl", "golden_top1", "candidate_top1"))]


def _load():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libinfer.so.0")
    path = os.environ.get("INFER_LIBRARY") or (beside if os.path.exists(beside) else "libinfer.so.0")
    found = ctypes.CDLL(path)
    pointer, size, code, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
    signatures = {
        "version": (text,), "api_version": (code,), "last_error": (text,),
        "model_load": (code, text, pointer), "model_load_bytes": (code, text, size, pointer),
        "model_free": (None, pointer), "model_inputs": (size, pointer), "model_outputs": (size, pointer),
        "model_input": (code, pointer, size, pointer), "model_output": (code, pointer, size, pointer),
        "model_nodes": (size, pointer), "model_warnings": (text, pointer), "model_fuse": (code, pointer, code),
        "model_save": (code, pointer, text), "model_quantize": (code, pointer, pointer, pointer),
        "model_prune": (code, pointer, pointer, pointer), "model_compare": (code, pointer, pointer, pointer, pointer, pointer),
        "comparison_outputs": (size, pointer), "comparison_output": (code, pointer, size, pointer), "comparison_free": (None, pointer),
        "session_create": (code, pointer, pointer, pointer), "session_free": (None, pointer),
        "session_run": (code, pointer, pointer, size, pointer),
        "session_submit": (code, pointer, pointer, size, ctypes.c_int64, Callback, pointer),
        "result_outputs": (size, pointer), "result_output": (code, pointer, size, pointer),
        "result_dlpack": (code, pointer, size, pointer), "result_free": (None, pointer)}
    if found.infer_api_version() != API_VERSION:
        raise ImportError(f"{path} has API version {found.infer_api_version()}, this module needs {API_VERSION}")
    for name, (result, *arguments) in signatures.items():
        function = getattr(found, "infer_" + name, None)
        if function is None:
            raise ImportError(f"{path} is older than this module: it has no infer_{name}")
        function.restype, function.argtypes = result, arguments
    return found


library = _load()


def version() -> str:
    """Of the library: "0.1.0"."""
    return library.infer_version().decode()


def check(code):
    if code:
        raise Error(code, library.infer_last_error().decode("utf-8", "replace"))
