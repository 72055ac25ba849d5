#!/usr/bin/env python3
"""Fails where the tree breaks the rules of the house: who may include whom, what a pure core may touch, sizes,
words that must not stay, links and options in the documentation. `check_tree.py [ROOT]` prints one line a violation:
path:line: what and what to do.

The rules are data (tables below); arch_test.py plants a violation of each.
"""

import os
import re
import subprocess
import sys

import check_docs

TOP = {"launcher", "agent", "rendezvous", "proto", "worker_sdk", "examples", "deploy", "tests"}
TOP_FILES = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "NOTICE"}
FILE_LINES_MAX = 500
CODE = (".h", ".cc", ".c", ".cpp", ".hpp")
SCRIPT = (".py", ".sh", ".cmake", ".txt", ".proto")

# Folder -> folders of ours that it may include. The longest matching folder on the left counts.
MAY_INCLUDE = {
    "proto/base": ["proto/base"],
    "proto": ["proto"],
    "rendezvous/core": ["proto/base", "rendezvous/core"],
    "rendezvous": ["proto", "rendezvous"],
    "agent/core": ["proto/base", "agent/core"],
    "agent": ["proto", "agent"],
    "launcher/schedule": ["proto", "launcher/schedule"],  # starters carry proto/wire's bootstrap
    "launcher": ["proto", "rendezvous", "agent", "launcher"],
    "worker_sdk/algorithm": ["proto/base", "worker_sdk/algorithm", "worker_sdk/include"],
    "worker_sdk": ["proto/base", "worker_sdk"],
    "examples": ["worker_sdk/include"],
    "tests/sim": ["proto/base", "rendezvous/core", "agent/core", "worker_sdk/algorithm", "tests/sim"],
    "tests/rendezvous/core": ["proto/base", "rendezvous/core", "tests/rendezvous"],
    "tests/agent/core": ["proto/base", "agent/core", "tests/agent"],
    "tests": ["proto", "rendezvous", "agent", "launcher", "worker_sdk", "tests"],
}
# Generated headers lie where the build puts them; these folders convert between them and our values.
GENERATED_IN = ["proto/wire", "rendezvous/service", "rendezvous/etcd", "agent/io", "launcher", "tests"]

# Says what went wrong before the program ends; no decision depends on it.
CORE_TRUSTED = {"proto/base/check.h"}
CORES = ["rendezvous/core", "agent/core", "worker_sdk/algorithm"]
# What would bring time, chance, threads or the outside world into a core, also through a header of ours.
CORE_FORBIDDEN = [
    (r"(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token)", "threads"),
    (r"(chrono|ctime|time\.h|sys/time\.h|absl/time/clock\.h)", "a clock"),
    (r"(random|absl/random/.*|sys/random\.h)", "a random source"),
    (r"(fstream|iostream|filesystem|cstdio|stdio\.h|fcntl\.h|unistd\.h|dirent\.h|poll\.h|sys/.*)", "files"),
    (r"(sys/socket\.h|netdb\.h|netinet/.*|arpa/.*|net/.*)", "sockets"),
    (r"(uv\.h|grpc.*|google/protobuf/.*|openssl/.*|absl/synchronization/.*|.*\.pb\.h)", "I/O libraries"),
]
CORE_CALLS = [
    (r"\b(getenv|setenv)\s*\(", "the environment"),
    (r"\babsl::(Now|SleepFor)\s*\(|\bstd::chrono\b|\bclock_gettime\s*\(|\btime\s*\(\s*(nullptr|NULL|0)\s*\)", "a clock"),
    (r"\b(rand|srand|random_device|mt19937\w*)\b\s*[({]", "a random source"),
    (r"\b(flat|node)_hash_(map|set)\b|\bunordered_(map|set|multimap|multiset)\b", "an order that differs by run"),
]
# Worker SDK: loaded into programs that carry their own copies of these.
SDK_FORBIDDEN = r"(absl/.*|grpc.*|google/protobuf/.*|uv\.h|.*\.pb\.h)"

