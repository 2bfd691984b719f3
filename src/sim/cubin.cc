// Cubins are ELF files: kernels are the sections ".text.NAME", what is known of each stands in the
// attributes of ".nv.info" and ".nv.info.NAME", variables are symbols of the data sections.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "sim/image.h"

namespace vram::sim {
namespace {

// Attributes that we read, by NVIDIA's numbers.
constexpr uint8_t kMaxThreads = 0x05;    // three u32
constexpr uint8_t kRequiredSize = 0x10;  // three u32
constexpr uint8_t kFrameSize = 0x11;     // symbol, bytes of local memory
constexpr uint8_t kParameter = 0x17;     // u32 index, u16 ordinal, u16 offset, u32 size << 18 | …
constexpr uint8_t kRegisters = 0x2f;     // symbol, count
constexpr uint8_t kSized = 4;            // format of an attribute with a payload

// Blocks of sm_90 and later give up this much shared memory to the system, and the section counts
// it.
constexpr size_t kReservedShared = 1024;

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

class Elf {
 public:
  static std::optional<Elf> open(const std::byte* data, size_t bytes) {
    if (bytes < sizeof(Elf64_Ehdr) || std::memcmp(data, ELFMAG, SELFMAG) != 0) return std::nullopt;
    Elf elf;
    elf.data_ = data;
    elf.bytes_ = bytes;
    elf.header_ = load<Elf64_Ehdr>(data);
    const Elf64_Ehdr& header = elf.header_;
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > bytes ||
        header.e_shnum > (bytes - header.e_shoff) / sizeof(Elf64_Shdr) ||
        header.e_shstrndx >= header.e_shnum) {
      return std::nullopt;
    }
    return elf;
  }

  [[nodiscard]] size_t sections() const { return header_.e_shnum; }
  [[nodiscard]] Elf64_Shdr section(size_t index) const {
    return load<Elf64_Shdr>(data_ + header_.e_shoff + index * sizeof(Elf64_Shdr));
  }
  [[nodiscard]] std::string_view name(size_t index) const {
    return text(section(header_.e_shstrndx), section(index).sh_name);
  }
  // The content; nothing where it has none or lies outside the file.
  [[nodiscard]] std::span<const std::byte> content(const Elf64_Shdr& of) const {
    if (of.sh_type == SHT_NOBITS || of.sh_offset > bytes_ || of.sh_size > bytes_ - of.sh_offset) {
      return {};
    }
    return {data_ + of.sh_offset, of.sh_size};
  }
  [[nodiscard]] std::string_view text(const Elf64_Shdr& table, size_t offset) const {
    const auto bytes = content(table);
    if (offset >= bytes.size()) return {};
    const char* start = reinterpret_cast<const char*>(bytes.data()) + offset;
    return {start, strnlen(start, bytes.size() - offset)};
  }
  [[nodiscard]] unsigned target() const {
    // From ABI version 8 on the lowest byte says other things.
    const bool shifted = header_.e_ident[EI_ABIVERSION] >= 8;
    return shifted ? header_.e_flags >> 8 & 0xff : header_.e_flags & 0xff;
  }

