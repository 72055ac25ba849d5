"""``python -m muster.run ARGS...``: torchrun's command line, carried out by ``launch``.

Scripts run under the interpreter that runs this, unless ``PYTHON_EXEC`` names another, as with torchrun. What launch does otherwise than
torchrun is in deploy/docs/from-torchrun.md; its own options (``--hosts``, ``--plan``, ``--help-all`` ...) may be said here, too.
"""

import os
import shutil
import sys
from pathlib import Path

# From the folder of this package to the one that has bin: a build tree; PREFIX/lib/pythonX/site-packages, also of a virtual environment.
_UP = (1, 3)


def find_launch(package: Path, path: str | None) -> Path:
    """The launch of the installation that ``package`` (the folder of this file) is of, else the one on ``path``, the text of PATH.

    FileNotFoundError: there is none. A program of that name without muster-agent beside it is another one.
    """
    places = [package.parents[up] / "bin/launch" for up in _UP if up < len(package.parents)]
    on_path = shutil.which("launch", path=path)
    if on_path:
        places.append(Path(on_path).resolve())
    for launch in places:
        if os.access(launch, os.X_OK) and launch.with_name("muster-agent").exists():
            return launch
    strange = f" ({on_path} is another program: no muster-agent lies beside it)" if on_path else ""
    raise FileNotFoundError(
        f"no launch beside the package in {package}, and none on PATH{strange}: install Muster's programs, or add their folder to PATH"
    )


def main() -> None:
    """Becomes launch; returns only by an exception. Exit status 2: there is no launch."""
    try:
        launch = find_launch(Path(__file__).resolve().parent, os.environ.get("PATH"))
    except FileNotFoundError as error:
        print(f"muster: {error}", file=sys.stderr)
        sys.exit(2)
    if not os.environ.get("PYTHON_EXEC") and sys.executable:
        os.environ["PYTHON_EXEC"] = sys.executable
    # By this name launch reads the words as torchrun does.
    os.execv(launch, [str(launch.with_name("torchrun")), *sys.argv[1:]])


if __name__ == "__main__":
    main()
