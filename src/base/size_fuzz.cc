// Whatever the text: an error and nothing changed, or an amount within its bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/size.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using vram::base::Size;
  using vram::base::SizeError;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Size out{Size::Kind::kPermille, 0};
  if (vram::base::parse_size(text, &out) != SizeError::kNone) {
    if (out.amount != 0 || out.kind != Size::Kind::kPermille) std::abort();
  } else if (out.amount == 0 || out.amount >> 63 != 0) {
    std::abort();
  } else if (out.kind == Size::Kind::kPermille && out.amount > 1000) {
    std::abort();
  }
  std::uint64_t bytes = 0;
  const bool read = vram::base::parse_mib(text, &bytes) == SizeError::kNone;
  if (read != (bytes != 0) || bytes % (1 << 20) != 0) std::abort();
  return 0;
}
