#include "config/environment.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/size.h"

namespace vram::config {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// TensorFlow's bound for pinned host memory: 128 GiB.
constexpr std::uint64_t kHostLimit = (std::uint64_t{1} << 17) * kMiB;

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

// Reads one variable after another; keeps the first error.
class Reader {
 public:
  Reader(const Variable& variable, Mode mode, std::vector<std::string>* diagnostics)
      : variable_(variable), mode_(mode), diagnostics_(diagnostics) {}

  std::optional<std::string> text(const char* name) const { return variable_(name); }
  void note(std::string line) { diagnostics_->push_back(std::move(line)); }

  // Strict: an error. Compat: ignored, as TensorFlow does.
  void meaningless(const char* name, const std::string& value, const std::string& valid) {
    const std::string what = std::string(name) + "='" + value + "'";
    if (mode_ == Mode::kCompat) {
      note(what + " could not be parsed and is ignored; valid values are " + valid);
    } else {
      fail(what + " means nothing; write " + valid + ", or unset it");
    }
  }
  void fail(std::string message) {
    if (!fault_) fault_ = Fault{FaultKind::kInvalidArgument, std::move(message)};
  }

  // Exactly `true` or `false`, which is what TensorFlow's allocator compares with.
  std::optional<bool> exact_bool(const char* name) {
    const auto value = text(name);
    if (!value) return {};
    if (*value == "true") return true;
    if (*value == "false") return false;
    meaningless(name, *value, "true or false");
    return {};
  }
  std::optional<bool> loose_bool(const char* name) {
    const auto value = text(name);
    if (!value) return {};
    const std::string low = lower(*value);
    if (low == "true" || low == "1") return true;
    if (low == "false" || low == "0") return false;
    meaningless(name, *value, "true, false, 1 or 0");
    return {};
  }
  std::optional<std::int64_t> number(const char* name, std::int64_t least, const char* valid) {
    const auto value = text(name);
    if (!value) return {};
    // TensorFlow takes an empty value for an unset one.
    if (value->empty() && mode_ == Mode::kCompat) return {};
    const auto parsed = whole_number(*value);
    if (parsed && *parsed >= least && *parsed < (std::int64_t{1} << 40)) return parsed;
    meaningless(name, *value, valid);
    return {};
  }

  [[nodiscard]] const std::optional<Fault>& fault() const { return fault_; }
  [[nodiscard]] Mode mode() const { return mode_; }

 private:
  const Variable& variable_;
  Mode mode_;
  std::vector<std::string>* diagnostics_;
  std::optional<Fault> fault_;
};

void read_allocator(Reader& reader, Environment* out) {
  const auto value = reader.text("TF_GPU_ALLOCATOR");
  if (!value || value->empty()) return;
  if (*value == "cuda_malloc_async") {
    out->driver_async = true;
  } else if (*value == "cuda_malloc" || *value == "memory_guard") {
    reader.note("TF_GPU_ALLOCATOR=" + *value +
                " is not honoured: memory comes from the usual pool; of its values only "
                "cuda_malloc_async changes anything here");
  } else {
    reader.meaningless("TF_GPU_ALLOCATOR", *value, "cuda_malloc_async");
  }
}

void read_process_limit(Reader& reader, Environment* out) {
  const auto value = reader.text("PER_PROCESS_GPU_MEMORY");
  if (!value) return;
  std::uint64_t bytes = 0;
  if (base::parse_mib(*value, &bytes) == base::SizeError::kNone) {
    out->process_limit = bytes;
    return;
  }
  reader.fail("PER_PROCESS_GPU_MEMORY='" + *value +
              "' is not a whole number of MiB above 0; write 4096 for 4GiB, or unset it");
}

void read_gpu_id(Reader& reader, Environment* out) {
  const auto value = reader.text("GPU_ID");
  if (!value) return;
  if (reader.mode() == Mode::kCompat) {
    reader.note("GPU_ID=" + *value +
                " is not honoured in compat mode: TensorFlow does not know it");
    return;
  }
  // The launcher that sets both has hidden the other cards already, and numbers begin anew.
  if (reader.text("CUDA_VISIBLE_DEVICES") == value) return;
  std::string_view rest = *value;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const auto id = whole_number(rest.substr(0, comma));
    if (!id || *id < 0 || *id > 1 << 20) {
      reader.meaningless("GPU_ID", *value, "numbers of GPUs like 0 or 0,1");
      return;
    }
    out->gpu_ids.push_back(static_cast<int>(*id));
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

void note_unheard(Reader& reader) {
  for (const char* name : {"TF_BFC_MEMORY_DUMP", "TF_DETERMINISTIC_ALLOCATOR"}) {
    if (const auto value = reader.text(name)) {
      reader.note(std::string(name) + "=" + *value + " is not honoured; an out-of-memory error " +
                  "carries the report of the pool");
    }
  }
}

}  // namespace

std::optional<std::uint64_t> Environment::card_cap() const {
  if (device_limit && process_limit) return std::min(*device_limit, *process_limit);
  return device_limit ? device_limit : process_limit;
}

Result<Environment> read_environment(const Variable& variable, Mode mode) {
  Environment out;
  Reader reader(variable, mode, &out.diagnostics);
  out.force_growth = reader.exact_bool("TF_FORCE_GPU_ALLOW_GROWTH");
  read_allocator(reader, &out);
  out.system_mib = reader.number("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", 0, "a whole number of MiB");
  out.garbage_collection = reader.exact_bool("TF_ENABLE_GPU_GARBAGE_COLLECTION").value_or(true);
  if (const auto mib = reader.number("TF_PER_DEVICE_MEMORY_LIMIT_MB", mode == Mode::kCompat ? 0 : 1,
                                     "a whole number of MiB above 0");
      mib && *mib > 0) {
    out.device_limit = static_cast<std::uint64_t>(*mib) * kMiB;
  }
  out.unified = reader.loose_bool("TF_FORCE_UNIFIED_MEMORY").value_or(false);
  const auto host =
      reader.number("TF_GPU_HOST_MEM_LIMIT_IN_MB", 1, "a whole number of MiB above 0");
  out.host_limit = host ? static_cast<std::uint64_t>(*host) * kMiB : kHostLimit;
  out.preallocate = reader.number("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", -1,
                                  "a number of bytes, or -1 for the whole limit");
  if (out.preallocate && !out.driver_async) {
    reader.note(
        "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC has no effect without "
        "TF_GPU_ALLOCATOR=cuda_malloc_async");
  }
  read_process_limit(reader, &out);
  read_gpu_id(reader, &out);
  note_unheard(reader);
  if (reader.fault()) return *reader.fault();
  return out;
}

Result<Mode> mode_of_environment(const Variable& variable) {
  const auto value = variable("VRAM_CONFIG_MODE");
  if (!value || *value == "strict") return Mode::kStrict;
  if (*value == "compat") return Mode::kCompat;
  return Fault{FaultKind::kInvalidArgument,
               "VRAM_CONFIG_MODE='" + *value + "' is no mode; write strict or compat, or unset it"};
}

}  // namespace vram::config
