// The file of --rdzv-endpoint file:///, as its text and in its folder.
#include "launcher/rendezvous_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/unique_fd.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

RendezvousPoint Own() { return {"job", "build", "node0", "10.0.0.1", 29400, "00a1b", "secret"}; }

const std::string& Folder() {
  static const std::string folder = [] {
    std::string name = "/dev/shm/rendezvous_XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    static std::string left_behind = name;
    CHECK(std::atexit([] { rmdir(left_behind.c_str()); }) == 0);
    return name;
  }();
  return folder;
}

void Write(const std::string& path, absl::string_view bytes) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  CHECK(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

std::vector<std::string> Seeds() {
  RendezvousPoint open = Own();
  open.secret = "";
  open.address = "fe80::1%eth0";
  return {RendezvousText(Own()),
          RendezvousText(open),
          "{}",
          "[]",
          "{\"format\":\"muster-rendezvous-1\",\"port\":true}",
          "{\"format\":null}"};
}

void Run(absl::string_view bytes) {
  const auto point = ParseRendezvousText(bytes);
  if (point.ok()) {
    CHECK(point->port != 0 && !point->address.empty() && !point->nonce.empty());
    // It becomes part of a file's name.
    CHECK(point->nonce.find_first_not_of("0123456789abcdef") == std::string::npos);
    const auto again = ParseRendezvousText(RendezvousText(*point));
    CHECK(again.ok() && *again == *point);
  }
  const std::string path = absl::StrCat(Folder(), "/file");
  Write(path, bytes);
  const RendezvousFile file(path);
  const auto read = file.Read();
  CHECK(read.ok() == (point.ok() && bytes.size() <= kRendezvousFileBytesMax));
  if (read.ok()) {
    CHECK(read->has_value() && **read == *point);
    const auto published = file.Publish(Own());
    CHECK(published.ok() && !*published);  // F2: it is taken
    const auto replaced = file.Replace(*point, Own());
    CHECK(replaced.ok() && *replaced);
    file.Remove(Own());
    CHECK(access(path.c_str(), F_OK) != 0);
  }
  unlink(path.c_str());
}

}  // namespace muster::fuzz
