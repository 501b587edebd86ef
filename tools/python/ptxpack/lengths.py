"""lengths.py - sequences with lengths of their own: packed and paged arrays, and the int32 arrays that say where rows are."""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Sequence

from .library import ArgumentError, DENSE, LEFT_PAD, LENGTHS_K, LENGTHS_Q, PACKED, PAGED, ROW_MAP
from .arrays import _View, _is_compact

if TYPE_CHECKING:
    from .operations import _Call

_ARRAYS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "cache_batch_idx", "leftpad_k", "page_table")  # as the buffers have them
_OPTIONS = {"seqused_q": LENGTHS_Q, "seqused_k": LENGTHS_K, "cache_batch_idx": ROW_MAP, "leftpad_k": LEFT_PAD}


def _in_batch(view: _View, packed: bool, starts: str) -> _View:
    """The same with a batch of 1 in front, if its sequences are packed; `starts` is the argument that says so."""
    dimensions = 3 if packed else 4
    if len(view.shape) != dimensions:
        raise ArgumentError("%s has %d dimensions, and must have %d%s" % (
            view.name, len(view.shape), dimensions, " with " + starts if packed else ""))
    if not packed:
        return view
    return _View(view.name, view.address, (1,) + view.shape, (0,) + view.strides, view.kind, view.device, view.writable, view.keep)


class _Integers:
    """int32 arrays on the device; a number in place of an array is the same for all sequences."""

    def __init__(self, call: _Call, options: dict[str, int], arrays: dict[str, Any]) -> None:
        """`options` has the bits of those that may be a number."""
        given = {name: array for name, array in arrays.items() if array is not None}
        self.numbers = {name: operator.index(array) for name, array in given.items()
                        if name in options and hasattr(array, "__index__") and not hasattr(array, "__dlpack__")}
        self.views = {name: self._view(call, name, array) for name, array in given.items() if name not in self.numbers}
        self.paged, self.mapped = "page_table" in given, "cache_batch_idx" in given
        for name, value in self.numbers.items():
            if not 0 <= value < 2**31:
                raise ArgumentError("%s is %d, and must be 0 or more, below 2^31" % (name, value))
        self.options = sum(options[name] for name in given if name in options)

    @staticmethod
    def _view(call: _Call, name: str, array: Any) -> _View:
        view, dimensions = array if isinstance(array, _View) else call.view(name, array), 2 if name == "page_table" else 1
        if view.kind != "s32" or len(view.shape) != dimensions:
            raise ArgumentError("%s is %s %s, and must be s32 of %d dimension%s" % (
                name, view.kind, view.shape, dimensions, "s"[:dimensions - 1]))
        rows_apart = len(view.shape) == 2 and view.strides[1] == 1 and view.strides[0] >= view.shape[1]
        if not _is_compact(view) and not rows_apart:
            raise ArgumentError("%s: its last dimension must be contiguous" % name)
        return view

    def agree(self, counts: dict[str, int]) -> int:
        """The number of sequences, which others have, too."""
        counts.update({name: view.shape[0] - name.startswith("cu_") for name, view in self.views.items()})
        (first, batch), *others = counts.items()
        for name, count in others:
            if count != batch:
                raise ArgumentError("%s is of %d sequences, and %s of %d" % (first, batch, name, count))
        return batch

    def replace(self, name: str, value: Any) -> None:
        """By another array, or a number."""
        self.numbers.pop(name, None)
        self.views.pop(name, None)
        if isinstance(value, _View):
            self.views[name] = value
        else:
            self.numbers[name] = value

    def table_width(self) -> int:
        """Entries of the page table from one sequence to the next."""
        if not self.paged:
            return 0
        table = self.views["page_table"]
        return table.strides[0] if table.shape[0] > 1 else table.shape[1]

    def address(self, name: str, constant: Any) -> int:
        """Of one that was given, otherwise 0; constant(name, number) makes an array."""
        if name in self.numbers:
            made: int = constant(name, self.numbers[name])
            return made
        return self.views[name].address if name in self.views else 0


class _Lengths(_Integers):
    """What the arguments of attention() about lengths say."""

    def __init__(self, call: _Call, max_seqlen_q: Any, max_seqlen_k: Any, **arrays: Any) -> None:
        super().__init__(call, _OPTIONS, arrays)
        self.most_q, self.most_k = (None if most is None else operator.index(most) for most in (max_seqlen_q, max_seqlen_k))
        self.packed_q, self.packed_k = ("cu_seqlens_" + which in self.views for which in "qk")
        if self.paged and self.packed_k:
            raise ArgumentError("cu_seqlens_k is for packed k and v, and page_table for paged ones; their lengths are seqused_k")
        if self.mapped and (self.paged or self.packed_k):
            raise ArgumentError("cache_batch_idx is for dense k and v, not with %s" % ("page_table" if self.paged else "cu_seqlens_k"))
        if self.packed_k and "leftpad_k" in self.views:
            raise ArgumentError("leftpad_k is for dense or paged k and v, not with cu_seqlens_k")

    def __bool__(self) -> bool:
        return bool(self.views or self.numbers)

    def batched(self, view: _View) -> _View:
        """The same with a batch of 1 in front, if its sequences are packed."""
        if view.name in ("q", "out"):
            return _in_batch(view, self.packed_q, "cu_seqlens_q")
        return _in_batch(view, self.packed_k, "cu_seqlens_k")

    def batch(self, q: int, k: int) -> int:
        """The number of sequences; q and k have so many in their first dimension."""
        counts = {"q": q} if not self.packed_q else {}
        apart = {"k": k} if not (self.packed_k or self.paged or self.mapped) else {}
        return self.agree({**counts, **apart})

    def most(self, rows_q: int, rows_k: int) -> tuple[int, int]:
        """seqlen_q and seqlen_kv, of q and k with so many rows (in a page)."""
        most_q = rows_q if not self.packed_q or self.most_q is None else self.most_q
        if self.paged:
            return most_q, self.views["page_table"].shape[1] * rows_k  # of all pages: one plan for all lengths
        if self.packed_k and self.most_k is not None:
            return most_q, 1 << max(self.most_k - 1, 0).bit_length()  # few plans for growing lengths
        return most_q, rows_k

    def fields(self, q: Sequence[int], k: Sequence[int]) -> tuple[int, ...]:
        """q_rows to options of ptxpack_attention_desc; q and k are batch (or pages) and rows."""
        kept = PAGED if self.paged else PACKED if self.packed_k else DENSE
        rows_k = k[0] if self.paged or self.mapped else k[1] if self.packed_k else 0
        return (PACKED if self.packed_q else DENSE, kept, q[1] if self.packed_q else 0, rows_k, k[1] if self.paged else 0,
                self.table_width(), self.options)

    def addresses(self, constant: Any) -> list[int]:
        """As the last members of ptxpack_attention_buffers; constant(name, number) makes an array."""
        return [self.address(name, constant) for name in _ARRAYS]
