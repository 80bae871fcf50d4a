#include "ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "documents.h"

namespace mnemolog {
namespace {

using Column = std::vector<double>;

// Neighbors on either side whose words count as said near a document.
constexpr int kWindow = 2;
// Share of its own score that stands in for the neighbors of a document that has none, or memories would lose to
// observations. With a quarter of the turns taken out of their sessions, recall of evidence among them was 52% at 0 and
// 65 at 0.5; of the rest 68 and 66%.
constexpr double kAloneShare = 0.5;
// Of an episode, as many of its best documents say how good it is.
constexpr std::size_t kEpisodeBestOf = 3;
// Of a pool: what is newer than these has not been replaced since.
constexpr std::size_t kStrongest = 10;
// In place of the model's, until a document has its vector.
constexpr double kExpectedCosine = 0.3;
// `K1` and `B` of `projections.search.ranking`.
constexpr double kK1 = 0.9, kB = 0.4;
// Of a reciprocal rank: the first is worth 4/3 of the second.
constexpr double kRankK = 3;
// More authors say nothing new about the kind of history.
constexpr double kMostAuthors = 8;
// Better documents of the same episode that count, at most, when a question counts.
constexpr double kSpreadOver = 10;
// `DATE_TERMS` of `projections.text.cues`.
constexpr std::size_t kDateTerms = 3;
// A smaller deviation is none.
constexpr double kSmallest = 1e-12;
// Terms of a part of a long question, and from one part to the next. Of questions with 90 words around them, 37 % were
// withheld without parts and none with them; of those without an answer 33 % are, and 80 % were.
constexpr std::size_t kPart = 16, kStep = 8;

struct Moments {
    double mean = 0, deviation = 0;
    std::size_t count = 0;
};

Moments moments(std::span<const double> column) {
    Moments result;
    double sum = 0, squares = 0;
    for (const double value : column)
        if (!std::isnan(value)) sum += value, ++result.count;
    if (result.count == 0) return result;
    result.mean = sum / static_cast<double>(result.count);
    for (const double value : column)
        if (!std::isnan(value)) squares += (value - result.mean) * (value - result.mean);
    result.deviation = std::sqrt(squares / static_cast<double>(result.count));
    return result;
}

Column standardized(std::span<const double> column) {
    const Moments of = moments(column);
    Column out(column.size());
    for (std::size_t i = 0; i < column.size(); ++i)
        out[i] = of.deviation > kSmallest ? (column[i] - of.mean) / of.deviation : column[i] * 0.0;
    return out;
}

Column reciprocal_rank(const Column& column) {
    Column sorted = column, out(column.size());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < column.size(); ++i)
        out[i] = 1 / (kRankK + static_cast<double>(sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), column[i])));
    return out;
}

double mean(const Column& column) {
    return std::accumulate(column.begin(), column.end(), 0.0) / static_cast<double>(column.size());
}

// The documents of a pool by episode and place in it. Documents outside any episode are alone.
class Sessions {
public:
    explicit Sessions(const Pool& pool) : ordered_(pool.size), none_(pool.size) {
        for (std::size_t i = 0; i < pool.size; ++i)
            ordered_[i] = {std::int64_t{pool.episode[i]} * (std::int64_t{1} << 33) + pool.sequence[i], i};
        std::sort(ordered_.begin(), ordered_.end());
        for (auto& places : places_) places.assign(pool.size, none_);
        for (std::size_t at = 0; at < pool.size; ++at) {
            const std::size_t i = ordered_[at].document;
            if (pool.episode[i] >= 0) find_neighbors(at);
            const bool joins = at > 0 && pool.episode[i] >= 0 && pool.episode[ordered_[at - 1].document] == pool.episode[i];
            distinct += at == 0 || pool.episode[ordered_[at - 1].document] != pool.episode[i];
            if (!joins) starts_.push_back(at);
            members_.push_back(i);
        }
        starts_.push_back(pool.size);
        for (std::size_t number = 0; number < size(); ++number)
            std::sort(members_.begin() + offset(starts_[number]), members_.begin() + offset(starts_[number + 1]));
    }

    // Of episodes, and of documents outside any.
    std::size_t size() const { return starts_.size() - 1; }

    // The documents of one of them, ascending.
    std::span<const std::size_t> members(std::size_t number) const {
        return std::span(members_).subspan(starts_[number], starts_[number + 1] - starts_[number]);
    }

