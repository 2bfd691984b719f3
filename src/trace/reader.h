#pragma once

// Reads a recorded trace: one event after another, in constant memory. Versions 0 (lines `a` and
// `f` alone) and 1; see docs/user/trace-format.md.
//
//   auto reader = trace::Reader::open(path);
//   if (!reader) fail(reader.error());
//   trace::Event event;
//   for (;;) {
//     const auto more = reader->next(&event);
//     if (!more) fail(more.error());
//     if (!*more) break;
//     ...
//   }
//   if (reader->truncated()) warn(...);
//
// An event refers to what came before it, and only the caller knows what is alive: a free may name
// an allocation that was freed before, and a process ends with whatever it still holds. Live
// (live.h) keeps that. Threads: one at a time.

#include <string>

#include "base/expected.h"
#include "trace/event.h"
#include "trace/facts.h"
#include "trace/text_input.h"

namespace vram::trace {

class Reader {
 public:
  // A failure names the file, and the line where there is one: "F:12: expected BYTES, found 'x'".
  static base::Expected<Reader, std::string> open(const std::string& path);
  // `name` stands for the file in failures. Takes the file over; reads the header.
  static base::Expected<Reader, std::string> from(FILE* file, const std::string& name);

  // False: the end. After a failure there is nothing more.
  base::Expected<bool, std::string> next(Event* event);

  [[nodiscard]] int version() const { return version_; }
  // command, driver, started, unit, device0, device0.bytes ...; none in version 0.
  [[nodiscard]] const Facts& facts() const { return facts_; }
  // pid, command ... of the process of the last kProcessBegin.
  [[nodiscard]] const Facts& process_facts() const { return process_facts_; }
  // At the end: the file stops in the middle, and everything before that was read.
  [[nodiscard]] bool truncated() const { return input_.truncated(); }

 private:
  class Line;
  using Parsed = base::Expected<bool, std::string>;  // whether the line is an event

  Reader(TextInput input, std::string name) : input_(std::move(input)), name_(std::move(name)) {}

  std::string at(const std::string& what) const;
  base::Expected<bool, std::string> read_header();
  Parsed parse(const std::string& text, Event* event);
  Parsed parse_record(Line* line, Event* event);
  std::string parse_alloc(Line* line, Event* event);
  std::string parse_free(Line* line, Event* event) const;
  std::string parse_taking(Line* line, Event* event) const;
  Parsed parse_process(Line* line, Event* event);
  std::string parse_time(Line* line, Event* event);

  TextInput input_;
  std::string name_;
  int version_ = 0;
  Facts facts_, process_facts_;
  std::string first_line_;  // of a version 0, whose first line is an event
  bool has_first_line_ = false;
  bool failed_ = false;
  std::uint64_t last_id_ = 0;
  std::uint64_t time_us_ = 0;
  std::uint32_t process_ = 0;
  std::uint32_t process_count_ = 0;
};

}  // namespace vram::trace
