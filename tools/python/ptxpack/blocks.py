"""blocks.py - attention_blocks: which blocks of keys an attention has to visit."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

from .library import ArgumentError, F16, _BlocksBuffers
from .lists import BlockLists, _block_size, _list_fields, _list_shapes
from .operations import _Call, _addresses_of_hooks, _chunk_of, _hooks_of, _mask_of
from .tensor import empty


def attention_blocks(mask_mod: Optional[str], batch: Optional[int], heads: Optional[int], seqlen_q: int, seqlen_kv: int, *,
                     causal: bool = False, window: Any = None, align: str = "bottom-right", attention_chunk: int = 0,
                     block_size: Any = 128, aux: Sequence[Any] = (), like: Any = None, device: int = 0,
                     stream: Any = None) -> BlockLists:
    """Makes lists of the blocks of keys that a mask leaves, for attention(block_mask=...) with the same mask_mod, mask and aux.

    mask_mod       the hook, or None: the mask of causal, window, align and attention_chunk alone
    batch, heads   of the attention; None: the lists of the first sequence, or query head, are those of all
    block_size     of rows and keys; a number: both
    aux            what attention() is given
    like           an array: the lists are arrays of its library, on its device; None: as aux[0], or ptxpack.Tensor on `device`

    The kernel looks at every pair of row and key, so lists that serve several layers are better made once.
    """
    first = like if like is not None else aux[0] if aux else empty((1,), "s32", device)
    call, block = _Call("like" if like is not None else "aux[0]" if aux else "device", first, stream), _block_size(block_size)
    sizes = (batch or 1, seqlen_q, seqlen_kv, heads or 1, heads or 1, 8)
    if min(sizes) < 1 or max(sizes) >= 2**31:
        raise ArgumentError("batch, heads, seqlen_q and seqlen_kv are %s: they are 1 or more, below 2^31" % (
            (batch, heads, seqlen_q, seqlen_kv),))
    rows, keys = _list_shapes(sizes, block)
    count = (sizes[0], sizes[3], rows)
    arrays = [call.output(name, None, "s32", count + ((keys,) if name.endswith("indices") else ()))
              for name in BlockLists._fields[:4]]
    of_hooks, mask = _addresses_of_hooks(call, aux, mask_mod), _mask_of(causal, window, align)
    plan = call.device.blocks_plan(F16, sizes, *mask, lists=_list_fields(block, count, keys), **_chunk_of(attention_chunk, mask[0]),
                                   **_hooks_of(mask_mod=mask_mod))
    addresses = [arrays[at][1].address for at in (0, 2, 1, 3)]
    buffers = _BlocksBuffers(ctypes.sizeof(_BlocksBuffers), *addresses, of_hooks)
    call.device.check(call.device.lib.ptxpack_attention_blocks(plan.pointer, ctypes.byref(buffers), call.stream))
    num, indices, full_num, full_indices = call.results(*((array, False) for array, _ in arrays))
    return BlockLists(num, indices, full_num, full_indices, block)
