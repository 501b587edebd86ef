"""parallel.py - GPUs that share a sequence (parallel.h), without torch.  Group: one rank of several processes.

    unique = unique_id()                  # on one rank; the program gives it to the others
    group = Group(unique, ranks, rank)    # on all ranks, which wait for each other
    o = group.attention(q, k, v, seqlen=seqlen, causal=True)    # of the rank's shards

ptxpack.torch.context_parallel makes one of a process group of torch.distributed.  DeviceGroup: all ranks, GPUs of this process.

    group = DeviceGroup([0, 1])
    o = group.attention([q0, q1], [k0, k1], [v0, v1], seqlen=seqlen, causal=True)    # a list with the result of each rank"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import operator
from typing import Any, Callable, Iterator, NoReturn, Optional, Sequence

from .library import (ALIBI, ArgumentError, Error, LEGACY_STREAM, PACKED, SINKS, Unsupported, _DecodeBuffers, _ParallelBuffers,
                      _ParallelDesc, _library, _raise)
from .device import _attention_desc, _Device, _device, _Plan, _whole_desc
from .arrays import _View, _is_compact
from .lengths import _in_batch
from .operations import _Call, _TYPES, _chunk_of, _let_go, _mask_of, _one_type, _scale_of, _singles, attention
from .frameworks import _stream_handle

_ID_BYTES = 128  # PTXPACK_PARALLEL_ID_BYTES
_SHARDS = {"contiguous": 0, "zigzag": 1}  # ptxpack_shards
_WAYS = {None: 0, "gather": 1, "steps": 2, "heads": 3, "arrive": 4}  # ptxpack_parallel_way
_PLANS_MOST = 1024
_DECODES = frozenset((
    "softcap", "scale", "layout", "dtype", "out", "lse", "return_lse", "q_descale", "k_descale", "v_descale", "stream", "seqused_k",
    "page_table", "cache_batch_idx", "leftpad_k", "sinks", "score_mod", "mask_mod", "aux", "kv_dtype"))  # of attention()


def unique_id() -> bytes:
    """NCCL's id of a new group."""
    lib, unique = _library(), ctypes.create_string_buffer(_ID_BYTES)
    status = lib.ptxpack_parallel_id(unique)
    if status:
        _raise(lib, status, lib.ptxpack_detail(None))
    return unique.raw


def chunks_of(rows: int, shards: str, ranks: int, rank: int) -> list[tuple[int, int]]:
    """The chunks of a rank in a sequence of so many rows: the first row of each, and how many."""
    kind, chunks = _choice("shards", shards, _SHARDS), []
    for chunk in range(1 + kind):
        first, count = ctypes.c_int32(), ctypes.c_int32()
        _library().ptxpack_attention_parallel_chunk(kind, ranks, rank, rows, chunk, ctypes.byref(first), ctypes.byref(count))
        chunks.append((first.value, count.value))
    return chunks


def _choice(name: str, value: Any, choices: dict[Any, int]) -> int:
    if value not in choices:
        raise ArgumentError("%s is %r, and may be %s" % (name, value, ", ".join(map(repr, choices))))
    return choices[value]


def _count(name: str, value: Any) -> int:
    """A number of rows."""
    number = operator.index(value) if hasattr(value, "__index__") else -1
    if not 0 <= number < 2**31:
        raise ArgumentError("%s is %r, and must be a number from 0 on, below 2^31" % (name, value))
    return number


def _starts_of(array: Any) -> Optional[tuple[int, ...]]:
    """Where packed sequences begin; None without them."""
    if array is None:
        return None
    if hasattr(array, "__cuda_array_interface__"):
        raise ArgumentError("cu_seqlens is on a device, and must be in host memory, where the plan reads it")
    starts = tuple(_count("cu_seqlens[%d]" % i, start) for i, start in enumerate(
        array.tolist() if hasattr(array, "tolist") else array))
    if len(starts) < 2:
        raise ArgumentError("cu_seqlens has %d number(s), and must have 2 or more" % len(starts))
    return starts


class _Common(_Plan):
    """A plan that all ranks make together; the group has its workspace."""
    __slots__ = ("group", "parts")

    def __init__(self, group: _Ranks, operation: str, description: Any) -> None:
        self.group = group
        self.parts: list[_Part] = []
        super().__init__(group.device, operation, description, group.pointer)

    def workspace(self, stream: int) -> int:
        return self.group._spaces[0].of(self, self.workspace_bytes, stream)

    def end(self) -> None:
        for part in self.parts:
            part.end()
        super().end()


