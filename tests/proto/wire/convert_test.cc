// Round trips of random values, and what must not be believed.
#include "proto/wire/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "proto/base/limits.h"
#include "tests/proto/wire/random_values.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr int kCases = 2000;

// Values have no operator==; their wire form is compared, which ToWire makes of all fields, and the
// fields that could be forgotten on both ways are counted by FieldsAreNotForgotten.
template <typename T>
std::string Bytes(const T& value) {
  return ToWire(value).SerializeAsString();
}

TEST(Convert, MessagesSurvive) {
  RandomValues make(1);
  for (int i = 0; i < kCases; ++i) {
    const AgentMessage up = make.FromAgent();
    v1::AgentFrame frame;
    ASSERT_TRUE(frame.ParseFromString(Bytes(up)));
    const auto back = FromWire(frame);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->index(), up.index());
    EXPECT_EQ(Bytes(*back), Bytes(up));

    const MasterMessage down = make.FromMaster();
    v1::MasterFrame answer;
    ASSERT_TRUE(answer.ParseFromString(Bytes(down)));
    const auto again = FromWire(answer);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->index(), down.index());
    EXPECT_EQ(Bytes(*again), Bytes(down));
  }
}

TEST(Convert, BootstrapSurvives) {
  RandomValues make(2);
  for (int i = 0; i < kCases; ++i) {
    const AgentBootstrap sent = make.Bootstrap();
    const auto got = FromWire(ToWire(sent));
    ASSERT_TRUE(got.ok()) << got.status();
    // Field by field where there is no order in the wire form (a map).
    EXPECT_EQ(got->plan.output.redirects.by_local_rank, sent.plan.output.redirects.by_local_rank);
    EXPECT_EQ(got->plan.output.tee.by_local_rank, sent.plan.output.tee.by_local_rank);
    EXPECT_EQ(got->plan.argv, sent.plan.argv);
    EXPECT_EQ(got->plan.env_base, sent.plan.env_base);
    EXPECT_EQ(got->plan.env_set, sent.plan.env_set);
    EXPECT_EQ(got->plan.env_unset, sent.plan.env_unset);
    EXPECT_EQ(got->plan.env_none, sent.plan.env_none);
    ASSERT_EQ(got->plan.wraps.size(), 2u);
    EXPECT_EQ(got->plan.wraps[0].ranks, sent.plan.wraps[0].ranks);
    EXPECT_EQ(got->plan.wraps[1].argv, sent.plan.wraps[1].argv);
    EXPECT_EQ(got->plan.prologue, sent.plan.prologue);
    ASSERT_EQ(got->plan.further.size(), 2u);
    EXPECT_EQ(got->plan.further[0].rank_first, sent.plan.further[0].rank_first);
    EXPECT_EQ(got->plan.further[0].argv, sent.plan.further[0].argv);
    EXPECT_EQ(got->plan.further[0].wdir, sent.plan.further[0].wdir);
    EXPECT_EQ(got->plan.further[0].env_set, sent.plan.further[0].env_set);
    ASSERT_EQ(got->plan.limits.size(), 2u);
    EXPECT_EQ(got->plan.limits[0].name, sent.plan.limits[0].name);
    EXPECT_EQ(got->plan.limits[1].soft, UINT64_MAX);
    ASSERT_EQ(got->plan.pty.has_value(), sent.plan.pty.has_value());
    if (sent.plan.pty.has_value()) {
      EXPECT_EQ(got->plan.pty->rank, sent.plan.pty->rank);
      EXPECT_EQ(got->plan.pty->rows, sent.plan.pty->rows);
      EXPECT_EQ(got->plan.pty->columns, 80);
      EXPECT_EQ(got->plan.pty->term, sent.plan.pty->term);
    }
    EXPECT_EQ(got->plan.ports, sent.plan.ports);
    EXPECT_EQ(got->plan.tell_pids, sent.plan.tell_pids);
    EXPECT_EQ(got->plan.hold, sent.plan.hold);
    EXPECT_EQ(got->plan.binding, sent.plan.binding);
    EXPECT_EQ(got->plan.slurm_nodelist, sent.plan.slurm_nodelist);
    EXPECT_EQ(got->plan.slurm_cpus_per_task, sent.plan.slurm_cpus_per_task);
    EXPECT_EQ(got->plan.stop_signals, sent.plan.stop_signals);
    EXPECT_EQ(got->plan.output.log_layout, sent.plan.output.log_layout);
    EXPECT_EQ(got->plan.output.out_filters, sent.plan.output.out_filters);
    EXPECT_EQ(got->plan.output.err_filters, sent.plan.output.err_filters);
    EXPECT_EQ(got->plan.output.out_file, sent.plan.output.out_file);
    EXPECT_EQ(got->plan.output.err_file, sent.plan.output.err_file);
    EXPECT_EQ(got->plan.dialects, sent.plan.dialects);
    EXPECT_EQ(got->plan.stdin_mode, sent.plan.stdin_mode);
    EXPECT_EQ(got->plan.store, sent.plan.store);
    EXPECT_EQ(got->plan.workers_wanted, sent.plan.workers_wanted);
    EXPECT_EQ(got->plan.grace, sent.plan.grace);
    EXPECT_EQ(got->plan.output.show, sent.plan.output.show);
    EXPECT_EQ(got->plan.output.overflow, sent.plan.output.overflow);
    EXPECT_EQ(got->secret, sent.secret);
    EXPECT_EQ(got->route_to, sent.route_to);
    EXPECT_EQ(got->nonce, sent.nonce);
    EXPECT_EQ(got->ship, sent.ship);
    EXPECT_EQ(got->preflight, sent.preflight);
    EXPECT_EQ(got->program_token, sent.program_token);
    EXPECT_EQ(got->terms, sent.terms);
    EXPECT_EQ(Bytes(got->join), Bytes(sent.join));
  }
}

