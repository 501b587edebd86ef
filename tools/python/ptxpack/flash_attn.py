"""ptxpack.flash_attn - the functions of flash-attn, also as vLLM calls them, so that a caller changes the line of its import:

    from ptxpack.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

Arguments and results are those of flash-attn 2, with the further names of flash-attn 3 and of vLLM by keyword.  What they ask for
and ptxpack does not have (dropout, slopes of ALiBi for each sequence) raises ptxpack.Unsupported, a NotImplementedError,
which names the argument.  What only steers the kernels of flash-attn (deterministic, num_splits, pack_gqa, sm_margin,
scheduler_metadata, fa_version) changes nothing: results are the same bits in every run.  The arrays may be of any library that
ptxpack.attention takes; out= and stream= are as there.  s_aux and learnable_sink are the sinks of ptxpack.attention, also in 16 bits
if they are of PyTorch.  There are no gradients, and the LSE of a row that attends to nothing is -inf, or its sink.
"""
from __future__ import annotations

from typing import Any, Optional

from .library import ArgumentError, Unsupported
from .append import _Append
from .merge import attention_merge
from .operations import _Call, attention

_NO_WINDOW = (-1, -1)
_STEERING = frozenset(("deterministic", "num_splits", "pack_gqa", "sm_margin", "scheduler_metadata", "fa_version"))
_NEUTRAL = {"dropout_p": 0, "cp_world_size": 1, "cp_rank": 0}  # by which nothing is asked for
_KNOWN = frozenset(("rotary_seqlens", "qv", "q_v", "cp_tot_seqused_k", *_NEUTRAL)) | _STEERING
_SINKS = ("s_aux", "learnable_sink", "sinks")  # names of the same
_DESCALES = frozenset(("q_descale", "k_descale", "v_descale"))  # of fp8; vLLM gives them for every type
_FORWARDED = _DESCALES | {"out", "stream", "alibi_slopes", "attention_chunk", "kv_dtype"}


def _type_in_words(array: Any) -> str:
    """The type of an array's elements, in the words of its library."""
    return str(getattr(array, "dtype", "") or getattr(array, "__cuda_array_interface__", {}).get("typestr", ""))


def _forwarded(function: str, q: Any, k: Any, others: dict[str, Any]) -> dict[str, Any]:
    """What attention() takes of the other arguments; none of the rest may ask for anything."""
    kind, of_keys = _type_in_words(q), _type_in_words(k)
    given = [others.pop(name) for name in _SINKS if name in others]
    given = [_in_f32(value) for value in given if value is not None]
    if len(given) > 1:
        raise TypeError("%s() takes one of %s: they are the same" % (function, ", ".join(_SINKS)))
    for name, value in others.items():
        if name not in _KNOWN | _FORWARDED:
            raise TypeError("%s() got an unexpected keyword argument %r" % (function, name))
        if name in _KNOWN - _STEERING and value is not None and not (name in _NEUTRAL and value == _NEUTRAL[name]):
            raise Unsupported("PTXPACK_E_UNSUPPORTED", "%s: %s is not supported" % (function, name))
    slopes = others.get("alibi_slopes")
    if len(getattr(slopes, "shape", ())) > 1:
        raise Unsupported("PTXPACK_E_UNSUPPORTED", "%s: alibi_slopes of each sequence are not supported" % function)
    wanted = _FORWARDED if "float8" in kind or kind == "e4m3" else _FORWARDED - _DESCALES
    if wanted is not _FORWARDED and ("float8" in of_keys or of_keys in ("e4m3", "torch.int8", "int8", "s8", "|i1", "|V1")):
        wanted = _FORWARDED - {"q_descale"}
    return {name: value for name, value in others.items() if name in wanted} | ({"sinks": given[0]} if given else {})


def _in_f32(array: Any) -> Any:
    """The same numbers as f32, where PyTorch can make them."""
    return array.float() if str(getattr(array, "dtype", "")) in ("torch.bfloat16", "torch.float16") else array


def _either(function: str, first: str, one: Any, second: str, other: Any) -> Any:
    """Of two names for the same argument."""
    if one is not None and other is not None:
        raise TypeError("%s() takes %s or %s, not both: they are the same" % (function, first, second))
    return other if one is None else one


def flash_attn_func(q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
                    window_size: Any = _NO_WINDOW, softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
                    return_attn_probs: bool = False, *, return_softmax_lse: bool = False, **others: Any) -> Any:
    """q [batch, seqlen_q, heads, dim], k and v [batch, seqlen_k, heads_k, dim].

    Returns out; with return_attn_probs (out, softmax_lse, None), of which the third would be of dropout; with return_softmax_lse
    (out, softmax_lse).
    """
    others.update(dropout_p=dropout_p, alibi_slopes=alibi_slopes)
    more = _forwarded("flash_attn_func", q, k, others)
    computed = attention(q, k, v, causal=causal, window=window_size, softcap=softcap, scale=softmax_scale,
                         return_lse=return_attn_probs or return_softmax_lse, **more)
    return (*computed, None) if return_attn_probs else computed


