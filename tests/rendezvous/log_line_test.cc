#include "rendezvous/log_line.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

TEST(LogLine, WhatPeopleReadStays) {
  EXPECT_EQ(LogLine("job 'a': rank 3 on \"node1\" ended \\ 12.3 s"),
            "job 'a': rank 3 on \"node1\" ended \\ 12.3 s");
  EXPECT_EQ(LogLine("Z\xC3\xBCrich \xE2\x82\xAC"), "Z\xC3\xBCrich \xE2\x82\xAC");
  EXPECT_EQ(LogLine(""), "");
}

TEST(LogLine, NoLineIsForgedAndNoTerminalMoved) {
  EXPECT_EQ(LogLine("x\nmuster: job b ended with 0"), "x\\nmuster: job b ended with 0");
  EXPECT_EQ(LogLine("\x1b[2J\r\t\x7f"), "\\x1b[2J\\r\\t\\x7f");
  EXPECT_EQ(LogLine(std::string("a\0b", 3)),
            "a\\x00"
            "b");
  EXPECT_EQ(LogLine("\xC2\x9B"
                    "31m"),
            "\\xc2\\x9b"
            "31m");  // CSI, as one character
  EXPECT_EQ(LogLine("\xC2"), "\xC2");
}

}  // namespace
}  // namespace muster
