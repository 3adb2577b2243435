// Judges an essay from several sides at once and puts the judgements together as JSON.
//
// One prompt, a choice that ends early for what is no essay, a branch for each dimension (they share the prompt, which
// is computed once), a summary, a grade, and a report whose form a regex fixes. The program of the SGLang paper's
// figure 2.
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kDimensions[] = {"Clarity", "Originality", "Evidence"};
constexpr const char* kReport = R"(\{"summary": "[\w .,]{1,120}", "grade": "[ABCD][+-]?"\})";
constexpr const char* kEssay =
    "Cities should plant more trees. A street with trees is several degrees cooler in summer, holds back rain\n"
    "and is quieter. The cost is small: a young tree costs less than a lamp post, and it lasts longer.";

void judge(sgl::State& s, const std::string& essay, const char* picture) {
  s += sgl::system("You evaluate essays.");
  {
    const auto turn = s.role("user");
    if (picture != nullptr) s += sgl::image(picture);
    s += "Text: " + essay + "\nWhat kind of text is this?";
  }
  s += sgl::assistant("Kind of text: " + sgl::select("kind", {"essay", "recipe", "letter"}));
  if (s["kind"].text() != "essay") return;

  auto forks = s.fork(std::size(kDimensions));
  for (std::size_t i = 0; i < forks.size(); ++i) {
    forks[i] +=
        sgl::user(sgl::Expr("Judge its ") + kDimensions[i] + " in one sentence, then give a score from 1 to 5.");
    forks[i] += sgl::assistant(sgl::gen("judgement", {.max_tokens = 40, .stop = "\n"}) +
                               "\nScore: " + sgl::gen("score", {.regex = "[1-5]"}));
  }
  forks.join();

  std::string judgements = "The judgements:\n";
  for (std::size_t i = 0; i < forks.size(); ++i)
    judgements += kDimensions[i] + (": " + forks[i]["judgement"].text()) + " (" + forks[i]["score"].text() + "/5)\n";
  s += sgl::user(judgements + "Summarise them as JSON with a grade.");
  s += sgl::assistant(sgl::gen("report", {.max_tokens = 80, .regex = kReport}));
}

int main(int argc, char** argv) {
  const char* picture = argc > 1 ? argv[1] : nullptr;  // for back ends whose model sees
  const sgl::State state = sgl::run([&](sgl::State& s) { judge(s, kEssay, picture); },
                                    {.backend = example::open_backend(), .defaults = {.temperature = 0}});
  std::cout << "kind of text: " << state["kind"].text() << "\n";
  if (state["kind"].text() != "essay") return 0;
  for (std::size_t i = 0; i < std::size(kDimensions); ++i)
    std::cout << kDimensions[i] << " " << state["score"].list()[i].text()
              << "/5: " << state["judgement"].list()[i].text() << "\n";
  std::cout << "report: " << state["report"].json() << "\n";
}
