"""torch.distributed on Muster's collectives: the import registers the back end ``muster``.

>>> import muster.torch
>>> torch.distributed.init_process_group("muster")

Host memory only; with torch 2 and a GPU, ``"cpu:muster,cuda:nccl"``. Under ``launch`` the processes meet through their
agents. Errors are RuntimeErrors with libmuster's sentence. In a job with ``--restart=one``, :class:`ElasticGroup` goes
on when ranks die.
"""

import atexit

import torch.distributed as dist

from . import _ffi


def _register() -> None:
    _ffi.load()  # the module beside us is linked to the library that the package loads
    try:
        from . import _torch  # type: ignore[attr-defined]
    except ImportError as why:
        raise ImportError(
            f"muster.torch: no module muster._torch for this torch ({dist.__file__}): {why}. Build it with this "
            "Python: python3 -m pip install --no-build-isolation PATH_OF_MUSTER/worker_sdk/torch"
        ) from why
    atexit.register(_torch.close_all)
    if "devices" in dist.Backend.register_backend.__code__.co_varnames:
        dist.Backend.register_backend("muster", _torch.create, devices=["cpu"])
    else:  # torch 1.13
        dist.Backend.register_backend("muster", _torch.create)


_register()

from ._elastic import ElasticGroup  # noqa: E402  (it needs the module that was looked for)

__all__ = ["ElasticGroup"]
