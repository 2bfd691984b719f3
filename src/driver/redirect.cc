#include "driver/redirect.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace vram::driver {
namespace {

struct SymbolTable {
  ElfW(Sym) * symbols = nullptr;
  std::size_t count = 0;
};

// The number of symbols stands in neither table; DT_HASH has it outright, in DT_GNU_HASH it is one
// past the end of the highest chain.
std::size_t count_from_gnu_hash(const std::uint32_t* table) {
  const std::uint32_t buckets = table[0];
  const std::uint32_t first = table[1];
  const std::uint32_t bloom_words = table[2];
  const std::uint32_t* bucket = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) {
    if (bucket[i] > last) last = bucket[i];
  }
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

SymbolTable symbols_of(const link_map* map) {
  SymbolTable table;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) {
      table.symbols = reinterpret_cast<ElfW(Sym)*>(entry->d_un.d_ptr);
    } else if (entry->d_tag == DT_HASH) {
      table.count = words[1];
    } else if (entry->d_tag == DT_GNU_HASH && table.count == 0) {
      table.count = count_from_gnu_hash(words);
    }
  }
  return table;
}

int protection_at(std::uintptr_t address, const link_map* map) {
  struct Search {
    std::uintptr_t address;
    const link_map* map;
    int protection;
  } search{address, map, -1};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        if (info->dlpi_addr != s->map->l_addr) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          const std::uintptr_t start = info->dlpi_addr + header.p_vaddr;
          if (header.p_type != PT_LOAD || s->address < start ||
              s->address >= start + header.p_memsz) {
            continue;
          }
          s->protection = ((header.p_flags & PF_R) ? PROT_READ : 0) |
                          ((header.p_flags & PF_W) ? PROT_WRITE : 0) |
                          ((header.p_flags & PF_X) ? PROT_EXEC : 0);
          return 1;
        }
        return 0;
      },
      &search);
  return search.protection;
}

void rewrite(const SymbolTable& table, std::uintptr_t base, const Redirect* rows,
             std::size_t count) {
  for (std::size_t i = 0; i < table.count; ++i) {
    ElfW(Sym)& symbol = table.symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    for (std::size_t r = 0; r < count; ++r) {
      if (rows[r].from == 0 || base + symbol.st_value != rows[r].from) continue;
      symbol.st_value = rows[r].to - base;
      break;
    }
  }
}

}  // namespace

bool redirect_exports(void* handle, const Redirect* rows, std::size_t count) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return false;
  const SymbolTable table = symbols_of(map);
  if (table.symbols == nullptr || table.count == 0) return false;

  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(table.symbols);
  const std::uintptr_t from = start & ~(page - 1);
  const std::uintptr_t to = (start + table.count * sizeof(ElfW(Sym)) + page - 1) & ~(page - 1);
  const int protection = protection_at(start, map);
  if (protection < 0) return false;
  void* const at = reinterpret_cast<void*>(from);
  if (mprotect(at, to - from, protection | PROT_WRITE) != 0) return false;
  rewrite(table, map->l_addr, rows, count);
  mprotect(at, to - from, protection);
  return true;
}

}  // namespace vram::driver
