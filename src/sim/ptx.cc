// Declarations of PTX text: entries, their parameters and limits, variables. Instructions are
// skipped.
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "sim/image.h"

namespace vram::sim {
namespace {

// Words (names, numbers, directives with their dots) and single punctuation characters.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { next(); }

  [[nodiscard]] std::string_view now() const { return token_; }
  [[nodiscard]] bool at_end() const { return token_.empty(); }
  [[nodiscard]] bool is(std::string_view what) const { return token_ == what; }

  std::string_view take() {
    const std::string_view taken = token_;
    next();
    return taken;
  }
  bool skip(std::string_view what) {
    if (!is(what)) return false;
    next();
    return true;
  }
  void skip_past(std::string_view what) {
    while (!at_end() && !is(what)) next();
    next();
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
           c == '.';
  }

  void next() {
    skip_blanks();
    size_t length = 0;
    if (!text_.empty() && text_[0] == '"') {
      const size_t close = text_.find('"', 1);
      length = close == std::string_view::npos ? text_.size() : close + 1;
    } else {
      while (length < text_.size() && is_word(text_[length])) ++length;
      if (length == 0 && !text_.empty()) length = 1;
    }
    token_ = text_.substr(0, length);
    text_.remove_prefix(length);
  }

  void skip_blanks() {
    for (;;) {
      const size_t blanks = std::min(text_.find_first_not_of(" \t\r\n"), text_.size());
      text_.remove_prefix(blanks);
      if (text_.starts_with("//")) {
        text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
      } else if (text_.starts_with("/*")) {
        const size_t close = text_.find("*/");
        text_.remove_prefix(close == std::string_view::npos ? text_.size() : close + 2);
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::string_view token_;
};

std::optional<uint64_t> number(std::string_view word) {
  int base = 10;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.starts_with("0f") || word.starts_with("0F") || word.starts_with("0d") ||
             word.starts_with("0D")) {
    base = 16;  // a float or double by its bits
    word.remove_prefix(2);
  }
  while (!word.empty() && word.back() == 'U') word.remove_suffix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// ".u32" is 4; 0 for what is no type.
size_t type_bytes(std::string_view word) {
  if (word == ".pred") return 1;
  if (word == ".f16x2" || word == ".bf16x2") return 4;
  if (word == ".bf16") return 2;
  if (word.size() < 3 || std::string_view("bsuf").find(word[1]) == std::string_view::npos) return 0;
  const auto bits = number(word.substr(2));
  return bits && *bits % 8 == 0 && *bits >= 8 && *bits <= 128 ? *bits / 8 : 0;
}

// What a declaration of a variable or parameter says, up to and without its `=`, `,`, `)` or `;`.
struct Declared {
  std::string name;
  size_t bytes = 0;
  size_t element_bytes = 0;
  size_t alignment = 0;
  bool is_managed = false;
  bool is_open_array = false;  // its size is that of its initialiser
};

// Reads after the state space. Parameters carry `.ptr .space .align N` about what they point to.
Declared read_declared(Tokens& in) {
  Declared out;
  size_t vector = 1;
  bool of_pointee = false;
  while (!in.at_end() && in.now().starts_with('.')) {
    const std::string_view word = in.take();
    if (word == ".align") {
      const size_t alignment = number(in.take()).value_or(1);
      if (!of_pointee) out.alignment = alignment;
    } else if (word == ".attribute") {
      while (!in.at_end() && !in.is(")")) out.is_managed |= in.take() == ".managed";
      in.skip(")");
    } else if (word == ".ptr") {
      of_pointee = true;
    } else if (word == ".v2" || word == ".v4") {
      vector = word == ".v2" ? 2 : 4;
    } else if (const size_t bytes = type_bytes(word); bytes != 0) {
      out.element_bytes = bytes;
    }
  }
  out.name = in.take();
  out.element_bytes *= vector;
  out.bytes = out.element_bytes;
  while (in.skip("[")) {
    if (!in.is("]"))
      out.bytes *= number(in.take()).value_or(0);
    else
      out.is_open_array = true;
    in.skip("]");
  }
  if (out.alignment == 0) out.alignment = out.element_bytes;
  return out;
}

// The values of `= {1, 2}`; names of other variables count as zero.
std::vector<std::byte> read_initial(Tokens& in, size_t element_bytes) {
  std::vector<std::byte> bytes;
  int depth = 0;
  bool negative = false;
  while (!in.at_end() && !in.is(";")) {
    const std::string_view word = in.take();
    if (word == "{" || word == "(") ++depth;
    if (word == "}" || word == ")") --depth;
    if (word == "-") negative = true;
    if (word.size() == 1 && std::isalnum(static_cast<unsigned char>(word[0])) == 0) continue;
    if (depth > 1 && !number(word)) continue;
    const uint64_t magnitude = number(word).value_or(0);
    const uint64_t value = negative ? 0 - magnitude : magnitude;
    negative = false;
    for (size_t i = 0; i < element_bytes; ++i) {
      bytes.push_back(static_cast<std::byte>(i < 8 ? value >> (8 * i) : 0));
    }
  }
  return bytes;
}

void read_variable(Tokens& in, Image* out, bool is_extern) {
  Declared declared = read_declared(in);
  GlobalInfo global;
  if (in.skip("=")) global.initial = read_initial(in, declared.element_bytes);
  in.skip(";");
  if (is_extern) return;
  global.name = std::move(declared.name);
  global.bytes = declared.is_open_array ? global.initial.size() : declared.bytes;
  global.alignment = std::max<size_t>(declared.alignment, 1);
  global.is_managed = declared.is_managed;
  out->globals.push_back(std::move(global));
}

void read_parameters(Tokens& in, KernelInfo* kernel) {
  std::vector<size_t> sizes;
  std::vector<size_t> alignments;
  while (!in.at_end() && !in.skip(")")) {
    if (in.skip(".param")) {
      const Declared declared = read_declared(in);
      sizes.push_back(declared.bytes);
      alignments.push_back(std::max<size_t>(declared.alignment, 1));
    } else {
      in.take();
    }
  }
  kernel->parameters = lay_out(sizes, alignments);
}

// The directives between the parameters and the body.
void read_limits(Tokens& in, KernelInfo* kernel) {
  while (!in.at_end() && !in.is("{") && !in.is(";")) {
    const std::string_view word = in.take();
    if (word != ".maxntid" && word != ".reqntid") continue;
    uint64_t threads = number(in.take()).value_or(1024);
    while (in.skip(",")) threads *= number(in.take()).value_or(1);
    kernel->max_threads = static_cast<unsigned>(std::min<uint64_t>(threads, 1024));
  }
}

void read_body(Tokens& in, KernelInfo* kernel) {
  if (!in.skip("{")) return;
  for (int depth = 1; depth > 0 && !in.at_end();) {
    const std::string_view word = in.take();
    if (word == "{") ++depth;
    if (word == "}") --depth;
    if (word == ".local") kernel->local_bytes += read_declared(in).bytes;
    if (word == ".shared") kernel->shared_bytes += read_declared(in).bytes;
  }
}

void read_entry(Tokens& in, unsigned target, Image* out) {
  KernelInfo kernel;
  kernel.name = in.take();
  kernel.target = target;
  if (in.skip("(")) read_parameters(in, &kernel);
  read_limits(in, &kernel);
  read_body(in, &kernel);
  kernel.known = known_kernel(kernel.name);
  out->kernels.push_back(std::move(kernel));
}

// A function that is no kernel: its body may hold local memory, which we do not follow.
void skip_function(Tokens& in) {
  while (!in.at_end() && !in.is("{") && !in.is(";")) in.take();
  KernelInfo unused;
  read_body(in, &unused);
}

}  // namespace

std::vector<Parameter> lay_out(const std::vector<size_t>& sizes,
                               const std::vector<size_t>& alignments) {
  std::vector<Parameter> parameters;
  size_t end = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t offset = (end + alignments[i] - 1) / alignments[i] * alignments[i];
    parameters.push_back({offset, sizes[i]});
    end = offset + sizes[i];
  }
  return parameters;
}

bool read_ptx(std::string_view text, Image* out) {
  Tokens in(text);
  if (!in.skip(".version")) return false;
  unsigned target = 0;
  bool is_extern = false;
  while (!in.at_end()) {
    const std::string_view word = in.take();
    if (word == ".target") {
      const std::string_view name = in.take();
      if (name.starts_with("sm_")) {
        target = static_cast<unsigned>(number(name.substr(3, 2)).value_or(0));
      }
    } else if (word == ".entry") {
      read_entry(in, target, out);
    } else if (word == ".func") {
      skip_function(in);
    } else if (word == ".global" || word == ".const") {
      read_variable(in, out, is_extern);
    }
    is_extern = word == ".extern";
  }
  return target != 0;
}

}  // namespace vram::sim
