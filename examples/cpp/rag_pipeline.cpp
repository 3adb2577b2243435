// Retrieval-augmented answers: finds passages, answers from each on its own, then from all that say something.
#include <algorithm>
#include <functional>
#include <iostream>

#include "_backend.h"
#include "_facts.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kQuestions[] = {"How high is Mount Everest?", "How long is a marathon?"};

std::vector<std::string> retrieve(const std::string& question, std::size_t count) {
  std::vector<std::string> passages = example::facts();
  std::ranges::stable_sort(passages, std::greater(),
                           [&](const std::string& p) { return example::common_words(question, p); });
  passages.resize(std::min(count, passages.size()));
  return passages;
}

void answer(sgl::State& s, const sgl::Arguments& given) {
  const std::string question = given["question"];
  s += sgl::system("You answer questions from the passage that is given.");
  const std::vector<std::string> passages = retrieve(question, 3);
  auto forks = s.fork(passages.size());
  for (std::size_t i = 0; i < forks.size(); ++i)
    forks[i] += sgl::user("Passage: " + passages[i] + "\nQuestion: " + question + "\nDoes the passage tell?");
  forks += sgl::assistant(sgl::select("tells", {"yes", "no"}));
  forks.join();

  std::string kept;
  for (std::size_t i = 0; i < forks.size(); ++i)
    if (forks[i]["tells"].text() == "yes") kept += passages[i] + "\n";
  if (kept.empty()) kept = passages[0] + "\n";
  s += sgl::user("Passages:\n" + kept + "Question: " + question);
  s += sgl::assistant(sgl::gen("answer", {.max_tokens = 32, .stop = "\n"}));
}

int main() {
  std::vector<sgl::Arguments> items;
  for (const char* question : kQuestions) items.push_back({{"question", question}});
  const auto states = sgl::Function("answer", {"question"}, answer)
                          .run_batch(items, {.backend = example::open_backend(), .defaults = {.temperature = 0}});
  for (std::size_t i = 0; i < states.size(); ++i)
    std::cout << kQuestions[i] << " -> " << states[i]["answer"].text() << "\n";
}
