#include "trace/reader.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

namespace vram::trace {
namespace {

constexpr const char kMark[] = "# vram-trace ";
constexpr int kNewest = 1;

template <typename Number>
bool parse_number(std::string_view text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// A file that is no trace may have anything in a word, and a whole page of it.
std::string quotable(std::string_view word) {
  constexpr std::size_t kMost = 40;
  std::string text(word.substr(0, kMost));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return word.size() > kMost ? text + "..." : text;
}

}  // namespace

// The words of a line. Every failure is "expected WHAT, found WHAT".
class Reader::Line {
 public:
  explicit Line(std::string_view text) : rest_(text) { advance(); }

  [[nodiscard]] bool at_end() const { return at_end_; }
  [[nodiscard]] std::string_view word() const { return word_; }
  [[nodiscard]] char first() const { return word_.empty() ? '\0' : word_[0]; }

  std::string_view take() {
    const std::string_view taken = word_;
    advance();
    return taken;
  }

  template <typename Number>
  std::string number(const char* what, Number* out) {
    if (at_end_ || !parse_number(word_, out)) return expected(what);
    advance();
    return "";
  }

  [[nodiscard]] std::string expected(const std::string& what) const {
    return "expected " + what + ", found " +
           (at_end_ ? "the end of the line" : "'" + quotable(word_) + "'");
  }

 private:
  void advance() {
    at_end_ = rest_.empty();
    const std::size_t length = rest_.find(' ');
    word_ = rest_.substr(0, length);
    rest_ = length == std::string_view::npos ? std::string_view() : rest_.substr(length + 1);
  }

