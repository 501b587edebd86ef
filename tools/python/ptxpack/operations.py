"""operations.py - what every call has, and the calls attention, vector_add and info."""
from __future__ import annotations

import collections
import ctypes
import math
import operator
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from .library import (ALIBI, ArgumentError, BF16, BIAS, DESCALES_HEAD, DESCALES_TENSOR, E4M3, F16, INT8, LAUNCH_CONSTANT_KV, LAUNCH_OVERLAP, MASK_BITS, Q8_0, SINKS, UNNORMALIZED,
                      Unsupported, VALUES_IN_KEYS, _AttentionBuffers, _lock)
from .device import _device
from .arrays import _Event, _ITEM_BYTES, _View, _dense, _is_compact
from .lengths import _Lengths
from .lists import _Lists
from .tensor import Tensor
from .frameworks import _library_for, _stream_handle

if TYPE_CHECKING:
    from .append import _Append
    from .parallel import Group, Turn


# ---- one call ----------------------------------------------------------------------------------------------
_held: collections.deque[tuple[_Event, Any]] = collections.deque()  # (event, what must live until it happened)
_HELD_MOST = 64


def _hold(event: _Event, things: Any) -> None:
    """Keep what a stream still reads; and let go of what it has read."""
    _held.append((event, things))
    _let_go()


def _let_go() -> None:
    with _lock:
        while _held and (len(_held) > _HELD_MOST or _held[0][0].happened()):
            _held[0][0].wait()
            _held.popleft()


class _Call:
    """The arrays of one call, its device and stream; `first` decides who makes results."""

    def __init__(self, name: str, first: Any, stream: Any) -> None:
        self.library, self.like = _library_for(first), first
        self.stream = self.library.stream(first) if stream is None else _stream_handle(stream)
        self.views: list[_View] = []
        self.must_hold, self.kept = False, list[Any]()
        self.first = self.view(name, first)
        self.device = _device(self.first.device)

    def view(self, name: str, array: Any) -> _View:
        library = _library_for(array)
        view = library.view(name, array, self.stream)
        self.must_hold |= library is not self.library or not library.orders_frees
        if self.views and view.device != self.views[0].device:
            raise ArgumentError("%s is on device %d, %s on device %d" % (
                name, view.device, self.views[0].name, self.views[0].device))
        self.views.append(view)
        return view

    def keep(self, thing: Any) -> None:
        """Memory of the host that the stream reads."""
        self.must_hold = True
        self.kept.append(thing)

    def output(self, name: str, given: Any, kind: str,
               shape: Optional[tuple[int, ...]] = None) -> tuple[Any, _View]:
        """An array to write to and its view: the caller's, or a new one; without a shape as the first one."""
        if given is None:
            made = self.library.empty(self.like, self.first, self.device, shape, kind, self.stream)
            return made, _library_for(made).view(name, made, self.stream)
        view = self.view(name, given)
        if not view.writable:
            raise ArgumentError("%s may not be written to" % name)
        shape = shape or self.first.shape
        if view.shape != shape or kind not in (view.kind,) + _RAW.get(view.kind, ()):
            raise ArgumentError("%s is %s %s, and must be %s %s" % (name, view.kind, view.shape, kind, shape))
        return given, view

    def finish(self) -> Optional[_Event]:
        """After the launch: its end, where somebody has to wait for that."""
        if not self.must_hold or self.device.capturing(self.stream):
            return None
        done = _Event(self.device, self.stream)
        _hold(done, [view.keep for view in self.views] + self.kept)
        return done

    def results(self, *made: tuple[Any, bool]) -> tuple[Any, ...]:
        """Of (array, whether the caller gave it): after the launch."""
        done = self.finish()
        for array, given in made:
            if done is not None and given and isinstance(array, Tensor):
                array._used(self.stream, done)
        return tuple(array if given else self.library.result(array, done) for array, given in made)


_TYPES = {"f16": F16, "bf16": BF16, "e4m3": E4M3}
_RAW: dict[str, tuple[str, ...]] = {"u8": ("e4m3",), "u16": ("bf16", "f16")}  # what arrays of such integers may stand for


