#include "worker_sdk/bootstrap/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace muster {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

StatusOr<WorkerIdentity> Read(const Variables& variables) {
  return ReadIdentity([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables Launched() {
  return {{"MUSTER_RANK", "5"},       {"MUSTER_WORLD_SIZE", "8"},    {"MUSTER_LOCAL_RANK", "1"},
          {"MUSTER_LOCAL_SIZE", "4"}, {"MUSTER_NODE_RANK", "1"},     {"MUSTER_NODES", "2"},
          {"MUSTER_AGENT_FD", "100"}, {"MUSTER_ROUND", "4294967297"}};
}

TEST(EnvironmentTest, WhatLaunchSets) {
  const StatusOr<WorkerIdentity> me = Read(Launched());
  ASSERT_TRUE(me.ok()) << me.status().ToString();
  WorkerIdentity is = *StatusOr<WorkerIdentity>(me);
  EXPECT_TRUE(is.launched);
  EXPECT_EQ(is.rank, 5u);
  EXPECT_EQ(is.size, 8u);
  EXPECT_EQ(is.local_rank, 1u);
  EXPECT_EQ(is.local_size, 4u);
  EXPECT_EQ(is.node_rank, 1u);
  EXPECT_EQ(is.nodes, 2u);
  EXPECT_EQ(is.agent_fd, 100);
  EXPECT_EQ(is.round, 4294967297u);
  EXPECT_EQ(is.notice, "");
  EXPECT_EQ(is.timeout_s, 0);
  EXPECT_EQ(is.wire, Wire::kFull);
  EXPECT_FALSE(is.check);
}

TEST(EnvironmentTest, WithoutLaunchAWorldOfOne) {
  StatusOr<WorkerIdentity> me = Read({});
  ASSERT_TRUE(me.ok());
  EXPECT_FALSE(me->launched);
  EXPECT_EQ(me->size, 1u);
  EXPECT_EQ(me->notice, "");
  me = Read({{"WORLD_SIZE", "1"}});
  EXPECT_EQ(me->notice, "");
  me = Read({{"OMPI_COMM_WORLD_SIZE", "4"}});
  ASSERT_TRUE(me.ok());
  EXPECT_EQ(me->size, 1u);
  EXPECT_THAT(me->notice, HasSubstr("OMPI_COMM_WORLD_SIZE is 4"));
  EXPECT_THAT(me->notice, HasSubstr("launch --nproc-per-node 4"));
}

TEST(EnvironmentTest, Timeout) {
  StatusOr<WorkerIdentity> me = Read({{"MUSTER_TIMEOUT", "2.5"}});
  ASSERT_TRUE(me.ok());
  EXPECT_EQ(me->timeout_s, 2.5);
  for (const char* wrong : {"soon", "-1", "1e300", "nan", "5 s"}) {
    me = Read({{"MUSTER_TIMEOUT", wrong}});
    ASSERT_FALSE(me.ok()) << wrong;
    EXPECT_EQ(me.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(me.status().message(), HasSubstr("MUSTER_TIMEOUT"));
  }
}

TEST(EnvironmentTest, WhatTravelsBetweenNodes) {
  const std::map<std::string, Wire> known = {
      {"", Wire::kFull}, {"full", Wire::kFull}, {"bf16", Wire::kBFloat16}};
  for (const auto& [text, wire] : known) {
    StatusOr<WorkerIdentity> me = Read({{"MUSTER_WIRE", text}});
    ASSERT_TRUE(me.ok()) << text;
    EXPECT_EQ(me->wire, wire) << text;
  }
  for (const char* wrong : {"fp16", "BF16", "bf16 ", "1"}) {
    const StatusOr<WorkerIdentity> me = Read({{"MUSTER_WIRE", wrong}});
    ASSERT_FALSE(me.ok()) << wrong;
    EXPECT_EQ(me.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(me.status().message(),
              "MUSTER_WIRE: want full or bf16, got '" + std::string(wrong) + "'");
  }
}

TEST(EnvironmentTest, Check) {
  for (const std::string text : {"", "off", "crc"}) {
    StatusOr<WorkerIdentity> me = Read({{"MUSTER_CHECK", text}});
    ASSERT_TRUE(me.ok()) << text;
    EXPECT_EQ(me->check, text == "crc") << text;
  }
  EXPECT_EQ(Read({})->direct, DirectReads::kAuto);
  EXPECT_EQ(Read({{"MUSTER_DIRECT", "auto"}})->direct, DirectReads::kAuto);
  EXPECT_EQ(Read({{"MUSTER_DIRECT", "on"}})->direct, DirectReads::kOn);
  EXPECT_EQ(Read({{"MUSTER_DIRECT", "off"}})->direct, DirectReads::kOff);
  EXPECT_EQ(Read({{"MUSTER_DIRECT", "no"}}).status().message(),
            "MUSTER_DIRECT: want auto, on or off, got 'no'");
  EXPECT_EQ(Read({{"MUSTER_CHECK", "on"}}).status().message(),
            "MUSTER_CHECK: want off or crc, got 'on'");
}

TEST(EnvironmentTest, EachWrongVariableIsNamed) {
  for (const auto& [name, value] : Launched()) {
    if (name == "MUSTER_RANK") {
      continue;
    }
    for (const std::string wrong : {"", "x", "-1", "99999999999999999999", "1 "}) {
      Variables variables = Launched();
      variables[name] = wrong;
      const StatusOr<WorkerIdentity> me = Read(variables);
      ASSERT_FALSE(me.ok()) << name << "='" << wrong << "'";
      EXPECT_THAT(me.status().message(), HasSubstr(name));
      EXPECT_THAT(me.status().message(), HasSubstr("'" + wrong + "'"));
    }
    Variables variables = Launched();
    variables.erase(name);
    const StatusOr<WorkerIdentity> me = Read(variables);
    ASSERT_FALSE(me.ok()) << name;
    EXPECT_THAT(me.status().message(), HasSubstr(name + " is not set"));
  }
  Variables variables = Launched();
  variables["MUSTER_RANK"] = "8";  // of a world of 8
  EXPECT_THAT(Read(variables).status().message(), HasSubstr("MUSTER_RANK: want 0..7, got '8'"));
  variables = Launched();
  variables["MUSTER_WORLD_SIZE"] = "1000000";
  variables["MUSTER_LOCAL_SIZE"] = "4097";
  EXPECT_THAT(Read(variables).status().message(), HasSubstr("MUSTER_LOCAL_SIZE: want 1..4096"));
}

}  // namespace
}  // namespace muster
