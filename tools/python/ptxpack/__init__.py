"""ptxpack - the kernels of ptxpack on the arrays of PyTorch, CuPy, JAX and others, with ctypes alone.

    import ptxpack
    o = ptxpack.attention(q, k, v, causal=True)                   # [batch, sequence, head, dim]
    o, lse = ptxpack.attention(q, k, v, window=(1023, 0), softcap=30.0, layout="bhsd", return_lse=True)
    y = ptxpack.matmul(x, w, bias=bias, activation="gelu")        # activation(alpha x w + beta c + bias)
    z = ptxpack.vector_add(x, y, a=2.0, b=-1.0)                   # a x + b y + c
    print(ptxpack.info()["name"])

Calls
    attention(q, k, v, *, causal, window, softcap, scale, align, layout, dtype, out, lse, return_lse,
              q_descale, k_descale, v_descale, stream)
    matmul(a, b, *, alpha, beta, c, bias, activation, dtype, out, stream)
    vector_add(x, y, a, b, c, *, dtype, out, stream)
    from_host(data, shape, dtype, device=0)  a Tensor of bytes, for who has none of these libraries; its
                                             to_host() gives them back
    info(device=0)                           a dictionary about a device and the compiler in use
    Each one's help() states its arguments; host/attention/attention.h, gemm.h and vector.h state limits and errors.

Arrays   Whatever has __dlpack__ (1.x or older) or __cuda_array_interface__ (2, 3) on a CUDA device;
         PyTorch's tensors are read directly.  Nothing is copied.  f16, bf16 and e4m3, also as uint16 and
         uint8 with dtype="bf16" and dtype="e4m3".  Any strides that the C API takes: the last dimension is
         contiguous, the others are free.
Results  Arrays of the first argument's library: PyTorch, CuPy, JAX; for other arrays a ptxpack.Tensor, which
         has __dlpack__ and __cuda_array_interface__.  With out= that array.  There are no gradients.
Streams  The work is enqueued, in order, on `stream`: an integer handle or a library's stream object; without
         one, on PyTorch's or CuPy's current stream of the device, otherwise on CUDA's default stream, ordered
         after the producer's work and before the consumer's as DLPack and __cuda_array_interface__ say.  With
         a `stream` that is not PyTorch's or CuPy's current one, keep the inputs until the work is done.
         CUDA graphs may be captured: a captured launch gets scratch memory of its own, which stays until the
         process ends.
Devices  The device of the first argument: its current context, else its primary one.  All arrays are on one.
Errors   Error, with .status ("PTXPACK_E_DRIVER") and the library's line as its message; ArgumentError and
         Unsupported are also a ValueError and a NotImplementedError.  What is no array of such a kind is a
         TypeError.
Threads  Every call may be made by any thread at any time.
Library  $PTXPACK_LIBRARY, else libptxpack.so.0 in the folder of this module, else where it was built or installed
         with it, else where the dynamic linker finds it.  Plans and machine code are kept: only first calls
         are slow.
"""
from .library import ArgumentError, Error, Unsupported
from .operations import attention, from_host, info, matmul, vector_add
from .tensor import Tensor

__all__ = ["ArgumentError", "Error", "Tensor", "Unsupported", "attention", "from_host", "info",
           "matmul", "vector_add"]
