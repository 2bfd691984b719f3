// A trace from a log: records become events, addresses become numbers.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <unordered_map>
#include <vector>

#include "trace/live.h"
#include "trace/recording.h"
#include "trace/writer.h"

namespace vram::trace {
namespace {

using wire::KeySpace;
using wire::TraceKind;
using wire::TraceMark;
using wire::TraceRecord;

constexpr auto kProgressPeriod = std::chrono::milliseconds(250);
constexpr std::uint64_t kLookAtClock = 4096;  // records

TraceMark mark_of(const TraceRecord& record) {
  const std::uint64_t packed = record.mark.load(std::memory_order_acquire);
  TraceMark mark{};
  std::memcpy(&mark, &packed, sizeof mark);
  return mark;
}

struct Key {
  std::uint32_t process;
  KeySpace space;
  std::uint64_t value;
  bool operator==(const Key& other) const {
    return process == other.process && space == other.space && value == other.value;
  }
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const std::uint64_t mixed = key.value * 0x9e3779b97f4a7c15u;
    return mixed ^ (mixed >> 29) ^ std::uint64_t{key.process} * 8 ^
           static_cast<std::uint64_t>(key.space);
  }
};

struct Held {
  std::uint64_t id;
  std::uint32_t stream, device, context;
  Way way;
};

struct ProcessState {
  std::uint32_t place = 0;  // in the log
  bool begun = false;
  bool ended = false;
  std::uint32_t number = 0;
  std::uint64_t last_record = 0;  // one past; 0: none
  std::unordered_map<std::uint64_t, std::uint32_t> streams;
};

class Conversion {
 public:
  Conversion(const wire::TraceLog& log, Writer* writer) : log_(log), writer_(*writer) {}

  Summary run(const std::function<void(int)>& progress);

 private:
  std::uint64_t us(std::uint64_t ns) const {
    const std::uint64_t start = log_.header.start_ns;
    return ns > start ? (ns - start) / 1000 : 0;
  }
  void look_ahead();
  void begin_until(std::uint64_t ns);
  void begin(ProcessState* process);
  void end_earlier_main();
  void end(ProcessState* process, std::uint64_t time_us);
  void convert(const TraceRecord& record, const TraceMark& mark, ProcessState* process);
  void take(const TraceRecord& record, const TraceMark& mark, ProcessState* process, Event event);
  void free(const TraceRecord& record, const TraceMark& mark, ProcessState* process, Event event);
  void end_context(const TraceMark& mark, bool last, const ProcessState& process, Event event);
  void tell_lost(std::uint64_t time_us);
  void emit(const Event& event);
  std::uint32_t stream_of(std::uint64_t handle, ProcessState* process) const;

  const wire::TraceLog& log_;
  Writer& writer_;
  std::uint64_t claimed_ = 0, readable_ = 0;
  std::vector<ProcessState> processes_;  // as in the log
  std::vector<std::uint32_t> by_time_;   // those that joined, in that order
  std::size_t next_to_begin_ = 0;
  std::unordered_map<Key, Held, KeyHash> held_;
  Live live_;
  Summary summary_;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_us_ = 0;
  std::uint64_t gap_ = 0;
};

// Which processes there are, and where each one's last record stands.
void Conversion::look_ahead() {
  const wire::TraceHeader& header = log_.header;
  claimed_ = header.next.load();
  const std::uint64_t backed = header.end_ns != 0 ? header.records : header.backed.load();
  readable_ = std::min({claimed_, backed, header.capacity});
  const std::uint32_t known = std::min(header.processes.load(), wire::kMaxTraceProcesses);
  processes_.resize(wire::kMaxTraceProcesses);
  for (std::uint32_t place = 0; place < processes_.size(); ++place) {
    processes_[place].place = place;
    if (place < known && log_.process[place].joined_ns.load() != 0) by_time_.push_back(place);
  }
  std::sort(by_time_.begin(), by_time_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return log_.process[a].joined_ns.load() < log_.process[b].joined_ns.load();
  });
  for (std::uint64_t i = 0; i < readable_; ++i) {
    const TraceMark mark = mark_of(log_.record[i]);
    if (mark.kind != TraceKind::kNothing && mark.process < processes_.size()) {
      processes_[mark.process].last_record = i + 1;
    }
  }
}

