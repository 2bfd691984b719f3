#include "trace/writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "trace/reader.h"

namespace vram::trace {
namespace {

bool same(const Event& a, const Event& b) {
  return a.kind == b.kind && a.way == b.way && a.order == b.order && a.process == b.process &&
         a.device == b.device && a.stream == b.stream && a.id == b.id && a.bytes == b.bytes &&
         a.count == b.count && a.time_us == b.time_us;
}

TEST(Writer, WhatItWritesIsReadBack) {
  const std::vector<Event> events = {
      {.kind = Kind::kAlloc, .way = Way::kAlloc, .id = 1, .bytes = 512, .time_us = 3},
      {.kind = Kind::kAlloc, .device = 2, .stream = 7, .id = 2, .bytes = 1, .time_us = 3},
      {.kind = Kind::kAlloc, .way = Way::kManaged, .process = 1, .id = 3, .time_us = 900},
      {.kind = Kind::kFree, .order = Order::kNow, .id = 2, .time_us = 901},
      {.kind = Kind::kFree, .order = Order::kStream, .stream = 3, .id = 1, .time_us = 901},
      {.kind = Kind::kRefused, .way = Way::kPool, .device = 1, .bytes = 5, .time_us = 901},
      {.kind = Kind::kCaptureBegin, .process = 1, .stream = 4, .time_us = 902},
      {.kind = Kind::kCaptureEnd, .process = 1, .stream = 4, .time_us = 902},
      {.kind = Kind::kFree, .process = 1, .id = 3, .time_us = 903},
      {.kind = Kind::kLost, .process = 1, .count = 9, .time_us = 903},
      {.kind = Kind::kProcessEnd, .process = 1, .time_us = 903},
      {.kind = Kind::kProcessEnd, .time_us = 904},
  };
  const int fd = memfd_create("trace", MFD_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  auto writer = Writer::to(dup(fd), "F");
  ASSERT_TRUE(writer);
  writer->header({{"command", "a b"}});
  EXPECT_EQ(writer->begin_process({{"pid", "1"}}, 0), 0u);
  EXPECT_EQ(writer->begin_process({{"pid", "2"}}, 2), 1u);
  for (const Event& event : events) writer->write(event);
  const auto size = writer->finish();
  ASSERT_TRUE(size) << size.error();
  EXPECT_EQ(*size, static_cast<std::uint64_t>(lseek(fd, 0, SEEK_END)));
  EXPECT_FALSE(writer->finish());

  auto reader = Reader::open(path);
  ASSERT_TRUE(reader) << reader.error();
  EXPECT_EQ(find_fact(reader->facts(), "command"), "a b");
  Event event;
  for (const char* pid : {"1", "2"}) {
    const auto more = reader->next(&event);
    ASSERT_TRUE(more && *more);
    EXPECT_EQ(event.kind, Kind::kProcessBegin);
    EXPECT_EQ(find_fact(reader->process_facts(), "pid"), pid);
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto more = reader->next(&event);
    ASSERT_TRUE(more && *more) << (more ? "the end" : more.error());
    EXPECT_TRUE(same(event, events[i])) << i;
  }
  const auto more = reader->next(&event);
  EXPECT_TRUE(more && !*more);
  close(fd);
}

TEST(Writer, TimeNeverGoesBack) {
  const int fd = memfd_create("trace", MFD_CLOEXEC);
  auto writer = Writer::to(dup(fd), "F");
  writer->header({});
  writer->begin_process({}, 10);
  writer->write({.kind = Kind::kAlloc, .id = 1, .time_us = 4});
  ASSERT_TRUE(writer->finish());
  auto reader = Reader::open("/proc/self/fd/" + std::to_string(fd));
  Event event;
  ASSERT_TRUE(*reader->next(&event));
  ASSERT_TRUE(*reader->next(&event));
  EXPECT_EQ(event.time_us, 10u);
  close(fd);
}

TEST(Writer, AFullDiskIsToldAtTheEnd) {
  const int fd = open("/dev/full", O_WRONLY);
  auto writer = Writer::to(fd, "F");
  ASSERT_TRUE(writer);
  writer->header({});
  for (std::uint64_t id = 1; id < 200000; ++id) {
    writer->write({.kind = Kind::kAlloc, .id = id, .bytes = id * 2654435761});
  }
  const auto size = writer->finish();
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error(), "F: No space left on device");
}

}  // namespace
}  // namespace vram::trace
