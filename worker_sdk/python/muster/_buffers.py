"""What a collective needs to know of the objects that hold its numbers: address, count and type.

NumPy and torch are asked only about their own objects, and never imported.
"""

import ctypes
import math
import struct
import sys
from collections.abc import Callable
from typing import Any

# In the order of muster_dtype.
_DTYPES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
_CODES = {name: code for code, name in enumerate(_DTYPES)}
_SIZES = (1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8)
_HINT = "want one of " + ", ".join(_DTYPES)

# Letters of the struct module, which are NumPy's as well.
_LETTERS = {**dict.fromkeys("bhilq", "int"), **dict.fromkeys("BHILQ", "uint"), **dict.fromkeys("efd", "float")}
_LETTER_CODES = {letter: _CODES[f"{kind}{struct.calcsize(letter) * 8}"] for letter, kind in _LETTERS.items()}
_OTHER_ORDERS = ">!" if sys.byteorder == "little" else "<"


class Buffer:
    """Dense memory of numbers. Valid for as long as it lives itself."""

    __slots__ = ("address", "count", "dtype", "writable", "owner", "keep", "make")

    def __init__(
        self,
        address: int,
        count: int,
        dtype: int,
        writable: bool,
        owner: Any,
        keep: Any,
        make: Callable[[Any, tuple[int, ...]], Any],
    ) -> None:
        self.address, self.count, self.dtype, self.writable = address, count, dtype, writable
        self.owner = owner  # what view() was given
        self.keep = keep  # what else holds the memory in place
        self.make = make  # another like the first argument, of a shape

    @property
    def shape(self) -> tuple[int, ...]:
        if isinstance(self.keep, memoryview):
            return self.keep.shape
        return tuple(self.owner.shape)

    @property
    def bytes(self) -> int:
        return self.count * _SIZES[self.dtype]

    @property
    def dtype_name(self) -> str:
        return _DTYPES[self.dtype]


def view(x: Any, name: str) -> Buffer:
    """The memory of `x`.

    Parameters
    ----------
    x : NumPy array, torch CPU tensor, or an object with a writable buffer or ``__dlpack__``
    name : str
        What messages call it.

    Raises
    ------
    TypeError
        `x` holds no numbers that could be sent.
    ValueError
        It does, but not as one dense piece of host memory; the message says how to get that.
    """
    kind = type(x)
    look = _looks.get(kind)
    if look is None:
        look = _looks[kind] = _look_of(kind)
    return look(x, name)


def _look_of(kind: type) -> Callable[[Any, str], Buffer]:
    for base in kind.__mro__:
        module = base.__module__.partition(".")[0]
        if module == "numpy" and base.__name__ == "MaskedArray":
            return _masked
        if module == "numpy" and base.__name__ == "ndarray":
            return _of_numpy
        if module == "torch" and base.__name__ in ("Tensor", "_TensorBase", "TensorBase"):
            return _of_torch
    return _of_buffer


_looks: dict[type, Callable[[Any, str], Buffer]] = {}


def _code(dtype: str, name: str, advice: str = "") -> int:
    code = _CODES.get(dtype)
    if code is None:
        raise TypeError(f"{name}: numbers of type {dtype}: {_HINT}{advice}")
    return code


# --- NumPy. Attributes that are slow (dtype.name, __array_interface__: microseconds) come last. ---


def _masked(x: Any, name: str) -> Buffer:
    raise TypeError(f"{name}: a masked array, and masks are not sent: pass {name}.filled(VALUE)")


def _of_numpy(x: Any, name: str) -> Buffer:
    dtype = x.dtype
    if not dtype.isnative:
        raise ValueError(f"{name}: an array in another byte order: pass {name}.astype({name}.dtype.newbyteorder('='))")
    code = _LETTER_CODES.get(dtype.char)
    if code is None:
        code = _numpy_code(dtype, name)
    flags = x.flags
    if not flags.c_contiguous:
        raise ValueError(
            f"{name}: an array that is not C-contiguous (shape {x.shape}, strides {x.strides}): "
            f"pass numpy.ascontiguousarray({name}), and copy back what you need in place"
        )
    writable, count = flags.writeable, x.size
    if writable and count:
        keep = ctypes.c_char.from_buffer(x)
        return Buffer(ctypes.addressof(keep), count, code, True, x, keep, _make_numpy)
    return Buffer(x.__array_interface__["data"][0], count, code, writable, x, None, _make_numpy)


def _numpy_code(dtype: Any, name: str) -> int:
    advice = ""
    if dtype.kind == "b":
        advice = f"; {name}.view(numpy.uint8) has the same memory"
    elif dtype.kind == "c":
        advice = f"; {name}.view(numpy.float{dtype.itemsize * 4}) has the same memory, real and imaginary in turn"
    return _code(dtype.name, name, advice)  # bfloat16, from elsewhere, has only its name


def _make_numpy(x: Any, shape: tuple[int, ...]) -> Any:
    return sys.modules["numpy"].empty(shape, x.dtype)


# --- torch. ---


def _of_torch(x: Any, name: str) -> Buffer:
    if not x.is_cpu:
        raise ValueError(
            f"{name}: a tensor on {x.device}; only host memory can be sent: pass {name}.cpu(), and copy back with "
            f"{name}.copy_(...)"
        )
    dtype = x.dtype
    code = _torch_codes.get(dtype)
    if code is None:
        code = _torch_codes[dtype] = _torch_code(dtype, name)
    if x.layout is not sys.modules["torch"].strided:
        raise ValueError(f"{name}: a tensor of layout {x.layout}: pass {name}.to_dense()")
    if not x.is_contiguous():
        raise ValueError(
            f"{name}: a tensor that is not contiguous (shape {tuple(x.shape)}, strides {x.stride()}): pass "
            f"{name}.contiguous(), and copy back what you need in place"
        )
    if x.is_neg():
        raise ValueError(f"{name}: a tensor whose memory has the opposite sign (is_neg()): pass {name}.resolve_neg()")
    return Buffer(x.data_ptr(), x.numel(), code, True, x, None, _make_torch)


_torch_codes: dict[Any, int] = {}


def _torch_code(dtype: Any, name: str) -> int:
    advice = ""
    if str(dtype) == "torch.bool":
        advice = f"; {name}.view(torch.uint8) has the same memory"
    elif dtype.is_complex:
        advice = f"; torch.view_as_real({name}) has the same memory, real and imaginary in turn"
    return _code(str(dtype).removeprefix("torch."), name, advice)


def _make_torch(x: Any, shape: tuple[int, ...]) -> Any:
    return x.detach().new_empty(shape)


# --- Objects with a buffer, or with DLPack's. ---


def _of_buffer(x: Any, name: str) -> Buffer:
    try:
        memory = memoryview(x)
    except TypeError:
        memory = None  # and no error of Python's in front of ours
    if memory is None:
        return _of_dlpack(x, name)
    code = _format_code(memory, name)
    if not memory.c_contiguous:
        raise ValueError(f"{name}: a buffer that is not C-contiguous: pass a copy, as {_copy_of(x, memory, name)}")
    if memory.readonly:
        raise ValueError(
            f"{name}: a read-only {type(x).__name__}: pass a writable copy, as {_copy_of(x, memory, name)}"
        )
    count = memory.nbytes // memory.itemsize
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) if count else 0
    return Buffer(address, count, code, True, x, memory, _make_buffer)


def _copy_of(x: Any, memory: memoryview, name: str) -> str:
    """How to copy `x` to numbers of the same type: a bytearray would hold its bytes."""
    letter = memory.format[-1:]
    if type(x).__module__ == "numpy" or memory.ndim != 1 or letter == "e":  # array.array has no halves
        return f"numpy.array({name})"
    return f"bytearray({name})" if letter == "B" else f"array.array({letter!r}, {name})"


def _format_code(memory: memoryview, name: str) -> int:
    text = memory.format
    order, letter = (text[0], text[1:]) if text[:1] in "@=<>!" else ("@", text)
    kind = _LETTERS.get(letter)
    if kind is None:
        raise TypeError(f"{name}: a buffer of format {text!r}: {_HINT}")
    if order in _OTHER_ORDERS and memory.itemsize > 1:
        raise ValueError(f"{name}: a buffer in another byte order (format {text!r}): pass a native copy")
    return _CODES[f"{kind}{memory.itemsize * 8}"]  # "<l" has 4 bytes, "@l" may have 8


def _make_buffer(x: Any, shape: tuple[int, ...]) -> Any:
    """A flat one: these types know no shape."""
    count = math.prod(shape)
    if type(x) is bytearray:
        return bytearray(count)
    if type(x).__module__ == "array":
        return type(x)(x.typecode, bytes(count * x.itemsize))
    raise TypeError(f"out: cannot make one like x, a {type(x).__name__}: give out=, a buffer for {count} elements")


def _of_dlpack(x: Any, name: str) -> Buffer:
    wanted = "want a NumPy array, a torch tensor, or an object with a buffer, such as array.array or bytearray"
    if not hasattr(x, "__dlpack__"):
        advice = ""
        if isinstance(x, (int, float)):
            advice = f": numpy.array([{name}]), or array.array('d', [{name}]), has it as its only element"
        elif isinstance(x, (list, tuple)):
            advice = f": numpy.array({name}), or array.array('d', {name}), has the same elements"
        raise TypeError(f"{name}: {wanted}, got {type(x).__name__}{advice}")
    try:
        import numpy
    except ImportError:
        raise TypeError(f"{name}: {wanted}; {type(x).__name__} is read through NumPy, which is not installed") from None
    try:
        array = numpy.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as why:
        raise ValueError(f"{name}: NumPy cannot read this {type(x).__name__}: {why}: pass it as a NumPy array") from why
    return _of_numpy(array, name)