TEST(Convert, ChunksSurvive) {
  RandomValues make(3);
  for (int i = 0; i < kCases; ++i) {
    OutputChunk sent;
    sent.rank = make.Below(kWorldSizeMax);
    sent.local_rank = make.Below(kWorkersPerNodeMax);
    sent.node_rank = make.Below(kNodesMax);
    sent.stream = static_cast<uint8_t>(1 + make.Below(2));
    sent.ends_line = make.Flag();
    sent.split = make.Flag();
    sent.bytes = make.Text(5000);
    OutputChunk copy = sent;
    const auto got = FromWire(ToWire(std::move(copy)));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, sent);
  }
}

// A default value and one in which a single field differs must differ on the wire.
TEST(Convert, FieldsAreNotForgotten) {
  const auto differ = [](const auto& a, const auto& b) { return Bytes(a) != Bytes(b); };
#define EXPECT_FIELD(Type, field, value)                     \
  do {                                                       \
    Type changed;                                            \
    changed.field = (value);                                 \
    const Type fresh{};                                      \
    EXPECT_TRUE(differ(fresh, changed)) << #Type "." #field; \
  } while (false)
  EXPECT_FIELD(Join, key, "k");
  EXPECT_FIELD(Join, key_is_exact, true);
  EXPECT_FIELD(Join, life, 1);
  EXPECT_FIELD(Join, node_rank, 1);
  EXPECT_FIELD(Join, hostname, "h");
  EXPECT_FIELD(Join, address, "a");
  EXPECT_FIELD(Join, interface, "i");
  EXPECT_FIELD(Join, addresses, std::vector<std::string>{"a"});
  EXPECT_FIELD(Join, workers, 1);
  EXPECT_FIELD(Join, store_port, 1);
  EXPECT_FIELD(AgentBootstrap, plan.job_id, "x");
  EXPECT_FIELD(AgentBootstrap, plan.wdir, "x");
  EXPECT_FIELD(AgentBootstrap, plan.workers, 2);
  EXPECT_FIELD(AgentBootstrap, plan.role, "x");
  EXPECT_FIELD(AgentBootstrap, plan.iface, "x");
  EXPECT_FIELD(AgentBootstrap, plan.stdin_rank, 1);
  EXPECT_FIELD(AgentBootstrap, plan.standalone, true);
  EXPECT_FIELD(AgentBootstrap, plan.virtual_local_rank, true);
  EXPECT_FIELD(AgentBootstrap, plan.store_from_any, true);
  EXPECT_FIELD(AgentBootstrap, plan.fill, true);
  EXPECT_FIELD(AgentBootstrap, plan.fill_torchrun, true);
  EXPECT_FIELD(AgentBootstrap, plan.no_new_privileges, true);
  EXPECT_FIELD(AgentBootstrap, plan.output.prefix, false);
  EXPECT_FIELD(AgentBootstrap, plan.output.prefix_template, "x");
  EXPECT_FIELD(AgentBootstrap, plan.output.timestamps, true);
  EXPECT_FIELD(AgentBootstrap, plan.output.log_dir, "x");
  EXPECT_FIELD(AgentBootstrap, plan.output.show_local, std::vector<uint32_t>{1});
  EXPECT_FIELD(AgentBootstrap, plan.output.partial_out, true);
  EXPECT_FIELD(AgentBootstrap, plan.output.partial_err, true);
  EXPECT_FIELD(AgentBootstrap, plan.output.spool_bytes_max, 1);
#undef EXPECT_FIELD
  Beat beat;
  beat.paused = true;
  EXPECT_TRUE(differ(AgentMessage(Beat{}), AgentMessage(beat)));
  Beat seeking;
  seeking.sought = {{0}};
  EXPECT_TRUE(differ(AgentMessage(Beat{}), AgentMessage(seeking)));
  Beat waiting;
  waiting.awaited = {{0}};
  EXPECT_TRUE(differ(AgentMessage(Beat{}), AgentMessage(waiting)));
  Beat blaming;
  blaming.exits.resize(1);
  Beat blaming_zero = blaming;
  blaming_zero.exits[0].because_of = Rank{0};
  EXPECT_TRUE(differ(AgentMessage(blaming), AgentMessage(blaming_zero)));
  Directive ended;
  ended.gone = {{0}};
  EXPECT_TRUE(differ(MasterMessage(Directive{}), MasterMessage(ended)));
  Directive found;
  found.peers = {{{1}, "a", 2}};
  Directive other = found;
  other.peers[0].address = "b";
  EXPECT_TRUE(differ(MasterMessage(found), MasterMessage(other)));
}

