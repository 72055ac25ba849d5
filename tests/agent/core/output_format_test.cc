#include "agent/core/output_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/rng.h"

namespace muster {
namespace {

OutputSource Source(uint32_t rank, uint8_t stream = 1) {
  return {rank, rank % 2, rank / 2, rank < 2 ? "a" : "b", "trainer", stream};
}

FormatOptions Prefixed(bool terminal) {
  FormatOptions out;
  out.prefix = true;
  out.prefix_template = "[{rank}@{host}] ";
  out.terminal = terminal;
  out.many_workers = true;
  return out;
}

struct Write {
  OutputSource source;
  std::string bytes;
  bool split = false;
};

std::string Shown(const FormatOptions& options, const std::vector<Write>& writes,
                  absl::string_view time = "12:00:00.000") {
  OutputFormatter formatter(options);
  std::string out;
  for (const Write& write : writes) {
    const bool ends_line = !write.bytes.empty() && write.bytes.back() == '\n';
    formatter.Format(write.source, write.bytes, ends_line, write.split, time, out);
  }
  return out;
}

TEST(ExpandPrefix, KnowsAllNamesAndLeavesOthers) {
  EXPECT_EQ(ExpandPrefix("{rank} {local_rank} {node_rank} {host} {role} {stream} {time} {x} {rank",
                         Source(3, 2), "now"),
            "3 1 1 b trainer err now {x} {rank");
  EXPECT_EQ(ExpandPrefix("{stream}", Source(0, 1), ""), "out");
}

TEST(ExpandPrefix, DoesNotExpandWhatItPutIn) {
  OutputSource source = Source(7);
  source.host = "{rank}";
  EXPECT_EQ(ExpandPrefix("{host}", source, ""), "{rank}");
}

TEST(OutputFormatter, PrefixesEveryLine) {
  EXPECT_EQ(Shown(Prefixed(false), {{Source(0), "a\n\nb\n"}, {Source(2), "c\n"}}),
            "[0@a] a\n[0@a] \n[0@a] b\n[2@b] c\n");
}

TEST(OutputFormatter, TimeStampsComeFirst) {
  FormatOptions options = Prefixed(false);
  options.timestamps = true;
  EXPECT_EQ(Shown(options, {{Source(0), "a\n"}}), "12:00:00.000 [0@a] a\n");
  options.prefix = false;
  EXPECT_EQ(Shown(options, {{Source(0), "a\n"}}), "12:00:00.000 a\n");
  FormatOptions in_template;
  in_template.prefix = true;
  in_template.prefix_template = "{time}|";
  EXPECT_EQ(Shown(in_template, {{Source(0), "a\n"}}), "12:00:00.000|a\n");
}

TEST(OutputFormatter, LastLineWithoutNewlineGetsOne) {
  EXPECT_EQ(Shown(Prefixed(false), {{Source(0), "end"}, {Source(1), "x\n"}}),
            "[0@a] end\n[1@a] x\n");
  FormatOptions plain;
  plain.many_workers = true;
  EXPECT_EQ(Shown(plain, {{Source(0), "end"}, {Source(1), "x\n"}}), "end\nx\n");
}

TEST(OutputFormatter, SplitLinesAreMarked) {
  EXPECT_EQ(Shown(Prefixed(false), {{Source(0), "long", true}, {Source(1), "x\n"}}),
            "[0@a] long [muster: the line goes on]\n[1@a] x\n");
}

// F3: one worker's bytes, whatever they are.
TEST(OutputFormatter, OneWorkersBytesPassUnchanged) {
  const std::string bytes("\0\r\n\xff\r\nx", 7);
  EXPECT_EQ(Shown(FormatOptions(), {{Source(0), bytes}, {Source(0), "tail"}}), bytes + "tail");
  EXPECT_EQ(Shown(FormatOptions(), {{Source(0), "long", true}, {Source(0), "er\n"}}), "longer\n");
  EXPECT_TRUE(OutputFormatter(FormatOptions()).Transparent());
}

// F1 where nothing is marked: parts of one long line join, and nobody else's line begins on it.
TEST(OutputFormatter, SplitLinesOfManyPlainWorkersAreNotTorn) {
  FormatOptions plain;
  plain.many_workers = true;
  EXPECT_EQ(Shown(plain, {{Source(0), "lo", true}, {Source(0), "ng\n"}, {Source(1), "x\n"}}),
            "long\nx\n");
  EXPECT_EQ(Shown(plain, {{Source(0), "lo", true}, {Source(1), "x\n"}, {Source(0), "ng\n"}}),
            "lo\nx\nng\n");
  OutputFormatter formatter(plain);
  std::string out;
  EXPECT_TRUE(formatter.Transparent());
  formatter.Format(Source(0), "lo", false, true, "", out);
  EXPECT_FALSE(formatter.Transparent());  // the next one's line must not be glued to it
}

// A rank can live elsewhere in a later round.
TEST(OutputFormatter, PrefixFollowsARankToAnotherHost) {
  OutputSource moved = Source(0);
  moved.host = "c";
  EXPECT_EQ(Shown(Prefixed(false), {{Source(0), "x\n"}, {moved, "y\n"}}), "[0@a] x\n[0@c] y\n");
}

// F2
TEST(OutputFormatter, TerminalShowsGrowingLines) {
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0), "Pass"}, {Source(0), "word: "}, {Source(0), "\n"}}),
            "[0@a] Password: \n");
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0), "50"}, {Source(1), "x\n"}, {Source(0), "%\n"}}),
            "[0@a] 50\n[1@a] x\n[0@a] %\n");
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0, 1), "out"}, {Source(0, 2), "err\n"}}),
            "[0@a] out\n[0@a] err\n");
  FormatOptions plain;
  plain.terminal = true;
  EXPECT_EQ(Shown(plain, {{Source(0), "a"}, {Source(1), "b"}, {Source(1), "c\n"}}), "a\nbc\n");
}

