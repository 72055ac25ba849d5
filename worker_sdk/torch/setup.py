"""The module muster._torch for the torch of the Python that runs this, beside an installed package `muster`:

    python3 -m pip install --no-build-isolation PATH_OF_MUSTER/worker_sdk/torch

From the source tree, whose headers it needs, with g++ (C++17)."""

import pathlib

try:
    from muster import _ffi
except ImportError as why:
    raise SystemExit(f"{why}: install Muster's Python package (the wheel, or the Debian package) first") from None
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = pathlib.Path(_ffi.__file__).with_name("libmuster.so")


def torchs_libstdcpp():
    """By its path: a compiler that finds only an archive of libstdc++, or is told -static-libstdc++, would give the module
    one of its own, and a stream of the one with facets of the other is a crash."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split(maxsplit=5)[5].strip() for line in maps if "/libstdc++.so" in line})


def together():
    """A source that includes all of them: torch's headers are most of what a compiler reads, and without ninja it would
    read them for one source after the other."""
    made = HERE / "build/together.cc"
    made.parent.mkdir(exist_ok=True)
    made.write_text("".join(f'#include "worker_sdk/torch/{path.name}"\n' for path in sorted(HERE.glob("*.cc"))))
    return str(made.relative_to(HERE))


if not LIBRARY.exists():
    raise SystemExit(f"{LIBRARY} does not exist: install Muster's Python package (the wheel, or the Debian package) first")

setup(
    name="muster-torch",
    version=_ffi.load().version().decode(),
    ext_modules=[
        CppExtension(
            "muster._torch",
            [together()],
            include_dirs=[str(ROOT), str(ROOT / "worker_sdk/include")],
            extra_compile_args=["-std=c++17", "-fvisibility=hidden"],
            extra_link_args=[str(LIBRARY), *torchs_libstdcpp()],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
