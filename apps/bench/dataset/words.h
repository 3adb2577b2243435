// words.h: common English words, of which most vocabularies hold each as one token when a space stands before it.
#pragma once

#include <array>
#include <string_view>

namespace espalier::bench {

inline constexpr auto kWords = std::to_array<std::string_view>({
    "time",   "year",    "people",  "way",     "day",      "man",      "thing",  "woman",  "life",    "child",
    "world",  "school",  "state",   "family",  "group",    "country",  "hand",   "part",   "place",   "case",
    "week",   "company", "system",  "program", "question", "work",     "number", "night",  "point",   "home",
    "water",  "room",    "mother",  "area",    "money",    "story",    "fact",   "month",  "lot",     "right",
    "study",  "book",    "eye",     "job",     "word",     "business", "issue",  "side",   "kind",    "head",
    "house",  "service", "friend",  "father",  "power",    "hour",     "game",   "line",   "end",     "member",
    "law",    "car",     "city",    "name",    "team",     "minute",   "idea",   "body",   "back",    "parent",
    "face",   "level",   "office",  "door",    "health",   "person",   "art",    "war",    "history", "party",
    "result", "change",  "morning", "reason",  "air",      "force",    "foot",   "boy",    "age",     "policy",
    "music",  "market",  "sense",   "plan",    "college",  "interest", "death",  "class",  "river",   "road",
    "table",  "north",   "south",   "summer",  "winter",   "stone",    "paper",  "light",  "voice",   "field",
    "letter", "order",   "horse",   "garden",  "window",   "picture",  "street", "island", "engine",  "forest",
});

}  // namespace espalier::bench
