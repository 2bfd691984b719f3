#include "trace/recording.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "trace/reader.h"

namespace vram::trace {
namespace {

using wire::KeySpace;
using wire::TraceKind;

// A log that is written by hand, as processes do it.
class RecordingTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/vram-recording-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    auto made = Recording::make(log(), {{"command", "a program"}});
    ASSERT_TRUE(made) << made.error();
    recording_ = std::move(*made);
    mapping_ = wire::open_trace(log().c_str());
    ASSERT_NE(mapping_.log, nullptr);
    recording_->begin(100);
  }
  void TearDown() override {
    recording_.reset();
    if (mapping_.log != nullptr) wire::unmap_trace(mapping_);
    for (const std::string& path : {log(), output()}) (void)unlink(path.c_str());
    EXPECT_EQ(rmdir(folder_.c_str()), 0);
  }

  std::string log() const { return folder_ + "/log"; }
  std::string output() const { return folder_ + "/out"; }

  void join(std::int32_t pid) {
    const std::uint32_t at = mapping_.log->header.processes.fetch_add(1);
    mapping_.log->process[at].pid = pid;
    std::strcpy(mapping_.log->process[at].command, "sub program ");
    mapping_.log->process[at].joined_ns.store(mapping_.log->header.start_ns + at + 1);
  }
  std::uint64_t claim() { return mapping_.log->header.next.fetch_add(1); }

  void put(TraceKind kind, std::uint8_t detail, std::uint64_t key, std::uint64_t bytes,
           std::uint16_t process = 0, std::uint64_t stream = 0) {
    const std::uint64_t at = claim();
    wire::TraceRecord& record = mapping_.log->record[at];
    record.time_ns = mapping_.log->header.start_ns + 1000 * (at + 1);
    record.key = key;
    record.bytes = bytes;
    record.stream = stream;
    const wire::TraceMark mark{kind, detail, process, 0, 0};
    std::uint64_t packed = 0;
    std::memcpy(&packed, &mark, sizeof packed);
    record.mark.store(packed);
  }
  void take(Way way, std::uint64_t key, std::uint64_t bytes, std::uint16_t process = 0) {
    put(TraceKind::kTaken, static_cast<std::uint8_t>(way), key, bytes, process);
  }
  void free(KeySpace space, std::uint64_t key, std::uint16_t process = 0) {
    put(TraceKind::kFreed, static_cast<std::uint8_t>(space), key, 0, process);
  }

  Summary summary() {
    recording_->close();
    return converted();
  }
  // As after a command that was killed.
  Summary converted() {
    const auto made = convert(log(), output(), [](int) {});
    EXPECT_TRUE(made) << made.error();
    return made ? *made : Summary{};
  }

  // "a1:512 f1 q": kind, number, bytes.
  std::string events() {
    auto reader = Reader::open(output());
    EXPECT_TRUE(reader) << reader.error();
    std::string text;
    Event event;
    for (;;) {
      const auto more = reader->next(&event);
      EXPECT_TRUE(more) << more.error();
      if (!more || !*more) return text;
      switch (event.kind) {
        case Kind::kAlloc:
          text += "a" + std::to_string(event.id) + ":" + std::to_string(event.bytes) + " ";
          break;
        case Kind::kFree:
          text += "f" + std::to_string(event.id) + " ";
          break;
        case Kind::kLost:
          text += "l" + std::to_string(event.count) + " ";
          break;
        case Kind::kProcessBegin:
          text += "p" + std::to_string(event.process) + " ";
          break;
        case Kind::kProcessEnd:
          text += "q" + std::to_string(event.process) + " ";
          break;
        default:
          text += "? ";
      }
    }
  }

  std::string folder_;
  std::unique_ptr<Recording> recording_;
  wire::TraceMapping mapping_;
};

TEST_F(RecordingTest, RecordsBecomeEvents) {
  join(100);
  take(Way::kAlloc, 0x1000, 512);
  free(KeySpace::kAddress, 0x1000);
  const Summary got = summary();
  EXPECT_EQ(events(), "p0 a1:512 f1 q0 ");
  EXPECT_EQ(got.allocations, 1u);
  EXPECT_EQ(got.frees, 1u);
  EXPECT_EQ(got.peak, 512u);
  EXPECT_EQ(got.lost, 0u);
  EXPECT_EQ(got.processes, 1u);
}

TEST_F(RecordingTest, ARecordThatWasNotWrittenToItsEndIsLost) {
  join(100);
  take(Way::kAlloc, 0x1000, 1);
  claim();
  claim();
  take(Way::kAlloc, 0x2000, 2);
  claim();
  EXPECT_EQ(summary().lost, 3u);
  EXPECT_EQ(events(), "p0 a1:1 l2 a2:2 l1 q0 ");
}

TEST_F(RecordingTest, WhatFoundNoRoomIsLost) {
  join(100);
  take(Way::kAlloc, 0x1000, 1);
  recording_->close();
  mapping_.log->header.next.store(mapping_.log->header.records + 10);
  const Summary got = converted();
  EXPECT_EQ(got.lost, mapping_.log->header.records + 9);
}

