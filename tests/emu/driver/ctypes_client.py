"""ctypes_client.py - a client of the plain Driver API that knows nothing of ptxpack: Python's ctypes, a library
that is found as libcuda.so.1, and PTX as text.  Prints what it did; the exit status is 1 when anything is
wrong."""
import ctypes
import struct
import sys

PTX = rb"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry vector_add(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32  %r<6>;
    .reg .b64  %a<8>;
    .reg .f32  %f<4>;
    ld.param.u64 %a1, [x];
    ld.param.u64 %a2, [y];
    ld.param.u64 %a3, [z];
    ld.param.u32 %r1, [n];
    mov.u32      %r2, %ctaid.x;
    mov.u32      %r3, %ntid.x;
    mov.u32      %r4, %tid.x;
    mad.lo.u32   %r5, %r2, %r3, %r4;
    setp.ge.u32  %p, %r5, %r1;
    @%p bra      done;
    mul.wide.u32 %a4, %r5, 4;
    add.u64      %a5, %a1, %a4;
    add.u64      %a6, %a2, %a4;
    add.u64      %a7, %a3, %a4;
    ld.global.f32 %f1, [%a5];
    ld.global.f32 %f2, [%a6];
    add.f32      %f3, %f1, %f2;
    st.global.f32 [%a7], %f3;
done:
    ret;
}
"""
BAD = PTX.replace(b"add.f32 ", b"frobnicate.f32 ")
N, THREADS = 1000, 128

cuda = ctypes.CDLL("libcuda.so.1")
u32, u64, size_t, pointer = ctypes.c_uint, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


def check(result, what):
    if result:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(result, ctypes.byref(name))
        sys.exit("%s: %s (%d)" % (what, (name.value or b"?").decode(), result))


def expect(condition, what):
    if not condition:
        sys.exit("wrong: " + what)


def buffer_of(values):
    address = u64()
    data = struct.pack("%df" % len(values), *values)
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), size_t(len(data))), "cuMemAlloc")
    check(cuda.cuMemcpyHtoD_v2(address, data, size_t(len(data))), "cuMemcpyHtoD")
    return address


def read(address, count):
    data = ctypes.create_string_buffer(4 * count)
    check(cuda.cuMemcpyDtoH_v2(data, address, size_t(4 * count)), "cuMemcpyDtoH")
    return struct.unpack("%df" % count, data.raw)


def launch(function, values, extra):
    """By an array of pointers, or by the block of CU_LAUNCH_PARAM_BUFFER_POINTER."""
    arguments, packed, words = None, None, None
    if extra:
        block = struct.pack("QQQI", *[v.value for v in values])
        block_bytes = size_t(len(block))
        words = (pointer * 5)(1, ctypes.cast(ctypes.c_char_p(block), pointer), 2,
                              ctypes.cast(ctypes.byref(block_bytes), pointer), None)
        packed = (block, block_bytes)
    else:
        arguments = (pointer * len(values))(*[ctypes.cast(ctypes.byref(v), pointer) for v in values])
    result = cuda.cuLaunchKernel(function, (N + THREADS - 1) // THREADS, 1, 1, THREADS, 1, 1, 0, None,
                                 arguments, words)
    del packed
    check(result, "cuLaunchKernel")
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")


def main():
    device, context, module, function = ctypes.c_int(), pointer(), pointer(), pointer()
    name, count = ctypes.create_string_buffer(100), ctypes.c_int()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDeviceGetName(name, 100, device), "cuDeviceGetName")
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
    refused = cuda.cuModuleLoadData(ctypes.byref(module), BAD)
    expect(refused == 218, "PTX that cannot be compiled was answered %d" % refused)
    check(cuda.cuModuleLoadData(ctypes.byref(module), PTX), "cuModuleLoadData")
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"vector_add"), "cuModuleGetFunction")
    absent = cuda.cuModuleGetFunction(ctypes.byref(pointer()), module, b"other")
    expect(absent == 500, "a function that is not there was answered %d" % absent)

    x, y = [0.25 * i for i in range(N)], [float(7 - i) for i in range(N)]
    a, b = buffer_of(x), buffer_of(y)
    for extra in (False, True):
        c = buffer_of([0.0] * (N + 8))
        launch(function, [a, b, c, u32(N)], extra)
        got = read(c, N + 8)
        expect(list(got[:N]) == [p + q for p, q in zip(x, y)], "the sums")
        expect(not any(got[N:]), "bytes behind the sums were written")
        check(cuda.cuMemFree_v2(c), "cuMemFree")
    check(cuda.cuModuleUnload(module), "cuModuleUnload")
    check(cuda.cuCtxDestroy_v2(context), "cuCtxDestroy")
    print("%s: %d sums are right, twice, of %d device(s)" % (name.value.decode(), N, count.value))


main()
