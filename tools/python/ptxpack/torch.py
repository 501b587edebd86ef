"""ptxpack.torch - attention as an operator of PyTorch 2.4 or later, which torch.compile(fullgraph=True) and torch.export trace; and
attention of sequences that the ranks of a process group share.

    import ptxpack.torch
    o = ptxpack.torch.attention(q, k, v, causal=True)

The operator is torch.ops.ptxpack.attention.  It has an implementation for CUDA, one for tracing without data, and one for tensors on
the CPU, which copies them to the emulated driver and back and refuses any other driver (PTXPACK_DEVICE=emu).  It has no gradients.

    with ptxpack.torch.context_parallel() as cp:    # under torchrun, after init_process_group
        q, k, v = (cp.shard(x) for x in (q, k, v))  # this rank's rows
        o = cp.attention(q, k, v, seqlen=seqlen, causal=True)

help(ptxpack.torch.ContextParallel) states its calls."""
import ctypes
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed

from . import operations, parallel
from .device import _driver
from .library import ArgumentError, Error
from .lists import _arrays_of
from .tensor import empty

# ---- the operator ------------------------------------------------------------------------------------------
_KINDS = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "e4m3", torch.int8: "s8", torch.float32: "f32",
          torch.int32: "s32", torch.uint8: "u8"}
_DTYPES = {kind: dtype for dtype, kind in _KINDS.items()}

# The operator's arguments after q, k and v, as its schema has them.
_ARGUMENTS = (
    "bool causal=False", "int window_left=-1", "int window_right=-1", "float softcap=0.0", "float? scale=None",
    "str align='bottom-right'", "str layout='bshd'", "Tensor? q_descale=None", "Tensor? k_descale=None", "Tensor? v_descale=None",
    "Tensor? cu_seqlens_q=None", "Tensor? cu_seqlens_k=None", "SymInt? max_seqlen_q=None", "SymInt? max_seqlen_k=None",
    "Tensor? seqused_q=None", "Tensor? seqused_k=None", "Tensor? page_table=None", "Tensor? cache_batch_idx=None",
    "Tensor? leftpad_k=None", "Tensor? sinks=None", "Tensor? alibi_slopes=None", "int attention_chunk=0", "str? score_mod=None",
    "str? mask_mod=None", "Tensor[]? aux=None", "Tensor? bias=None", "Tensor? mask_bits=None", "int mask_keys=0",
    "Tensor[]? block_lists=None", "int[]? block_size=None", "bool normalized=True", "str? kv_dtype=None")
_SCHEMA = "(Tensor q, Tensor k, Tensor v, %s) -> (Tensor, Tensor)" % ", ".join(_ARGUMENTS)
_NAMES = [argument.split()[1].partition("=")[0] for argument in _ARGUMENTS]
_Pair = Tuple[torch.Tensor, torch.Tensor]


def _named(given: Tuple[Any, ...]) -> Dict[str, Any]:
    """The operator's arguments as those of ptxpack.attention."""
    options = dict(zip(_NAMES, given))
    options["window"] = options.pop("window_left", -1), options.pop("window_right", -1)
    options["aux"] = options.get("aux") or ()
    lists, size = options.pop("block_lists", None), options.pop("block_size", None)
    if lists is not None:
        options["block_mask"], options["block_size"] = (*lists, *(None,) * (4 - len(lists))), tuple(size)
    return options


def _results(q: torch.Tensor, v: torch.Tensor, options: Dict[str, Any]) -> _Pair:
    """Allocates o, with the strides of q unless v has other columns, and lse."""
    kind = torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype
    if v.shape[-1] == q.shape[-1] or options.get("kv_dtype") == "q8_0":  # v is bytes of blocks
        o = torch.empty_like(q, dtype=kind, requires_grad=False)
    else:
        o = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=kind)
    if options.get("cu_seqlens_q") is not None:
        return o, q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    batch, rows, heads = (q.shape[at] for at in operations._LAYOUTS[options.get("layout", "bshd")][:3])
    return o, q.new_empty((batch, heads, rows), dtype=torch.float32)


def _on_gpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *given: Any) -> _Pair:
    o, lse = operations.attention(q, k, v, return_lse=True, **_named(given))
    return o, lse


