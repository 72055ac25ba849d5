#include "agent/io/elf_file.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "agent/io/small_file.h"

namespace muster {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Dynamic = ElfW(Dyn);

// Far above what linkers write; a file that claims more is read up to there.
constexpr size_t kSegmentsMax = 128;
constexpr size_t kDynamicBytesMax = 64u << 10;
constexpr size_t kNamesBytesMax = 1u << 20;  // of the string table up to the last name needed
constexpr size_t kLibrariesMax = 1024;
constexpr size_t kNameBytesMax = 256;

template <typename T>
std::vector<T> ReadArray(int fd, size_t offset, size_t count) {
  const std::string bytes = ReadAt(fd, offset, count * sizeof(T));
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) {
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  }
  return out;
}

std::optional<size_t> FileOffset(const std::vector<Segment>& segments, uint64_t address) {
  for (const Segment& s : segments) {
    if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz) {
      return s.p_offset + (address - s.p_vaddr);
    }
  }
  return std::nullopt;
}

bool IsNative(const Header& header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  const uint16_t one = 1;
  unsigned char low = 0;
  std::memcpy(&low, &one, 1);
  return header.e_ident[EI_CLASS] == kClass &&
         header.e_ident[EI_DATA] == (low == 1 ? ELFDATA2LSB : ELFDATA2MSB) &&
         header.e_phentsize == sizeof(Segment);
}

// "libmpi.so.40" -> 40 for base "libmpi"; nullopt for another library or without a number.
std::optional<uint32_t> SoVersion(absl::string_view library, absl::string_view base) {
  uint32_t version = 0;
  if (!absl::ConsumePrefix(&library, base) || !absl::ConsumePrefix(&library, ".so.") ||
      !absl::SimpleAtoi(library.substr(0, library.find('.')), &version)) {
    return std::nullopt;
  }
  return version;
}

}  // namespace

bool IsElf(absl::string_view head) {
  return absl::StartsWith(head, absl::string_view(ELFMAG, SELFMAG));
}

std::vector<std::string> ElfNeeded(int fd) {
  const std::vector<Header> headers = ReadArray<Header>(fd, 0, 1);
  if (headers.empty() ||
      !IsElf(absl::string_view(reinterpret_cast<const char*>(headers[0].e_ident), SELFMAG)) ||
      !IsNative(headers[0])) {
    return {};
  }
  const std::vector<Segment> segments = ReadArray<Segment>(
      fd, headers[0].e_phoff, std::min<size_t>(headers[0].e_phnum, kSegmentsMax));
  const auto dynamic = std::find_if(segments.begin(), segments.end(),
                                    [](const Segment& s) { return s.p_type == PT_DYNAMIC; });
  if (dynamic == segments.end()) {
    return {};
  }
  std::vector<uint64_t> names;  // offsets into the string table
  uint64_t table_address = 0;
  for (const Dynamic& entry : ReadArray<Dynamic>(
           fd, dynamic->p_offset,
           std::min<size_t>(dynamic->p_filesz, kDynamicBytesMax) / sizeof(Dynamic))) {
    if (entry.d_tag == DT_NULL) {
      break;
    }
    if (entry.d_tag == DT_STRTAB) {
      table_address = entry.d_un.d_ptr;
    } else if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < kNamesBytesMax &&
               names.size() < kLibrariesMax) {
      names.push_back(entry.d_un.d_val);
    }
  }
  const std::optional<size_t> table = FileOffset(segments, table_address);
  if (names.empty() || !table.has_value()) {
    return {};
  }
  const auto [lowest, highest] = std::minmax_element(names.begin(), names.end());
  const std::string text = ReadAt(fd, *table + *lowest, *highest - *lowest + kNameBytesMax);
  std::vector<std::string> out;
  for (const uint64_t name : names) {
    const size_t at = name - *lowest;
    if (at < text.size()) {
      out.emplace_back(text.substr(at, kNameBytesMax).c_str());  // up to its NUL
    }
  }
  return out;
}

std::string MpiOfLibraries(const std::vector<std::string>& needed) {
  for (const std::string& library : needed) {
    for (const absl::string_view base : {"libmpich", "libmpichcxx", "libmpichfort", "libmpifort",
                                         "libmpicxx", "libmpi_cray", "libmpi_gnu", "libmpi_gtl"}) {
      if (absl::StartsWith(library, base) && absl::StrContains(library, ".so")) {
        return "MPICH";
      }
    }
    for (const absl::string_view base :
         {"libmpi_mpifh", "libmpi_usempi", "libmpi_cxx", "liboshmem"}) {
      if (absl::StartsWith(library, base) && absl::StrContains(library, ".so")) {
        return "Open MPI";
      }
    }
    if (const auto version = SoVersion(library, "libmpi"); version.has_value()) {
      // 12 is the number all of MPICH's family agreed on; Open MPI has had 40 since version 3.
      return *version == 12 ? "MPICH" : "Open MPI";
    }
  }
  return "";
}

}  // namespace muster
