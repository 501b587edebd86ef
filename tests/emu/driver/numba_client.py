"""numba_client.py - kernels of numba-cuda on the emulated driver, each against NumPy.

numba-cuda with nvJitLink makes machine code, which the emulated driver cannot execute; without it, it hands PTX to the
driver's linker.  hide_nvjitlink is for machines where nvJitLink is installed: it takes the place of its absence.
"""
import math
import sys
import warnings


def hide_nvjitlink():
    import cuda.core._linker as linker
    import numba.cuda.cudadrv.driver as numba_driver
    import numba.cuda.decorators as decorators
    from cuda.bindings import driver

    linker._use_nvjitlink_backend, linker._driver = False, driver
    numba_driver._have_nvjitlink = decorators._have_nvjitlink = lambda: False


hide_nvjitlink()
import numpy as np  # noqa: E402
from numba import cuda, float32, vectorize  # noqa: E402

warnings.simplefilter("ignore")  # small grids
rng = np.random.default_rng(1)


def vector_add():
    @cuda.jit
    def kernel(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    a, b = rng.random((2, 1000), dtype=np.float32)
    c = np.zeros_like(a)
    kernel[4, 256](a, b, c)
    assert (c == a + b).all()


def reduction():
    @cuda.jit
    def kernel(a, out):
        part = cuda.shared.array(128, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        part[t] = a[i] if i < a.size else 0
        cuda.syncthreads()
        width = 64
        while width:
            if t < width:
                part[t] += part[t + width]
            cuda.syncthreads()
            width //= 2
        if t == 0:
            cuda.atomic.add(out, 0, part[0])

    a, out = np.arange(1000, dtype=np.float32), np.zeros(1, np.float32)
    kernel[8, 128](a, out)
    assert out[0] == a.sum()
    numbers = np.arange(1234, dtype=np.float64)
    assert cuda.reduce(lambda x, y: x + y)(numbers) == numbers.sum()


def atomics():
    @cuda.jit
    def kernel(a, histogram, most):
        i = cuda.grid(1)
        if i < a.size:
            cuda.atomic.add(histogram, a[i] % 10, 1)
            cuda.atomic.max(most, 0, a[i])

    a = rng.integers(0, 1000, 500).astype(np.int32)
    histogram, most = np.zeros(10, np.int32), np.zeros(1, np.int32)
    kernel[4, 128](a, histogram, most)
    assert (histogram == np.bincount(a % 10, minlength=10)).all() and most[0] == a.max()


def mathematics():
    @cuda.jit
    def kernel(a, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = math.sqrt(a[i]) + math.exp(-a[i]) + math.sin(a[i])

    @vectorize(["float32(float32, float32)"], target="cuda")
    def multiply_add(x, y):
        return x * y + 1

    a = rng.random(300)
    c = np.zeros_like(a)
    kernel[3, 128](a, c)
    assert np.allclose(c, np.sqrt(a) + np.exp(-a) + np.sin(a), rtol=1e-12)
    b = a.astype(np.float32)
    assert np.allclose(multiply_add(b, b), b * b + 1)


def shuffles():
    @cuda.jit
    def kernel(a, out):
        t = cuda.threadIdx.x
        value = a[t]
        for distance in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, distance)
        if t == 0:
            out[0] = value

    a, out = np.arange(32, dtype=np.int32), np.zeros(1, np.int32)
    kernel[1, 32](a, out)
    assert out[0] == a.sum()


def memory():
    @cuda.jit
    def double(a):
        i, j = cuda.grid(2)
        if i < a.shape[0] and j < a.shape[1]:
            a[i, j] *= 2

    a = rng.random((17, 33))
    on_device, stream, event = cuda.to_device(a), cuda.stream(), cuda.event()
    double[(2, 3), (16, 16), stream](on_device)
    event.record(stream)
    event.synchronize()
    assert (on_device.copy_to_host() == 2 * a).all()
    managed = cuda.managed_array((4, 4), np.float32)
    managed[:] = 3
    double[(1, 1), (4, 4)](managed)
    cuda.synchronize()
    assert (managed == 6).all()


def race():
    @cuda.jit
    def kernel(a):
        a[0] = cuda.threadIdx.x

    try:
        kernel[1, 64](np.zeros(1, np.int32))
        cuda.synchronize()
    except cuda.cudadrv.driver.CudaAPIError as error:
        assert "719" in str(error), error
        return
    raise AssertionError("the race was not found")


parts = (race,) if sys.argv[1:] == ["race"] else (vector_add, reduction, atomics, mathematics, shuffles, memory)
for part in parts:
    part()
    print(f"numba-cuda: {part.__name__} is right")
