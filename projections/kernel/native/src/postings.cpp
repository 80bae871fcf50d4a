#include "postings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>

namespace mnemolog {
namespace {

void append_number(std::string& packed, std::uint64_t number) {
    while (number >= 0x80) {
        packed.push_back(static_cast<char>(number | 0x80));
        number >>= 7;
    }
    packed.push_back(static_cast<char>(number));
}

// Only of what `append_number` wrote, so the last byte ends it.
std::uint64_t read_number(const char*& at) {
    std::uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(*at++);
        number |= std::uint64_t{byte & 0x7fU} << shift;
        if (byte < 0x80) return number;
    }
}

// The letters of a UTF-8 text; a malformed byte is a letter of its own.
std::u32string letters_of(std::string_view text) {
    std::u32string letters;
    for (std::size_t i = 0; i < text.size();) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const std::size_t length = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
        char32_t letter = length == 1 ? byte : byte & (0x7fU >> length);
        const std::size_t end = std::min(text.size(), i + length);
        for (++i; i < end; ++i) letter = (letter << 6) | (static_cast<unsigned char>(text[i]) & 0x3fU);
        letters.push_back(letter);
    }
    return letters;
}

// A bit for each of 32 kinds of letters that a word has. An edit takes away one at most, and adds one.
std::uint32_t kinds_of(std::u32string_view letters) {
    std::uint32_t kinds = 0;
    for (const char32_t letter : letters) kinds |= std::uint32_t{1} << (letter & 31);
    return kinds;
}

// Whether at most `most` edits turn one word into the other: `candidates.edits`, given up as soon as a row exceeds it.
bool within_edits(std::u32string_view word, std::u32string_view other, std::size_t most) {
    std::array<std::array<std::size_t, kLongestWord + 1>, 3> rows{};
    for (std::size_t j = 0; j <= other.size(); ++j) rows[0][j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
        const auto& before = rows[(i - 1) % 3];
        const auto& earlier = rows[(i + 1) % 3];
        auto& row = rows[i % 3];
        row[0] = i;
        std::size_t least = i;
        for (std::size_t j = 1; j <= other.size(); ++j) {
            std::size_t cost = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (word[i - 1] != other[j - 1])});
            if (i > 1 && j > 1 && word[i - 1] == other[j - 2] && word[i - 2] == other[j - 1])
                cost = std::min(cost, earlier[j - 2] + 1);
            row[j] = cost;
            least = std::min(least, cost);
        }
        // a swap can reach the row after the next from this one, so only a row far above the limit ends it
        if (least > most + 1) return false;
    }
    return rows[word.size() % 3][other.size()] <= most;
}

// Bytes of postings that are always read.
constexpr std::size_t kLongList = 4096;

constexpr std::size_t kMostLetters = 0xffffffff;  // where a word begins has 32 bits

// Spreads hashes whose low bits are alike: multiplication by the golden ratio (Knuth, TAOCP 3, 6.4).
std::size_t mixed(std::uint32_t hash) { return (std::uint64_t{hash} * 0x9e3779b97f4a7c15U) >> 32; }

std::uint32_t bucket(unsigned char first_byte, std::size_t letters) {
    return static_cast<std::uint32_t>(first_byte) << 8 | static_cast<std::uint32_t>(letters);
}

}  // namespace

template <typename Visit>
void Postings::each(std::uint32_t term, Visit visit) const {
    const Term* found = find(term);
    if (found == nullptr) return;
    const std::string& packed = found->packed;
    std::uint32_t document = 0;
    for (const char* at = packed.data(); at != packed.data() + packed.size();) {
        const std::uint64_t step = read_number(at);
        document += static_cast<std::uint32_t>(step >> 1);
        visit(document, step & 1 ? static_cast<std::uint32_t>(read_number(at)) : 1U);
    }
}

std::size_t Postings::slot_of(std::uint32_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = mixed(hash) & mask;
    while (slots_[slot] != 0 && terms_[slots_[slot] - 1].hash != hash) slot = (slot + 1) & mask;
    return slot;
}

