#!/usr/bin/env python3
"""make_wheel.py OUT LICENSE FILE...: a wheel of the package `muster` from its files; needs no setuptools.

Name, version and tags are those of OUT (muster-VERSION-PYTHON-ABI-PLATFORM.whl). Equal files give equal bytes.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Collectives for the processes that Muster's launch started
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: make_wheel
Root-Is-Purelib: false
Tag: {tag}
"""


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def contents(out: pathlib.Path, license_file: pathlib.Path, files: list[pathlib.Path]) -> dict[str, bytes]:
    """What the wheel holds, by name within it; the record comes last, as the format asks."""
    name, version, tag = out.stem.split("-", 2)
    info = f"{name}-{version}.dist-info"
    held = {f"{name}/{file.name}": file.read_bytes() for file in files}
    held[f"{info}/LICENSE"] = license_file.read_bytes()
    held[f"{info}/METADATA"] = METADATA.format(name=name, version=version).encode()
    held[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    record = "".join(record_line(path, data) for path, data in held.items())
    held[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return held


def main() -> None:
    out, license_file, *files = map(pathlib.Path, sys.argv[1:])
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in contents(out, license_file, files).items():
            entry = zipfile.ZipInfo(path)  # of 1980: the time of the build is nobody's business
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


if __name__ == "__main__":
    main()
