// Two tips found and written out at the same time, each in a branch of its own; the parent reads both.
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

void tips(sgl::State& s, const std::string& topic) {
  s += "Two tips for " + topic + ": 1. stay safe. 2. begin early.\n";
  auto forks = s.fork(2);
  forks += [](int i) {
    return "Tip " + std::to_string(i + 1) + " in detail:" + sgl::gen("detail", {.max_tokens = 32, .stop = "\n"});
  };
  s += "Tip 1:" + forks[0]["detail"] + "\nTip 2:" + forks[1]["detail"] + "\nIn short:";
  s += sgl::gen("summary", {.max_tokens = 24, .stop = "\n"});
}

int main() {
  const sgl::State state = sgl::run([](sgl::State& s) { tips(s, "a long bicycle tour"); },
                                    {.backend = example::open_backend(), .defaults = {.temperature = 0}});
  std::cout << state.text() << "\n";
}
