#!/usr/bin/env python3
"""check_tree.py tested: a clean tree passes, and each planted violation is found, alone and at its line."""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

from check_tree import Checker

HEAD = "// Purpose.\n#pragma once\n"
CLEAN = {
    "CMakeLists.txt": "project(x)\n",
    "README.md": "# X\nSee [hosts](deploy/docs/start.md#two-hosts-as-one), [all](deploy/docs).\n",
    "deploy/docs/start.md": "# Start\n## Two hosts, as `one`\n[back](../../README.md#x) `srun --ntasks-per-node=1 launch --hosts a x.py --own`\n",
    "launcher/option_table.cc": 'Row kTable[] = {{"--hosts -H", "LIST", "not --nosuch"}, {"--verbose", "", ""}};\n',
    ".ci/run": "x\n",
    "proto/base/ids.h": HEAD + "#include <compare>\n",
    "proto/base/mailbox.h": HEAD + "#include <condition_variable>\n",
    "proto/wire/convert.cc": '#include "proto/base/ids.h"\n#include "muster.pb.h"\n',
    "rendezvous/core/machine.h": HEAD + '#include "proto/base/ids.h"\n#include <map>\n',
    "rendezvous/core/machine.cc": '#include "rendezvous/core/machine.h"\n// throw try { new round; getenv()\nint a = 1;\n',
    "rendezvous/service/loop.cc": '#include "proto/base/mailbox.h"\n#include "rendezvous/core/machine.h"\n#include <thread>\n',
    "agent/core/agent.h": HEAD + '#include "proto/base/ids.h"\n',
    "agent/io/loop.cc": '#include "agent/core/agent.h"\n#include <uv.h>\n',
    "launcher/main.cc": '#include "agent/core/agent.h"\n#include "rendezvous/core/machine.h"\n',
    "launcher/config_file.cc": "int F() { try { return 1; } catch (...) { return 2; } }\n",
    "launcher/schedule/hostlist.cc": '#include "proto/base/ids.h"\n',
    "worker_sdk/api/call.cc": '#include "proto/base/ids.h"\n',
    "examples/hello.cc": '#include "worker_sdk/include/muster.h"\n',
    "deploy/SECURITY.md": "| who tries what |\n|---|\n| x | y | `tests/sim/world.cc::machine` |\n",
    "tests/sim/world.cc": '#include "agent/core/agent.h"\n#include "rendezvous/core/machine.h"\n',
    "tests/rendezvous/core/machine_test.cc": '#include "rendezvous/core/machine.h"\n',
}
# Put together here, because this file is checked as well.
UNFINISHED, SKIPPED, DISABLED = "TO" + "DO", "GTEST_" + "SKIP", "DISABLED" + "_"
GUIDE = "# Start\n## Two hosts, as `one`\n"
# name, path, text that replaces or adds the file, line of the violation, words its message must hold
PLANTED = [
    ("top folder", "tools/x.py", "x\n", 1, "top-level folder 'tools'"),
    ("top file", "notes.md", "x\n", 1, "top of the tree"),
    ("long file", "agent/io/long.cc", "int a;\n" * 501, 501, "501 lines"),
    ("long script", "deploy/long.py", "pass\n" * 501, 501, "501 lines"),
    ("unfinished", "agent/io/x.cc", f"int a;  // {UNFINISHED} later\n", 1, UNFINISHED),
    ("skipped", "tests/agent/x_test.cc", f"\n{SKIPPED}();\n", 2, SKIPPED),
    ("disabled", "tests/agent/x_test.cc", f"TEST(A, {DISABLED}B) {{}}\n", 1, DISABLED),
    ("skipped in python", "tests/integration/x_test.py", "@pytest.mark" + ".skip\n", 1, "mend the test"),
    ("path of this tree", "deploy/x.sh", "\ncd {root}/build\n", 2, "path of one machine"),
    ("home of this user", "deploy/x.sh", "cd {home}\n", 1, "path of one machine"),
    ("rendezvous sees agent", "rendezvous/service/x.cc", '#include "agent/core/agent.h"\n', 1, "rendezvous may include"),
    ("agent sees rendezvous", "agent/io/x.cc", '#include "rendezvous/core/machine.h"\n', 1, "agent may include"),
    ("core sees service", "rendezvous/core/x.cc", '#include "rendezvous/service/loop.h"\n', 1, "rendezvous/core may"),
    ("core sees io", "agent/core/x.cc", '\n#include "agent/io/links.h"\n', 2, "agent/core may include"),
    ("base sees wire", "proto/base/x.cc", '#include "proto/wire/convert.h"\n', 1, "proto/base may include"),
    ("anything sees launcher", "agent/io/x.cc", '#include "launcher/cli.h"\n', 1, "agent may include"),
    ("schedule sees agent", "launcher/schedule/x.cc", '#include "agent/core/agent.h"\n', 1, "launcher/schedule may"),
    ("sdk sees agent", "worker_sdk/api/x.cc", '#include "agent/core/agent.h"\n', 1, "worker_sdk may include"),
    ("sdk sees Abseil", "worker_sdk/api/x.cc", '#include "absl/time/time.h"\n', 1, "the worker SDK lives"),
    ("algorithm sees transport", "worker_sdk/algorithm/x.cc", '#include "worker_sdk/transport/tcp.h"\n', 1, "algorithm may"),
    ("example sees inside", "examples/x.cc", '#include "worker_sdk/api/call.h"\n', 1, "examples may include"),
    ("sim sees io", "tests/sim/x.cc", '#include "agent/io/loop.h"\n', 1, "tests/sim may include"),
    ("messages in a core", "agent/core/x.cc", '#include "muster.pb.h"\n', 1, "generated messages"),
    ("core with a thread", "rendezvous/core/x.cc", "#include <thread>\n", 1, "no threads"),
    ("core with a clock", "rendezvous/core/x.cc", '#include "absl/time/clock.h"\n', 1, "no clock"),
    ("core with files", "agent/core/x.cc", "#include <unistd.h>\n", 1, "no files"),
    ("core with sockets", "agent/core/x.cc", "#include <netinet/in.h>\n", 1, "no sockets"),
    ("core with uv", "agent/core/x.cc", "#include <uv.h>\n", 1, "no I/O libraries"),
    ("core with gRPC", "agent/core/x.cc", "#include <grpcpp/grpcpp.h>\n", 1, "no I/O libraries"),
    ("core with chance", "agent/core/x.cc", "#include <random>\n", 1, "no random source"),
    ("core with a lock through a header", "agent/core/x.cc", '\n#include "proto/base/mailbox.h"\n', 2, "through proto/base/mailbox.h"),
    ("core asks the time", "agent/core/x.cc", "auto t = absl::Now();\n", 1, "not on a clock"),
    ("core asks the environment", "agent/core/x.cc", 'auto t = getenv("A");\n', 1, "not on the environment"),
    ("core without order", "agent/core/x.cc", "std::unordered_map<int, int> m;\n", 1, "order that differs"),
    ("exception", "launcher/x.cc", "void F() { throw 1; }\n", 1, "'throw'"),
    ("using namespace", "launcher/x.cc", "using namespace std;\n", 1, "'using namespace'"),
    ("sleep in a unit test", "tests/agent/x_test.cc", "absl::SleepFor(absl::Seconds(1));\n", 1, "instead of sleeping"),
    ("unguarded header", "agent/io/x.h", "int a;\n", 1, "#pragma once"),
    ("threat without a test", "deploy/SECURITY.md", "| who tries what |\n|---|\n| x | y | it is fine |\n", 3, "a threat without a test"),
    ("threat whose test is gone", "deploy/SECURITY.md", "\n| x | y | `tests/sim/world.cc::machine`, `tests/sim/world.cc::Gone` |\n", 2, "no such test"),
    ("link to nowhere", "deploy/docs/start.md", GUIDE + "[a](gone.md)\n", 3, "there is no deploy/docs/gone.md"),
    ("link out of the folder", "README.md", "# X\n[all](deploy/docs/start.md), [a](start.md)\n", 2, "there is no start.md"),
    ("link to a heading that is gone", "deploy/docs/start.md", GUIDE + "[a](../../README.md#x), [b](#gone)\n", 3, "no such heading"),
    ("link in any folder", "agent/README.md", "[a](core/gone.h)\n", 1, "there is no agent/core/gone.h"),
    ("guide that nobody finds", "deploy/docs/lost.md", "# Lost\n", 1, "does not link this guide"),
    ("option that is none", "deploy/docs/start.md", GUIDE + "`--no-verbose`, `--nosuch`\n", 3, "'--nosuch': no option of launch"),
    ("option in a block", "deploy/docs/start.md", GUIDE + "\n    launch --hosts a x.py --own : --nosuch\n", 4, "'--nosuch': no option of launch"),
    ("option of another program", "deploy/docs/start.md", GUIDE + "`sbatch --hosts a`\n", 3, "options of sbatch"),
    ("glob", "agent/CMakeLists.txt", "\nfile(GLOB all *.cc)\n", 2, "no file globs"),
]


