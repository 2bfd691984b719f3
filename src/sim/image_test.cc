#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "sim/card_view.h"
#include "sim/image.h"
#include "sim/scheduler.h"

namespace vram::sim {

// Kernels are only named here, never run.
void* card_view(CUdeviceptr, size_t) { return nullptr; }
bool operation_cancelled() { return true; }

namespace {

Image read(std::string_view text) {
  Image image;
  const std::string whole = ".version 8.0\n.target sm_90\n.address_size 64\n" + std::string(text);
  EXPECT_TRUE(read_ptx(whole, &image)) << text;
  return image;
}

TEST(Ptx, ParametersAreAlignedToTheirTypes) {
  const Image image = read(
      ".visible .entry f(.param .u8 a, .param .align 16 .b8 b[20], .param .v2 .f32 c,\n"
      " .param .u64 .ptr .global .align 1 d) { ret; }");
  ASSERT_EQ(image.kernels.size(), 1u);
  const auto& parameters = image.kernels[0].parameters;
  ASSERT_EQ(parameters.size(), 4u);
  EXPECT_EQ(parameters[0].bytes, 1u);
  EXPECT_EQ(parameters[1].offset, 16u);
  EXPECT_EQ(parameters[1].bytes, 20u);
  EXPECT_EQ(parameters[2].offset, 40u);
  EXPECT_EQ(parameters[2].bytes, 8u);
  EXPECT_EQ(parameters[3].offset, 48u) << "the alignment is the pointee's";
}

TEST(Ptx, LocalAndSharedMemoryAreSumsOverTheBody) {
  const Image image = read(
      ".entry f() { .local .align 8 .b8 a[100]; { .local .b32 b[4]; } .shared .b64 s[8]; ret; }\n"
      ".entry g() .maxntid 64, 2, 1 { ret; }");
  ASSERT_EQ(image.kernels.size(), 2u);
  EXPECT_EQ(image.kernels[0].local_bytes, 116u);
  EXPECT_EQ(image.kernels[0].shared_bytes, 64u);
  EXPECT_EQ(image.kernels[0].max_threads, 1024u);
  EXPECT_EQ(image.kernels[1].local_bytes, 0u);
  EXPECT_EQ(image.kernels[1].max_threads, 128u);
}

TEST(Ptx, VariablesHaveSizesAndFirstValues) {
  const Image image = read(
      ".global .align 4 .u32 a = 7; .const .f32 b = 0f3F800000; .global .s16 c[2][3];\n"
      ".global .b8 d[] = {1, 2, -1}; .extern .global .u32 e; .global .u64 f = a;\n"
      ".visible .global .attribute(.managed) .align 8 .u64 g;");
  ASSERT_EQ(image.globals.size(), 6u) << "what is declared elsewhere has no place here";
  EXPECT_EQ(image.globals[0].initial[0], std::byte{7});
  EXPECT_EQ(image.globals[1].initial[3], std::byte{0x3f});
  EXPECT_EQ(image.globals[2].bytes, 12u);
  EXPECT_TRUE(image.globals[2].initial.empty());
  EXPECT_EQ(image.globals[3].bytes, 3u);
  EXPECT_EQ(image.globals[3].initial[2], std::byte{0xff});
  EXPECT_EQ(image.globals[4].bytes, 8u);
  EXPECT_TRUE(image.globals[5].is_managed);
}

TEST(Ptx, CommentsAndFunctionsHideNothing) {
  const Image image = read(
      "// .entry no()\n/* .entry nor() { */ .func (.param .b32 r) helper(.param .b32 x) {\n"
      " .local .b8 l[64]; ret; }\n.func declared(); .entry yes() { call helper; ret; }");
  ASSERT_EQ(image.kernels.size(), 1u);
  EXPECT_EQ(image.kernels[0].name, "yes");
}

TEST(Ptx, WhatIsNotPtxIsRefused) {
  Image image;
  EXPECT_FALSE(read_ptx("", &image));
  EXPECT_FALSE(read_ptx("hello", &image));
  EXPECT_FALSE(read_ptx(".version 8.0", &image)) << "no target";
  EXPECT_TRUE(read_ptx(".version 8.0\n.target sm_90\n.entry f(.param .b8 x[", &image))
      << "cut off, but read to its end";
}

TEST(KnownKernels, AreFoundByPlainAndByMangledName) {
  EXPECT_NE(known_kernel("vectorAdd"), nullptr);
  EXPECT_NE(known_kernel("_Z9vectorAddPKfS0_Pfi"), nullptr);
  EXPECT_EQ(known_kernel("_Z9vectorAddPKdS0_Pdi"), nullptr) << "of doubles";
  EXPECT_NE(known_kernel("_Z13vram_fill_u32Pjmj"), nullptr);
  EXPECT_EQ(known_kernel("_Z"), nullptr);
  EXPECT_EQ(known_kernel("_Z99x"), nullptr);
}

// One entry in LZ4 blocks: literals, then a copy of what was written before.
TEST(FatBinaries, UnpackLz4) {
  const std::string text = ".version 8.0\n.target sm_90\n.entry aaaaaaaaaaaaaaaaaaaa() {}";
  const size_t run = text.find("aaaa");
  std::string packed;
  packed.push_back(static_cast<char>(0xff));  // 15 + more literals, 15 + more of the copy
  packed.push_back(static_cast<char>(run + 1 - 15));
  packed += text.substr(0, run + 1);
  packed += {1, 0, 0};  // from one byte before, 4 + 15 + 0 long
  const std::string rest = text.substr(run + 20);
  packed.push_back(static_cast<char>(rest.size() << 4));
  packed += rest;

  std::string fat(16 + 64, '\0');
  const auto put = [&](size_t at, uint64_t value, size_t bytes) {
    std::memcpy(fat.data() + at, &value, bytes);
  };
  put(0, 0xba55ed50, 4);
  put(6, 16, 2);                  // bytes of the container's header
  put(8, 64 + packed.size(), 8);  // of its entries
  put(16, 1, 2);                  // PTX
  put(20, 64, 4);                 // bytes of the entry's header
  put(24, packed.size(), 8);      // stored
  put(32, packed.size(), 4);      // packed
  put(16 + 40, 0x2000, 8);        // by LZ4
  put(16 + 56, text.size(), 8);   // unpacked
  fat += packed;

  std::shared_ptr<const Image> image;
  ASSERT_EQ(read_image(fat.data(), &image), CUDA_SUCCESS);
  EXPECT_FALSE(image->is_sealed);
  ASSERT_EQ(image->kernels.size(), 1u);
  EXPECT_EQ(image->kernels[0].name, std::string(20, 'a'));

  put(16 + 56, text.size() + 1, 8);  // does not come out as long as it says
  ASSERT_EQ(read_image(fat.data(), &image), CUDA_SUCCESS);
  EXPECT_TRUE(image->is_sealed) << "unread code is believed to hold any kernel";
}

}  // namespace
}  // namespace vram::sim
