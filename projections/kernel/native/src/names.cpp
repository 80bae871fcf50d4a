#include <algorithm>
#include <utility>

#include "text.h"

namespace mnemolog {
namespace {

using Text = std::string_view;

constexpr Text kPunctuation = "\"'`()[]{}<>,;|*";  // parts tokens, as white space does
constexpr Text kTrim = ".:!?=&\\";                 // is cut off the ends of a token
constexpr std::size_t kLongestTerm = 201, kLongestPath = 511, kShortestFact = 8, kLongestFact = 200,
                      kShortestBase64 = 16;

bool has(Text text, Text part) { return text.find(part) != text.npos; }
bool has(Text text, char sign) { return text.find(sign) != text.npos; }
bool all(Text text, bool (*test)(char)) { return !text.empty() && std::all_of(text.begin(), text.end(), test); }
bool any(Text text, bool (*test)(char)) { return std::any_of(text.begin(), text.end(), test); }
constexpr CharacterSet kPunctuationSet(kPunctuation), kTrimSet(kTrim);
bool is_separator(char sign) { return is_space(sign) || kPunctuationSet.contains(sign); }
bool is_trimmed(char sign) { return kTrimSet.contains(sign); }
char at(Text text, std::size_t place) { return place < text.size() ? text[place] : '\0'; }

Text without_end(Text text, Text signs) {
    while (!text.empty() && has(signs, text.back())) text.remove_suffix(1);
    return text;
}

Text trimmed(Text text, bool (*is_cut)(char)) {
    while (!text.empty() && is_cut(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_cut(text.back())) text.remove_suffix(1);
    return text;
}

bool is_camel(Text word) {
    for (std::size_t place = 1; place < word.size(); ++place)
        if (is_upper(word[place]) && (is_lower(word[place - 1]) || is_digit(word[place - 1]))) return true;
    return false;
}

bool is_identifier(Text word) { return !word.empty() && !is_digit(word[0]) && all(word, is_word); }

bool is_uuid(Text word) {
    if (word.size() != 36) return false;
    for (std::size_t place = 0; place < 36; ++place) {
        const bool is_dash = place == 8 || place == 13 || place == 18 || place == 23;
        const char sign = lower(word[place]);
        if (is_dash ? sign != '-' : !(is_digit(sign) || (sign >= 'a' && sign <= 'f'))) return false;
    }
    return true;
}

bool is_base64_sign(char sign) { return is_alnum(sign) || has("+/_-", sign); }

bool is_hyphenated(Text word) {
    const auto is_part = [](char sign) { return is_alnum(sign) || sign == '-'; };
    return !has(word, "--") && word.back() != '-' && all(word, is_part) && !is_uuid(word);
}

// A substitution: s/old/new/flags, or y.
bool is_substitution(Text text) {
    if ((text[0] != 's' && text[0] != 'y') || at(text, 1) != '/') return false;
    const std::size_t middle = text.find('/', 2);
    const std::size_t last = middle == text.npos ? middle : text.find('/', middle + 1);
    if (last == text.npos) return false;
    const Text flags = text.substr(last + 1);
    return flags.empty() || all(flags, is_word);
}

// Whether a sign at a place is one of a glob or a regular expression, which no file's name has.
bool is_pattern_at(Text text, std::size_t place) {
    const char next = at(text, place + 1), third = at(text, place + 2);
    const bool has_next = place + 1 < text.size();
    switch (text[place]) {
        case '*':
        case '^':
        case '|':
            return true;
        case '\\':
            return has_next && (has(".*+?()[]{}^$|", next) || (has("wdsb", next) && third && has("+*)", third)));
        case '.':
            return next == '+';
        case '(':
            return next == '?';
        case '?':
            return is_word(next) || next == '/' || next == '.';
        case '$':
            return !has_next;
        case '{': {
            const Text inside = text.substr(place + 1, 101);
            return inside.substr(0, inside.find_first_of("{}")).find(',') != inside.npos;
        }
        default:
            return false;
    }
}

// Where an address ends that begins at a place: a scheme with slashes, mailto:, or //host.name/; the place without one.
std::size_t end_of_address(Text text, std::size_t start) {
    const char before = start ? text[start - 1] : ' ';
    std::size_t end = start;
    if (is_letter(text[start]) && !is_word(before)) {
        while (end < text.size() && end - start <= 20 && (is_alnum(text[end]) || has("+.-", text[end]))) ++end;
        if (at(text, end) != ':') return start;
        const bool is_mail = end - start == 6 && lowered(text.substr(start, 6)) == "mailto";
        if (!is_mail && at(text, end + 1) != '/') return start;
    } else if (text[start] == '/' && at(text, start + 1) == '/' && !is_word(before) && !has(".@/-", before)) {
        end = start + 2;
        while (end < text.size() && (is_word(text[end]) || has(".-", text[end]))) ++end;
        const Text host = text.substr(start + 2, end - start - 2);
        const std::size_t dot = host.rfind('.');
        if (at(text, end) != '/' || dot == host.npos || dot == 0 || !all(host.substr(dot + 1), is_word)) return start;
    } else {
        return start;
    }
    while (end < text.size() && !is_space(text[end])) ++end;
    return end;
}

// Where a closing tag ends that begins at a place; the place without one.
std::size_t end_of_tag(Text text, std::size_t start) {
    if (text[start] != '<' || at(text, start + 1) != '/') return start;
    std::size_t end = start + 2;
    while (end < text.size() && (is_word(text[end]) || has(":.-", text[end]))) ++end;
    if (end == start + 2 || end > start + 102) return start;
    while (end < text.size() && is_space(text[end])) ++end;
    return at(text, end) == '>' ? end + 1 : start;
}

// The text with a space in the place of what `end_of` finds.
template <typename EndOf>
std::string blanked(Text text, EndOf end_of) {
    std::string made;
    made.reserve(text.size());
    for (std::size_t place = 0; place < text.size();) {
        const std::size_t end = end_of(text, place);
        made.push_back(end > place ? ' ' : text[place]);
        place = std::max(end, place + 1);
    }
    return made;
}

std::size_t end_of_digits(Text text, std::size_t place) {
    while (place < text.size() && is_digit(text[place])) ++place;
    return place;
}

// Whether a slash, with or without a port before it, is at a place.
bool ends_host(Text word, std::size_t place) {
    if (at(word, place) == ':' && is_digit(at(word, place + 1))) place = end_of_digits(word, place + 1);
    return at(word, place) == '/';
}

bool begins_with_address_of_numbers(Text word) {
    std::size_t place = 0;
    for (int part = 0; part < 4; ++part) {
        if (part && at(word, place++) != '.') return false;
        const std::size_t end = end_of_digits(word, place);
        if (end == place || end - place > 3) return false;
        place = end;
    }
    return ends_host(word, place);
}

// Whether a word begins with a host's name or address and a slash, www., or is a mail address.
bool begins_with_host(Text word) {
    static const WordSet domains = {"com", "org", "net", "io", "dev", "ai", "app", "co", "gov", "edu", "info", "cloud"};
    const std::string low = lowered(word);
    if (low.starts_with("www.") && (is_word(at(word, 4)) || at(word, 4) == '-')) return true;
    if (low.starts_with("localhost") && ends_host(word, 9)) return true;
    if (begins_with_address_of_numbers(word)) return true;
    std::size_t end = 0, label = 0;
    bool is_host = true;
    for (; is_word(at(word, end)) || at(word, end) == '-' || at(word, end) == '.'; ++end) {
        if (word[end] != '.') continue;
        is_host = is_host && end > label;
        label = end + 1;
    }
    if (is_host && label && domains.contains(Text(low).substr(label, end - label)) && ends_host(word, end)) return true;
    while (end < word.size() && (is_word(word[end]) || has(".+-", word[end]))) ++end;
    return end && at(word, end) == '@' &&
           (is_word(at(word, end + 1)) || at(word, end + 1) == '.' || at(word, end + 1) == '-');
}

// A path without the line, or line and column, that follow it.
Text without_line(Text path) {
    for (int part = 0; part < 2; ++part) {
        const std::size_t colon = path.rfind(':');
        if (colon == path.npos || !all(path.substr(colon + 1), is_digit)) break;
        path = path.substr(0, colon);
    }
    return path;
}

bool has_number_or_pair(Text sentence) {
    for (std::size_t place = 0; place < sentence.size(); ++place) {
        if (is_digit(sentence[place])) return true;
        if ((sentence[place] != ':' && sentence[place] != '=') || !place || !is_word(sentence[place - 1])) continue;
        const std::size_t value = place + 1 + (at(sentence, place + 1) == ' ');
        if (is_word(at(sentence, value))) return true;
    }
    return false;
}

// Whether a sentence has a flag, or the sign of a patch's line in front.
bool is_command(Text sentence) {
    const bool is_signed = sentence[0] == '-' || sentence[0] == '+';
    if (is_signed && sentence.size() > 1 && (!is_space(sentence[1]) || sentence.substr(1, 2) == "  ")) return true;
    for (std::size_t place = sentence.find('-'); place != sentence.npos; place = sentence.find('-', place + 1)) {
        if (place && !is_space(sentence[place - 1])) continue;
        std::size_t end = place + 1 + (at(sentence, place + 1) == '-');
        if (!is_letter(at(sentence, end))) continue;
        while (end < sentence.size() && (is_word(sentence[end]) || sentence[end] == '-')) ++end;
        if (end == sentence.size() || is_space(sentence[end]) || sentence[end] == '=') return true;
    }
    return false;
}

bool has_json(Text sentence) {
    for (std::size_t place = sentence.find('"'); place != sentence.npos; place = sentence.find('"', place + 1)) {
        std::size_t before = place, behind = place + 1;
        if (before && sentence[before - 1] == '\\') return true;
        while (before && is_space(sentence[before - 1])) --before;
        while (behind < sentence.size() && is_space(sentence[behind])) ++behind;
        if (before && (sentence[before - 1] == '{' || sentence[before - 1] == '[')) return true;
        if (behind < sentence.size() && has(":}]", sentence[behind])) return true;
    }
    return false;
}

bool has_word(Text sentence) {
    for (std::size_t place = 1; place < sentence.size(); ++place)
        if (is_letter(sentence[place - 1]) && is_letter(sentence[place])) return true;
    return false;
}

// Whether one of the words is listed in small letters, without the signs that are cut off its end.
template <bool is_separator(char), bool is_cut(char)>
bool says_any(Text text, const WordSet& words) {
    bool says = false;
    split(text, is_separator, [&](Text token) {
        while (!token.empty() && is_cut(token.back())) token.remove_suffix(1);
        says = words.contains_lower(token);
        return !says;
    });
    return says;
}
bool is_never(char) { return false; }

// Where the sentence ends that begins at a place: behind . ! or ? before white space, or behind a line end.
std::size_t end_of_sentence(Text text, std::size_t place) {
    for (; place < text.size(); ++place) {
        const char sign = text[place];
        if (sign == '\n') return place + 1;
        const bool is_end = sign == '.' || sign == '!' || sign == '?';
        if (is_end && place + 1 < text.size() && is_space(text[place + 1])) return place + 1;
    }
    return place;
}

// Where two to four capitalized words end that begin at a place; the place without them. `second` becomes where the
// second of them begins.
std::size_t end_of_name(Text text, std::size_t start, std::size_t& second) {
    if (!is_upper(text[start]) || (start && is_word(text[start - 1]))) return start;
    std::size_t end = start;
    for (int words = 0; words < 4; ++words) {
        const std::size_t word = words ? end + 1 : start;
        if ((words && at(text, end) != ' ') || !is_upper(at(text, word)) || !is_word(at(text, word + 1)))
            return words > 1 ? end : start;
        if (words == 1) second = word;
        for (end = word; end < text.size() && is_word(text[end]);) ++end;
    }
    return end;
}

}  // namespace

std::string lowered(Text text) {
    std::string made(text);
    std::transform(made.begin(), made.end(), made.begin(), lower);
    return made;
}

WordSet::WordSet(std::vector<std::string> words) : words_(words.begin(), words.end()) {
    for (const Text word : words)
        if (!word.empty()) lengths_[lower(word[0]) & 127] |= std::uint64_t{1} << length_of(word);
}

bool WordSet::contains_lower(Text word) const { return may_contain(word) && words_.contains(lowered(word)); }

bool is_pattern(Text text) {
    if (text.empty()) return false;
    for (std::size_t place = 0; place < text.size(); ++place)
        if (is_pattern_at(text, place)) return true;
    return is_substitution(text);
}

Names::Names(Lists lists) : lists_(std::move(lists)) {}

bool Names::is_base64(Text word) const {
    if (word.size() < kShortestBase64 || has(word, ' ')) return false;
    const auto begins = [&](const std::string& signature) { return word.starts_with(signature); };
    const bool is_signed = std::any_of(lists_.signatures.begin(), lists_.signatures.end(), begins);
    if (!is_signed && word.size() < 40) return false;
    Text body = word;
    for (int sign = 0; sign < 2 && body.ends_with('='); ++sign) body.remove_suffix(1);
    if (!all(body, is_base64_sign) || is_signed) return is_signed && all(body, is_base64_sign);
    std::size_t run = 0;
    for (const char sign : word) {
        run = is_lower(sign) ? run + 1 : 0;
        if (run == 9) return false;
    }
    const auto capitals = static_cast<std::size_t>(std::count_if(word.begin(), word.end(), is_upper));
    return 4 * capitals >= word.size() && any(word, is_digit) && any(word, is_lower);
}

bool Names::is_term(Text word) const {
    if (word.empty()) return false;
    if (word[0] == '#') {
        const auto is_part = [](char sign) { return is_word(sign) || sign == '-'; };
        return is_letter(at(word, 1)) && all(word.substr(1), is_part);
    }
    if (!is_letter(word[0])) return false;
    bool is = false;
    if (has(word, '_')) {
        is = is_identifier(word);
    } else if (has(word, '-')) {
        is = is_hyphenated(word);
    } else {
        is = is_camel(word) && all(word, is_alnum);
    }
    return is && word.size() <= kLongestTerm && !is_base64(word);
}

bool Names::looks_like_path(Text word) const {
    const Text name = word.substr(word.rfind('/') + 1);
    if (const std::size_t dot = name.rfind('.'); dot != name.npos) {
        const bool is_named = dot || lists_.dot_files.contains(name);
        if (is_named && lists_.extensions.contains(lowered(name.substr(dot + 1)))) return true;
    }
    if (has(word, "//")) return false;
    const bool is_rooted =
        word[0] == '/' || word.starts_with("./") || word.starts_with("../") || word.starts_with("~/");
    const auto is_root = [](char sign) { return sign == '.' || sign == '/' || sign == '~'; };
    const bool is_folder = is_rooted && trimmed(word, is_root).size() > 1;
    if (!is_folder && !(std::count(word.begin(), word.end(), '/') > 1 && is_letter(word[0]))) return false;
    const std::string low = lowered(word);
    for (std::size_t start = 0; start <= low.size();) {  // more than the names of tools
        const std::size_t end = std::min(low.find('/', start), low.size());
        if (!lists_.tools.contains(Text(low).substr(start, end - start))) return true;
        start = end + 1;
    }
    return false;
}

bool Names::is_path(Text word) const {
    if (word.empty() || word.size() > kLongestPath || word[0] == '-') return false;
    return looks_like_path(word) && !is_base64(word) && !begins_with_host(word);
}

bool Names::read_paths(Text word, const Take& take) const {
    const auto is_joint = [](char sign) { return sign == '/' || sign == '.'; };
    if (word.back() != '/' && std::none_of(word.begin(), word.end() - 1, is_joint)) return true;
    const auto is_star = [](char sign) { return sign == '*'; };
    if (word.front() == '*' && word.back() == '*') {  // bold
        const Text plain = trimmed(word, is_star);
        if (!plain.starts_with('/')) word = plain;
    }
    const auto is_bare = [](char sign) { return is_word(sign) || sign == '/' || sign == '.' || sign == '-'; };
    std::vector<Text> named;
    const auto read = [&](Text path) {
        path = without_line(path);
        if (is_path(path)) named.push_back(path);
    };
    if (all(word, is_bare) && word.back() != '.' && word.back() != '-') {
        read(word);
    } else {
        split(word, is_separator, [&](Text part) {
            read(without_end(part.substr(part.rfind('=') + 1), kTrim));
            return true;
        });
    }
    return named.empty() || is_pattern(without_end(word, ".,:;!?")) || std::all_of(named.begin(), named.end(), std::cref(take));
}

void Names::paths(Text text, const Take& take) const {
    std::string kept;
    if (has(text, ":/") || has(text, "//") || has(text, "mailto:")) text = kept = blanked(text, end_of_address);
    if (has(text, "</")) text = kept = blanked(text, end_of_tag);
    split(text, is_space, [&](Text word) { return read_paths(word, take); });
}

void Names::concepts(Text text, const Take& take) const {
    bool is_wanted = true;
    const auto add = [&](Text word) {
        const std::string concept_ = lowered(trimmed(word, is_space));
        if (concept_.size() > 2 && !concept_.starts_with("mcp__") && !lists_.stop_words.contains(concept_))
            is_wanted = is_wanted && take(concept_);
    };
    for (std::size_t tick = text.find('`'); tick != text.npos;) {
        const std::size_t end = std::min(text.find_first_of("`\n", tick + 1), text.size());
        const std::size_t length = end - tick - 1;
        const bool is_code = length >= 2 && length <= 60 && at(text, end) == '`';
        if (const Text code = text.substr(tick + 1, length); is_code && !is_pattern(code)) add(code);
        tick = text.find('`', is_code ? end + 1 : tick + 1);
    }
    for (std::size_t start = 0; start < text.size(); ++start) {
        std::size_t second = 0;
        const std::size_t end = end_of_name(text, start, second);
        if (end == start) continue;
        const Text before = without_end(text.substr(start < 2 ? 0 : start - 2, std::min<std::size_t>(start, 2)), " ");
        const bool opens =
            before.empty() || has(".!?:\n", before.back());  // a sentence, whose first word does not count
        const Text name = text.substr(opens ? second : start, end - (opens ? second : start));
        if (has(name, ' ')) add(name);
        start = end - 1;
    }
    split(text, is_separator, [&](Text token) {
        const Text word = trimmed(token, is_trimmed);
        if (is_term(word)) add(word.substr(word[0] == '#'));
        return is_wanted;
    });
}

void Names::facts(Text text, const Take& take) const {
    for (std::size_t start = 0, end = 0; start < text.size(); start = end) {
        end = end_of_sentence(text, start);
        const Text sentence = trimmed(text.substr(start, end - start), is_space);
        if (sentence.size() < kShortestFact || sentence.size() > kLongestFact || sentence.back() == '?') continue;
        if (!has_number_or_pair(sentence) && !says_any<is_space, is_never>(sentence, lists_.states)) continue;
        if (is_command(sentence) || has_json(sentence) || !has_word(sentence)) continue;
        if (!take(sentence)) return;
    }
}

bool Names::is_weighty(Text text) const { return says_any<is_separator, is_trimmed>(text, lists_.weighty); }

Payloads::Payloads(std::vector<std::string> beginnings) : beginnings_(std::move(beginnings)) {}

// Each sign is searched for by itself: the library's search looks at many characters at once.
bool Payloads::may_embed(Text text) const {
    const auto is_in = [&](const std::string& begin) { return has(text, begin); };
    if (std::any_of(beginnings_.begin(), beginnings_.end(), is_in)) return true;
    for (std::size_t colon = text.find(':'); colon != text.npos; colon = text.find(':', colon + 1))
        if (colon >= 4 && lowered(text.substr(colon - 4, 4)) == "data") return true;
    const auto is_of_base64 = [](char sign) { return is_base64_sign(sign) || sign == '='; };
    const Text whole = trimmed(text, is_space);
    return whole.size() >= kShortestBase64 && all(whole, is_of_base64);
}

bool Payloads::is_plain(Text text) const {
    if (has(text, '"') || has(text, '{') || has(text, '[')) return false;
    for (std::size_t quote = text.find('\''); quote != text.npos; quote = text.find('\'', quote + 1)) {
        std::size_t behind = quote + 1;
        while (is_space(at(text, behind))) ++behind;
        if (at(text, behind) == ':') return false;  // the end of a key
    }
    return !may_embed(text);
}

}  // namespace mnemolog
