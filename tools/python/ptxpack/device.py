"""device.py - the driver that the library uses, a handle for each context, and the plans that it keeps."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from typing import Any, Callable, Iterator, Optional

from .library import (ArgumentError, Error, LEGACY_STREAM, PER_THREAD_STREAM, _AppendDesc, _AttentionDesc, _CombineDesc, _GatherDesc, _GemmDesc, _MergeDesc,
                      _NormDesc, _NormStrides, _Options, _QuantiseDesc, _RouteDesc, _SamplingDesc, _Strides, _library, _lock, _raise)


# ---- the driver that the library uses ----------------------------------------------------------------------
class _Driver:
    """libcuda's functions by name; a call that fails is an Error."""

    def __init__(self) -> None:
        lib, table, detail = _library(), ctypes.c_void_p(), ctypes.create_string_buffer(1024)
        status = lib.ptxpack_driver_open(None, ctypes.byref(table), detail, len(detail))
        if status:
            _raise(lib, status, detail.value)
        self.cuda: Any = ctypes.CDLL(os.fsdecode(lib.ptxpack_driver_path(table)))  # loaded and initialised already
        self.emulated = hasattr(self.cuda, "ptxpack_emu_findings")

    def call(self, function: str, *arguments: Any) -> None:
        result = getattr(self.cuda, function)(*arguments)
        if result:
            name = ctypes.c_char_p()
            self.cuda.cuGetErrorName(result, ctypes.byref(name))
            raise Error("PTXPACK_E_DRIVER", "%s: %s (%d)" % (function, (name.value or b"?").decode(), result))

    def get(self, kind: Any, function: str, *arguments: Any) -> Any:
        """Returns what the function writes to its first argument."""
        value = kind()
        self.call(function, ctypes.byref(value), *arguments)
        return value.value

    def get_last(self, kind: Any, function: str, *arguments: Any) -> Any:
        """Returns what the function writes to its last argument."""
        value = kind()
        self.call(function, *arguments, ctypes.byref(value))
        return value.value


@functools.lru_cache(maxsize=None)
def _driver() -> _Driver:
    return _Driver()


