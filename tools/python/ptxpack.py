"""ptxpack.py - ptxpack's kernels on the arrays of PyTorch, CuPy, JAX and others: one file, ctypes alone.

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
Library  $PTXPACK_LIBRARY, else libptxpack.so.0 beside this file, else where it was built or installed with
         this file, else where the dynamic linker finds it.  Plans and machine code are kept: only first calls
         are slow.
"""
import collections
import contextlib
import ctypes
import functools
import math
import operator
import os
import sys
import threading

__all__ = ["ArgumentError", "Error", "Tensor", "Unsupported", "attention", "from_host", "info",
           "matmul", "vector_add"]
LIBRARY = "../../build/libptxpack.so"  # from this file's folder; `make install` writes its own here

F16, BF16, E4M3 = 1, 2, 3  # ptxpack_dtype
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2  # CUDA's handles; 0 is the first as well


# ---- errors ------------------------------------------------------------------------------------------------
class Error(RuntimeError):
    """A call of the library or of the driver failed; .status is the status by name."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status


class ArgumentError(Error, ValueError):
    """An argument is out of its range."""

    def __init__(self, detail, status="PTXPACK_E_ARG"):
        super().__init__(status, detail)


class Unsupported(Error, NotImplementedError):
    """The request is valid, but no kernel of this device covers it."""


def _raise(lib, status, detail):
    name = lib.ptxpack_status_name(status).decode()
    text = detail.decode(errors="replace") or lib.ptxpack_status_string(status).decode()
    if name == "PTXPACK_E_ARG":
        raise ArgumentError(text)
    raise (Unsupported if name == "PTXPACK_E_UNSUPPORTED" else Error)(name, text)


# ---- the library: loader/loader.h, host/attention/attention.h, gemm.h, vector.h --------------------------------------
def _structure(name, *fields):
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
    (_Strides, "q k v o"))
_AttentionBuffers = _structure(
    "_AttentionBuffers", (ctypes.c_uint32, "size"),
    (ctypes.c_uint64, "q k v o lse workspace q_descale k_descale v_descale"))
_GemmDesc = _structure(
    "_GemmDesc", (ctypes.c_uint32, "size"), (ctypes.c_int, "dtype"), (ctypes.c_int32, "m n k batch"),
    (ctypes.c_int, "order_a order_b"),
    (ctypes.c_int64, "stride_a stride_b stride_c stride_d batch_a batch_b batch_c batch_d"),
    (ctypes.c_bool, "has_c has_bias"), (ctypes.c_int, "activation"))
_GemmBuffers = _structure("_GemmBuffers", (ctypes.c_uint32, "size"), (ctypes.c_float, "alpha beta"),
                          (ctypes.c_uint64, "a b c d bias workspace"))

_SIGNATURES = {
    "ptxpack_open": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_detail": (ctypes.c_char_p, ctypes.c_void_p),
    "ptxpack_device": (ctypes.POINTER(_DeviceInfo), ctypes.c_void_p),
    "ptxpack_context": (ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_driver_open": (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
    "ptxpack_status_name": (ctypes.c_char_p, ctypes.c_int),
    "ptxpack_status_string": (ctypes.c_char_p, ctypes.c_int),
    "ptxpack_attention_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_attention_plan_free": (None, ctypes.c_void_p),
    "ptxpack_attention_workspace": (ctypes.c_size_t, ctypes.c_void_p),
    "ptxpack_attention_launch": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_gemm_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_gemm_plan_free": (None, ctypes.c_void_p),
    "ptxpack_gemm_workspace": (ctypes.c_size_t, ctypes.c_void_p),
    "ptxpack_gemm_launch": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "ptxpack_vector_plan_create": (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p),
    "ptxpack_vector_plan_free": (None, ctypes.c_void_p),
    "ptxpack_vector_add": (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64,
                           ctypes.c_float, ctypes.c_float, ctypes.c_float, ctypes.c_uint64, ctypes.c_void_p),
}
_lock = threading.RLock()


def _load_library():
    here = os.path.dirname(os.path.realpath(__file__))
    named = os.environ.get("PTXPACK_LIBRARY")
    names = ("libptxpack.so.0", "libptxpack.so", LIBRARY)
    places = [os.path.normpath(os.path.join(here, name)) for name in names] + ["libptxpack.so.0"]
    for place in [named] if named else places:
        if not named and "/" in place and not os.path.exists(place):
            continue
        try:
            return ctypes.CDLL(place)
        except OSError as why:
            failure = why
    raise ImportError("ptxpack: %s; PTXPACK_LIBRARY may name libptxpack.so" % failure)


@functools.lru_cache(maxsize=None)
def _library():
    lib = _load_library()
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


# ---- the driver that the library uses ----------------------------------------------------------------------
class _Driver:
    """libcuda's functions by name; a call that fails is an Error."""

    def __init__(self):
        lib, table, detail = _library(), ctypes.c_void_p(), ctypes.create_string_buffer(1024)
        status = lib.ptxpack_driver_open(None, ctypes.byref(table), detail, len(detail))
        if status:
            _raise(lib, status, detail.value)
        for path in (os.environ.get("PTXPACK_DRIVER") or "libcuda.so.1", "libcuda.so"):
            with contextlib.suppress(OSError):
                self.cuda = ctypes.CDLL(path)  # the same that the library has loaded and initialised
                return
        raise Error("PTXPACK_E_NO_DRIVER", "the driver library cannot be loaded by its name")

    def call(self, function, *arguments):
        result = getattr(self.cuda, function)(*arguments)
        if result:
            name = ctypes.c_char_p()
            self.cuda.cuGetErrorName(result, ctypes.byref(name))
            raise Error("PTXPACK_E_DRIVER", "%s: %s (%d)" % (function, (name.value or b"?").decode(), result))

    def get(self, kind, function, *arguments):
        """What the function writes to its first argument."""
        value = kind()
        self.call(function, ctypes.byref(value), *arguments)
        return value.value

    def get_last(self, kind, function, *arguments):
        """What the function writes to its last argument."""
        value = kind()
        self.call(function, *arguments, ctypes.byref(value))
        return value.value


