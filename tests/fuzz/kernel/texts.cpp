// `texts [inputs] [seed]`: made-up texts through every function that reads texts, built with sanitizers. It says nothing
// of what they find (tests/unit/kernel compares that), only that they stay within bounds, end, and give parts of a text.
#include "text.h"
#include "dice.h"

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

std::string made_text(Dice& dice) {
    std::string made;
    const std::size_t pieces = dice.below(dice.below(8) ? 24 : 400);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        if (dice.below(5)) {
            made += dice.one_of(kPieces);
        } else {
            made.append(1 + dice.below(dice.below(9) ? 2 : 150), static_cast<char>(dice.below(128)));
        }
    }
    return made;
}

void check(bool holds, const std::string& text) {
    require(holds, "a result is not within the text:", text.c_str());
}

void read(Dice& dice, Terms& terms, IndexTerms& index, const Names& names, const Payloads& payloads) {
    // of exactly the text's size, so that a look behind its end is noticed
    const std::string made = made_text(dice);
    const std::vector<char> letters(made.begin(), made.end());
    const std::string_view text(letters.data(), letters.size());
    terms.of(text);
    index.read(text);
    check(index.times().size() <= 16, made);
    const std::size_t at_most = dice.below(30);
    std::size_t found = 0;
    const auto take = [&](std::string_view word) {
        check(!word.empty() && word.size() <= text.size(), made);
        return ++found < at_most;
    };
    names.paths(text, take);
    found = 0;
    names.concepts(text, take);
    found = 0;
    names.facts(text, [&](std::string_view fact) {
        check(fact.data() >= text.data() && fact.data() + fact.size() <= text.data() + text.size(), made);
        return take(fact);
    });
    names.is_weighty(text);
    check(!payloads.is_plain(text) || !payloads.may_embed(text), made);
    const std::size_t limit = 2 + dice.below(300);
    if (text.size() <= limit) return;
    const Span part = stretch(text, {"polici", "run", "", std::string(dice.one_of(kPieces))}, limit);
    check(part.start <= part.end && part.end <= text.size() && part.end - part.start <= limit, made);
}

}  // namespace

int main(int count, char** arguments) {
    Terms terms({"the", "is", "it", "in", "me"}, {"is"});
    IndexTerms index(terms, {{"the", "is", "it", "in"},
                             {"week"},
                             {"two"},
                             {"me", "I'm"},
                             {"yesterday", "ago", "week", "days", "last"},
                             {"last ", " ago", "yesterday"},
                             {"+i", "+when", "+ask", "+num"}});
    const Names names({{"the"}, {"is"}, {"fixed"}, {"read", "bash"}, {"py"}, {".env"}, {"iVBORw0KGgo"}});
    const Payloads payloads({"iVBORw0KGgo", "*** ", "Exit Code"});
    return run(count, arguments, "texts", [&](Dice& dice) { read(dice, terms, index, names, payloads); });
}