    std::size_t place(std::size_t document, int distance) const {
        return places_[static_cast<std::size_t>(distance + kWindow)][document];
    }

    bool has(std::size_t document, int distance) const { return place(document, distance) != none_; }

    bool alone(std::size_t document) const {
        for (int distance = -kWindow; distance <= kWindow; ++distance)
            if (has(document, distance)) return false;
        return true;
    }

    double take(const Column& column, std::size_t document, int distance) const {
        return has(document, distance) ? column[place(document, distance)] : 0.0;
    }

    Column best(const Column& column) const {
        Column out(column.size());
        for (std::size_t number = 0; number < size(); ++number) {
            double highest = -std::numeric_limits<double>::infinity();
            for (const std::size_t i : members(number)) highest = std::max(highest, column[i]);
            for (const std::size_t i : members(number)) out[i] = highest;
        }
        return out;
    }

    Column mean_of_best(const Column& column) const {
        Column out(column.size()), values;
        for (std::size_t number = 0; number < size(); ++number) {
            values.clear();
            for (const std::size_t i : members(number)) values.push_back(column[i]);
            const std::size_t count = std::min(values.size(), kEpisodeBestOf);
            const auto last = values.begin() + offset(count);
            std::partial_sort(values.begin(), last, values.end(), std::greater<>());
            const double sum = std::accumulate(values.begin(), last, 0.0);
            for (const std::size_t i : members(number)) out[i] = sum / static_cast<double>(count);
        }
        return out;
    }

    std::size_t distinct = 0;  // episodes; those outside any count as one

private:
    struct Place {
        std::int64_t key;
        std::size_t document;
        auto operator<=>(const Place&) const = default;
    };

    static std::ptrdiff_t offset(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }

    // Keys ascend, so neighbors are next to each other; of several in the same place the first of the pool counts.
    void find_neighbors(std::size_t at) {
        const auto [key, document] = ordered_[at];
        for (std::size_t next = at + 1; next < ordered_.size() && ordered_[next].key - key <= kWindow; ++next) {
            const std::int64_t distance = ordered_[next].key - key;
            auto& place = places_[static_cast<std::size_t>(kWindow + distance)][document];
            if (distance > 0 && place == none_) place = ordered_[next].document;
        }
        for (std::size_t before = at; before-- > 0 && key - ordered_[before].key <= kWindow;) {
            const std::int64_t distance = key - ordered_[before].key;
            if (distance > 0) places_[static_cast<std::size_t>(kWindow - distance)][document] = ordered_[before].document;
        }
    }

    std::vector<Place> ordered_;
    std::size_t none_;
    std::array<std::vector<std::size_t>, 2 * kWindow + 1> places_;
    std::vector<std::size_t> members_, starts_;
};

// What the question's words say of each document.
struct Words {
    std::size_t terms;
    Column said, near;    // (size, terms)
    Column idf;           // (terms,), rarity in the pool; sums to 1, if any document says any
    Column lexical;       // BM25
    Column coverage, near_coverage;
    Column month;
    std::array<Column, kTraits> traits;
};

void find_traits(const Pool& pool, const Asked& asked, Words& words) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < pool.size; ++i) {
        const auto length = static_cast<std::size_t>(pool.lengths[i]);
        end += length;
        const std::size_t read = std::min(length, kDateTerms + kTraits);
        for (const std::uint32_t hash : pool.terms.subspan(end - read, read))
            for (std::size_t trait = 0; trait < kTraits; ++trait)
                if (hash == asked.traits[trait]) words.traits[trait][i] = 1;
    }
}

void weigh_terms(const Pool& pool, const Asked& asked, Words& words) {
    double total = 0;
    for (const std::int64_t length : pool.lengths) total += static_cast<double>(length);
    double average = total / static_cast<double>(pool.size);
    if (average == 0) average = 1;
    for (std::size_t term = 0; term < words.terms; ++term) {
        double saying = 0;
        for (std::size_t i = 0; i < pool.size; ++i) saying += words.said[i * words.terms + term] > 0;
        if (saying == 0) continue;
        const double idf = std::log(1 + (static_cast<double>(pool.size) - saying + 0.5) / (saying + 0.5));
        words.idf[term] = idf;
        for (std::size_t i = 0; i < pool.size; ++i) {
            const double times = words.said[i * words.terms + term];
            const double norm = kK1 * (1 - kB + kB * static_cast<double>(pool.lengths[i]) / average);
            words.lexical[i] += asked.times[term] * (idf * (times * (kK1 + 1) / (times + norm)));
        }
    }
    const double sum = std::accumulate(words.idf.begin(), words.idf.end(), 0.0);
    if (sum != 0)
        for (double& idf : words.idf) idf /= sum;
}