Summary Conversion::run(const std::function<void(int)>& progress) {
  look_ahead();
  auto told = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < readable_; ++i) {
    if (i % kLookAtClock == 0 && std::chrono::steady_clock::now() - told > kProgressPeriod) {
      told = std::chrono::steady_clock::now();
      progress(static_cast<int>(i * 100 / readable_));
    }
    const TraceRecord& record = log_.record[i];
    const TraceMark mark = mark_of(record);
    if (mark.kind == TraceKind::kNothing || mark.process >= processes_.size()) {
      ++gap_;
      continue;
    }
    begin_until(record.time_ns);
    ProcessState& process = processes_[mark.process];
    if (!process.begun) begin(&process);
    tell_lost(us(record.time_ns));
    convert(record, mark, &process);
    const bool is_main = log_.process[process.place].pid == log_.header.main_pid;
    if (process.last_record == i + 1 && !is_main) end(&process, us(record.time_ns));
  }
  gap_ += claimed_ - readable_;
  begin_until(~std::uint64_t{0});
  const std::uint64_t end_us = std::max(us(log_.header.end_ns), last_us_);
  tell_lost(end_us);
  for (ProcessState& process : processes_) {
    if (process.begun && !process.ended) end(&process, end_us);
  }
  summary_.duration_us = std::max(end_us, last_us_);
  summary_.peak = live_.peak();
  return summary_;
}

void Conversion::begin_until(std::uint64_t ns) {
  for (; next_to_begin_ < by_time_.size(); ++next_to_begin_) {
    ProcessState& process = processes_[by_time_[next_to_begin_]];
    if (log_.process[process.place].joined_ns.load() > ns) return;
    if (!process.begun) begin(&process);
  }
}

void Conversion::begin(ProcessState* process) {
  const wire::TraceProcess& known = log_.process[process->place];
  const std::string command(known.command, strnlen(known.command, sizeof known.command));
  const std::size_t end = command.find_last_not_of(' ');
  last_us_ = std::max(last_us_, us(known.joined_ns.load()));
  if (known.pid == log_.header.main_pid) end_earlier_main();
  process->begun = true;
  process->number = writer_.begin_process(
      {{"pid", std::to_string(known.pid)}, {"command", command.substr(0, end + 1)}}, last_us_);
  ++summary_.processes;
}

// exec keeps the process and ends all it held.
void Conversion::end_earlier_main() {
  for (ProcessState& process : processes_) {
    const bool is_main = log_.process[process.place].pid == log_.header.main_pid;
    if (process.begun && !process.ended && is_main) end(&process, last_us_);
  }
}

void Conversion::end(ProcessState* process, std::uint64_t time_us) {
  process->ended = true;
  emit({.kind = Kind::kProcessEnd, .process = process->number, .time_us = time_us});
  for (auto at = held_.begin(); at != held_.end();) {
    at = at->first.process == process->place ? held_.erase(at) : std::next(at);
  }
}

// Records that were claimed and not written, told before the next one that was.
void Conversion::tell_lost(std::uint64_t time_us) {
  if (gap_ == 0) return;
  summary_.lost += gap_;
  emit({.kind = Kind::kLost, .count = gap_, .time_us = time_us});
  gap_ = 0;
}

void Conversion::emit(const Event& event) {
  last_us_ = std::max(last_us_, event.time_us);
  live_.apply(event);
  writer_.write(event);
}

std::uint32_t Conversion::stream_of(std::uint64_t handle, ProcessState* process) const {
  if (handle == 0) return 0;
  const auto next = static_cast<std::uint32_t>(process->streams.size() + 1);
  return process->streams.emplace(handle, next).first->second;
}

void Conversion::convert(const TraceRecord& record, const TraceMark& mark, ProcessState* process) {
  Event event;
  event.process = process->number;
  event.device = mark.device;
  event.bytes = record.bytes;
  event.time_us = us(record.time_ns);
  switch (mark.kind) {
    case TraceKind::kTaken:
    case TraceKind::kRefused:
      if (mark.detail >= kWayCount) break;
      return take(record, mark, process, event);
    case TraceKind::kFreed:
      return free(record, mark, process, event);
    case TraceKind::kCaptureBegin:
    case TraceKind::kCaptureEnd:
      event.kind = mark.kind == TraceKind::kCaptureBegin ? Kind::kCaptureBegin : Kind::kCaptureEnd;
      event.stream = stream_of(record.stream, process);
      return emit(event);
    case TraceKind::kContextEnd:
      return end_context(mark, record.bytes != 0, *process, event);
    case TraceKind::kUndone:
    case TraceKind::kNothing:
      break;
  }
}

