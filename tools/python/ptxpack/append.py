"""append.py - attention_append: new keys and values to a cache, with rotary embedding, alone or in the same call as an attention; and
the lengths after an append."""
from __future__ import annotations

import ctypes
import operator
from typing import Any, Optional, Union

from .library import (ArgumentError, DENSE, LAUNCH_OVERLAP, LEFT_PAD, LENGTHS_NEW, PACKED, PAGED, ROPE_PAIRS, ROPE_Q_AT_START,
                      ROW_MAP, _AppendBuffers, _AppendDesc)
from .device import _Plan
from .arrays import _View, _is_compact
from .lengths import _Integers, _in_batch
from .operations import _BYTES, _Call, _LAYOUTS, _TYPES, _bytes_of, _descales_of, _of_blocks, _one_type, _sides_of, _strides_of
from .program import kernel

_OPTIONS = {"seqused_k": 0, "seqused_new": LENGTHS_NEW, "cache_batch_idx": ROW_MAP, "leftpad_k": LEFT_PAD}
_TENSORS = ("k_new", "v_new", "k", "v", "q", "out")  # as the descriptor and the buffers have them
_ARRAYS = ("seqused_k", "seqused_new", "cu_seqlens_new", "cache_batch_idx", "leftpad_k", "page_table")  # as the buffers have them
_NOTHING = 0, 0, 0  # the strides of a tensor that is not there
_OF_THE_CACHE = frozenset(("dtype", "batch", "seqlen_kv", "heads_kv", "head_dim", "kv_rows", "rows_kv", "page_rows", "table_width"))
_OF_Q = frozenset(("seqlen_new", "new_rows", "rows_new"))  # where q is rotated

# after[i] = before[i] + starts[i + 1] - starts[i] + more, the first three where there are such arrays.
_ADD = r"""
.version \[ISA/10].\[ISA%10]
.target sm_\[ARCH]
.address_size 64
.visible .entry lengths_after(.param .u64 after, .param .u64 before, .param .u64 starts, .param .s32 more, .param .u32 batch)
{
        .reg .b64 %array, %offset;  .reg .b32 %i, %block, %batch, %sum, %x;  .reg .pred %outside;
        mov.u32         %i, %tid.x;
        mov.u32         %block, %ctaid.x;
        mad.lo.u32      %i, %block, \[THREADS], %i;
        ld.param.u32    %batch, [batch];
        setp.ge.u32     %outside, %i, %batch;
@%outside ret;
        mul.wide.u32    %offset, %i, 4;
        ld.param.s32    %sum, [more];
 .if BEFORE
        ld.param.u64    %array, [before];
        add.u64         %array, %array, %offset;
        ld.global.s32   %x, [%array];
        add.s32         %sum, %sum, %x;
 .endif
 .if STARTS
        ld.param.u64    %array, [starts];
        add.u64         %array, %array, %offset;
        ld.global.s32   %x, [%array + 4];
        add.s32         %sum, %sum, %x;
        ld.global.s32   %x, [%array];
        sub.s32         %sum, %sum, %x;
 .endif
        ld.param.u64    %array, [after];
        add.u64         %array, %array, %offset;
        st.global.s32   [%array], %sum;
}
"""
_THREADS = 128


