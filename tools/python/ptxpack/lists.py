"""lists.py - lists of blocks of keys, as attention() is given them: FlexAttention's BlockMask, or its four arrays."""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from .library import ArgumentError
from .arrays import _View, _is_compact

if TYPE_CHECKING:
    from .operations import _Call


class BlockLists(NamedTuple):
    """Which blocks of keys each block of rows sees, as FlexAttention's BlockMask has it: for each of them how many blocks a mask_mod
    leaves in part and which, s32 [batch or 1, heads or 1, row blocks] and [.., key blocks]; and the same of those in which it
    leaves all that causal= and window_size= do, which are no part of it here."""
    kv_num_blocks: Any
    kv_indices: Any
    full_kv_num_blocks: Any
    full_kv_indices: Any
    BLOCK_SIZE: tuple[int, int] = (128, 128)  # rows and keys of a block


def _block_size(size: Any) -> tuple[int, int]:
    """The rows and keys of a block."""
    try:
        rows, keys = (size, size) if hasattr(size, "__index__") else size
        rows, keys = operator.index(rows), operator.index(keys)
    except (TypeError, ValueError):
        raise ArgumentError("block_size is %r, and may be a number or (rows, keys)" % (size,)) from None
    if not (0 < rows < 2**31 and 0 < keys < 2**31):
        raise ArgumentError("block_size is %r, and must be from 1 on, below 2^31" % (size,))
    return rows, keys


def _list_shapes(sizes: tuple[int, ...], block: tuple[int, int]) -> tuple[int, int]:
    """The blocks of rows and of keys of sequences of such sizes."""
    return -(-sizes[1] // block[0]), -(-sizes[2] // block[1])


def _list_fields(block: tuple[int, int], count: tuple[int, ...], width: int) -> tuple[int, ...]:
    """A descriptor's fields from block_rows on, of arrays of the shape `count`, with lists of `width` entries."""
    batch, heads, rows = count
    return (*block, width, 0, heads * rows if batch > 1 else 0, rows if heads > 1 else 0)


def _arrays_of(block_mask: Any, block_size: Any, masked: bool) -> tuple[list[Any], tuple[int, int]]:
    """The four arrays, and the rows and keys of a block; `masked`: the call says what FlexAttention's mask_mod masks."""
    if hasattr(block_mask, "kv_num_blocks"):
        if not isinstance(block_mask, BlockLists) and not masked:
            raise ArgumentError("block_mask has a mask_mod that is a function of Python; mask_mod= must be the same in PTX, or "
                                "the arrays alone are given")
        arrays, block_size = [getattr(block_mask, name) for name in BlockLists._fields[:4]], block_mask.BLOCK_SIZE
    else:
        arrays = list(block_mask) if isinstance(block_mask, (tuple, list)) else []
    if len(arrays) != 4 or (arrays[2] is None) != (arrays[3] is None):
        raise ArgumentError("block_mask must be a BlockMask, or (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices), "
                            "the last two of which may be None")
    return arrays, _block_size(block_size)


class _Lists:
    """The lists of a call: their fields of a descriptor, and the addresses of a launch."""

    def __init__(self, call: _Call, block_mask: Any, block_size: Any, sizes: tuple[int, ...], masked: bool) -> None:
        self.fields: tuple[int, ...] = ()
        self.addresses = (0, 0, 0, 0)
        if block_mask is None:
            return
        arrays, block = _arrays_of(block_mask, block_size, masked)
        rows, keys = _list_shapes(sizes, block)
        views = [None if array is None else call.view(name, array) for name, array in zip(BlockLists._fields, arrays)]
        count, width = self._shape_of(views, sizes, rows, keys)
        for view, shape in zip(views, (count, count + (width,)) * 2):
            if view is not None and (view.kind != "s32" or view.shape != shape or not _is_compact(view)):
                raise ArgumentError("%s is %s %s, and must be contiguous s32 %s" % (view.name, view.kind, view.shape, shape))
        self.fields = _list_fields(block, count, width)
        addresses = [0 if view is None else view.address for view in views]
        self.addresses = addresses[0], addresses[2], addresses[1], addresses[3]

    @staticmethod
    def _shape_of(views: list[Optional[_View]], sizes: tuple[int, ...], rows: int, keys: int) -> tuple[tuple[int, ...], int]:
        """The shape that the counts must have, as far as it is free; and the entries of a list."""
        count, indices = (() if view is None else view.shape for view in views[:2])
        if len(count) != 3 or count[0] not in (1, sizes[0]) or count[1] not in (1, sizes[3]) or count[2] != rows:
            raise ArgumentError("kv_num_blocks is %s, and must be [%d or 1, %d or 1, %d]" % (count, sizes[0], sizes[3], rows))
        if len(indices) != 4 or indices[3] < keys:
            raise ArgumentError("kv_indices is %s, and must be %s with at least %d" % (indices, count, keys))
        return count, indices[3]