@functools.lru_cache(maxsize=None)
def _driver():
    return _Driver()


# ---- devices: a handle for each context --------------------------------------------------------------------
class _Device:
    """A handle of the library, opened while its context is current."""

    def __init__(self, ordinal):
        self.lib, self.driver, self.handle = _library(), _driver(), ctypes.c_void_p()
        options = _Options(size=ctypes.sizeof(_Options), device=ordinal)
        status = self.lib.ptxpack_open(ctypes.byref(options), ctypes.byref(self.handle))
        if status:
            _raise(self.lib, status, self.lib.ptxpack_detail(None))
        self.context = self.lib.ptxpack_context(self.handle)
        self.ordinal = ordinal
        self.attention_plan = functools.lru_cache(maxsize=1024)(self._attention_plan)
        self.gemm_plan = functools.lru_cache(maxsize=1024)(self._gemm_plan)
        self.vector_plan = functools.lru_cache(maxsize=None)(self._vector_plan)

    def check(self, status):
        if status:
            _raise(self.lib, status, self.lib.ptxpack_detail(self.handle))

    @contextlib.contextmanager
    def entered(self):
        """The context is current, and what this thread does is no part of a stream capture."""
        call, mode = self.driver.call, ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
        call("cuCtxPushCurrent_v2", ctypes.c_void_p(self.context))
        try:
            call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            try:
                yield call
            finally:
                call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def allocate(self, size):
        with self.entered():
            return self.driver.get(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(size))

    def allocate_zeros(self, size):
        """By a stream of its own: others may be captured."""
        address = self.allocate(size)
        with self.entered() as call:
            stream = ctypes.c_void_p()
            call("cuStreamCreate", ctypes.byref(stream), 1)  # CU_STREAM_NON_BLOCKING
            call("cuMemsetD8Async", ctypes.c_uint64(address), 0, ctypes.c_size_t(size), stream)
            call("cuStreamSynchronize", stream)
            call("cuStreamDestroy_v2", stream)
        return address

    def free(self, address):
        with contextlib.suppress(Error), self.entered() as call:  # an ending process has no driver
            call("cuMemFree_v2", ctypes.c_uint64(address))

    def capturing(self, stream):
        state = ctypes.c_int()
        refused = self.driver.cuda.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(state))
        return not refused and state.value != 0

    def _attention_plan(self, *problem):
        dtype, sizes, scale, mask, left, right, softcap, strides = problem
        desc = _AttentionDesc(ctypes.sizeof(_AttentionDesc), dtype, *sizes, scale, mask, left, right, softcap,
                              *(_Strides(*three) for three in strides))
        plan = _Plan(self, "attention", ctypes.byref(desc))
        plan.workspace_bytes = self.lib.ptxpack_attention_workspace(plan.pointer)
        return plan

    def _gemm_plan(self, *problem):
        desc = _GemmDesc(ctypes.sizeof(_GemmDesc), *problem)
        plan = _Plan(self, "gemm", ctypes.byref(desc))
        plan.workspace_bytes = self.lib.ptxpack_gemm_workspace(plan.pointer)
        return plan

    def _vector_plan(self, dtype):
        return _Plan(self, "vector", dtype)


class _Plan:
    """A plan, and a workspace for each stream that it was launched on."""
    __slots__ = ("device", "workspace_bytes", "workspaces", "pointer", "free", "__weakref__")

    def __init__(self, device, operation, description):
        self.device, self.workspace_bytes, self.workspaces = device, 0, {}
        self.pointer, self.free = ctypes.c_void_p(), getattr(device.lib, "ptxpack_%s_plan_free" % operation)
        create = getattr(device.lib, "ptxpack_%s_plan_create" % operation)
        with device.entered():
            device.check(create(device.handle, description, ctypes.byref(self.pointer)))

    def workspace(self, stream):
        if not self.workspace_bytes:
            return 0
        if self.device.capturing(stream):  # a graph may run on any stream, at any time
            return self.device.allocate_zeros(self.workspace_bytes)
        key = (stream, threading.get_ident()) if stream == PER_THREAD_STREAM else stream or LEGACY_STREAM
        if key not in self.workspaces:
            with _lock:
                if key not in self.workspaces:
                    self.workspaces[key] = self.device.allocate_zeros(self.workspace_bytes)
        return self.workspaces[key]

    def __del__(self):
        if self.pointer:
            self.free(self.pointer)
        for address in self.workspaces.values():
            self.device.free(address)


_devices = {}  # by context and its number: an address may come again


def _current(driver):
    """The current context as a key; (None, 0) where there is none."""
    context, number = driver.get(ctypes.c_void_p, "cuCtxGetCurrent"), 0
    if context and hasattr(driver.cuda, "cuCtxGetId"):  # since CUDA 12
        number = driver.get_last(ctypes.c_uint64, "cuCtxGetId", ctypes.c_void_p(context))
    return context, number


