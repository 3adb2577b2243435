// Where pictures come from: data URLs, files below a folder, hosts on a list; what is kept; films.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/base64.h"
#include "base/json/json.h"
#include "server/media/media_fetch.h"
#include "server/media/media_film.h"
#include "server/media/media_source.h"
#include "server/media/prepared_media.h"
#include "testing/data.h"
#include "testing/http_double.h"

namespace espalier::server::media_test {
namespace {

namespace fs = std::filesystem;

fs::path picture_folder() {
  return fs::path(std::getenv("ESPALIER_SOURCE_DIR")) / "tests/data/pictures";
}

TEST(DataUrls, GiveTheBytesThatWentIn) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 200; ++round) {
    std::string bytes(1 + rng() % 100, '\0');
    for (char& c : bytes) c = static_cast<char>(rng());
    std::string text = base64(bytes);
    if (round % 3 == 1)
      std::replace(text.begin(), text.end(), '+', '-'), std::replace(text.begin(), text.end(), '/', '_');
    if (round % 3 == 2) text.insert(text.size() / 2, "\r\n ");
    for (const char* head : {"data:image/png;base64,", "DATA:;base64,", ""}) {
      const auto read = bytes_of_data_url(head + text, 1000, "url");
      ASSERT_TRUE(read.ok()) << read.error().message << " seed " << testing::seed();
      EXPECT_EQ(*read, bytes);
    }
  }
  EXPECT_EQ(*bytes_of_data_url("data:text/plain,a%20b", 100, "url"), "a b");
  for (const char* bad : {"data:image/png;base64", "data:image/png;base64,%%%", "data:image/png;base64,", "!!", ""}) {
    const auto read = bytes_of_data_url(bad, 100, "messages[0].content[1]");
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.error().code, "invalid_image");
    EXPECT_EQ(read.error().field, "messages[0].content[1]");
  }
  EXPECT_FALSE(bytes_of_data_url(base64(std::string(101, 'x')), 100, "url").ok());
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("espalier-media-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "media/frames");
    write("media/a b.png", "inside");
    write("secret.png", "outside");
    write("media-not/x.png", "beside");
    fs::create_symlink(root_ / "secret.png", root_ / "media/link.png");
    fs::create_directory_symlink(root_, root_ / "media/up");
    fs::create_symlink(root_ / "media/a b.png", root_ / "media/inner.png");
    for (const char* name : {"2.png", "10.png", "1.png", ".hidden"}) write("media/frames/" + std::string(name), name);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, std::string_view text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  MediaFetcher fetcher(std::size_t most = 1000) {
    return MediaFetcher({(root_ / "media").string(), {}, most, std::chrono::milliseconds(1000), true});
  }
  fs::path root_;
};

TEST_F(Files, OnlyThoseBelowTheFolderAreRead) {
  MediaFetcher media = fetcher();
  const std::string inside = (root_ / "media").string();
  for (const std::string& good : {"file://" + inside + "/a%20b.png", inside + "/a b.png", std::string("a b.png"),
                                  "file://" + inside + "/inner.png", "file://" + inside + "/frames/../a%20b.png"}) {
    const auto read = media.fetch(good, "image_url");
    ASSERT_TRUE(read.ok()) << good << ": " << read.error().message;
    EXPECT_EQ(*read, "inside");
  }
  for (const std::string& bad :
       {"file://" + root_.string() + "/secret.png", std::string("../secret.png"), std::string("link.png"),
        std::string("up/secret.png"), "file://" + root_.string() + "/media-not/x.png",
        std::string("file:///etc/passwd"), std::string("file://frames"), std::string("file://none.png"),
        std::string("file://a%00b.png")}) {
    const auto read = media.fetch(bad, "image_url");
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.error().code, "invalid_image");
    EXPECT_EQ(read.error().message.find("outside"), std::string::npos);
  }
  MediaFetcher small = fetcher(3), none({});
  EXPECT_NE(small.fetch("a b.png", "x").error().message.find("at most 3"), std::string::npos);
  EXPECT_NE(none.fetch("file://" + inside + "/inner.png", "x").error().message.find("--media-dir"), std::string::npos);
}

TEST_F(Files, AFolderIsItsFilesByName) {
  const MediaFetcher media = fetcher();
  ASSERT_TRUE(media.is_folder("frames"));
  EXPECT_FALSE(media.is_folder("a b.png"));
  EXPECT_FALSE(media.is_folder("up"));
  const auto files = media.list_folder("frames", "video_url");
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 3u);
  EXPECT_TRUE((*files)[0].ends_with("/1.png"));
  EXPECT_TRUE((*files)[1].ends_with("/10.png"));
}

TEST(Hosts, AreFetchedOnlyWhenTheyAreListedAndPublic) {
  MediaFetcher off({}), listed({{}, {"example.com", "*.images.test", "localhost", "127.0.0.1"}});
  EXPECT_NE(off.fetch("http://example.com/a.png", "x").error().message.find("--allowed-media-hosts"),
            std::string::npos);
  for (const char* other :
       {"http://example.org/a", "https://notexample.com/a", "http://images.test/a", "HTTP://EVIL.COM/a"})
    EXPECT_NE(listed.fetch(other, "x").error().message.find("is not one of"), std::string::npos) << other;
  for (const char* local : {"http://127.0.0.1:9/a.png", "http://localhost:9/a.png"}) {
    const auto read = listed.fetch(local, "image_url");
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, "invalid_image");
    EXPECT_EQ(read.error().message.find("is not one of"), std::string::npos) << read.error().message;
  }
}

