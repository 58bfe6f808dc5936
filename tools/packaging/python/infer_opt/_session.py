"""Sessions: a model that is compiled, and its requests."""
import asyncio
import concurrent.futures
import ctypes
import os
import threading
import weakref
from typing import Any, Dict, List, Optional, Sequence, Union

from ._arrays import Inputs, Result, in_order
from ._library import Callback, CSessionOptions, Error, check, library
from ._model import Model


class Session:
    """A model compiled for a device: "cpu", "reference", "vulkan", "vulkan:1".

    threads: of one run, 0 for all cores. instances: runs that go on at once. max_batch: requests that may share a run, where
    an axis is proved to be a batch; max_delay: seconds that a request waits for others."""

    def __init__(self, model: Union[Model, str, os.PathLike, bytes], *, device: str = "cpu", threads: int = 0, instances: int = 1,
                 max_batch: int = 1, max_delay: float = 0.0):
        model = model if isinstance(model, Model) else Model(model)
        self.inputs, self.outputs = model.inputs, model.outputs
        options = CSessionOptions(ctypes.sizeof(CSessionOptions), device.encode(), threads, instances, max_batch, int(max_delay * 1e6))
        handle = ctypes.c_void_p()
        check(library.infer_session_create(model._handle, ctypes.byref(options), ctypes.byref(handle)))
        self._hold(handle)

    @classmethod
    def _adopt(cls, handle, inputs, outputs):
        """Of a handle that is the caller's to free."""
        session = cls.__new__(cls)
        session.inputs, session.outputs = inputs, outputs
        session._hold(handle)
        return session

    def _hold(self, handle):
        self._handle = handle
        self._waiting: Dict[int, Any] = {}
        self._lock, self._next = threading.Lock(), 0
        self._told = Callback(self._tell_of(self._waiting))
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
        given = Inputs(in_order(self.inputs, inputs))
        result = ctypes.c_void_p()
        check(library.infer_session_run(self._open(), given.tensors, given.count, ctypes.byref(result)))
        return Result(result).arrays()

    def submit(self, inputs, timeout: Optional[float] = None) -> "concurrent.futures.Future[List[Any]]":
        """Returns at once; the future holds what run() would return. The inputs may not be changed before it is done."""
        given = Inputs(in_order(self.inputs, inputs))
        future: "concurrent.futures.Future[List[Any]]" = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            self._next += 1
            ticket = self._next
        self._waiting[ticket] = (future, given)
        microseconds = -1 if timeout is None else max(int(timeout * 1e6), 0)
        code = library.infer_session_submit(self._open(), given.tensors, given.count, microseconds, self._told, ticket)
        if code:
            del self._waiting[ticket]
            check(code)
        return future

    async def run_async(self, inputs, timeout: Optional[float] = None) -> List[Any]:
        """submit() for asyncio."""
        return await asyncio.wrap_future(self.submit(inputs, timeout))

    def _open(self):
        if not self._close.alive:
            raise Error(1, "the session is closed")
        return self._handle

    @staticmethod
    def _tell_of(waiting):
        def tell(ticket, code, error, result):
            future, _ = waiting.pop(ticket)
            if code:
                future.set_exception(Error(code, error.decode("utf-8", "replace")))
            else:
                try:
                    future.set_result(Result(ctypes.c_void_p(result)).arrays())
                except Error as e:
                    future.set_exception(e)

        return tell

    @staticmethod
    def _free(handle, told):
        library.infer_session_free(handle)  # waits for the callbacks, which `told` keeps