def _device(ordinal):
    """Of the current context when that is of the device `ordinal`, otherwise of the device's primary one."""
    driver = _driver()
    key = _current(driver)
    found = _devices.get(key)
    if found is not None and found.ordinal == ordinal:
        return found
    if key[0] and driver.get(ctypes.c_int, "cuCtxGetDevice") == ordinal:
        return _open(ordinal)
    driver.call("cuCtxPushCurrent_v2", ctypes.c_void_p(_primary(ordinal)))
    try:
        return _open(ordinal)
    finally:
        driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@functools.lru_cache(maxsize=None)
def _primary(ordinal):
    """A device's primary context, retained for good."""
    driver = _driver()
    try:
        number = driver.get(ctypes.c_int, "cuDeviceGet", ordinal)
    except Error:
        raise ArgumentError("there is no device %s" % ordinal) from None
    return driver.get(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", number)


def _open(ordinal):
    """The device of the current context."""
    key = _current(_driver())
    with _lock:
        if key not in _devices:
            _devices[key] = _Device(ordinal)
        return _devices[key]


# ---- arrays of others --------------------------------------------------------------------------------------
class _View:
    """What an array is: `kind` is "f16", "u8", ...; strides count elements; `keep` holds its memory."""
    __slots__ = ("name", "address", "shape", "strides", "kind", "device", "writable", "keep")

    def __init__(self, name, address, shape, strides, kind, device, writable=True, keep=None):
        self.name, self.address, self.shape, self.strides = name, address, shape, strides
        self.kind, self.device, self.writable, self.keep = kind, device, writable, keep


def _compact(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(extent, 1)
    return tuple(strides)


def _is_compact(view):
    return all(stride == step for stride, step, extent in zip(view.strides, _compact(view.shape), view.shape)
               if extent != 1)


def _dense(shape, strides):
    """Whether the elements lie side by side, in any order of the dimensions."""
    step = 1
    for stride, extent in sorted((s, e) for s, e in zip(strides, shape) if e != 1):
        if stride != step:
            return False
        step *= extent
    return True


_ITEM_BYTES = {"f16": 2, "bf16": 2, "e4m3": 1, "u8": 1, "u16": 2, "f32": 4}


# DLPack, as dlpack.h declares it
_DLTensor = _structure(
    "_DLTensor", (ctypes.c_void_p, "data"), (ctypes.c_int32, "device_type device_id ndim"),
    (ctypes.c_uint8, "code bits"), (ctypes.c_uint16, "lanes"),
    (ctypes.POINTER(ctypes.c_int64), "shape strides"), (ctypes.c_uint64, "byte_offset"))
_DLManaged = _structure("_DLManaged", (_DLTensor, "tensor"), (ctypes.c_void_p, "context deleter"))
_DLManagedVersioned = _structure("_DLManagedVersioned", (ctypes.c_uint32, "major minor"),
                                 (ctypes.c_void_p, "context deleter"), (ctypes.c_uint64, "flags"),
                                 (_DLTensor, "tensor"))
_DL_CUDA, _DL_CUDA_MANAGED, _DL_READ_ONLY = 2, 13, 1
_DL_KINDS = {(2, 16): "f16", (4, 16): "bf16", (10, 8): "e4m3", (2, 32): "f32", (1, 8): "u8", (1, 16): "u16"}
_DL_CODES = {kind: code for code, kind in _DL_KINDS.items()}
_CAPSULE, _CAPSULE_VERSIONED = b"dltensor", b"dltensor_versioned"


def _python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_is = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_capsule_get = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def _capsule_of(name, array, stream):
    """Its capsule, with the array's work done before what follows on `stream`."""
    place = int(array.__dlpack_device__()[0])
    if place not in (_DL_CUDA, _DL_CUDA_MANAGED):
        raise TypeError("%s is not in the memory of a CUDA device (DLPack's device type %d)" % (name, place))
    try:
        return array.__dlpack__(stream=stream or LEGACY_STREAM, max_version=(1, 1))
    except TypeError:  # of a producer before DLPack 1.0
        return array.__dlpack__(stream=stream or LEGACY_STREAM)


def _view_dlpack(name, array, stream):
    """The capsule is looked into, not taken over: its end is the end of the loan."""
    capsule, writable = _capsule_of(name, array, stream), True
    if _capsule_is(capsule, _CAPSULE_VERSIONED):
        managed = _DLManagedVersioned.from_address(_capsule_get(capsule, _CAPSULE_VERSIONED))
        if managed.major != 1:
            raise TypeError("%s: DLPack %d.%d is not known" % (name, managed.major, managed.minor))
        writable = not managed.flags & _DL_READ_ONLY
    elif _capsule_is(capsule, _CAPSULE):
        managed = _DLManaged.from_address(_capsule_get(capsule, _CAPSULE))
    else:
        raise TypeError("%s: its __dlpack__ gives no DLPack capsule" % name)
    tensor = managed.tensor
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else _compact(shape)
    kind = _DL_KINDS.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    kind = kind or "DLPack type (%d, %d, %d)" % (tensor.code, tensor.bits, tensor.lanes)
    address = (tensor.data or 0) + tensor.byte_offset
    return _View(name, address, shape, strides, kind, tensor.device_id, writable, (array, capsule))


_TYPESTRS = {"<f2": "f16", "<f4": "f32", "|u1": "u8", "<u1": "u8", "<u2": "u16", "|V2": "bf16", "<V2": "bf16",
             "|V1": "e4m3", "<V1": "e4m3", "bfloat16": "bf16"}


def _view_interface(name, array, stream):
    """By __cuda_array_interface__; what its stream has to do is done before what follows on `stream`."""
    interface, driver = array.__cuda_array_interface__, _driver()
    address, read_only = interface["data"]
    shape, kind = tuple(interface["shape"]), _TYPESTRS.get(interface["typestr"], interface["typestr"])
    if interface.get("mask") is not None:
        raise TypeError("%s has a mask" % name)
    steps, item = interface.get("strides"), _ITEM_BYTES.get(kind, 1)
    if steps is not None and any(step % item for step in steps):
        raise ArgumentError("%s: its strides of %s bytes are not of whole elements" % (name, tuple(steps)))
    strides = _compact(shape) if steps is None else tuple(step // item for step in steps)
    try:
        device = driver.get(ctypes.c_int, "cuPointerGetAttribute", 9, ctypes.c_uint64(address))  # its ordinal
    except Error as error:
        raise ArgumentError("%s: 0x%x is no address of device memory (%s)" % (name, address, error)) from None
    producer = interface.get("stream") if interface.get("version", 2) >= 3 else None
    if producer is not None and producer != (stream or LEGACY_STREAM):
        event = _Event(_device(device), producer)
        event.precede(stream)
    return _View(name, address, shape, strides, kind, device, not read_only, array)


class _Event:
    """All that was enqueued on a stream so far."""

    def __init__(self, device, stream):
        self.device, self.event = device, ctypes.c_void_p()
        with device.entered() as call:
            call("cuEventCreate", ctypes.byref(self.event), 2)  # CU_EVENT_DISABLE_TIMING
            call("cuEventRecord", self.event, ctypes.c_void_p(stream))

    def precede(self, stream):
        with self.device.entered() as call:
            call("cuStreamWaitEvent", ctypes.c_void_p(stream), self.event, 0)

    def happened(self):
        with contextlib.suppress(Error), self.device.entered():
            return self.device.driver.cuda.cuEventQuery(self.event) != 600  # CUDA_ERROR_NOT_READY
        return True  # the context is gone, and all that ran in it

    def wait(self):
        with contextlib.suppress(Error), self.device.entered() as call:
            call("cuEventSynchronize", self.event)

    def __del__(self):
        if self.event:
            with contextlib.suppress(Error), self.device.entered() as call:
                call("cuEventDestroy_v2", self.event)


# ---- arrays of our own -------------------------------------------------------------------------------------
_exports = {}  # address of a DLManagedTensor -> what it needs, and its capsule


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _end_export(managed, exports=_exports):
    exports.pop(managed, None)


for _lasting in (_end_export, _CAPSULE, _CAPSULE_VERSIONED):  # others use them to the very end
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_lasting))


def _end_refused():
    """Of capsules that nobody took over, as their names show, and that only we still have.  A destructor of
    theirs cannot do it: who refuses a capsule drops it with an error set, and then no Python may run."""
    for address, export in list(_exports.items()):
        if sys.getrefcount(export[-1]) == 2 and any(_capsule_is(export[-1], name)
                                                    for name in (_CAPSULE, _CAPSULE_VERSIONED)):
            _exports.pop(address, None)


class Tensor:
    """Device memory with a shape: .shape, .strides (in elements), .dtype ("f16", "bf16", "e4m3", "f32", "u8",
    "u16"), .device (its ordinal), .address.  Any library that takes DLPack or __cuda_array_interface__ takes
    it: cupy.from_dlpack(tensor)."""

    def __init__(self, device, shape, dtype, stream=0, strides=None):
        self._owner, self._stream, self._done = device, stream or LEGACY_STREAM, None
        self.address = 0
        self.shape, self.dtype, self.device = tuple(shape), dtype, device.ordinal
        self.strides = tuple(strides) if strides and _dense(shape, strides) else _compact(shape)
        _end_refused()
        self.address = device.allocate(max(self._size(), 1))

    def __del__(self):
        if self.address:
            if self._done is not None:
                self._done.wait()
            self._owner.free(self.address)

    def __repr__(self):
        return "ptxpack.Tensor(shape=%s, dtype=%s, device=%d)" % (self.shape, self.dtype, self.device)

    def _size(self):
        return math.prod(self.shape) * _ITEM_BYTES[self.dtype]

    def _precede(self, stream):
        """What writes it is done before what follows on `stream`."""
        if self._done is not None and (stream or LEGACY_STREAM) != self._stream:
            self._done.precede(stream or LEGACY_STREAM)

    def to_host(self):
        """Its bytes, in the order of memory, when the work that writes them is done."""
        data = ctypes.create_string_buffer(max(self._size(), 1))
        if self._done is not None:
            self._done.wait()
        with self._owner.entered() as call:
            call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.address), ctypes.c_size_t(self._size()))
        return data.raw[:self._size()]

    @property
    def __cuda_array_interface__(self):
        item = _ITEM_BYTES[self.dtype]
        typestr = next(text for text, kind in _TYPESTRS.items() if kind == self.dtype)
        return {"version": 3, "shape": self.shape, "strides": tuple(step * item for step in self.strides),
                "typestr": typestr, "data": (self.address, False), "stream": self._stream}

    def __dlpack_device__(self):
        return _DL_CUDA, self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("ptxpack.Tensor gives its own memory, without a copy")
        _end_refused()
        if stream != -1:
            self._precede(stream)
        versioned = max_version is not None and max_version[0] >= 1
        managed = _DLManagedVersioned(major=1, minor=0) if versioned else _DLManaged()
        sizes = (ctypes.c_int64 * (2 * len(self.shape) or 1))(*self.shape, *self.strides)
        code, bits = _DL_CODES[self.dtype]
        steps = ctypes.byref(sizes, 8 * len(self.shape))
        managed.tensor = _DLTensor(self.address, _DL_CUDA, self.device, len(self.shape), code, bits, 1,
                                   ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)),
                                   ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)), 0)
        managed.deleter = ctypes.cast(_end_export, ctypes.c_void_p)
        address = ctypes.addressof(managed)
        capsule = _capsule_new(address, _CAPSULE_VERSIONED if versioned else _CAPSULE, None)
        _exports[address] = (self, managed, sizes, capsule)
        return capsule


