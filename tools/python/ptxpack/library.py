"""library.py - libptxpack.so through ctypes: errors, structures and signatures of loader.h, program.h, attention.h, append.h,
merge.h, blocks.h, parallel.h, gemm.h, norm.h, sampling.h, experts.h, gather.h, quantise.h and vector.h."""
from __future__ import annotations

import ctypes
import functools
import os
import threading
from typing import Any, NoReturn, Optional

LIBRARY = "../../../build/libptxpack.so"  # from this folder; `make install` writes its own here

F16, BF16, E4M3, INT8, Q8_0 = 1, 2, 3, 4, 5  # ptxpack_dtype
DENSE, PACKED, PAGED = 0, 1, 2  # ptxpack_rows
# the options of ptxpack_attention_desc
LENGTHS_Q, LENGTHS_K, ROW_MAP, LEFT_PAD, SINKS, ALIBI, BIAS, MASK_BITS, VALUES_IN_KEYS = 1, 2, 4, 8, 16, 32, 64, 128, 256
DESCALES_TENSOR, DESCALES_HEAD, UNNORMALIZED = 1 << 24, 1 << 25, 1 << 26  # further ones
LENGTHS_NEW, ROPE_PAIRS, ROPE_Q_AT_START = 1 << 16, 1 << 17, 1 << 18  # further ones of ptxpack_attention_append_desc
MERGE_F32_PARTS = 1  # an option of ptxpack_attention_merge_desc
EXPERTS_F32, EXPERTS_NORMALISE = 1, 2  # options of ptxpack_experts_route_desc
EXPERTS_RESIDUAL = 1  # an option of ptxpack_experts_combine_desc
QUANTISE_POWERS, QUANTISE_BLOCKS = 1, 2  # options of ptxpack_quantise_desc
NORM_RESIDUAL, NORM_ONE_PLUS_WEIGHT = 1, 2  # options of ptxpack_norm_desc
SAMPLING_F32 = 1  # an option of ptxpack_sampling_desc
LAUNCH_OVERLAP, LAUNCH_CONSTANT_KV = 1, 4  # bits of `launch` of what comes with a launch
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2  # CUDA's handles; 0 is the first as well