class _Append:
    """The arguments of an append, checked.  `attending` is the call of an attention that it is a part of: seqused_k are then the
    lengths before it, and a `window` that reaches less far than the cache overrides rope_q_at_start, as in flash-attn."""

    def __init__(self, k_new: Any, v_new: Any, k: Any, v: Any, seqused_k: Any, *, attending: Optional[_Call] = None,
                 window: Any = None, q: Any = None, cos: Any = None, sin: Any = None, rope_pairs: bool = False, rope_q_at_start: bool = False,
                 page_table: Any = None, cache_batch_idx: Any = None, leftpad_k: Any = None, cu_seqlens_new: Any = None,
                 max_seqlen_new: Optional[int] = None, seqused_new: Any = None, layout: str = "bshd",
                 dtype: Optional[str] = None, kv_dtype: Optional[str] = None, k_descale: Any = None, v_descale: Any = None,
                 out: Any = None, stream: Any = None) -> None:
        if seqused_k is None:
            raise ArgumentError("an append needs the lengths of the sequences, and they are None")
        if layout not in _LAYOUTS:
            raise ArgumentError("layout is %r, and may be 'bshd' or 'bhsd'" % (layout,))
        if (cos is None) != (sin is None) or cos is None and q is not None:
            raise ArgumentError("%s without %s: a rotary embedding has both, and q needs it" % (
                ("q", "cos and sin") if cos is sin else ("sin", "cos") if cos is None else ("cos", "sin")))
        self.order = _LAYOUTS[layout]
        self.given = {"seqused_k": seqused_k, "cu_seqlens_new": cu_seqlens_new}
        self.call = call = attending or (_Call("k_new", k_new, stream) if q is None else _Call("q", q, stream))
        self.cache = k, v
        self.integers = _Integers(call, _OPTIONS, dict(
            seqused_k=seqused_k, seqused_new=seqused_new, cu_seqlens_new=cu_seqlens_new, cache_batch_idx=cache_batch_idx,
            leftpad_k=leftpad_k, page_table=page_table))
        self.packed = cu_seqlens_new is not None
        arrays = (("k_new", k_new), ("v_new", v_new), ("k", k), ("v", v))
        tensors = {call.first.name: call.first} if q is not None or attending is None else {}
        tensors.update({name: call.view(name, array) for name, array in arrays if name not in tensors})
        tensors.update({name: _of_blocks(tensors[name], kv_dtype) for name in ("k", "v")})
        self.tables = [call.view(name, array) for name, array in (("cos", cos), ("sin", sin)) if array is not None]
        of_bytes = _bytes_of(tensors["k_new"], tensors["k"], tensors["v"], kv_dtype)
        new_rows = [view for name, view in tensors.items() if of_bytes is None or name not in ("k", "v")]
        kind = _one_type([*new_rows, *self.tables], dtype)
        self.out, self.out_given = None, out is not None
        if q is not None:
            self.out, tensors["out"] = call.output("out", out, call.first.kind)
        self.tensors = {name: _in_batch(view, self.packed and name not in ("k", "v"), "cu_seqlens_new")
                        for name, view in tensors.items()}
        most = None if max_seqlen_new is None else operator.index(max_seqlen_new)
        *fields, options = self._fields(most)
        self.descales, of_descales = self._descales(of_bytes, k_descale, v_descale)
        if rope_q_at_start and q is not None and not any(0 <= side < fields[2] for side in _sides_of(window)):
            options |= ROPE_Q_AT_START
        options |= of_descales | (ROPE_PAIRS if rope_pairs else 0)
        strides = tuple(_strides_of(self.tensors[name], self.order) if name in self.tensors else _NOTHING for name in _TENSORS)
        self.kv_dtype = 0 if of_bytes is None else _BYTES[of_bytes]
        self.problem: tuple[Any, ...] = (_TYPES[kind], *fields, options, strides)

    def _extents(self, name: str) -> tuple[int, ...]:
        """Batch, rows, heads and head_dim."""
        return tuple(self.tensors[name].shape[at] for at in self.order)

    def _check(self) -> None:
        """The shapes fit each other."""
        for one, other in (("k_new", "v_new"), ("k", "v")):
            first, second = self.tensors[one], self.tensors[other]
            if first.shape != second.shape:
                raise ArgumentError("%s is %s and %s is %s: they must have the same shape" % (
                    one, first.shape, other, second.shape))
            if one == "k" and not (first.writable and second.writable):
                raise ArgumentError("%s may not be written to" % (other if first.writable else one))
        new, cache = self._extents("k_new"), self._extents("k")
        if new[2:] != cache[2:]:
            raise ArgumentError("k_new has heads and dim %s, and k %s: they must agree" % (new[2:], cache[2:]))
        if "q" in self.tensors and (self._extents("q")[:2] != new[:2] or self._extents("q")[3] != new[3]):
            raise ArgumentError("q is %s and k_new is %s: they may differ in heads alone" % (
                self.tensors["q"].shape, self.tensors["k_new"].shape))
        for table in self.tables:
            if len(table.shape) != 2 or table.shape != self.tables[0].shape or not _is_compact(table):
                raise ArgumentError("%s is %s, and must be contiguous [positions, rotary_dim / 2], cos as sin" % (
                    table.name, table.shape))

    def _fields(self, most: Optional[int]) -> tuple[int, ...]:
        """batch to options of ptxpack_attention_append_desc."""
        self._check()
        (sequences, rows, heads, dim), (caches, rows_k, _, _) = self._extents("k_new"), self._extents("k")
        given = self.integers
        apart = {"k": caches} if not (given.paged or given.mapped) else {}
        self.batch, self.rows = given.agree({**({} if self.packed else {"k_new": sequences}), **apart}), rows
        keys = given.views["page_table"].shape[1] * rows_k if given.paged else rows_k
        positions, half = self.tables[0].shape if self.tables else (0, 0)
        heads_q = self._extents("q")[2] if "q" in self.tensors else 0
        fields = (self.batch, most if self.packed and most is not None else rows, keys, heads, heads_q, dim, 2 * half, positions,
                  PACKED if self.packed else DENSE, PAGED if given.paged else DENSE, rows if self.packed else 0,
                  caches if given.paged or given.mapped else 0, rows_k if given.paged else 0, given.table_width(),
                  given.options)
        if max(fields) >= 2**31:
            raise ArgumentError("an extent of %d is too large" % max(fields))
        return fields

    def _descales(self, of_bytes: Optional[str], k: Any, v: Any) -> tuple[list[int], int]:
        """The addresses of the descales of an append alone, and the option that both have."""
        if k is v is None:
            return [0, 0], 0
        if of_bytes in (None, "q8_0"):
            raise ArgumentError("k_descale and v_descale are for k and v of e4m3 or int8, and k is %s" % self.tensors["k"].kind)
        (_, *addresses), option = _descales_of(self.call, k, v, self.batch, self._extents("k")[2])
        return addresses, option

    def _buffers(self, addresses: list[int], lengths_k: int, arrays: list[int]) -> Any:
        """Of a launch; `addresses` are those of the tensors, and `arrays` those after lengths_k."""
        tables = [table.address for table in self.tables] or [0, 0]
        return _AppendBuffers(ctypes.sizeof(_AppendBuffers), *addresses, *tables, lengths_k, *arrays)

    def launch(self, overlap: bool = False) -> Any:
        """Returns q rotated, or None."""
        call = self.call
        plan: _Plan = call.device.append_plan(*self.problem, kv_dtype=self.kv_dtype)

        def constant(name: str, number: int) -> int:
            return plan.constant(name, self.batch, number, call.stream)
        arrays = [self.integers.address(name, constant) for name in _ARRAYS]
        all_of_them = [self.tensors[name].address if name in self.tensors else 0 for name in _TENSORS]
        buffers = self._buffers(all_of_them, arrays[0], arrays[1:])
        buffers.launch = LAUNCH_OVERLAP if overlap else 0
        buffers.k_descale, buffers.v_descale = self.descales
        call.device.check(call.device.lib.ptxpack_attention_append(plan.pointer, ctypes.byref(buffers), call.stream))
        if self.out is None:
            call.results(*self.written())
            return None
        return call.results((self.out, self.out_given), *self.written())[0]

    def written(self) -> tuple[tuple[Any, bool], ...]:
        """The cache, for _Call.results."""
        return tuple((array, True) for array in self.cache)

    # ---- as a part of an attention -------------------------------------------------------------------------
    def part(self) -> tuple[Any, ...]:
        """As problem, with 0 for what the attention says."""
        said = _OF_THE_CACHE | (_OF_Q if self.out is not None else frozenset())
        *fields, strides = self.problem
        names = [name for name, _ in _AppendDesc._fields_[1:]]
        return (*(0 if name in said else field for name, field in zip(names, fields)),
                tuple(_NOTHING if name in ("k", "v", "out") else three for name, three in zip(_TENSORS, strides)))

    def addresses(self) -> Any:
        """The buffers of a launch in the same way."""
        own = [self.tensors[name].address if name in ("k_new", "v_new", "q") and name in self.tensors else 0 for name in _TENSORS]
        starts = self.integers.address("cu_seqlens_new", None) if self.out is None else 0
        return self._buffers(own, 0, [0, starts, 0, 0, 0])

    def rotated(self) -> Optional[_View]:
        """Where q is rotated to.  Nobody else keeps that: the call does, and a graph that is being captured."""
        if self.out is None:
            return None
        call, out = self.call, self.out
        if call.device.capturing(call.stream):
            call.device.captured.append(out)
        return call.view("out", out)

    def after(self, plan: _Plan) -> Union[int, _View]:
        """The lengths after the append: a number, or an array that the next launch of this plan and thread overwrites."""
        number = self.integers.numbers.get("seqused_k")
        if number is not None and not self.packed:
            return number + self.rows
        after = plan.array("after", self.batch, self.call.stream)
        add = kernel("lengths_after.ptx", text=_ADD, THREADS=_THREADS, BEFORE=number is None, STARTS=self.packed)
        add((self.batch - 1) // _THREADS + 1, _THREADS, after, self.given["seqused_k"] if number is None else None,
            self.given["cu_seqlens_new"], (number or 0) + (0 if self.packed else self.rows), self.batch, stream=self.call.stream)
        return _View("seqused_k", after, (self.batch,), (1,), "s32", self.call.first.device, keep=plan)


