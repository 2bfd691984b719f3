#include "cli/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace vram::cli {
namespace {

TEST(JsonText, EveryKindOfValueHasItsForm) {
  EXPECT_EQ(Json(nullptr).line(), "null");
  EXPECT_EQ(Json().line(), "null");
  EXPECT_EQ(Json(true).line(), "true");
  EXPECT_EQ(Json(-3).line(), "-3");
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).line(), "18446744073709551615");
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::min()).line(), "-9223372036854775808");
  EXPECT_EQ(Json(1.5).line(), "1.5");
  EXPECT_EQ(Json(2.0).line(), "2.0");
  EXPECT_EQ(Json(1e300).line(), "1e+300");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).line(), "null");
  EXPECT_EQ(Json("text").line(), "\"text\"");
  EXPECT_EQ(Json(std::string("text")).line(), "\"text\"");
}

TEST(JsonText, BracesMakeObjectsOfNamedPairsAndListsOfAllElse) {
  EXPECT_EQ((Json{{"b", 1}, {"a", {2, 3}}}.line()), R"({"b":1,"a":[2,3]})");
  EXPECT_EQ((Json{{"only", "one"}}.line()), R"({"only":"one"})");
  EXPECT_EQ((Json{"a", 1}.line()), R"(["a",1])");
  EXPECT_EQ((Json{{"a", 1}, 2}.line()), R"([["a",1],2])");
  EXPECT_EQ(Json::array().line(), "[]");
  EXPECT_EQ(Json::object().line(), "{}");
}

TEST(JsonText, FieldsKeepTheirOrderAndAreWrittenOnce) {
  Json json{{"z", 1}, {"a", 2}};
  json["m"] = 3;
  json["z"] = 4;
  json.update({{"a", nullptr}, {"b", true}});
  EXPECT_EQ(json.line(), R"({"z":4,"a":null,"m":3,"b":true})");
}

TEST(JsonText, LinesAreIndentedAndEmptyListsAreNot) {
  Json list = Json::array();
  list.push_back({{"a", 1}, {"b", Json::array()}});
  list.push_back(2);
  EXPECT_EQ(dump({{"list", list}, {"none", Json::object()}}),
            "{\n  \"list\": [\n    {\n      \"a\": 1,\n      \"b\": []\n    },\n    2\n  ],\n"
            "  \"none\": {}\n}\n");
}

TEST(JsonText, TextIsEscaped) {
  EXPECT_EQ(Json("a\"b\\c/\b\f\n\r\t\x01\x1f\x7f").line(),
            "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
  EXPECT_EQ(Json(std::string("\0", 1)).line(), "\"\\u0000\"");
}

TEST(JsonText, WhatIsNoUtf8IsReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  for (const char* valid :
       {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xF4\x8F\xBF\xBF", "\xE0\xA0\x80", "\xF0\x90\x80\x80"}) {
    EXPECT_EQ(Json(valid).line(), '"' + std::string(valid) + '"');
  }
  EXPECT_EQ(Json("a\xFFz").line(), "\"a" + r + "z\"");
  EXPECT_EQ(Json("\xC3").line(), '"' + r + '"') << "cut short";
  EXPECT_EQ(Json("\xC3(").line(), '"' + r + "(\"");
  EXPECT_EQ(Json("\xC0\x80").line(), '"' + r + r + '"') << "longer than need be";
  EXPECT_EQ(Json("\xE0\x9F\xBF").line(), '"' + r + r + r + '"') << "longer than need be";
  EXPECT_EQ(Json("\xED\xA0\x80").line(), '"' + r + r + r + '"') << "half of a surrogate";
  EXPECT_EQ(Json("\xF4\x90\x80\x80").line(), '"' + r + r + r + r + '"') << "beyond the last";
  EXPECT_EQ(Json("\xE2\x82").line(), '"' + r + r + '"') << "cut short";
}

}  // namespace
}  // namespace vram::cli