def violations(files):
    home = os.path.expanduser("~")
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            text = text.replace("{root}", root).replace("{home}", home)
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as f:
                f.write(text)
        return Checker(root).run()


class CheckTree(unittest.TestCase):
    def test_clean_tree_passes(self):
        self.assertEqual(violations(CLEAN), [])

    def test_planted_violations_are_found(self):
        for name, path, text, line, words in PLANTED:
            with self.subTest(name):
                found = violations({**CLEAN, path: text})
                self.assertTrue(found, "nothing found")
                self.assertTrue(all(f.startswith(f"{path}:{line}: ") for f in found), found)
                self.assertTrue(any(words in f for f in found), found)

    def test_lookup_without_iteration_may_be_said(self):
        text = "std::unordered_map<int, int> m;  // looked up only\n"
        self.assertEqual(violations({**CLEAN, "agent/core/x.cc": text}), [])


class SourceGroups(unittest.TestCase):
    """deploy/source_groups.py; of a set whose order decides, only some builds would show what a source forgets to include."""

    def test_the_same_in_each_run(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        sources = sorted(glob.glob(os.path.join(root, "rendezvous/**/*.cc"), recursive=True))
        lines = "".join(f"all;{source}\n" for source in sources)
        with tempfile.TemporaryDirectory() as folder:
            groups = set()
            for seed in range(8):
                out = os.path.join(folder, "groups.cmake")
                command = [sys.executable, os.path.join(root, "deploy/source_groups.py"), root, out]
                subprocess.run(command, input=lines, text=True, check=True, env={"PYTHONHASHSEED": str(seed)})
                with open(out) as f:
                    groups.add(f.read())
        self.assertEqual(len(groups), 1)
        self.assertIn("UNITY_GROUP", groups.pop())


if __name__ == "__main__":
    unittest.main()
