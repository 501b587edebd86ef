"""cupy_client.py - CuPy on the emulated driver, each result against NumPy.

CuPy's wheels contain NVIDIA's runtime, which ends at the emulated driver.  It is enough to build one module of CuPy anew,
with the shared runtime (CuPy 14.2.0, CUDA 13.0, Cython 3.1; in a checkout of CuPy's tag v14.2.0):

    cat > one.py <<END
    from Cython.Build import cythonize
    from setuptools import Extension
    cythonize([Extension("cupy_backends.cuda.api.runtime", ["cupy_backends/cuda/api/runtime.pyx"], language="c++")],
              compile_time_env={"CUPY_CUDA_VERSION": 13000, "CUPY_HIP_VERSION": 0, "CUPY_USE_CUDA_PYTHON": False},
              compiler_directives={"language_level": 3}, force=True)
    END
    python3 one.py
    g++ -O1 -w -fPIC -shared -DCUPY_CUDA_VERSION=13000 -I. -Icupy_backends -I/usr/local/cuda/include \\
        $(python3-config --includes) cupy_backends/cuda/api/runtime.cpp -L/usr/local/cuda/lib64 -lcudart -o runtime.so

and to put runtime.so in the place of cupy_backends/cuda/api/runtime.*.so of cupy-cuda13x.  The environment must have
CUPY_COMPILE_WITH_PTX=1 (NVRTC makes PTX in place of machine code) and CUPY_ACCELERATORS= (no CUB, which is another module
with NVIDIA's runtime).  The calls that the emulated runtime lacks are bound when they are used, hence setdlopenflags.
"""
import os
import sys

sys.setdlopenflags(os.RTLD_LAZY)
import cupy  # noqa: E402
import numpy as np  # noqa: E402

N = 1000
on_host = np.arange(N, dtype=np.float32)


def elementwise():
    x = cupy.arange(N, dtype=cupy.float32)
    assert (x.get() == on_host).all()
    assert ((x * 2 + 1).get() == on_host * 2 + 1).all()
    assert np.allclose(cupy.exp(-x).get(), np.exp(-on_host), rtol=1e-5)
    assert (cupy.where(x > 50, x, 0).get() == np.where(on_host > 50, on_host, 0)).all()
    square = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "square")
    assert (square(x, cupy.float32(3)).get() == (on_host - 3) ** 2).all()
    table = x.reshape(10, 100)
    assert (table.T[2:50, ::2].copy().get() == on_host.reshape(10, 100).T[2:50, ::2]).all()


def fusion():
    @cupy.fuse()
    def wave(x, y):
        return cupy.sin(x) * y + 1

    x = cupy.linspace(0, 1, 50)
    assert np.allclose(wave(x, x).get(), np.sin(x.get()) * x.get() + 1)


def reductions():
    x = cupy.arange(N, dtype=cupy.float32)
    assert float(x.sum()) == on_host.sum()
    assert float(x.max()) == N - 1 and int(x.argmin()) == 0
    assert (x.reshape(10, 100).sum(axis=1).get() == on_host.reshape(10, 100).sum(axis=1)).all()
    assert (cupy.cumsum(cupy.arange(500)).get() == np.cumsum(np.arange(500))).all()
    norm = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2_norm")
    assert np.allclose(float(norm(x.astype(cupy.float64))), np.linalg.norm(on_host.astype(np.float64)))


def raw():
    add = cupy.RawKernel(
        r"""extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
        { int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }""", "add")
    a = cupy.arange(N, dtype=cupy.float32)
    c = cupy.zeros_like(a)
    add((8,), (128,), (a, a, c, np.int32(N)))
    assert (c.get() == 2 * on_host).all()


for part in (elementwise, fusion, reductions, raw):
    part()
    print(f"CuPy: {part.__name__} is right")
