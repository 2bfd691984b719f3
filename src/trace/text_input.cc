#include "trace/text_input.h"

#include <zlib.h>

#include <array>
#include <cstring>

namespace vram::trace {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
// A header with its facts is the longest line there is; more is no trace.
constexpr std::size_t kLongestLine = std::size_t{64} << 10;
// gzip, recognised by its header.
constexpr int kGzipWindow = 15 + 16;
constexpr unsigned char kGzipMark[] = {0x1f, 0x8b};

}  // namespace

struct TextInput::State {
  std::unique_ptr<FILE, int (*)(FILE*)> file;
  z_stream stream{};
  bool begun = false;
  bool compressed = false;
  bool between_members = false;  // the next bytes begin another one, or there are none
  bool at_end = false;           // of the file
  bool truncated = false;
  std::uint64_t number = 0;
  std::array<unsigned char, kChunk> in{};
  std::array<unsigned char, kChunk> out{};
  std::size_t out_at = 0, out_end = 0;
  std::string failure;

  explicit State(FILE* opened) : file(opened, fclose) {}
  ~State() {
    if (compressed) inflateEnd(&stream);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // False: nothing left, or a failure.
  bool fill() {
    out_at = out_end = 0;
    while (out_end == 0) {
      if (stream.avail_in == 0 && !read()) return false;
      if (!begun && !begin()) return false;
      if (!compressed) return pass();
      if (!inflate_some()) return false;
    }
    return true;
  }

  bool read() {
    if (at_end) return false;
    stream.next_in = in.data();
    stream.avail_in = static_cast<unsigned>(fread(in.data(), 1, in.size(), file.get()));
    if (stream.avail_in > 0) return true;
    at_end = true;
    if (ferror(file.get()) != 0) {
      failure = "it cannot be read";
    } else if (compressed && !between_members) {
      truncated = true;
    }
    return false;
  }

  bool begin() {
    begun = true;
    // A file of one byte is the beginning of either kind, and of neither use.
    const unsigned seen = stream.avail_in < 2 ? stream.avail_in : 2;
    if (memcmp(stream.next_in, kGzipMark, seen) != 0) return true;
    compressed = inflateInit2(&stream, kGzipWindow) == Z_OK;
    if (!compressed) failure = "there is no memory to decompress it";
    return compressed;
  }

  bool pass() {
    memcpy(out.data(), stream.next_in, stream.avail_in);
    out_end = stream.avail_in;
    stream.avail_in = 0;
    return true;
  }

  bool inflate_some() {
    if (between_members && inflateReset(&stream) != Z_OK) return false;
    between_members = false;
    stream.next_out = out.data();
    stream.avail_out = static_cast<unsigned>(out.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    out_end = out.size() - stream.avail_out;
    between_members = result == Z_STREAM_END;
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) return true;
    failure = std::string("its gzip data is damaged") +
              (stream.msg != nullptr ? std::string(" (") + stream.msg + ")" : "");
    return out_end > 0;
  }
};

TextInput::TextInput(FILE* file) : state_(std::make_unique<State>(file)) {}
TextInput::~TextInput() = default;
TextInput::TextInput(TextInput&&) noexcept = default;

bool TextInput::truncated() const { return state_->truncated; }
std::uint64_t TextInput::number() const { return state_->number; }

base::Expected<bool, std::string> TextInput::next(std::string* line) {
  State& state = *state_;
  line->clear();
  for (;;) {
    if (state.out_at == state.out_end) {
      if (!state.failure.empty() || !state.fill()) break;
    }
    const unsigned char* from = state.out.data() + state.out_at;
    const std::size_t left = state.out_end - state.out_at;
    const auto* end = static_cast<const unsigned char*>(memchr(from, '\n', left));
    const std::size_t length = end != nullptr ? static_cast<std::size_t>(end - from) : left;
    if (line->size() + length > kLongestLine) {
      ++state.number;
      state.failure = "the line is longer than " + std::to_string(kLongestLine) + " characters";
      return state.failure;
    }
    line->append(reinterpret_cast<const char*>(from), length);
    state.out_at += length + (end != nullptr ? 1 : 0);
    if (end == nullptr) continue;
    ++state.number;
    return true;
  }
  if (!state.failure.empty()) {
    ++state.number;
    return state.failure;
  }
  // A line without its end was not written to its end.
  if (!line->empty()) state.truncated = true;
  return false;
}

}  // namespace vram::trace
