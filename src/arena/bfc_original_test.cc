// The original, TensorFlow's and XLA's BFCAllocator with its alignment and back-off of 2026,
// carried out the same traces: what it placed where, what it refused and what its statistics said
// after each operation is condensed in the digests below. They are facts about the original and
// never change with the code here; a trace whose generator changes needs them taken from the
// original again.

#include <gtest/gtest.h>

#include <cstdint>

#include "arena/bfc_trace_for_test.h"

namespace vram::arena {
namespace {

constexpr int kOperations = 20'000;  // of each trace

// Of the seeds 1, 2, 3 and so on.
constexpr std::uint64_t kOriginal[] = {
    0xc96a98c8674458e4U, 0x0bab474c920f63b3U, 0xbbebdb3615fabe34U, 0xb66cfebf47f081e9U,
    0x860c6293d6a7359dU, 0x2e4e8b108f984d4dU, 0xbab53aee8ad279edU, 0xfa37e4768e1945bdU,
    0x8c5da37043e4db66U, 0x686c7872a3538984U, 0x6bfc93be8fb3fa15U, 0x690cfeab3c8ad3f7U,
    0xfb49f9db488a98e0U, 0xab7641ebf37372bcU, 0xf849b9899ff5f918U, 0xb23a6d1d2c9d6b22U,
    0x47172a6889b5218cU, 0xd67a70f42ff4de09U, 0xc7c8c77bbda4d148U, 0x5e8f166e9f281b00U,
    0x75537c6e39e32010U, 0x277417f5462263b1U, 0xb6a841788b59baa7U, 0xf6e67ff34d351828U,
    0xebed12b39b02b168U, 0x87568bcc7a735102U, 0x10953345900ef410U, 0x87ef3e2098e8e333U,
    0x8cbe8de4106d044cU, 0xf8bff7c6b1da8cd8U, 0x3414a0fb9d624e78U, 0x340cfabdabff4ceeU,
    0xf72d0a4c18367e74U, 0xc253efb6209ae1afU, 0x56424ae78a714758U, 0x3f62e43541ec0d74U,
    0xcfbedf40b0bd96cbU, 0xbb54214c6638fc73U, 0xf45c6071b3339dfcU, 0x985913a5aae99d6aU,
    0x2b4ce2200dbb2adcU, 0xa6730e8bcaf17c0cU, 0x62c42c6ac25240f9U, 0x52e1021877d23832U,
    0xf3d9fe3b106133a7U, 0xc3cdca3b45f9bda5U, 0x44614dc7eadb800dU, 0x7535a2621afc67e3U,
    0x79d0d291f3ee7b1eU, 0xfe8ce88fcd324d1bU, 0xec4aef82eb4f9e12U, 0x5f21b353c1d4502bU,
    0xc14b1642ce8fcd0cU, 0xc30c3fdfccd0da28U, 0x4509d5491bbbcb28U, 0xe781cac324178587U,
    0xf340877bec0101a2U, 0x0b45fec2adcf8f50U, 0x599044b300cf66b5U, 0xb6ddfe2c7b0601b3U,
    0xe9fb0f1e861dd3d7U, 0xf413be9f8b440956U, 0xd1b736411f37f2ddU, 0x4f7f99267330aefbU,
    0xaaf3a30660beede3U, 0x27c79b505b044276U, 0x4aa85cbb2b4ef350U, 0x6a76f404d9a25c84U,
    0x47692068b91009f2U, 0x0447d9366c625417U, 0x5ce780f2c78a0948U, 0x7aade54f34b9dcf3U,
    0x87072221a86ce4a5U, 0x4cb126f35ee63e11U, 0xc5feee22a3147d47U, 0x3bac9efc14121100U,
    0x581e93b73c8eef75U, 0x2bf14a21326fec95U, 0x82c82adbfaa069a4U, 0x061aab779feca81eU,
    0x5ae93b8823dc2ac3U, 0x358a0082d9f43dedU, 0xe0ee94cb34199861U, 0x7c494754dfa18ba1U,
    0x3bfb37fe66676965U, 0xab277a898d7ba13aU, 0x8a002e2bf275e58bU, 0x53e7231395918de2U,
    0x677551a9e5c384beU, 0xd2856ec250b381a9U, 0x1dab0cbcb8c7393dU, 0x3b792d05259aa3bbU,
    0xc2dbdf2022d45f85U, 0x10d20c2a023aafc7U, 0x281c29cf6cd5fa40U, 0x69dcd5350782acedU,
};

TEST(Bfc, PlacesAsTheOriginal) {
  std::uint64_t seed = 0;
  for (const std::uint64_t original : kOriginal) {
    Trace trace(++seed);
    BfcActor actor(trace.config());
    for (int i = 0; i < kOperations; ++i) {
      const Operation operation = trace.next();
      trace.record(operation, actor.apply(operation));
    }
    EXPECT_EQ(trace.digest(), original) << "seed " << seed;
  }
}

}  // namespace
}  // namespace vram::arena