class _Part(_Plan):
    """Such a plan as one of several ranks of this process uses it, with memory of that rank's device."""
    __slots__ = ("whole", "space")

    def __init__(self, whole: _Common, space: _Spaces, workspace_bytes: int) -> None:
        self.whole, self.space, self.device, self.workspace_bytes = whole, space, space.device, workspace_bytes
        self.workspaces, self.integers, self.pointer = {}, {}, ctypes.c_void_p()

    def workspace(self, stream: int) -> int:
        return self.space.of(self.whole, self.workspace_bytes, stream)


class _Spaces:
    """The workspaces of a rank: for each stream one for all plans, as large as the largest, because it has gathered keys.  It is
    zero at the first launch of a plan, and after another one's.  A graph that is being captured gets one of its own."""

    def __init__(self, device: _Device, wait: Callable[[int], None]) -> None:
        self.device, self.wait = device, wait
        self.kept: dict[int, tuple[int, int, Optional[_Common]]] = {}  # by stream: address, bytes, the plan that used it last

    def of(self, plan: _Common, needed: int, stream: int) -> int:
        if not needed:
            return 0
        if self.device.capturing(stream):  # the graph may run at any time, and leaves it as its next launch wants it
            return self.device.allocate_zeros(needed)
        key = stream or LEGACY_STREAM
        address, size, last = self.kept.get(key, (0, 0, None))
        if size < needed:
            if address:
                self.wait(stream)
                self.device.free(self.kept.pop(key)[0])
            address, size, last = self.device.allocate(needed), needed, None
        if last is not plan:
            with self.device.entered() as call:
                call("cuMemsetD8Async", ctypes.c_uint64(address), 0, ctypes.c_size_t(needed), ctypes.c_void_p(stream))
            self.kept[key] = address, size, plan
        return address

    def free(self) -> None:
        while self.kept:
            self.device.free(self.kept.popitem()[1][0])


class _Ranks:
    """What groups have in common: the plans that are made for all ranks."""
    device: _Device  # whose handle has the lines of errors
    ranks: int
    _spaces: list[_Spaces]  # of the ranks of this process

    def __init__(self) -> None:
        self.pointer, self._told = ctypes.c_void_p(), False
        # Everything that decides whether a plan is there is the same on all ranks: making one may be a call of all.
        self._plans: collections.OrderedDict[Any, _Common] = collections.OrderedDict()
        self._captured: set[_Common] = set()  # graphs use them to the end of the process

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        if not self.pointer:
            raise ArgumentError("the group is closed")
        try:
            yield
        except Error as error:
            self._told = self._told or error.status == "PTXPACK_E_PEER"
            raise

    def _plan(self, key: Any, make: Callable[[], _Common]) -> _Common:
        plan = self._plans.pop(key, None) or make()
        self._plans[key] = plan  # the last one is that used last
        if len(self._plans) > _PLANS_MOST:
            oldest = self._plans.popitem(last=False)[1]
            if oldest not in self._captured:
                oldest.end()
        return plan

    def _free(self) -> None:
        """Frees plans, workspaces and the group; but not the plans of graphs, nor then the group."""
        for plan in self._plans.values():
            if plan not in self._captured:
                plan.end()
        self._plans.clear()
        for space in self._spaces:
            space.free()
        if not self._captured:
            self.device.lib.ptxpack_parallel_free(self.pointer)
        self.pointer = ctypes.c_void_p()

    def _attention_plan(self, dtype: int, sizes: tuple[int, ...], scale: float, mask: int, left: int, right: int, softcap: float,
                        rows: int, starts: Optional[tuple[int, ...]], dim_v: int, options: int, chunk: int, shards: int,
                        way: int) -> _Common:
        desc = _attention_desc(dtype, sizes, scale, mask, left, right, softcap, ())
        desc.head_dim_v, desc.options, desc.chunk, words = dim_v, options, chunk, None
        if starts is not None:
            desc.q_rows = desc.kv_rows = PACKED
            desc.rows_q = desc.rows_kv = rows
            words = (ctypes.c_int32 * len(starts))(*starts)
        whole = _ParallelDesc(ctypes.sizeof(_ParallelDesc), shards, ctypes.addressof(desc), way,
                              None if words is None else ctypes.addressof(words))
        plan = _Common(self, "attention_parallel", ctypes.byref(whole))
        plan.workspace_bytes = self.device.lib.ptxpack_attention_parallel_workspace(plan.pointer, 0)
        return plan

    def _decode_plan(self, problem: Any, more: Any) -> _Common:
        plan = _Common(self, "parallel_decode", ctypes.byref(_whole_desc(*problem, **more)))
        plan.workspace_bytes = self.device.lib.ptxpack_parallel_decode_workspace(plan.pointer)
        return plan

    def _misfit(self, views: Sequence[_View], rows: int, shards: str, rank: int) -> Optional[ArgumentError]:
        """What is wrong with the shards of a rank, if anything is."""
        q, k, v = views
        own = sum(count for _, count in chunks_of(rows, shards, self.ranks, rank))
        if k.shape[:3] != v.shape[:3]:
            return ArgumentError("%s is %s and %s is %s: they must have the same shape, the last dimension aside" % (
                k.name, k.shape, v.name, v.shape))
        if (*q.shape[:2], q.shape[3]) != (*k.shape[:2], k.shape[3]):
            return ArgumentError("%s is %s and %s is %s: batch, rows and last dimension must agree" % (q.name, q.shape, k.name, k.shape))
        if q.shape[1] != own:
            return ArgumentError("%s has %d rows, and the %s shard of rank %d of %d has %d of %d rows" % (
                q.name, q.shape[1], shards, rank, self.ranks, own, rows))
        return next((ArgumentError("%s must be contiguous" % view.name) for view in views if not _is_compact(view)), None)