TEST(OutputFormatter, CarriageReturnGoesBackToThePrefix) {
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0), "1%\r2%\r3%\n"}}), "[0@a] 1%\r[0@a] 2%\r[0@a] 3%\n");
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0), "dos\r\nline\r\n"}}), "[0@a] dos\r\n[0@a] line\r\n");
  // As progress bars write: one piece an update, the return at its end or at its beginning.
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0), "1%\r"}, {Source(0), "2%\r"}, {Source(0), "3%\n"}}),
            "[0@a] 1%\r[0@a] 2%\r[0@a] 3%\n");
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0), "\r1%"}, {Source(0), "\r2%"}, {Source(0), "\n"}}),
            "[0@a] \r[0@a] 1%\r[0@a] 2%\n");
  EXPECT_EQ(Shown(Prefixed(true), {{Source(0), "dos\r"}, {Source(0), "\nx\n"}}),
            "[0@a] dos\r\n[0@a] x\n");
}

// What a terminal's rows say at the end: the text of each, with the effect of \r.
std::vector<std::string> Rows(const std::string& bytes) {
  std::vector<std::string> rows(1);
  size_t column = 0;
  for (const char byte : bytes) {
    if (byte == '\n') {
      rows.emplace_back();
      column = 0;
    } else if (byte == '\r') {
      column = 0;
    } else {
      std::string& row = rows.back();
      row.resize(std::max(row.size(), column + 1), ' ');
      row[column++] = byte;
    }
  }
  return rows;
}

// F2 as a property: every row of a terminal belongs to one worker, whose prefix begins it.
TEST(OutputFormatter, EveryTerminalRowHasOneOwner) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SplitMix64 rng(seed);
    OutputFormatter formatter(Prefixed(true));
    std::string out;
    for (int i = 0; i < 60; ++i) {
      const auto rank = static_cast<uint32_t>(rng.Below(4));
      std::string bytes;
      for (uint64_t n = 1 + rng.Below(8); n > 0; --n) {
        const uint64_t kind = rng.Below(6);
        // A rank writes its own letter only.
        bytes.push_back(kind == 0 ? '\n' : kind == 1 ? '\r' : static_cast<char>('w' + rank));
      }
      formatter.Format(Source(rank), bytes, bytes.back() == '\n', false, "", out);
    }
    for (const std::string& row : Rows(out)) {
      if (row.empty()) {
        continue;
      }
      const uint32_t rank = static_cast<uint32_t>(row[1] - '0');
      ASSERT_LT(rank, 4u) << "seed " << seed << " row '" << row << "'";
      const std::string prefix = ExpandPrefix("[{rank}@{host}] ", Source(rank), "");
      ASSERT_EQ(row.substr(0, prefix.size()), prefix) << "seed " << seed;
      ASSERT_EQ(row.find_first_not_of(static_cast<char>('w' + rank), prefix.size()),
                std::string::npos)
          << "seed " << seed << " row '" << row << "'";
    }
  }
}

// F1 as a property: into a pipe each line is one worker's, and each worker's bytes come in order.
TEST(OutputFormatter, EveryPipeLineHasOneOwner) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SplitMix64 rng(seed);
    const bool prefix = rng.Below(2) == 0;
    FormatOptions options = Prefixed(false);
    options.prefix = prefix;
    OutputFormatter formatter(options);
    std::string out;
    std::map<char, size_t> put;
    for (int i = 0; i < 60; ++i) {
      const auto rank = static_cast<uint32_t>(rng.Below(4));
      const char letter = static_cast<char>('w' + rank);
      const bool split = rng.Below(3) == 0;
      const std::string bytes = std::string(1 + rng.Below(5), letter) + (split ? "" : "\n");
      put[letter] += bytes.size() - (split ? 0 : 1);
      formatter.Format(Source(rank), bytes, !split, split, "", out);
    }
    std::map<char, size_t> got;
    size_t at = 0;
    while (at < out.size()) {
      size_t end = out.find('\n', at);
      end = end == std::string::npos ? out.size() : end;
      std::string line = out.substr(at, end - at);
      at = end + 1;
      if (prefix) {
        const uint32_t rank = static_cast<uint32_t>(line[1] - '0');
        line = line.substr(ExpandPrefix("[{rank}@{host}] ", Source(rank), "").size());
        line = line.substr(0, line.find(" [muster"));
      }
      ASSERT_FALSE(line.empty());
      ASSERT_EQ(line.find_first_not_of(line[0]), std::string::npos) << "seed " << seed << line;
      got[line[0]] += line.size();
    }
    ASSERT_EQ(got, put) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster
