"""parallel.py - Group: one rank of several processes whose GPUs share a sequence (parallel.h), without torch.

    unique = unique_id()                  # on one rank; the program gives it to the others
    group = Group(unique, ranks, rank)    # on all ranks, which wait for each other
    o = group.attention(q, k, v, seqlen=seqlen, causal=True)    # of the rank's shards

ptxpack.torch.context_parallel makes one of a process group of torch.distributed."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import operator
from typing import Any, Callable, Iterator, NoReturn, Optional, Sequence

from .library import (ArgumentError, Error, LEGACY_STREAM, PACKED, SINKS, Unsupported, _DecodeBuffers, _ParallelBuffers,
                      _ParallelDesc, _library, _raise)
from .device import _attention_desc, _device, _Plan, _whole_desc
from .arrays import _View, _is_compact
from .lengths import _in_batch
from .operations import _Call, _TYPES, _let_go, _mask_of, _one_type, _scale_of, _singles, attention

_ID_BYTES = 128  # PTXPACK_PARALLEL_ID_BYTES
_SHARDS = {"contiguous": 0, "zigzag": 1}  # ptxpack_shards
_WAYS = {None: 0, "gather": 1, "steps": 2, "heads": 3}  # ptxpack_parallel_way
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
    __slots__ = ("group",)

    def __init__(self, group: Group, operation: str, description: Any) -> None:
        self.group = group
        super().__init__(group.device, operation, description, group.pointer)

    def workspace(self, stream: int) -> int:
        return self.group._workspace(self, stream)


class Group:
    """One rank of a group.  All ranks call attention() and decode() in the same order, with the same shapes and options; what
    another rank does wrong, or that one is missing, is an Error with a line that names it, within `timeout` seconds.  After
    that the group is of no more use.  close() it before the process ends."""

    def __init__(self, unique: bytes, ranks: int, rank: int, timeout: float = 60.0, device: int = 0) -> None:
        if len(unique) != _ID_BYTES:
            raise ArgumentError("unique has %d bytes, and must be the %d of unique_id()" % (len(unique), _ID_BYTES))
        if not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ArgumentError("timeout is %r, and must be a number of seconds above 0" % (timeout,))
        self.device, self.pointer = _device(device), ctypes.c_void_p()
        self.ranks, self.rank, self._told = ranks, rank, False
        # Everything that decides whether a plan is there is the same on all ranks: making one is a call of all.
        self._plans: collections.OrderedDict[Any, _Common] = collections.OrderedDict()
        self._spaces: dict[int, tuple[int, int, Optional[_Common]]] = {}  # by stream: address, bytes, the plan that used it last
        self._streams: set[int] = set()
        milliseconds = max(int(1000 * min(timeout, 2e6)), 1)
        with self.device.entered():
            self.device.check(self.device.lib.ptxpack_parallel_join(
                self.device.handle, unique, ranks, rank, milliseconds, ctypes.byref(self.pointer)))

    # ---- plans and their memory ----
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
            self._plans.popitem(last=False)[1].end()
        return plan

    def _workspace(self, plan: _Common, stream: int) -> int:
        """One for all plans that a stream uses, as large as the largest: it has gathered keys.  It is zero at the first launch of
        a plan, and after another one's."""
        needed, key = plan.workspace_bytes, stream or LEGACY_STREAM
        if not needed:
            return 0
        address, size, last = self._spaces.get(key, (0, 0, None))
        if size < needed:
            if address:
                self.wait(stream)
                self.device.free(self._spaces.pop(key)[0])
            address, size, last = self.device.allocate(needed), needed, None
        if last is not plan:
            with self.device.entered() as call:
                call("cuMemsetD8Async", ctypes.c_uint64(address), 0, ctypes.c_size_t(needed), ctypes.c_void_p(stream))
            self._spaces[key] = address, size, plan
        return address

    def of(self, call: _Call) -> Group:
        """This one, before a launch, if the call's arrays are on its device and its stream is not captured: no workspace would be
        the graph's own."""
        if call.device is not self.device:
            raise ArgumentError("%s is on device %d or in a context of it, and the group's device is %d" % (
                call.first.name, call.device.ordinal, self.device.ordinal))
        if self.device.capturing(call.stream):
            raise Unsupported("PTXPACK_E_UNSUPPORTED", "what the ranks of a group do together cannot be captured in a graph")
        _let_go()  # after the launch this would wait for other ranks: to free memory waits for what is enqueued
        return self

    # ---- attention ----
    def attention(self, q: Any, k: Any, v: Any, *, seqlen: Optional[int] = None, causal: bool = False, window: Any = None,
                  softcap: float = 0.0, scale: Optional[float] = None, sinks: Any = None, cu_seqlens: Any = None,
                  max_seqlen: Optional[int] = None, shards: str = "zigzag", way: Optional[str] = None, return_lse: bool = False,
                  dtype: Optional[str] = None, stream: Any = None) -> Any:
        """Attention to the whole sequence, of the rank's rows of it.

        q, k, v     [batch, rows, heads, dim], the rank's shards of sequences of `seqlen` rows, contiguous; f16 or bf16
        cu_seqlens  where sequences begin in packed rows, from 0 to seqlen: a list or array in host memory, the same on all ranks.
                    q, k and v are shards [rows, heads, dim] of all rows.  max_seqlen is the most rows of a sequence; None: it is
                    found.  A window goes to the left alone
        shards      "zigzag": the rank has chunk r of 2 ranks, then chunk 2 ranks - 1 - r; "contiguous": chunk r of `ranks`
        way         "gather": the rank takes all keys, then attends; "steps": it attends while they arrive; "heads": it attends with its
                    share of the heads to whole sequences, and k has a multiple of `ranks` heads; None: the faster one
        return_lse  a second result, f32: for each chunk of the rank, one after another, [batch, heads_q, rows of the chunk]
        The others are those of ptxpack.attention.  Nothing waits on the host but for the first call of a shape."""
        with self._in_use():
            call, starts = _Call("q", q, stream), _starts_of(cu_seqlens)
            views = [_in_batch(view, starts is not None, "cu_seqlens") for view in (
                call.first, call.view("k", k), call.view("v", v))]
            rows = _rows_of(seqlen, starts)
            kind, (batch, own, heads, dim), heads_kv, dim_v = _one_type(views, dtype), views[0].shape, *views[2].shape[2:]
            sizes = batch, rows, rows, heads, heads_kv, dim
            if starts is not None:
                longest = max(b - a for a, b in zip(starts, starts[1:])) if max_seqlen is None else _count("max_seqlen", max_seqlen)
                sizes = len(starts) - 1, longest, longest, heads, heads_kv, dim
            key = (_TYPES[kind], sizes, _scale_of(scale), *_mask_of(causal, window, "bottom-right"), float(softcap), rows, starts,
                   dim_v, SINKS if sinks is not None else 0, _choice("shards", shards, _SHARDS), _choice("way", way, _WAYS))
            self.of(call)
            refused = self._misfit(views, rows, shards)
            if refused is None:
                plan = self._plan(key, lambda: self._attention_plan(*key))
            else:
                self._refuse(key, refused)
            sinks_at = _singles(call, "sinks", sinks, (heads,))
            made, o = call.output("out", None, views[0].kind, (*call.first.shape[:-1], dim_v))
            logs, logs_view = call.output("lse", None, "f32", (batch * heads * own,)) if return_lse else (None, None)
            buffers = _ParallelBuffers(
                ctypes.sizeof(_ParallelBuffers), 0, *(view.address for view in views), o.address,
                0 if logs_view is None else logs_view.address, plan.workspace(call.stream), sinks_at, call.stream)
            self._streams.add(call.stream)
            self.device.check(self.device.lib.ptxpack_attention_parallel_launch(plan.pointer, ctypes.byref(buffers)))
            results = call.results((made, False), *(((logs, False),) if return_lse else ()))
            return results if return_lse else results[0]

    def _attention_plan(self, dtype: int, sizes: tuple[int, ...], scale: float, mask: int, left: int, right: int, softcap: float,
                        rows: int, starts: Optional[tuple[int, ...]], dim_v: int, options: int, shards: int, way: int) -> _Common:
        desc = _attention_desc(dtype, sizes, scale, mask, left, right, softcap, ())
        desc.head_dim_v, desc.options, words = dim_v, options, None
        if starts is not None:
            desc.q_rows = desc.kv_rows = PACKED
            desc.rows_q = desc.rows_kv = rows
            words = (ctypes.c_int32 * len(starts))(*starts)
        whole = _ParallelDesc(ctypes.sizeof(_ParallelDesc), shards, ctypes.addressof(desc), way,
                              None if words is None else ctypes.addressof(words))
        plan = _Common(self, "attention_parallel", ctypes.byref(whole))
        plan.workspace_bytes = self.device.lib.ptxpack_attention_parallel_workspace(plan.pointer, 0)
        return plan

    def _misfit(self, views: Sequence[_View], rows: int, shards: str) -> Optional[ArgumentError]:
        """What is wrong with the rank's shards, if anything is."""
        q, k, v = views
        own = sum(count for _, count in chunks_of(rows, shards, self.ranks, self.rank))
        if k.shape[:3] != v.shape[:3]:
            return ArgumentError("k is %s and v is %s: they must have the same shape, the last dimension aside" % (
                k.shape, v.shape))
        if (*q.shape[:2], q.shape[3]) != (*k.shape[:2], k.shape[3]):
            return ArgumentError("q is %s and k is %s: batch, rows and last dimension must agree" % (q.shape, k.shape))
        if q.shape[1] != own:
            return ArgumentError("q has %d rows, and the %s shard of rank %d of %d has %d of %d rows" % (
                q.shape[1], shards, self.rank, self.ranks, own, rows))
        return next((ArgumentError("%s must be contiguous" % view.name) for view in views if not _is_compact(view)), None)

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
        def make() -> _Common:
            plan = _Common(self, "parallel_decode", ctypes.byref(_whole_desc(*problem, **more)))
            plan.workspace_bytes = self.device.lib.ptxpack_parallel_decode_workspace(plan.pointer)
            return plan
        return self._plan((problem, tuple(sorted(more.items()))), make)

    def attention_launch(self, plan: _Common, buffers: Any, stream: int) -> None:
        whole = _DecodeBuffers(ctypes.sizeof(_DecodeBuffers), 0, ctypes.addressof(buffers), buffers.workspace, stream)
        self._streams.add(stream)
        self.device.check(self.device.lib.ptxpack_parallel_decode(plan.pointer, ctypes.byref(whole)))

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
            for plan in self._plans.values():
                plan.end()
            self._plans.clear()
            while self._spaces:
                self.device.free(self._spaces.popitem()[1][0])
            self.device.lib.ptxpack_parallel_free(self.pointer)
            self.pointer = ctypes.c_void_p()


def _rows_of(seqlen: Optional[int], starts: Optional[tuple[int, ...]]) -> int:
    """The rows of the whole sequence, or of all packed ones."""
    if seqlen is None and starts is None:
        raise ArgumentError("seqlen is missing: how many rows the whole sequence has")
    rows = starts[-1] if starts is not None and seqlen is None else _count("seqlen", seqlen)
    if starts is not None and rows != starts[-1]:
        raise ArgumentError("seqlen is %d, and cu_seqlens ends at %d" % (rows, starts[-1]))
    return rows