# ---- libraries: how each one's arrays are read, made and ordered -------------------------------------------
class _Other:
    """DLPack or __cuda_array_interface__, and results of our own."""
    orders_frees = False  # whether memory that is freed is used again only behind what the stream has to do

    def view(self, name, array, stream):
        if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
            return _view_dlpack(name, array, stream)
        if hasattr(array, "__cuda_array_interface__"):
            return _view_interface(name, array, stream)
        kind = type(array).__name__
        raise TypeError("%s: a %s has neither __dlpack__ nor __cuda_array_interface__" % (name, kind))

    def stream(self, array):
        return 0

    def empty(self, like, view, device, shape, kind, stream):
        """A compact array of `shape`, or with None one as `like`, whose view is given."""
        return Tensor(device, shape or view.shape, kind, stream, None if shape else view.strides)

    def result(self, made, done):
        made._done = done
        return made


class _Own(_Other):
    def view(self, name, array, stream):
        array._precede(stream)
        return _View(name, array.address, array.shape, array.strides, array.dtype, array.device, True, array)


class _Jax(_Other):
    def view(self, name, array, stream):
        if isinstance(array, sys.modules["jax"].core.Tracer):
            raise TypeError("%s is traced by JAX: call ptxpack outside of jit" % name)
        view = super().view(name, array, stream)
        view.writable = False
        return view

    def result(self, made, done):
        made._done = done
        return sys.modules["jax"].dlpack.from_dlpack(made)


