"""ptxpack.torch - attention as an operator of PyTorch 2.4 or later, which torch.compile(fullgraph=True) and torch.export trace.

    import ptxpack.torch
    o = ptxpack.torch.attention(q, k, v, causal=True)

The operator is torch.ops.ptxpack.attention.  It has an implementation for CUDA, one for tracing without data, and one for tensors on
the CPU, which copies them to the emulated driver and back and refuses any other driver (PTXPACK_DEVICE=emu).  It has no gradients."""
import ctypes
from typing import Any, Optional, Tuple  # annotations as objects: PyTorch makes the operator's schema of them

import torch

from . import operations
from .device import _driver
from .library import ArgumentError
from .tensor import empty

_KINDS = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "e4m3", torch.float32: "f32"}


def _results(q: torch.Tensor, layout: str) -> Tuple[torch.Tensor, torch.Tensor]:
    """Allocates o, with the strides of q, and lse."""
    batch, rows, heads = (q.shape[at] for at in operations._LAYOUTS[layout][:3])
    o = torch.empty_like(q, dtype=torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype, requires_grad=False)
    return o, q.new_empty((batch, heads, rows), dtype=torch.float32)


def _on_gpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, window_left: int, window_right: int,
            softcap: float, scale: Optional[float], align: str, layout: str, q_descale: Optional[torch.Tensor],
            k_descale: Optional[torch.Tensor], v_descale: Optional[torch.Tensor]) -> Tuple[torch.Tensor, torch.Tensor]:
    o, lse = operations.attention(
        q, k, v, causal=causal, window=(window_left, window_right), softcap=softcap, scale=scale, align=align, layout=layout,
        return_lse=True, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    return o, lse


def _copied(name: str, tensor: Optional[torch.Tensor]) -> Any:
    """Copies a tensor to the emulated device."""
    if tensor is None:
        return None
    if tensor.dtype not in _KINDS:
        raise ArgumentError("%s is of type %s, and must be f16, bf16 or e4m3" % (name, tensor.dtype))
    copy, dense = empty(tensor.shape, _KINDS[tensor.dtype]), tensor.detach().contiguous()
    copy._upload(ctypes.c_void_p(dense.data_ptr()))
    return copy


def _on_cpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, window_left: int, window_right: int,
            softcap: float, scale: Optional[float], align: str, layout: str, q_descale: Optional[torch.Tensor],
            k_descale: Optional[torch.Tensor], v_descale: Optional[torch.Tensor]) -> Tuple[torch.Tensor, torch.Tensor]:
    if not _driver().emulated:
        raise TypeError("q is not in the memory of a CUDA device (it is on cpu), and the driver is not the emulated one")
    tensors = {"q": q, "k": k, "v": v, "q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
    there = {name: _copied(name, tensor) for name, tensor in tensors.items()}
    computed = operations.attention(causal=causal, window=(window_left, window_right), softcap=softcap, scale=scale,
                                    align=align, layout=layout, return_lse=True, **there)
    results = _results(q, layout)
    for result, tensor in zip(results, computed):
        dense = torch.empty(result.shape, dtype=result.dtype)
        tensor._download(ctypes.c_void_p(dense.data_ptr()))
        result.copy_(dense)
    return results


def _without_data(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, window_left: int, window_right: int,
                  softcap: float, scale: Optional[float], align: str, layout: str, q_descale: Optional[torch.Tensor],
                  k_descale: Optional[torch.Tensor], v_descale: Optional[torch.Tensor]) -> Tuple[torch.Tensor, torch.Tensor]:
    return _results(q, layout)


_operator = torch.library.custom_op("ptxpack::attention", _on_gpu, mutates_args=(), device_types="cuda")
_operator.register_kernel("cpu", _on_cpu)
_operator.register_fake(_without_data)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, window: Any = None,
              softcap: float = 0.0, scale: Optional[float] = None, align: str = "bottom-right", layout: str = "bshd",
              return_lse: bool = False, q_descale: Optional[torch.Tensor] = None, k_descale: Optional[torch.Tensor] = None,
              v_descale: Optional[torch.Tensor] = None) -> Any:
    """Does what ptxpack.attention does, as an operator that torch.compile traces; it works on the current stream."""
    left, right = window if isinstance(window, (tuple, list)) else (window, window)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ArgumentError("%s has %d dimensions, and must have 4" % (name, tensor.dim()))
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ArgumentError("%s requires a gradient, and there is none: use torch.no_grad()" % name)
    if layout not in operations._LAYOUTS:
        raise ArgumentError("layout is %r, and may be 'bshd' or 'bhsd'" % (layout,))
    o, lse = torch.ops.ptxpack.attention(q, k, v, causal, -1 if left is None else left, -1 if right is None else right,
                                         softcap, scale, align, layout, q_descale, k_descale, v_descale)
    return (o, lse) if return_lse else o
