#include "launcher/mpi_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "launcher/options.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
TEST(EnvironmentWords, OfMpiexecAreOtherSpellingsOfX) {
  const JobSpec spec =
      Ok({"-genv", "A", "two words=\n", "-env", "B", "", "-genvlist", "C,D", "-x", "E=5", "p"},
         {{"C", "3"}});
  EXPECT_THAT(spec.plan.env_set, ElementsAre("A=two words=\n", "C=3", "B=", "E=5"));
  EXPECT_THAT(spec.notes, ElementsAre(HasSubstr("D: not set here")));
  EXPECT_EQ(spec.program, "p");
  EXPECT_EQ(spec.Said(OptionId::kSetEnvPair), "-env B ");
  EXPECT_FALSE(spec.plan.env_none);
  EXPECT_TRUE(Ok({"-genvnone", "p"}).plan.env_none);
  EXPECT_TRUE(Ok({"--env-none", "p"}).plan.env_none);
  EXPECT_THAT(Ok({"--env-none", "p"}).notes, IsEmpty());
  EXPECT_TRUE(Ok({"-genvall", "p"}).env_all);
  EXPECT_FALSE(Ok({"p"}).env_all);
}

TEST(EnvironmentWords, HostFilesOfOthersAreNotRead) {
  const Environment hydra = {{"HYDRA_HOST_FILE", "/etc/hosts.mpi"}};
  EXPECT_THAT(Ok({"p"}, hydra).notes,
              ElementsAre(HasSubstr("HYDRA_HOST_FILE is not read: --hostfile /etc/hosts.mpi")));
  EXPECT_THAT(Ok({"--hosts", "a", "p"}, hydra).notes, IsEmpty());
  EXPECT_THAT(Ok({"p"}, {{"HYDRA_HOST_FILE", "f"}, {"SLURM_JOB_ID", "7"}}).notes, IsEmpty());
}

TEST(EnvironmentWords, WithAWordTooFewAreRefused) {
  EXPECT_EQ(Error({"-genv", "A"}), "-genv: want two words after it, VAR V, got 'A'");
  EXPECT_EQ(Error({"-genv", "A", "-n", "2", "p"}),
            "-genv: want two words after it, VAR V, got 'A -n'");
  EXPECT_THAT(Error({"-genv=A", "1", "p"}), HasSubstr("want two words after it, VAR V, got 'A'"));
  EXPECT_THAT(Error({"-genv", "=1", "p"}), HasSubstr("-genv: want a name, and its value"));
  EXPECT_THAT(Error({"-genv", "", "1", "p"}), HasSubstr("-genv: want a name"));
  EXPECT_THAT(Error({"-genvlist", "A,,B", "p"}), HasSubstr("-genvlist: want names"));
  EXPECT_THAT(Error({"-genvlist", "A=1", "p"}), HasSubstr("-genvlist: want names"));
}

TEST(EnvironmentWords, MayBeOneWord) {
  const JobSpec spec = Ok({"-genv", "A=1=2", "-env", "B=", "p", "q"});
  EXPECT_THAT(spec.plan.env_set, ElementsAre("A=1=2", "B="));
  EXPECT_EQ(spec.Said(OptionId::kSetEnvPair), "-env B=");
  EXPECT_EQ(spec.program, "p");
  EXPECT_THAT(Error({"-genv", "A=1"}), HasSubstr("no program to run"));
}

// As mpiexec has it, wherever they stand.
TEST(EnvironmentWords, OfOneProgramWinOverThoseOfAll) {
  for (const auto& words : {std::vector<std::string>{"-env", "A", "own", "-genv", "A", "all"},
                            std::vector<std::string>{"-genv", "A", "all", "-env", "A", "own"}}) {
    std::vector<std::string> typed = words;
    typed.emplace_back("p");
    EXPECT_THAT(Ok(typed).plan.env_set, ElementsAre("A=all", "A=own"));
  }
  EXPECT_THAT(Ok({"-x", "B=own", "-genv", "A", "1", "-env", "A", "own", "-genv", "B", "2", "p"})
                  .plan.env_set,
              ElementsAre("A=1", "B=2", "B=own", "A=own"));
}

TEST(HostWords, OfMpiexecGoRoundTheHostsAgain) {
  EXPECT_TRUE(Ok({"-hosts", "a,b", "-n", "5", "p"}).oversubscribe);
  EXPECT_FALSE(Ok({"--hosts", "a:4,b:4", "-n", "5", "p"}).oversubscribe);
  EXPECT_TRUE(Ok({"-n", "2", "p", ":", "-hosts", "a", "-n", "5", "q"}).further[0].oversubscribe);
}

