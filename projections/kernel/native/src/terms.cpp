#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

extern "C" {
#include "../snowball/runtime/api.h"
#include "../snowball/src_c/stem_UTF_8_english.h"
}
#include "text.h"

namespace mnemolog {
namespace {

constexpr std::size_t kLongestWord = 128, kLongestName = 12;
constexpr std::string_view kMonths[] = {"january", "february", "march",     "april",   "may",      "june",
                                        "july",    "august",   "september", "october", "november", "december"};

enum Kind : unsigned char { kOther, kLower, kUpper, kDigit, kJoiner };

constexpr std::array<Kind, 256> kinds() {
    std::array<Kind, 256> table{};
    for (int code = 0; code < 128; ++code) {
        const char letter = static_cast<char>(code);
        table[code] = is_lower(letter) ? kLower : is_upper(letter) ? kUpper : is_digit(letter) ? kDigit : kOther;
    }
    for (const char joiner : std::string_view(".-/\\:@#_")) table[static_cast<unsigned char>(joiner)] = kJoiner;
    return table;
}
constexpr std::array<Kind, 256> kKinds = kinds();

Kind kind_of(char letter) { return kKinds[static_cast<unsigned char>(letter)]; }
bool is_part(char letter) { return kind_of(letter) - 1u < 3u; }

bool is_shouted(std::string_view text) {
    return text.size() > kLongestName && std::none_of(text.begin(), text.end(), is_lower) &&
           std::any_of(text.begin(), text.end(), is_upper);
}

// The length of the clitic at a place: 's, 're, 've, 'll, 'd, 'm or n't, at the end of a word; 0 if none is there.
std::size_t clitic_at(std::string_view text, std::size_t at) {
    if (at == 0 || !is_word(text[at - 1])) return 0;
    const auto letter = [&](std::size_t ahead) { return at + ahead < text.size() ? lower(text[at + ahead]) : '\0'; };
    std::size_t length = 0;
    if (letter(0) == 'n') {
        length = letter(1) == '\'' && letter(2) == 't' ? 3 : 0;
    } else if (const char first = letter(1), second = letter(2); first == 's' || first == 'd' || first == 'm') {
        length = 2;
    } else if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) {
        length = 3;
    }
    return length && !is_word(letter(length)) ? length : 0;
}

void drop_clitics(std::string_view text, std::string& out) {
    out.clear();
    for (std::size_t at = 0; at < text.size();) {
        const bool may_begin =
            text[at] == '\'' || ((text[at] == 'n' || text[at] == 'N') && at + 1 < text.size() && text[at + 1] == '\'');
        if (const std::size_t length = may_begin ? clitic_at(text, at) : 0) {
            at += length;
        } else {
            out.push_back(text[at++]);
        }
    }
}

// Where the run of letters, digits and joiners between them ends that begins at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at) {
    const std::size_t size = text.size();
    for (;;) {
        while (at < size && is_part(text[at])) ++at;
        if (at + 1 >= size || kind_of(text[at]) != kJoiner) return at;
        std::size_t next = at + 1;
        if (text[at] == ':' && text[next] == ':') {
            ++next;
        } else if (text[at] == '_') {
            while (next < size && text[next] == '_') ++next;
        }
        if (next >= size || !is_part(text[next])) return at;
        at = next;
    }
}

bool all_digits(std::string_view text) { return std::all_of(text.begin(), text.end(), is_digit); }
int number(std::string_view digits) {
    int value = 0;
    for (const char digit : digits) value = 10 * value + digit - '0';
    return value;
}

bool is_version(std::string_view run) {
    if ((run[0] | 0x20) != 'v') return false;
    std::size_t at = 1;
    while (at < run.size() && is_digit(run[at])) ++at;
    return at > 1 && at + 1 < run.size() && run[at] == '.' && is_digit(run[at + 1]);
}

// The words of an ISO date, or of what is written like one, with or without a time; false if the run is none.
bool add_date(std::string_view run, Strings& words) {
    if (run.size() < 10 || run[4] != '-' || run[7] != '-' || (run.size() > 10 && run[10] != 'T')) return false;
    const std::string_view year = run.substr(0, 4), month = run.substr(5, 2), day = run.substr(8, 2);
    if (!all_digits(year) || !all_digits(month) || !all_digits(day)) return false;
    words.add(run.substr(0, 10));
    const int y = number(year), m = number(month), d = number(day);
    constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool is_leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    if (y >= 1 && m >= 1 && m <= 12 && d >= 1 && d <= kDays[m - 1] + (m == 2 && is_leap)) {
        words.add(std::to_string(d));
        words.add(kMonths[m - 1]);
        words.add(std::to_string(y));
    } else {
        for (const std::string_view part : {year, month, day}) words.add(part);
    }
    return true;
}

