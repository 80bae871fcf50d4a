#include <algorithm>
#include <map>
#include <stdexcept>

#include "text.h"

namespace mnemolog {
namespace {

constexpr std::size_t kMostWords = 32, kMostPlaces = 20, kLead = 120;
constexpr double kCutFrom = 0.8;
// Divisible by every count of places up to `kMostPlaces`, so that the weights of words are whole numbers.
constexpr std::int64_t kWeight = 232'792'560;

using Gap = Span;

struct Match {
    std::size_t place, word;
    auto operator<=>(const Match&) const = default;
};

// The distinct words that are looked for, in alphabetical order, so that equal places are in that order.
std::vector<std::string> words_of(const std::vector<std::string>& query_terms) {
    std::vector<std::string> words(query_terms.begin(), query_terms.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                                  query_terms.size(), kMostWords)));
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    return words;
}

void find_word(std::string_view lowered, std::string_view word, std::size_t number, std::vector<Match>& matches) {
    // "policies" and "policy" are both stemmed to "polici"
    if (word.size() > 4 && (word.back() == 'i' || word.back() == 'y')) word.remove_suffix(1);
    std::size_t left = kMostPlaces;
    const std::size_t step = std::max<std::size_t>(word.size(), 1);
    for (std::size_t at = lowered.find(word); at != lowered.npos && left; at = lowered.find(word, at + step)) {
        if (at && is_alnum(lowered[at - 1])) continue;
        matches.push_back({at, number});
        --left;
    }
}

// Where the stretch of text begins that says the most different words, the rarer ones before the others.
std::size_t best_place(std::string_view text, const std::vector<std::string>& words, std::size_t distance) {
    std::string lowered(text);
    std::transform(lowered.begin(), lowered.end(), lowered.begin(), lower);
    std::vector<Match> matches;
    for (std::size_t number = 0; number < words.size(); ++number) find_word(lowered, words[number], number, matches);
    std::sort(matches.begin(), matches.end());
    std::vector<std::int64_t> places(words.size()), inside(words.size());
    for (const Match& match : matches) ++places[match.word];
    std::size_t best = 0, first = 0;
    std::int64_t best_weight = 0, weight = 0;
    const auto weight_of = [&](std::size_t word) { return kWeight / places[word] + kWeight; };
    for (const Match& match : matches) {
        if (inside[match.word]++ == 0) weight += weight_of(match.word);
        for (; match.place - matches[first].place > distance; ++first)
            if (--inside[matches[first].word] == 0) weight -= weight_of(matches[first].word);
        if (weight > best_weight) best = matches[first].place, best_weight = weight;
    }
    return best;
}

// The next gap between sentences from `at` on: white space behind . ! or ?, or line ends. {size, size} without one.
Gap next_gap(std::string_view text, std::size_t at) {
    for (; at < text.size(); ++at) {
        std::size_t end = at;
        if (is_space(text[at]) && at && (text[at - 1] == '.' || text[at - 1] == '!' || text[at - 1] == '?')) {
            while (end < text.size() && is_space(text[end])) ++end;
        } else {
            while (end < text.size() && text[end] == '\n') ++end;
        }
        if (end > at) return {at, end};
    }
    return {text.size(), text.size()};
}

// Where a stretch of `room` characters is cut: at the end of a sentence, else of a word, near its end.
std::size_t cut_of(std::string_view stretch, std::size_t room) {
    std::size_t sentence = 0;
    for (Gap gap = next_gap(stretch, 0); gap.start < stretch.size(); gap = next_gap(stretch, gap.end))
        sentence = gap.start;
    const auto least = static_cast<std::size_t>(kCutFrom * static_cast<double>(room));
    if (sentence > least) return sentence;
    const std::size_t space = stretch.rfind(' ');
    return space != stretch.npos && space > least ? space : stretch.size();
}

}  // namespace

Span stretch(std::string_view text, const std::vector<std::string>& query_terms, std::size_t limit) {
    if (limit < 2) throw std::invalid_argument("the limit of a snippet is too small");
    const std::size_t lead = std::min(kLead, limit / 2);
    std::size_t start = best_place(text, words_of(query_terms), limit - lead);
    const std::string_view before = text.substr(start > lead ? start - lead : 0, std::min(start, lead));
    if (start <= lead) {
        start = 0;
    } else if (Gap gap = next_gap(before, 0); gap.end > gap.start) {
        for (Gap next = gap; next.end > next.start; next = next_gap(before, next.end)) gap = next;
        start -= before.size() - gap.end;
    } else if (const std::size_t space = before.find(' ', before.size() / 2); space != before.npos) {
        start -= before.size() - (space + 1);
    }
    // at most `limit` characters, ellipses included
    const std::size_t room = limit - (start > 0);
    std::size_t end = text.size();
    if (end - start > room) end = start + cut_of(text.substr(start, room - 1), room);
    return {start, end};
}

}  // namespace mnemolog
