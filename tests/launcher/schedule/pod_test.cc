#include "launcher/schedule/pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

// As kubelet writes it.
constexpr char kHosts[] =
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "fe00::0\tip6-mcastprefix\n"
    "10.244.1.7\ttrain-3.mesh.default.svc.cluster.local\ttrain-3\n";

Variables Pod(const std::string& index, const std::string& hostname) {
  return {{"JOB_COMPLETION_INDEX", index}, {"HOSTNAME", hostname}};
}

std::string Error(const Variables& environment) {
  return std::string(PlaceOfPod(environment, kHosts).status().message());
}

TEST(Pod, TheFirstIsNamedAsThisOneIs) {
  const auto place = PlaceOfPod(Pod("3", "train-3"), kHosts);
  ASSERT_TRUE(place.ok() && place->has_value()) << place.status();
  EXPECT_EQ(**place, (PodPlace{"train", 3, "train-0.mesh.default.svc.cluster.local"}));
}

TEST(Pod, ANameMayHaveNumbersAndDashes) {
  const auto place =
      PlaceOfPod(Pod("0", "a-1-0"), "10.0.0.1 a-1-0.s.n.svc.example a-1-0 # a-1-0.other\n");
  ASSERT_TRUE(place.ok() && place->has_value()) << place.status();
  EXPECT_EQ(**place, (PodPlace{"a-1", 0, "a-1-0.s.n.svc.example"}));
}

TEST(Pod, WithoutASubdomainThereIsNoNameInFull) {
  for (const char* hosts : {"", "10.244.1.7\ttrain-3\n", "# 10.244.1.7 train-3.mesh train-3\n",
                            "train-3.mesh\n", "10.244.1.7 train-31.mesh train-3\n"}) {
    const auto place = PlaceOfPod(Pod("3", "train-3"), hosts);
    ASSERT_TRUE(place.ok() && place->has_value()) << place.status();
    EXPECT_EQ((*place)->first, "") << hosts;
  }
}

TEST(Pod, ElsewhereThereIsNoPlace) {
  for (const Variables& none :
       {Variables{}, Variables{{"HOSTNAME", "train-3"}}, Pod("", "train-3"),
        Variables{
            {"JOB_COMPLETION_INDEX", "3"}, {"HOSTNAME", "train-3"}, {"MUSTER_JOB_ID", "j"}}}) {
    const auto place = PlaceOfPod(none, kHosts);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_FALSE(place->has_value());
  }
}

TEST(Pod, WhatKubernetesDoesNotWriteIsRefused) {
  for (const char* index : {"x", "-1", "16384", "99999999999", "1 2"}) {
    EXPECT_THAT(Error(Pod(index, "train-3")),
                HasSubstr(absl::StrCat("JOB_COMPLETION_INDEX=", index, ": want 0..16383")));
  }
  for (const char* hostname : {"", "train", "train-2", "-3", "train3"}) {
    EXPECT_THAT(Error(Pod("3", hostname)),
                HasSubstr(absl::StrCat("HOSTNAME=", hostname, ": want JOB-3")));
  }
}

}  // namespace
}  // namespace muster
