// Fat binaries: the same code for several targets, as cubin and as PTX, each entry perhaps packed.
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "sim/image.h"

namespace vram::sim {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kContainerMagic = 0xba55ed50;
constexpr uint16_t kPtx = 1;
constexpr uint16_t kCubin = 2;
constexpr uint64_t kLz4 = 0x2000;
constexpr uint64_t kZstd = 0x8000;

// What nvcc leaves in a program for the runtime to register.
struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const std::byte* data;
  const void* unused;
};

struct Container {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of the entries, headers included
};

struct Entry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t stored_bytes;  // with padding
  uint32_t packed_bytes;  // without; 0 where it is not packed
  uint32_t options;
  uint16_t minor;
  uint16_t major;
  uint32_t target;
  uint32_t name;
  uint32_t name_bytes;
  uint64_t flags;
  uint64_t unused;
  uint64_t unpacked_bytes;
};

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

using Bytes = std::vector<std::byte>;

// zstd is on every system that runs these programs, but not worth a dependency of the build.
std::optional<Bytes> unpack_zstd(std::span<const std::byte> packed, size_t unpacked_bytes) {
  using Decompress = size_t (*)(void*, size_t, const void*, size_t);
  static const auto decompress = [] {
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    void* symbol = library != nullptr ? dlsym(library, "ZSTD_decompress") : nullptr;
    return reinterpret_cast<Decompress>(symbol);
  }();
  if (decompress == nullptr) return std::nullopt;
  Bytes out(unpacked_bytes);
  const size_t written = decompress(out.data(), out.size(), packed.data(), packed.size());
  if (written != unpacked_bytes) return std::nullopt;
  return out;
}

// LZ4 block format: runs of literals and copies of what was written before.
std::optional<Bytes> unpack_lz4(std::span<const std::byte> packed, size_t unpacked_bytes) {
  Bytes out;
  out.reserve(unpacked_bytes);
  size_t at = 0;
  const auto take = [&] { return at < packed.size() ? static_cast<size_t>(packed[at++]) : 0; };
  const auto take_length = [&](size_t nibble) {
    size_t length = nibble;
    for (size_t more = 255; nibble == 15 && more == 255; length += more) more = take();
    return length;
  };
  while (at < packed.size()) {
    const size_t token = take();
    const size_t literals = take_length(token >> 4);
    if (literals > packed.size() - at) return std::nullopt;
    out.insert(out.end(), packed.begin() + at, packed.begin() + at + literals);
    at += literals;
    if (at >= packed.size()) break;
    const size_t low = take();
    const size_t distance = low | take() << 8;
    const size_t length = take_length(token & 15) + 4;
    if (distance == 0 || distance > out.size() || length > unpacked_bytes) return std::nullopt;
    for (size_t i = 0; i < length; ++i) out.push_back(out[out.size() - distance]);
  }
  if (out.size() != unpacked_bytes) return std::nullopt;
  return out;
}

std::optional<Bytes> content_of(const Entry& entry, const std::byte* payload) {
  if ((entry.flags & kZstd) != 0) {
    return unpack_zstd({payload, entry.packed_bytes}, entry.unpacked_bytes);
  }
  if ((entry.flags & kLz4) != 0) {
    return unpack_lz4({payload, entry.packed_bytes}, entry.unpacked_bytes);
  }
  return Bytes(payload, payload + entry.stored_bytes);
}

bool read_entry(const Entry& entry, const std::byte* payload, Image* out) {
  const std::optional<Bytes> content = content_of(entry, payload);
  if (!content) return false;
  Image image;
  const char* text = reinterpret_cast<const char*>(content->data());
  const bool well_formed = entry.kind == kCubin
                               ? read_cubin(content->data(), content->size(), &image)
                               : read_ptx({text, strnlen(text, content->size())}, &image);
  if (well_formed) *out = std::move(image);
  return well_formed;
}

size_t elf_bytes(const std::byte* data) {
  const auto header = load<Elf64_Ehdr>(data);
  size_t end = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
  end = std::max(end, header.e_phoff + size_t{header.e_phnum} * header.e_phentsize);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = load<Elf64_Shdr>(data + header.e_shoff + i * header.e_shentsize);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

}  // namespace

bool read_fat_binary(const std::byte* data, Image* out) {
  if (load<uint32_t>(data) == kWrapperMagic) data = load<Wrapper>(data).data;
  // What is no container may end within the length of one.
  if (load<uint32_t>(data) != kContainerMagic) return false;
  const auto container = load<Container>(data);
  const std::byte* at = data + container.header_bytes;
  const std::byte* const end = at + container.bytes;
  bool any = false;
  bool read = false;
  // A cubin tells more than PTX, a later target is closer to the card: the last readable cubin.
  bool read_cubin_before = false;
  while (at + sizeof(Entry) <= end) {
    auto entry = load<Entry>(at);
    if (entry.header_bytes == 0) break;
    const bool is_cubin = entry.kind == kCubin;
    if (is_cubin || entry.kind == kPtx) {
      any = true;
      if ((is_cubin || !read_cubin_before) && read_entry(entry, at + entry.header_bytes, out)) {
        read = true;
        read_cubin_before = is_cubin;
      }
    }
    at += entry.header_bytes + entry.stored_bytes;
  }
  out->is_sealed = any && !read;
  return any;
}

CUresult read_image(const void* data, std::shared_ptr<const Image>* out) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* bytes = static_cast<const std::byte*>(data);
  auto image = std::make_shared<Image>();
  const char first = static_cast<char>(bytes[0]);
  const bool is_text = first == '.' || first == '/' || first == ' ' || first == '\n' ||
                       first == '\t' || first == '\r';
  if (is_text) {
    if (!read_ptx(static_cast<const char*>(data), image.get())) return CUDA_ERROR_INVALID_PTX;
  } else if (first == '\0') {
    return CUDA_ERROR_INVALID_IMAGE;
  } else if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    if (!read_cubin(bytes, elf_bytes(bytes), image.get())) return CUDA_ERROR_INVALID_IMAGE;
  } else if (!read_fat_binary(bytes, image.get())) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *out = std::move(image);
  return CUDA_SUCCESS;
}

KernelInfo describe_unseen(std::string_view name) {
  KernelInfo kernel;
  kernel.name = name;
  kernel.known = known_kernel(name);
  kernel.has_parameters = kernel.known != nullptr;
  if (kernel.known != nullptr) {
    const std::vector<size_t> sizes(kernel.known->parameter_bytes.begin(),
                                    kernel.known->parameter_bytes.end());
    kernel.parameters = lay_out(sizes, sizes);
  }
  return kernel;
}

}  // namespace vram::sim