 private:
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Elf64_Ehdr header_{};
};

// Calls f(attribute, payload) for each attribute that has a payload.
template <typename F>
void for_each_attribute(std::span<const std::byte> info, F f) {
  while (info.size() >= 4) {
    const auto format = static_cast<uint8_t>(info[0]);
    const auto attribute = static_cast<uint8_t>(info[1]);
    size_t payload = 0;
    if (format == kSized) payload = load<uint16_t>(info.data() + 2);
    if (payload > info.size() - 4) return;
    if (format == kSized) f(attribute, info.subspan(4, payload));
    info = info.subspan(4 + payload);
  }
}

void read_kernel_info(std::span<const std::byte> info, KernelInfo* kernel) {
  std::map<unsigned, Parameter> by_ordinal;
  for_each_attribute(info, [&](uint8_t attribute, std::span<const std::byte> payload) {
    if (attribute == kParameter && payload.size() >= 12) {
      by_ordinal[load<uint16_t>(payload.data() + 4)] = {load<uint16_t>(payload.data() + 6),
                                                        load<uint32_t>(payload.data() + 8) >> 18};
    } else if ((attribute == kMaxThreads || attribute == kRequiredSize) && payload.size() >= 12) {
      const uint64_t threads = uint64_t{load<uint32_t>(payload.data())} *
                               load<uint32_t>(payload.data() + 4) *
                               load<uint32_t>(payload.data() + 8);
      kernel->max_threads = static_cast<unsigned>(std::min<uint64_t>(threads, 1024));
    }
  });
  for (const auto& [ordinal, parameter] : by_ordinal) kernel->parameters.push_back(parameter);
}

KernelInfo* find_kernel(Image* image, std::string_view name) {
  const auto found = std::find_if(image->kernels.begin(), image->kernels.end(),
                                  [&](const KernelInfo& kernel) { return kernel.name == name; });
  return found == image->kernels.end() ? nullptr : &*found;
}

// ".nv.info": attributes of functions, named by their symbol.
void read_common_info(const Elf& elf, const Elf64_Shdr& symbols, std::span<const std::byte> info,
                      Image* out) {
  const auto table = elf.content(symbols);
  const Elf64_Shdr names = elf.section(symbols.sh_link);
  for_each_attribute(info, [&](uint8_t attribute, std::span<const std::byte> payload) {
    if ((attribute != kFrameSize && attribute != kRegisters) || payload.size() < 8) return;
    const size_t index = load<uint32_t>(payload.data());
    if (index >= table.size() / sizeof(Elf64_Sym)) return;
    const auto symbol = load<Elf64_Sym>(table.data() + index * sizeof(Elf64_Sym));
    KernelInfo* kernel = find_kernel(out, elf.text(names, symbol.st_name));
    if (kernel == nullptr) return;
    const auto value = load<uint32_t>(payload.data() + 4);
    (attribute == kFrameSize ? kernel->local_bytes = value : kernel->registers = value);
  });
}

bool is_variable_section(std::string_view name) {
  return name == ".nv.global" || name == ".nv.global.init" || name == ".nv.constant3";
}

void read_variables(const Elf& elf, const Elf64_Shdr& symbols, Image* out) {
  const auto table = elf.content(symbols);
  const Elf64_Shdr names = elf.section(symbols.sh_link);
  for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym)) {
    const auto symbol = load<Elf64_Sym>(table.data() + at);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= elf.sections()) continue;
    if (!is_variable_section(elf.name(symbol.st_shndx))) continue;
    const Elf64_Shdr section = elf.section(symbol.st_shndx);
    GlobalInfo global;
    global.name = elf.text(names, symbol.st_name);
    global.bytes = symbol.st_size;
    global.alignment = std::max<size_t>(section.sh_addralign, 1);
    const auto content = elf.content(section);
    if (symbol.st_value + symbol.st_size <= content.size()) {
      const auto bytes = content.subspan(symbol.st_value, symbol.st_size);
      global.initial.assign(bytes.begin(), bytes.end());
    }
    out->globals.push_back(std::move(global));
  }
}

}  // namespace

bool read_cubin(const std::byte* data, size_t bytes, Image* out) {
  const std::optional<Elf> elf = Elf::open(data, bytes);
  if (!elf) return false;
  constexpr std::string_view kText = ".text.";
  for (size_t i = 0; i < elf->sections(); ++i) {
    if (!elf->name(i).starts_with(kText)) continue;
    KernelInfo kernel;
    kernel.name = elf->name(i).substr(kText.size());
    kernel.target = elf->target();
    kernel.known = known_kernel(kernel.name);
    out->kernels.push_back(std::move(kernel));
  }
  constexpr std::string_view kInfo = ".nv.info.";
  constexpr std::string_view kShared = ".nv.shared.";
  for (size_t i = 0; i < elf->sections(); ++i) {
    const std::string_view name = elf->name(i);
    const Elf64_Shdr section = elf->section(i);
    if (name.starts_with(kInfo)) {
      KernelInfo* kernel = find_kernel(out, name.substr(kInfo.size()));
      if (kernel != nullptr) read_kernel_info(elf->content(section), kernel);
    } else if (name.starts_with(kShared)) {
      KernelInfo* kernel = find_kernel(out, name.substr(kShared.size()));
      const size_t reserved = elf->target() >= 90 ? kReservedShared : 0;
      if (kernel != nullptr && section.sh_size >= reserved) {
        kernel->shared_bytes = section.sh_size - reserved;
      }
    } else if (section.sh_type == SHT_SYMTAB && section.sh_link < elf->sections()) {
      read_variables(*elf, section, out);
      for (size_t k = 0; k < elf->sections(); ++k) {
        if (elf->name(k) == ".nv.info") {
          read_common_info(*elf, section, elf->content(elf->section(k)), out);
        }
      }
    }
  }
  return true;
}

}  // namespace vram::sim
