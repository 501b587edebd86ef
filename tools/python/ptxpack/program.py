"""program.py - kernel(): the user's own kernels, in PTX with the macro language or in CUDA C++ through NVRTC."""
from __future__ import annotations

import collections.abc
import contextlib
import ctypes
import functools
import os
import re
import struct
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Union

from .library import ArgumentError, Error, _Source, _Symbol, _lock
from .device import _Device, _device
from .operations import _Call
from .frameworks import _other, _library_for, _stream_handle
from .tensor import Tensor

_PTX, _CUDA = 0, 1  # ptxpack_language
_SUFFIXES = {".ptx": _PTX, ".cu": _CUDA, ".cuh": _CUDA, ".cpp": _CUDA}
Extents = Union[int, Sequence[int]]


# ---- the parameters of an entry, as its PTX text has them --------------------------------------------------
class _Parameter(NamedTuple):
    where: str  # for messages: "parameter 3 of scale, n (.u32)"
    type: str  # "u64", "b8", ...
    array: bool  # of that type: a struct by value
    bytes: int


_UNREAD = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_PARAMETER = re.compile(r"\s*\.param\s+(.*?)([\w$%]+)\s*(?:\[\s*(\w*)\s*\])?\s*", re.S)
_TYPE = re.compile(r"\.(?:([busf])(8|16|32|64|128)|texref|samplerref|surfref)\b")


def _parameter(text: str, place: int, entry: str) -> Optional[_Parameter]:
    """Reads ".param .align 8 .b8 name[48]" or ".param .u64 .ptr .global .align 16 name".  Returns None if it cannot."""
    found = _PARAMETER.fullmatch(text)
    kind = found and _TYPE.search(found[1])
    if not found or not kind:
        return None
    name, bits = kind[0][1:], int(kind[2] or 64)
    count = 1 if found[3] is None else int(found[3] or "0", 0)
    array = "[]" if found[3] is not None else ""
    where = "parameter %d of %s, %s (.%s%s)" % (place, entry, found[2], name, array)
    return _Parameter(where, name, bool(array), count * bits // 8)


def _parameters(ptx: str, entry: str) -> Optional[list[_Parameter]]:
    """Returns the parameters of an entry of the text, or None if it is missing or written in another form."""
    text = _UNREAD.sub(" ", ptx)
    found = re.search(r"\.entry\s+%s(?![\w$%%.@])\s*(?:\(([^)]*)\))?" % re.escape(entry), text)
    if found is None:
        return None
    if not (found[1] or "").strip():
        return []
    parameters = [_parameter(part, place + 1, entry) for place, part in enumerate(found[1].split(","))]
    understood = [parameter for parameter in parameters if parameter is not None]
    return understood if len(understood) == len(parameters) else None


# ---- arguments ---------------------------------------------------------------------------------------------
def _is_array(argument: Any) -> bool:
    return (hasattr(argument, "__dlpack__") or hasattr(argument, "__cuda_array_interface__")
            or _library_for(argument) is not _other)


def _of_integer(parameter: _Parameter, value: int) -> bytes:
    """Converts an integer.  NVRTC declares an int as .u32, so unsigned types take negative numbers, too."""
    if parameter.type[0] == "f":
        return _of_float(parameter, float(value))
    bits = 8 * parameter.bytes
    most = (1 << (bits - 1 if parameter.type[0] == "s" else bits)) - 1
    if not -(1 << (bits - 1)) <= value <= most:
        raise ArgumentError("%s takes numbers from %d to %d, not %d" % (parameter.where, -(1 << (bits - 1)), most, value))
    return (value % (1 << bits)).to_bytes(parameter.bytes, "little")


def _of_float(parameter: _Parameter, value: float) -> bytes:
    """Converts a float, but not to an integer."""
    if parameter.type[0] in "us":
        raise ArgumentError("%s takes an integer, not %r (bytes pass any bits)" % (parameter.where, value))
    form = {"f16": "<e", "f32": "<f", "f64": "<d", "b32": "<f", "b64": "<d"}.get(parameter.type)
    if form is None:
        raise ArgumentError("%s takes bytes, a ctypes object or a NumPy scalar, not %r" % (parameter.where, value))
    try:
        return struct.pack(form, value)
    except OverflowError:
        raise ArgumentError("%s has no number as large as %r" % (parameter.where, value)) from None


def _value(parameter: _Parameter, argument: Any) -> bytes:
    """Converts an argument that is not an array to the type of the parameter, and returns its bits."""
    bits: Optional[bytes] = None
    if argument is None:
        bits = bytes(8)
    elif isinstance(argument, (bytes, bytearray, memoryview, ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData)):
        bits = bytes(argument)
    elif (parameter.type[0] == "b" or parameter.array) and hasattr(argument, "dtype") and hasattr(argument, "tobytes"):
        bits = argument.tobytes()
    if bits is not None:
        if len(bits) != parameter.bytes:
            raise ArgumentError("%s has %d bytes, not the %d of %r" % (parameter.where, parameter.bytes, len(bits), argument))
        return bits
    if not hasattr(argument, "__index__") and not hasattr(argument, "__float__"):
        raise TypeError("%s takes an array on a device, a number, bytes, a ctypes object or None, not a %s" % (
            parameter.where, type(argument).__name__))
    if parameter.array:
        raise ArgumentError("%s has %d bytes: it takes bytes or a ctypes object, not %r" % (
            parameter.where, parameter.bytes, argument))
    if hasattr(argument, "__index__"):
        return _of_integer(parameter, argument.__index__())
    return _of_float(parameter, float(argument))


def _extents(name: str, given: Extents) -> Any:
    """Checks one to three extents, and returns three."""
    numbers: tuple[Any, ...] = tuple(given) if isinstance(given, collections.abc.Iterable) else (given,)
    if not 1 <= len(numbers) <= 3:
        raise ArgumentError("%s is %r, and must be one to three numbers" % (name, given))
    for number in numbers:
        if not hasattr(number, "__index__"):
            raise TypeError("%s is %r, and must be of integers" % (name, given))
        if not 1 <= number <= 2**31 - 1:
            raise ArgumentError("%s %r: %d is not from 1 to 2147483647" % (name, given, number))
    return (ctypes.c_uint32 * 3)(*(numbers + (1, 1))[:3])


# ---- a program on one device -------------------------------------------------------------------------------
def _words(words: Iterable[str]) -> Any:
    encoded = [os.fsencode(word) for word in words]
    return (ctypes.c_char_p * len(encoded))(*encoded), len(encoded)


class _Program:
    """A kernel that is loaded for one device."""

    def __init__(self, device: _Device, kernel: Kernel) -> None:
        self.device, self.pointer, self.captured = device, ctypes.c_void_p(), False
        cuda, entry = kernel.language == _CUDA, kernel.entry
        named = cuda and entry is not None and re.search("[<:]", entry) is not None
        try:
            self._load(kernel, named)
        except ArgumentError as failure:
            if not cuda or entry is None or named:
                raise
            self._free()  # NVRTC has mangled the name
            try:
                self._load(kernel, True)
            except Error:
                self._free()
                raise failure from None

    def _load(self, kernel: Kernel, named: bool) -> None:
        lib, check = self.device.lib, self.device.check
        symbols = [_Symbol(name.encode(), value) for name, value in kernel.symbols.items()]
        source = _Source(ctypes.sizeof(_Source), kernel.language, os.fsencode(kernel.path),
                         None if kernel.text is None else kernel.text.encode(), 0,
                         (_Symbol * len(symbols))(*symbols), len(symbols), *_words(kernel.include), *_words(kernel.options),
                         *_words([kernel.entry] if named and kernel.entry else []))
        function, text, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        unused = (ctypes.c_bool * len(symbols))()
        with self.device.entered():
            if lib.ptxpack_program_unused(self.device.handle, ctypes.byref(source), unused) == 0:  # otherwise loading says why
                for name, needless in zip(kernel.symbols, unused):
                    if needless:
                        raise ArgumentError("symbol %s: %s does not use it" % (name, kernel.path))
            check(lib.ptxpack_program_load(self.device.handle, ctypes.byref(source), ctypes.byref(self.pointer)))
            check(lib.ptxpack_program_function(self.pointer, kernel.entry and kernel.entry.encode(), ctypes.byref(function)))
            check(lib.ptxpack_program_ptx(self.device.handle, ctypes.byref(source), ctypes.byref(text), ctypes.byref(size)))
        ptx = ctypes.string_at(text.value or 0, size.value).decode(errors="replace")
        free = ctypes.CDLL(None).free
        free.argtypes, free.restype = [ctypes.c_void_p], None
        free(text)
        self.function, self.facts = function, lib.ptxpack_function_describe(function).contents
        name = self.facts.name.decode()
        parameters = _parameters(ptx, name)
        if parameters is None:
            raise Error("PTXPACK_E_EXPAND", "%s: the parameters of %s are not understood" % (kernel.path, name))
        self.name, self.parameters = name, parameters

    def _free(self) -> None:
        self.device.lib.ptxpack_program_free(self.pointer)
        self.pointer = ctypes.c_void_p()

    def __del__(self) -> None:
        if not self.pointer or self.captured:  # a graph may launch a captured kernel at any time
            return
        with contextlib.suppress(Error):  # the context may have ended, or a stream of it may be captured
            with self.device.entered() as call:
                call("cuCtxSynchronize")
            self._free()

    def check_count(self, given: int) -> None:
        wanted = len(self.parameters)
        if given > wanted:
            raise ArgumentError("%s has %d parameter%s, and %d were given" % (
                self.name, wanted, "" if wanted == 1 else "s", given))
        if given < wanted:
            raise ArgumentError("%s has no argument: %d were given, %d are wanted" % (
                self.parameters[given].where, given, wanted))

    def describe(self) -> dict[str, Any]:
        made, facts = self.device.lib.ptxpack_program_describe(self.pointer).contents, self.facts
        spills = facts.resources.spill_store_bytes
        return {"name": self.name, "target": made.target.decode(), "compiler": made.compiler.decode(),
                "from_cache": made.from_cache, "log": made.log.decode(errors="replace"), "registers": facts.registers,
                "shared_bytes": facts.shared_bytes, "local_bytes": facts.local_bytes, "max_threads": facts.max_threads,
                "spill_bytes": None if spills < 0 else spills + facts.resources.spill_load_bytes}


# ---- what the caller has -----------------------------------------------------------------------------------
class Kernel:
    """A kernel of the user's.  kernel() makes it, and a call launches it."""

    def __init__(self, path: str, text: Optional[str], language: int, entry: Optional[str], include: tuple[str, ...],
                 options: tuple[str, ...], symbols: tuple[tuple[str, int], ...], version: Any) -> None:
        self.path, self.text, self.language, self.entry = path, text, language, entry
        self.include, self.options, self.symbols, self.version = include, options, dict(symbols), version
        self._programs: dict[_Device, _Program] = {}

    def __repr__(self) -> str:
        words = ["%s=%d" % pair for pair in self.symbols.items()]
        return "ptxpack.kernel(%s)" % ", ".join([repr(self.path)] + ([repr(self.entry)] if self.entry else []) + words)

    def _program(self, device: _Device) -> _Program:
        if device not in self._programs:
            with _lock:
                if device not in self._programs:
                    self._programs[device] = _Program(device, self)
        return self._programs[device]

    def describe(self, device: int = 0) -> dict[str, Any]:
        """Loads the kernel for a device and describes it: name, target, compiler, from_cache, log (of the compilers),
        registers, shared_bytes, local_bytes, max_threads, spill_bytes (None if the compiler did not report it)."""
        return self._program(_device(device)).describe()

    def __call__(self, grid: Extents, block: Extents, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Enqueues a launch of `grid` blocks of `block` threads; each is a number or up to three numbers.

        arguments  one for each parameter.  An array on a device passes its address.  A number is converted to the type of the
                   parameter (an integer also to a float), and is refused if it does not fit; a float becomes an f32 for .b32
                   and an f64 for .b64.  None is a null pointer.  bytes and ctypes objects pass any bits, such as a struct
        shared     bytes of dynamic shared memory
        stream     as for attention(); the default is the current stream of the first array's library
        """
        extents = _extents("grid", grid), _extents("block", block)
        if not 0 <= shared <= 2**24:
            raise ArgumentError("shared is %d, and not from 0 to 16777216" % shared)
        first = next((place for place, argument in enumerate(arguments) if _is_array(argument)), None)
        call = None if first is None else _Call("argument %d" % (first + 1), arguments[first], stream)
        device = _device(0) if call is None else call.device
        program = self._program(device)
        program.check_count(len(arguments))
        handle = call.stream if call is not None else 0 if stream is None else _stream_handle(stream)
        values = []
        for place, (parameter, argument) in enumerate(zip(program.parameters, arguments)):
            if call is not None and _is_array(argument):
                if parameter.bytes != 8 or parameter.type[0] == "f":
                    raise ArgumentError("%s has %d bytes, and takes no address" % (parameter.where, parameter.bytes))
                view = call.first if place == first else call.view(parameter.where, argument)
                values.append(view.address.to_bytes(8, "little"))
            else:
                values.append(_value(parameter, argument))
        kept = [ctypes.create_string_buffer(value, max(len(value), 1)) for value in values]
        pointers = (ctypes.c_void_p * max(len(kept), 1))(*map(ctypes.addressof, kept))
        device.check(device.lib.ptxpack_function_launch(program.function, *extents, shared, pointers, handle))
        if device.capturing(handle):
            program.captured = True
        elif device.driver.emulated:  # the kernel has ended; without this the next call would report its failure
            try:
                with device.entered() as driver:
                    driver("cuStreamSynchronize", ctypes.c_void_p(handle))
            except Error as why:
                raise Error(why.status, "%s failed: %s" % (program.name, why)) from None
        if call is not None:
            done = call.finish()
            for argument in arguments:
                if done is not None and isinstance(argument, Tensor):
                    argument._used(handle, done)


@functools.lru_cache(maxsize=256)
def _kernels(*arguments: Any) -> Kernel:
    return Kernel(*arguments)


def kernel(source: Union[str, os.PathLike[str]], entry: Optional[str] = None, *, text: Optional[str] = None,
           include: Sequence[Union[str, os.PathLike[str]]] = (), options: Sequence[str] = (),
           symbols: Optional[dict[str, int]] = None, **more: int) -> Kernel:
    """Makes a kernel of a .ptx file, which may use the macro language and include the pack's "atom/...", or of a .cu file,
    which NVRTC compiles and which may include <ptxpack/inline/...>.

        scale = ptxpack.kernel("scale.ptx", BLOCK=128, N=n)
        scale((n + 127) // 128, 128, y, x)

    source   the file.  With `text` it only gives the name in messages, the language and the folder of includes
    entry    the name of the entry, if there are several; "scale<float>" for a template
    text     the source itself, in place of the file's
    include  folders that are searched for includes after the folder of the including file
    options  options of NVRTC, such as "--use_fast_math"
    symbols  integers by name: symbols of the macro language, macros of CUDA C++.  All other keywords are such symbols, too

    The file is read at the first call on a device; the machine code is kept in the cache on disk.  The same arguments return the
    same Kernel until the file changes (the files that it includes are not checked).  Errors name the file and the line, through
    macros and includes."""
    path, names = os.fspath(source), {**(symbols or {}), **more}
    suffix = os.path.splitext(path)[1]
    if suffix not in _SUFFIXES:
        raise ArgumentError("%s: the name of a kernel's file ends with .ptx or .cu" % path)
    version = None
    if text is None:
        if not os.path.isfile(path):
            raise FileNotFoundError("%s: there is no such file" % path)
        found = os.stat(path)
        version = os.path.realpath(path), found.st_mtime_ns, found.st_size, found.st_ino
    for name, value in names.items():
        if not hasattr(value, "__index__") or not -2**63 <= value.__index__() < 2**63:
            raise ArgumentError("%s is %r, and must be an integer of 64 bits" % (name, value))
    return _kernels(path, text, _SUFFIXES[suffix], entry, tuple(os.fspath(folder) for folder in include), tuple(options),
                    tuple((name, value.__index__()) for name, value in sorted(names.items())), version)
