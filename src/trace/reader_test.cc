#include "trace/reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

#include "trace/live.h"

namespace vram::trace {
namespace {

std::string gzip(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Read {
  std::vector<Event> events;
  std::string failure;
  bool truncated = false;
  int version = -1;
  Facts facts, process_facts;
};

Read read(std::string bytes) {
  Read result;
  auto reader = Reader::from(fmemopen(bytes.data(), bytes.size(), "r"), "F");
  if (!reader) {
    result.failure = reader.error();
    return result;
  }
  result.version = reader->version();
  result.facts = reader->facts();
  Event event;
  for (;;) {
    const auto more = reader->next(&event);
    if (!more) result.failure = more.error();
    if (!more || !*more) break;
    result.events.push_back(event);
  }
  result.truncated = reader->truncated();
  result.process_facts = reader->process_facts();
  return result;
}

const std::string kHeader = "# vram-trace 1 unit=us command=python3%20train.py\n";

TEST(Reader, ReadsTracesWithoutHeader) {
  for (const std::string& text : {std::string("a 1 512 0\na 2 4096 3\nf 1\nf 2\n")}) {
    for (const std::string& bytes : {text, gzip(text)}) {
      const Read got = read(bytes);
      EXPECT_EQ(got.failure, "");
      EXPECT_EQ(got.version, 0);
      EXPECT_FALSE(got.truncated);
      ASSERT_EQ(got.events.size(), 4u);
      EXPECT_EQ(got.events[1].kind, Kind::kAlloc);
      EXPECT_EQ(got.events[1].id, 2u);
      EXPECT_EQ(got.events[1].bytes, 4096u);
      EXPECT_EQ(got.events[1].stream, 3u);
      EXPECT_EQ(got.events[1].way, Way::kAsync);
      EXPECT_EQ(got.events[2].kind, Kind::kFree);
      EXPECT_EQ(got.events[2].id, 1u);
      EXPECT_EQ(got.events[2].order, Order::kAsAllocated);
    }
  }
}

TEST(Reader, ReadsEveryRecord) {
  const Read got = read(
      kHeader +
      "p 0 pid=17 command=a\na 1 512 0 alloc +10\na 2 7 1 @3\nf 1 now +5\nf 2 4\nx 99 2 create @1\n"
      "b 5\na 3 8 5 captured\ne 5 +1\np 1 pid=18 +2\na 4 1 0 pool\np 0\nl 12\nq +100\n# a "
      "comment\n\n");
  EXPECT_EQ(got.failure, "");
  EXPECT_EQ(got.version, 1);
  EXPECT_EQ(find_fact(got.facts, "command"), "python3 train.py");
  EXPECT_EQ(find_fact(got.process_facts, "pid"), "18");
  ASSERT_EQ(got.events.size(), 13u);
  const std::vector<Event>& e = got.events;
  EXPECT_EQ(e[0].kind, Kind::kProcessBegin);
  EXPECT_EQ(e[1].way, Way::kAlloc);
  EXPECT_EQ(e[1].time_us, 10u);
  EXPECT_EQ(e[2].device, 3u);
  EXPECT_EQ(e[2].stream, 1u);
  EXPECT_EQ(e[3].order, Order::kNow);
  EXPECT_EQ(e[3].time_us, 15u);
  EXPECT_EQ(e[4].order, Order::kStream);
  EXPECT_EQ(e[4].stream, 4u);
  EXPECT_EQ(e[5].kind, Kind::kRefused);
  EXPECT_EQ(e[5].bytes, 99u);
  EXPECT_EQ(e[5].way, Way::kCreate);
  EXPECT_EQ(e[5].device, 1u);
  EXPECT_EQ(e[6].kind, Kind::kCaptureBegin);
  EXPECT_EQ(e[6].stream, 5u);
  EXPECT_EQ(e[7].way, Way::kCaptured);
  EXPECT_EQ(e[8].kind, Kind::kCaptureEnd);
  EXPECT_EQ(e[9].kind, Kind::kProcessBegin);
  EXPECT_EQ(e[9].process, 1u);
  EXPECT_EQ(e[10].process, 1u);
  EXPECT_EQ(e[11].kind, Kind::kLost);
  EXPECT_EQ(e[11].count, 12u);
  EXPECT_EQ(e[11].process, 0u);
  EXPECT_EQ(e[12].kind, Kind::kProcessEnd);
  EXPECT_EQ(e[12].time_us, 118u);
}

TEST(Reader, SaysWhatItExpectedAndWhere) {
  const std::pair<std::string, std::string> cases[] = {
      {"a 1 512 0\nb 1\n", "F:2: expected 'a' or 'f', found 'b'"},
      {"a 1 512\n", "F:1: expected STREAM, found the end of the line"},
      {"a 1 512 0 alloc\n", "F:1: expected the end of the line, found 'alloc'"},
      {"a x 512 0\n", "F:1: expected ID, found 'x'"},
      {"a 1 -5 0\n", "F:1: expected BYTES, found '-5'"},
      {"a 1  5 0\n", "F:1: expected BYTES, found ''"},
      {"a 1 99999999999999999999 0\n", "F:1: expected BYTES, found '99999999999999999999'"},
      {"a 1 5 4294967296\n", "F:1: expected STREAM, found '4294967296'"},
      {"a 2 5 0\na 2 5 0\n", "F:2: expected an ID above 2, found '2'"},
      {"f 1\n", "F:1: expected the ID of an allocation, 0 at most, found '1'"},
      {"not a trace\n", "F:1: expected 'a' or 'f', found 'not'"},
      {"\x7f\xff\x1b[2J\n", "F:1: expected 'a' or 'f', found '???[2J'"},
      {std::string(1000, 'x') + "\n",
       "F:1: expected 'a' or 'f', found '" + std::string(40, 'x') + "...'"},
      {"# vram-trace 2\n", "F:1: this is version 2 of the format; this vram reads up to 1"},
      {"# vram-trace x\n", "F:1: expected a version, found 'x'"},
      {"# vram-trace 1 unit=ns\n", "F:1: unit=ns is not known; expected unit=us"},
      {"# vram-trace 1 word\n", "F:1: expected name=value, found 'word'"},
      {kHeader + "z\n", "F:2: expected one of 'a f x b e l p q', found 'z'"},
      {kHeader + "a 1 5 0 fast\n", "F:2: expected a way of allocation, found 'fast'"},
      {kHeader + "a 1 5 0 @x\n", "F:2: expected @DEVICE, found '@x'"},
      {kHeader + "a 1 5 0 +x\n", "F:2: expected +MICROSECONDS, found '+x'"},
      {kHeader + "a 1 5 0 +1 +1\n", "F:2: expected the end of the line, found '+1'"},
      {kHeader + "a 1 5 0\nf 1 soon\n", "F:3: expected STREAM or 'now', found 'soon'"},
      {kHeader + "p 1\n", "F:2: expected a process's number, 0 at most, found '1'"},
      {kHeader + "p 0 word\n", "F:2: expected name=value, found 'word'"},
      {kHeader + "l\n", "F:2: expected COUNT, found the end of the line"},
      {kHeader + "q +18446744073709551615\nq +1\n", "F:3: expected +MICROSECONDS, found '+1'"},
  };
  for (const auto& [text, failure] : cases) {
    EXPECT_EQ(read(text).failure, failure);
    EXPECT_EQ(read(gzip(text)).failure, failure);
  }
  EXPECT_EQ(read("a 1 " + std::string(70000, '1')).failure,
            "F:1: the line is longer than 65536 characters");
}

std::string many(int count) {
  std::string text = kHeader;
  for (int i = 1; i <= count; ++i) {
    text += "a " + std::to_string(i) + " " + std::to_string(i * 7919 % 65536) + " 0\n";
  }
  return text;
}

TEST(Reader, ATruncatedFileIsReadUpToItsEnd) {
  const std::string whole = gzip(many(50000));
  for (const std::size_t size : {whole.size() - 1, whole.size() - 9, whole.size() / 2}) {
    const Read got = read(whole.substr(0, size));
    EXPECT_EQ(got.failure, "");
    EXPECT_TRUE(got.truncated);
    EXPECT_GT(got.events.size(), size == whole.size() / 2 ? 20000u : 49990u);
    EXPECT_EQ(got.events.back().id, got.events.size());
  }
  EXPECT_FALSE(read(whole).truncated);
}

TEST(Reader, ALineThatWasNotWrittenToItsEndIsNoLine) {
  const Read got = read("a 1 512 0\na 2 51");
  EXPECT_EQ(got.failure, "");
  EXPECT_TRUE(got.truncated);
  EXPECT_EQ(got.events.size(), 1u);
}

TEST(Reader, DamagedDataIsAFailureWithItsLine) {
  std::string bytes = gzip(many(50000));
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);
  EXPECT_EQ(read(bytes).failure, "F:50002: its gzip data is damaged (incorrect data check)");
  bytes = gzip(many(50000));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  const Read got = read(bytes);
  EXPECT_NE(got.failure, "");
  EXPECT_GT(got.events.size(), 10000u);
}

TEST(Reader, FilesOneAfterAnotherAreOne) {
  const Read got = read(gzip("a 1 5 0\n") + gzip("f 1\n"));
  EXPECT_EQ(got.failure, "");
  EXPECT_EQ(got.events.size(), 2u);
  EXPECT_FALSE(got.truncated);
}

TEST(Reader, EmptyIsATraceOfNothing) {
  for (const std::string& text : {kHeader, gzip(""), gzip(kHeader)}) {
    const Read got = read(text);
    EXPECT_EQ(got.failure, "");
    EXPECT_EQ(got.events.size(), 0u);
    EXPECT_FALSE(got.truncated);
  }
}

TEST(Reader, AFileThatIsNotThereIsNamed) {
  const auto reader = Reader::open("/nowhere/x");
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error(), "/nowhere/x: No such file or directory");
}

TEST(Live, CountsWhatIsHeld) {
  const Read got = read(
      kHeader + "a 1 100 0\na 2 50 0 captured\na 3 30 0 @1\nf 1\na 4 10 0\np 1\na 5 5 0\np 0\nq\n");
  Live live;
  for (const Event& event : got.events) live.apply(event);
  EXPECT_EQ(live.peak(), 130u);
  EXPECT_EQ(live.bytes(), 5u);
  EXPECT_EQ(live.devices().at(0).peak, 100u);
  EXPECT_EQ(live.devices().at(1).peak, 30u);
  EXPECT_EQ(live.devices().at(1).bytes, 0u);
  EXPECT_EQ(live.held_by(1), std::vector<std::uint64_t>{5});
  EXPECT_EQ(live.find(4), nullptr);
  EXPECT_EQ(live.find(5)->bytes, 5u);
}

}  // namespace
}  // namespace vram::trace
