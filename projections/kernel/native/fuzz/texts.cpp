// `texts [inputs] [seed]`: made-up texts through every function that reads texts, built with sanitizers. It says nothing
// of what they find (tests/unit/kernel compares that), only that they stay within bounds, end, and give parts of a text.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "../src/text.h"

namespace {

using namespace mnemolog;

constexpr std::string_view kPieces[] = {"the",
                                        "The",
                                        "IT",
                                        "can't",
                                        "Ada's",
                                        "n't",
                                        "'",
                                        "''",
                                        "_",
                                        "__",
                                        "::",
                                        ".",
                                        "..",
                                        "--",
                                        "/",
                                        "//",
                                        "\\",
                                        "@",
                                        "#",
                                        "2023-05-08",
                                        "2023-13-40",
                                        "T10",
                                        "1st",
                                        "v1.2",
                                        "camelCase",
                                        "HTTPServer",
                                        "src/a.py",
                                        "policy",
                                        "running",
                                        "`",
                                        "`a*b`",
                                        "Hello World",
                                        "#tag",
                                        "http://x.y/z",
                                        "mailto:",
                                        "//host.com/",
                                        "</div",
                                        ">",
                                        ":12:3",
                                        "key=",
                                        "--flag",
                                        "{\"a\"",
                                        "\\\"",
                                        "(?",
                                        "{",
                                        "}",
                                        ",",
                                        "s/a/b/",
                                        "is",
                                        "fixed",
                                        "?",
                                        "!",
                                        "\n",
                                        " ",
                                        " ",
                                        " ",
                                        "\t",
                                        "\x1c",
                                        "*",
                                        "**",
                                        "1.2.3.4:5/",
                                        "localhost",
                                        "iVBORw0KGgo",
                                        "aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/aB3/",
                                        "yesterday",
                                        "last",
                                        "week",
                                        "ago",
                                        "in",
                                        "two",
                                        "days",
                                        "I'm",
                                        "me",
                                        "www.",
                                        "a.com/",
                                        "mcp__x",
                                        "$",
                                        "|",
                                        "+",
                                        "=",
                                        "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"};

class Dice {
public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    std::size_t below(std::size_t limit) { return engine_() % limit; }
    std::string text() {
        std::string made;
        const std::size_t pieces = below(below(8) ? 24 : 400);
        for (std::size_t piece = 0; piece < pieces; ++piece) {
            if (below(5)) {
                made += kPieces[below(std::size(kPieces))];
            } else {
                made.append(1 + below(below(9) ? 2 : 150), static_cast<char>(below(128)));
            }
        }
        return made;
    }

private:
    std::mt19937_64 engine_;
};

void require(bool holds, const std::string& text) {
    if (holds) return;
    std::fprintf(stderr, "a result is not within the text:\n%s\n", text.c_str());
    std::abort();
}

void read(Dice& dice, Terms& terms, IndexTerms& index, const Names& names) {
    // of exactly the text's size, so that a look behind its end is noticed
    const std::string made = dice.text();
    const std::vector<char> letters(made.begin(), made.end());
    const std::string_view text(letters.data(), letters.size());
    terms.of(text);
    index.read(text);
    require(index.times().size() <= 16, made);
    const std::size_t at_most = dice.below(30);
    require(names.paths(text, at_most).size() <= at_most && names.concepts(text, at_most).size() <= at_most, made);
    for (const Span fact : names.facts(text, at_most)) require(fact.start < fact.end && fact.end <= text.size(), made);
    names.is_weighty(text);
    const std::size_t limit = 2 + dice.below(300);
    if (text.size() <= limit) return;
    const Span part = stretch(text, {"polici", "run", "", std::string(kPieces[dice.below(std::size(kPieces))])}, limit);
    require(part.start <= part.end && part.end <= text.size() && part.end - part.start <= limit, made);
}

}  // namespace

int main(int count, char** arguments) {
    const long inputs = count > 1 ? std::atol(arguments[1]) : 1'000'000;
    Dice dice(count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1);
    Terms terms({"the", "is", "it", "in", "me"}, {"is"});
    IndexTerms index(terms, {{"the", "is", "it", "in"},
                             {"week"},
                             {"two"},
                             {"me", "I'm"},
                             {"yesterday", "ago", "week", "days", "last"},
                             {"last ", " ago", "yesterday"},
                             {"+i", "+when", "+ask", "+num"}});
    const Names names({{"the"}, {"is"}, {"fixed"}, {"read", "bash"}, {"py"}, {".env"}, {"iVBORw0KGgo"}});
    for (long input = 0; input < inputs; ++input) read(dice, terms, index, names);
    std::printf("%ld texts\n", inputs);
}