const Postings::Term* Postings::find(std::uint32_t hash) const {
    const std::uint32_t number = slots_[slot_of(hash)];
    return number == 0 ? nullptr : &terms_[number - 1];
}

Postings::Term& Postings::find_or_add(std::uint32_t hash) {
    if (const std::uint32_t number = slots_[slot_of(hash)]; number != 0) return terms_[number - 1];
    if (3 * (terms_.size() + 1) > 2 * slots_.size()) {
        slots_.assign(2 * slots_.size(), 0);
        for (std::uint32_t number = 0; number < terms_.size(); ++number)
            slots_[slot_of(terms_[number].hash)] = number + 1;
    }
    terms_.emplace_back().hash = hash;
    slots_[slot_of(hash)] = static_cast<std::uint32_t>(terms_.size());
    return terms_.back();
}

std::string_view Postings::word_of(const Term& term) const { return letters_.data() + term.word; }

void Postings::add(std::uint32_t document, std::span<const std::uint32_t> terms, std::string_view words) {
    std::vector<std::uint32_t> sorted(terms.begin(), terms.end());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size();) {
        const std::size_t begin = i;
        while (i < sorted.size() && sorted[i] == sorted[begin]) ++i;
        Term& term = find_or_add(sorted[begin]);
        const std::size_t times = i - begin;
        append_number(term.packed, std::uint64_t{document - term.last} << 1 | std::uint64_t{times > 1});
        if (times > 1) append_number(term.packed, times);
        term.last = document;
    }
    std::size_t start = 0;
    for (std::size_t i = 0; i < terms.size() && start < words.size(); ++i) {
        const std::size_t end = std::min(words.find(' ', start), words.size());
        add_word(terms[i], words.substr(start, end - start));
        start = end + 1;
    }
}

void Postings::add_word(std::uint32_t term, std::string_view word) {
    const std::uint32_t number = slots_[slot_of(term)];
    if (number == 0 || terms_[number - 1].word != 0 || word.empty() || word.size() > 4 * kLongestWord) return;
    for (const char letter : word)
        if (static_cast<unsigned char>(letter) < 'A') return;  // no word: it has a digit or a sign
    const std::u32string letters = letters_of(word);
    if (letters.size() > kLongestWord || letters_.size() + word.size() >= kMostLetters) return;
    terms_[number - 1].word = static_cast<std::uint32_t>(letters_.size());
    letters_.append(word).push_back('\0');
    words_like_[bucket(static_cast<unsigned char>(word[0]), letters.size())].push_back({number - 1, kinds_of(letters)});
}

std::vector<std::pair<std::uint32_t, std::string>> Postings::words() const {
    std::vector<std::pair<std::uint32_t, std::string>> words;
    for (const Term& term : terms_)
        if (term.word != 0) words.emplace_back(term.hash, word_of(term));
    return words;
}

std::vector<std::int64_t> Postings::frequencies(const Question& question) const {
    std::vector<std::int64_t> frequencies;
    for (const std::uint32_t term : question.terms) {
        std::int64_t count = 0;
        each(term, [&](std::uint32_t document, std::uint32_t) {
            count += document < question.allowed.size() && question.allowed[document];
        });
        frequencies.push_back(count);
    }
    return frequencies;
}

void Postings::touch(const Question& question, std::size_t term, const Bm25* bm25) {
    const std::size_t documents = question.allowed.size();
    if (said_.size() < documents) said_.resize(documents);
    each(question.terms[term], [&](std::uint32_t document, std::uint32_t times) {
        if (document >= documents || !question.allowed[document]) return;
        Said& said = said_[document];
        if (said.terms++ == 0) touched_.push_back(document);
        said.times += times;
        if (bm25 != nullptr)
            said.score += bm25->score(term, times, bm25->norm(static_cast<double>(question.lengths[document])));
    });
}

void Postings::touch(const Question& question, const Bm25* bm25) {
    for (std::size_t term = 0; term < question.terms.size(); ++term) touch(question, term, bm25);
}

void Postings::clear_touched() {
    for (const std::uint32_t document : touched_) said_[document] = {};
    touched_.clear();
}