// Any bytes at all: an answer or an error, never a crash, and what is accepted is within the
// limits.
TEST(Convert, NoiseIsRefusedOrHarmless) {
  RandomValues make(4);
  int accepted = 0;
  for (int i = 0; i < 20 * kCases; ++i) {
    std::string bytes = Bytes(make.FromMaster());
    for (uint32_t flips = 1 + make.Below(4); flips > 0 && !bytes.empty(); --flips) {
      bytes[make.Below(bytes.size())] = static_cast<char>(make.Below(256));
    }
    v1::MasterFrame frame;
    if (!frame.ParseFromString(bytes)) {
      continue;
    }
    const auto message = FromWire(frame);
    if (message.ok()) {
      ++accepted;
      EXPECT_TRUE(FromWire(ToWire(*message)).ok());
    }
  }
  EXPECT_GT(accepted, 0);
}

absl::Status StatusOfBeat(const std::function<void(v1::Beat*)>& change) {
  v1::AgentFrame frame = ToWire(AgentMessage(Beat{}));
  change(frame.mutable_beat());
  return FromWire(frame).status();
}

// The journal keeps it with a number behind it, and has to read that again.
TEST(Convert, TheKeyOfAJoinLeavesRoomForANumber) {
  Join join;
  join.workers = 1;
  join.key = std::string(kJoinKeyBytesMax, 'k');
  EXPECT_TRUE(FromWire(ToWire(AgentMessage(join))).ok());
  join.key += "#2";
  EXPECT_THAT(std::string(FromWire(ToWire(AgentMessage(join))).status().message()),
              HasSubstr("join.key: want 0..1008, got 1010"));
  EXPECT_TRUE(FromWire(ToWire(join)).ok());
}