TEST_F(RecordingTest, RoomIsKeptAhead) {
  const std::uint64_t before = mapping_.log->header.backed.load();
  mapping_.log->header.next.store(before - 1);
  for (int i = 0; i < 500 && mapping_.log->header.backed.load() == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GT(mapping_.log->header.backed.load(), before);
  struct stat st {};
  ASSERT_EQ(stat(log().c_str(), &st), 0);
  // On the disk, and not only in the file's size.
  EXPECT_GE(static_cast<std::uint64_t>(st.st_blocks) * 512, before * sizeof(wire::TraceRecord));
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(RecordingTest, AFreeThatFailedIsNone) {
  join(100);
  take(Way::kAlloc, 0x1000, 1);
  put(TraceKind::kUndone, 0, 0x1000, 0);
  free(KeySpace::kAddress, 0x1000);
  EXPECT_EQ(summary().lost, 0u);
  EXPECT_EQ(events(), "p0 a1:1 f1 q0 ");
}

TEST_F(RecordingTest, HandlesAndAddressesOfOneValueAreTwo) {
  join(100);
  take(Way::kAlloc, 0x1000, 1);
  take(Way::kCreate, 0x1000, 2);
  free(KeySpace::kHandle, 0x1000);
  free(KeySpace::kAddress, 0x1000);
  summary();
  EXPECT_EQ(events(), "p0 a1:1 a2:2 f2 f1 q0 ");
}

TEST_F(RecordingTest, AddressesOfTwoProcessesAreTwo) {
  join(100);
  join(101);
  take(Way::kAlloc, 0x1000, 1, 0);
  take(Way::kAlloc, 0x1000, 2, 1);
  free(KeySpace::kAddress, 0x1000, 0);
  summary();
  EXPECT_EQ(events(), "p0 p1 a1:1 a2:2 q1 f1 q0 ");
}

TEST_F(RecordingTest, AnAddressThatIsTakenAgainWasFreed) {
  join(100);
  take(Way::kAlloc, 0x1000, 1);
  take(Way::kAlloc, 0x1000, 2);
  summary();
  EXPECT_EQ(events(), "p0 a1:1 f1 a2:2 q0 ");
}

TEST_F(RecordingTest, AHandleThatIsThereIsNotImportedAnew) {
  join(100);
  take(Way::kCreate, 7, 1);
  take(Way::kImport, 7, 0);
  free(KeySpace::kHandle, 7);
  summary();
  EXPECT_EQ(events(), "p0 a1:1 f1 q0 ");
}

TEST_F(RecordingTest, AFreeOfWhatNobodyTookIsLeftOut) {
  join(100);
  free(KeySpace::kAddress, 0x1000);
  take(Way::kAlloc, 0x1000, 1);
  free(KeySpace::kAddress, 0x1000);
  free(KeySpace::kAddress, 0x1000);
  summary();
  EXPECT_EQ(events(), "p0 a1:1 f1 q0 ");
}

TEST_F(RecordingTest, AProcessEndsAfterItsLastEventAndTheMainOneWithAll) {
  join(100);
  join(101);
  take(Way::kAlloc, 1, 1, 1);
  take(Way::kAlloc, 2, 2, 0);
  free(KeySpace::kAddress, 2, 0);
  const Summary got = summary();
  EXPECT_EQ(events(), "p0 p1 a1:1 q1 a2:2 f2 q0 ");
  EXPECT_GE(got.duration_us, 5u);
}

TEST_F(RecordingTest, AnInterruptedOneIsConverted) {
  join(100);
  take(Way::kAlloc, 0x1000, 1);
  EXPECT_EQ(converted().allocations, 1u);
  EXPECT_EQ(events(), "p0 a1:1 q0 ");
}

TEST_F(RecordingTest, NonsenseInALogIsNoEvent) {
  join(100);
  put(TraceKind::kTaken, 200, 1, 1);
  put(TraceKind::kTaken, 0, 1, 1, 5000);
  put(static_cast<TraceKind>(77), 0, 1, 1);
  // A process that nobody wrote down.
  take(Way::kAlloc, 2, 2, 9);
  summary();
  EXPECT_EQ(events(), "p0 l1 p1 a1:2 q1 q0 ");
}

TEST_F(RecordingTest, WhatIsNoLogIsRefusedAndLeavesNothing) {
  recording_->close();
  mapping_.log->header.version = 99;
  const auto made = convert(log(), output(), [](int) {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), log() + ": it was made by another version of vram");
  EXPECT_NE(access(output().c_str(), F_OK), 0);
  mapping_.log->header.magic = 0;
  EXPECT_EQ(convert(log(), output(), [](int) {}).error(),
            log() + ": it is not the log of a recording");
}

TEST_F(RecordingTest, ASecondLogIsRefused) {
  const auto made = Recording::make(log(), {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), log() + ": it exists already");
}

TEST_F(RecordingTest, AfterTheEndNobodyWrites) {
  recording_->close();
  EXPECT_EQ(mapping_.log->header.backed.load(), 0u);
}

}  // namespace
}  // namespace vram::trace
