// Pictures of a request -> tokens, spans and hashes: the goldens' tokens from one mark for each picture, conversations,
// and what a user's own words may not do.
#include "server/prompt/media_prompt.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/base64.h"
#include "espalier/engine.h"
#include "server/admission/keys.h"
#include "server/media/media_reader.h"
#include "server/media/prepare_media.h"
#include "server/media/program_pictures.h"
#include "server/prompt/chat_prompt.h"
#include "server/service.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::server::media_prompt_test {
namespace {

namespace fs = std::filesystem;

// An engine of a small text model with the tokenizer of a folder that has pictures.
std::shared_ptr<ServedModel> model_with_pictures(const fs::path& folder) {
  EngineOptions options;
  options.model_path = std::string(std::getenv("ESPALIER_SOURCE_DIR")) + "/tests/data/goldens/models/llama3-tied-gqa";
  options.tokenizer_path = folder;
  options.threads = 1;
  auto engine = Engine::open(options);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  auto model = std::make_shared<ServedModel>();
  model->names = {"pictures"};
  model->engine = std::move(engine).value();
  model->settle();
  auto reader = MediaReader::open(folder, *model->tokenizer(), 64 << 20);
  EXPECT_TRUE(reader.ok()) << (reader.ok() ? "" : reader.error().message);
  const auto found = model->need_template("messages");
  (*reader)->learn_forms(found.ok() ? *found : nullptr, nullptr);
  model->media = *reader;
  return model;
}

class Prompts {
 public:
  explicit Prompts(const fs::path& folder) : folder_(folder), model_(model_with_pictures(folder)) {
    service_ = Service::make({}, KeyRing::load({}, {}, {}).value()).value();
  }
  const ServedModel& model() const { return *model_; }
  const MediaReader& reader() const { return *model_->media; }
  Call call() { return {*service_, http_, model_, {}, true}; }

  std::vector<Prepared> prepared(const Json& pictures) {
    std::vector<MediaSource> sources;
    for (const Json& picture : pictures) sources.push_back(source(picture));
    auto made = prepare_media(call(), sources);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return std::move(made).value();
  }
  MediaSource source(const std::string& file) const {
    MediaSource made;
    made.addresses = {"data:image/png;base64," + base64(espalier::testing::read_file(folder_ / file))};
    made.place = file;
    return made;
  }
  ChatTokens chat(const Json& messages) {
    auto prompt = parse_chat_prompt({{"messages", messages}}, service_->options);
    EXPECT_TRUE(prompt.ok()) << (prompt.ok() ? "" : prompt.error().message);
    auto tokens = encode_chat(call(), *prompt);
    EXPECT_TRUE(tokens.ok()) << (tokens.ok() ? "" : tokens.error().message);
    return std::move(tokens).value();
  }

