#!/usr/bin/env python3
"""Which sources can be compiled together, as one translation unit that includes them: those of equal options where no
two define the same name. Most of the time of a compiler goes into the headers of libraries, read once for each unit.

As a program, for the build (deploy/cmake/muster.cmake): source_groups.py ROOT OUT < LINES, where a line is a target and
an absolute path of a source with a semicolon between them; OUT is CMake that gives each source its UNITY_GROUP.
"""

import os
import re
import sys

PUBLIC = "worker_sdk/include/"  # whose headers are included without it
ANONYMOUS = r"^namespace \{$(.*?)^\}  // namespace$"
TYPE = r"^(?:class|struct|union|enum(?: class)?)\s+(\w+)[^;{]*\{"
GROUP_FILES_MAX = 10  # larger ones save little more and leave the last processor alone for long


class Sources:
    """What sources under `root`, named by paths relative to it, define and include."""

    def __init__(self, root):
        self.root = root
        self._texts = {}
        self._defined = {}

    def text(self, path):
        if path not in self._texts:
            with open(os.path.join(self.root, path), encoding="utf-8") as f:
                self._texts[path] = f.read()
        return self._texts[path]

    def included(self, path, seen=None):
        """`path` and the headers of ours that it includes, directly or not."""
        seen = set() if seen is None else seen
        if path.startswith("muster/"):
            path = PUBLIC + path
        if path in seen or not os.path.isfile(os.path.join(self.root, path)):
            return seen
        seen.add(path)
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', self.text(path), re.M):
            self.included(name, seen)
        return seen

    def names(self, path):
        """Names that `path` may define at namespace level, where our style has nothing indented; too many do no harm."""
        if path not in self._defined:
            self._defined[path] = names_in(self.text(path))
        return self._defined[path]

    def names_included(self, path):
        """The names of the headers of ours that `path` includes."""
        return set().union(*(self.names(p) for p in self.included(path) - {path}))

    def types(self, path):
        """{name: header} of the types that the headers of ours that `path` includes define at namespace level."""
        headers = sorted(self.included(path) - {path})  # a name in two of them is the last one's, in each run the same
        return {name: header for header in headers for name in re.findall(TYPE, self.text(header), re.M)}

    def grouped(self, options, files_max=GROUP_FILES_MAX):
        """`options` is {path: options}. Lists of up to `files_max` paths that can be read together, the largest first."""
        groups = []
        # <linux/tcp.h> does not go together with <netinet/tcp.h>, which libuv includes.
        alone = [path for path in options if "#include <linux/tcp.h>" in self.text(path)]
        for path, its in sorted(options.items()):
            # What it defines of its headers' names is the one definition that there is, unless it is for itself alone.
            declared = self.names_included(path)
            own = self.names(path) - declared | names_in("\n".join(re.findall(ANONYMOUS, self.text(path), re.M | re.S)))
            seen = self.names(path) | declared
            types = self.types(path)
            for group in groups if path not in alone else []:
                apart = not own & group["seen"] and not seen & group["own"]
                apart = apart and all(group["types"].get(name, header) == header for name, header in types.items())
                if group["options"] == its and len(group["paths"]) < files_max and apart:
                    break
            else:
                group = {"options": its, "paths": [], "own": set(), "seen": set(), "types": {}, "size": 0}
                groups.append(group)
            group["paths"].append(path)
            group["own"] |= own
            group["seen"] |= seen
            group["types"] |= types
            group["size"] += len(self.text(path))
            if path in alone:
                group["options"] = None  # nothing joins it
        return [g["paths"] for g in sorted(groups, key=lambda g: -g["size"])]


def names_in(text):
    found = set(re.findall(r"^#\s*define\s+(\w+)", text, re.M))
    found.update(re.findall(r"^using\s+(\w+)\s*=", text, re.M))
    found.update(re.findall(r"^(?:class|struct|union|enum(?: class)?)\s+(\w+)", text, re.M))
    found.update("_".join(pair) for pair in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)", text, re.M))
    for head in re.findall(r"^(?!using|namespace|TEST|#|//)[A-Za-z_][^\n;={(\[]*", text, re.M):
        name = re.search(r"(?<!:)\b(\w+)\s*$", head)
        if name:
            found.add(name[1])
    return found


def main():
    root, out = sys.argv[1:]
    targets = {}
    for line in sys.stdin:
        target, path = line.rstrip("\n").split(";")
        targets.setdefault(target, []).append(os.path.relpath(path, root))
    sources = Sources(root)
    lines = []
    for target, paths in targets.items():
        for number, group in enumerate(sources.grouped({path: target for path in paths})):
            for path in group if len(group) > 1 else []:
                lines.append(
                    f'set_source_files_properties("{os.path.join(root, path)}" TARGET_DIRECTORY {target} PROPERTIES UNITY_GROUP {target}_{number})\n'
                )
    with open(out, "w") as f:
        f.writelines(lines)


if __name__ == "__main__":
    main()