class _Cupy(_Other):
    orders_frees = True

    def stream(self, array):
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(array.device.id):
            return cupy.cuda.get_current_stream().ptr

    def empty(self, like, view, device, shape, kind, stream):
        cupy = sys.modules["cupy"]
        kinds = {"f32": cupy.float32, "f16": cupy.float16, "bf16": cupy.uint16}
        dtype = like.dtype if view.kind == kind else kinds[kind]
        with cupy.cuda.Device(view.device):
            same = (stream or LEGACY_STREAM) == (cupy.cuda.get_current_stream().ptr or LEGACY_STREAM)
            with contextlib.nullcontext() if same else cupy.cuda.ExternalStream(stream):
                return cupy.empty(shape, dtype) if shape else cupy.empty_like(like, dtype=dtype)

    def result(self, made, done):
        return made


class _Torch(_Other):
    orders_frees = True

    def __init__(self):
        torch = sys.modules["torch"]
        kinds = {"f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "f32": "float32",
                 "u8": "uint8", "u16": "uint16"}
        self.dtypes = {kind: getattr(torch, name) for kind, name in kinds.items() if hasattr(torch, name)}
        self.kinds = {dtype: kind for kind, dtype in self.dtypes.items()}
        self.torch = torch

    def view(self, name, array, stream):
        if not array.is_cuda:
            raise TypeError("%s is not in the memory of a CUDA device (it is on %s)" % (name, array.device))
        if array.requires_grad and self.torch.is_grad_enabled():
            raise ArgumentError("%s requires a gradient, and there is none: use torch.no_grad()" % name)
        return _View(name, array.data_ptr(), tuple(array.shape), array.stride(),
                     self.kinds.get(array.dtype, str(array.dtype)), array.device.index, True, array)

    def stream(self, array):  # of what is not on a GPU none: view() refuses it
        return self.torch.cuda.current_stream(array.device).cuda_stream if array.is_cuda else 0

    def empty(self, like, view, device, shape, kind, stream):
        torch, dtype = self.torch, like.dtype if view.kind == kind else self.dtypes[kind]
        stream = 0 if stream == LEGACY_STREAM else stream  # it knows this one as 0 alone
        same = stream == torch.cuda.current_stream(like.device).cuda_stream
        external = None if same else torch.cuda.ExternalStream(stream, device=like.device)
        with torch.cuda.stream(external):  # None: as it is
            if shape:
                return torch.empty(shape, dtype=dtype, device=like.device)
            return torch.empty_like(like, dtype=dtype, requires_grad=False)

    def result(self, made, done):
        return made


@functools.lru_cache(maxsize=None)
def _adapter(kind):
    return kind()


@functools.lru_cache(maxsize=256)
def _library_of(kind):
    """By the type of an array: the library whose class it is or derives from, without importing any."""
    if issubclass(kind, Tensor):
        return _adapter(_Own)
    for base in kind.__mro__:
        top = base.__module__.partition(".")[0]
        for name, adapter in (("torch", _Torch), ("cupy", _Cupy), ("jaxlib", _Jax), ("jax", _Jax)):
            if top == name and name.replace("lib", "") in sys.modules:
                return _adapter(adapter)
    return _adapter(_Other)


def _stream_handle(stream):
    """Of an integer or a stream object."""
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):  # PyTorch, CuPy
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    handle = getattr(stream, "handle", stream)  # Numba's is a ctypes pointer
    handle = getattr(handle, "value", handle)
    if handle is None:
        return 0
    if isinstance(handle, bool) or not isinstance(handle, int):
        raise TypeError("stream: a %s is neither an integer handle nor a stream" % type(stream).__name__)
    return handle


# ---- one call ----------------------------------------------------------------------------------------------
_held = collections.deque()  # (event, what must live until it happened)
_HELD_MOST = 64


