#include "trace/writer.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

namespace vram::trace {
namespace {

constexpr unsigned kBuffer = 256u << 10;

}  // namespace

struct Writer::State {
  gzFile file;
  int fd;  // a second descriptor, to know the size
  std::string name;
  std::string failure;
  std::string line;
  std::uint64_t time_us = 0;
  std::uint32_t process = 0;
  std::uint32_t process_count = 0;

  ~State() {
    if (file != nullptr) gzclose(file);
    if (fd >= 0) close(fd);
  }

  void add(std::uint64_t number) { line += std::to_string(number); }

  // STREAM [WAY] [@DEVICE]
  void add_taking(const Event& event) {
    line += ' ';
    add(event.stream);
    if (event.way != Way::kAsync) line += std::string(" ") + word_of(event.way);
    if (event.device == 0) return;
    line += " @";
    add(event.device);
  }

  void end_line(std::uint64_t now) {
    if (now > time_us) {
      line += " +";
      add(now - time_us);
      time_us = now;
    }
    line += '\n';
    put();
  }

  void put() {
    if (failure.empty() && gzwrite(file, line.data(), static_cast<unsigned>(line.size())) <= 0) {
      note_failure();
    }
    line.clear();
  }

  void note_failure() {
    const int error = errno;
    int code = Z_OK;
    const char* text = file != nullptr ? gzerror(file, &code) : "";
    failure = name + ": " + (code == Z_ERRNO || code == Z_OK ? std::strerror(error) : text);
  }
};

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer::~Writer() = default;

base::Expected<Writer, std::string> Writer::to(int fd, const std::string& name) {
  const int second = dup(fd);
  const gzFile file = second >= 0 ? gzdopen(fd, "wb") : nullptr;
  if (file == nullptr) {
    const std::string failure = name + ": " + std::strerror(errno);
    close(fd);
    if (second >= 0) close(second);
    return failure;
  }
  (void)gzbuffer(file, kBuffer);
  return Writer(std::unique_ptr<State>(new State{file, second, name, {}, {}}));
}

void Writer::header(const Facts& facts) {
  state_->line = "# vram-trace 1 unit=us";
  if (!facts.empty()) state_->line += " " + format_facts(facts);
  state_->line += '\n';
  state_->put();
}

std::uint32_t Writer::begin_process(const Facts& facts, std::uint64_t time_us) {
  State& state = *state_;
  state.process = state.process_count++;
  state.line = "p ";
  state.add(state.process);
  if (!facts.empty()) state.line += " " + format_facts(facts);
  state.end_line(time_us);
  return state.process;
}

void Writer::write(const Event& event) {
  State& state = *state_;
  if (event.process != state.process) {
    state.process = event.process;
    state.line = "p ";
    state.add(event.process);
    state.line += '\n';
  }
  switch (event.kind) {
    case Kind::kAlloc:
      state.line += "a ";
      state.add(event.id);
      state.line += ' ';
      state.add(event.bytes);
      state.add_taking(event);
      break;
    case Kind::kFree:
      state.line += "f ";
      state.add(event.id);
      if (event.order == Order::kNow) state.line += " now";
      if (event.order == Order::kStream) {
        state.line += ' ';
        state.add(event.stream);
      }
      break;
    case Kind::kRefused:
      state.line += "x ";
      state.add(event.bytes);
      state.add_taking(event);
      break;
    case Kind::kCaptureBegin:
    case Kind::kCaptureEnd:
      state.line += event.kind == Kind::kCaptureBegin ? "b " : "e ";
      state.add(event.stream);
      break;
    case Kind::kLost:
      state.line += "l ";
      state.add(event.count);
      break;
    case Kind::kProcessEnd:
      state.line += 'q';
      break;
    case Kind::kProcessBegin:
      return;
  }
  state.end_line(event.time_us);
}

base::Expected<std::uint64_t, std::string> Writer::finish() {
  State& state = *state_;
  if (state.file == nullptr) return state.name + ": it was finished before";
  const int closed = gzclose(state.file);
  state.file = nullptr;
  if (closed != Z_OK && state.failure.empty()) state.note_failure();
  struct stat st {};
  if (state.failure.empty() && fstat(state.fd, &st) != 0) state.note_failure();
  if (!state.failure.empty()) return state.failure;
  return static_cast<std::uint64_t>(st.st_size);
}

}  // namespace vram::trace