TEST(Convert, WhatIsOutOfRangeIsRefusedByName) {
  EXPECT_TRUE(StatusOfBeat([](v1::Beat*) {}).ok());
  const auto says = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->set_phase(v1::AGENT_PHASE_UNSPECIFIED); })),
              HasSubstr("beat.phase"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->set_phase(static_cast<v1::AgentPhase>(4)); })),
              HasSubstr("beat.phase"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->set_store_port(65536); })),
              HasSubstr("want 0..65535, got 65536"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->set_stop_asked(65); })),
              HasSubstr("beat.stop_asked"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->set_leaves(-1); })), HasSubstr("beat.leaves"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->add_heard()->set_signo(65); })),
              HasSubstr("beat.heard.signo"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) {
                for (size_t i = 0; i <= kHeardSignalsMax; ++i) b->add_heard();
              })),
              HasSubstr("beat.heard: "));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) {
                for (size_t i = 0; i <= kExitsPerBeatMax; ++i) {
                  b->add_exits()->set_kind(v1::EXIT_KIND_EXITED);
                }
              })),
              HasSubstr("beat.exits"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) {
                b->add_exits()->set_kind(v1::EXIT_KIND_EXITED);
                b->mutable_exits(0)->set_ran_for(-1);
              })),
              HasSubstr("exit.ran_for"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) {
                b->add_exits()->set_kind(v1::EXIT_KIND_EXITED);
                b->mutable_exits(0)->set_because_of(kWorldSizeMax);
              })),
              HasSubstr("exit.because_of: want 0.."));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->add_sought(kNodesMax); })),
              HasSubstr("beat.sought: want 0..16383, got 16384"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) {
                for (size_t i = 0; i <= kPeersPerBeatMax; ++i) {
                  b->add_sought(1);
                }
              })),
              HasSubstr("beat.sought: want 0..64, got 65"));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) { b->add_awaited(kWorldSizeMax); })),
              HasSubstr("beat.awaited: want 0.."));
  EXPECT_THAT(says(StatusOfBeat([](v1::Beat* b) {
                for (size_t i = 0; i <= kPeersPerBeatMax; ++i) {
                  b->add_awaited(1);
                }
              })),
              HasSubstr("beat.awaited: want 0..64, got 65"));
  v1::MasterFrame answer = ToWire(MasterMessage(Directive{}));
  answer.mutable_directive()->add_peers()->set_port(65536);
  EXPECT_THAT(says(FromWire(answer).status()), HasSubstr("directive.peers.port"));
  answer.mutable_directive()->mutable_peers(0)->set_port(1);
  answer.mutable_directive()->mutable_peers(0)->set_node_rank(kNodesMax);
  EXPECT_THAT(says(FromWire(answer).status()), HasSubstr("directive.peers.node_rank"));
  answer.mutable_directive()->clear_peers();
  answer.mutable_directive()->add_gone(kWorldSizeMax);
  EXPECT_THAT(says(FromWire(answer).status()), HasSubstr("directive.gone"));
  EXPECT_FALSE(FromWire(v1::AgentFrame()).ok());
  EXPECT_FALSE(FromWire(v1::MasterFrame()).ok());
}

TEST(Convert, LongTextsForPeopleAreCutNotRefused) {
  Beat beat;
  beat.exits.emplace_back();
  beat.exits[0].stderr_tail = std::string(3 * kStderrTailBytes, 'a') + "the end";
  beat.exits[0].error_message = std::string(3 * kErrorMessageBytesMax, 'e');
  const auto got = FromWire(ToWire(AgentMessage(beat)));
  ASSERT_TRUE(got.ok()) << got.status();
  const WorkerExit& exit = std::get<Beat>(*got).exits.at(0);
  EXPECT_EQ(exit.stderr_tail.size(), kStderrTailBytes);
  EXPECT_TRUE(exit.stderr_tail.ends_with("the end"));
  EXPECT_EQ(exit.error_message.size(), kErrorMessageBytesMax);
}

TEST(Convert, AnArgumentWithANulIsRefused) {
  AgentBootstrap bootstrap;
  bootstrap.plan.argv = {std::string("a\0b", 3)};
  EXPECT_THAT(std::string(FromWire(ToWire(bootstrap)).status().message()), HasSubstr("plan.argv"));
}

TEST(Convert, TermsOfNobodyAreRefused) {
  for (const auto& change : std::vector<std::function<void(JobTerms&)>>{
           [](JobTerms& t) { t.nodes_min = 0; }, [](JobTerms& t) { t.nodes_min = 2; },
           [](JobTerms& t) { t.nodes_max = kNodesMax + 1; },
           [](JobTerms& t) { t.restarts_max = kRestartsMax + 1; },
           [](JobTerms& t) { t.spares = kNodesMax + 1; },
           [](JobTerms& t) { t.lease = kLeaseMin - absl::Nanoseconds(1); },
           [](JobTerms& t) { t.lease = kLeaseMax + absl::Nanoseconds(1); },
           [](JobTerms& t) { t.join_timeout = -absl::Seconds(1); }}) {
    JobTerms terms;
    change(terms);
    EXPECT_FALSE(FromWire(ToWire(terms)).ok());
  }
}

}  // namespace
}  // namespace muster
