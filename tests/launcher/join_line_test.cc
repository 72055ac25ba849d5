#include "launcher/join_line.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

std::string Line(absl::string_view typed, const Environment& environment = {}) {
  const JobSpec spec = SpecOf(typed, "", environment);
  EXPECT_EQ(spec.way, StartWay::kServe);
  return JoinLine(spec, "10.0.0.1:4000");
}

struct Case {
  const char* name;
  const char* typed;
  const char* want;  // between launch and the endpoint
};
class JoinLines : public testing::TestWithParam<Case> {};
TEST_P(JoinLines, SayWhatTheUserSaid) {
  EXPECT_EQ(Line(absl::StrCat(GetParam().typed, " p -x 1")),
            absl::StrCat("launch ", GetParam().want, " --rdzv-endpoint 10.0.0.1:4000 p -x 1"));
}

INSTANTIATE_TEST_SUITE_P(
    All, JoinLines,
    testing::Values(
        Case{"plain", "--nnodes 2", "--nnodes 2"}, Case{"elastic", "--nnodes 1:4", "--nnodes 1:4"},
        Case{"auto_stays_auto", "--nnodes 2 --nproc-per-node auto",
             "--nnodes 2 --nproc-per-node auto"},
        Case{"detached_here", "--detach --name x --nnodes 2", "--nnodes 2"},
        Case{"total", "--nnodes 2 -np 8", "--nnodes 2 -n 8"},
        Case{"program", "--nnodes 2 -m --wdir /w --store agent",
             "--nnodes 2 -m --wdir /w --store agent"},
        Case{"variables", "--nnodes 2 -x A=1 -x HOME -x NCCL_*",
             "--nnodes 2 -x A=1 -x HOME -x 'NCCL_*'"},
        Case{"variables_in_mpiexecs_words", "--nnodes 2 -genv A 1 -genvlist HOME,B -genvnone",
             "--nnodes 2 -x A=1 -x HOME -x B --env-none"},
        Case{"of_mpirun", "--nnodes 2 --mca a b --map-by ppr:3:node --bind-to core",
             "--nnodes 2 -ppn 3 --bind-to core"},
        Case{"in_front", "--nnodes 2 --wrap 0:time --prologue a --wrap 1:nice --prologue b",
             "--nnodes 2 --wrap 0:time --wrap 1:nice --prologue 'a\nb'"},
        Case{"rest", "--nnodes 2 --rdzv-id j --max-restarts 3 --secret-file /s --timeout 5m",
             "--nnodes 2 --rdzv-id j --max-restarts 3 --timeout 5m --secret-file /s"},
        Case{"fingerprint",
             "--nnodes 2 --rdzv-fingerprint SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
             "--nnodes 2 --rdzv-fingerprint SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"},
        Case{"insecure", "--nnodes 2 --insecure", "--nnodes 2 --insecure"},
        Case{"this_node_only",
             "--nnodes 2 --serve --node-rank 0 --local-addr 10.0.0.1 --report r.json",
             "--nnodes 2"},
        Case{"conf", "--nnodes 2 --rdzv-conf is_host=1,join_timeout=9",
             "--nnodes 2 --rdzv-conf join_timeout=9"},
        Case{"conf_of_this_node", "--nnodes 2 --rdzv-conf is_host=1", "--nnodes 2"},
        Case{"without_effect", "--nnodes 2 --monitor-interval 1 --ssh-args=-v", "--nnodes 2"},
        Case{"dash", "--nnodes 2 --log-prefix=-{rank}", "--nnodes 2 '--log-prefix=-{rank}'"},
        Case{"uneven", "--nnodes 2 -n 5 --node-rank 0", "--nnodes 2 -n 5 --node-rank 1"},
        Case{"uneven_many", "--nnodes 4 -n 5 --node-rank 0", "--nnodes 4 -n 5 --node-rank 1..3"}),
    [](const auto& test) { return test.param.name; });

TEST(JoinLine, TheEnvironmentBecomesOptions) {
  EXPECT_EQ(Line("p", {{"PET_NNODES", "2"}, {"PET_MODULE", "1"}}),
            "launch --nnodes 2 -m --rdzv-endpoint 10.0.0.1:4000 p");
}

TEST(JoinLine, TheSameInterpreterRunsTheScript) {
  EXPECT_EQ(
      Line("--nnodes 2 x.py a", {{"PYTHON_EXEC", "/my v/bin/python"}}),
      "PYTHON_EXEC='/my v/bin/python' launch --nnodes 2 --rdzv-endpoint 10.0.0.1:4000 x.py a");
  EXPECT_EQ(Line("--nnodes 2 ./x", {{"PYTHON_EXEC", "/v/bin/python"}}),
            "launch --nnodes 2 --rdzv-endpoint 10.0.0.1:4000 ./x");
}

TEST(JoinLine, WordsAreQuotedAndAProgramMayLookLikeAnOption) {
  auto spec = Resolve({"--nnodes", "2", "--wdir", "a b", "--", "-p", "it's"});
  ASSERT_TRUE(spec.ok());
  spec->launch_path = "/my bin/launch";
  EXPECT_EQ(JoinLine(*spec, "[::1]:4000"),
            "'/my bin/launch' --nnodes 2 --wdir 'a b' --rdzv-endpoint '[::1]:4000' -- -p "
            "'it'\\''s'");
}

TEST(JoinLine, IsACommandThatJoins) {
  const std::string line = Line("--nnodes 3 -n 6 --store agent -x A=1 --serve -v p a");
  std::vector<std::string> words = Words(line);
  words.erase(words.begin());
  const auto joining = Resolve(words);
  ASSERT_TRUE(joining.ok()) << joining.status();
  EXPECT_EQ(joining->way, StartWay::kTyped);
  EXPECT_EQ(joining->rendezvous.host, "10.0.0.1");
  EXPECT_EQ(joining->plan.workers, 2u);
  EXPECT_FALSE(joining->serve);
}

}  // namespace
}  // namespace muster