# ---- devices: a handle for each context --------------------------------------------------------------------
class _Device:
    """A handle of the library, opened while its context is current."""

    def __init__(self, ordinal: int) -> None:
        self.lib, self.driver, self.handle = _library(), _driver(), ctypes.c_void_p()
        options = _Options(size=ctypes.sizeof(_Options), device=ordinal)
        status = self.lib.ptxpack_open(ctypes.byref(options), ctypes.byref(self.handle))
        if status:
            _raise(self.lib, status, self.lib.ptxpack_detail(None))
        self.context: int = self.lib.ptxpack_context(self.handle)
        self.ordinal = ordinal
        self.captured: list[Any] = []  # what graphs use, and nobody else keeps
        self.attention_plan = functools.lru_cache(maxsize=1024)(self._attention_plan)
        self.append_plan = functools.lru_cache(maxsize=1024)(self._append_plan)
        self.blocks_plan = functools.lru_cache(maxsize=1024)(self._blocks_plan)
        self.merge_plan = functools.lru_cache(maxsize=1024)(self._merge_plan)
        self.gemm_plan = functools.lru_cache(maxsize=1024)(self._gemm_plan)
        self.experts_route_plan = functools.lru_cache(maxsize=1024)(self._experts_route_plan)
        self.experts_combine_plan = functools.lru_cache(maxsize=1024)(self._experts_combine_plan)
        self.gather_plan = functools.lru_cache(maxsize=1024)(self._gather_plan)
        self.quantise_plan = functools.lru_cache(maxsize=1024)(self._quantise_plan)
        self.dequantise_plan = functools.lru_cache(maxsize=1024)(self._dequantise_plan)
        self.norm_plan = functools.lru_cache(maxsize=1024)(self._norm_plan)
        self.sampling_plan = functools.lru_cache(maxsize=1024)(self._sampling_plan)
        self.vector_plan = functools.lru_cache(maxsize=None)(self._vector_plan)

    def check(self, status: int) -> None:
        if status:
            _raise(self.lib, status, self.lib.ptxpack_detail(self.handle))

    @contextlib.contextmanager
    def entered(self) -> Iterator[Callable[..., None]]:
        """Makes the context current, and keeps this thread's calls out of a stream capture."""
        call, mode = self.driver.call, ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
        call("cuCtxPushCurrent_v2", ctypes.c_void_p(self.context))
        try:
            call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            try:
                yield call
            finally:
                call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def allocate(self, size: int) -> int:
        with self.entered():
            address: int = self.driver.get(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(size))
        return address

    def allocate_zeros(self, size: int) -> int:
        address = self.allocate(size)
        self.at_once("cuMemsetD8Async", ctypes.c_uint64(address), 0, ctypes.c_size_t(size))
        return address

    def at_once(self, function: str, *arguments: Any) -> None:
        """Has it done by a separate stream, and waits: others may be captured."""
        with self.entered() as call:
            stream = ctypes.c_void_p()
            call("cuStreamCreate", ctypes.byref(stream), 1)  # CU_STREAM_NON_BLOCKING
            call(function, *arguments, stream)
            call("cuStreamSynchronize", stream)
            call("cuStreamDestroy_v2", stream)

    def free(self, address: int) -> None:
        with contextlib.suppress(Error), self.entered() as call:  # an ending process has no driver
            call("cuMemFree_v2", ctypes.c_uint64(address))

    def capturing(self, stream: int) -> bool:
        state, is_capturing = ctypes.c_int(), self.driver.cuda.cuStreamIsCapturing
        refused = is_capturing(ctypes.c_void_p(stream), ctypes.byref(state))
        if refused:  # a driver may know the stream in its own context alone
            with contextlib.suppress(Error), self.entered():
                refused = is_capturing(ctypes.c_void_p(stream), ctypes.byref(state))
        return not refused and state.value != 0

    def _attention_plan(self, *problem: Any, append: Any = None, **more: Any) -> _Plan:
        desc = _whole_desc(*problem, **more)
        first = None if append is None else _append_desc(*append)
        desc.append = None if first is None else ctypes.addressof(first)
        plan = _Plan(self, "attention", ctypes.byref(desc))
        plan.workspace_bytes = self.lib.ptxpack_attention_workspace(plan.pointer)
        return plan

    def attention_launch(self, plan: _Plan, buffers: Any, stream: int, launched: Callable[[], Any]) -> Any:
        self.check(self.lib.ptxpack_attention_launch(plan.pointer, ctypes.byref(buffers), stream))
        return launched()

    def _blocks_plan(self, dtype: int, sizes: tuple[int, ...], mask: int, left: int, right: int, *, lists: tuple[int, ...],
                     chunk: int = 0, mask_mod: Optional[bytes] = None) -> _Plan:
        desc = _attention_desc(dtype, sizes, 0.0, mask, left, right, 0.0, ())
        desc.chunk, desc.mask_mod = chunk, mask_mod
        _set_lists(desc, lists)
        return _Plan(self, "attention_blocks", ctypes.byref(desc))

    def _append_plan(self, *problem: Any, kv_dtype: int = 0) -> _Plan:
        desc = _append_desc(*problem)
        desc.kv_dtype = kv_dtype
        return _Plan(self, "attention_append", ctypes.byref(desc))

    def _merge_plan(self, *problem: Any) -> _Plan:
        *fields, strides = problem
        desc = _MergeDesc(ctypes.sizeof(_MergeDesc), *fields, *(_Strides(*three) for three in strides))
        return _Plan(self, "attention_merge", ctypes.byref(desc))

    def _gemm_plan(self, *problem: Any, **more: float) -> _Plan:
        desc = _GemmDesc(ctypes.sizeof(_GemmDesc), *problem, **more)
        plan = _Plan(self, "gemm", ctypes.byref(desc))
        plan.workspace_bytes = self.lib.ptxpack_gemm_workspace(plan.pointer)
        return plan

    def _experts_route_plan(self, *problem: Any) -> _Plan:
        plan = _Plan(self, "experts_route", ctypes.byref(_RouteDesc(ctypes.sizeof(_RouteDesc), *problem)))
        plan.workspace_bytes = self.lib.ptxpack_experts_route_workspace(plan.pointer)
        return plan

    def _experts_combine_plan(self, *problem: Any) -> _Plan:
        return _Plan(self, "experts_combine", ctypes.byref(_CombineDesc(ctypes.sizeof(_CombineDesc), *problem)))

    def _gather_plan(self, *problem: Any) -> _Plan:
        return _Plan(self, "gather", ctypes.byref(_GatherDesc(ctypes.sizeof(_GatherDesc), *problem)))

    def _quantise_plan(self, *problem: Any) -> _Plan:
        return _Plan(self, "quantise", ctypes.byref(_QuantiseDesc(ctypes.sizeof(_QuantiseDesc), *problem)))

    def _dequantise_plan(self, *problem: Any) -> _Plan:
        return _Plan(self, "dequantise", ctypes.byref(_QuantiseDesc(ctypes.sizeof(_QuantiseDesc), *problem)))

    def _norm_plan(self, *problem: Any) -> _Plan:
        *fields, strides = problem
        desc = _NormDesc(ctypes.sizeof(_NormDesc), *fields, 0, *(_NormStrides(*two) for two in strides))
        return _Plan(self, "norm", ctypes.byref(desc))

    def _sampling_plan(self, *problem: Any) -> _Plan:
        return _Plan(self, "sampling", ctypes.byref(_SamplingDesc(ctypes.sizeof(_SamplingDesc), *problem)))

    def _vector_plan(self, dtype: int) -> _Plan:
        return _Plan(self, "vector", dtype)


