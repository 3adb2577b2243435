// A conversation of several turns, streamed as it is written; each turn computes only what is new.
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kQuestions[] = {"Name a river in Europe.", "Which countries does it cross?",
                                      "Say that in five words."};

void chat(sgl::State& s) {
  s += sgl::system("You are a helpful assistant. You answer in one sentence.");
  for (std::size_t i = 0; i < std::size(kQuestions); ++i) {
    s += sgl::user(kQuestions[i]);
    s += sgl::assistant(sgl::gen("answer" + std::to_string(i), {.max_tokens = 32}));
  }
}

int main() {
  const sgl::State state =
      sgl::run(chat, {.backend = example::open_backend(), .defaults = {.temperature = 0}, .stream = true});
  for (std::size_t i = 0; i < std::size(kQuestions); ++i) {
    std::cout << "\nuser: " << kQuestions[i] << "\nassistant: ";
    auto pieces = state.pieces("answer" + std::to_string(i));
    while (const auto piece = pieces.next()) std::cout << piece->text << std::flush;
  }
  std::cout << "\n\nmessages: " << state.messages().size() << "\n";
}
