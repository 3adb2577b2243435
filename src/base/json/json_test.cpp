#include "base/json/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/json/checkpoint_json.h"
#include "testing/data.h"

namespace espalier {
namespace {

std::string message(std::string_view text, const JsonLimits& limits = {}) {
  auto parsed = parse_json(text, limits);
  return parsed.ok() ? "accepted " + parsed->dump() : parsed.error().message;
}

bool says(std::string_view text, std::string_view offset, std::string_view expected, const JsonLimits& limits = {}) {
  const std::string sentence = message(text, limits);
  const bool good = sentence.find("byte " + std::string(offset) + ":") != std::string::npos &&
                    sentence.find(expected) != std::string::npos;
  if (!good) std::printf("unexpected sentence for %s: %s\n", std::string(text.substr(0, 60)).c_str(), sentence.c_str());
  return good;
}

std::string nested(int levels, char open, char close) {
  return std::string(levels, open) + std::string(levels, close);
}

TEST(Json, KeepsValuesTypesAndOrder) {
  auto parsed = parse_json(R"( {"b": [1, -2, 3.5, true, false, null, "x"], "a": {"": {}}, "c": []} )");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->dump(), R"({"b":[1,-2,3.5,true,false,null,"x"],"a":{"":{}},"c":[]})");
  EXPECT_TRUE((*parsed)["b"][0].is_number_unsigned());
  EXPECT_TRUE((*parsed)["b"][1].is_number_integer());
  EXPECT_TRUE((*parsed)["b"][2].is_number_float());
}

TEST(Json, DocumentsOfOneScalarAreDocuments) {
  EXPECT_EQ(message(" 7 "), "accepted 7");
  EXPECT_EQ(message("\"\""), "accepted \"\"");
  EXPECT_EQ(message("null"), "accepted null");
}

TEST(Json, ErrorsGiveTheByteAndWhatWasExpected) {
  EXPECT_TRUE(says("", "0", "a value, found the end of the text"));
  EXPECT_TRUE(says("{\"a\":1,}", "7", "a key in double quotes"));
  EXPECT_TRUE(says("{\"a\" 1}", "5", "':'"));
  EXPECT_TRUE(says("{a:1}", "1", "a key"));
  EXPECT_TRUE(says("[1 2]", "3", "',' or ']'"));
  EXPECT_TRUE(says("{\"a\":1]", "6", "',' or '}'"));
  EXPECT_TRUE(says("[1,]", "3", "a value"));
  EXPECT_TRUE(says("[", "1", "a value"));
  EXPECT_TRUE(says("{}x", "2", "nothing after the document"));
  EXPECT_TRUE(says("{}\x02", "2", "nothing after"));
  EXPECT_TRUE(says("tru", "0", "a value"));
  EXPECT_TRUE(says("\"abc", "0", "a closing quote"));
  EXPECT_TRUE(says("\xef\xbb\xbf{}", "0", "a value"));
}

TEST(Json, DuplicateKeysAreRefusedInSmallAndLargeObjects) {
  EXPECT_TRUE(says(R"({"a":1,"b":2,"a":3})", "13", "a key that the object does not have yet"));
  EXPECT_TRUE(says(R"({"a":1,"\u0061":3})", "7", "a key that the object does not have yet"));
  EXPECT_EQ(message(R"({"a":{"a":{"a":1}}})"), R"(accepted {"a":{"a":{"a":1}}})");
  std::string large = "{";
  for (int i = 0; i < 5000; ++i) large += "\"key" + std::to_string(i) + "\":0,";
  EXPECT_TRUE(parse_json(large + "\"last\":0}").ok());
  EXPECT_TRUE(says(large + "\"key77\":0}", std::to_string(large.size()), "does not have yet"));
}

TEST(Json, OfRepeatedKeysTheLastMemberCountsWhereTheyAreAllowed) {
  const JsonLimits limits{.repeated_keys = true};
  const auto read = [&](const std::string& text) { return parse_json(text, limits)->dump(); };
  EXPECT_EQ(read(R"({"a":1,"b":2,"\u0061":3})"), R"({"b":2,"a":3})");
  EXPECT_EQ(read(R"([{"":1,"":{"x":1,"x":[2]}},{"x":1}])"), R"([{"":{"x":[2]}},{"x":1}])");
  std::string large = "{\"key0\":1";
  for (int i = 0; i < 100; ++i) large += ",\"key" + std::to_string(i % 50) + "\":" + std::to_string(i);
  const Json made = *parse_json(large + "}", limits);
  EXPECT_EQ(made.size(), 50U);
  EXPECT_EQ(made["key0"], 50);
  EXPECT_EQ(made["key49"], 99);
}

TEST(Json, DepthIsCountedInOpenContainers) {
  EXPECT_TRUE(parse_json(nested(64, '[', ']')).ok());
  EXPECT_TRUE(says(nested(65, '[', ']'), "64", "at most 64 levels"));
  EXPECT_TRUE(says(std::string(1 << 22, '['), "64", "at most 64 levels"));
  EXPECT_TRUE(parse_json(nested(200, '[', ']'), {.depth = 200}).ok());
}

TEST(Json, ValuesAreCountedAcrossClosedContainers) {
  const JsonLimits five{.values = 5};
  EXPECT_TRUE(parse_json("[[1,2],[]]", five).ok());
  EXPECT_TRUE(says("[[1,2],[],3,4]", "10", "at most 5 values", {.values = 5}));
}

TEST(Json, IntegersKeepAllTheirBits) {
  EXPECT_EQ(message("[18446744073709551615,-9223372036854775808,9223372036854775807]"),
            "accepted [18446744073709551615,-9223372036854775808,9223372036854775807]");
  EXPECT_EQ(message("-0"), "accepted 0");
}

TEST(Json, IntegersBeyondSixtyFourBitsAreDoublesOrRefusedAsAsked) {
  auto parsed = parse_json("[18446744073709551616,-9223372036854775809,1000000000000000019884624838656]");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  for (const Json& value : *parsed) EXPECT_TRUE(value.is_number_float());
  EXPECT_EQ((*parsed)[0].get<double>(), 0x1p64);
  EXPECT_EQ((*parsed)[1].get<double>(), -0x1p63);
  EXPECT_EQ((*parsed)[2].get<double>(), 1e30);
  EXPECT_TRUE(says(std::string(320, '9'), "0", "fits a double"));
  const JsonLimits exact{.wide_integers = false};
  EXPECT_TRUE(says("18446744073709551616", "0", "below 2^64, found \"18446744073709551616\"", exact));
  EXPECT_TRUE(says("[-9223372036854775809]", "1", "at least -2^63, found \"-9223372036854775809\"", exact));
}

TEST(Json, NumbersThatAreNotJsonAreRefused) {
  for (const char* text : {"01", "-", "+1", ".5", "1.", "1.e3", "1e", "1e+", "0x10", "NaN", "Infinity", "-Infinity",
                           "1_0", "--1", "- 1", "00", "-01"}) {
    EXPECT_FALSE(parse_json(text).ok()) << text;
  }
}

TEST(Json, FloatsThatOverflowAreRefusedAndTinyOnesAreZero) {
  EXPECT_TRUE(says("1e309", "0", "fits a double"));
  EXPECT_TRUE(says("-1e99999999999999999999", "0", "fits a double"));
  EXPECT_TRUE(says("0.000001e400", "0", "fits a double"));
  EXPECT_TRUE(says(std::string(390, '9') + ".5", "0", "fits a double"));
  EXPECT_EQ(parse_json("1e-400")->get<double>(), 0.0);
  EXPECT_EQ(parse_json("123456e-99999999999999999999")->get<double>(), 0.0);
  EXPECT_EQ(parse_json("0." + std::string(350, '0') + "1")->get<double>(), 0.0);
  EXPECT_TRUE(std::signbit(parse_json("-1e-400")->get<double>()));
  EXPECT_EQ(parse_json("0e99999999999")->get<double>(), 0.0);
  EXPECT_EQ(parse_json("5e-324")->get<double>(), 5e-324);
  EXPECT_EQ(parse_json("1.7976931348623157e308")->get<double>(), 1.7976931348623157e308);
}

TEST(Json, WhatPythonWritesIsReadWhereItIsAskedFor) {
  const std::string text = "\xef\xbb\xbf{\"a\": [NaN, Infinity, -Infinity, -1, null]}";
  const auto parsed = parse_checkpoint_json(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Json& a = (*parsed)["a"];
  EXPECT_TRUE(std::isnan(a[0].get<double>()));
  EXPECT_EQ(a[1].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(a[2].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(a[3], -1);
  for (const char* strict : {"\xef\xbb\xbf{}", "[NaN]", "[Infinity]", "[-Infinity]"})
    EXPECT_TRUE(says(strict, strict[0] == '[' ? "1" : "0", "a value")) << strict;
  for (const char* wrong : {"[Nan]", "[Inf]", "[-Inf]", "[+Infinity]", "\xef\xbb\xbf\xef\xbb\xbf{}", "\xef\xbb\xbf"})
    EXPECT_FALSE(parse_checkpoint_json(wrong).ok()) << wrong;
}

TEST(Json, ANumberMayHaveFourHundredCharacters) {
  EXPECT_TRUE(parse_json("0." + std::string(398, '1')).ok());
  EXPECT_TRUE(says("0." + std::string(399, '1'), "0", "at most 400 characters"));
}

TEST(Json, EscapesBecomeUtf8) {
  EXPECT_EQ(parse_json(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")")->get<std::string>(),
            "\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001F600");
  EXPECT_EQ(parse_json(R"("\u0000")")->get<std::string>(), std::string(1, '\0'));
}

TEST(Json, BadEscapesAndSurrogatesAreRefused) {
  EXPECT_TRUE(says(R"("ab\x")", "3", "one of"));
  EXPECT_TRUE(says(R"("\u12g4")", "3", "four hexadecimal digits"));
  EXPECT_TRUE(says(R"("\u12)", "3", "four hexadecimal digits"));
  EXPECT_TRUE(says(R"("\ud800")", "1", "surrogates in pairs"));
  EXPECT_TRUE(says(R"("\udc00\ud800")", "1", "surrogates in pairs"));
  EXPECT_TRUE(says(R"("\ud800\u0041")", "1", "a low surrogate"));
  EXPECT_TRUE(says("\"\\", "1", "one of"));
}

TEST(Json, ControlCharactersInStringsAreRefused) {
  for (int c = 0; c < 0x20; ++c) {
    const std::string text = "\"0123456789" + std::string(1, static_cast<char>(c)) + "\"";
    EXPECT_TRUE(says(text, "11", "no control character")) << c;
  }
  EXPECT_TRUE(parse_json("\"\x7f\"").ok());
}

TEST(Json, Utf8IsValidatedAtEveryAlignment) {
  const std::vector<std::string> good = {"\xc2\x80",     "\xdf\xbf",     "\xe0\xa0\x80",     "\xed\x9f\xbf",
                                         "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
  const std::vector<std::string> bad = {"\x80",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xc2",
                                        "\xc2\x20",
                                        "\xe0\x9f\xbf",
                                        "\xe2\x82",
                                        "\xed\xa0\x80",
                                        "\xef\xbf\xc0",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xf0\x9f\x98",
                                        "\xff"};
  for (int before = 0; before < 17; ++before) {
    const std::string head = "\"" + std::string(before, 'a');
    for (const auto& text : good) EXPECT_TRUE(parse_json(head + text + "b\"").ok());
    for (const auto& text : bad) EXPECT_TRUE(says(head + text + "\"", std::to_string(before + 1), "valid UTF-8"));
    for (const auto& text : bad) EXPECT_FALSE(parse_json(head + text).ok());
  }
}

// --- against the library's own parser, which we trust on documents of at most moderate size ---

std::string random_text(std::mt19937_64& random) {
  static const std::vector<std::string> pieces = {
      "{",  "}",  "[",   "]",   ",",    ":",     "\"a\"", "\"b\"",    "\"\\n\\u00e9\"", "\"long enough to be fast\"",
      "1",  "-7", "2.5", "1e3", "true", "false", "null",  "\xc3\xa9", "\"\xc3\xa9\"",   "\\",
      "\"", " ",  "\n",  "0",   "e",    ".",     "-",     "\x01"};
  std::string text;
  const int length = 1 + static_cast<int>(random() % 12);
  for (int i = 0; i < length; ++i) text += pieces[random() % pieces.size()];
  return text;
}

Json random_value(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 4 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return static_cast<double>(static_cast<std::int64_t>(random())) *
             std::pow(10.0, static_cast<int>(random() % 60) - 40);
    case 4: {
      std::string text;
      for (auto n = random() % 40; n > 0; --n)
        text += random() % 8 == 0 ? "\u20ac" : std::string(1, static_cast<char>(random() % 128));
      return text;
    }
    case 5: {
      Json made = Json::array();
      for (auto n = random() % 6; n > 0; --n) made.push_back(random_value(random, depth + 1));
      return made;
    }
    default: {
      Json made = Json::object();
      for (auto n = random() % 25; n > 0; --n)
        made["k" + std::to_string(random() % 1000)] = random_value(random, depth + 1);
      return made;
    }
  }
}

TEST(Json, RoundTripsRandomDocuments) {
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 400; ++i) {
    const Json value = random_value(random, 0);
    for (const std::string& text : {value.dump(), value.dump(2), value.dump(-1, ' ', true)}) {
      auto parsed = parse_json(text);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message << " in " << text << " round " << i;
      ASSERT_EQ(*parsed, value) << text << " round " << i;
    }
  }
}

TEST(Json, AcceptsWhatTheLibraryAcceptsOnRandomTokens) {
  std::mt19937_64 random(testing::seed());
  int accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = random_text(random);
    const Json theirs = Json::parse(text, nullptr, false);
    auto ours = parse_json(text);
    if (theirs.is_discarded()) {
      ASSERT_FALSE(ours.ok()) << text;
    } else if (ours.ok()) {
      ASSERT_EQ(*ours, theirs) << text;
      ++accepted;
    } else {  // stricter only about duplicates
      ASSERT_NE(ours.error().message.find("does not have yet"), std::string::npos)
          << text << ": " << ours.error().message;
    }
  }
  EXPECT_GT(accepted, 500);
}

constexpr JsonStep kPlaces[] = {{0, "keep", JsonStep::as_text}, {0, "in", 1}, {1, "keep", JsonStep::as_text}};

TEST(Json, ObjectsAtNamedPlacesStayTheTextThatTheyAre) {
  JsonLimits limits;
  limits.places = kPlaces;
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 400; ++i) {
    const Json value = random_value(random, 2);
    const std::string text = value.dump(i % 3 - 1, ' ', i % 2 == 0);
    const auto read = parse_json(R"({"keep":)" + text + R"(,"in":[1,[{"keep": )" + text + R"( ,"else":{"keep":)" +
                                     text + R"(}}]],"else":[{"keep":)" + text + "}]}",
                                 limits);
    ASSERT_TRUE(read.ok()) << read.error().message << " in " << text;
    const Json kept = value.is_object() ? Json(text) : value;
    const Json& inner = (*read)["in"][1][0];
    ASSERT_EQ((*read)["keep"], kept);
    ASSERT_EQ(inner["keep"], kept);
    ASSERT_EQ(inner["else"]["keep"], value) << "no step leads there";
    ASSERT_EQ((*read)["else"][0]["keep"], value);
  }
}

TEST(Json, WhatStaysTextIsJsonToo) {
  JsonLimits limits;
  limits.places = kPlaces;
  std::mt19937_64 random(testing::seed());
  int accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = R"({"x":)" + random_text(random) + "}", body = R"({"keep":)" + text + R"(,"y":[1]})";
    const auto as_value = parse_json(body);
    const auto as_text = parse_json(body, limits);
    if (as_value.ok()) {
      ASSERT_TRUE(as_text.ok()) << body << ": " << as_text.error().message;
      ASSERT_EQ(as_text->dump(), Json({{"keep", text}, {"y", {1}}}).dump());
      ++accepted;
      continue;
    }
    const std::string& refused = as_value.error().message;
    if (as_text.ok() || as_text.error().message != refused) {
      const bool of_values = refused.find("does not have yet") + 1 > 0 || refused.find("fits a double") + 1 > 0;
      ASSERT_TRUE(of_values) << body << ": " << refused;
    }
  }
  EXPECT_GT(accepted, 500);
  const auto nested = [](int depth) {
    std::string open, close;
    for (int i = 0; i < depth; ++i) open += R"({"a":)", close += '}';
    return R"({"keep":)" + open + "1" + close + "}";
  };
  EXPECT_TRUE(parse_json(nested(900), limits).ok());
  EXPECT_FALSE(parse_json(nested(1100), limits).ok());
}

TEST(Json, LargeNumbersAreShownInDigits) {
  for (const char* text :
       {"100000000000000000000", "18446744073709551616", "18446744073709551615", "-7", "2.5", "1e+300"}) {
    EXPECT_EQ(number_text(*parse_json(text)), text);
  }
}

TEST(Json, NumbersAreWrittenAsTheyWere) {
  for (const char* text : {"35650346.6886", "18961805.2818", "-7513010.6642", "0.1", "1.0", "-0.0", "1e+300", "12"}) {
    EXPECT_EQ(written_number(*parse_json(text)), text);
  }
  EXPECT_EQ(json_text(*parse_json(R"({"a":[35650346.6886,"x"],"b":{"c":-0.5}})")),
            R"({"a":[35650346.6886,"x"],"b":{"c":-0.5}})");
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = std::to_string(random() % 10'000'000'000) + '.' + std::to_string(random() % 999 * 10 + 1);
    ASSERT_EQ(written_number(*parse_json(text)), text) << "round " << i;
    ASSERT_EQ(json_text(*parse_json('[' + text + ']')), '[' + text + ']') << "round " << i;
  }
}

TEST(Json, QuotedCutsAndEscapes) {
  EXPECT_EQ(in_quotes("a\"b\n"), R"("a\"b\n")");
  EXPECT_EQ(in_quotes("0123456789", 4), "\"0123\"...");
  EXPECT_EQ(in_quotes("\xff"), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace espalier