Scored Postings::best(const Question& question, const Bm25& bm25, std::size_t least, std::size_t most) {
    touch(question, &bm25);
    std::vector<std::uint32_t> saying;
    std::vector<double> scores;
    for (const std::uint32_t document : touched_) {
        if (said_[document].terms < least) continue;
        saying.push_back(document);
        scores.push_back(said_[document].score);
    }
    if (scores.size() > most && most > 0) {
        const auto last = scores.begin() + static_cast<std::ptrdiff_t>(most) - 1;
        std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
        std::erase_if(saying, [&](std::uint32_t document) { return said_[document].score < *last; });
    }
    std::sort(saying.begin(), saying.end());
    Scored best;
    for (const std::uint32_t document : saying) {
        best.documents.push_back(document);
        best.scores.push_back(said_[document].score);
    }
    clear_touched();
    return best;
}

double Postings::score_of_last(std::size_t most) const {
    if (most == 0 || touched_.size() < most) return 0;
    std::vector<double> scores;
    for (const std::uint32_t document : touched_) scores.push_back(said_[document].score);
    const auto last = scores.begin() + static_cast<std::ptrdiff_t>(most) - 1;
    std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
    return *last;
}

std::size_t Postings::length_of(std::uint32_t term) const {
    const Term* found = find(term);
    return found == nullptr ? 0 : found->packed.size();
}

Scored Postings::best_of_rarest(const Question& question, const Bm25& bm25, const TermColumn& documents,
                                std::size_t most) {
    std::vector<std::size_t> order(question.terms.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
        return length_of(question.terms[left]) < length_of(question.terms[right]);
    });
    double left = std::accumulate(bm25.idf.begin(), bm25.idf.end(), 0.0), last = 0;
    auto term = order.begin();
    for (; term != order.end(); ++term) {
        // finding the last of the best takes some time too
        if (length_of(question.terms[*term]) > std::max(kLongList, 4 * touched_.size())) {
            last = score_of_last(most);
            if (last >= left) break;
        }
        touch(question, *term, &bm25);
        left -= bm25.idf[*term];
    }
    Scored best;
    for (const std::uint32_t document : touched_) {
        double score = said_[document].score;
        if (score + left < last) continue;
        const auto row = documents[document];
        const double norm = bm25.norm(static_cast<double>(row.size()));
        for (auto other = term; other != order.end(); ++other)
            score += bm25.score(*other, times_said(row, question.terms[*other]), norm);
        best.documents.push_back(document);
        best.scores.push_back(score);
    }
    clear_touched();
    return best;
}

std::vector<std::int64_t> Postings::mostly(const Question& question, std::size_t least, std::int64_t times,
                                           std::int64_t beside) {
    touch(question, nullptr);
    std::vector<std::int64_t> documents;
    for (const std::uint32_t document : touched_)
        if (said_[document].terms >= least && times * said_[document].times >= question.lengths[document] - beside)
            documents.push_back(document);
    std::sort(documents.begin(), documents.end());
    clear_touched();
    return documents;
}

std::vector<std::string> Postings::similar(const std::string& word, std::size_t edits) const {
    const std::u32string letters = letters_of(word);
    std::vector<std::string> similar;
    if (letters.empty() || letters.size() > kLongestWord) return similar;
    const std::uint32_t kinds = kinds_of(letters);
    const std::size_t shortest = letters.size() > edits ? letters.size() - edits : 1;
    const std::size_t longest = std::min(letters.size() + edits, kLongestWord);
    for (std::size_t length = shortest; length <= longest; ++length) {
        const auto found = words_like_.find(bucket(static_cast<unsigned char>(word[0]), length));
        if (found == words_like_.end()) continue;
        for (const auto& [term, other_kinds] : found->second) {
            if (static_cast<std::size_t>(std::popcount(kinds ^ other_kinds)) > 2 * edits) continue;
            const std::string_view other_word = word_of(terms_[term]);
            const std::u32string other = letters_of(other_word);
            if (other[0] == letters[0] && within_edits(letters, other, edits)) similar.emplace_back(other_word);
        }
    }
    std::sort(similar.begin(), similar.end());
    return similar;
}

}  // namespace mnemolog