TEST(Hosts, AreLookedUpAgainBehindEachRedirect) {
  testing::HttpDouble server([](const testing::HttpDoubleRequest& request) {
    testing::HttpDoubleReply reply;
    reply.body = "picture";
    const auto to = [&](const std::string& where) { reply.status = 302, reply.headers = {{"Location", where}}; };
    if (request.target == "/there") to("/a.png");
    if (request.target == "/away") to("http://elsewhere.test/a.png");
    if (request.target == "/round") to("/round");
    if (request.target == "/none") reply.status = 404;
    if (request.target == "/large") reply.body = std::string(2000, 'x');
    return reply;
  });
  const std::string host = server.url("/").find("localhost") != std::string::npos ? "localhost" : "127.0.0.1";
  MediaFetcher media({{}, {host}, 1000, std::chrono::milliseconds(5000), false});
  for (const char* path : {"/a.png", "/there"}) {
    const auto read = media.fetch(server.url(path), "image_url");
    ASSERT_TRUE(read.ok()) << path << read.error().message;
    EXPECT_EQ(*read, "picture");
  }
  const std::pair<const char*, const char*> bad[] = {
      {"/away", "is not one of"}, {"/round", "redirects"}, {"/none", "404"}, {"/large", "could not be fetched"}};
  for (const auto& [path, why] : bad) {
    const auto read = media.fetch(server.url(path), "image_url");
    ASSERT_FALSE(read.ok()) << path;
    EXPECT_EQ(read.error().code, "invalid_image");
    EXPECT_NE(read.error().message.find(why), std::string::npos) << path << ": " << read.error().message;
  }
}

TEST(MediaParts, ComeInEveryForm) {
  const std::pair<const char*, const char*> pictures[] = {
      {R"({"type":"image_url","image_url":{"url":"u","detail":"low"}})", "u"},
      {R"({"type":"image_url","image_url":"u"})", "u"},
      {R"({"type":"input_image","image_url":"u"})", "u"},
      {R"({"type":"image","image":"u"})", "u"},
      {R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}})",
       "data:image/png;base64,QQ=="},
      {R"({"type":"image","source":{"type":"url","url":"u"}})", "u"},
      {R"({"type":"file","file":{"file_data":"u","filename":"a.png"}})", "u"}};
  for (const auto& [text, address] : pictures) {
    const auto part = read_media_part(parse_json(text).value(), "p");
    ASSERT_TRUE(part.ok()) << text << part.error().message;
    ASSERT_TRUE(*part) << text;
    EXPECT_EQ((*part)->addresses, std::vector<std::string>{address}) << text;
    EXPECT_EQ((*part)->kind, MediaSource::Kind::picture);
  }
  const auto film = read_media_part(parse_json(R"({"type":"video","video":["a","b"],"fps":2})").value(), "p").value();
  EXPECT_TRUE(film->is_list);
  EXPECT_EQ(film->per_second, 2);
  EXPECT_EQ(film->addresses.size(), 2u);
  const auto in_one =
      read_media_part(
          parse_json(R"({"type":"video_url","video_url":{"url":"data:video/jpeg;base64,QQ==,QkI="}})").value(), "p")
          .value();
  EXPECT_TRUE(in_one->is_list);
  EXPECT_EQ(in_one->addresses, (std::vector<std::string>{"QQ==", "QkI="}));
  for (const char* bad : {R"({"type":"image_url"})", R"({"type":"image_url","image_url":{"url":5}})",
                          R"({"type":"image_url","image_url":5})", R"({"type":"video_url","video_url":{"url":[]}})",
                          R"({"type":"video_url","video_url":{"url":"u"},"fps":0})",
                          R"({"type":"image","source":{"type":"drawing","file_id":"f"}})",
                          R"({"type":"input_image","file_id":""})", R"({"type":"input_image","file_id":7})"})
    EXPECT_FALSE(read_media_part(parse_json(bad).value(), "p").ok()) << bad;
  EXPECT_FALSE(*read_media_part(parse_json(R"({"type":"text","text":"x"})").value(), "p"));
}

TEST(MediaParts, NameUploadedFilesByTheirIds) {
  for (const char* text :
       {R"({"type":"input_image","file_id":"f"})", R"({"type":"input_file","file_id":"f"})",
        R"({"type":"file","file":{"file_id":"f"}})", R"({"type":"image","source":{"type":"file","file_id":"f"}})",
        R"({"type":"video","file_id":"f"})"}) {
    const auto part = read_media_part(parse_json(text).value(), "p");
    ASSERT_TRUE(part.ok() && *part) << text;
    EXPECT_EQ((*part)->upload, "f") << text;
    EXPECT_TRUE((*part)->addresses.empty()) << text;
  }
  const auto both = read_media_part(parse_json(R"({"type":"input_image","image_url":"u","file_id":"f"})").value(), "p");
  EXPECT_EQ((*both)->addresses, std::vector<std::string>{"u"});
}