  std::string_view rest_, word_;
  bool at_end_ = false;
};

base::Expected<Reader, std::string> Reader::open(const std::string& path) {
  FILE* file = fopen(path.c_str(), "rbe");
  if (file == nullptr) return path + ": " + std::strerror(errno);
  return from(file, path);
}

base::Expected<Reader, std::string> Reader::from(FILE* file, const std::string& name) {
  Reader reader(TextInput(file), name);
  const auto fine = reader.read_header();
  if (!fine) return fine.error();
  return reader;
}

std::string Reader::at(const std::string& what) const {
  return name_ + ":" + std::to_string(input_.number()) + ": " + what;
}

base::Expected<bool, std::string> Reader::read_header() {
  const auto got = input_.next(&first_line_);
  if (!got) return at(got.error());
  if (!*got) return true;
  if (first_line_.compare(0, sizeof kMark - 1, kMark) != 0) {
    has_first_line_ = true;
    return true;
  }
  Line line(std::string_view(first_line_).substr(sizeof kMark - 1));
  if (const std::string fault = line.number("a version", &version_); !fault.empty()) {
    return at(fault);
  }
  if (version_ < 1 || version_ > kNewest) {
    return at("this is version " + std::to_string(version_) +
              " of the format; this vram reads up to " + std::to_string(kNewest));
  }
  while (!line.at_end()) {
    const auto fact = parse_fact(std::string(line.word()));
    if (!fact) return at(line.expected("name=value"));
    facts_.push_back(*fact);
    line.take();
  }
  const auto unit = find_fact(facts_, "unit");
  if (unit && *unit != "us") return at("unit=" + *unit + " is not known; expected unit=us");
  return true;
}

base::Expected<bool, std::string> Reader::next(Event* event) {
  if (failed_) return false;
  for (;;) {
    std::string text;
    if (has_first_line_) {
      text = std::move(first_line_);
      has_first_line_ = false;
    } else {
      const auto got = input_.next(&text);
      failed_ = !got;
      if (!got) return at(got.error());
      if (!*got) return false;
    }
    const Parsed parsed = parse(text, event);
    failed_ = !parsed;
    if (!parsed) return at(parsed.error());
    if (*parsed) return true;
  }
}

Reader::Parsed Reader::parse(const std::string& text, Event* event) {
  if (text.empty() || text[0] == '#') return false;
  *event = Event{};
  Line line(text);
  const Parsed is_event = parse_record(&line, event);
  if (!is_event) return is_event;
  if (const std::string fault = parse_time(&line, event); !fault.empty()) return fault;
  if (!line.at_end()) return line.expected("the end of the line");
  // Whose process is not told are the first one's.
  if (process_count_ == 0) process_count_ = 1;
  event->process = process_;
  return is_event;
}

Reader::Parsed Reader::parse_record(Line* line, Event* event) {
  const std::string what(line->take());
  std::string fault;
  if (what == "a") {
    fault = parse_alloc(line, event);
  } else if (what == "f") {
    fault = parse_free(line, event);
  } else if (version_ == 0) {
    return "expected 'a' or 'f', found '" + quotable(what) + "'";
  } else if (what == "x") {
    event->kind = Kind::kRefused;
    fault = line->number("BYTES", &event->bytes);
    if (fault.empty()) fault = parse_taking(line, event);
  } else if (what == "b" || what == "e") {
    event->kind = what == "b" ? Kind::kCaptureBegin : Kind::kCaptureEnd;
    fault = line->number("STREAM", &event->stream);
  } else if (what == "l") {
    event->kind = Kind::kLost;
    fault = line->number("COUNT", &event->count);
  } else if (what == "q") {
    event->kind = Kind::kProcessEnd;
  } else if (what == "p") {
    return parse_process(line, event);
  } else {
    return "expected one of 'a f x b e l p q', found '" + quotable(what) + "'";
  }
  if (!fault.empty()) return fault;
  return true;
}

std::string Reader::parse_alloc(Line* line, Event* event) {
  event->kind = Kind::kAlloc;
  std::string fault = line->number("ID", &event->id);
  if (!fault.empty()) return fault;
  if (event->id <= last_id_) {
    return "expected an ID above " + std::to_string(last_id_) + ", found '" +
           std::to_string(event->id) + "'";
  }
  last_id_ = event->id;
  fault = line->number("BYTES", &event->bytes);
  return fault.empty() ? parse_taking(line, event) : fault;
}

// STREAM [WAY] [@DEVICE]
std::string Reader::parse_taking(Line* line, Event* event) const {
  std::string fault = line->number("STREAM", &event->stream);
  if (!fault.empty() || version_ == 0) return fault;
  if (line->first() >= 'a' && line->first() <= 'z') {
    const auto way = way_of(std::string(line->word()));
    if (!way) return line->expected("a way of allocation");
    event->way = *way;
    line->take();
  }
  if (line->first() == '@') {
    if (!parse_number(line->word().substr(1), &event->device)) return line->expected("@DEVICE");
    line->take();
  }
  return "";
}

// ID [STREAM | now]
std::string Reader::parse_free(Line* line, Event* event) const {
  event->kind = Kind::kFree;
  std::string fault = line->number("ID", &event->id);
  if (!fault.empty()) return fault;
  if (event->id > last_id_) {
    return "expected the ID of an allocation, " + std::to_string(last_id_) + " at most, found '" +
           std::to_string(event->id) + "'";
  }
  if (version_ == 0 || line->at_end() || line->first() == '+') return "";
  if (line->word() == "now") {
    event->order = Order::kNow;
    line->take();
    return "";
  }
  event->order = Order::kStream;
  return line->number("STREAM or 'now'", &event->stream);
}

// p NUMBER [name=value]...: what follows is this process's. The first time it begins.
Reader::Parsed Reader::parse_process(Line* line, Event* event) {
  std::uint32_t number = 0;
  if (const std::string fault = line->number("a process's number", &number); !fault.empty()) {
    return fault;
  }
  if (number > process_count_) {
    return "expected a process's number, " + std::to_string(process_count_) + " at most, found '" +
           std::to_string(number) + "'";
  }
  const bool is_new = number == process_count_;
  process_ = number;
  if (!is_new) return false;
  if (process_count_ == std::numeric_limits<std::uint32_t>::max())
    return std::string("there are too many processes");
  ++process_count_;
  event->kind = Kind::kProcessBegin;
  process_facts_.clear();
  while (!line->at_end() && line->first() != '+') {
    const auto fact = parse_fact(std::string(line->word()));
    if (!fact) return line->expected("name=value");
    process_facts_.push_back(*fact);
    line->take();
  }
  return true;
}

// [+MICROSECONDS]
std::string Reader::parse_time(Line* line, Event* event) {
  if (version_ != 0 && line->first() == '+') {
    std::uint64_t passed = 0;
    if (!parse_number(line->word().substr(1), &passed) ||
        passed > std::numeric_limits<std::uint64_t>::max() - time_us_) {
      return line->expected("+MICROSECONDS");
    }
    time_us_ += passed;
    line->take();
  }
  event->time_us = time_us_;
  return "";
}

}  // namespace vram::trace