Words words_of(const Pool& pool, const Asked& asked, const Sessions& sessions) {
    const std::size_t terms = asked.terms.size();
    const Documents documents{pool.terms, pool.lengths};
    Words words{terms, count_terms(documents, asked.terms), Column(pool.size * terms), Column(terms), Column(pool.size),
                Column(pool.size), Column(pool.size), Column(pool.size), {}};
    for (Column& trait : words.traits) trait.resize(pool.size);
    find_traits(pool, asked, words);
    if (!asked.months.empty()) {
        const Column times = count_terms(documents, asked.months);
        for (std::size_t place = 0; place < times.size(); ++place)
            if (times[place] > 0) words.month[place / asked.months.size()] = 1;
    }
    weigh_terms(pool, asked, words);
    for (std::size_t i = 0; i < pool.size; ++i) {
        for (std::size_t term = 0; term < terms; ++term) {
            bool near = words.said[i * terms + term] > 0;
            if (near) words.coverage[i] += words.idf[term];
            for (int distance = -kWindow; distance <= kWindow && !near; ++distance)
                near = sessions.has(i, distance) && words.said[sessions.place(i, distance) * terms + term] > 0;
            words.near[i * terms + term] = near;
            if (near) words.near_coverage[i] += words.idf[term];
        }
    }
    return words;
}

// How well each document matches, without its neighbors.
struct Matches {
    Column bm25, vector, raw_cosine, static_cosine, mix;
};

// The model's cosines, standardized; of documents without one the static cosine, standardized separately. The model's
// are shifted to the mean and deviation of the static ones of the same documents, or those that have them already would
// be compared among themselves: of a pool's best half, half would be below the mean.
Column meaning_of(const Pool& pool) {
    if (pool.static_cosine.empty()) return {pool.cosine.begin(), pool.cosine.end()};
    const Column static_cosine = standardized(pool.static_cosine);
    Column own = standardized(pool.cosine), of_both;
    bool lacks = false;
    for (std::size_t i = 0; i < pool.size; ++i) {
        lacks |= std::isnan(own[i]);
        if (!std::isnan(own[i]) && !std::isnan(static_cosine[i])) of_both.push_back(static_cosine[i]);
    }
    const Moments both = moments(of_both);
    for (std::size_t i = 0; i < pool.size; ++i) {
        if (lacks && both.count > 0) own[i] = own[i] * both.deviation + both.mean;
        if (std::isnan(own[i])) own[i] = static_cosine[i];
    }
    return own;
}

Matches matches_of(const Pool& pool, Mode mode, const Words& words) {
    Matches matches{standardized(words.lexical), {}, Column(pool.size), Column(pool.size), {}};
    if (mode == Mode::kLexical) {
        matches.vector = matches.mix = matches.bm25;
        return matches;
    }
    for (std::size_t i = 0; i < pool.static_cosine.size(); ++i)
        matches.static_cosine[i] = std::isnan(pool.static_cosine[i]) ? 0.0 : pool.static_cosine[i];
    const Column meaning = standardized(meaning_of(pool));
    const Moments present = moments(pool.cosine);
    // Without any vector a document counts by its words, or is last if there are none. One that the model has not
    // embedded yet is as far from the mean of the others as its static vector is.
    double lowest_cosine = 1, lowest_meaning = 0;
    bool said = false;
    for (std::size_t i = 0; i < pool.size; ++i) {
        said |= matches.bm25[i] != 0;
        if (!std::isnan(pool.cosine[i])) lowest_cosine = std::min(lowest_cosine, pool.cosine[i]);
        if (!std::isnan(meaning[i])) lowest_meaning = std::min(lowest_meaning, meaning[i]);
    }
    const double unembedded = present.count > 0 ? lowest_cosine : 0.0;
    for (std::size_t i = 0; i < pool.size; ++i) {
        const bool has_vector = !std::isnan(meaning[i]);
        matches.vector.push_back(has_vector ? meaning[i] : said ? matches.bm25[i] : lowest_meaning);
        const double expected = present.count > 0 ? present.mean + present.deviation * meaning[i] : kExpectedCosine;
        matches.raw_cosine[i] = !std::isnan(pool.cosine[i]) ? pool.cosine[i] : has_vector ? expected : unembedded;
        matches.mix.push_back((matches.bm25[i] + matches.vector[i]) / 2);
    }
    return matches;
}