def attention_append(k_new: Any, v_new: Any, k: Any, v: Any, seqused_k: Any, *, q: Any = None, cos: Any = None, sin: Any = None,
                     rope_pairs: bool = False, rope_q_at_start: bool = False, page_table: Any = None, cache_batch_idx: Any = None,
                     leftpad_k: Any = None, cu_seqlens_new: Any = None, max_seqlen_new: Optional[int] = None,
                     seqused_new: Any = None, layout: str = "bshd", dtype: Optional[str] = None, kv_dtype: Optional[str] = None,
                     k_descale: Any = None, v_descale: Any = None, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
    """Writes new keys and values to the end of a cache of k and v, in place; with cos and sin it rotates the new keys, and q, first.

    k_new, v_new  [batch, seqlen_new, heads_kv, head_dim]; with layout="bhsd" [batch, heads, seqlen, head_dim], all of them
    k, v          the cache, [batch, seqlen_kv, heads_kv, head_dim].  A row that has no place in it is dropped
    seqused_k     [batch], or a number: the lengths AFTER the append, as attention() takes them.  Row i of k_new goes to row
                  seqused_k - new + i
    q             rows of the same positions, [batch, seqlen_new, heads_q, head_dim], to rotate.  The result is q rotated, without
                  q None
    cos, sin      [positions, rotary_dim / 2], contiguous, of k's type; the position of a row is its row in the cache
    rope_pairs    False: elements j and j + rotary_dim / 2 turn together (GPT-NeoX); True: 2 j and 2 j + 1 (GPT-J)
    rope_q_at_start  all rows of q have the position of the first new row
    out           where q rotated goes; may be q
    dtype         "bf16" or "f16": what uint16 stands for
    kv_dtype      "q8_0": k and v are uint8, whose last dimension is bytes of ggml's blocks, 34 for 32 elements; "e4m3": they are
                  uint8 that stands for e4m3
    k_descale, v_descale  with k and v of e4m3 or int8 and new rows of 16 bits, as of attention(): a new element is the code
                  nearest to itself, rotated, over the descale; None: ones
    overlap       as of attention()

    The int32 arrays are on the device, and are read by the kernel:

    page_table       [batch, pages of a sequence], with k and v [pages, rows of a page, heads_kv, head_dim]
    cache_batch_idx  [batch]: the sequence of k and v that each new one goes to
    leftpad_k        [batch], or a number, with cos and sin: what positions are less than rows in the cache
    cu_seqlens_new   [batch + 1], where sequences begin in packed k_new, v_new and q, [rows, heads, head_dim]; max_seqlen_new is
                     the most rows of one; None: there may be one sequence alone
    seqused_new      [batch], or a number: new rows, if fewer
    """
    return _Append(k_new, v_new, k, v, seqused_k, q=q, cos=cos, sin=sin, rope_pairs=rope_pairs, rope_q_at_start=rope_q_at_start,
                   page_table=page_table, cache_batch_idx=cache_batch_idx, leftpad_k=leftpad_k, cu_seqlens_new=cu_seqlens_new,
                   max_seqlen_new=max_seqlen_new, seqused_new=seqused_new, layout=layout, dtype=dtype, kv_dtype=kv_dtype,
                   k_descale=k_descale, v_descale=v_descale, out=out, stream=stream).launch(overlap)