def _type_of(view: _View, dtype: Optional[str]) -> str:
    """ptxpack's type of an array; uint8 and uint16 are what the caller says."""
    if dtype is not None and dtype not in _TYPES:
        raise ArgumentError("dtype is %r, and may be %s" % (dtype, ", ".join(map(repr, _TYPES))))
    kind = dtype if dtype in _RAW.get(view.kind, ()) else view.kind
    if kind not in _TYPES:
        hint = "; dtype= must say what it stands for" if kind in _RAW and dtype is None else ""
        raise ArgumentError("%s is of type %s, and must be f16, bf16 or e4m3%s" % (view.name, kind, hint))
    if dtype is not None and kind != dtype:
        raise ArgumentError("%s is of type %s, dtype says %s" % (view.name, kind, dtype))
    return kind


def _one_type(views: Sequence[_View], dtype: Optional[str]) -> str:
    """The type that all of them are of."""
    kinds = [_type_of(view, dtype) for view in views]
    if len(set(kinds)) > 1:
        names = ", ".join(view.name for view in views)
        raise ArgumentError("%s are %s: they must be of one type" % (names, ", ".join(kinds)))
    return kinds[0]


_BYTES = {"e4m3": E4M3, "int8": INT8, "q8_0": Q8_0}  # types of k and v with q of 16 bits
_BLOCK, _BLOCK_BYTES = 32, 34  # PTXPACK_Q8_0_ELEMENTS, PTXPACK_Q8_0_BYTES


