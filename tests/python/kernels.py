"""kernels.py - ptxpack.kernel on the emulated driver, with nothing but Python's own library; kernels.sh runs it, in whose folder
scale.ptx and scale.cu are those of README.md."""
import ctypes
import gc
import os
import pathlib
import struct
import subprocess
import sys
import threading
import unittest
import weakref

import ptxpack
from arrays import Interface, Lender, OldLender, driver, new_stream, pointer, u64, watched

FOLDER = pathlib.Path(os.environ["PTXPACK_TEST_FOLDER"])
N = 1000
PUT = """.version \\[ISA/10].\\[ISA%%10]
.target sm_\\[ARCH]
.address_size 64
.visible .entry put(.param .u64 out, .param %s)
{
        .reg .b64 %%o;  .reg .b%d %%v;
        ld.param.u64    %%o, [out];
        ld.param.b%d    %%v, [v];
        st.global.b%d   [%%o], %%v;
        ret;
}
"""


def numbers(values):
    return ptxpack.from_host(struct.pack("<%df" % len(values), *values), (len(values),), "f32")


def floats(tensor):
    return list(struct.unpack("<%df" % tensor.shape[0], tensor.to_host()))


def put(kind, value, declared=None):
    """The bytes of `value` as a kernel with a parameter of the type gets them."""
    size = int(kind[1:]) // 8
    text = PUT % (declared or ".%s v" % kind, max(8 * size, 16), 8 * size, 8 * size)
    out = ptxpack.from_host(bytes(16), (16,), "u8")
    ptxpack.kernel("put.ptx", text=text)(1, 1, out, value)
    return out.to_host()[:size]


class Common(unittest.TestCase):
    def setUp(self):
        ptxpack.program._kernels.cache_clear()
        self.scale = ptxpack.kernel(FOLDER / "scale.ptx", BLOCK=128, N=N)
        self.x = numbers(range(N))

    def refused(self, kind, pattern, call, *arguments, **options):
        with self.assertRaisesRegex(kind, pattern) as caught:
            call(*arguments, **options)
        self.assertNotIn("\n", str(caught.exception))
        return caught.exception


