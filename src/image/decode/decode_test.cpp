// Pictures of every kind decode as Pillow does; broken ones and bombs are refused for little work.
#include "image/decode/decode.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/json/json.h"
#include "base/sha256.h"
#include "image/content_hash.h"
#include "image/decode/exif.h"
#include "testing/data.h"

namespace espalier::pictures::decode_test {

namespace {

std::string file(const std::string& name) {
  return espalier::testing::read_file(espalier::testing::data("pictures/" + name));
}

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Json expected() {
  return *parse_json(file("expected.json"));
}

TEST(DecodePicture, GivesThePixelsThatPillowGives) {
  int decoded = 0;
  Json all = expected();
  for (const auto& [name, wanted] : all.items()) {
    std::string data = file(name);
    if (!can_decode(*picture_format(bytes(data)))) continue;
    auto picture = decode_picture(bytes(data));
    ASSERT_TRUE(picture.ok()) << name << ": " << picture.error().message;
    EXPECT_EQ(picture->width, wanted["width"].get<int>()) << name;
    EXPECT_EQ(picture->height, wanted["height"].get<int>()) << name;
    EXPECT_EQ(espalier::Sha256::hex(std::as_bytes(std::span(picture->rgb))), wanted["sha256"].get<std::string>())
        << name;
    ++decoded;
  }
  EXPECT_GT(decoded, 5);
}

TEST(DecodePicture, RefusesBombsForLittleWork) {
  for (const auto& entry : std::filesystem::directory_iterator(espalier::testing::data("pictures/bombs"))) {
    std::string data = espalier::testing::read_file(entry.path());
    if (!can_decode(*picture_format(bytes(data)))) continue;
    DecodeWork work;
    auto picture = decode_picture(bytes(data), {}, &work);
    ASSERT_FALSE(picture.ok()) << entry.path();
    EXPECT_LE(work.pixels, 1'000'000U) << entry.path();  // a few milliseconds
    bool wide = entry.path().filename().string().starts_with("wide");
    if (wide) {
      EXPECT_EQ(picture.error().kind, Error::Kind::too_large) << picture.error().message;
      EXPECT_EQ(work.bytes, 0U) << entry.path();
    }
  }
}

TEST(DecodePicture, SaysWhatIsWrongInASentence) {
  std::string jpeg = file("rgb.jpg"), png = file("rgb.png");
  EXPECT_EQ(decode_picture(bytes(jpeg.substr(0, jpeg.size() / 2 + 100))).error().message,
            "the picture is a JPEG that ends early");
  EXPECT_EQ(decode_picture(bytes(png.substr(0, png.size() / 2))).error().message,
            "the picture is a PNG that ends early");
  EXPECT_EQ(decode_picture(bytes(std::string("GIF89a"))).error().message, "the picture is a GIF that ends early");
  EXPECT_EQ(decode_picture(bytes(std::string("<svg/>"))).error().kind, Error::Kind::bad_request);
  EXPECT_EQ(decode_picture({}).error().kind, Error::Kind::bad_request);
}

TEST(DecodePicture, KeepsItsLimits) {
  std::string png = file("rgb.png");
  DecodeLimits limits;
  limits.pixels = 23 * 17;
  EXPECT_TRUE(decode_picture(bytes(png), limits).ok());
  limits.pixels -= 1;
  EXPECT_EQ(decode_picture(bytes(png), limits).error().kind, Error::Kind::too_large);
  limits = {};
  limits.bytes = png.size() - 1;
  EXPECT_EQ(decode_picture(bytes(png), limits).error().kind, Error::Kind::too_large);
  limits = {};
  limits.until = std::chrono::steady_clock::now();
  for (const char* name : {"rgb.png", "rgb.jpg", "progressive.jpg", "one.gif", "lossy.webp", "rgb.bmp", "runs.bmp"}) {
    std::string data = file(name);
    if (can_decode(*picture_format(bytes(data)))) {
      EXPECT_EQ(decode_picture(bytes(data), limits).error().kind, Error::Kind::timeout) << name;
    }
  }
}

TEST(DecodeFrames, GivesEachFrameAndItsTime) {
  for (const char* name : {"animated.gif", "animated.webp"}) {
    std::string data = file(name);
    if (!can_decode(*picture_format(bytes(data)))) continue;
    auto frames = decode_frames(bytes(data));
    ASSERT_TRUE(frames.ok()) << name;
    ASSERT_EQ(frames->size(), 3U) << name;
    EXPECT_EQ((*frames)[1].duration.count(), 80) << name;
    EXPECT_EQ((*frames)[0].picture, *decode_picture(bytes(data))) << name;
    EXPECT_FALSE((*frames)[0].picture == (*frames)[2].picture) << name;
    DecodeLimits limits;
    limits.frames = 2;
    EXPECT_EQ(decode_frames(bytes(data), limits).error().kind, Error::Kind::too_large) << name;
    limits = {};
    limits.frame_pixels = 3 * 23 * 17 - 1;
    EXPECT_EQ(decode_frames(bytes(data), limits).error().kind, Error::Kind::too_large) << name;
  }
}

TEST(DecodePicture, AnswersAnyDamageWithAPictureOrASentence) {
  std::mt19937_64 random(espalier::testing::seed());
  Json all = expected();
  long tries = espalier::testing::operations(2'000, 50'000);
  for (long i = 0; i < tries; ++i) {
    auto entry = all.begin();
    std::advance(entry, static_cast<std::ptrdiff_t>(random() % all.size()));
    std::string data = file(entry.key());
    for (int change = 0; change < 4; ++change) data[random() % data.size()] = static_cast<char>(random());
    data.resize(data.size() - random() % (data.size() / 2));
    DecodeLimits limits;
    limits.pixels = 1'000'000;
    auto frames = decode_frames(bytes(data), limits);
    if (frames.ok()) {
      EXPECT_FALSE(frames->empty());
    } else {
      EXPECT_FALSE(frames.error().message.empty());
    }
  }
}

TEST(Upright, TurnsAsTheOrientationSays) {
  Picture picture(2, 3);
  for (std::size_t i = 0; i < 6; ++i)
    picture.rgb[3 * i] = picture.rgb[3 * i + 1] = picture.rgb[3 * i + 2] = static_cast<std::uint8_t>(i);
  auto reds = [&](int orientation) {
    Picture turned = upright(picture, orientation);
    std::vector<int> seen = {turned.width};
    for (std::size_t i = 0; i < turned.rgb.size(); i += 3) seen.push_back(turned.rgb[i]);
    return seen;
  };
  EXPECT_EQ(reds(1), (std::vector<int>{2, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(reds(2), (std::vector<int>{2, 1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(reds(3), (std::vector<int>{2, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(reds(4), (std::vector<int>{2, 4, 5, 2, 3, 0, 1}));
  EXPECT_EQ(reds(5), (std::vector<int>{3, 0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(reds(6), (std::vector<int>{3, 4, 2, 0, 5, 3, 1}));
  EXPECT_EQ(reds(7), (std::vector<int>{3, 5, 3, 1, 4, 2, 0}));
  EXPECT_EQ(reds(8), (std::vector<int>{3, 1, 3, 5, 0, 2, 4}));
  EXPECT_EQ(reds(9), reds(1));
}

TEST(ContentHash, DiffersForPixelsSizesAndPreparation) {
  Picture wide(6, 2), high(2, 6);
  fill(wide, {1, 2, 3});
  fill(high, {1, 2, 3});
  ContentHash hash = content_hash(wide, 7);
  EXPECT_EQ(hash, content_hash(Picture(wide), 7));
  EXPECT_FALSE(hash == content_hash(high, 7));
  EXPECT_FALSE(hash == content_hash(wide, 8));
  wide.rgb[5] ^= 1;
  EXPECT_FALSE(hash == content_hash(wide, 7));
  ContentHasher film(7);
  film.add(wide);
  EXPECT_EQ(film.value(), content_hash(wide, 7));
  film.add(wide);
  EXPECT_FALSE(film.value() == content_hash(wide, 7));
}

}  // namespace

}  // namespace espalier::pictures::decode_test
