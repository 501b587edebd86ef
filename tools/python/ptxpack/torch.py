"""ptxpack.torch - attention as an operator of PyTorch 2.4 or later, which torch.compile(fullgraph=True) and torch.export trace.

    import ptxpack.torch
    o = ptxpack.torch.attention(q, k, v, causal=True)

The operator is torch.ops.ptxpack.attention.  It has an implementation for CUDA, one for tracing without data, and one for tensors on
the CPU, which copies them to the emulated driver and back and refuses any other driver (PTXPACK_DEVICE=emu).  It has no gradients."""
import ctypes
from typing import Any, Dict, Optional, Tuple

import torch

from . import operations
from .device import _driver
from .library import ArgumentError
from .lists import _arrays_of
from .tensor import empty

_KINDS = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "e4m3", torch.int8: "s8", torch.float32: "f32",
          torch.int32: "s32", torch.uint8: "u8"}

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


def _on_cpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *given: Any) -> _Pair:
    if not _driver().emulated:
        raise TypeError("q is not in the memory of a CUDA device (it is on cpu), and the driver is not the emulated one")
    options = _named(given)
    there = {name: _copied(name, value) if isinstance(value, torch.Tensor) else value
             for name, value in {"q": q, "k": k, "v": v, **options}.items()}
    there["aux"] = [_copied("aux", tensor) for tensor in options["aux"]]
    if "block_mask" in options:
        there["block_mask"] = tuple(tensor if tensor is None else _copied("block_mask", tensor) for tensor in options["block_mask"])
    computed = operations.attention(return_lse=True, **there)
    results = _results(q, v, options)
    for result, tensor in zip(results, computed):
        dense = torch.empty(result.shape, dtype=result.dtype)
        tensor._download(ctypes.c_void_p(dense.data_ptr()))
        result.copy_(dense)
    return results


def _without_data(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *given: Any) -> _Pair:
    return _results(q, v, _named(given))


_operator = torch.library.custom_op("ptxpack::attention", _on_gpu, mutates_args=(), device_types="cuda", schema=_SCHEMA)
_operator.register_kernel("cpu", _on_cpu)
_operator.register_fake(_without_data)


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
    for name, tensor in {"q": q, "k": k, "v": v, **arrays}.items():
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled():
            raise ArgumentError("%s requires a gradient, and there is none: use torch.no_grad()" % name)
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