bool add_ordinal(std::string_view run, Strings& words) {
    if (run.size() < 3 || run.size() > 4) return false;
    const std::string_view digits = run.substr(0, run.size() - 2), ending = run.substr(run.size() - 2);
    if (!all_digits(digits) || (ending != "st" && ending != "nd" && ending != "rd" && ending != "th")) return false;
    words.add(digits);
    return true;
}

// The parts of letters and digits without a joiner: cut where capitals begin a word, as in camelCase and HTTPServer.
void add_parts(std::string_view piece, Strings& words) {
    const bool has_capitals = std::any_of(piece.begin(), piece.end(), is_upper);
    if (!has_capitals || piece.size() > kLongestWord) return words.add_lower(piece.substr(0, kLongestWord));
    std::size_t start = 0;
    for (std::size_t at = 1; at < piece.size(); ++at) {
        const bool after_small = !is_upper(piece[at - 1]);
        const bool before_small = at + 1 < piece.size() && is_lower(piece[at + 1]);
        if (!is_upper(piece[at]) || !(after_small || before_small)) continue;
        words.add_lower(piece.substr(start, at - start));
        start = at;
    }
    words.add_lower(piece.substr(start));
}

// The beginnings of a version, then the elements with a dot of a path or qualified name, then its names that have parts.
void add_elements(std::string_view run, Strings& words) {
    for (std::size_t at = 1, dots = 0; at + 1 < run.size() && run.size() <= kLongestWord; ++at)
        if (run[at] == '.' && is_digit(run[at - 1]) && is_digit(run[at + 1]) && dots++) words.add_lower(run.substr(0, at));
    for (const bool of_names : {false, true}) {
        const auto separates = [=](char letter) {
            return letter == '/' || letter == ':' || letter == '#' || letter == '\\' || (of_names && letter == '.');
        };
        const auto joins = [=](char letter) { return of_names ? letter == '_' || letter == '-' : letter == '.'; };
        split(run, separates, [&](std::string_view part) {
            if (part.size() < run.size() && std::any_of(part.begin(), part.end(), joins))
                words.add_lower(part.substr(0, kLongestWord));
            return true;
        });
    }
}

// The words of a run that is more than small letters: forms in which it is named whole, and its parts. Returns whether
// it has several.
bool add_words(std::string_view run, Strings& words) {
    if (is_version(run)) {
        words.add_lower(run.substr(0, kLongestWord));
        run.remove_prefix(1);
    }
    if (is_digit(run[0]) && add_date(run, words)) return true;
    if (is_digit(run[0]) && add_ordinal(run, words)) return false;
    std::size_t at = 0;
    while (at < run.size() && is_part(run[at])) ++at;
    const bool has_joiner = at < run.size();
    if (!has_joiner && std::none_of(run.begin() + 1, run.end(), is_upper)) {
        words.add_lower(run.substr(0, kLongestWord));
        return false;
    }
    const std::size_t whole = words.size();
    if (run.size() <= kLongestWord) words.add_lower(run);
    if (has_joiner) add_elements(run, words);
    const std::size_t parts = words.size();
    for (at = 0; at < run.size(); ++at) {
        const std::size_t start = at;
        while (at < run.size() && is_part(run[at])) ++at;
        if (at > start) add_parts(run.substr(start, at - start), words);
    }
    // a whole word in capitals is its only part
    if (run.size() <= kLongestWord && words.size() == whole + 2 && words[whole] == words[whole + 1]) words.pop();
    return words.size() > parts + 1;
}

// Whether a run that begins with its only capital is inside a sentence that is not all in such words.
bool is_inside(std::string_view text, std::size_t start, std::size_t end) {
    if (!is_upper(text[start]) || start < 2 || text[start - 1] != ' ' || end - start < 2) return false;
    const char before = text[start - 2], after = end < text.size() ? text[end] : ' ';
    if (!is_lower(before) && !is_digit(before) && before != ',' && before != ';' && before != ')') return false;
    return std::all_of(text.begin() + start + 1, text.begin() + end, is_lower) && after != '_' &&
           (after != ' ' || end + 1 >= text.size() || !is_upper(text[end + 1]));
}

}  // namespace