def _attention_desc(dtype: int, sizes: tuple[int, ...], scale: float, mask: int, left: int, right: int,
                    softcap: float, strides: tuple[tuple[int, ...], ...], lengths: tuple[int, ...] = ()) -> Any:
    return _AttentionDesc(ctypes.sizeof(_AttentionDesc), dtype, *sizes, scale, mask, left, right, softcap,
                          *(_Strides(*three) for three in strides), *lengths)


def _whole_desc(*problem: Any, chunk: int = 0, head_dim_v: int = 0, kv_dtype: int = 0, score_mod: Optional[bytes] = None,
                mask_mod: Optional[bytes] = None, bias: Any = None, bits: Any = None, lists: tuple[int, ...] = ()) -> Any:
    """With everything but an append."""
    desc = _attention_desc(*problem)
    desc.chunk, desc.kv_dtype, desc.head_dim_v = chunk, kv_dtype, head_dim_v
    desc.score_mod, desc.mask_mod = score_mod, mask_mod
    if bias is not None:
        desc.bias_dtype, desc.bias = bias[0], _Strides(*bias[1])
    if bits is not None:
        desc.mask_keys, desc.mask_bits = bits[0], _Strides(*bits[1])
    _set_lists(desc, lists)
    return desc


def _set_lists(desc: Any, lists: tuple[int, ...]) -> None:
    """The fields from block_rows on."""
    for name, value in zip(("block_rows", "block_keys", "block_width", "reserved_block", "block_batch", "block_head"), lists):
        setattr(desc, name, value)


def _append_desc(*problem: Any) -> Any:
    *fields, strides = problem
    return _AppendDesc(ctypes.sizeof(_AppendDesc), *fields, *(_Strides(*three) for three in strides))


