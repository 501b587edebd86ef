"""host_arrays.py - NumPy's arrays to Tensors and back.  numpy.sh runs it with ml_dtypes, and with WITHOUT_ML_DTYPES set as if that
were not installed."""
import ctypes
import os
import sys
import unittest

import numpy

if os.environ.get("WITHOUT_ML_DTYPES"):
    ml_dtypes = sys.modules["ml_dtypes"] = None  # an import of it fails
else:
    import ml_dtypes

import ptxpack  # noqa: E402

TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool", "u8": "uint8", "u16": "uint16",
         "u32": "uint32", "u64": "uint64", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64"}


def every(bits):
    """All numbers of so many bits."""
    return numpy.arange(1 << bits, dtype="uint%d" % bits)


class HostArrays(unittest.TestCase):
    def same(self, got, want):
        self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
        self.assertEqual(got.tobytes(), want.tobytes())

    def test_types_and_shapes(self):
        rng = numpy.random.default_rng(1)
        for kind, name in TYPES.items():
            for shape in ((), (1,), (0,), (3, 0, 2), (7,), (2, 3, 5)):
                with self.subTest((kind, shape)):
                    array = rng.integers(0, 2 if kind == "bool" else 100, shape).astype(name)
                    tensor = ptxpack.from_numpy(array)
                    self.assertEqual((tensor.dtype, tensor.shape, tensor.device), (kind, shape, 0))
                    self.same(tensor.numpy(), array)
                    self.same(numpy.asarray(tensor), array)
                    self.assertEqual(tensor.to_host(), array.tobytes())

    def test_order_of_memory(self):
        array = numpy.arange(24, dtype="int32").reshape(2, 3, 4)
        for view in (array.T, array[:, ::2], array[::-1], array.astype(">i4"), numpy.asfortranarray(array)):
            tensor = ptxpack.from_numpy(view)
            self.assertEqual(tensor.shape, view.shape)
            numpy.testing.assert_array_equal(tensor.numpy(), view)
            self.assertTrue(tensor.numpy().dtype.isnative)

    def test_what_is_no_array_yet(self):
        self.same(ptxpack.from_numpy([[1.5, 2.0]]).numpy(), numpy.array([[1.5, 2.0]]))
        self.same(ptxpack.from_numpy(numpy.float32(3)).numpy(), numpy.array(3, "float32"))

    def test_a_copy_each_time(self):
        array = numpy.ones(4, "float32")
        tensor = ptxpack.from_numpy(array)
        array[:] = 2
        first = tensor.numpy()
        first[:] = 3
        self.same(tensor.numpy(), numpy.ones(4, "float32"))

    def test_the_array_protocol(self):
        tensor = ptxpack.from_numpy(numpy.arange(4, dtype="float32"))
        self.same(numpy.asarray(tensor, dtype="int64"), numpy.arange(4))
        self.same(numpy.array(tensor), numpy.arange(4, dtype="float32"))
        self.assertEqual(float(numpy.sum(tensor)), 6.0)
        with self.assertRaisesRegex(ValueError, "its array is a copy"):
            tensor.__array__(copy=False)

    def test_strides(self):
        """A result that lies as its first argument, whose dimensions are permuted."""
        q = numpy.random.default_rng(2).standard_normal((1, 4, 9, 16)).astype("float16")
        tensors = [ptxpack.from_numpy(q) for _ in range(3)]
        want = ptxpack.attention(*tensors, layout="bhsd").numpy()
        for tensor, array in zip(tensors, [numpy.ascontiguousarray(q.transpose(0, 2, 1, 3))] * 3):
            tensor._upload(ctypes.c_void_p(array.ctypes.data))
            tensor.strides = (576, 16, 64, 1)
        got = ptxpack.attention(*tensors, layout="bhsd")
        self.assertEqual(got.strides, (576, 16, 64, 1))
        self.same(got.numpy(), want)

    def test_every_bf16_and_e4m3(self):
        for kind, bits in (("bf16", every(16)), ("e4m3", every(8))):
            tensor = ptxpack.from_numpy(bits, kind)
            self.assertEqual(tensor.dtype, kind)
            raw = "u%d" % (8 * bits.itemsize)
            self.same(tensor.numpy(raw), bits)
            wide = tensor.numpy("f32")
            self.assertEqual(wide.dtype, "float32")
            if ml_dtypes is None:
                with self.assertRaisesRegex(TypeError, "no %s without the package ml_dtypes: .*%s" % (kind, raw)):
                    tensor.numpy()
                with self.assertRaisesRegex(TypeError, "ml_dtypes"):
                    numpy.asarray(tensor)
                numpy.testing.assert_array_equal(numpy.asarray(tensor, dtype="float32"), wide)
                with open(os.environ["PTXPACK_CACHE_DIR"] + "/" + kind, "rb") as file:
                    self.assertEqual(file.read(), wide.tobytes())  # of the run with ml_dtypes
            else:
                theirs = {"bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn}[kind]
                self.same(tensor.numpy(), bits.view(theirs))
                self.same(numpy.asarray(tensor), bits.view(theirs))
                self.same(wide, bits.view(theirs).astype("float32"))
                self.same(ptxpack.from_numpy(bits.view(theirs)).numpy(raw), bits)
                with open(os.environ["PTXPACK_CACHE_DIR"] + "/" + kind, "wb") as file:
                    file.write(wide.tobytes())

    def test_rounding(self):
        rng = numpy.random.default_rng(3)
        numbers = rng.integers(0, 1 << 32, 100000, dtype="uint32").view("float32")
        ties = (every(16).astype("uint32") << 16 | 0x8000).view("float32")
        numbers = numpy.concatenate((numbers, ties, numpy.array([0, -0.0, numpy.inf, -numpy.inf, 3.4e38], "float32")))
        got = ptxpack.from_numpy(numbers, "bf16").numpy("u16")
        nan = numpy.isnan(numbers)
        self.assertTrue(numpy.all((got[nan] & 0x7fff) > 0x7f80))
        wide = (got.astype("uint32") << 16).view("float32")
        for step in (-1, 1):  # no neighbour is nearer, and of two that are as near the even one is taken
            with numpy.errstate(invalid="ignore"):
                other = ((got + numpy.uint16(step % 65536)).astype("uint32") << 16).view("float32").astype("float64")
                mine, theirs = (abs(x.astype("float64") - numbers) for x in (wide, other))
            fair = numpy.isfinite(mine) & numpy.isfinite(theirs)
            self.assertTrue(numpy.all((mine < theirs)[fair] | (mine == theirs)[fair] & (got % 2 == 0)[fair]))
        self.same(ptxpack.from_numpy(numpy.array(1.0), "bf16").numpy("u16"), numpy.array(0x3f80, "uint16"))
        self.same(ptxpack.from_numpy(numbers[~nan], "f16").numpy(), self.to_half(numbers[~nan]))
        self.same(ptxpack.from_numpy(numpy.array([1e300, 0.1]), "f32").numpy(), numpy.array([numpy.inf, 0.1], "float32"))

    @staticmethod
    def to_half(numbers):
        with numpy.errstate(over="ignore"):
            return numbers.astype("float16")

    def test_scalars_of_numpy(self):
        """As arguments of a kernel: converted by their values, or passed as bits where the type of the parameter is unknown."""
        text = """.version 7.0
.target sm_80
.address_size 64
.visible .entry put(.param .u64 out, .param .%s v)
{
        .reg .b64 %%o;  .reg .b%d %%v;
        ld.param.u64    %%o, [out];
        ld.param.b%d    %%v, [v];
        st.global.b%d   [%%o], %%v;
        ret;
}
"""
        scalars = [("u32", numpy.int64(5), numpy.uint32(5)), ("s16", numpy.int8(-5), numpy.int16(-5)),
                   ("f32", numpy.float64(0.1), numpy.float32(0.1)), ("f64", numpy.float32(0.5), numpy.float64(0.5)),
                   ("f32", numpy.int32(7), numpy.float32(7)), ("b16", numpy.float16(0.1), numpy.float16(0.1)),
                   ("b32", numpy.float32(0.1), numpy.float32(0.1)), ("b64", numpy.uint64(2**63), numpy.uint64(2**63))]
        if ml_dtypes is not None:
            scalars.append(("b16", ml_dtypes.bfloat16(0.1), ml_dtypes.bfloat16(0.1)))
        for kind, given, want in scalars:
            with self.subTest((kind, given)):
                out, bits = ptxpack.from_numpy(numpy.zeros(8, "uint8")), int(kind[1:])
                ptxpack.kernel("put.ptx", text=text % (kind, bits, bits, bits))(1, 1, out, given)
                self.assertEqual(out.to_host()[:bits // 8], want.tobytes())
        with self.assertRaisesRegex(ptxpack.ArgumentError, "takes an integer, not 2.5"):
            ptxpack.kernel("put.ptx", text=text % ("u32", 32, 32, 32))(1, 1, out, numpy.float32(2.5))
        with self.assertRaisesRegex(TypeError, "argument 1 is not in the memory of a CUDA device"):
            ptxpack.kernel("put.ptx", text=text % ("u32", 32, 32, 32))(1, 1, numpy.zeros(8, "uint8"), 1)

    def test_refusals(self):
        for array in (numpy.zeros(2, "complex64"), numpy.array(["a"]), numpy.array([None]), numpy.zeros(2, "datetime64[s]")):
            with self.assertRaisesRegex(TypeError, "an array of .* has no counterpart on a device"):
                ptxpack.from_numpy(array)
        for array, kind in ((numpy.zeros(2, "float32"), "e4m3"), (numpy.zeros(2, "int32"), "f32"),
                            (numpy.zeros(2, "uint8"), "bf16"), (numpy.zeros(2, "float32"), "f8")):
            with self.assertRaisesRegex(ptxpack.ArgumentError, "an array of %s cannot become a tensor of" % array.dtype):
                ptxpack.from_numpy(array, kind)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "a tensor of s32 gives no array of 'f32'"):
            ptxpack.from_numpy(numpy.zeros(2, "int32")).numpy("f32")
        with self.assertRaisesRegex(TypeError, "q is not in the memory of a CUDA device .*ptxpack.from_numpy copies"):
            ptxpack.attention(*[numpy.zeros((1, 1, 1, 16), "float16")] * 3)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "shape is .*no extent may be below 0"):
            ptxpack.empty((2, -1))


if __name__ == "__main__":
    unittest.main(verbosity=1)
