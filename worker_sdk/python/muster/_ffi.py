"""libmuster's C ABI (muster/muster.h) by ctypes, which lets other threads run during a call."""

import ctypes
import os
from typing import Any

_HANDLE = ctypes.c_void_p
_BUFFER = ctypes.c_void_p
_COUNT = ctypes.c_int64
_COUNTS = ctypes.POINTER(ctypes.c_int64)
_INT = ctypes.c_int


class _Counters(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64) for name in ("calls", "bytes", "waited_on_node_ns", "waited_between_nodes_ns")
    ]


class _Agreed(ctypes.Structure):
    _fields_ = [
        ("completed", ctypes.c_uint64),
        ("started", ctypes.c_uint64),
        ("committed", ctypes.c_int64),
        ("committed_last", ctypes.c_int64),
        ("holder", ctypes.c_int),
    ]


# Name without "muster_" -> (result, arguments).
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "version": (ctypes.c_char_p, []),
    "last_error": (ctypes.c_char_p, []),
    "init": (_INT, [ctypes.POINTER(_HANDLE)]),
    "free": (None, [_HANDLE]),
    "abandon": (None, [_HANDLE]),
    "free_at_exit": (None, [_HANDLE]),
    "split": (_INT, [_HANDLE, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(_HANDLE)]),
    "rank": (_INT, [_HANDLE]),
    "size": (_INT, [_HANDLE]),
    "local_rank": (_INT, [_HANDLE]),
    "local_size": (_INT, [_HANDLE]),
    "node_rank": (_INT, [_HANDLE]),
    "nodes": (_INT, [_HANDLE]),
    "round": (ctypes.c_uint64, [_HANDLE]),
    "set_timeout": (None, [_HANDLE, ctypes.c_double]),
    "set_wire": (_INT, [_HANDLE, _INT]),
    "get_wire": (_INT, [_HANDLE]),
    "get_counters": (_INT, [_HANDLE, ctypes.POINTER(_Counters)]),
    "waited_for": (ctypes.c_uint64, [_HANDLE, _INT]),
    "reform": (_INT, [_HANDLE, ctypes.POINTER(_HANDLE)]),
    "get_agreed": (_INT, [_HANDLE, ctypes.POINTER(_Agreed)]),
    "is_replacement": (_INT, [_HANDLE]),
    "last_call": (ctypes.c_uint64, [_HANDLE]),
    "commit": (_INT, [_HANDLE, ctypes.c_int64]),
    "broadcast_state": (_INT, [_HANDLE, ctypes.POINTER(_BUFFER), _COUNTS, ctypes.POINTER(_INT), _INT]),
    "barrier": (_INT, [_HANDLE]),
    "all_reduce": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNT, _INT, _INT]),
    "reduce": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNT, _INT, _INT, _INT]),
    "broadcast": (_INT, [_HANDLE, _BUFFER, _COUNT, _INT, _INT]),
    "all_gather": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNT, _INT]),
    "gather": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNT, _INT, _INT]),
    "scatter": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNT, _INT, _INT]),
    "reduce_scatter": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNT, _INT, _INT]),
    "all_to_all": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNT, _INT]),
    "all_gather_v": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNTS, _INT]),
    "gather_v": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNTS, _INT, _INT]),
    "scatter_v": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNTS, _INT, _INT]),
    "reduce_scatter_v": (_INT, [_HANDLE, _BUFFER, _BUFFER, _COUNTS, _INT, _INT]),
    "all_to_all_v": (_INT, [_HANDLE, _BUFFER, _COUNTS, _BUFFER, _COUNTS, _INT]),
    "send": (_INT, [_HANDLE, _BUFFER, _COUNT, _INT, _INT, _INT]),
    "recv": (_INT, [_HANDLE, _BUFFER, _COUNT, _INT, _INT, _INT]),
    "wait": (_INT, [_HANDLE]),
    "test": (_INT, [_HANDLE]),
    "work_source": (_INT, [_HANDLE]),
    "work_free": (None, [_HANDLE]),
}
_STARTED = (
    "barrier", "all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
    "all_gather_v", "gather_v", "scatter_v", "reduce_scatter_v", "all_to_all_v", "send", "recv",
)  # fmt: skip
for _name in _STARTED:
    _FUNCTIONS[_name + "_async"] = (_INT, [*_FUNCTIONS[_name][1], ctypes.POINTER(_HANDLE)])

_NAME = "libmuster.so"


class Library:
    """The functions of the C ABI, each named without its prefix.

    Parameters
    ----------
    path : str
        What the loader opens.
    """

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, "muster_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def open(self) -> tuple[int, int]:
        """``muster_init()``: a code, and the communicator's handle where it is 0."""
        handle = _HANDLE()
        code = self.init(ctypes.byref(handle))  # type: ignore[attr-defined]
        return code, handle.value or 0

    def counters(self, handle: int) -> tuple[int, int, int, int]:
        """``muster_get_counters()`` of a communicator: the fields in their order."""
        counted = _Counters()
        self.get_counters(handle, ctypes.byref(counted))  # type: ignore[attr-defined]
        return counted.calls, counted.bytes, counted.waited_on_node_ns, counted.waited_between_nodes_ns

    def agreed(self, handle: int) -> tuple[int, int, int, int, int]:
        """``muster_get_agreed()`` of a communicator: the fields in their order."""
        agreed = _Agreed()
        self.get_agreed(handle, ctypes.byref(agreed))  # type: ignore[attr-defined]
        return agreed.completed, agreed.started, agreed.committed, agreed.committed_last, agreed.holder


_loaded: Library | None = None


def load() -> Library:
    """The library: beside this file, else $MUSTER_LIB, else of the tree that holds us, else where the loader looks.

    Raises
    ------
    OSError
        There is none, or it cannot be loaded.
    """
    global _loaded
    if _loaded is None:
        _loaded = Library(_path())
    return _loaded


def _path() -> str:
    package = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.join(package, _NAME)
    if os.path.exists(beside):
        return beside
    named = os.environ.get("MUSTER_LIB")
    if named:
        return named
    # lib/python3/dist-packages/muster: where we are installed
    in_tree = os.path.normpath(os.path.join(package, "../../..", _NAME))
    if os.path.exists(in_tree):
        return in_tree
    try:
        ctypes.CDLL(_NAME)
    except OSError as why:
        raise OSError(
            f"{_NAME} is neither beside the package ({beside}), nor where its tree has it ({in_tree}), nor where "
            f"the loader looks ({why}): "
            "install Muster, or set MUSTER_LIB to the file's path"
        ) from None
    return _NAME