void Strings::add_lower(std::string_view text) {
    const std::size_t start = letters_.size();
    letters_.append(text).push_back(' ');
    for (std::size_t at = start; at < letters_.size(); ++at) letters_[at] = lower(letters_[at]);
    ends_.push_back(letters_.size());
}

Terms::Terms(WordSet stop_words, WordSet operators)
    : stop_words_(std::move(stop_words)),
      operators_(std::move(operators)),
      stemmer_(english_UTF_8_create_env(), english_UTF_8_close_env),
      kept_(kSlots) {
    if (!stemmer_) throw std::bad_alloc();
}

Terms::~Terms() = default;

const Strings& Terms::of(std::string_view text) {
    const bool shouted = is_shouted(text);
    if (shouted || text.find('\'') != text.npos) {
        drop_clitics(text, plain_);
        if (shouted) std::transform(plain_.begin(), plain_.end(), plain_.begin(), lower);
        text = plain_;
    }
    const auto each_run = [&](auto read) {
        for (std::size_t at = 0; at < text.size(); ++at) {
            if (!is_part(text[at])) continue;
            const std::size_t end = end_of_run(text, at);
            read(at, end);
            at = end;
        }
    };
    for (const bool with_names : {true, false}) {
        terms_.clear();
        each_run([&](std::size_t start, std::size_t end) {
            read_run(text.substr(start, end - start), with_names && is_inside(text, start, end));
        });
        for (std::size_t place = 0; place < terms_.size(); ++place)
            if (terms_[place][0] != '=') return terms_;
    }
    if (terms_.size() == 0) {  // nothing but stop words: they are kept, each also as a name
        words_.clear();
        each_run([&](std::size_t start, std::size_t end) { add_words(text.substr(start, end - start), words_); });
        for (std::size_t place = 0; place < words_.size(); ++place) {
            terms_.add(words_[place]);
            terms_.add_name(words_[place]);
        }
    }
    return terms_;
}

void Terms::read_run(std::string_view run, bool is_name) {
    std::size_t small = 0;
    while (small < run.size() && is_lower(run[small])) ++small;
    if (small == run.size() && small <= kLongestWord) return add_stem(run);
    words_.clear();
    if (is_name || (run.size() > 1 && std::all_of(run.begin(), run.end(), is_upper))) {
        words_.add_lower(run);
        if (stop_words_.contains(words_[0]) && !operators_.contains(words_[0])) return terms_.add_name(words_[0]);
        words_.clear();
    }
    const bool are_parts = add_words(run, words_);
    for (std::size_t place = 0; place < words_.size(); ++place) add_stem(words_[place], are_parts);
}

// A stop word is left out, or a name if it is a part of one.
void Terms::add_stem(std::string_view word, bool is_part) {
    if (word.size() > kLongestKept) {
        if (!stop_words_.contains(word)) terms_.add(stem(word));
        return;
    }
    std::array<std::uint64_t, 2> key{};
    auto* letters = reinterpret_cast<char*>(key.data());
    std::memcpy(letters, word.data(), word.size());
    letters[kLongestKept] = static_cast<char>(word.size());
    std::uint64_t hash = 0;
    for (const std::uint64_t part : key) hash = (std::rotl(hash, 5) ^ part) * 0x9e3779b97f4a7c15u;
    Slot& slot = kept_[hash >> (64 - std::countr_zero(kSlots))];
    auto* kept = reinterpret_cast<unsigned char*>(slot.stem.data());
    if (slot.word[0] != key[0] || slot.word[1] != key[1]) {
        const bool is_stop_word = stop_words_.contains(word);
        const std::string_view root = is_stop_word ? std::string_view() : stem(word);
        if (root.size() > kLongestKept) return terms_.add(root);
        slot = {key, {}};
        std::copy(root.begin(), root.end(), kept);
        kept[kLongestKept] = is_stop_word ? kStopWord : static_cast<unsigned char>(root.size());
    }
    if (kept[kLongestKept] != kStopWord) return terms_.add({reinterpret_cast<const char*>(kept), kept[kLongestKept]});
    if (is_part) terms_.add_name(word);
}

std::string_view Terms::stem(std::string_view word) {
    const auto* letters = reinterpret_cast<const symbol*>(word.data());
    if (SN_set_current(stemmer_.get(), static_cast<int>(word.size()), letters) ||
        english_UTF_8_stem(stemmer_.get()) < 0)
        throw std::bad_alloc();
    return {reinterpret_cast<const char*>(stemmer_->p), static_cast<std::size_t>(stemmer_->l)};
}

}  // namespace mnemolog