# No pattern matches its own text: this file is checked as well.
WORDS = [
    (r"\b(TO[D]O|FIX[M]E|XX[X])\b", "finish it or file an issue"),
    (r"\bGTEST_[S]KIP\b|\bDISABLED[_]|pytest\.mark[.](skip|xfail)\b", "mend the test or remove it"),
]
ONE_MACHINE = "a path of one machine: name it relative to the tree, or let the user give it"
UNIT_TEST_CALLS = [(r"\b(usleep|nanosleep|sleep_for|sleep_until|SleepFor)\s*\(|(?<![\w.:])sleep\s*\(", "wait for the condition instead of sleeping")]
SECURITY = "deploy/SECURITY.md"
# Where exceptions end: yaml-cpp's, and those of a program that has no memory or thread left. In a folder of torch's back
# end they are what torch wants to hear; one test is a program that throws.
EXCEPTION_FILES = ("worker_sdk/torch/", "tests/worker_sdk/torch/", "tests/worker_sdk/probe_throw.cc", "launcher/config_file.cc", "rendezvous/daemon_options.cc", "worker_sdk/api/c_call.h", "worker_sdk/base/quiet_thread.h", "worker_sdk/base/no_memory.h", "tests/worker_sdk/scarce_memory.cc", "worker_sdk/transport/mover.cc")


def tree(root):
    """Paths of the tree relative to root: what git knows or would add; all files in an unpacked archive."""
    done = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True, text=True
    )
    if done.returncode == 0:
        paths = done.stdout.split("\0")
    else:
        paths = [os.path.relpath(os.path.join(d, f), root) for d, _, files in os.walk(root) for f in files]
    return sorted(p for p in set(paths) if p and os.path.isfile(os.path.join(root, p)) and not p.startswith("build/"))


def in_folder(path, folder):
    return path.startswith(folder + "/")


def owner(path, folders):
    return max((f for f in folders if in_folder(path, f)), key=len, default=None)


def strip(text):
    """The code without comments and string contents, line numbers kept."""
    def blank(match):
        kept = match.group(0)
        if kept.startswith("R\"") or kept.startswith("/"):
            return "\n" * kept.count("\n")
        return kept[0] + kept[-1]

    token = r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*(?:.|\n)*?\*/'
    return re.sub(token, blank, text)