def _copied(name: str, tensor: torch.Tensor) -> Any:
    """Copies a tensor to the emulated device."""
    if tensor.dtype not in _KINDS:
        raise ArgumentError("%s is of type %s, and must be f16, bf16, e4m3 or int8" % (name, tensor.dtype))
    copy, dense = empty(tensor.shape, _KINDS[tensor.dtype]), tensor.detach().contiguous()
    copy._upload(ctypes.c_void_p(dense.data_ptr()))
    return copy


def _copies(arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Copies all tensors among arguments on the CPU."""
    if not _driver().emulated:
        raise TypeError("q is not in the memory of a CUDA device (it is on cpu), and the driver is not the emulated one")

    def there(name: str, value: Any) -> Any:
        if isinstance(value, (list, tuple)) and name in ("aux", "block_mask"):
            return tuple(there(name, item) for item in value)
        return _copied(name, value) if isinstance(value, torch.Tensor) else value
    return {name: there(name, value) for name, value in arguments.items()}


def _fetched(tensor: Any) -> torch.Tensor:
    """Copies a result back."""
    dense = torch.empty(tensor.shape, dtype=_DTYPES[tensor.dtype])
    tensor._download(ctypes.c_void_p(dense.data_ptr()))
    return dense


def _on_cpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *given: Any) -> _Pair:
    options = _named(given)
    there = _copies({"q": q, "k": k, "v": v, **options})
    computed = operations.attention(return_lse=True, **there)
    results = _results(q, v, options)
    for result, tensor in zip(results, computed):
        result.copy_(_fetched(tensor))
    return results


def _without_data(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *given: Any) -> _Pair:
    return _results(q, v, _named(given))


_operator = torch.library.custom_op("ptxpack::attention", _on_gpu, mutates_args=(), device_types="cuda", schema=_SCHEMA)
_operator.register_kernel("cpu", _on_cpu)
_operator.register_fake(_without_data)


def _no_gradients(arguments: Dict[str, Any]) -> None:
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled():
            raise ArgumentError("%s requires a gradient, and there is none: use torch.no_grad()" % name)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, window: Any = None,
              softcap: float = 0.0, scale: Optional[float] = None, align: str = "bottom-right", layout: str = "bshd",
              return_lse: bool = False, block_mask: Any = None, block_size: Any = 128, **arrays: Any) -> Any:
    """Does what ptxpack.attention does, as an operator that torch.compile traces; it works on the current stream.

    Of the further arguments of ptxpack.attention it takes q_descale, k_descale, v_descale, cu_seqlens_q, cu_seqlens_k,
    max_seqlen_q, max_seqlen_k, seqused_q, seqused_k, page_table, cache_batch_idx, leftpad_k, sinks, alibi_slopes, attention_chunk,
    score_mod, mask_mod, aux, bias, mask_bits, mask_keys, normalized and kv_dtype; of these max_seqlen_q, max_seqlen_k, attention_chunk
    and mask_keys are numbers, normalized is a bool, kv_dtype and the hooks are texts, aux is a list
    of tensors, and all others are tensors.  block_mask may be a BlockMask of torch.nn.attention.flex_attention.
    """
    for name in arrays:
        if name not in _NAMES or name == "block_lists":
            raise TypeError("attention() got an unexpected keyword argument %r" % name)
    if arrays.get("mask_keys") == "queries":
        arrays["mask_keys"] = -1
    left, right = window if isinstance(window, (tuple, list)) else (window, window)
    for name, tensor, packed in (("q", q, "cu_seqlens_q"), ("k", k, "cu_seqlens_k"), ("v", v, "cu_seqlens_k")):
        dimensions = 4 if arrays.get(packed) is None else 3
        if tensor.dim() != dimensions:
            raise ArgumentError("%s has %d dimensions, and must have %d" % (name, tensor.dim(), dimensions))
    _no_gradients({"q": q, "k": k, "v": v, **arrays})
    if layout not in operations._LAYOUTS:
        raise ArgumentError("layout is %r, and may be 'bshd' or 'bhsd'" % (layout,))
    if block_mask is not None:
        masked = causal or (left, right) not in ((None, None), (-1, -1)) or arrays.get("mask_mod") is not None
        lists, arrays["block_size"] = _arrays_of(block_mask, block_size, masked)
        arrays["block_lists"] = [tensor for tensor in lists if tensor is not None]
    o, lse = torch.ops.ptxpack.attention(
        q, k, v, causal=causal, window_left=-1 if left is None else left, window_right=-1 if right is None else right,
        softcap=softcap, scale=scale, align=align, layout=layout, **arrays)
    return (o, lse) if return_lse else o


# ---- several GPUs ------------------------------------------------------------------------------------------
class ContextParallel:
    """This process as a rank of a process group whose GPUs share sequences; context_parallel() makes it.  All ranks make the same
    calls in the same order.  A rank that makes another one, or none, fails or dies is named by an Error of the others within the
    timeout; then nothing more can be done with this.  Tensors may be on the CPU with the emulated driver (PTXPACK_DEVICE=emu).

    rank, ranks    this one's number, and how many there are
    shard(x)       this rank's rows of a whole tensor; unshard(x, seqlen=...) is the whole of all ranks' rows
    attention()    of sequences whose rows are divided
    decode()       of the same queries to keys that are divided
    wait()         waits for what was launched on the current stream
    close()        the end, also that of a `with`: waits, and frees what the group has"""

    def __init__(self, group: Any, timeout: float) -> None:
        distributed: Any = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            raise ArgumentError("torch.distributed has no process group: call torch.distributed.init_process_group first")
        self._processes = distributed.group.WORLD if group is None else group
        self.rank: int = distributed.get_rank(self._processes)
        self.ranks: int = distributed.get_world_size(self._processes)
        if self.rank < 0:
            raise ArgumentError("group: this process is not one of it")
        made: List[Any] = [None, None]  # the id, or why there is none
        if self.rank == 0:
            try:
                made[0] = parallel.unique_id()
            except Error as error:
                made[1] = error.status, str(error)
        distributed.broadcast_object_list(made, src=distributed.get_global_rank(self._processes, 0), group=self._processes)
        if made[1] is not None:
            raise Error(made[1][0], "rank 0: %s" % made[1][1])
        device = 0 if _driver().emulated else torch.cuda.current_device()
        self._group = parallel.Group(made[0], self.ranks, self.rank, timeout, device)

    def __enter__(self) -> "ContextParallel":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.close()
        except Error:
            if kind is None:  # otherwise that error is what the caller wants to know
                raise

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, seqlen: Optional[int] = None, causal: bool = False,
                  window: Any = None, softcap: float = 0.0, scale: Optional[float] = None, sinks: Optional[torch.Tensor] = None,
                  cu_seqlens: Any = None, max_seqlen: Optional[int] = None, shards: str = "zigzag", way: Optional[str] = None,
                  return_lse: bool = False) -> Any:
        """Attention to whole sequences of the rank's rows of them, on the current stream, without waiting.

        q, k, v     f16 or bf16 [batch, rows, heads, dim], the rank's rows of sequences of `seqlen` rows, as shard() gives them.  The
                    result is o of the same rows.  Tensors that are not contiguous are copied
        cu_seqlens  where sequences begin among packed rows, from 0 to their end: a list, or a tensor on the CPU, the same on all
                    ranks.  q, k and v are [rows, heads, dim], shards of all rows; seqlen may be missing.  A window goes to the left
                    alone.  max_seqlen is the most rows of a sequence; None: it is found
        shards      "zigzag": the rank has chunk r of 2 ranks, then chunk 2 ranks - 1 - r, so that with a causal mask all have the
                    same work; "contiguous": chunk r of `ranks`
        way         "gather": the rank takes all keys that it needs, then attends; "steps": it attends while they arrive; "heads": it
                    attends with its share of the heads to whole sequences, and k has a multiple of `ranks` heads; "arrive": causal,
                    on Hopper, one launch that waits for keys as it comes to them (by NCCL, when all are there); None: what is
                    thought to be fastest
        return_lse  a second result: a tuple with the log-sum-exps of each chunk of the rank, one or two, f32 [batch, heads, rows of
                    the chunk], of packed rows [heads, rows of the chunk]
        causal, window, softcap, scale and sinks are those of ptxpack.attention.  The first call of a shape waits for all ranks."""
        results = self._computed(
            self._group.attention, {"q": q, "k": k, "v": v, "sinks": sinks}, seqlen=seqlen, causal=causal, window=window,
            softcap=softcap, scale=scale, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen, shards=shards, way=way,
            return_lse=return_lse)
        if not return_lse:
            return results
        o, logs = results
        rows = int(seqlen or 0) if cu_seqlens is None else int(cu_seqlens[-1])
        counts = [count for _, count in parallel.chunks_of(rows, shards, self.ranks, self.rank)]
        batches = () if cu_seqlens is not None else q.shape[:1]
        parts = logs.split([count * q.shape[-2] * (batches[0] if batches else 1) for count in counts])
        return o, tuple(part.view(*batches, q.shape[-2], count) for part, count in zip(parts, counts))

    def decode(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> Any:
        """Attention of the same queries on all ranks to the keys of all ranks, on the current stream, without waiting.

        q         [batch, rows, heads, dim], the same on all ranks, as is the result: there is no mask
        k, v      the rank's own keys and values, or its cache of them, as large on all ranks
        The options are those of ptxpack.attention: seqused_k (how many keys the rank has of each sequence, 0 for none), page_table,
        cache_batch_idx, leftpad_k, softcap, scale, sinks, layout, q_descale, k_descale, v_descale, kv_dtype, score_mod, mask_mod, aux
        and return_lse (lse is that of all keys, too).  Strides and the number of pages may change on all ranks at once alone."""
        for name in ("out", "lse", "stream", "dtype"):
            if name in options:
                raise TypeError("decode() got an unexpected keyword argument %r" % name)
        tensors = {name: value for name, value in options.items() if isinstance(value, torch.Tensor) or name == "aux"}
        return self._computed(self._group.decode, {"q": q, "k": k, "v": v, **tensors},
                              **{name: value for name, value in options.items() if name not in tensors})

    def _computed(self, compute: Callable[..., Any], tensors: Dict[str, Any], **options: Any) -> Any:
        """On the current stream; of tensors on the CPU by the emulated driver, which is waited for."""
        _no_gradients(tensors)
        if tensors["q"].is_cuda:
            if "seqlen" in options:
                tensors = {name: value if value is None else value.contiguous() for name, value in tensors.items()}
            return compute(**tensors, **options)
        results = compute(**_copies(tensors), **options)
        self._group.wait()
        return tuple(map(_fetched, results)) if isinstance(results, tuple) else _fetched(results)

    def shard(self, x: torch.Tensor, dim: int = 1, shards: str = "zigzag") -> torch.Tensor:
        """The rank's rows of a whole tensor, whose rows are in dimension `dim`: a copy."""
        return torch.cat([x.narrow(dim, *chunk) for chunk in parallel.chunks_of(x.shape[dim], shards, self.ranks, self.rank)], dim)

    def unshard(self, x: torch.Tensor, *, seqlen: int, dim: int = 1, shards: str = "zigzag") -> torch.Tensor:
        """The whole of the ranks' rows, on all ranks, by torch.distributed.all_gather."""
        chunks = [parallel.chunks_of(seqlen, shards, self.ranks, rank) for rank in range(self.ranks)]
        rows = [sum(count for _, count in own) for own in chunks]
        if x.shape[dim] != rows[self.rank]:
            raise ArgumentError("x has %d rows in dimension %d, and the %s shard of rank %d of %d has %d of %d rows" % (
                x.shape[dim], dim, shards, self.rank, self.ranks, rows[self.rank], seqlen))
        if self._processes is None:
            raise ArgumentError("the group is closed")
        first = x.movedim(dim, 0)
        own = first.new_zeros(max(rows), *first.shape[1:])  # all ranks give as much
        own[:rows[self.rank]] = first
        parts = [torch.empty_like(own) for _ in range(self.ranks)]
        torch.distributed.all_gather(parts, own, group=self._processes)
        placed = [(start, piece) for part, own_chunks in zip(parts, chunks) for (start, _), piece in zip(
            own_chunks, part.split([*(count for _, count in own_chunks), max(rows) - sum(count for _, count in own_chunks)]))]
        return torch.cat([piece for _, piece in sorted(placed, key=lambda at: at[0])]).movedim(0, dim).contiguous()

    def wait(self) -> None:
        """Waits on the host for the work on the current stream; raises an Error where another rank failed."""
        self._group.wait(0 if _driver().emulated else torch.cuda.current_stream(self._group.device.ordinal).cuda_stream)

    def close(self) -> None:
        """Waits for what was launched and frees the group; raises an Error of another rank that no call has raised yet."""
        self._processes = None  # destroy_process_group ends its threads, if nobody has it any more
        self._group.close()


def context_parallel(group: Any = None, timeout: float = 60.0) -> ContextParallel:
    """Makes this process a rank of a group of processes that share sequences: a call of all processes of `group`, a ProcessGroup
    of torch.distributed of any backend, None: the default one.  It uses the current CUDA device and a communicator of NCCL of its
    own.  `timeout`, in seconds, is how long a call waits for other ranks."""
    return ContextParallel(group, timeout)