void Conversion::take(const TraceRecord& record, const TraceMark& mark, ProcessState* process,
                      Event event) {
  event.way = static_cast<Way>(mark.detail);
  event.stream = stream_of(record.stream, process);
  if (mark.kind == TraceKind::kRefused) {
    event.kind = Kind::kRefused;
    ++summary_.refused;
    return emit(event);
  }
  const Key key{process->place, key_space(event.way), record.key};
  const auto before = held_.find(key);
  if (before != held_.end()) {
    // A handle that the process has already is not imported anew.
    if (event.way == Way::kImport) return;
    // Its free was lost, or went by a way that nobody sees.
    ++summary_.frees;
    emit({.kind = Kind::kFree,
          .process = process->number,
          .id = before->second.id,
          .time_us = event.time_us});
    held_.erase(before);
  }
  event.id = ++last_id_;
  held_.emplace(key, Held{event.id, event.stream, event.device, mark.context, event.way});
  ++summary_.allocations;
  emit(event);
}

void Conversion::free(const TraceRecord& record, const TraceMark& mark, ProcessState* process,
                      Event event) {
  const auto found = held_.find({process->place, static_cast<KeySpace>(mark.detail), record.key});
  if (found == held_.end()) return;  // taken before the recording, or by a way that nobody sees
  const Held& held = found->second;
  event.kind = Kind::kFree;
  event.id = held.id;
  event.bytes = 0;
  event.device = 0;
  const bool ordered = record.bytes != 0;
  if (ordered) {
    const std::uint32_t stream = stream_of(record.stream, process);
    if (!is_stream_ordered(held.way) || stream != held.stream) {
      event.order = Order::kStream;
      event.stream = stream;
    }
  } else if (is_stream_ordered(held.way)) {
    event.order = Order::kNow;
  }
  held_.erase(found);
  ++summary_.frees;
  emit(event);
}

// What was allocated in a context goes with it; what pools hold goes with the process's last one on
// the device. Handles live on.
void Conversion::end_context(const TraceMark& mark, bool last, const ProcessState& process,
                             Event event) {
  std::map<std::uint64_t, Way> freed;
  for (auto at = held_.begin(); at != held_.end();) {
    const Held& held = at->second;
    const bool pooled = is_stream_ordered(held.way) || held.way == Way::kGraph;
    const bool goes = at->first.process == process.place && held.device == mark.device &&
                      key_space(held.way) != KeySpace::kHandle &&
                      (pooled ? last : held.context == mark.context);
    if (goes) freed.emplace(held.id, held.way);
    at = goes ? held_.erase(at) : std::next(at);
  }
  event.kind = Kind::kFree;
  for (const auto& [id, way] : freed) {
    event.id = id;
    event.order = is_stream_ordered(way) ? Order::kNow : Order::kAsAllocated;
    ++summary_.frees;
    emit(event);
  }
}

Facts facts_of(const wire::TraceHeader& header) {
  Facts facts;
  const std::string text(header.facts, header.facts_bytes);
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(' ', from), text.size());
    if (const auto fact = parse_fact(text.substr(from, to - from))) facts.push_back(*fact);
    from = to + 1;
  }
  return facts;
}

std::string not_a_log(const std::string& path, wire::FileError error) {
  switch (error) {
    case wire::FileError::kNotFound:
      return path + ": there is no such file";
    case wire::FileError::kNotAJob:
      return path + ": it is not the log of a recording";
    default:
      return path + ": " + wire::describe(error);
  }
}

}  // namespace

base::Expected<Summary, std::string> convert(const std::string& log, const std::string& output,
                                             const std::function<void(int)>& progress) {
  const wire::TraceMapping mapping = wire::read_trace(log.c_str());
  if (mapping.log == nullptr) return not_a_log(log, mapping.error);
  const std::unique_ptr<const wire::TraceMapping, void (*)(const wire::TraceMapping*)> unmap(
      &mapping, [](const wire::TraceMapping* mapped) { wire::unmap_trace(*mapped); });
  const std::string aside = output + ".part";
  (void)unlink(aside.c_str());
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return aside + ": " + std::strerror(errno);
  auto writer = Writer::to(fd, output);
  if (!writer) return writer.error();
  writer->header(facts_of(mapping.log->header));
  Summary summary = Conversion(*mapping.log, &*writer).run(progress);
  const auto size = writer->finish();
  std::string failure = size ? "" : size.error();
  if (failure.empty() && rename(aside.c_str(), output.c_str()) != 0) {
    failure = output + ": " + std::strerror(errno);
  }
  if (!failure.empty()) {
    (void)unlink(aside.c_str());
    return failure;
  }
  summary.file_bytes = *size;
  return summary;
}

}  // namespace vram::trace