// One column after the other, because most are made as a whole.
class Table {
public:
    explicit Table(std::size_t size) : values_(size * kFeatures), size_(size) {}

    void set(Feature feature, const Column& column) { std::copy(column.begin(), column.end(), begin(feature)); }

    double& at(std::size_t document, Feature feature) { return values_[feature * size_ + document]; }

    double mean(Feature feature) const {
        const auto first = values_.begin() + static_cast<std::ptrdiff_t>(feature * size_);
        return std::accumulate(first, first + static_cast<std::ptrdiff_t>(size_), 0.0) / static_cast<double>(size_);
    }

    // (size,): the sum of each document's features, times their weights.
    Column weighed(std::span<const double> weights) const {
        Column sums(size_);
        for (std::size_t feature = 0; feature < kFeatures; ++feature)
            for (std::size_t i = 0; i < size_; ++i) sums[i] += weights[feature] * values_[feature * size_ + i];
        return sums;
    }

    Column&& values() { return std::move(values_); }

private:
    Column::iterator begin(Feature feature) {
        return values_.begin() + static_cast<std::ptrdiff_t>(feature * size_);
    }

    Column values_;
    std::size_t size_;
};

void own_features(const Words& words, const Matches& matches, Table& table) {
    table.set(kBm25, matches.bm25);
    table.set(kBm25Rank, reciprocal_rank(matches.bm25));
    table.set(kCoverage, words.coverage);
    table.set(kNearCoverage, standardized(words.near_coverage));
    table.set(kRawNearCoverage, words.near_coverage);
    table.set(kRelativeCosine, matches.vector);
    table.set(kRawCosine, matches.raw_cosine);
    table.set(kCosineRank, reciprocal_rank(matches.vector));
    table.set(kRelativeStatic, standardized(matches.static_cosine));
    table.set(kRawStatic, matches.static_cosine);
}

void neighbor_features(const Pool& pool, const Sessions& sessions, const Words& words, const Matches& matches,
                       Table& table) {
    const Column share = standardized(words.coverage);
    for (std::size_t i = 0; i < pool.size; ++i) {
        const bool alone = sessions.alone(i);
        const auto beside = [&](const Column& column, int distance) {
            return alone ? kAloneShare * column[i] : sessions.take(column, i, distance);
        };
        table.at(i, kBefore) = beside(matches.mix, -1);
        table.at(i, kAfter) = beside(matches.mix, 1);
        table.at(i, kTwoAway) = (beside(matches.mix, -2) + beside(matches.mix, 2)) / 2;
        table.at(i, kCoverageBefore) = beside(share, -1);
        table.at(i, kCoverageAfter) = beside(share, 1);
        table.at(i, kAfterQuestion) = sessions.take(words.traits[kAsksTrait], i, -1);
    }
}

Column episode_coverage(const Pool& pool, const Sessions& sessions, const Words& words) {
    Column coverage(pool.size);
    for (std::size_t number = 0; number < sessions.size(); ++number) {
        const auto members = sessions.members(number);
        double sum = 0;
        for (std::size_t term = 0; term < words.terms; ++term)
            sum += words.idf[term] * std::any_of(members.begin(), members.end(), [&](std::size_t i) {
                       return words.said[i * words.terms + term] > 0;
                   });
        for (const std::size_t i : members) coverage[i] = sum;
    }
    return coverage;
}

// Minus the number of better documents of the same episode; of equal ones the first is better.
Column spread_of(const Pool& pool, const Sessions& sessions, const Matches& matches, const Column& episode) {
    Column lost(pool.size);
    for (std::size_t number = 0; number < sessions.size(); ++number) {
        std::vector<std::size_t> members(sessions.members(number).begin(), sessions.members(number).end());
        std::stable_sort(members.begin(), members.end(), [&](std::size_t left, std::size_t right) {
            return matches.mix[left] + episode[left] > matches.mix[right] + episode[right];
        });
        for (std::size_t place = 0; place < members.size(); ++place)
            lost[members[place]] = -std::min(static_cast<double>(place), kSpreadOver);
    }
    return lost;
}