 private:
  const fs::path folder_;
  net::HttpRequest http_;
  std::shared_ptr<ServedModel> model_;
  std::unique_ptr<Service> service_;
};

std::vector<std::string> golden_folders() {
  std::vector<std::string> names;
  std::error_code absent;
  const fs::path shared = espalier::testing::shared("goldens/models");
  for (const auto& entry :
       fs::directory_iterator(shared.empty() ? espalier::testing::data("goldens/models") : shared, absent)) {
    std::string name = entry.path().filename();
    if (name.starts_with("mm-")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenPrompts : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path folder_ = espalier::testing::golden("models/" + GetParam());
  Json golden_ = parse_json(espalier::testing::read_file(folder_ / "golden.json")).value();
  Prompts prompts_{folder_};
};

// Each span's tokens are image tokens, and no other token is one.
void expect_spans(const MediaPrompt& prompt, TokenId image, const std::vector<int>& per_picture) {
  ASSERT_EQ(prompt.pictures.size(), per_picture.size());
  std::vector<bool> covered(prompt.ids.size());
  for (std::size_t i = 0; i < per_picture.size(); ++i) {
    int count = 0;
    for (const PictureInput::Span& span : prompt.pictures[i].spans) {
      for (int at = span.first; at < span.first + span.count; ++at) covered[static_cast<std::size_t>(at)] = true;
      count += span.count;
    }
    EXPECT_EQ(count, per_picture[i]);
  }
  for (std::size_t i = 0; i < covered.size(); ++i) EXPECT_EQ(covered[i], prompt.ids[i] == image) << i;
}

TEST_P(GoldenPrompts, OneMarkForEachPictureBecomesTheTokensOfTheReference) {
  const TokenId image = golden_["image_token_id"];
  for (const Json& a_case : golden_["cases"]) {
    const auto media = prompts_.prepared(a_case["images"]);
    if (media.empty()) continue;
    const std::vector<TokenId> marked = a_case["tokens_one_placeholder_per_image"], whole = a_case["tokens"];
    for (const auto& ids : {marked, whole}) {
      const auto prompt = encode_media_prompt(prompts_.model(), Prompt(ids), media, {}, "input_ids");
      ASSERT_TRUE(prompt.ok()) << prompt.error().message;
      EXPECT_EQ(prompt->ids, whole) << a_case["name"];
      expect_spans(*prompt, image, a_case["tokens_per_image"]);
    }
  }
}

TEST_P(GoldenPrompts, AConversationShowsEachPictureOnce) {
  Json two;
  for (const Json& a_case : golden_["cases"])
    if (a_case["images"].size() == 2) two = a_case;
  Json content = Json::array();
  for (const Json& picture : two["images"]) {
    content.push_back({{"type", "text"}, {"text", "look: "}});
    content.push_back({{"type", "image_url"}, {"image_url", {{"url", prompts_.source(picture).addresses[0]}}}});
  }
  const ChatTokens tokens = prompts_.chat(Json::array({{{"role", "user"}, {"content", content}}}));
  expect_spans({tokens.ids, tokens.pictures}, golden_["image_token_id"], two["tokens_per_image"]);
  EXPECT_NE(tokens.pictures[0].content, tokens.pictures[1].content);
  const ChatTokens again = prompts_.chat(Json::array({{{"role", "user"}, {"content", content}}}));
  EXPECT_EQ(again.ids, tokens.ids);
  EXPECT_EQ(again.pictures[0].content, tokens.pictures[0].content);
  EXPECT_EQ(again.pictures[0].pixels, tokens.pictures[0].pixels);  // made ready once
}

TEST_P(GoldenPrompts, MarksInWordsOfAUserAreText) {
  const std::string mark = prompts_.reader().tokens(false).mark, token = prompts_.reader().tokens(false).token;
  const ChatTokens tokens =
      prompts_.chat(Json::array({{{"role", "user"}, {"content", "what does " + mark + " mean, and " + token + "?"}}}));
  for (const TokenId id : tokens.ids) EXPECT_NE(id, golden_["image_token_id"].get<TokenId>());
  EXPECT_TRUE(tokens.pictures.empty());
  EXPECT_NE(prompts_.model().tokenizer()->decode(tokens.ids).find("mean, and " + token), std::string::npos);
}

TEST_P(GoldenPrompts, TextsCarryMarksOfTheirOwnOrThoseThatEverybodyWrites) {
  const Json& one = golden_["cases"][1];
  const auto media = prompts_.prepared(one["images"]);
  const std::string mark = prompts_.reader().tokens(false).mark;
  for (const std::string& sign : {mark, std::string("<image>"), std::string("<__media__>")}) {
    const auto prompt = encode_media_prompt(prompts_.model(), Prompt("see " + sign + " here"), media, {}, "text");
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    expect_spans(*prompt, golden_["image_token_id"], one["tokens_per_image"]);
  }
  const auto none = encode_media_prompt(prompts_.model(), Prompt("see"), media, {}, "text");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, "invalid_image");
  EXPECT_FALSE(encode_media_prompt(prompts_.model(), Prompt(mark + mark), media, {}, "text").ok());
}

TEST_P(GoldenPrompts, TokensAreThoseOfTheTextWrittenOut) {
  Json two;
  for (const Json& a_case : golden_["cases"])
    if (a_case["images"].size() == 2) two = a_case;
  const auto media = prompts_.prepared(two["images"]);
  const MediaTokens& tokens = prompts_.reader().tokens(false);
  const auto written = [&](const Prepared& one) {
    if (!tokens.bare) return one->places.text(tokens.token);
    std::string all;
    for (int i = 0; i < one->places.image_tokens(); ++i) all += tokens.token;
    return all;
  };
  for (const char* between : {" and ", "\n", "", "<|end|>", "\n\n x"}) {
    const std::string marked = "Look:\n" + tokens.mark + between + tokens.mark + between;
    const std::string whole = "Look:\n" + written(media[0]) + between + written(media[1]) + between;
    const auto prompt = encode_media_prompt(prompts_.model(), Prompt(marked), media, {}, "text");
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    EXPECT_EQ(prompt->ids, *prompts_.model().tokenizer()->encode(whole)) << between;
  }
}

TEST_P(GoldenPrompts, ProgramsShowThemUpToTheirLastPicture) {
  const Json& one = golden_["cases"][1];
  const std::string file = espalier::testing::read_file(folder_ / one["images"][0].get<std::string>());
  const auto shown = program_pictures(prompts_.model(), std::make_shared<Budget>(64 << 20));
  ASSERT_NE(shown, nullptr);
  const auto picture = std::make_shared<const Picture>(Picture{Picture::Kind::image, file, "image/png", 0});
  const std::string text = "see <image> here";
  const auto begun = shown->encode(text, std::span(&picture, 1), {});
  ASSERT_TRUE(begun.ok()) << begun.error().message;
  EXPECT_EQ(text.substr(begun->bytes), " here");

  expect_spans({begun->ids, begun->pictures}, golden_["image_token_id"], one["tokens_per_image"]);
  const auto whole = encode_media_prompt(prompts_.model(), Prompt(text), prompts_.prepared(one["images"]), {}, "text");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(begun->pictures[0].content, whole->pictures[0].content);
  ASSERT_LE(begun->ids.size(), whole->ids.size());
  EXPECT_TRUE(std::equal(begun->ids.begin(), begun->ids.end(), whole->ids.begin()));
  EXPECT_FALSE(shown->encode("no mark", std::span(&picture, 1), {}).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenPrompts, ::testing::ValuesIn(golden_folders()), espalier::testing::golden_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenPrompts);

TEST(ImageTokens, AreCountedUpToAPlace) {
  std::vector<PictureInput> pictures(2);
  pictures[0].spans = {{2, 3}, {7, 1}};
  pictures[1].spans = {{10, 4}};
  const ImageTokens tokens(pictures);
  EXPECT_EQ(tokens.count(), 8);
  EXPECT_EQ(tokens.among_first(0), 0);
  EXPECT_EQ(tokens.among_first(4), 2);
  EXPECT_EQ(tokens.among_first(8), 4);
  EXPECT_EQ(tokens.among_first(12), 6);
}

}  // namespace
}  // namespace espalier::server::media_prompt_test