def _hold(event, things):
    """Keep what a stream still reads; and let go of what it has read."""
    _held.append((event, things))
    with _lock:
        while _held and (len(_held) > _HELD_MOST or _held[0][0].happened()):
            _held[0][0].wait()
            _held.popleft()


class _Call:
    """The arrays of one call, its device and stream; `first` decides who makes results."""

    def __init__(self, name, first, stream):
        self.library, self.like = _library_of(type(first)), first
        self.stream = self.library.stream(first) if stream is None else _stream_handle(stream)
        self.views, self.must_hold = [], False
        self.first = self.view(name, first)
        self.device = _device(self.first.device)

    def view(self, name, array):
        library = _library_of(type(array))
        view = library.view(name, array, self.stream)
        self.must_hold |= library is not self.library or not library.orders_frees
        if self.views and view.device != self.views[0].device:
            raise ArgumentError("%s is on device %d, %s on device %d" % (
                name, view.device, self.views[0].name, self.views[0].device))
        self.views.append(view)
        return view

    def output(self, name, given, kind, shape=None):
        """An array to write to and its view: the caller's, or a new one; without a shape as the first one."""
        if given is None:
            made = self.library.empty(self.like, self.first, self.device, shape, kind, self.stream)
            return made, _library_of(type(made)).view(name, made, self.stream)
        view = self.view(name, given)
        if not view.writable:
            raise ArgumentError("%s may not be written to" % name)
        shape = shape or self.first.shape
        if view.shape != shape or kind not in (view.kind,) + _RAW.get(view.kind, ()):
            raise ArgumentError("%s is %s %s, and must be %s %s" % (name, view.kind, view.shape, kind, shape))
        return given, view

    def results(self, *made):
        """Of (array, whether the caller gave it): after the launch."""
        done = None
        if self.must_hold and not self.device.capturing(self.stream):
            done = _Event(self.device, self.stream)
            _hold(done, [view.keep for view in self.views])
        return tuple(array if given else self.library.result(array, done) for array, given in made)


_TYPES = {"f16": F16, "bf16": BF16, "e4m3": E4M3}
_RAW = {"u8": ("e4m3",), "u16": ("bf16", "f16")}  # what arrays of such integers may stand for


def _type_of(view, dtype):
    """ptxpack's type of an array; uint8 and uint16 are what the caller says."""
    if dtype is not None and dtype not in _TYPES:
        raise ArgumentError("dtype is %r, and may be %s" % (dtype, ", ".join(map(repr, _TYPES))))
    kind = dtype if dtype in _RAW.get(view.kind, ()) else view.kind
    if kind not in _TYPES:
        hint = "; dtype= must say what it stands for" if kind in _RAW and dtype is None else ""
        raise ArgumentError("%s is of type %s, and must be f16, bf16 or e4m3%s" % (view.name, kind, hint))
    if dtype is not None and kind != dtype:
        raise ArgumentError("%s is of type %s, dtype says %s" % (view.name, kind, dtype))
    return kind


def _one_type(views, dtype):
    """The type that all of them are of."""
    kinds = [_type_of(view, dtype) for view in views]
    if len(set(kinds)) > 1:
        names = ", ".join(view.name for view in views)
        raise ArgumentError("%s are %s: they must be of one type" % (names, ", ".join(kinds)))
    return kinds[0]


# ---- attention ---------------------------------------------------------------------------------------------
_NONE, _CAUSAL = 0, {"top-left": 1, "bottom-right": 2}  # ptxpack_mask
_WINDOW = {"top-left": 3, "bottom-right": 4}
_LAYOUTS = {"bshd": (0, 1, 2, 3), "bhsd": (0, 2, 1, 3)}  # where batch, row, head and dim are


def _mask_of(causal, window, align):
    """ptxpack_mask, window_left and window_right."""
    if align not in _CAUSAL:
        raise ArgumentError("align is %r, and may be 'bottom-right' or 'top-left'" % (align,))
    try:
        left, right = (window, window) if window is None or hasattr(window, "__index__") else window
        left, right = (-1 if side is None or side < 0 else min(operator.index(side), 2**31 - 1)
                       for side in (left, right))
    except (TypeError, ValueError):
        raise ArgumentError("window is %r, and may be None, a number or (left, right)" % (window,)) from None
    if causal:
        right = 0
    if left < 0 and right <= 0:
        return (_NONE, 0, 0) if right < 0 else (_CAUSAL[align], 0, 0)
    return _WINDOW[align], left, right


def _strides_of(view, order):
    """Of batch, row and head, as ptxpack_strides wants them; a stride of an extent of 1 is any."""
    strides = [view.strides[at] for at in order]
    extents = [view.shape[at] for at in order]
    if strides[3] != 1:
        raise ArgumentError("%s: its last dimension has a stride of %d, and must be contiguous" % (
            view.name, strides[3]))
    three = tuple(stride if extent != 1 else extents[3] for stride, extent in zip(strides[:3], extents[:3]))
    if not any(three):
        raise ArgumentError("%s is one row repeated along every dimension" % view.name)
    return three


def _sizes_of(q, k, v, order):
    """batch, seqlen_q, seqlen_kv, heads_q, heads_kv, head_dim of three shapes that fit each other."""
    for view in (q, k, v):
        if len(view.shape) != 4:
            raise ArgumentError("%s has %d dimensions, and must have 4" % (view.name, len(view.shape)))
    batch, rows, heads, dim = (q.shape[at] for at in order)
    batch_k, keys, heads_k, dim_k = (k.shape[at] for at in order)
    if k.shape != v.shape:
        raise ArgumentError("k is %s and v is %s: they must have the same shape" % (k.shape, v.shape))
    if batch != batch_k or dim != dim_k:
        raise ArgumentError("q is %s and k is %s: batch and last dimension must agree" % (q.shape, k.shape))
    sizes = batch, rows, keys, heads, heads_k, dim
    if max(sizes) >= 2**31:
        raise ArgumentError("an extent of %d is too large" % max(sizes))
    return sizes