class _Plan:
    """A plan, and for each stream that it was launched on a workspace and arrays of int32.  `owner` is what it is made for, if
    that is not the device's handle."""
    __slots__ = ("device", "workspace_bytes", "workspaces", "integers", "pointer", "free", "__weakref__")

    def __init__(self, device: _Device, operation: str, description: Any, owner: Any = None) -> None:
        self.device, self.workspace_bytes = device, 0
        self.workspaces: dict[Any, int] = {}
        self.integers: dict[Any, int] = {}
        self.pointer, self.free = ctypes.c_void_p(), getattr(device.lib, "ptxpack_%s_plan_free" % operation)
        create = getattr(device.lib, "ptxpack_%s_plan_create" % operation)
        with device.entered():
            device.check(create(device.handle if owner is None else owner, description, ctypes.byref(self.pointer)))

    def workspace(self, stream: int) -> int:
        if not self.workspace_bytes:
            return 0
        key: Any = (stream, threading.get_ident()) if stream == PER_THREAD_STREAM else stream or LEGACY_STREAM
        return self._own(self.workspaces, key, self.workspace_bytes, stream)

    def array(self, name: str, count: int, stream: int) -> int:
        """An array of int32 for what this thread enqueues on the stream until it asks again."""
        return self._own(self.integers, (name, stream or LEGACY_STREAM, threading.get_ident()), 4 * count, stream)

    def constant(self, name: str, count: int, number: int, stream: int) -> int:
        """Such an array that holds the number."""
        address = self.array(name, count, stream)
        with self.device.entered() as call:
            call("cuMemsetD32Async", ctypes.c_uint64(address), ctypes.c_uint(number), ctypes.c_size_t(count),
                 ctypes.c_void_p(stream))
        return address

    def copied(self, name: str, data: bytes, stream: int) -> int:
        """Such an array with these bytes, which the caller keeps until the stream has read them.  That of a graph has them once, and
        its launches find it as the last one left it."""
        address = self.array(name, len(data) // 4, stream)
        copy = "cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data))
        if self.device.capturing(stream):
            self.device.at_once(*copy)
        else:
            with self.device.entered() as call:
                call(*copy, ctypes.c_void_p(stream))
        return address

    def _own(self, kept: dict[Any, int], key: Any, size: int, stream: int) -> int:
        if self.device.capturing(stream):  # a graph may run on any stream, at any time
            return self.device.allocate_zeros(size)
        if key not in kept:
            with _lock:
                if key not in kept:
                    kept[key] = self.device.allocate_zeros(size)
        return kept[key]

    def end(self) -> None:
        """Frees everything, also where something still refers to the plan."""
        if self.pointer:
            self.free(self.pointer)
        self.pointer = ctypes.c_void_p()
        for kept in (self.workspaces, self.integers):
            while kept:
                self.device.free(kept.popitem()[1])

    def __del__(self) -> None:
        self.end()


_devices: dict[Any, _Device] = {}  # by context and its number: an address may be reused


def _current(driver: _Driver) -> tuple[Optional[int], int]:
    """Returns the current context as a key; (None, 0) if there is none."""
    context, number = driver.get(ctypes.c_void_p, "cuCtxGetCurrent"), 0
    if context and hasattr(driver.cuda, "cuCtxGetId"):  # since CUDA 12
        number = driver.get_last(ctypes.c_uint64, "cuCtxGetId", ctypes.c_void_p(context))
    return context, number


def _device(ordinal: int) -> _Device:
    """The handle of the current context if it belongs to device `ordinal`, otherwise of the device's primary one."""
    driver = _driver()
    key = _current(driver)
    found = _devices.get(key)
    if found is not None and found.ordinal == ordinal:
        return found
    if key[0] and driver.get(ctypes.c_int, "cuCtxGetDevice") == ordinal:
        return _open(ordinal)
    driver.call("cuCtxPushCurrent_v2", ctypes.c_void_p(_primary(ordinal)))
    try:
        return _open(ordinal)
    finally:
        driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@functools.lru_cache(maxsize=None)
def _primary(ordinal: int) -> int:
    """Returns a device's primary context, which stays retained."""
    driver = _driver()
    try:
        number = driver.get(ctypes.c_int, "cuDeviceGet", ordinal)
    except Error:
        raise ArgumentError("there is no device %s" % ordinal) from None
    context: int = driver.get(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", number)
    return context


def _open(ordinal: int) -> _Device:
    """The device of the current context."""
    key = _current(_driver())
    with _lock:
        if key not in _devices:
            _devices[key] = _Device(ordinal)
        return _devices[key]