def _of_blocks(view: _View, kv_dtype: Optional[str]) -> _View:
    """With kv_dtype "q8_0" the elements of k or v, whose last dimension is bytes of whole blocks."""
    if kv_dtype != "q8_0":
        return view
    steps = [stride for stride, extent in zip(view.strides[:-1], view.shape) if extent != 1]
    if view.kind != "u8" or view.shape[-1] % _BLOCK_BYTES or view.strides[-1] != 1 or any(step % _BLOCK_BYTES for step in steps):
        raise ArgumentError("%s is %s %s, and with kv_dtype 'q8_0' must be u8 with rows of contiguous blocks of %d bytes" % (
            view.name, view.kind, view.shape, _BLOCK_BYTES))
    shape = (*view.shape[:-1], view.shape[-1] // _BLOCK_BYTES * _BLOCK)
    strides = (*(stride // _BLOCK_BYTES * _BLOCK for stride in view.strides[:-1]), 1)
    return _View(view.name, view.address, shape, strides, "q8_0", view.device, view.writable, view.keep)


def _bytes_of(q: _View, k: _View, v: _View, kv_dtype: Optional[str]) -> Optional[str]:
    """The type of k and v if these are of bytes and q is of 16 bits; uint8 is what the caller says."""
    if kv_dtype is not None and kv_dtype not in _BYTES:
        raise ArgumentError("kv_dtype is %r, and may be %s" % (kv_dtype, ", ".join(map(repr, _BYTES))))
    if q.kind in ("e4m3", "u8") or not {k.kind, v.kind} & {"e4m3", "s8", "u8", "q8_0"}:
        if kv_dtype is not None:
            raise ArgumentError("kv_dtype is %r, but q, k and v are %s, %s and %s" % (kv_dtype, q.kind, k.kind, v.kind))
        return None
    kinds = {{"s8": "int8", "u8": kv_dtype}.get(view.kind, view.kind) for view in (k, v)}
    kind = kinds.pop()
    if kinds or kind not in _BYTES or kv_dtype not in (None, kind):
        raise ArgumentError("k and v are of types %s and %s, and must both be e4m3 or int8%s" % (
            k.kind, v.kind, "; kv_dtype= must say what u8 stands for" if kv_dtype is None else ", as kv_dtype says"))
    return kind


def _descale(call: _Call, name: str, array: Any, batch: int, heads: int) -> tuple[int, Optional[int]]:
    """The address of the descales of k or v of bytes, and how many they are as an option; neither without them."""
    if array is None:
        return 0, None
    view = call.view(name, array)
    extents, steps = ((1, 1) + view.shape)[-2:], ((0, 0) + view.strides)[-2:]
    steps = tuple(0 if extent == 1 else step for extent, step in zip(extents, steps))
    if view.kind == "f32" and view.shape in ((batch, heads), (heads,), (1,), ()):
        if steps == (0, 0) and (view.shape in ((1,), ()) or (batch, heads) != (1, 1)):
            return view.address, DESCALES_TENSOR
        if steps[0] == 0 and steps[1] in (0, 1):
            return view.address, DESCALES_HEAD
        if steps == (heads, 1 if heads > 1 else 0):
            return view.address, 0
    raise ArgumentError("%s must be f32 %s, contiguous or one of them repeated, %s or (1,)" % (name, (batch, heads), (heads,)))


def _descales_of(call: _Call, k: Any, v: Any, batch: int, heads: int) -> tuple[list[int], int]:
    """The addresses of the descales, and the option that both have."""
    (k_at, k_kind), (v_at, v_kind) = (_descale(call, name, array, batch, heads) for name, array in (
        ("k_descale", k), ("v_descale", v)))
    if k_kind != v_kind and None not in (k_kind, v_kind):
        raise ArgumentError("k_descale and v_descale must be as many")
    return [0, k_at, v_at], (v_kind if k_kind is None else k_kind) or 0


# ---- attention ---------------------------------------------------------------------------------------------
_NONE, _CAUSAL = 0, {"top-left": 1, "bottom-right": 2}  # ptxpack_mask
_WINDOW = {"top-left": 3, "bottom-right": 4}
_LAYOUTS = {"bshd": (0, 1, 2, 3), "bhsd": (0, 2, 1, 3)}  # where batch, row, head and dim are


def _sides_of(window: Any) -> tuple[int, int]:
    """The keys before and after a query's own that it sees; -1: all."""
    try:
        left, right = (window, window) if window is None or hasattr(window, "__index__") else window
        left, right = (-1 if side is None or side < 0 else min(operator.index(side), 2**31 - 1)
                       for side in (left, right))
    except (TypeError, ValueError):
        raise ArgumentError("window is %r, and may be None, a number or (left, right)" % (window,)) from None
    return left, right


def _mask_of(causal: bool, window: Any, align: str) -> tuple[int, int, int]:
    """ptxpack_mask, window_left and window_right."""
    if align not in _CAUSAL:
        raise ArgumentError("align is %r, and may be 'bottom-right' or 'top-left'" % (align,))
    left, right = _sides_of(window)
    if causal:
        right = 0
    if left < 0 and right <= 0:
        return (_NONE, 0, 0) if right < 0 else (_CAUSAL[align], 0, 0)
    return _WINDOW[align], left, right


def _scale_of(scale: Optional[float]) -> float:
    """As a descriptor has it: 0 is 1/sqrt(head_dim)."""
    if scale is not None and not scale > 0:
        raise ArgumentError("scale is %r, and must be above 0" % (scale,))
    return float(scale or 0)


def _chunk_of(chunk: Any, mask: int) -> dict[str, int]:
    """The chunk of a descriptor, if there is one."""
    try:
        keys = operator.index(chunk or 0)
    except TypeError:
        keys = -1
    if not 0 <= keys < 2**31:
        raise ArgumentError("attention_chunk is %r, and must be a number from 0 on, below 2^31" % (chunk,))
    if keys > 0 and mask != _CAUSAL["bottom-right"]:
        raise Unsupported("PTXPACK_E_UNSUPPORTED", "attention_chunk needs causal=True and align='bottom-right', without a window")
    return {"chunk": keys} if keys > 0 else {}


def _strides_of(view: _View, order: Sequence[int]) -> tuple[int, ...]:
    """Of batch, row and head, as ptxpack_strides wants them; a stride of an extent of 1 is any."""
    strides = [view.strides[at] for at in order]
    extents = [view.shape[at] for at in order]
    if strides[3] != 1:
        raise ArgumentError("%s: its last dimension has a stride of %d, and must be contiguous" % (
            view.name, strides[3]))
    three = tuple(stride if extent != 1 else extents[3] for stride, extent in zip(strides[:3], extents[:3]))
    if not any(three):
        raise ArgumentError("%s is one row repeated along every dimension" % view.name)
    return three


def _sizes_of(q: _View, k: _View, v: _View, order: Sequence[int], lengths: _Lengths) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """batch, seqlen_q, seqlen_kv, heads_q, heads_kv, head_dim of three shapes that fit each other, and how rows are stored."""
    batch, rows, heads, dim = (q.shape[at] for at in order)
    batch_k, keys, heads_k, dim_k = (k.shape[at] for at in order)
    if k.shape[:3] != v.shape[:3]:
        raise ArgumentError("k is %s and v is %s: they must have the same shape, the last dimension aside" % (k.shape, v.shape))
    if dim != dim_k or not lengths and batch != batch_k:
        raise ArgumentError("q is %s and k is %s: %slast dimension must agree" % (
            q.shape, k.shape, "" if lengths else "batch and "))
    fields = lengths.fields((batch, rows), (batch_k, keys))
    batch, (rows, keys) = lengths.batch(batch, batch_k), lengths.most(rows, keys)
    sizes = batch, rows, keys, heads, heads_k, dim
    if max(sizes + fields) >= 2**31:
        raise ArgumentError("an extent of %d is too large" % max(sizes + fields))
    return sizes, fields


def _values_of(k: _View, v: _View, kind: str, appends: bool) -> tuple[int, int]:
    """head_dim_v, 0 where it is that of k, and the option for a v that is the first columns of k."""
    if k.shape == v.shape:
        return 0, 0
    in_keys = (v.address, v.strides) == (k.address, k.strides) and v.shape[3] < k.shape[3] and kind != "e4m3" and not appends
    return v.shape[3], VALUES_IN_KEYS if in_keys else 0


def _singles(call: _Call, name: str, array: Any, shape: tuple[int, ...]) -> int:
    """The address of an f32 array of this shape; 0 without one."""
    if array is None:
        return 0
    view = call.view(name, array)
    if view.kind != "f32" or view.shape != shape or not _is_compact(view):
        raise ArgumentError("%s must be contiguous f32 %s" % (name, shape))
    return view.address


def _hooks_of(**texts: Optional[str]) -> dict[str, bytes]:
    """The hooks of a descriptor, if there are any."""
    for name, text in texts.items():
        if text is not None and (not isinstance(text, str) or "\0" in text):
            raise ArgumentError("%s must be a text, with a macro %s" % (name, name.upper()))
    return {name: text.encode() for name, text in texts.items() if text is not None}


def _addresses_of_hooks(call: _Call, aux: Sequence[Any], *texts: Optional[str]) -> Any:
    """The addresses of the arrays that hooks read."""
    if len(aux) > 8 or aux and not any(texts):
        raise ArgumentError("aux has %d arrays, and may have up to 8 with score_mod or mask_mod" % len(aux))
    views = [call.view("aux[%d]" % i, array) for i, array in enumerate(aux)]
    for view in views:
        if not _is_compact(view):
            raise ArgumentError("%s must be contiguous" % view.name)
    return (ctypes.c_uint64 * 8)(*(view.address for view in views))


_BIASES = {"f32": 0, "f16": F16, "bf16": BF16, "u16": BF16}  # u16: the bits of bf16


def _spread(call: _Call, name: str, array: Any, kinds: Any, sizes: tuple[int, ...]) -> tuple[_View, int, tuple[int, ...]]:
    """An array [batch, heads_q, seqlen_q, n], whose first dimensions may be missing or 1: its view, n, and the strides of
    batch, row and head, where 0 repeats it."""
    view = call.view(name, array)
    if view.kind not in kinds:
        raise ArgumentError("%s is of type %s, and must be %s" % (name, view.kind, " or ".join(kinds)))
    extents = sizes[0], sizes[3], sizes[1]
    if not 1 <= len(view.shape) <= 4 or view.shape[-1] != 1 and view.strides[-1] != 1:
        raise ArgumentError("%s must have 1 to 4 dimensions, the last one contiguous" % name)
    missing = 4 - len(view.shape)
    shape, strides = (1,) * missing + view.shape, (0,) * missing + view.strides
    if any(have not in (1, want) for have, want in zip(shape, extents)):
        raise ArgumentError("%s is %s, and must be %s, each but the last may be 1" % (name, view.shape, extents + (shape[-1],)))
    batch, head, row = (0 if extent == 1 else stride for extent, stride in zip(shape[:3], strides))
    return view, shape[-1], (batch, row, head)


def _bias_of(call: _Call, bias: Any, sizes: tuple[int, ...]) -> tuple[int, dict[str, Any]]:
    """The address of a bias, and what a descriptor states of it; 0 without one."""
    if bias is None:
        return 0, {}
    view, keys, strides = _spread(call, "bias", bias, _BIASES, sizes)
    if keys != sizes[2] or view.address % 16:
        raise ArgumentError("bias is %s at address %#x: its last dimension must be the %d keys, its address a multiple of 16" % (
            view.shape, view.address, sizes[2]))
    return view.address, {"bias": (_BIASES[view.kind], strides)}


def _bits_of(call: _Call, bits: Any, keys: Any, sizes: tuple[int, ...]) -> tuple[int, dict[str, Any]]:
    """The same of bits."""
    if bits is None:
        if keys:
            raise ArgumentError("mask_keys needs mask_bits")
        return 0, {}
    view, last, strides = _spread(call, "mask_bits", bits, ("u8", "s32", "u32"), sizes)
    keys = -1 if keys == "queries" else operator.index(keys)  # PTXPACK_KEYS_OF_QUERIES
    columns = {0: sizes[2], -1: sizes[1]}.get(keys, keys)
    item = _ITEM_BYTES[view.kind]
    if last * item < (columns + 31) // 32 * 4 or any(stride * item % 4 for stride in strides):
        raise ArgumentError("mask_bits: rows must be %d bytes or more, and a multiple of 4 bytes apart" % ((columns + 31) // 32 * 4))
    return view.address, {"bits": (keys, tuple(stride * item for stride in strides))}


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, window: Any = None, softcap: float = 0.0,
              scale: Optional[float] = None, align: str = "bottom-right", layout: str = "bshd",
              dtype: Optional[str] = None, out: Any = None, lse: Any = None, return_lse: bool = False,
              q_descale: Any = None, k_descale: Any = None, v_descale: Any = None, stream: Any = None,
              cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, max_seqlen_q: Optional[int] = None,
              max_seqlen_k: Optional[int] = None, seqused_q: Any = None, seqused_k: Any = None, page_table: Any = None,
              cache_batch_idx: Any = None, leftpad_k: Any = None, split_rows: int = 0, overlap: bool = False, constant_kv: bool = False, sinks: Any = None,
              alibi_slopes: Any = None, attention_chunk: int = 0, score_mod: Optional[str] = None, mask_mod: Optional[str] = None,
              aux: Sequence[Any] = (), kv_dtype: Optional[str] = None, bias: Any = None, mask_bits: Any = None, mask_keys: Any = 0,
              block_mask: Any = None, block_size: Any = 128, normalized: bool = True, _append: Optional[_Append] = None,
              _group: Optional[Union[Group, Turn]] = None) -> Any:
    """softmax(scale q k^T + mask) v, heads of q shared among those of k and v (GQA, MQA).

    q        [batch, seqlen_q, heads_q, head_dim]; k, v [batch, seqlen_kv, heads_kv, head_dim]; with
             layout="bhsd" [batch, heads, seqlen, head_dim].  The last dimension of v, and of the result, may be another one
             (not with e4m3); where v = k[..., :n] the kernel reads k once (MLA)
    causal   query i sees no key after its own, where the last query and the last key belong together, or with
             align="top-left" the first
    window   (left, right): so many keys before its own and after it; None or -1: all.  A number: both
    attention_chunk  with causal=True, without a window and align: the rows and keys of a sequence lie in chunks of so many
             positions, and a query sees the keys of its own chunk alone; 0: off
    softcap  scores s become softcap tanh(s / softcap); 0: off
    scale    None: 1/sqrt(head_dim)
    dtype    "bf16", "f16" or "e4m3": what uint16 or uint8 stand for
    out      where the result goes: as q, with the last dimension of v, but of e4m3 bf16
    lse      where the logarithms of the sums go, f32 [batch, heads_q, seqlen_q]; they are a second result
             with this or with return_lse=True
    q_descale, k_descale, v_descale   with e4m3: f32 [batch, heads_kv], what a stored 1 means; None: 1
             k and v may be of e4m3 or int8 while q is of f16 or bf16: then k_descale and v_descale may also be [heads_kv] or
             [1], or such ones expanded to [batch, heads_kv]
    kv_dtype "e4m3" or "int8": what k and v of uint8 stand for, where q is of 16 bits; "q8_0": their last dimension is
             bytes of ggml's blocks, 34 for 32 elements, of a head_dim of 64, 128 or 256, as from_numpy(array, "q8_0") makes them
    sinks    f32 [heads_q]: for each query head a virtual logit in the softmax, which no v belongs to; -inf is none
    normalized  False: the result is the sum of e^s v itself, not divided by the sum of e^s, whose logarithm lse still has.  With a
             score_mod of logarithms of weights, such as tools/examples/hooks/sigmoid.ptx, that is attention with any weights of 0 or
             more.  They are at most e^20, and rows all of whose weights are below e^-40 may become 0.  Neither with sinks nor e4m3
    alibi_slopes  f32 [heads_q], 0 or more: scores (after a softcap) lose slope |i + seqlen_kv - seqlen_q - j|, the distance from
             query i's own position to key j.  Not with e4m3
    bias     f32, f16 or bf16 [batch, heads_q, seqlen_q, seqlen_kv], in any layout of q, and with lengths of sequences; the first
             dimensions may be 1 or missing where all share it.  It is added to the scores, after the softcap and with ALiBi; -inf
             is a mask.  Not with e4m3
    mask_bits  u8, s32 or u32 [batch, heads_q, seqlen_q, n], dimensions as those of bias: bit j of a row, from the lowest of its
             first byte on, is 1 if the row may attend to key j.  Rows are whole words of 4 bytes.  Not with e4m3
    mask_keys  n: the bits are those of the last n keys, and all keys before are seen; "queries": the same, of as many keys as
             the sequence has queries (token trees); 0: of all keys
    score_mod, mask_mod  hooks: PTX with a macro SCORE_MOD, which changes scores, or MASK_MOD, which masks keys, or a function in
             CUDA C++, that the kernel is assembled with (ptx/attention/hooks/README.md says how).  Not with e4m3
    aux      up to 8 contiguous arrays, whose addresses AUX gives to the hooks
    block_mask  which blocks of keys to visit: what attention_blocks() makes, or FlexAttention's BlockMask, or its four arrays
             (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices), the last two of which may be None.  Keys of blocks that
             are not listed are masked; for those listed as full mask_mod is not looked at: lists of
             attention_blocks() go with the causal, window and attention_chunk that they were made with.  A BlockMask's own mask_mod, a function
             of Python, must be given in PTX as mask_mod, or be what causal, window or attention_chunk say.  Not with e4m3, nor lengths
    block_size  with four arrays: the rows and keys of a block, (rows, keys) or a number
    split_rows  a multiple of 256: where few query rows share the keys (decoding), these are summed in parts of so many rows, and
             the bits of a sequence's results do not depend on the batch; 0: the library's choice
    overlap  the kernel may begin before the kernel enqueued just before it in the stream has ended, and waits for that before it
             reads or writes arrays: the same result, a few microseconds earlier.  Kernels of ptxpack, of PyTorch and most
             others may come before; PTXPACK_LAUNCH_OVERLAP in loader.h states what must not.  Without effect below sm_90, and
             where the chosen kernel cannot
    constant_kv  with overlap, the caller's word that no kernel that may still run writes k, v, lengths, starts or page_table, but
             for an append in this call: few query rows then look for their keys and load them before that wait

    Sequences with lengths of their own, under the names of flash-attn.  The arrays are int32 on the device, and are read by the
    kernel: nothing waits for them, and one captured graph serves a decoding loop.  A mask goes by each sequence's own lengths.

    seqused_q, seqused_k   [batch], or a number: the lengths of q, and of k and v; what is beyond them may hold anything, and
                     is not written in the result
    cu_seqlens_q     [batch + 1], where sequences begin in packed q, [rows, heads_q, head_dim]; lse is [heads_q, rows].
                     max_seqlen_q is the longest; None: there may be one sequence alone
    cu_seqlens_k     [batch + 1], the same of packed k and v, with max_seqlen_k
    page_table       [batch, pages of a sequence], with k and v [pages, rows of a page, heads_kv, head_dim]: their pages, of
                     which those beyond a length may be anything
    cache_batch_idx  [batch]: the sequence of k and v that each sequence of q goes with
    leftpad_k        [batch], or a number: the first rows of k and v that are no keys, which the lengths count
    """
    call = _Call("q", q, stream) if _append is None else _append.call  # flash_attn.py's: the same launch appends first
    rotated = None if _append is None else _append.rotated()
    views = (rotated or call.first, *(_of_blocks(call.view(name, array), kv_dtype) for name, array in (("k", k), ("v", v))))
    if layout not in _LAYOUTS:
        raise ArgumentError("layout is %r, and may be 'bshd' or 'bhsd'" % (layout,))
    order = _LAYOUTS[layout]
    lengths = _Lengths(call, max_seqlen_q, max_seqlen_k, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
                       seqused_q=seqused_q, seqused_k=seqused_k, page_table=page_table, cache_batch_idx=cache_batch_idx,
                       leftpad_k=leftpad_k)
    q_view, k_view, v_view = map(lengths.batched, views)
    sizes, stored = _sizes_of(q_view, k_view, v_view, order, lengths)
    of_bytes = _bytes_of(views[0], views[1], views[2], kv_dtype)
    kind = _one_type(views if of_bytes is None else views[:1], dtype)
    scales, shape_of_scales = [], 0
    if of_bytes is None:
        scales = [_singles(call, name, array, (sizes[0], sizes[4])) for name, array in (
            ("q_descale", q_descale), ("k_descale", k_descale), ("v_descale", v_descale))]
    elif q_descale is not None:
        raise ArgumentError("q_descale is for q of e4m3, and q is of %s" % kind)
    elif of_bytes == "q8_0" and not k_descale is v_descale is None:
        raise ArgumentError("k_descale and v_descale are not for k and v of q8_0, whose blocks have scales")
    else:
        scales, shape_of_scales = _descales_of(call, k_descale, v_descale, sizes[0], sizes[4])
    of_heads = [_singles(call, name, array, (sizes[3],)) for name, array in (("sinks", sinks), ("alibi_slopes", alibi_slopes))]
    of_hooks = _addresses_of_hooks(call, aux, score_mod, mask_mod)
    mask = _mask_of(causal, window, align)
    lists = _Lists(call, block_mask, block_size, sizes, mask_mod is not None or mask[0] != _NONE)
    (bias_at, of_bias), (bits_at, of_bits) = _bias_of(call, bias, sizes), _bits_of(call, mask_bits, mask_keys, sizes)
    options = sum(bit for bit, array in ((SINKS, sinks), (ALIBI, alibi_slopes), (BIAS, bias), (MASK_BITS, mask_bits)) if array is not None)
    dim_v, in_keys = _values_of(k_view, v_view, kind, _append is not None)
    options |= shape_of_scales | in_keys | (0 if normalized else UNNORMALIZED)
    stored = (*stored[:-1], stored[-1] | options, operator.index(split_rows))
    o, o_view = call.output("out", out, "bf16" if kind == "e4m3" else views[0].kind,
                            (*call.first.shape[:-1], dim_v) if dim_v else None)
    want_lse, logs, logs_address = return_lse or lse is not None, None, 0
    if want_lse:
        shape = (sizes[3], stored[2]) if lengths.packed_q else (sizes[0], sizes[3], sizes[1])
        logs, logs_view = call.output("lse", lse, "f32", shape)
        if not _is_compact(logs_view):
            raise ArgumentError("lse must be contiguous")
        logs_address = logs_view.address
    strides = tuple(_strides_of(view, order) for view in (q_view, k_view, v_view, lengths.batched(o_view)))
    maker: Any = call.device if _group is None else _group.of(call)  # parallel.py's: all ranks together
    plan = maker.attention_plan(_TYPES[kind], sizes, _scale_of(scale), *mask, float(softcap), strides,
                                *((stored,) if lengths or split_rows or options else ()),
                                **({} if _append is None else {"append": _append.part()}),
                                **({} if of_bytes is None else {"kv_dtype": _BYTES[of_bytes]}),
                                **({"head_dim_v": dim_v} if dim_v else {}), **_chunk_of(attention_chunk, mask[0]),
                                **_hooks_of(score_mod=score_mod, mask_mod=mask_mod), **of_bias, **of_bits,
                                **({"lists": lists.fields} if lists.fields else {}))
    if _append is not None:
        lengths.replace("seqused_k", _append.after(plan))
    addresses = [view.address for view in views + (o_view,)]
    addresses += [logs_address, plan.workspace(call.stream)] + scales
    addresses += lengths.addresses(lambda name, number: plan.constant(name, sizes[0], number, call.stream))
    first = None if _append is None else _append.addresses()
    buffers = _AttentionBuffers(ctypes.sizeof(_AttentionBuffers), *addresses, None if first is None else ctypes.addressof(first),
                                (LAUNCH_OVERLAP if overlap else 0) | (LAUNCH_CONSTANT_KV if constant_kv else 0), 0, *of_heads, of_hooks, bias_at, bits_at, *lists.addresses)
    made = ((o, out is not None),) + (((logs, lse is not None),) if want_lse else ())

    def launched() -> Any:
        results = call.results(*made, *(() if _append is None else _append.written()))
        return results[:2] if want_lse else results[0]
    return maker.attention_launch(plan, buffers, call.stream, launched)


# ---- vector_add --------------------------------------------------------------------------------------------
def vector_add(x: Any, y: Any, a: float = 1.0, b: float = 1.0, c: float = 0.0, *, dtype: Optional[str] = None,
               out: Any = None, stream: Any = None) -> Any:
    """a x + b y + c of f16 or bf16 arrays of one shape and the same strides, without gaps; out may be x or y.

    Two packed FMAs: u = b y + c, then a x + u, each rounded to the type."""
    call = _Call("x", x, stream)
    x_view, y_view = call.first, call.view("y", y)
    kind = _one_type((x_view, y_view), dtype)
    z, z_view = call.output("out", out, x_view.kind)
    lie = x_view.shape, x_view.strides
    for view in (y_view, z_view):
        if (view.shape, view.strides) != lie or not _dense(*lie):
            raise ArgumentError("%s is %s with strides %s, and must lie as x, %s with %s, without gaps" % (
                (view.name, view.shape, view.strides) + lie))
    plan, add = call.device.vector_plan(_TYPES[kind]), call.device.lib.ptxpack_vector_add
    call.device.check(add(plan.pointer, z_view.address, x_view.address, y_view.address, a, b, c,
                          math.prod(x_view.shape), call.stream))
    return call.results((z, out is not None))[0]


# ---- info --------------------------------------------------------------------------------------------------
def info(device: int = 0) -> dict[str, Any]:
    """About a device by its ordinal: name, target ("sm_90a"), driver_version (13000 for CUDA 13.0), sm_count,
    memory_bytes, route (how PTX is compiled, and why so) and library (the file that is in use)."""
    found = _device(device)
    facts = found.lib.ptxpack_device(found.handle).contents
    text = {name: getattr(facts, name).decode() for name in ("name", "target", "route")}
    names = ("ordinal", "driver_version", "sm_count", "memory_bytes")
    return {**text, **{name: getattr(facts, name) for name in names}, "library": found.lib._name}
