#include "agent/core/script_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

std::string Place(const std::string& script) { return OwnMeetingPlace(script, {}); }

TEST(OwnMeetingPlaceTest, WhatAScriptSetsInItsEnvironment) {
  EXPECT_EQ(Place("import os\n\nos.environ['MASTER_PORT'] = '29511'\n"),
            "line 3: os.environ['MASTER_PORT'] = '29511'");
  EXPECT_EQ(Place("def f():\n    os.environ[\"MASTER_ADDR\"]=addr"),
            "line 2: os.environ[\"MASTER_ADDR\"]=addr");
  EXPECT_EQ(Place("os.putenv('MASTER_ADDR', x)"), "line 1: os.putenv('MASTER_ADDR', x)");
  EXPECT_EQ(Place("os.environ['MASTER_ADDR'] = '" + std::string(100, '1') + "'"),
            "line 1: os.environ['MASTER_ADDR'] = '" + std::string(51, '1') + "...");
}

TEST(OwnMeetingPlaceTest, WhatItReadsIsLaunchs) {
  for (const char* script : {
           "",
           "print(os.environ['MASTER_PORT'])",
           "if os.environ['MASTER_PORT'] == '1': pass",
           "port = int(os.environ[\"MASTER_PORT\"])",
           "os.environ.setdefault('MASTER_PORT', '29500')",
           "# os.environ['MASTER_PORT'] = '29511'",
           "x['MASTER_PORT'] = 3",
           "os.environ['MY_MASTER_PORT'] = '1'",
           "os.environ['MASTER_PORT\"] = '1'",
           "if 'MASTER_ADDR' not in os.environ:\n  os.environ['MASTER_ADDR'] = 'localhost'",
           "dist.init_process_group(init_method='env://')",
           "dist.init_process_group(init_method=f'tcp://{addr}:{port}')",
           "dist.init_process_group(init_method='tcp://%s:%d' % (a, p))",
           "connect('tcp://10.0.0.1:5555')",
           "os.environ['MASTER_ADDR",
           "init_process_group('tcp://",
           "init_process_group('tcp://[::1",
           "init_process_group('tcp://a:')",
       }) {
    EXPECT_EQ(Place(script), "") << script;
  }
}

TEST(OwnMeetingPlaceTest, AnAddressThatIsSpelledOut) {
  EXPECT_EQ(Place("dist.init_process_group('gloo', init_method='tcp://10.57.23.164:8888')"),
            "line 1: dist.init_process_group('gloo', init_method='tcp://10.57.23.164:8888')");
  EXPECT_EQ(Place("url = 'tcp://[fe80::1]:8888'\ndist.init_process_group('gloo', url)"),
            "line 1: url = 'tcp://[fe80::1]:8888'");
}

TEST(OwnMeetingPlaceTest, AnArgumentOfAProgramThatMeets) {
  const std::string script = "dist.init_process_group(init_method=args.dist_url)";
  EXPECT_EQ(OwnMeetingPlace(script, {"--dist-url", "tcp://127.0.0.1:8888"}),
            "its argument tcp://127.0.0.1:8888");
  EXPECT_EQ(OwnMeetingPlace(script, {"--dist-url=tcp://node0:8888"}),
            "its argument tcp://node0:8888");
  EXPECT_EQ(OwnMeetingPlace(script, {"--dist-url", "env://"}), "");
  EXPECT_EQ(OwnMeetingPlace("serve(args.url)", {"tcp://127.0.0.1:8888"}), "");
}

TEST(IsPythonNameTest, ByTheLastPart) {
  for (const char* name : {"python", "/usr/bin/python3", "python3.11", "pypy3", "a/python2.7"}) {
    EXPECT_TRUE(IsPythonName(name)) << name;
  }
  for (const char* name : {"", "python3-config", "ipython", "pythonw", "/python3/run", "bash"}) {
    EXPECT_FALSE(IsPythonName(name)) << name;
  }
}

TEST(PythonCommandTest, ScriptModuleOrNeither) {
  const auto script = [](const std::vector<std::string>& argv) {
    return ParsePythonCommand(argv).script;
  };
  EXPECT_EQ(script({"python3", "-u", "d/train.py", "-m", "x"}), "d/train.py");
  EXPECT_EQ(script({"python3", "-W", "ignore", "-Xdev", "train"}), "train");
  EXPECT_EQ(script({"python3", "-c", "pass", "train.py"}), "");
  EXPECT_EQ(script({"python3", "-"}), "");
  EXPECT_EQ(script({"python3"}), "");
  EXPECT_EQ(script({"python3", "-m", "pkg.train", "own.py"}), "");
  EXPECT_EQ(ParsePythonCommand({"python3", "-u", "-m", "pkg.train", "own.py"}).module, "pkg.train");
}

TEST(StartsRanksTest, SpawnOfATrainingScript) {
  const std::string meets = "dist.init_process_group('gloo', rank=rank, world_size=n)\n";
  EXPECT_TRUE(StartsRanks(meets + "mp.spawn(main, nprocs=n)"));
  EXPECT_TRUE(StartsRanks(meets + "torch.multiprocessing.spawn(main, nprocs=n)"));
  EXPECT_TRUE(StartsRanks(meets + "mp.start_processes(main, nprocs=n)"));
  EXPECT_FALSE(StartsRanks(meets));
  EXPECT_FALSE(StartsRanks("mp.spawn(load, nprocs=n)"));
}

}  // namespace
}  // namespace muster
