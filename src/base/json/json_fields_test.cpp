#include "base/json/json_fields.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

const Json kObject = Json::parse(
    R"({"text":"hi","yes":true,"seven":7,"minus":-1,"big":18446744073709551615,"half":0.5,"none":null,"list":[1],"map":{}})");

TEST(JsonFields, EachTypeIsReadAsItself) {
  EXPECT_EQ(*get_string(kObject, "text"), "hi");
  EXPECT_EQ(*get_boolean(kObject, "yes"), true);
  EXPECT_EQ(*get_integer(kObject, "seven"), 7);
  EXPECT_EQ(*get_number(kObject, "half"), 0.5);
  EXPECT_EQ(*get_number(kObject, "seven"), 7.0);
  EXPECT_EQ((*get_array(kObject, "list"))->size(), 1u);
  EXPECT_TRUE((*get_object(kObject, "map"))->empty());
}

TEST(JsonFields, NothingIsConverted) {
  EXPECT_FALSE(get_string(kObject, "seven").ok());
  EXPECT_FALSE(get_boolean(kObject, "seven").ok());
  EXPECT_FALSE(get_integer(kObject, "half").ok());
  EXPECT_FALSE(get_integer(kObject, "yes").ok());
  EXPECT_FALSE(get_integer(kObject, "big").ok());
  EXPECT_FALSE(get_number(kObject, "text").ok());
  EXPECT_FALSE(get_array(kObject, "map").ok());
  EXPECT_FALSE(get_object(kObject, "list").ok());
}

TEST(JsonFields, WhatIsNoIntegerCountsAsZeroWhereThatWillDo) {
  EXPECT_EQ(integer_or_zero(kObject, "seven"), 7);
  EXPECT_EQ(integer_or_zero(kObject, "minus"), -1);
  for (const char* other : {"half", "text", "yes", "none", "list", "big", "not there"})
    EXPECT_EQ(integer_or_zero(kObject, other), 0) << other;
  EXPECT_EQ(integer_or_zero(Json::array(), "seven"), 0);
}

TEST(JsonFields, WordsAndNumbersOfOthersAreTakenAsTheyAre) {
  EXPECT_EQ(text_or_empty(kObject, "text"), kObject["text"].get<std::string>());
  for (const char* other : {"seven", "list", "none", "not there"}) EXPECT_EQ(text_or_empty(kObject, other), "");
  for (const Json& numbers : {Json(1), Json(-0.5), Json::array({1, 2}), Json::array({Json::array({1}), 2})})
    EXPECT_TRUE(is_numbers(numbers)) << numbers;
  for (const Json& other : {Json(), Json("1"), Json::array(), Json::array({1, "2"}), Json::object(), kObject})
    EXPECT_FALSE(is_numbers(other)) << other;
}

TEST(JsonFields, ErrorsNameThePathTheWishAndTheFinding) {
  auto error = get_integer(kObject, {"text", "messages[2]"}, {1, 64}).error();
  EXPECT_EQ(error.field, "messages[2].text");
  EXPECT_EQ(error.message, "messages[2].text must be an integer in 1..64, but is the string \"hi\"");
  EXPECT_EQ(error.kind, Error::Kind::bad_request);
  EXPECT_EQ(get_string(kObject, "map").error().message, "map must be a string, but is an object");
  EXPECT_EQ(get_string(kObject, "nope").error().message, "nope is missing");
  EXPECT_EQ(get_string(kObject["list"], {"a", "list"}).error().message, "list must be an object, but is an array");
  EXPECT_EQ(get_string(kObject["list"], "a").error().message, "the document must be an object, but is an array");
}

TEST(JsonFields, IntegersBeyondSixtyFourBitsAreNumbersButNoIntegers) {
  const Json object = *parse_json(R"({"n":100000000000000000000,"m":18446744073709551616})");
  EXPECT_EQ(*get_number(object, "n"), 1e20);
  EXPECT_EQ(get_integer(object, "n", {1, 64}).error().message,
            "n must be an integer in 1..64, but is 100000000000000000000");
  EXPECT_EQ(get_integer(object, "m").error().message, "m must be an integer, but is 18446744073709551616");
}

TEST(JsonFields, RangesIncludeTheirEndsUnlessToldOtherwise) {
  EXPECT_TRUE(get_integer(kObject, "seven", {7, 7}).ok());
  EXPECT_FALSE(get_integer(kObject, "seven", {8, 9}).ok());
  EXPECT_FALSE(get_integer(kObject, "seven", {5, 6}).ok());
  EXPECT_EQ(get_integer(kObject, "minus", {.low = 0}).error().message,
            "minus must be an integer of at least 0, but is -1");
  EXPECT_TRUE(get_number(kObject, "half", {0.5, 1}).ok());
  EXPECT_EQ(get_number(kObject, "half", {0.5, 1, true}).error().message,
            "half must be a number above 0.5 and at most 1, but is 0.5");
}

TEST(JsonFields, AbsentAndNullAreNotFoundButWrongTypesAreErrors) {
  EXPECT_EQ(*find_string(kObject, "none"), std::nullopt);
  EXPECT_EQ(*find_integer(kObject, "absent"), std::nullopt);
  EXPECT_EQ(*find_array(kObject, "none"), nullptr);
  EXPECT_EQ(**find_number(kObject, "half"), 0.5);
  EXPECT_EQ(**find_boolean(kObject, "yes"), true);
  EXPECT_FALSE(find_string(kObject, "seven").ok());
  EXPECT_FALSE(find_object(kObject, "list").ok());
}

TEST(JsonFields, FileReadersCanSayWhichFile) {
  const Error error = in_file(get_string(kObject, "seven").error(), "config.json");
  EXPECT_EQ(error.kind, Error::Kind::bad_file);
  EXPECT_EQ(error.message, "config.json: seven must be a string, but is 7");
  EXPECT_EQ(error.field, "seven");
}

}  // namespace
}  // namespace espalier