# ---- errors ------------------------------------------------------------------------------------------------
class Error(RuntimeError):
    """A call of the library or of the driver failed; .status is the status by name."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class ArgumentError(Error, ValueError):
    """An argument is out of its range."""

    def __init__(self, detail: str, status: str = "PTXPACK_E_ARG") -> None:
        super().__init__(status, detail)


class Unsupported(Error, NotImplementedError):
    """The request is valid, but no kernel of this device covers it."""


def _raise(lib: Any, status: int, detail: bytes) -> NoReturn:
    name = lib.ptxpack_status_name(status).decode()
    text = detail.decode(errors="replace") or lib.ptxpack_status_string(status).decode()
    if name == "PTXPACK_E_ARG":
        raise ArgumentError(text)
    raise (Unsupported if name == "PTXPACK_E_UNSUPPORTED" else Error)(name, text)


# ---- the library's structures and functions ----------------------------------------------------------------
def _structure(name: str, *fields: tuple[Any, str]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": [(field, kind) for kind, names in fields
                                                         for field in names.split()]})


_Options = _structure("_Options", (ctypes.c_uint32, "size"), (ctypes.c_int32, "device"))  # and no more
_Caps = _structure("_Caps", (ctypes.c_int, "arch isa shared_per_block shared_per_sm"),
                   (ctypes.c_bool, "portable"))
_DeviceInfo = _structure(
    "_DeviceInfo", (ctypes.c_char * 96, "name"), (ctypes.c_char * 16, "target"),
    (ctypes.c_int, "ordinal driver_version sm_count"), (ctypes.c_size_t, "memory_bytes"), (_Caps, "caps"),
    (ctypes.c_char * 256, "route"))
_Strides = _structure("_Strides", (ctypes.c_int64, "batch row head"))
_AttentionDesc = _structure(
    "_AttentionDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"),
    (ctypes.c_int32, "batch seqlen_q seqlen_kv heads_q heads_kv head_dim"), (ctypes.c_float, "scale"),
    (ctypes.c_int, "mask"), (ctypes.c_int32, "window_left window_right"), (ctypes.c_float, "softcap"),
    (_Strides, "q k v o"), (ctypes.c_int, "q_rows kv_rows"),
    (ctypes.c_int32, "rows_q rows_kv page_rows table_width"), (ctypes.c_uint32, "options"), (ctypes.c_int32, "split_rows"),
    (ctypes.c_void_p, "append"), (ctypes.c_int32, "chunk"), (ctypes.c_int, "kv_dtype"),
    (ctypes.c_char_p, "score_mod mask_mod"), (ctypes.c_int32, "head_dim_v"), (ctypes.c_uint32, "reserved"),
    (ctypes.c_int, "bias_dtype"), (ctypes.c_int32, "mask_keys"), (_Strides, "bias mask_bits"),
    (ctypes.c_int32, "block_rows block_keys block_width reserved_block"), (ctypes.c_int64, "block_batch block_head"),
    (ctypes.c_int32, "arrival_rows early_rows early_keys reserved_arrival"))
_AttentionBuffers = _structure(
    "_AttentionBuffers", (ctypes.c_uint32, "size"),
    (ctypes.c_uint64, "q k v o lse workspace q_descale k_descale v_descale starts_q starts_kv lengths_q lengths_kv "
                      "row_map left_pad page_table"), (ctypes.c_void_p, "append"), (ctypes.c_uint32, "launch reserved"),
    (ctypes.c_uint64, "sinks slopes"), (ctypes.c_uint64 * 8, "aux"),
    (ctypes.c_uint64, "bias mask_bits block_count full_count block_list full_list arrivals k_own v_own"))
_BlocksBuffers = _structure(
    "_BlocksBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "block_count full_count block_list full_list"),
    (ctypes.c_uint64 * 8, "aux"), (ctypes.c_uint32, "launch reserved"))
_AppendDesc = _structure(
    "_AppendDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"),
    (ctypes.c_int32, "batch seqlen_new seqlen_kv heads_kv heads_q head_dim rotary_dim positions"),
    (ctypes.c_int, "new_rows kv_rows"), (ctypes.c_int32, "rows_new rows_kv page_rows table_width"),
    (ctypes.c_uint32, "options"), (_Strides, "k_new v_new k v q q_out"), (ctypes.c_int, "kv_dtype"), (ctypes.c_uint32, "reserved"))
_AppendBuffers = _structure(
    "_AppendBuffers", (ctypes.c_uint32, "size"),
    (ctypes.c_uint64, "k_new v_new k v q q_out cos sin lengths_kv lengths_new starts_new row_map left_pad page_table"),
    (ctypes.c_uint32, "launch reserved"), (ctypes.c_uint64, "k_descale v_descale"))
_MergeDesc = _structure(
    "_MergeDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "batch seqlen_q heads_q head_dim"),
    (ctypes.c_uint32, "options"), (_Strides, "o_a o_b o"))
_MergeBuffers = _structure("_MergeBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "o_a lse_a o_b lse_b o lse"),
                           (ctypes.c_uint32, "launch reserved"))
_ParallelDesc = _structure(
    "_ParallelDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "shards"), (ctypes.c_void_p, "attention"), (ctypes.c_int, "way"),
    (ctypes.c_void_p, "starts"), (ctypes.c_float, "link_gbps"))
_ParallelBuffers = _structure(
    "_ParallelBuffers", (ctypes.c_uint32, "size reserved"), (ctypes.c_uint64, "q k v o lse workspace sinks slopes"),
    (ctypes.c_void_p, "stream"))
_DecodeBuffers = _structure(
    "_DecodeBuffers", (ctypes.c_uint32, "size reserved"), (ctypes.c_void_p, "attention"), (ctypes.c_uint64, "workspace"),
    (ctypes.c_void_p, "stream"))
_GemmDesc = _structure(
    "_GemmDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "m n k batch"),
    (ctypes.c_int, "order_a order_b"),
    (ctypes.c_int64, "stride_a stride_b stride_c stride_d batch_a batch_b batch_c batch_d"),
    (ctypes.c_bool, "has_c has_bias"), (ctypes.c_int, "activation dtype_ab scales"), (ctypes.c_int32, "groups"),
    (ctypes.c_int, "dtype_b"), (ctypes.c_bool, "norm_a"), (ctypes.c_float, "norm_eps"),
    (ctypes.c_uint32, "launch reserved"))
_GemmBuffers = _structure("_GemmBuffers", (ctypes.c_uint32, "size"), (ctypes.c_float, "alpha beta"),
                          (ctypes.c_uint64, "a b c d bias workspace"), (ctypes.c_uint32, "launch reserved"),
                          (ctypes.c_uint64, "scale_a scale_b group_starts norm_w"))
_RouteDesc = _structure(
    "_RouteDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "rows experts top_k"),
    (ctypes.c_uint32, "options"), (ctypes.c_int64, "stride"))
_RouteBuffers = _structure(
    "_RouteBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "logits starts sources places weights workspace"),
    (ctypes.c_uint32, "launch reserved"))
_CombineDesc = _structure(
    "_CombineDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "rows top_k columns"),
    (ctypes.c_uint32, "options"), (ctypes.c_int64, "stride_y stride_residual stride_out"))
_CombineBuffers = _structure(
    "_CombineBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "y places weights residual out"),
    (ctypes.c_uint32, "launch reserved"))
_GatherDesc = _structure(
    "_GatherDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "rows table_rows columns"),
    (ctypes.c_uint32, "reserved"), (ctypes.c_int64, "stride_table stride_y"))
_GatherBuffers = _structure("_GatherBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "ids table y"),
                            (ctypes.c_uint32, "launch reserved"))
_QuantiseDesc = _structure(
    "_QuantiseDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "rows columns"),
    (ctypes.c_uint32, "options reserved"), (ctypes.c_int64, "stride_x stride_codes"))
_QuantiseBuffers = _structure("_QuantiseBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "x codes scales"),
                              (ctypes.c_uint32, "launch reserved"))
_NormStrides = _structure("_NormStrides", (ctypes.c_int64, "row head"))
_NormDesc = _structure(
    "_NormDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "rows heads columns"),
    (ctypes.c_uint32, "options"), (ctypes.c_float, "eps"), (ctypes.c_uint32, "reserved"), (_NormStrides, "x r y"))
_NormBuffers = _structure("_NormBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "x w r y"),
                          (ctypes.c_uint32, "launch reserved"))
_SamplingRow = _structure(
    "_SamplingRow", (ctypes.c_float, "temperature top_p"), (ctypes.c_int32, "top_k"), (ctypes.c_uint32, "reserved"),
    (ctypes.c_uint64, "seed counter"))
_SamplingDesc = _structure(
    "_SamplingDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "rows vocabulary"),
    (ctypes.c_uint32, "options reserved"), (ctypes.c_int64, "stride"))
_SamplingBuffers = _structure("_SamplingBuffers", (ctypes.c_uint32, "size"), (ctypes.c_uint64, "logits parameters tokens"),
                              (ctypes.c_uint32, "launch reserved"))
_Symbol = _structure("_Symbol", (ctypes.c_char_p, "name"), (ctypes.c_int64, "value"))
_Words = ctypes.POINTER(ctypes.c_char_p)
_Source = _structure(
    "_Source", (ctypes.c_uint32, "size"), (ctypes.c_int, "language"), (ctypes.c_char_p, "path text"),
    (ctypes.c_size_t, "bytes"), (ctypes.POINTER(_Symbol), "symbols"), (ctypes.c_size_t, "symbol_count"),
    (_Words, "include_dirs"), (ctypes.c_size_t, "include_count"), (_Words, "options"),
    (ctypes.c_size_t, "option_count"), (_Words, "expressions"), (ctypes.c_size_t, "expression_count"))
_ProgramInfo = _structure(
    "_ProgramInfo", (ctypes.c_char * 16, "target"), (ctypes.c_char * 96, "compiler"), (ctypes.c_bool, "from_cache"),
    (ctypes.c_double, "front_ms compile_ms cache_ms load_ms"), (ctypes.c_size_t, "cubin_bytes"),
    (ctypes.c_char_p, "log"))
_Resources = _structure(
    "_Resources", (ctypes.c_int, "registers shared_bytes stack_bytes spill_store_bytes spill_load_bytes"),
    (ctypes.c_char * 480, "remarks"))
_FunctionInfo = _structure(
    "_FunctionInfo", (ctypes.c_char_p, "name"),
    (ctypes.c_int, "registers shared_bytes local_bytes constant_bytes max_threads"), (_Resources, "resources"))

_SIGNATURES: dict[str, tuple[Any, ...]] = {  # the result, then the arguments
    "ptxpack_open": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_detail": (ctypes.c_char_p, ctypes.c_void_p),
    "ptxpack_device": (ctypes.POINTER(_DeviceInfo), ctypes.c_void_p),
    "ptxpack_context": (ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_driver_open": (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
    "ptxpack_driver_path": (ctypes.c_char_p, ctypes.c_void_p),
    "ptxpack_status_name": (ctypes.c_char_p, ctypes.c_int),
    "ptxpack_status_string": (ctypes.c_char_p, ctypes.c_int),
    "ptxpack_attention_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_plan_free": (None, ctypes.c_void_p),
    "ptxpack_attention_workspace": (ctypes.c_size_t, ctypes.c_void_p),
    "ptxpack_attention_launch": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_reference": (ctypes.c_int,) + (ctypes.c_void_p,) * 7,
    "ptxpack_attention_append_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_append_plan_free": (None, ctypes.c_void_p),
    "ptxpack_attention_append": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_blocks_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_blocks_plan_free": (None, ctypes.c_void_p),
    "ptxpack_attention_blocks": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_merge_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_merge_plan_free": (None, ctypes.c_void_p),
    "ptxpack_attention_merge": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_parallel_id": (ctypes.c_int, ctypes.c_void_p),
    "ptxpack_parallel_join": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32,
                              ctypes.c_void_p),
    "ptxpack_parallel_devices": (ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p),
    "ptxpack_parallel_wait": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_parallel_free": (None, ctypes.c_void_p),
    "ptxpack_attention_parallel_chunk": (None,) + (ctypes.c_int,) * 5 + (ctypes.c_void_p,) * 2,
    "ptxpack_attention_parallel_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_parallel_plan_free": (None, ctypes.c_void_p),
    "ptxpack_attention_parallel_workspace": (ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int32),
    "ptxpack_attention_parallel_launch": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_parallel_decode_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_parallel_decode_plan_free": (None, ctypes.c_void_p),
    "ptxpack_parallel_decode_workspace": (ctypes.c_size_t, ctypes.c_void_p),
    "ptxpack_parallel_decode": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_gemm_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_gemm_plan_free": (None, ctypes.c_void_p),
    "ptxpack_gemm_workspace": (ctypes.c_size_t, ctypes.c_void_p),
    "ptxpack_gemm_launch": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_experts_route_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_experts_route_plan_free": (None, ctypes.c_void_p),
    "ptxpack_experts_route_workspace": (ctypes.c_size_t, ctypes.c_void_p),
    "ptxpack_experts_route": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_experts_combine_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_experts_combine_plan_free": (None, ctypes.c_void_p),
    "ptxpack_experts_combine": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_gather_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_gather_plan_free": (None, ctypes.c_void_p),
    "ptxpack_gather": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_quantise_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_quantise_plan_free": (None, ctypes.c_void_p),
    "ptxpack_quantise": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_dequantise_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_dequantise_plan_free": (None, ctypes.c_void_p),
    "ptxpack_dequantise": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_norm_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_norm_plan_free": (None, ctypes.c_void_p),
    "ptxpack_norm": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_sampling_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_sampling_plan_free": (None, ctypes.c_void_p),
    "ptxpack_sampling": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_vector_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p),
    "ptxpack_vector_plan_free": (None, ctypes.c_void_p),
    "ptxpack_vector_add": (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64,
                           ctypes.c_float, ctypes.c_float, ctypes.c_float, ctypes.c_uint64, ctypes.c_void_p),
    "ptxpack_program_unused": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_program_load": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_program_ptx": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_program_free": (None, ctypes.c_void_p),
    "ptxpack_program_describe": (ctypes.POINTER(_ProgramInfo), ctypes.c_void_p),
    "ptxpack_program_function": (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    "ptxpack_function_describe": (ctypes.POINTER(_FunctionInfo), ctypes.c_void_p),
    "ptxpack_function_launch": (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32 * 3, ctypes.c_uint32 * 3,
                                ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p),
}
_lock = threading.RLock()


# ---- where it lies -----------------------------------------------------------------------------------------
def _load_library() -> ctypes.CDLL:
    here = os.path.dirname(os.path.realpath(__file__))
    named = os.environ.get("PTXPACK_LIBRARY")
    names = ("libptxpack.so.0", "libptxpack.so", LIBRARY)
    places = [os.path.normpath(os.path.join(here, name)) for name in names] + ["libptxpack.so.0"]
    failure: Optional[OSError] = None
    for place in [named] if named else places:
        if not named and "/" in place and not os.path.exists(place):
            continue
        try:
            return ctypes.CDLL(place)
        except OSError as why:
            failure = why
    raise ImportError("ptxpack: %s; PTXPACK_LIBRARY may name libptxpack.so" % failure)


@functools.lru_cache(maxsize=None)
def _library() -> Any:
    lib = _load_library()
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib
