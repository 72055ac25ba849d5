"""What calls are given besides memory, and whether a result may go where it is wanted."""

import operator
from typing import Any

from ._buffers import Buffer, view

_OPS = {"sum": 0, "avg": 1, "prod": 2, "min": 3, "max": 4, "band": 5, "bor": 6, "bxor": 7}
_WIRES = {"full": 0, "bf16": 1}


def op_code(op: str) -> int:
    return _code(_OPS, "op", op)


def wire_code(wire: str) -> int:
    return _code(_WIRES, "wire", wire)


def _code(codes: dict[str, int], name: str, word: str) -> int:
    code = codes.get(word) if isinstance(word, str) else None
    if code is None:
        raise ValueError(f"{name}: want one of {', '.join(codes)}, got {word!r}")
    return code


def tag_number(tag: int) -> int:
    return between(tag, "tag", 0, 2**31 - 1)


def between(value: int, name: str, low: int, high: int) -> int:
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: want an integer, got {type(value).__name__}") from None
    if not low <= value <= high:
        raise ValueError(f"{name}: want {low}..{high}, got {value}")
    return value


def in_place(source: Buffer) -> Buffer:
    writable(source, "x", ", or give out=")
    return source


def elsewhere(out: Any, source: Buffer) -> Buffer:
    target = target_of(out, source, source.count)
    apart(source, target)
    return target


def target_of(out: Any, source: Buffer, count: int) -> Buffer:
    target = view(out, "out")
    if target.dtype != source.dtype:
        raise ValueError(f"out: want {source.dtype_name} as x has, got {target.dtype_name}")
    if target.count != count:
        raise ValueError(f"out: want {count} elements, got {target.count}")
    writable(target)
    return target


def writable(target: Buffer, name: str = "out", otherwise: str = "") -> None:
    if not target.writable:
        raise ValueError(f"{name}: read-only, and takes the result: pass {name}.copy(){otherwise}")


def apart(source: Buffer, target: Buffer, hint: str = "") -> None:
    if source.address == target.address:
        return
    if source.address < target.address + target.bytes and target.address < source.address + source.bytes:
        raise ValueError(f"x and out overlap: want the same memory, or no common element{hint}")