def _descale(call, name, array, sizes):
    """The address of f32 [batch][heads_kv]; 0 without one."""
    if array is None:
        return 0
    view, shape = call.view(name, array), (sizes[0], sizes[4])
    if view.kind != "f32" or view.shape != shape or not _is_compact(view):
        raise ArgumentError("%s must be contiguous f32 %s" % (name, shape))
    return view.address


def attention(q, k, v, *, causal=False, window=None, softcap=0.0, scale=None, align="bottom-right",
              layout="bshd", dtype=None, out=None, lse=None, return_lse=False, q_descale=None, k_descale=None,
              v_descale=None, stream=None):
    """softmax(scale q k^T + mask) v, heads of q shared among those of k and v (GQA, MQA).

    q        [batch, seqlen_q, heads_q, head_dim]; k, v [batch, seqlen_kv, heads_kv, head_dim]; with
             layout="bhsd" [batch, heads, seqlen, head_dim]
    causal   query i sees no key after its own, where the last query and the last key belong together, or with
             align="top-left" the first
    window   (left, right): so many keys before its own and after it; None or -1: all.  A number: both
    softcap  scores s become softcap tanh(s / softcap); 0: off
    scale    None: 1/sqrt(head_dim)
    dtype    "bf16", "f16" or "e4m3": what uint16 or uint8 stand for
    out      where the result goes: as q, but of e4m3 bf16
    lse      where the logarithms of the sums go, f32 [batch, heads_q, seqlen_q]; they are a second result
             with this or with return_lse=True
    q_descale, k_descale, v_descale   with e4m3: f32 [batch, heads_kv], what a stored 1 means; None: 1
    """
    call = _Call("q", q, stream)
    views = call.first, call.view("k", k), call.view("v", v)
    if layout not in _LAYOUTS:
        raise ArgumentError("layout is %r, and may be 'bshd' or 'bhsd'" % (layout,))
    order = _LAYOUTS[layout]
    sizes = _sizes_of(*views, order)
    kind = _one_type(views, dtype)
    if scale is not None and not scale > 0:
        raise ArgumentError("scale is %r, and must be above 0" % (scale,))
    scales = [_descale(call, name, array, sizes) for name, array in (
        ("q_descale", q_descale), ("k_descale", k_descale), ("v_descale", v_descale))]
    o, o_view = call.output("out", out, "bf16" if kind == "e4m3" else views[0].kind)
    want_lse, logs, logs_view = return_lse or lse is not None, None, None
    if want_lse:
        logs, logs_view = call.output("lse", lse, "f32", (sizes[0], sizes[3], sizes[1]))
        if not _is_compact(logs_view):
            raise ArgumentError("lse must be contiguous")
    strides = tuple(_strides_of(view, order) for view in views + (o_view,))
    plan = call.device.attention_plan(_TYPES[kind], sizes, float(scale or 0),
                                      *_mask_of(causal, window, align), float(softcap), strides)
    addresses = [view.address for view in views + (o_view,)]
    addresses += [logs_view.address if want_lse else 0, plan.workspace(call.stream)] + scales
    buffers = _AttentionBuffers(ctypes.sizeof(_AttentionBuffers), *addresses)
    launch = call.device.lib.ptxpack_attention_launch
    call.device.check(launch(plan.pointer, ctypes.byref(buffers), call.stream))
    if not want_lse:
        return call.results((o, out is not None))[0]
    return call.results((o, out is not None), (logs, lse is not None))


# ---- matmul ------------------------------------------------------------------------------------------------
_ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "silu": 3}  # ptxpack_activation
_ROW_MAJOR, _COLUMN_MAJOR = 0, 1  # ptxpack_order


def _product_of(a, b):
    """m, n, k, batch, and the shape of the result."""
    if any(len(view.shape) not in (2, 3) for view in (a, b)):
        raise ArgumentError("a is %s and b is %s: they must have 2 or 3 dimensions" % (a.shape, b.shape))
    (m, k), n = a.shape[-2:], b.shape[-1]
    batches = [view.shape[0] for view in (a, b) if len(view.shape) == 3]
    shape = tuple(batches and [max(batches)]) + (m, n)
    if min(shape) < 1 or max(shape + (k,)) >= 2**31:
        raise ArgumentError("a is %s and b is %s: extents are 1 or more, below 2^31" % (a.shape, b.shape))
    return m, n, k, max(batches, default=1), shape


def _matrix_of(view, batch, rows, columns, row_major=False):
    """ptxpack_order, the stride and the batch stride of [rows, columns] or [batch, rows, columns]."""
    fit = (rows, columns), (batch, rows, columns)
    if view.shape not in fit:
        raise ArgumentError("%s is %s, and must be %s or %s" % ((view.name, view.shape) + fit))
    row, column = view.strides[-2:]
    apart = view.strides[0] if len(view.shape) == 3 and batch > 1 else 0
    if apart == 0 and batch > 1:
        apart = -1  # the same for all
    in_rows, in_columns = column == 1 or columns == 1, (row == 1 or rows == 1) and not row_major
    if in_columns and (columns == 1 or column > 0 and not in_rows):
        return _COLUMN_MAJOR, column, apart
    if in_rows and (rows == 1 or row > 0):
        return _ROW_MAJOR, row, apart
    raise ArgumentError("%s: its strides are %s, and its %s must be contiguous" % (
        view.name, view.strides, "rows" if row_major else "rows or columns"))