class Kernels(Common):
    # ---- arrays ----
    def test_tensors(self):
        y = ptxpack.empty((N,), "f32")
        for grid, block in ((8, 128), ((8,), (128,)), ((8, 1), [128, 1, 1])):
            y = ptxpack.empty((N,), "f32")
            self.assertIsNone(self.scale(grid, block, y, self.x))
            self.assertEqual(floats(y), [2.0 * i for i in range(N)])
        self.scale(8, 128, y, y)
        self.assertEqual(floats(y), [4.0 * i for i in range(N)])

    def test_arrays_of_others(self):
        for form in (Interface, Lender, OldLender):
            x, y = (form("f32", (N,), values) for values in (range(N), [0.0] * N))
            self.scale(8, 128, y, x)
            self.assertEqual(y.values(), [2.0 * i for i in range(N)])

    def test_types_that_the_library_has_no_name_for(self):
        x, y = (Interface("f64", (N // 2,), [0.0] * (N // 2)) for _ in range(2))
        self.scale(8, 128, y, x)

    def test_devices(self):
        x, y = (ptxpack.from_host(bytes(4 * N), (N,), "f32", device=1) for _ in range(2))
        self.scale(8, 128, y, x)
        self.assertEqual(floats(y), [0.0] * N)
        self.assertEqual(sorted(device.ordinal for device in self.scale._programs), [1])
        self.refused(ptxpack.ArgumentError, r"^parameter 2 of scale, x \(.u64\) is on device 0, argument 1 on device 1$",
                     self.scale, 8, 128, y, self.x)

    def test_streams(self):
        mine, other, y = new_stream(), new_stream(), ptxpack.empty((N,), "f32")
        self.scale(8, 128, y, self.x, stream=mine)
        with watched() as calls:
            self.scale(8, 128, self.x, y, stream=other)
        self.assertIn(("cuStreamWaitEvent", other), [call[:2] for call in calls])  # for both: either may be written
        self.assertEqual(y._stream, other)
        with watched() as calls:
            self.assertEqual(floats(self.x), [4.0 * i for i in range(N)])
        names = [name for name, *_ in calls]
        self.assertLess(names.index("cuEventSynchronize"), names.index("cuMemcpyDtoH_v2"))

    # ---- scalars ----
    def test_integers(self):
        for size in (8, 16, 32, 64):
            for value in (0, 1, 2**(size - 1) - 1, -1, -2**(size - 1)):
                for kind in "usb":
                    with self.subTest((kind, size, value)):
                        want = (value % 2**size).to_bytes(size // 8, "little")
                        self.assertEqual(put("%s%d" % (kind, size), value), want)
            self.assertEqual(put("u%d" % size, 2**size - 1), b"\xff" * (size // 8))
            for kind, value in (("u", 2**size), ("u", -2**(size - 1) - 1), ("s", 2**(size - 1))):
                self.refused(ptxpack.ArgumentError, r"^parameter 2 of put, v \(.%s%d\) takes numbers from -.*, not %d$" % (
                    kind, size, value), put, "%s%d" % (kind, size), value)
        self.assertEqual(put("u32", True), b"\1\0\0\0")

    def test_floats(self):
        for value in (1.5, -0.0, float("inf"), 3):
            self.assertEqual(put("f32", value), struct.pack("<f", value))
            self.assertEqual(put("f64", value), struct.pack("<d", value))
        self.assertEqual(put("b32", 1.5), struct.pack("<f", 1.5))
        self.assertEqual(put("b64", 1.5), struct.pack("<d", 1.5))
        self.refused(ptxpack.ArgumentError, r"^parameter 2 of put, v \(.f32\) has no number as large as 1e\+300$",
                     put, "f32", 1e300)
        self.refused(ptxpack.ArgumentError, r"^parameter 2 of put, v \(.u32\) takes an integer, not 1.5 \(bytes pass any bits\)$",
                     put, "u32", 1.5)
        self.refused(ptxpack.ArgumentError, r"v \(.b16\) takes bytes, a ctypes object or a NumPy scalar, not 1.5", put, "b16", 1.5)

    def test_bits(self):
        class Pair(ctypes.Structure):
            _fields_ = [("first", ctypes.c_uint32), ("second", ctypes.c_float)]
        pair = Pair(7, 1.5)
        declared = ".align 8 .b8 v[8]"
        self.assertEqual(put("b64", pair, declared), bytes(pair))
        self.assertEqual(put("b64", bytes(pair), declared), bytes(pair))
        self.assertEqual(put("u32", ctypes.c_float(1.5)), struct.pack("<f", 1.5))
        self.assertEqual(put("u64", None), bytes(8))
        self.refused(ptxpack.ArgumentError, r"v \(.b8\[\]\) has 8 bytes: it takes bytes or a ctypes object, not 3",
                     put, "b64", 3, declared)
        self.refused(ptxpack.ArgumentError, r"v \(.u32\) has 4 bytes, not the 3 of b'abc'", put, "u32", b"abc")
        self.refused(ptxpack.ArgumentError, r"v \(.u32\) has 4 bytes, not the 8 of None", put, "u32", None)
        self.refused(ptxpack.ArgumentError, r"v \(.u32\) has 4 bytes, and takes no address", put, "u32", self.x)

    def test_parameters(self):
        """Written in many ways, with comments among them."""
        text = """.version 7.0
.target sm_70
.address_size 64
.visible .entry other(.param .u64 a) { ret; }
.visible .entry many ( // the first ) is a comment
    .param .u64 .ptr .global .align 16 many_out, /* .param .u8 b, */
    .param .align 4 .b8 many_pair[8],
    .param .f32 v)
{
    .reg .b64 %o; .reg .b32 %v;
    ld.param.u64 %o, [many_out];
    ld.param.b32 %v, [many_pair+4];
    st.global.b32 [%o], %v;
    ld.param.b32 %v, [v];
    st.global.b32 [%o+4], %v;
    ret;
}
.visible .entry none() { ret; }
"""
        out = ptxpack.from_host(bytes(8), (8,), "u8")
        ptxpack.kernel("many.ptx", "many", text=text)(1, 1, out, b"1234abcd", 2)
        self.assertEqual(out.to_host(), b"abcd" + struct.pack("<f", 2))
        ptxpack.kernel("many.ptx", "none", text=text)(1, 32)
        self.refused(ptxpack.ArgumentError, "many.ptx.*other, many, none|other.*many.*none",
                     ptxpack.kernel("many.ptx", "nobody", text=text), 1, 1)

    # ---- refusals ----
    def test_arguments(self):
        wrong, y = ptxpack.ArgumentError, ptxpack.empty((N,), "f32")
        self.refused(wrong, r"^parameter 2 of scale, x \(.u64\) has no argument: 1 were given, 2 are wanted$", self.scale, 8, 128, y)
        self.refused(wrong, r"^scale has 2 parameters, and 3 were given$", self.scale, 8, 128, y, y, 1)
        self.refused(TypeError, r"^parameter 2 of scale, x \(.u64\) takes an array on a device, .*, not a str$",
                     self.scale, 8, 128, y, "x")
        self.refused(wrong, r"grid \(8, 0\): 0 is not from 1 to 2147483647", self.scale, (8, 0), 128, y, y)
        self.refused(wrong, "block is .1, 1, 1, 1., and must be one to three numbers", self.scale, 8, (1, 1, 1, 1), y, y)
        self.refused(TypeError, "grid is 8.0, and must be of integers", self.scale, 8.0, 128, y, y)
        self.refused(wrong, "shared is -1", self.scale, 8, 128, y, y, shared=-1)
        error = self.refused(ptxpack.Error, "4096", self.scale, 8, 4096, y, y)
        self.assertEqual(error.status, "PTXPACK_E_LAUNCH")

    def test_sources(self):
        wrong = ptxpack.ArgumentError
        self.refused(FileNotFoundError, "^none.ptx: there is no such file$", ptxpack.kernel, "none.ptx")
        for name in ("scale.ptx", "scale.cu"):  # a misspelt symbol would change nothing
            misspelt = ptxpack.kernel(FOLDER / name, **({"BLOCK": 128, "N": N} if name == "scale.ptx" else {}), BLOK=256)
            self.refused(wrong, "^symbol BLOK: .*%s does not use it$" % name, misspelt.describe)
        self.refused(wrong, "^scale.txt: the name of a kernel's file ends with .ptx or .cu$", ptxpack.kernel, "scale.txt")
        self.refused(wrong, "^BLOCK is 1.5, and must be an integer", ptxpack.kernel, FOLDER / "scale.ptx", BLOCK=1.5)
        self.refused(wrong, "options", ptxpack.kernel("a.ptx", text="", options=["-w"]).describe)
        error = self.refused(ptxpack.Error, "scale.ptx:.*BLOCK", ptxpack.kernel(FOLDER / "scale.ptx", N=N).describe)
        self.assertEqual(error.status, "PTXPACK_E_EXPAND")
        text = (FOLDER / "scale.ptx").read_text().replace("add.f32", "add.q32")
        line = 1 + text[:text.index("add.q32")].count("\n")
        error = self.refused(ptxpack.Error, "broken.ptx:%d" % line, ptxpack.kernel("broken.ptx", text=text, N=1, BLOCK=1).describe)
        self.assertIn(error.status, ("PTXPACK_E_COMPILE", "PTXPACK_E_CUBIN"))

    def test_includes(self):
        folder = FOLDER / "parts"
        folder.mkdir()
        (folder / "twice.ptx").write_text(".macro TWICE v\n        add.f32 \\v, \\v, \\v;\n.endm\n")
        text = '.include "twice.ptx"\n' + (FOLDER / "scale.ptx").read_text().replace("add.f32         %v, %v, %v;", "TWICE %v")
        y = ptxpack.empty((N,), "f32")
        ptxpack.kernel(FOLDER / "other.ptx", text=text, include=[folder], symbols={"BLOCK": 128, "N": N})(8, 128, y, self.x)
        self.assertEqual(floats(y)[-1], 2.0 * (N - 1))
        self.refused(ptxpack.Error, "twice.ptx", ptxpack.kernel(FOLDER / "other.ptx", text=text, BLOCK=128, N=N).describe)

    def test_a_kernel_that_fails(self):
        """In a process of its own, whose context is lost: the judge finds that x was never written."""
        program = ("import ptxpack\nscale = ptxpack.kernel(%r, BLOCK=128, N=%d)\n"
                   "x, y = (ptxpack.empty((%d,), 'f32') for _ in range(2))\n"
                   "try:\n    scale(8, 128, y, x)\n    y.to_host()\n"
                   "except ptxpack.Error as error:\n    print(error.status, error)" % (str(FOLDER / "scale.ptx"), N, N))
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertRegex(run.stdout, r"^PTXPACK_E_DRIVER scale failed: .*CUDA_ERROR_LAUNCH_FAILED \(719\)$")
        self.assertRegex(run.stderr, r"uninitialised: .*scale.ptx:")

    # ---- programs ----
    def test_describe(self):
        found = self.scale.describe()
        self.assertEqual((found["name"], found["target"], found["spill_bytes"]), ("scale", "sm_90", 0))
        self.assertGreater(found["registers"], 0)
        self.assertRegex(repr(self.scale), r"^ptxpack.kernel\('.*scale.ptx', BLOCK=128, N=1000\)$")

    def test_kernels_are_kept(self):
        """Until the file or an argument is another."""
        path = FOLDER / "kept.ptx"
        path.write_text((FOLDER / "scale.ptx").read_text())
        first = ptxpack.kernel(path, BLOCK=128, N=N)
        self.assertIs(ptxpack.kernel(str(path), N=N, symbols={"BLOCK": 128}), first)
        self.assertIsNot(ptxpack.kernel(path, BLOCK=64, N=N), first)
        y = ptxpack.empty((N,), "f32")
        first(8, 128, y, self.x)
        path.write_text(path.read_text().replace("add.f32         %v, %v, %v;", "add.f32  %v, %v, 1.0;"))
        again = ptxpack.kernel(path, BLOCK=128, N=N)
        again(8, 128, y, self.x)
        self.assertEqual(floats(y), [i + 1.0 for i in range(N)])

    def test_threads(self):
        results, y = [], [ptxpack.empty((N,), "f32") for _ in range(4)]

        def work(n):
            self.scale(8, 128, y[n], self.x)
            results.append(floats(y[n])[-1])
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [2.0 * (N - 1)] * 4)
        self.assertEqual(len(self.scale._programs), 1)

    def test_programs_are_freed(self):
        y = ptxpack.empty((N,), "f32")
        self.scale(8, 128, y, self.x)
        program, = self.scale._programs.values()
        ended = weakref.ref(program)
        del program
        with watched() as calls:
            self.scale = None
            gc.collect()
            self.assertIsNotNone(ended())  # the next kernel() of the same arguments has it
            ptxpack.program._kernels.cache_clear()
            gc.collect()
        self.assertIsNone(ended())
        self.assertIn("cuCtxSynchronize", [name for name, *_ in calls])

    def test_capture(self):
        """A graph that outlives its kernel."""
        stream, graph, program = new_stream(), pointer(), pointer()
        y = Interface("f32", (N,), [0.0] * N)
        x = Interface("f32", (N,), range(N))
        self.scale(8, 128, y, x)  # loaded before
        y.write(bytes(4 * N))
        driver("cuStreamBeginCapture_v2", pointer(stream), 0)
        self.scale(8, 128, y, x, stream=stream)
        driver("cuStreamEndCapture", pointer(stream), ctypes.byref(graph))
        self.assertEqual(y.values(), [0.0] * N)
        self.scale = None
        ptxpack.program._kernels.cache_clear()
        gc.collect()
        driver("cuGraphInstantiateWithFlags", ctypes.byref(program), graph, u64(0))
        driver("cuGraphLaunch", program, pointer(stream))
        driver("cuStreamSynchronize", pointer(stream))
        self.assertEqual(y.values(), [2.0 * i for i in range(N)])


def has_nvrtc():
    try:
        ptxpack.kernel("none.cu", text="__global__ void none() {}").describe()
    except ptxpack.Error as error:
        if error.status != "PTXPACK_E_NO_NVRTC":
            raise
        return False
    return True


class Cuda(Common):
    SOURCE = """
namespace { __device__ float twice(float v) { return v * FACTOR; } }
__global__ void plain(float *y, const float *x, int n, float add, bool negate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = (negate ? -1 : 1) * twice(x[i]) + add;
}
extern "C" __global__ void other(float *y) { *y = 1; }
"""

    def test_templates(self):
        y = ptxpack.empty((N,), "f32")
        ptxpack.kernel(FOLDER / "scale.cu", "scale<float>")(8, 128, y, self.x)
        self.assertEqual(floats(y), [2.0 * i for i in range(N)])

    def test_scalars(self):
        plain = ptxpack.kernel("plain.cu", "plain", text=self.SOURCE, FACTOR=3)  # by its name before it is mangled
        y = ptxpack.empty((N,), "f32")
        plain(8, 128, y, self.x, N, 1, True)
        self.assertEqual(floats(y), [1.0 - 3.0 * i for i in range(N)])
        plain(8, 128, y, self.x, -1, 0.5, False)
        self.assertEqual(floats(y)[0], 1.0)
        self.refused(ptxpack.ArgumentError, r"^parameter 3 of _Z5plain.*\(.u32\) takes an integer, not 1.5", plain, 8, 128, y, y,
                     1.5, 1, True)
        ptxpack.kernel("plain.cu", "other", text=self.SOURCE, FACTOR=3)(1, 1, y)
        self.refused(ptxpack.ArgumentError, "nobody", ptxpack.kernel("plain.cu", "nobody", text=self.SOURCE, FACTOR=3).describe)

    def test_errors(self):
        error = self.refused(ptxpack.Error, r"plain.cu:2.*FACTOR", ptxpack.kernel("plain.cu", "plain", text=self.SOURCE).describe)
        self.assertEqual(error.status, "PTXPACK_E_COMPILE")

    def test_options(self):
        text = "__global__ void check() { static_assert(FLAG == 5, \"\"); }"
        ptxpack.kernel("check.cu", text=text, options=["-DFLAG=5"]).describe()


if __name__ == "__main__":
    driver("cuInit", 0)
    context = pointer()
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    driver("cuCtxPushCurrent_v2", context)
    if not has_nvrtc():
        print("SKIP: python/kernels: no NVRTC: only PTX was tested")
        del Cuda
    unittest.main(verbosity=1)