void session_features(const Pool& pool, const Asked& asked, const Sessions& sessions, const Words& words,
                      const Matches& matches, Table& table) {
    const Column coverage = episode_coverage(pool, sessions, words), best = sessions.mean_of_best(matches.mix);
    table.set(kEpisode, best);
    table.set(kEpisodeCosine, sessions.best(matches.vector));
    table.set(kEpisodeBest, sessions.best(matches.mix));
    table.set(kEpisodeCoverage, standardized(coverage));
    table.set(kRawEpisodeCoverage, coverage);
    if (asked.cues.several != 0) table.set(kSpread, spread_of(pool, sessions, matches, best));
    const Column last = sessions.best({pool.sequence.begin(), pool.sequence.end()});
    for (std::size_t i = 0; i < pool.size; ++i) {
        if (pool.episode[i] < 0) {
            table.at(i, kAlone) = 1;
            continue;
        }
        table.at(i, kFirst) = pool.sequence[i] == 0;
        table.at(i, kTurnNumber) = std::log1p(pool.sequence[i]);
        table.at(i, kLate) = last[i] - pool.sequence[i] < 1.5;
    }
}

void text_features(const Pool& pool, const Asked& asked, const Words& words, Table& table) {
    const auto& traits = words.traits;
    Column length(pool.size);
    for (std::size_t i = 0; i < pool.size; ++i) {
        length[i] = std::log1p(static_cast<double>(pool.lengths[i]));
        const double user = std::max(traits[kPromptTrait][i], traits[kUserTurnTrait][i]);
        table.at(i, kAuthor) = pool.author[i];
        table.at(i, kOtherAuthor) = pool.other_author[i];
        table.at(i, kNamedFirstPerson) = traits[kFirstPersonTrait][i] * pool.author[i];
        table.at(i, kUserFirstPerson) = user * asked.cues.first_person;
        table.at(i, kUser) = user;
        table.at(i, kTool) = std::max(traits[kToolOutputTrait][i], traits[kCallTrait][i]);
        table.at(i, kResult) = traits[kResultTrait][i];
        table.at(i, kAsks) = traits[kAsksTrait][i];
        table.at(i, kUserAsks) = traits[kAsksTrait][i] * user;
        table.at(i, kImportance) = pool.importance.empty() ? 0.0 : pool.importance[i] - 5;
    }
    table.set(kRawLength, length);
    table.set(kLength, standardized(length));
}

void time_features(const Pool& pool, const Asked& asked, const Words& words, const Matches& matches, Table& table) {
    std::vector<std::int64_t> occurred(pool.size), sorted, strongest;
    if (!pool.occurred_ms.empty()) occurred.assign(pool.occurred_ms.begin(), pool.occurred_ms.end());
    sorted = occurred;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::size_t> order(pool.size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(pool.size, kStrongest));
    std::partial_sort(order.begin(), last, order.end(), [&](std::size_t left, std::size_t right) {
        return matches.mix[left] != matches.mix[right] ? matches.mix[left] > matches.mix[right] : left < right;
    });
    for (auto it = order.begin(); it != last; ++it) strongest.push_back(occurred[*it]);
    std::sort(strongest.begin(), strongest.end());
    const double others = std::max(1.0, static_cast<double>(pool.size) - 1);
    for (std::size_t i = 0; i < pool.size; ++i) {
        const double tells_time = words.traits[kTellsTimeTrait][i], number = words.traits[kNumberTrait][i];
        const double older = static_cast<double>(std::lower_bound(sorted.begin(), sorted.end(), occurred[i]) - sorted.begin());
        const double passed = static_cast<double>(
            std::upper_bound(strongest.begin(), strongest.end(), occurred[i]) - strongest.begin());
        const double newness = older / others;
        table.at(i, kTellsTime) = tells_time;
        table.at(i, kTimeAsked) = tells_time * asked.cues.time;
        table.at(i, kNumber) = number;
        table.at(i, kNumberAsked) = number * asked.cues.number;
        table.at(i, kMonth) = words.month[i];
        table.at(i, kNamedTime) = !pool.inside.empty() && pool.inside[i];
        table.at(i, kNew) = newness;
        table.at(i, kNewAsked) = newness * asked.cues.now;
        table.at(i, kNewPast) = newness * asked.cues.past;
        table.at(i, kNewPresent) = newness * asked.cues.present;
        table.at(i, kNewerStrong) = 1 - passed / std::max(1.0, static_cast<double>(strongest.size()));
    }
}