def matmul(a, b, *, alpha=1.0, beta=1.0, c=None, bias=None, activation=None, dtype=None, out=None,
           stream=None):
    """activation(alpha a b + beta c + bias), summed in f32.

    a, b        [m, k] and [k, n], or [batch, m, k] and [batch, k, n]; one of two dimensions, or with a batch
                stride of 0, is the same for all.  Rows or columns are contiguous, so that a transposed view
                will do; the other stride is a multiple of 8 elements
    c           [m, n] or [batch, m, n], with contiguous rows
    bias        [n], the same for all rows
    activation  "relu", "gelu" (by tanh) or "silu"
    dtype       "bf16" or "f16": what uint16 stands for
    out         where the result goes: [m, n], or [batch, m, n] where a or b has three dimensions, with
                contiguous rows; may be c.  It is needed where n is no multiple of 8, with rows that lie so
    """
    if activation not in _ACTIVATIONS:
        raise ArgumentError("activation is %r, and may be 'relu', 'gelu' or 'silu'" % (activation,))
    call = _Call("a", a, stream)
    a, b = call.first, call.view("b", b)
    c, bias = (None if x is None else call.view(name, x) for name, x in (("c", c), ("bias", bias)))
    m, n, k, batch, shape = _product_of(a, b)
    kind = _one_type([view for view in (a, b, c, bias) if view is not None], dtype)
    if bias is not None and (bias.shape != (n,) or not _is_compact(bias)):
        raise ArgumentError("bias is %s, and must be contiguous %s" % (bias.shape, (n,)))
    made, d = call.output("out", out, a.kind, shape)
    orders, strides, batches = zip(
        _matrix_of(a, batch, m, k), _matrix_of(b, batch, k, n),
        _matrix_of(c, batch, m, n, row_major=True) if c is not None else (_ROW_MAJOR, 0, 0),
        _matrix_of(d, batch, m, n, row_major=True))
    plan = call.device.gemm_plan(_TYPES[kind], m, n, k, batch, *orders[:2], *strides, *batches, c is not None,
                                 bias is not None, _ACTIVATIONS[activation])
    addresses = [0 if view is None else view.address for view in (a, b, c, d, bias)]
    buffers = _GemmBuffers(ctypes.sizeof(_GemmBuffers), alpha, beta, *addresses, plan.workspace(call.stream))
    call.device.check(call.device.lib.ptxpack_gemm_launch(plan.pointer, ctypes.byref(buffers), call.stream))
    return call.results((made, out is not None))[0]


# ---- vector_add --------------------------------------------------------------------------------------------
def vector_add(x, y, a=1.0, b=1.0, c=0.0, *, dtype=None, out=None, stream=None):
    """a x + b y + c of f16 or bf16 arrays of one shape and the same strides, without gaps; out may be x or y.

    Two packed FMAs: u = b y + c, then a x + u, each rounded to the type."""
    call = _Call("x", x, stream)
    x_view, y_view = call.first, call.view("y", y)
    kind = _one_type((x_view, y_view), dtype)
    z, z_view = call.output("out", out, x_view.kind)
    lie = x_view.shape, x_view.strides
    for view in (y_view, z_view):
        if (view.shape, view.strides) != lie or not _dense(*lie):
            raise ArgumentError("%s is %s with strides %s, and must lie as x, %s with %s, without gaps" % (
                (view.name, view.shape, view.strides) + lie))
    plan, add = call.device.vector_plan(_TYPES[kind]), call.device.lib.ptxpack_vector_add
    call.device.check(add(plan.pointer, z_view.address, x_view.address, y_view.address, a, b, c,
                          math.prod(x_view.shape), call.stream))
    return call.results((z, out is not None))[0]


# ---- without any library -----------------------------------------------------------------------------------
def from_host(data, shape, dtype="f16", device=0):
    """A Tensor of bytes in host memory: whatever has the buffer protocol, without gaps."""
    if dtype not in _ITEM_BYTES:
        raise ArgumentError("dtype is %r, and may be %s" % (dtype, ", ".join(map(repr, _ITEM_BYTES))))
    owner, view = _device(device), memoryview(data).cast("B")
    tensor = Tensor(owner, shape, dtype)
    if view.nbytes != tensor._size():
        raise ArgumentError("data has %d bytes, and %s of %s have %d" % (view.nbytes, tensor.shape, dtype,
                                                                         tensor._size()))
    with owner.entered() as call:
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(tensor.address), view.tobytes(), ctypes.c_size_t(view.nbytes))
        call("cuStreamSynchronize", ctypes.c_void_p(LEGACY_STREAM))  # other streams do not wait for its end
    return tensor


# ---- info --------------------------------------------------------------------------------------------------
def info(device=0):
    """About a device by its ordinal: name, target ("sm_90a"), driver_version (13000 for CUDA 13.0), sm_count,
    memory_bytes, route (how PTX is compiled, and why so) and library (the file that is in use)."""
    found = _device(device)
    facts = found.lib.ptxpack_device(found.handle).contents
    text = {name: getattr(facts, name).decode() for name in ("name", "target", "route")}
    names = ("ordinal", "driver_version", "sm_count", "memory_bytes")
    return {**text, **{name: getattr(facts, name) for name in names}, "library": found.lib._name}


if __name__ == "__main__":
    try:
        print("\n".join("%-15s %s" % pair for pair in info().items()))
    except (Error, ImportError) as _failure:
        sys.exit(str(_failure))
