#include "cli/visibility.h"

#include <gtest/gtest.h>

#include "cli/cards_for_test.h"

namespace vram::cli {
namespace {

std::string indices(const Result<Visibility>& visible) {
  if (!visible) return visible.error().message;
  std::string text;
  for (const probe::Card& card : visible->cards) text += std::to_string(card.index);
  return text;
}

std::string inherited(const std::string& variable) {
  return indices(resolve_visibility({std::nullopt, variable, std::nullopt}, three_cards()));
}

std::string requested(const std::string& gpu,
                      std::optional<std::string> cuda_visible = std::nullopt) {
  return indices(resolve_visibility({gpu, std::move(cuda_visible), std::nullopt}, three_cards()));
}

TEST(Visibility, WithoutAVariableAllCardsAreVisible) {
  EXPECT_EQ(indices(resolve_visibility({}, three_cards())), "012");
}

TEST(Visibility, InheritedVariableIsReadAsTheDriverReadsIt) {
  EXPECT_EQ(inherited("0"), "0");
  EXPECT_EQ(inherited("2,0"), "20");
  EXPECT_EQ(inherited(" 1 , 2 "), "12");
  EXPECT_EQ(inherited(""), "");
  EXPECT_EQ(inherited("-1"), "");
  EXPECT_EQ(inherited("none"), "");
  EXPECT_EQ(inherited("0,7,1"), "0") << "what stands before the first wrong entry is visible";
  EXPECT_EQ(inherited("0,-1,1"), "0");
  EXPECT_EQ(inherited("0,,1"), "0");
  EXPECT_EQ(inherited("0,1,0"), "") << "a repeated card hides all";
  EXPECT_EQ(inherited("1gpu2,2x"), "12") << "digits count, what follows them does not";
  EXPECT_EQ(inherited("99999999999999999999999"), "");
}

TEST(Visibility, InheritedUuidsMayBeCutShort) {
  EXPECT_EQ(inherited("GPU-bbbb0000-0000-0000-0000-000000000002"), "2");
  EXPECT_EQ(inherited("GPU-b"), "2");
  EXPECT_EQ(inherited("GPU-aaaa1,GPU-aaaa0"), "10");
  EXPECT_EQ(inherited("GPU-aaaa"), "") << "two cards begin so";
  EXPECT_EQ(inherited("GPU-bbbb,GPU-b"), "") << "a repeated card hides all";
  EXPECT_EQ(inherited("GPU-cccc,0"), "");
  EXPECT_EQ(inherited("GPU-bbbb,0"), "20") << "forms may be mixed";
}

TEST(Visibility, MigInstancesAreRefused) {
  EXPECT_EQ(inherited("MIG-6d9dd6c4"),
            "CUDA_VISIBLE_DEVICES: 'MIG-6d9dd6c4' is a MIG instance; vram governs whole cards: MIG "
            "already divides memory in hardware, so run the program without vram, or name a card");
  EXPECT_EQ(requested("MIG-6d9dd6c4").rfind("--gpu: 'MIG-6d9dd6c4' is a MIG instance", 0), 0u);
}

TEST(Visibility, ACardInMigModeIsRefusedUnlessHidden) {
  std::vector<probe::Card> cards = three_cards();
  cards[1].mig = true;
  EXPECT_EQ(
      indices(resolve_visibility({}, cards)),
      "card 1 is divided by MIG, which vram does not govern; choose another with --gpu, or run "
      "the program without vram");
  EXPECT_EQ(indices(resolve_visibility({"0,2", std::nullopt, std::nullopt}, cards)), "02");
}

TEST(Visibility, MixedModelsAreCountedBySpeedUnlessTheBusIsAskedFor) {
  std::vector<probe::Card> cards = three_cards();
  cards[2].name = "Faster";
  const auto by_speed = resolve_visibility({std::nullopt, "0", std::nullopt}, cards);
  ASSERT_TRUE(by_speed);
  EXPECT_FALSE(by_speed->certain);
  EXPECT_EQ(indices(by_speed), "012") << "any of them may be the one";
  const auto by_bus = resolve_visibility({std::nullopt, "0", "PCI_BUS_ID"}, cards);
  ASSERT_TRUE(by_bus);
  EXPECT_TRUE(by_bus->certain);
  EXPECT_EQ(indices(by_bus), "0");
  const auto by_uuid = resolve_visibility({std::nullopt, "GPU-bbbb", std::nullopt}, cards);
  ASSERT_TRUE(by_uuid);
  EXPECT_TRUE(by_uuid->certain);
  EXPECT_EQ(indices(by_uuid), "2");
}

TEST(Visibility, RequestedCardsBecomeUuidsInTheirOrder) {
  const auto visible = resolve_visibility({"2,0", std::nullopt, std::nullopt}, three_cards());
  ASSERT_TRUE(visible);
  EXPECT_EQ(indices(visible), "20");
  EXPECT_EQ(visible->variable,
            "GPU-bbbb0000-0000-0000-0000-000000000002,GPU-aaaa0000-0000-0000-0000-000000000000");
}

TEST(Visibility, RequestedCardsMayBeNamedInEveryForm) {
  EXPECT_EQ(requested("1"), "1");
  EXPECT_EQ(requested("GPU-bbbb"), "2");
  EXPECT_EQ(requested("gpu-BBBB"), "2");
  EXPECT_EQ(requested("bbbb"), "2");
  EXPECT_EQ(requested("2, 0"), "20");
}

TEST(Visibility, WrongRequestsAreRefused) {
  EXPECT_EQ(requested("3"), "--gpu: there is no card 3; cards are 0 to 2 (see 'vram devices')");
  EXPECT_EQ(requested("-1"),
            "--gpu: '-1' is no card; cards are 0 to 2 (numbers and UUIDs: 'vram devices')");
  EXPECT_EQ(requested("1x"),
            "--gpu: '1x' is no card; cards are 0 to 2 (numbers and UUIDs: 'vram devices')");
  EXPECT_EQ(requested("0,0"), "--gpu: card 0 is named twice; name it once");
  EXPECT_EQ(requested("2,bbbb"), "--gpu: card 2 is named twice; name it once");
  EXPECT_EQ(requested(""), "--gpu: a card is missing; write a number of 'vram devices' or a UUID");
  EXPECT_EQ(requested("0,"),
            "--gpu: a card is missing; write a number of 'vram devices' or a UUID");
  EXPECT_EQ(requested("GPU-aaaa"),
            "--gpu: 'GPU-aaaa' is the beginning of the UUIDs of cards 0 and 1; write more of it");
  EXPECT_EQ(requested("GPU-"),
            "--gpu: 'GPU-' is no card; cards are 0 to 2 (numbers and UUIDs: 'vram devices')");
}

TEST(Visibility, ARequestStaysWithinWhatIsVisible) {
  EXPECT_EQ(requested("1", "1,2"), "1");
  EXPECT_EQ(
      requested("0", "1,2"),
      "--gpu: card 0 is hidden by CUDA_VISIBLE_DEVICES=1,2; choose a visible one or unset that "
      "variable");
}

TEST(Visibility, ARequestOnAHostWithoutCardsIsRefused) {
  const auto visible = resolve_visibility({"0", std::nullopt, std::nullopt}, {});
  EXPECT_EQ(indices(visible), "--gpu: there is no card 0; there is none (see 'vram devices')");
}

}  // namespace
}  // namespace vram::cli
