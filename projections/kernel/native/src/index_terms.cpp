#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "text.h"

namespace mnemolog {
namespace {

constexpr std::size_t kScanned = 4'000, kScannedTerms = 600, kLeading = 80, kEnd = 20;
constexpr std::size_t kOneIn = 600,
                      kShortest = 60;  // characters for a word of the first person, and of a text at least
constexpr std::size_t kMostTimes = 16, kBefore = 5, kBehind = 2;  // words around an anchor

constexpr CharacterSet kMarks(".,;:!?()[]\"*");

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
    return std::any_of(beginnings.begin(), beginnings.end(),
                       [&](auto beginning) { return text.starts_with(beginning); });
}

bool is_unit(std::string_view word) { return begins_with_any(word, {"day", "week", "month", "year"}); }

// Whether a date may be named here: yesterday, two weeks ago, in a month, last friday.
bool may_name_time(std::span<const std::string_view> words) {
    for (std::size_t place = 0; place < words.size(); ++place) {
        const std::string_view word = words[place];
        const std::string_view next = place + 1 < words.size() ? words[place + 1] : std::string_view();
        const std::string_view third = place + 2 < words.size() ? words[place + 2] : std::string_view();
        if (word.find("yesterday") != word.npos || word.find("tomorrow") != word.npos) return true;
        if (is_unit(word) && next.starts_with("ago")) return true;
        if (word.ends_with("in") && is_unit(third)) return true;
        if (!word.ends_with("last") && !word.ends_with("past") && !word.ends_with("next")) continue;
        if (is_unit(next) || begins_with_any(next, {"night", "mon", "tue", "wed", "thu", "fri", "sat", "sun"}))
            return true;
    }
    return false;
}

bool asks(std::string_view text) {
    text = text.substr(text.size() < kEnd ? 0 : text.size() - kEnd);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text.ends_with('?');
}

}  // namespace

IndexTerms::IndexTerms(Terms& terms, Lists lists) : reader_(terms), lists_(std::move(lists)) {
    if (lists_.traits.size() != 4) throw std::invalid_argument("there are four traits");
}

void IndexTerms::read(std::string_view text) {
    said_ = &reader_.of(text);
    bool tells_time = false, has_number = false;
    for (std::size_t place = 0; place < std::min(said_->size(), kScannedTerms); ++place) {
        const std::string_view term = (*said_)[place];
        if (term.size() > kLongestListed) continue;
        tells_time = tells_time || lists_.time_stems.contains(term);
        has_number = has_number || lists_.numbers.contains(term);
        if (tells_time && has_number) break;
    }
    const std::string_view scanned = text.substr(0, kScanned);
    const bool is_first_person = kOneIn * count_selves(scanned) > std::max(kShortest, scanned.size());
    traits_.clear();
    const bool has[] = {is_first_person, tells_time, asks(text), has_number};
    for (std::size_t trait = 0; trait < lists_.traits.size(); ++trait)
        if (has[trait]) traits_.add(lists_.traits[trait]);
    lowered_.assign(scanned);
    std::transform(lowered_.begin(), lowered_.end(), lowered_.begin(), lower);
    read_beginning(std::string_view(lowered_).substr(0, kLeading));
    times_.clear();
    read_times(lowered_);
}

std::size_t IndexTerms::count_selves(std::string_view text) {
    std::size_t count = 0;
    split(text, is_space, [&](std::string_view word) {
        const bool may_be = word.size() <= kLongestListed && (word[0] == 'I' || (word[0] | 0x20) == 'm');
        count += may_be && lists_.selves.contains(word);
        return true;
    });
    return count;
}

// The stop words among the words of letters, each once; none for a text of nothing else, whose terms they are.
void IndexTerms::read_beginning(std::string_view text) {
    leading_.clear();
    if (said_->size() && lists_.stop_words.contains((*said_)[0])) return;
    split(
        text, [](char letter) { return !is_lower(letter); },
        [&](std::string_view word) {
            if (!lists_.stop_words.contains(word)) return true;
            for (std::size_t place = 0; place < leading_.size(); ++place)
                if (leading_[place] == word) return true;
            leading_.add(word);
            return true;
        });
}

void IndexTerms::read_times(std::string_view text) {
    std::vector<std::string_view> words;
    split(
        text, [](char sign) { return is_space(sign) || kMarks.contains(sign); },
        [&](std::string_view word) {
            words.push_back(word);
            return true;
        });
    std::size_t anchors = 0;
    for (std::size_t place = 0; place < words.size() && anchors < kMostTimes; ++place) {
        if (words[place].size() > kLongestListed || !lists_.anchors.contains(words[place])) continue;
        ++anchors;
        const std::size_t first = place < kBefore ? 0 : place - kBefore, last = std::min(place + kBehind, words.size());
        const auto around = std::span(words).subspan(first, last - first);
        if (!may_name_time(around)) continue;
        std::string joined;
        for (const std::string_view word : around) joined.append(joined.empty() ? "" : " ").append(word);
        times_.add(joined);
    }
    const auto is_in = [&](const std::string& hint) { return text.find(hint) != text.npos; };
    if (times_.size() && std::none_of(lists_.hints.begin(), lists_.hints.end(), is_in)) times_.clear();
}

}  // namespace mnemolog