Prepared prepared_of(std::size_t floats) {
  auto made = std::make_shared<PreparedMedium>();
  made->block.values.resize(floats);
  return made;
}

TEST(MediaCaches, KeepTheLatelyUsedWithinTheirBytes) {
  MediaCache cache(40 * sizeof(float));
  for (std::uint64_t i = 0; i < 4; ++i) cache.keep({i, 0}, prepared_of(10));
  ASSERT_NE(cache.find({0, 0}), nullptr);
  cache.keep({9, 0}, prepared_of(15));  // two leave
  EXPECT_NE(cache.find({0, 0}), nullptr);
  EXPECT_EQ(cache.find({1, 0}), nullptr);
  EXPECT_EQ(cache.find({2, 0}), nullptr);
  EXPECT_NE(cache.find({3, 0}), nullptr);
  cache.keep({10, 0}, prepared_of(41));
  EXPECT_EQ(cache.find({10, 0}), nullptr);
  EXPECT_EQ(cache.bytes(), static_cast<std::int64_t>(35 * sizeof(float)));
}

TEST(Films, AnimationsHaveTheirOwnTime) {
  for (const char* name : {"animated.gif", "animated.webp"}) {
    const auto film = film_of_file(testing::read_file(picture_folder() / name), {}, {});
    ASSERT_TRUE(film.ok()) << film.error().message;
    EXPECT_GT(film->frames, 1) << name;
    EXPECT_TRUE(film->has_time);
    EXPECT_TRUE(film->picture(film->frames - 1).ok());
  }
}

TEST(Films, ListsAreWholeUnlessATimeIsGiven) {
  const std::string png = testing::read_file(picture_folder() / "rgb.png");
  MediaSource source;
  auto film = film_of_files({png, png, png}, source, {}).value();
  EXPECT_EQ(film.frames, 3);
  EXPECT_FALSE(film.has_time);
  source.per_second = 1;
  EXPECT_TRUE(film_of_files({png}, source, {})->has_time);
  film = film_of_files({png, "no picture"}, {}, {}).value();
  EXPECT_TRUE(film.picture(0).ok());
  EXPECT_FALSE(film.picture(1).ok());
}

MediaSource film_source() {
  MediaSource source;
  source.kind = MediaSource::Kind::film;
  source.place = "video_url";
  return source;
}

bool has_libav() {
  const auto film = film_of_file(testing::read_file(picture_folder() / "film.mp4"), film_source(), {});
  if (!film.ok()) {
    EXPECT_NE(film.error().message.find("send an animation"), std::string::npos) << film.error().message;
  }
  return film.ok();
}

TEST(Films, ContainersOfVideoAreReadWhereTheLibrariesAre) {
  if (!has_libav()) GTEST_SKIP() << "FFmpeg's libraries are not here";
  for (const char* name : {"film.mp4", "film.webm"}) {  // two seconds of 64 x 48 pixels
    const auto film = film_of_file(testing::read_file(picture_folder() / name), film_source(), {});
    ASSERT_TRUE(film.ok()) << name << film.error().message;
    EXPECT_EQ(film->frames, 20) << name;
    EXPECT_DOUBLE_EQ(film->per_second, 10) << name;
    const auto first = film->picture(0), last = film->picture(19), again = film->picture(19);
    ASSERT_TRUE(first.ok() && last.ok() && again.ok()) << name;
    EXPECT_EQ(first->size(), (pictures::Size{48, 64}));
    EXPECT_NE(*first, *last);
    EXPECT_EQ(*last, *again);
  }
}

TEST(Films, BrokenOnesAreRefusedOrEndEarly) {
  std::mt19937_64 rng(testing::seed());
  for (const char* name : {"film.mp4", "film.webm"}) {
    const std::string whole = testing::read_file(picture_folder() / name);
    for (int round = 0; round < 60; ++round) {
      std::string file = whole.substr(0, round % 2 == 0 ? whole.size() : 1 + rng() % whole.size());
      for (int i = static_cast<int>(rng() % 8); i > 0; --i) file[rng() % file.size()] = static_cast<char>(rng());
      const auto film = film_of_file(file, film_source(), {});
      if (!film.ok()) {
        EXPECT_EQ(film.error().code, "invalid_image") << " seed " << testing::seed();
        continue;
      }
      for (const int frame : {0, film->frames / 2, film->frames - 1}) (void)film->picture(frame).ok();
    }
  }
}

TEST(Films, WhatIsNoAnimationSaysWhatWorks) {
  const auto film = film_of_file(std::string("\0\0\0\x20"
                                             "ftypisom",
                                             12),
                                 film_source(), {});
  ASSERT_FALSE(film.ok());
  EXPECT_EQ(film.error().code, "invalid_image");
  EXPECT_EQ(film.error().field, "video_url");
}

}  // namespace
}  // namespace espalier::server::media_test