class Checker:
    def __init__(self, root):
        self.root, self.paths, self.found = root, tree(root), []
        self.texts = {}
        for path in self.paths:
            try:
                with open(os.path.join(root, path), encoding="utf-8") as f:
                    self.texts[path] = f.read()
            except UnicodeDecodeError:
                continue
        self.includes = {p: self.read_includes(t) for p, t in self.texts.items() if p.endswith(CODE)}

    def say(self, path, line, what):
        self.found.append(f"{path}:{line}: {what}")

    @staticmethod
    def read_includes(text):
        return [(n, m[1]) for n, l in enumerate(text.splitlines(), 1) if (m := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', l))]

    def ours(self, name):
        return name.split("/")[0] in TOP and "/" in name

    def check_top(self):
        for path in self.paths:
            first, slash, _ = path.partition("/")
            if first.startswith("."):
                continue
            if slash and first not in TOP:
                self.say(path, 1, f"top-level folder '{first}' is not one of {', '.join(sorted(TOP))}")
            if not slash and first not in TOP_FILES:
                self.say(path, 1, "no other files at the top of the tree; put it into the folder it belongs to")

    def check_size(self):
        for path, text in self.texts.items():
            lines = text.count("\n")
            if path.endswith(CODE + SCRIPT) and lines > FILE_LINES_MAX:
                self.say(path, lines, f"{lines} lines; split files above {FILE_LINES_MAX}")

    def machine_paths(self):
        """What would bind the tree to the machine it is checked on: where it lies, and whose it is."""
        homes = {self.root, os.path.expanduser("~")} - {"/"}
        return r"(?<![\w.])(" + "|".join(re.escape(h) for h in sorted(homes)) + r")(?![\w.-])"

    def check_words(self):
        words = [*WORDS, (self.machine_paths(), ONE_MACHINE)]
        for path, text in self.texts.items():
            if path == "LICENSE":
                continue
            for number, line in enumerate(text.splitlines(), 1):
                for pattern, advice in words:
                    if match := re.search(pattern, line):
                        self.say(path, number, f"'{match[0]}': {advice}")

    def check_includes(self):
        for path, includes in self.includes.items():
            folder = owner(path, MAY_INCLUDE)
            for line, name in includes:
                if name.endswith(".pb.h"):
                    if not any(in_folder(path, f) for f in GENERATED_IN):
                        self.say(path, line, f"'{name}': generated messages are only for {', '.join(GENERATED_IN)}")
                elif self.ours(name) and not any(in_folder(name, f) for f in MAY_INCLUDE.get(folder, [])):
                    allowed = ", ".join(MAY_INCLUDE.get(folder, [])) or "nothing of ours"
                    self.say(path, line, f"'{name}': {folder or path} may include {allowed}")
                if in_folder(path, "worker_sdk") and re.fullmatch(SDK_FORBIDDEN, name):
                    self.say(path, line, f"'{name}': the worker SDK lives in programs with a copy of their own")

    def closure(self, path, via=None, seen=None):
        """(line in `path`, included name, header of ours it came through) for all that `path` includes."""
        seen = seen if seen is not None else set()
        for line, name in self.includes.get(path, []):
            yield line, name, via
            if name in self.includes and name not in seen and name not in CORE_TRUSTED:
                seen.add(name)
                for _, inner, through in self.closure(name, name, seen):
                    yield line, inner, through or name

    def check_cores(self):
        for path in self.includes:
            if not any(in_folder(path, core) for core in CORES):
                continue
            for line, name, via in self.closure(path):
                for pattern, what in CORE_FORBIDDEN:
                    if re.fullmatch(pattern, name):
                        through = f" (through {via})" if via else ""
                        self.say(path, line, f"'{name}'{through}: a core includes no {what.removeprefix('a ')}")
                        break
            original = self.texts[path].splitlines()
            for number, line in enumerate(strip(self.texts[path]).splitlines(), 1):
                for pattern, what in CORE_CALLS:
                    if (match := re.search(pattern, line)) and "// looked up only" not in original[number - 1]:
                        self.say(path, number, f"'{match[0].strip()}': a core depends on its arguments, not on {what}")

    def check_code(self):
        for path in self.includes:
            text = strip(self.texts[path])
            for number, line in enumerate(text.splitlines(), 1):
                if not path.startswith(EXCEPTION_FILES) and (match := re.search(r"\b(throw|try|catch)\b\s*[\w({]", line)):
                    self.say(path, number, f"'{match[1]}': errors are absl::Status; exceptions end in {', '.join(EXCEPTION_FILES)}")
                if re.match(r"\s*using namespace\b", line):
                    self.say(path, number, "'using namespace': name what you use")
                if in_folder(path, "tests") and path.endswith("_test.cc"):
                    for pattern, advice in UNIT_TEST_CALLS:
                        if match := re.search(pattern, line):
                            self.say(path, number, f"'{match[0]}': {advice}")
            if path.endswith(".h") and "#pragma once" not in self.texts[path] and "#ifndef" not in self.texts[path]:
                self.say(path, 1, "a header without #pragma once")

    def check_cmake(self):
        for path, text in self.texts.items():
            if os.path.basename(path) == "CMakeLists.txt" or path.endswith(".cmake"):
                for number, line in enumerate(text.splitlines(), 1):
                    if re.search(r"^\s*file\s*\(\s*GLOB|^\s*include_directories\s*\(", line, re.I):
                        self.say(path, number, "no file globs and no global include paths: name them per target")

    def check_security(self):
        """Each row of the table of threats names tests that exist."""
        for number, line in enumerate(self.texts.get(SECURITY, "").splitlines(), 1):
            if not line.startswith("| ") or line.startswith("| who tries what"):
                continue
            tests = re.findall(r"`(tests/[\w./]+)::(\w+)`", line)
            if not tests:
                self.say(SECURITY, number, "a threat without a test: name one, as `tests/FILE::NAME`")
            for path, name in tests:
                if not re.search(rf"\b{name}\b", self.texts.get(path, "")):
                    self.say(SECURITY, number, f"'{path}::{name}': there is no such test")

    def check_docs(self):
        check_docs.check(self.texts, self.paths, self.say)

    def run(self):
        for check in (self.check_top, self.check_size, self.check_words, self.check_includes, self.check_cores,
                      self.check_code, self.check_cmake, self.check_security, self.check_docs):
            check()
        return sorted(set(self.found))


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    checker = Checker(os.path.abspath(root))
    found = checker.run()
    print("\n".join(found) or f"check_tree: {len(checker.paths)} files, no violation")
    return 1 if found or not checker.paths else 0


if __name__ == "__main__":
    sys.exit(main())