def flash_attn_varlen_func(q: Any, k: Any, v: Any, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
                           max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None, dropout_p: float = 0.0,
                           softmax_scale: Optional[float] = None, causal: bool = False, window_size: Any = _NO_WINDOW,
                           softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
                           return_attn_probs: bool = False, block_table: Any = None, *, seqused_q: Any = None, seqused_k: Any = None,
                           page_table: Any = None, leftpad_k: Any = None, return_softmax_lse: bool = False, **others: Any) -> Any:
    """Packed q [total_q, heads, dim], with packed k and v [total_k, heads_k, dim], or with block_table (page_table) and k, v
    [pages, rows of a page, heads_k, dim], whose lengths are seqused_k, or the differences of cu_seqlens_k.

    Returns as flash_attn_func does; softmax_lse is [heads, total_q].
    """
    name = "flash_attn_varlen_func"
    others.update(dropout_p=dropout_p, alibi_slopes=alibi_slopes)
    more = _forwarded(name, q, k, others)
    table = _either(name, "block_table", block_table, "page_table", page_table)
    if table is not None and cu_seqlens_k is not None:
        seqused_k = _differences(name, cu_seqlens_k) if seqused_k is None else seqused_k
        cu_seqlens_k = None
    computed = attention(q, k, v, causal=causal, window=window_size, softcap=softcap, scale=softmax_scale,
                         return_lse=return_attn_probs or return_softmax_lse, cu_seqlens_q=cu_seqlens_q,
                         cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, seqused_q=seqused_q,
                         seqused_k=seqused_k, page_table=table, leftpad_k=leftpad_k, **more)
    return (*computed, None) if return_attn_probs else computed


def _differences(function: str, starts: Any) -> Any:
    """Lengths of paged keys: only seqused_k is read by the kernels."""
    try:
        return starts[1:] - starts[:-1]
    except TypeError:
        raise Unsupported("PTXPACK_E_UNSUPPORTED", "%s: a %s cannot be subtracted; give seqused_k with block_table" % (
            function, type(starts).__name__)) from None


def flash_attn_with_kvcache(q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, rotary_cos: Any = None,
                            rotary_sin: Any = None, cache_seqlens: Any = None, cache_batch_idx: Any = None,
                            cache_leftpad: Any = None, block_table: Any = None, softmax_scale: Optional[float] = None,
                            causal: bool = False, window_size: Any = _NO_WINDOW, softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Any = None, num_splits: int = 0,
                            return_softmax_lse: bool = False, *, page_table: Any = None, cu_seqlens_q: Any = None,
                            max_seqlen_q: Optional[int] = None, cu_seqlens_k_new: Any = None, **others: Any) -> Any:
    """q [batch, seqlen_q, heads, dim] on a cache [batch, seqlen_k, heads_k, dim], or with block_table (page_table) [pages, rows of a
    page, heads_k, dim].  cache_seqlens is an int32 array or a number: the keys in the cache.

    k and v [batch, seqlen_new, heads_k, dim], or packed with cu_seqlens_k_new, are first written to the cache, behind the
    cache_seqlens keys that it has before.  With rotary_cos and rotary_sin [positions, rotary_dim / 2] k, and q of as many rows,
    are rotated by their row in the cache; without a causal mask or a window all rows of q by that of the first.  Packed q is
    rotated where cu_seqlens_k_new is the same array as cu_seqlens_q.  kv_dtype is as of ptxpack.attention: the cache may be of q8_0.
    Returns out, or with return_softmax_lse (out, softmax_lse), [batch, heads, seqlen_q].
    """
    name = "flash_attn_with_kvcache"
    others.update(alibi_slopes=alibi_slopes)
    more = _forwarded(name, q, k_cache, others)
    table = _either(name, "block_table", block_table, "page_table", page_table)
    for needed, array, by, other in (("k", k, "v", v), ("v", v, "k", k), ("k", k, "rotary_cos", rotary_cos),
                                     ("k", k, "rotary_sin", rotary_sin), ("k", k, "cu_seqlens_k_new", cu_seqlens_k_new),
                                     ("cache_seqlens", cache_seqlens, "k", k)):
        if array is None and other is not None:
            raise ArgumentError("%s: %s needs %s" % (name, by, needed))
    if k is not None:
        if rotary_cos is not None and cu_seqlens_q is not cu_seqlens_k_new:
            raise Unsupported("PTXPACK_E_UNSUPPORTED", "%s: rotary_cos with packed q needs packed k: cu_seqlens_k_new must be "
                              "cu_seqlens_q, the same array" % name)
        more["_append"] = _Append(
            k, v, k_cache, v_cache, cache_seqlens, attending=_Call("q", q, more.get("stream")), q=None if rotary_cos is None else q,
            cos=rotary_cos, sin=rotary_sin, rope_pairs=rotary_interleaved and rotary_cos is not None, rope_q_at_start=not causal,
            window=window_size, page_table=table, cache_batch_idx=cache_batch_idx, cu_seqlens_new=cu_seqlens_k_new,
            kv_dtype=more.get("kv_dtype"))
    return attention(q, k_cache, v_cache, causal=causal, window=window_size, softcap=softcap, scale=softmax_scale,
                     return_lse=return_softmax_lse, seqused_k=cache_seqlens, cache_batch_idx=cache_batch_idx,
                     leftpad_k=cache_leftpad, page_table=table, cu_seqlens_q=cu_seqlens_q, max_seqlen_q=max_seqlen_q, **more)


def merge_attn_states(output: Any, prefix_output: Any, prefix_lse: Any, suffix_output: Any, suffix_lse: Any,
                      output_lse: Any = None, prefill_tokens_with_context: Any = None, output_scale: Any = None, *,
                      stream: Any = None) -> None:
    """vLLM's: writes the attention to the keys of both parts to output [tokens, heads, dim], and its LSE to output_lse [heads,
    tokens] if that is given.  An LSE of +inf makes its row NaN (that of a row that attends to nothing is -inf here)."""
    for name, value in (("prefill_tokens_with_context", prefill_tokens_with_context), ("output_scale", output_scale)):
        if value is not None:
            raise Unsupported("PTXPACK_E_UNSUPPORTED", "merge_attn_states: %s is not supported" % name)
    attention_merge(prefix_output, prefix_lse, suffix_output, suffix_lse, out=output, lse=output_lse, stream=stream)
