#include "text/chat/chat_media.h"

#include <gtest/gtest.h>

#include "text/chat/chat_template.h"

namespace espalier::chat_media_test {
namespace {

// A template with its forms.
struct Shown {
  explicit Shown(const std::string& source, std::string picture = "<|pad|>", std::string film = "<|film|>")
      : parsed(ChatTemplate::parse(source).value()) {
    const auto render = [this](const Json& messages) {
      ChatInput input;
      input.messages = &messages;
      auto text = parsed.render(input);
      return text.ok() ? std::optional(std::move(text).value()) : std::nullopt;
    };
    forms = MediaForms::of(render, parsed.content_form(), std::move(picture), std::move(film));
  }

  // The text with "{N}" in the place of medium N, or "none" where they do not stand there once each.
  std::string operator()(const char* messages) const {
    const Json parsed_messages = parse_json(messages).value();
    ShownMedia media = forms.adapt(parsed_messages, parsed.content_form());
    media.messages = parsed.content_form().adapt(media.messages);
    ChatInput input;
    input.messages = &media.messages;
    const RenderedChat chat = parsed.render_traced(input).value();
    const auto marks = forms.find(chat.text, chat.own, media);
    if (!marks) return "none";
    std::string text;
    std::size_t at = 0;
    for (const MediaMark& mark : *marks) {
      text += chat.text.substr(at, mark.begin - at) + "{" + std::to_string(mark.medium) + "}";
      at = mark.begin + mark.bytes;
    }
    return text + chat.text.substr(at);
  }

  ChatTemplate parsed;
  MediaForms forms;
};

const char* const kTwo =
    R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"and"},{"type":"image"}]}])";

const std::string kQwen =
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
    "{% if c.type == 'image' or 'image' in c or 'image_url' in c %}<s><|pad|><e>{% elif c.type == 'video' "
    "%}<s><|film|><e>"
    "{% elif 'text' in c %}{{ c.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}";

TEST(MediaForms, ATemplateThatKnowsPicturesMarksThemItself) {
  const Shown qwen(kQwen);
  EXPECT_EQ(qwen(kTwo), "[user]<s>{0}<e>and<s>{1}<e>");
  EXPECT_EQ(qwen.forms.around(false), "<s><|pad|><e>");
  EXPECT_EQ(qwen.forms.around(true), "<s><|film|><e>");
  EXPECT_EQ(qwen(R"([{"role":"user","content":[{"type":"video"},{"type":"image"},{"type":"video"}]}])"),
            "[user]<s>{0}<e><s>{1}<e><s>{2}<e>");
}

TEST(MediaForms, TheWordsOfAUserAreNoMarks) {
  const Shown qwen(kQwen);
  EXPECT_EQ(qwen(R"([{"role":"user","content":[{"type":"text","text":"<|pad|>"},{"type":"image"}]}])"),
            "[user]<|pad|><s>{0}<e>");
  EXPECT_EQ(qwen(R"([{"role":"user","content":"<|pad|>"},{"role":"user","content":[{"type":"image"}]}])"),
            "[user]<|pad|>[user]<s>{0}<e>");
}

TEST(MediaForms, OtherFormsOfPartsAreFoundOut) {
  for (const char* test : {"c.type == 'image_url'", "c.type == 'image' and 'image' in c"}) {
    const Shown shown(std::string("{% for m in messages %}{% for c in m.content %}{% if ") + test +
                      " %}<|pad|>{% elif c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %}{% endfor %}");
    EXPECT_EQ(shown(kTwo), "{0}and{1}") << test;
  }
}

TEST(MediaForms, ATemplateOfTextsGetsPicturesOnLinesOfTheirOwn) {
  const Shown plain("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}");
  EXPECT_EQ(plain(kTwo), "<user>{0}\nand\n{1}");
  EXPECT_EQ(
      plain(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"image"}]}])"),
      "<user>a b\n{0}");
  EXPECT_EQ(plain.forms.around(false), "<|pad|>");
}

TEST(MediaForms, RolesAreAskedByThemselves) {
  const Shown mixed(
      "{% for m in messages %}{% if m.role == 'tool' %}({{ m.content }}){% elif m.content is string %}{{ m.content }}"
      "{% else %}{% for c in m.content %}{% if c.type == 'image' %}<|pad|>{% else %}{{ c.text }}{% endif %}{% endfor %}"
      "{% endif %}{% endfor %}");
  EXPECT_EQ(mixed(R"([{"role":"user","content":[{"type":"image"}]},{"role":"assistant","content":"x"},
                      {"role":"tool","content":[{"type":"text","text":"see"},{"type":"image"}]}])"),
            "{0}x(see\n{1})");
}

TEST(MediaForms, WhatATemplateLeavesOutIsNoticed) {
  const Shown last(
      "{% for m in messages %}{% set at_end = loop.last %}{% for c in m.content %}{% if c.type == 'image' %}"
      "{% if at_end %}<|pad|>{% endif %}{% else %}{{ c.text }}{% endif %}{% endfor %}{% endfor %}");
  EXPECT_EQ(last(kTwo), "{0}and{1}");
  EXPECT_EQ(last(R"([{"role":"user","content":[{"type":"image"}]},{"role":"user","content":[{"type":"image"}]}])"),
            "none");
}

}  // namespace
}  // namespace espalier::chat_media_test
