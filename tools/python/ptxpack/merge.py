"""merge.py - attention_merge: two partial attentions become one."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from .library import ArgumentError, LAUNCH_OVERLAP, MERGE_F32_PARTS, _MergeBuffers
from .arrays import _is_compact
from .lengths import _in_batch
from .operations import _Call, _LAYOUTS, _TYPES, _one_type, _strides_of, _type_of


def attention_merge(o_a: Any, lse_a: Any, o_b: Any, lse_b: Any, *, layout: str = "bshd", dtype: Optional[str] = None,
                    out: Any = None, lse: Any = None, return_lse: bool = False, stream: Any = None,
                    overlap: bool = False) -> Any:
    """Of attention() of the same queries to two sets of keys, with their lse: that to all of these keys.

    o_a, o_b      [batch, seqlen_q, heads_q, head_dim], with layout="bhsd" [batch, heads, seqlen, head_dim]; of packed q
                  [rows, heads_q, head_dim].  f16 or bf16, or both f32
    lse_a, lse_b  f32 [batch, heads_q, seqlen_q], of packed q [heads_q, rows]; contiguous.  A part whose lse is -inf counts nothing
    dtype         "bf16" or "f16": what uint16 stands for, or with f32 parts the type of the result; None: that of `out`
    out           where the result goes: as o_a; may be o_a or o_b
    lse           where its lse goes; may be lse_a or lse_b.  It is a second result with this or with return_lse=True
    overlap       as of attention()
    """
    if layout not in _LAYOUTS:
        raise ArgumentError("layout is %r, and may be 'bshd' or 'bhsd'" % (layout,))
    call, order = _Call("o_a", o_a, stream), _LAYOUTS[layout]
    a, b = call.first, call.view("o_b", o_b)
    if a.shape != b.shape:
        raise ArgumentError("o_a is %s and o_b is %s: they must have the same shape" % (a.shape, b.shape))
    wide = a.kind == b.kind == "f32"
    if not wide:
        kind, stored = _one_type((a, b), dtype), a.kind
    elif out is not None:
        view = call.view("out", out)
        kind, stored = _type_of(view, dtype), view.kind
    elif dtype is None:
        raise ArgumentError("o_a and o_b are f32: dtype must say of which type the result is, 'f16' or 'bf16'")
    else:
        kind = stored = dtype
    if kind not in ("f16", "bf16"):
        raise ArgumentError("the result is %s, and must be f16 or bf16" % kind)
    packed = len(a.shape) == 3
    made, o = call.output("out", out, stored)
    tensors = [_in_batch(view, packed, "packed rows") for view in (a, b, o)]
    batch, rows, heads, dim = (tensors[0].shape[at] for at in order)
    shape = (heads, rows) if packed else (batch, heads, rows)
    logs = [call.view("lse_a", lse_a), call.view("lse_b", lse_b)]
    made_lse, wanted = None, return_lse or lse is not None
    if wanted:
        made_lse, view = call.output("lse", lse, "f32", shape)
        logs.append(view)
    for view in logs:
        if view.kind != "f32" or view.shape != shape or not _is_compact(view):
            raise ArgumentError("%s is %s %s, and must be contiguous f32 %s" % (view.name, view.kind, view.shape, shape))
    plan = call.device.merge_plan(_TYPES[kind], batch, rows, heads, dim, MERGE_F32_PARTS if wide else 0,
                                  tuple(_strides_of(view, order) for view in tensors))
    buffers = _MergeBuffers(ctypes.sizeof(_MergeBuffers), a.address, logs[0].address, b.address, logs[1].address, o.address,
                            logs[2].address if wanted else 0, LAUNCH_OVERLAP if overlap else 0)
    call.device.check(call.device.lib.ptxpack_attention_merge(plan.pointer, ctypes.byref(buffers), call.stream))
    if not wanted:
        return call.results((made, out is not None))[0]
    return call.results((made, out is not None), (made_lse, lse is not None))
