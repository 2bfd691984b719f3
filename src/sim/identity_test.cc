#include "sim/identity.h"

#include <gtest/gtest.h>

namespace vram::sim {
namespace {

TEST(Identity, UuidsDifferByMachineAndCard) {
  EXPECT_EQ(card_uuid("a", 0), card_uuid("a", 0));
  EXPECT_NE(card_uuid("a", 0), card_uuid("a", 1));
  EXPECT_NE(card_uuid("a", 0), card_uuid("b", 0));
  EXPECT_EQ(uuid_text(card_uuid("a", 0)).size(), 40u);
}

TEST(Identity, BusIdsFindTheirCard) {
  for (int card = 0; card < 64; ++card) {
    EXPECT_EQ(card_at_bus_id(pci_bus_id(card, 4).c_str(), 64), card);
    EXPECT_EQ(card_at_bus_id(pci_bus_id(card, 8).c_str(), 64), card);
  }
  EXPECT_EQ(card_at_bus_id("01:00.0", 1), 0);
  EXPECT_EQ(card_at_bus_id("0000:02:00.0", 1), -1);
  EXPECT_EQ(card_at_bus_id("0001:01:00.0", 1), -1);
  EXPECT_EQ(card_at_bus_id("nonsense", 1), -1);
}

}  // namespace
}  // namespace vram::sim