def _attention_key(views: Sequence[_View], starts: Optional[tuple[int, ...]], rows: int, max_seqlen: Optional[int], sinks: Any,
                   slopes: Any, chunk: int, dtype: Optional[str], scale: Optional[float], causal: bool, window: Any, softcap: float,
                   shards: str, way: Optional[str]) -> Any:
    """The arguments of _attention_plan."""
    kind, (batch, _, heads, dim), heads_kv, dim_v = _one_type(views, dtype), views[0].shape, *views[2].shape[2:]
    sizes = batch, rows, rows, heads, heads_kv, dim
    if starts is not None:
        longest = max(b - a for a, b in zip(starts, starts[1:])) if max_seqlen is None else _count("max_seqlen", max_seqlen)
        sizes = len(starts) - 1, longest, longest, heads, heads_kv, dim
    mask = _mask_of(causal, window, "bottom-right")
    return (_TYPES[kind], sizes, _scale_of(scale), *mask, float(softcap), rows, starts, dim_v,
            (SINKS if sinks is not None else 0) | (ALIBI if slopes is not None else 0), _chunk_of(chunk, mask[0]).get("chunk", 0),
            _choice("shards", shards, _SHARDS), _choice("way", way, _WAYS))


class Group(_Ranks):
    """One rank of a group.  All ranks call attention() and decode() in the same order, with the same shapes and options; what
    another rank does wrong, or that one is missing, is an Error with a line that names it, within `timeout` seconds.  After
    that the group is of no more use.  close() it before the process ends."""

    def __init__(self, unique: bytes, ranks: int, rank: int, timeout: float = 60.0, device: int = 0) -> None:
        if len(unique) != _ID_BYTES:
            raise ArgumentError("unique has %d bytes, and must be the %d of unique_id()" % (len(unique), _ID_BYTES))
        if not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ArgumentError("timeout is %r, and must be a number of seconds above 0" % (timeout,))
        super().__init__()
        self.device, self.ranks, self.rank = _device(device), ranks, rank
        self._spaces = [_Spaces(self.device, self.wait)]
        self._streams: set[int] = set()
        milliseconds = max(int(1000 * min(timeout, 2e6)), 1)
        with self.device.entered():
            self.device.check(self.device.lib.ptxpack_parallel_join(
                self.device.handle, unique, ranks, rank, milliseconds, ctypes.byref(self.pointer)))

    def of(self, call: _Call) -> Group:
        """This one, before a launch, if the call's arrays are on its device and its stream is not captured: parallel.h has graphs of
        groups of devices alone."""
        if call.device is not self.device:
            raise ArgumentError("%s is on device %d or in a context of it, and the group's device is %d" % (
                call.first.name, call.device.ordinal, self.device.ordinal))
        if self.device.capturing(call.stream):
            raise Unsupported("PTXPACK_E_UNSUPPORTED", "what the ranks of a group do together cannot be captured in a graph where NCCL "
                              "connects them; that of a parallel.DeviceGroup can")
        _let_go()  # after the launch this would wait for other ranks: to free memory waits for what is enqueued
        return self

    # ---- attention ----
    def attention(self, q: Any, k: Any, v: Any, *, seqlen: Optional[int] = None, causal: bool = False, window: Any = None,
                  softcap: float = 0.0, scale: Optional[float] = None, sinks: Any = None, alibi_slopes: Any = None,
                  attention_chunk: int = 0, cu_seqlens: Any = None, max_seqlen: Optional[int] = None, shards: str = "zigzag",
                  way: Optional[str] = None, return_lse: bool = False, dtype: Optional[str] = None, stream: Any = None) -> Any:
        """Attention to the whole sequence, of the rank's rows of it.

        q, k, v     [batch, rows, heads, dim], the rank's shards of sequences of `seqlen` rows, contiguous; f16 or bf16
        cu_seqlens  where sequences begin in packed rows, from 0 to seqlen: a list or array in host memory, the same on all ranks.
                    q, k and v are shards [rows, heads, dim] of all rows.  max_seqlen is the most rows of a sequence; None: it is
                    found.  A window goes to the left alone
        shards      "zigzag": the rank has chunk r of 2 ranks, then chunk 2 ranks - 1 - r; "contiguous": chunk r of `ranks`
        way         "gather": the rank takes all keys, then attends; "steps": it attends while they arrive; "heads": it attends with its
                    share of the heads to whole sequences, and k has a multiple of `ranks` heads; "arrive": causal, on Hopper, all of
                    its rows in one launch that waits for keys as it comes to them; None: what is thought to be
                    fastest
        return_lse  a second result, f32: for each chunk of the rank, one after another, [batch, heads_q, rows of the chunk]
        The others are those of ptxpack.attention.  With alibi_slopes or attention_chunk the way is "gather" or "heads".  Nothing waits
        on the host but for the first call of a shape."""
        with self._in_use():
            call, starts = _Call("q", q, stream), _starts_of(cu_seqlens)
            views = [_in_batch(view, starts is not None, "cu_seqlens") for view in (
                call.first, call.view("k", k), call.view("v", v))]
            rows = _rows_of(seqlen, starts)
            batch, own, heads, _ = views[0].shape
            key = _attention_key(views, starts, rows, max_seqlen, sinks, alibi_slopes, attention_chunk, dtype, scale, causal, window,
                                 softcap, shards, way)
            self.of(call)
            refused = self._misfit(views, rows, shards, self.rank)
            if refused is None:
                plan = self._plan(key, lambda: self._attention_plan(*key))
            else:
                self._refuse(key, refused)
            sinks_at, slopes_at = (_singles(call, name, array, (heads,)) for name, array in (
                ("sinks", sinks), ("alibi_slopes", alibi_slopes)))
            made, o = call.output("out", None, views[0].kind, (*call.first.shape[:-1], views[2].shape[3]))
            logs, logs_view = call.output("lse", None, "f32", (batch * heads * own,)) if return_lse else (None, None)
            buffers = _ParallelBuffers(
                ctypes.sizeof(_ParallelBuffers), 0, *(view.address for view in views), o.address,
                0 if logs_view is None else logs_view.address, plan.workspace(call.stream), sinks_at, slopes_at,
                call.stream)
            self._streams.add(call.stream)
            self.device.check(self.device.lib.ptxpack_attention_parallel_launch(plan.pointer, ctypes.byref(buffers)))
            results = call.results((made, False), *(((logs, False),) if return_lse else ()))
            return results if return_lse else results[0]

    def _refuse(self, key: Any, refused: ArgumentError) -> NoReturn:
        """Raises it.  The other ranks are told that this one makes no plan, if they wait for that."""
        if key not in self._plans:
            with contextlib.suppress(Error):
                _Common(self, "attention_parallel", None)
        raise refused

    # ---- decoding ----
    def decode(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        """Attention of the same queries on all ranks to the keys of all, of which each rank has its own in k and v; no mask.

        The arguments are those of ptxpack.attention: softcap, scale, layout, dtype, out, lse, return_lse, q_descale, k_descale,
        v_descale, stream, seqused_k, page_table, cache_batch_idx, leftpad_k, sinks (which count once), score_mod, mask_mod (whose
        positions are those of the rank's own keys), aux and kv_dtype.  k and v, or the page table, are as large on all ranks: how
        many keys a rank has of a sequence, perhaps none, says seqused_k."""
        for name in options:
            if name not in _DECODES:
                raise TypeError("decode() got an unexpected keyword argument %r" % name)
        with self._in_use():
            return attention(q, k, v, _group=self, **options)

    def attention_plan(self, *problem: Any, **more: Any) -> _Common:
        """What attention() asks a device for, too."""
        return self._plan((problem, tuple(sorted(more.items()))), lambda: self._decode_plan(problem, more))

    def attention_launch(self, plan: _Common, buffers: Any, stream: int, launched: Callable[[], Any]) -> Any:
        whole = _DecodeBuffers(ctypes.sizeof(_DecodeBuffers), 0, ctypes.addressof(buffers), buffers.workspace, stream)
        self._streams.add(stream)
        self.device.check(self.device.lib.ptxpack_parallel_decode(plan.pointer, ctypes.byref(whole)))
        return launched()

    # ---- the end ----
    def wait(self, stream: int = 0) -> None:
        """Waits on the host until the work on the stream is done, and raises an Error where another rank failed."""
        with self._in_use():
            self.device.check(self.device.lib.ptxpack_parallel_wait(self.pointer, (ctypes.c_void_p * 1)(stream)))

    def close(self) -> None:
        """Waits for what was launched, and frees the group; it raises the Error of another rank that nobody was told of yet."""
        if not self.pointer:
            return
        try:
            for stream in () if self._told else self._streams:
                self.wait(stream)
        finally:
            self._free()


# ---- the devices of this process ---------------------------------------------------------------------------
_OF_RANKS = frozenset(("out", "lse", "q_descale", "k_descale", "v_descale", "seqused_k", "page_table", "cache_batch_idx", "leftpad_k",
                       "sinks", "aux"))  # options of decode() that are arrays


class Turn:
    """A rank of a DeviceGroup while decode() goes through them: attention() says what it would launch, and all ranks launch at once."""

    def __init__(self, group: DeviceGroup, rank: int) -> None:
        self.group, self.rank = group, rank
        self.problem: Any = None
        self.buffers: Any = None
        self.stream = 0
        self.launched: Callable[[], Any]

    def of(self, call: _Call) -> Turn:
        self.group._must_be_of(call, self.rank)
        return self

    def attention_plan(self, *problem: Any, **more: Any) -> _Plan:
        self.problem = problem, tuple(sorted(more.items()))
        return self.group._part_of(self.problem, self.rank, lambda: self.group._decode_plan(problem, more))

    def attention_launch(self, plan: _Part, buffers: Any, stream: int, launched: Callable[[], Any]) -> None:
        self.buffers, self.stream, self.launched = buffers, stream, launched


class DeviceGroup(_Ranks):
    """All ranks of a group of GPUs of this process: rank r is device devices[r], by its ordinal.  Calls take a list with an array for
    each rank, and return one.  One thread at a time uses it.  close() it before the process ends.

    Calls may be captured in a CUDA graph, which then has all devices: begin the capture in the stream of one rank, let those of the
    others wait for an event of it, call with `streams`, and let it wait for an event of each other at the end.  What the graph needs
    of the group, also a workspace of its own, stays to the end of the process, even if the group is closed.  The arrays are the
    caller's, also the results: the graph writes to them each time."""

    def __init__(self, devices: Sequence[int]) -> None:
        super().__init__()
        self.devices = [_device(ordinal) for ordinal in devices]
        if not self.devices:
            raise ArgumentError("devices is empty, and must have an ordinal for each rank")
        self.device, self.ranks = self.devices[0], len(self.devices)
        self._spaces = [_Spaces(device, functools.partial(_synchronise, device)) for device in self.devices]
        self._streams: set[tuple[int, ...]] = set()
        handles = (ctypes.c_void_p * self.ranks)(*(device.handle for device in self.devices))
        self.device.check(self.device.lib.ptxpack_parallel_devices(handles, self.ranks, ctypes.byref(self.pointer)))

    # ---- what all calls do ----
    def _each(self, name: str, arrays: Any) -> list[Any]:
        """As many as there are ranks."""
        if not isinstance(arrays, (list, tuple)) or len(arrays) != self.ranks:
            raise ArgumentError("%s must be a list of %d, one for each rank" % (name, self.ranks))
        return list(arrays)

    def _must_be_of(self, call: _Call, rank: int) -> None:
        device = self.devices[rank]
        if call.device is not device:
            raise ArgumentError("%s of rank %d is on device %d or in a context of it, and the rank's device is %d" % (
                call.first.name, rank, call.device.ordinal, device.ordinal))

    def _part_of(self, key: Any, rank: int, make: Callable[[], _Common]) -> _Part:
        plan = self._plan(key, make)
        if not plan.parts:
            plan.parts = [_Part(plan, space, plan.workspace_bytes) for space in self._spaces]
        return plan.parts[rank]

    def _launch(self, plan: _Common, streams: list[int], launch: Callable[[], int]) -> None:
        """If a graph is being captured, the plan is kept for it."""
        captured = [device.capturing(stream) for device, stream in zip(self.devices, streams)]
        if any(captured) and not all(captured):
            raise ArgumentError("the stream of rank %d is captured and that of rank %d is not: let it wait for an event of the captured one "
                                "first" % (captured.index(True), captured.index(False)))
        if not any(captured):
            self._streams.add(tuple(streams))
        elif plan not in self._captured:
            self._captured.add(plan)
            self.device.captured.append(plan)
        self.device.check(launch())

    # ---- attention ----
    def attention(self, q: Sequence[Any], k: Sequence[Any], v: Sequence[Any], *, seqlen: Optional[int] = None, causal: bool = False,
                  window: Any = None, softcap: float = 0.0, scale: Optional[float] = None, sinks: Optional[Sequence[Any]] = None,
                  alibi_slopes: Optional[Sequence[Any]] = None, attention_chunk: int = 0, cu_seqlens: Any = None,
                  max_seqlen: Optional[int] = None, shards: str = "zigzag", way: Optional[str] = None, return_lse: bool = False,
                  dtype: Optional[str] = None, streams: Optional[Sequence[Any]] = None) -> list[Any]:
        """Attention to the whole sequence: a list of the ranks' rows of the result, or with return_lse of (result, lse).

        q, k, v, sinks, alibi_slopes, streams   lists, with what Group.attention takes of each rank; streams None: as those of ptxpack.attention
        The others are those of Group.attention.  Nothing waits on the host but for the first call of a shape."""
        with self._in_use():
            starts = _starts_of(cu_seqlens)
            rows = _rows_of(seqlen, starts)
            ranks = range(self.ranks)
            q, k, v = (self._each(name, arrays) for name, arrays in (("q", q), ("k", k), ("v", v)))
            those = [None] * self.ranks if streams is None else self._each("streams", streams)
            of_heads = {name: [None] * self.ranks if arrays is None else self._each(name, arrays)
                        for name, arrays in (("sinks", sinks), ("alibi_slopes", alibi_slopes))}
            calls = [_Call("q[%d]" % r, q[r], those[r]) for r in ranks]
            views = [[_in_batch(view, starts is not None, "cu_seqlens") for view in (
                calls[r].first, calls[r].view("k[%d]" % r, k[r]), calls[r].view("v[%d]" % r, v[r]))] for r in ranks]
            keys = [_attention_key(views[r], starts, rows, max_seqlen, sinks, alibi_slopes, attention_chunk, dtype, scale, causal, window,
                                   softcap, shards, way) for r in ranks]
            for r in ranks:
                self._must_be_of(calls[r], r)
                self._must_agree(views, keys, r)
                refused = self._misfit(views[r], rows, shards, r)
                if refused is not None:
                    raise refused
            parts = [self._part_of(keys[0], r, lambda: self._attention_plan(*keys[0])) for r in ranks]
            plan = parts[0].whole
            for r in ranks:
                parts[r].workspace_bytes = self.device.lib.ptxpack_attention_parallel_workspace(plan.pointer, r)
            batch, _, heads, _ = views[0][0].shape
            made, all_buffers = [], (_ParallelBuffers * self.ranks)()
            for r, call in enumerate(calls):
                o, o_view = call.output("out", None, views[r][0].kind, (*call.first.shape[:-1], views[r][2].shape[3]))
                logs, logs_view = call.output("lse", None, "f32", (batch * heads * views[r][0].shape[1],)) if return_lse else (None, None)
                all_buffers[r] = _ParallelBuffers(
                    ctypes.sizeof(_ParallelBuffers), 0, *(view.address for view in views[r]), o_view.address,
                    0 if logs_view is None else logs_view.address, parts[r].workspace(call.stream),
                    *(_singles(call, "%s[%d]" % (name, r), arrays[r], (heads,)) for name, arrays in of_heads.items()), call.stream)
                made.append(((o, False), (logs, False)) if return_lse else ((o, False),))
            self._launch(plan, [call.stream for call in calls],
                         lambda: int(self.device.lib.ptxpack_attention_parallel_launch(plan.pointer, all_buffers)))
            results = [call.results(*of_rank) for call, of_rank in zip(calls, made)]
            return results if return_lse else [o for o, in results]

    def _must_agree(self, views: list[list[_View]], keys: list[Any], rank: int) -> None:
        """The shards of a rank, but for their rows, are as those of rank 0."""
        for mine, first in zip(views[rank], views[0]):
            if (mine.shape[0], *mine.shape[2:]) != (first.shape[0], *first.shape[2:]):
                raise ArgumentError("%s is %s and %s is %s: all but the rows must agree" % (first.name, first.shape, mine.name, mine.shape))
        if keys[rank] != keys[0]:
            raise ArgumentError("%s is %s and %s is %s: they must be of one type" % (
                views[0][0].name, views[0][0].kind, views[rank][0].name, views[rank][0].kind))

    # ---- decoding ----
    def decode(self, q: Sequence[Any], k: Sequence[Any], v: Sequence[Any], *, streams: Optional[Sequence[Any]] = None,
               **options: Any) -> list[Any]:
        """Attention of the same queries on all ranks to the keys of all: a list of the results, each that of all keys.

        The arguments are those of Group.decode.  q, k, v and streams are lists, and so are options that are arrays: out, lse, descales,
        seqused_k, page_table, cache_batch_idx, leftpad_k, sinks and aux, with those of each rank.  A number is one for all."""
        for name in options:
            if name not in _DECODES or name == "stream":
                raise TypeError("decode() got an unexpected keyword argument %r" % name)
        with self._in_use():
            lists = {name: self._each(name, value) for name, value in (("q", q), ("k", k), ("v", v), *options.items())
                     if name in ("q", "k", "v") or name in _OF_RANKS and value is not None and not hasattr(value, "__index__")}
            if streams is not None:
                lists["stream"] = self._each("streams", streams)
            turns = [Turn(self, r) for r in range(self.ranks)]
            for r, turn in enumerate(turns):
                attention(_group=turn, **{**options, **{name: arrays[r] for name, arrays in lists.items()}})
                if turn.problem != turns[0].problem:
                    raise ArgumentError("the arrays of rank %d have other shapes, strides or types than those of rank 0" % r)
            plan = self._plans[turns[0].problem]
            buffers = (_DecodeBuffers * self.ranks)(*(
                _DecodeBuffers(ctypes.sizeof(_DecodeBuffers), 0, ctypes.addressof(turn.buffers), turn.buffers.workspace, turn.stream)
                for turn in turns))
            self._launch(plan, [turn.stream for turn in turns],
                         lambda: int(self.device.lib.ptxpack_parallel_decode(plan.pointer, buffers)))
            return [turn.launched() for turn in turns]

    # ---- the end ----
    def wait(self, streams: Optional[Sequence[Any]] = None) -> None:
        """Waits on the host until the work on a stream of each rank is done; None: on the default streams."""
        with self._in_use():
            handles = [0] * self.ranks if streams is None else [_stream_handle(stream) for stream in self._each("streams", streams)]
            self.device.check(self.device.lib.ptxpack_parallel_wait(self.pointer, (ctypes.c_void_p * self.ranks)(*handles)))

    def close(self) -> None:
        """Waits for what was launched, and frees what no graph uses."""
        if not self.pointer:
            return
        try:
            for streams in self._streams:
                self.wait(streams)
        finally:
            self._free()


def _synchronise(device: _Device, stream: int) -> None:
    with device.entered() as call:
        call("cuStreamSynchronize", ctypes.c_void_p(stream))


def _rows_of(seqlen: Optional[int], starts: Optional[tuple[int, ...]]) -> int:
    """The rows of the whole sequence, or of all packed ones."""
    if seqlen is None and starts is None:
        raise ArgumentError("seqlen is missing: how many rows the whole sequence has")
    rows = starts[-1] if starts is not None and seqlen is None else _count("seqlen", seqlen)
    if starts is not None and rows != starts[-1]:
        raise ArgumentError("seqlen is %d, and cu_seqlens ends at %d" % (rows, starts[-1]))
    return rows
