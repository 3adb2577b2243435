// A form filled in hole by hole, after an example. Where calls are paid each, api_spec_tokens lets one call fill all of
// its holes.
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kFisherman = R"(A short sheet about an old fisherman.
Name: Ned Waters
Home: a hut by the sea
Trade: catching herring

)";

void sheet(sgl::State& s, const std::string& character) {
  s += sgl::Expr(kFisherman) + "A short sheet about " + character + ".\n";
  s += "Name:" + sgl::gen("name", {.max_tokens = 12, .stop = "\n"}) + "\n";
  s += "Home:" + sgl::gen("home", {.max_tokens = 12, .stop = "\n"}) + "\n";
  s += "Trade:" + sgl::gen("trade", {.max_tokens = 12, .stop = "\n"}) + "\n";
}

int main() {
  const sgl::State state =
      sgl::run([](sgl::State& s) { sheet(s, "a friendly blacksmith"); },
               {.backend = example::open_backend(), .defaults = {.temperature = 0}, .api_spec_tokens = 64});
  for (const char* name : {"name", "home", "trade"}) std::cout << name << " =" << state[name].text() << "\n";
}