TEST(OpenMpiSettings, AreAcceptedAndNamedInOneNote) {
  const JobSpec spec = Ok({"--mca", "btl", "self,tcp", "-mca", "pml", "^ucx", "p"});
  EXPECT_THAT(spec.notes, ElementsAre(HasSubstr("have no effect: btl, pml (")));
  EXPECT_THAT(Error({"--mca", "btl"}), HasSubstr("--mca: want two words after it, KEY V"));
  EXPECT_THAT(Error({"--mca", "", "1", "p"}), HasSubstr("--mca: want a key"));
}

TEST(Placement, InOrderOrANumberOnEachNode) {
  EXPECT_THAT(Ok({"--map-by", "slot", "--rank-by", "core", "p"}).notes, IsEmpty());
  EXPECT_TRUE(Ok({"--map-by", ":OVERSUBSCRIBE", "p"}).oversubscribe);
  const JobSpec each = Ok({"--map-by", "ppr:4:node", "p"});
  EXPECT_EQ(*each.per_node, 4u);
  EXPECT_EQ(each.Said(OptionId::kPpn), "-ppn 4");
  for (const char* how : {"ppr:2:board", "ppr:2", "seq", "slot:NOLOCAL", "dist"}) {
    EXPECT_THAT(Error({"--map-by", how, "p"}), HasSubstr("--hosts a:2,b:2")) << how;
  }
  EXPECT_THAT(Error({"--map-by", "ppr:x:node", "p"}), HasSubstr("--map-by: want 1..4096, got 'x'"));
  EXPECT_THAT(Error({"-rank-by", "node", "p"}), HasSubstr("-rank-by node: ranks fill the hosts"));
}

TEST(OutputFiles, HydrasPatternsAndOpenMpisFolder) {
  const OutputOptions files =
      Ok({"-outfile-pattern", "d/o.%r.%h.%p.%g.%%", "-errfile-pattern", "e%r", "p"}).plan.output;
  EXPECT_EQ(files.out_file, "d/o.{rank}.{host}.{node_rank}.0.%");
  EXPECT_EQ(files.err_file, "e{rank}");
  EXPECT_THAT(Error({"-outfile-pattern", "o.%q", "p"}), HasSubstr("%r (rank), %h (host)"));
  EXPECT_THAT(Error({"-outfile-pattern", "%", "p"}), HasSubstr("%r (rank), %h (host)"));
  EXPECT_THAT(Error({"-outfile", "all", "p"}), HasSubstr("say > FILE"));
}

TEST(Placement, OfMpirunsOwnDisplayIsThePlan) {
  EXPECT_THAT(Ok({"--display-map", "p"}).notes, ElementsAre(HasSubstr("--plan shows")));
}

TEST(Starting, IsOverSshWhateverTheWord) {
  EXPECT_THAT(Ok({"-launcher", "ssh", "p"}).notes, IsEmpty());
  EXPECT_THAT(Ok({"-bootstrap", "rsh", "p"}).notes,
              ElementsAre(HasSubstr("-bootstrap rsh has no effect: hosts are reached over ssh")));
  EXPECT_THAT(Ok({"-launcher-exec", "/usr/bin/myssh", "p"}).ssh, ElementsAre("/usr/bin/myssh"));
}

TEST(MpiOptions, OutputGoesToAFolderAsWithOpenMpi4) {
  const auto output = [](const char* value) {
    return Ok({"--output-filename", value, "p"}).plan.output;
  };
  EXPECT_EQ(output("d").out_file, "d/1/rank.{rank0}/stdout");
  EXPECT_EQ(output("d").err_file, "d/1/rank.{rank0}/stderr");
  EXPECT_EQ(output("d").tee.all, 3);
  EXPECT_EQ(output("/a:nocopy").out_file, "/a/1/rank.{rank0}/stdout");
  EXPECT_EQ(output("/a:nocopy").tee.all, 0);
  EXPECT_EQ(output("d:nojobid,nocopy").err_file, "d/rank.{rank0}/stderr");
  EXPECT_EQ(output("d:nojobid").tee.all, 3);
  EXPECT_THAT(Error({"--output-filename", "d:noocopy", "p"}),
              HasSubstr("--output-filename: want a folder, with nothing but :nocopy"));
  EXPECT_THAT(Error({"--output-filename", ":nocopy", "p"}), HasSubstr("want a folder"));
}

}  // namespace
}  // namespace muster
