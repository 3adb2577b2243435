// Few-shot classification by likelihood: the examples are computed once for the whole batch, a choice is always valid.
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr std::pair<const char*, const char*> kExamples[] = {
    {"The soup was cold.", "negative"}, {"What a lovely evening!", "positive"}, {"It opens at nine.", "neutral"}};
constexpr const char* kTexts[] = {"I will come again.", "Never in my life have I waited so long.",
                                  "The hotel has forty rooms.", "Best cake ever!"};

void classify(sgl::State& s, const sgl::Arguments& given) {
  for (const auto& [example, label] : kExamples) s += sgl::Expr("Text: ") + example + "\nFeeling: " + label + "\n\n";
  s += "Text: " + given["text"] + "\nFeeling:";
  s += sgl::select("label", {" positive", " negative", " neutral"}, 0, sgl::greedy_token_selection());
}

int main() {
  std::vector<sgl::Arguments> items;
  for (const char* text : kTexts) items.push_back({{"text", text}});
  const auto states =
      sgl::Function("classify", {"text"}, classify).run_batch(items, {.backend = example::open_backend()});
  for (std::size_t i = 0; i < states.size(); ++i)
    std::cout << states[i]["label"].text() << " " << states[i].meta("label")["normalized_prompt_logprobs"] << " "
              << kTexts[i] << "\n";
}
