// ELF files made to measure, for tests.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace muster {

template <typename T>
void PutBytes(std::string& bytes, size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// The smallest file that asks for `libraries`: one segment that is loaded at an address of its own,
// and the dynamic section inside.
inline std::string MakeElf(const std::vector<std::string>& libraries) {
  constexpr uint64_t kLoadAddress = 0x400000;
  std::string names(1, '\0');
  std::vector<ElfW(Dyn)> dynamic;
  for (const std::string& library : libraries) {
    ElfW(Dyn) entry{};
    entry.d_tag = DT_NEEDED;
    entry.d_un.d_val = names.size();
    dynamic.push_back(entry);
    names += library + '\0';
  }
  const size_t dynamic_at = sizeof(ElfW(Ehdr)) + 2 * sizeof(ElfW(Phdr));
  const size_t names_at = dynamic_at + (dynamic.size() + 2) * sizeof(ElfW(Dyn));
  ElfW(Dyn) table{};
  table.d_tag = DT_STRTAB;
  table.d_un.d_ptr = kLoadAddress + names_at;
  dynamic.push_back(table);
  dynamic.push_back(ElfW(Dyn){});

  std::string bytes(names_at, '\0');
  bytes += names;
  ElfW(Ehdr) header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = 2;
  PutBytes(bytes, 0, header);
  ElfW(Phdr) load{};
  load.p_type = PT_LOAD;
  load.p_vaddr = kLoadAddress;
  load.p_filesz = bytes.size();
  PutBytes(bytes, sizeof header, load);
  ElfW(Phdr) pointer{};
  pointer.p_type = PT_DYNAMIC;
  pointer.p_offset = dynamic_at;
  pointer.p_filesz = dynamic.size() * sizeof(ElfW(Dyn));
  PutBytes(bytes, sizeof header + sizeof load, pointer);
  std::memcpy(bytes.data() + dynamic_at, dynamic.data(), pointer.p_filesz);
  return bytes;
}

}  // namespace muster
