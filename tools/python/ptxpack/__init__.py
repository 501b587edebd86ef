"""ptxpack - the kernels of ptxpack on the arrays of PyTorch, CuPy, JAX and others, with ctypes alone.

    import ptxpack
    o = ptxpack.attention(q, k, v, causal=True)                   # [batch, sequence, head, dim]
    o, lse = ptxpack.attention(q, k, v, window=(1023, 0), softcap=30.0, layout="bhsd", return_lse=True)
    y = ptxpack.matmul(x, w, bias=bias, activation="gelu")        # activation(alpha x w + beta c + bias)
    z = ptxpack.vector_add(x, y, a=2.0, b=-1.0)                   # a x + b y + c
    print(ptxpack.info()["name"])

Calls
    attention(q, k, v, *, causal, window, softcap, scale, align, layout, dtype, out, lse, return_lse,
              q_descale, k_descale, v_descale, stream, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
              seqused_q, seqused_k, page_table, cache_batch_idx, leftpad_k, overlap, block_mask, ...)
    attention_with_kvcache(q, k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, ..., block_table, ...)
                                             flash-attn's flash_attn_with_kvcache: appends k and v to the cache, then attends
    attention_append(k_new, v_new, k, v, seqused_k, *, q, cos, sin, rope_pairs, rope_q_at_start, page_table, cache_batch_idx,
                     leftpad_k, cu_seqlens_new, max_seqlen_new, seqused_new, layout, dtype, kv_dtype, k_descale, v_descale, out,
                     stream, overlap)
                                             new rows to a cache, with rotary embedding
    attention_blocks(mask_mod, batch, heads, seqlen_q, seqlen_kv, *, causal, window, align, attention_chunk, block_size, aux, like,
                     device, stream)        lists of the blocks of keys that a mask leaves, for attention(block_mask=...)
    attention_merge(o_a, lse_a, o_b, lse_b, *, layout, dtype, out, lse, return_lse, stream, overlap)
                                             attention to two sets of keys, from that to each
    matmul(a, b, *, alpha, beta, c, bias, activation, group_starts, scale_a, scale_b, dtype, out, stream, overlap)
    experts_route(logits, top_k, *, normalise, dtype, out, stream, overlap)
                                             the experts of each row, and an order of the rows by expert, for matmul(group_starts=...)
    experts_combine(y, places, weights, *, residual, dtype, out, stream, overlap)
                                             the weighted sum of what the experts of each row made of it
    norm(x, weight, eps, residual, *, one_plus_weight, dtype, out, stream, overlap)
                                             RMSNorm of the last dimension, alone or after a residual, which it adds x to
    sample(logits, temperature, top_p, top_k, *, seed, counter, parameters, dtype, out, stream, overlap)
                                             a token of each row, greedy or drawn; sampling_parameters(rows, temperature, ...) makes
                                             parameters that one captured graph draws with again and again
    gather(table, ids, *, out, stream, overlap)
                                             rows of a table
    quantise(x, *, blocks, powers, dtype, out, scales, stream, overlap)
                                             a matrix as e4m3 with scales; dequantise(codes, scales, *, dtype, out, ...) is the way back
    vector_add(x, y, a, b, c, *, dtype, out, stream)
    kernel(file, entry=None, *, text, include, options, symbols, NAME=...)
                                             a kernel of your own in macro PTX or CUDA C++; call it with grid, block, arguments
    flash_attn                               a module with flash-attn's functions: a caller changes the line of its import
    torch.attention(q, k, v, ...)            after `import ptxpack.torch`: an operator that torch.compile traces
    torch.context_parallel(group)            after the same, under torchrun: sequences that several GPUs share
    parallel.DeviceGroup(devices)            after `import ptxpack.parallel`: the same of the GPUs of this process, also captured in a graph
    transformers.register()                  after `import ptxpack.transformers`: attn_implementation="ptxpack" of Hugging Face transformers
    from_numpy(array, dtype=None, device=0)  a Tensor with a copy of a NumPy array; its numpy() copies it back
    from_host(data, shape, dtype, device=0)  the same with bytes; its to_host() copies them back
    empty(shape, dtype, device=0)            a Tensor to write to
    info(device=0)                           a dictionary about a device and the compiler in use
    Each one's help() states its arguments; attention.h, append.h, blocks.h, merge.h, gemm.h, norm.h, sampling.h, experts.h, gather.h,
    quantise.h and vector.h state limits and errors.

Arrays   A call takes every array on a CUDA device that has __dlpack__ (1.x or older) or __cuda_array_interface__ (2, 3);
         tensors of PyTorch are read directly.  Nothing is copied.  The types are f16, bf16 and e4m3, also stored as uint16
         with dtype="bf16" and as uint8 with dtype="e4m3".  All strides of the C API are allowed: the last dimension is
         contiguous, the others are free.
Results  The results are arrays of the first argument's library if that is PyTorch, CuPy or JAX, otherwise a ptxpack.Tensor,
         which has __dlpack__, __cuda_array_interface__ and numpy().  With out= the result is that array.  There are no
         gradients.
NumPy    Arrays in host memory are copied by from_numpy(), and back by numpy() or numpy.asarray().  bf16 and e4m3 are types of
         the package ml_dtypes; without it numpy("f32") converts them, numpy("u16") and numpy("u8") return their bits.
Streams  Work is enqueued in order on `stream`: an integer handle or a library's stream object.  The default is PyTorch's or
         CuPy's current stream of the device, otherwise CUDA's default stream, ordered after the producer's work and before the
         consumer's as DLPack and __cuda_array_interface__ say.  With a `stream` that is not PyTorch's or CuPy's current one,
         keep the inputs until the work is done.  CUDA graphs may be captured: a captured launch gets scratch memory of its
         own, and a captured kernel stays loaded, until the process ends.
Devices  A call runs on the device of its first array, in the current context or else in the primary one.  All arrays are on
         one device.  Without a GPU set PTXPACK_DEVICE=emu in the environment: then the emulated driver runs everything.
Errors   Calls raise Error, with .status ("PTXPACK_E_DRIVER") and the library's line as its message.  ArgumentError is also a
         ValueError, Unsupported also a NotImplementedError.  An argument that is not such an array raises a TypeError.
Threads  Every thread may make every call at any time.
Library  The library is $PTXPACK_LIBRARY, else libptxpack.so in the folder of this module, else where it was built or installed
         with it, else where the dynamic linker finds it.  Plans and machine code are kept: only first calls are slow.
"""
from .library import ArgumentError, Error, Unsupported
from .append import attention_append
from .flash_attn import flash_attn_with_kvcache as attention_with_kvcache
from .blocks import attention_blocks
from .decoder import norm, sample, sampling_parameters
from .experts import Routes, experts_combine, experts_route, gather
from .lists import BlockLists
from .merge import attention_merge
from .operations import attention, info, vector_add
from .products import matmul
from .program import Kernel, kernel
from .quantise import dequantise, quantise
from .tensor import Tensor, empty, from_host, from_numpy

__version__ = "0.1.0"
__all__ = ["ArgumentError", "BlockLists", "Error", "Kernel", "Routes", "Tensor", "Unsupported", "__version__", "attention", "attention_append", "attention_blocks",
           "attention_merge", "attention_with_kvcache", "dequantise", "empty", "experts_combine", "experts_route", "from_host", "from_numpy", "gather",
           "info", "kernel", "matmul", "norm", "quantise", "sample", "sampling_parameters", "vector_add"]