std::array<double, kKinds> kind_of(const Pool& pool, const Asked& asked, const Sessions& sessions,
                                   const Matches& matches, const Table& table) {
    Column cosines = matches.raw_cosine;
    std::sort(cosines.begin(), cosines.end());
    const Column nearest(cosines.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(10, pool.size)), cosines.end());
    const double size = static_cast<double>(pool.size);
    return {1.0,
            table.mean(kTool),
            table.mean(kUser),
            table.mean(kRawLength),
            table.mean(kAsks),
            asked.cues.first_person,
            asked.cues.question_mark,
            asked.cues.question_word,
            mean(nearest),
            std::log(1 + asked.words),
            std::log(1 + static_cast<double>(sessions.distinct) / size),
            std::min(pool.authors, kMostAuthors)};
}

// A part of a question's terms: how much of it any document says, and how much is new to all and to the model.
struct Part {
    std::size_t begin, end;
    double total, said, unknown;
};

std::vector<Part> parts_of(std::span<const double> said, const Rarity& rarity, std::size_t size) {
    const std::size_t terms = rarity.idf.size();
    std::vector<bool> anywhere(terms);
    for (std::size_t place = 0; place < size * terms; ++place)
        if (said[place] > 0) anywhere[place % terms] = true;
    std::vector<Part> parts{{0, terms, 0, 0, 0}};
    if (2 * terms > 3 * kPart)
        for (std::size_t begin = 0; begin + kStep < terms; begin += kStep)
            parts.push_back({begin, std::min(terms, begin + kPart), 0, 0, 0});
    for (Part& part : parts) {
        for (std::size_t term = part.begin; term < part.end; ++term) {
            part.total += rarity.idf[term];
            if (anywhere[term]) part.said += rarity.idf[term] * rarity.trust[term];
            if (!anywhere[term] && !rarity.in_table[term]) part.unknown += rarity.idf[term];
        }
        if (part.total == 0) part.total = 1;
        part.said /= part.total, part.unknown /= part.total;
    }
    return parts;
}

}  // namespace

Scores score(const Pool& pool, const Asked& asked, const Weights& weights) {
    const Sessions sessions(pool);
    Words words = words_of(pool, asked, sessions);
    const Matches matches = matches_of(pool, asked.mode, words);
    Table table(pool.size);
    own_features(words, matches, table);
    neighbor_features(pool, sessions, words, matches, table);
    session_features(pool, asked, sessions, words, matches, table);
    text_features(pool, asked, words, table);
    time_features(pool, asked, words, matches, table);

    Scores scores;
    scores.kind = kind_of(pool, asked, sessions, matches, table);
    const double log_odds = std::inner_product(scores.kind.begin(), scores.kind.end(), weights.kind.begin(), 0.0);
    const double first = 1 / (1 + std::exp(-log_odds));
    for (std::size_t i = 0; i < kFeatures; ++i)
        scores.weights[i] = first * weights.features[i] + (1 - first) * weights.features[kFeatures + i];
    scores.final = table.weighed(scores.weights);
    scores.features = table.values();
    scores.lexical = std::move(words.lexical);
    for (const Column& trait : words.traits) scores.traits.insert(scores.traits.end(), trait.begin(), trait.end());
    scores.said = std::move(words.said);
    scores.near = std::move(words.near);
    return scores;
}

std::vector<double> evidence(std::span<const double> said, std::span<const double> near, const Rarity& rarity,
                             std::span<const double> static_cosine, std::span<const double> cosine) {
    const std::size_t size = cosine.size(), terms = rarity.idf.size();
    const std::vector<Part> parts = parts_of(said, rarity, size);
    double nearest = 0;
    for (const double value : cosine) nearest = std::max(nearest, std::isnan(value) ? kExpectedCosine : value);
    std::vector<double> columns(size * kAnswerable);
    for (std::size_t i = 0; i < size; ++i) {
        double best = -std::numeric_limits<double>::infinity();
        double* row = columns.data() + i * kAnswerable;
        for (const Part& part : parts) {
            double nearby = 0;
            for (std::size_t term = part.begin; term < part.end; ++term)
                nearby += std::min(near[i * terms + term], 1.0) * (rarity.idf[term] * rarity.trust[term]);
            nearby /= part.total;
            if (nearby + part.said - part.unknown <= best) continue;
            best = nearby + part.said - part.unknown;
            row[0] = nearby, row[1] = part.said, row[2] = part.unknown;
        }
        row[3] = std::isnan(static_cosine[i]) ? 0.0 : static_cosine[i];
        row[4] = nearest;
        row[5] = 1;
    }
    return columns;
}

}  // namespace mnemolog
