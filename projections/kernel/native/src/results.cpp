#include "results.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace mnemolog {
namespace {

using Column = std::vector<double>;
using Mask = std::vector<std::uint8_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A summary repeats many statements: their sources come first.
constexpr double kSummaryWeight = 0.5;
// A step of importance above or below 5 moves a memory by 2 %: it only decides among equals. The importance of an
// observation, which is guessed by rules, does not count.
constexpr double kImportanceLift = 0.02;
// Cosine from which a document has to do with a remark that names a time and of which it says no other word: of what
// three agents' notes and four remarks on the day have by chance, the highest is .34.
constexpr double kRelatedFrom = 0.4;
// In log odds: how far a document of the named time is put before the best of other times if it says as much of the
// question. Newness alone makes a difference of up to 1.3.
constexpr double kFirstBy = 2.0;
// In log odds, for documents that say an identifier, path, version or address in the order of its parts, if the question
// asks for nothing else.
constexpr double kWholeLift = 4.0;
// Of the relevance of tool output, unless the question is exact: statements about it come first. On the coding life
// recall@5 is 83.2 without it, 85.7 with it; on other sets it changes nothing.
constexpr double kToolWeight = 0.8;
// Share of a prompt's terms that a question says, from which it is the same question again; and the weight of such a
// prompt: it is nearest to the question, and does not answer it.
constexpr double kEchoFrom = 0.5, kEchoWeight = 0.5;
// `BESIDE_TEXT` and `DATE_TERMS` of `projections.text.cues`.
constexpr double kBesideText = 4;
constexpr std::size_t kDateTerms = 3;
// For a question that lists what it asks for: how many times as many documents are ordered as are returned, what having
// all of its words weighs against the best score, 1, and what is left of a word's weight after each document that has
// it. Chosen on GateMem, such that recall at 10 stays on eight other sets.
constexpr std::size_t kPartsFrom = 2;
constexpr double kPartsWeight = 1.2, kPartsDecay = 0.7;
// Scores that differ by less are equal, and equals are ordered by id; and how confidence is rounded.
constexpr double kDigits = 1e6, kConfidenceDigits = 1e3;
// Of the log odds that a question has an answer: of its best cosine, and a constant. Measured on agents' work and a
// coding life of other people, where the first results are code: their AUC rises from .58 to .96, and from .83 to .96.
constexpr double kByCosine = 12.0, kByCosineFrom = -5.9;
// Results that tell the language, and the first terms of each.
constexpr std::size_t kFirst = 10, kRead = 100;
// Least mean share of the terms of the first results that have a static vector: it is 0.58 to 0.9 of English work, 0.36
// to 0.7 of code with its output, and less than 0.25 of languages other than those of Western Europe.
constexpr double kKnownOfEnglish = 0.53, kKnownOfCode = 0.3;
// Share of function words of other languages, and how many different ones: the share is 0.17 to 0.37 of German, French,
// Spanish, Italian and Portuguese, and at most 0.09 of English and code. A short text can say one or two by chance.
constexpr double kFunctionWordsFrom = 0.13;
constexpr std::size_t kKindsFrom = 4;
// Which results repeat another one: see `projections.text.similarity`.
constexpr Repeats kRepeats{0.97, kDateTerms, 1'000, 3};
// The first byte of keys of ids.
constexpr std::uint64_t kMemory = 'm', kSummary = 's';

double rounded(double value, double digits) { return std::nearbyint(value * digits) / digits; }

double probability(double log_odds) { return 1 / (1 + std::exp(-log_odds)); }

// The documents to rank, with what owns the columns that are not those of the index.
struct Gathered {
    std::vector<std::uint32_t> terms;
    std::vector<std::int64_t> lengths, occurred_ms;
    std::vector<std::int32_t> episode, sequence;
    Column cosine, static_cosine, importance, author, other_author;
    Mask inside;
    double authors = 0;

    std::size_t size() const { return lengths.size(); }
    Documents documents() const { return {terms, lengths}; }
};

Column cosines(const Vectors& vectors, std::span<const std::int64_t> documents, std::span<const float> query) {
    if (query.empty()) return Column(documents.size(), kNan);
    std::vector<float> products(documents.size());
    best_products(vectors, documents, quantized_query(query), products.data());
    return {products.begin(), products.end()};
}

// The share of each author's name that the question says; and 1 if it says the whole name of another, and of no second.
void find_authors(const Rows& rows, std::span<const std::int64_t> documents, const Asked& asked, Gathered& pool) {
    std::map<std::int32_t, double> shares;
    for (const std::int64_t document : documents) shares.try_emplace(rows.author[static_cast<std::size_t>(document)]);
    std::vector<std::int32_t> whole;
    for (auto& [author, share] : shares) {
        const auto name = rows.names[static_cast<std::size_t>(author)];
        const auto said = std::count_if(name.begin(), name.end(), [&](std::uint32_t term) {
            return std::find(asked.terms.begin(), asked.terms.end(), term) != asked.terms.end();
        });
        if (said > 0) share = static_cast<double>(said) / static_cast<double>(name.size());
        if (share == 1) whole.push_back(author);
    }
    pool.authors = static_cast<double>(shares.size());
    for (const std::int64_t document : documents) {
        const std::int32_t author = rows.author[static_cast<std::size_t>(document)];
        pool.author.push_back(shares[author]);
        pool.other_author.push_back(whole.size() == 1 && author != whole[0]);
    }
}

// Which documents say any of the phrases, or all of them, before their last so many terms.
Column saying(const Documents& documents, const Documents& phrases, std::size_t without_last) {
    Column count(documents.lengths.size());
    std::size_t start = 0;
    for (const std::int64_t length : phrases.lengths) {
        const auto phrase = phrases.terms.subspan(start, static_cast<std::size_t>(length));
        start += phrase.size();
        const auto say = say_in_order(documents, phrase, without_last);
        for (std::size_t i = 0; i < count.size(); ++i) count[i] += say[i];
    }
    return count;
}

Gathered gathered(const Rows& rows, std::span<const std::int64_t> documents, const Request& request) {
    Gathered pool;
    for (const std::int64_t document : documents) {
        const auto at = static_cast<std::size_t>(document);
        const auto terms = rows.terms[at];
        pool.terms.insert(pool.terms.end(), terms.begin(), terms.end());
        pool.lengths.push_back(static_cast<std::int64_t>(terms.size()));
        pool.occurred_ms.push_back(rows.occurred_ms[at]);
        pool.episode.push_back(rows.episode[at]);
        pool.sequence.push_back(rows.sequence[at]);
        pool.importance.push_back(rows.importance[at]);
        pool.inside.push_back(request.from_ms <= rows.occurred_ms[at] && rows.occurred_ms[at] < request.to_ms);
    }
    const Column dated = saying(pool.documents(), request.dates, kDateTerms);
    for (std::size_t i = 0; i < dated.size(); ++i) pool.inside[i] |= dated[i] > 0;
    pool.cosine = cosines(rows.model, documents, request.vector);
    pool.static_cosine = cosines(rows.static_vectors, documents, request.static_vector);
    find_authors(rows, documents, request.asked, pool);
    return pool;
}

// For documents inside the time that the question names. If the best of them says as much of the question as the best of
// all, it comes first: otherwise a text that is written every day would be lost among the others that say the same.
Column time_lift(const Gathered& pool, const Scores& scores, std::span<const bool> counted, std::size_t terms) {
    Column lift(pool.size());
    std::size_t best = 0, best_inside = pool.size();
    for (std::size_t i = 0; i < pool.size(); ++i) {
        if (scores.final[i] > scores.final[best]) best = i;
        if (pool.inside[i] && (best_inside == pool.size() || scores.final[i] > scores.final[best_inside])) best_inside = i;
    }
    if (best_inside == pool.size()) return lift;
    const auto said = [&](std::size_t i) {
        std::size_t count = 0;
        for (std::size_t term = 0; term < terms; ++term) count += counted[term] && scores.said[i * terms + term] > 0;
        return count;
    };
    if (said(best_inside) < said(best)) return lift;
    for (std::size_t i = 0; i < pool.size(); ++i)
        if (pool.inside[i]) lift[i] = scores.final[best] - scores.final[best_inside] + kFirstBy;
    return lift;
}

// The share of the question that is identifiers, paths, versions and addresses, for documents that say the parts of all
// of them in order. All that have the word of a look-up come before the rest, however near that is: agentmemory's
// clients count on it.
Column whole_lift(const Gathered& pool, const Scores& scores, const Request& request) {
    Column lift(pool.size());
    if (const std::size_t count = request.identifiers.lengths.size(); count > 0) {
        lift = saying(pool.documents(), request.identifiers, 0);
        for (double& value : lift) value *= kWholeLift * std::min(1.0, request.identifiers_share) / static_cast<double>(count);
    }
    const double most = *std::max_element(scores.lexical.begin(), scores.lexical.end());
    if (!request.lookup || most == 0) return lift;
    const auto [least, greatest] = std::minmax_element(scores.final.begin(), scores.final.end());
    for (std::size_t i = 0; i < lift.size(); ++i)
        if (scores.lexical[i] > 0) lift[i] += *greatest - *least + kWholeLift * scores.lexical[i] / most;
    return lift;
}

// Onto 0..1; a constant becomes 1.
Column stretched(const Column& column) {
    const auto [least, most] = std::minmax_element(column.begin(), column.end());
    Column out(column.size(), 1.0);
    if (*most - *least >= 1e-12)
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = (column[i] - *least) / (*most - *least);
    return out;
}

// One row for each part, but for the confidence of results.
class Parts {
public:
    explicit Parts(std::size_t size) : size_(size), values_(kParts * size, kNan) {}

    double* operator[](Part part) { return values_.data() + part * size_; }

private:
    std::size_t size_;
    Column values_;
};

// Weighs relevance by a lesson's or a memory's confidence, importance and, if asked for, recency. The formula of recency
// is memex's.
void weigh(const Rows& rows, std::span<const std::int64_t> documents, const Gathered& pool, const Scores& scores,
           const Request& request, Parts& parts) {
    const auto has = [&](Trait trait, std::size_t i) { return scores.traits[trait * pool.size() + i] > 0; };
    const std::size_t terms = request.asked.terms.size();
    for (std::size_t i = 0; i < pool.size(); ++i) {
        const double said = std::accumulate(scores.said.begin() + static_cast<std::ptrdiff_t>(i * terms),
                                            scores.said.begin() + static_cast<std::ptrdiff_t>((i + 1) * terms), 0.0);
        const std::uint64_t kind = rows.id_key[static_cast<std::size_t>(documents[i])] >> 56;
        const double own = static_cast<double>(pool.lengths[i]) - kBesideText;
        const bool echoes = has(kPromptTrait, i) && said >= kEchoFrom * own;
        parts[kToolPart][i] = has(kToolOutputTrait, i) && !request.exact ? kToolWeight : 1.0;
        parts[kEchoPart][i] = echoes && !request.exact ? kEchoWeight : 1.0;
        double lift = kind == kMemory ? 1 + kImportanceLift * (pool.importance[i] - 5) : 1.0;
        if (kind == kSummary) lift = kSummaryWeight;
        double weighed = parts[kRelevancePart][i] * parts[kToolPart][i] * parts[kEchoPart][i];
        weighed = weighed * (0.5 + 0.5 * parts[kConfidencePart][i]) * lift;
        if (request.half_life_ms > 0) {
            const auto age = static_cast<double>(std::max<std::int64_t>(0, request.now_ms - pool.occurred_ms[i]));
            parts[kRecencyPart][i] = std::exp(-std::log(2) * age / request.half_life_ms);
            weighed = request.alpha * weighed + (1 - request.alpha) * parts[kRecencyPart][i];
        }
        parts[kScorePart][i] = weighed;
    }
}

// Which documents of the pool are results at all: almost always all of them. Of a question that is nothing but names,
// those that say one of the names whole: a file that was never mentioned is no other file. Of a word or two, those that
// say one, if any does. Of a remark with a time ("nice weather today"), those that have to do with what is left besides
// the time.
Mask matching(const Gathered& pool, const Scores& scores, const Request& request) {
    Mask every(pool.size(), 1), says(pool.size());
    if (request.asked.mode != Mode::kHybrid) return every;
    if (!request.names.lengths.empty()) {
        const Column named = saying(pool.documents(), request.names, 0);
        for (std::size_t i = 0; i < every.size(); ++i) every[i] = named[i] > 0;
        return every;
    }
    const std::size_t terms = request.asked.terms.size();
    bool any = false;
    for (std::size_t i = 0; i < pool.size(); ++i) {
        for (std::size_t term = 0; term < terms; ++term)
            says[i] |= request.counted[term] && scores.said[i * terms + term] > 0;
        any |= says[i] != 0;
    }
    if (request.remark) {
        for (std::size_t i = 0; i < pool.size(); ++i) says[i] |= !(pool.cosine[i] < kRelatedFrom);
        return says;
    }
    return request.word_or_two && any ? says : every;
}

// The documents, each the best of those left: by its score, and by the question's words that it has, which weigh less
// for each document before it that has them. The first stays. Scores stay where they were.
void cover(std::span<std::size_t> order, const Scores& scores, const Column& idf, double* score) {
    const std::size_t terms = idf.size();
    const double total = std::accumulate(idf.begin(), idf.end(), 0.0);
    Column weights, sorted;
    for (const double value : idf) weights.push_back(kPartsWeight * value / (total == 0 ? 1.0 : total));
    for (const std::size_t document : order) sorted.push_back(score[document]);
    for (std::size_t next = 0; next < order.size(); ++next) {
        std::size_t best = next;
        double most = -std::numeric_limits<double>::infinity();
        for (std::size_t at = next; at < order.size() && next > 0; ++at) {
            double value = score[order[at]];
            for (std::size_t term = 0; term < terms; ++term)
                if (scores.said[order[at] * terms + term] > 0) value += weights[term];
            if (value > most) most = value, best = at;
        }
        // the others keep their order, which decides between equals
        std::rotate(order.begin() + static_cast<std::ptrdiff_t>(next), order.begin() + static_cast<std::ptrdiff_t>(best),
                    order.begin() + static_cast<std::ptrdiff_t>(best) + 1);
        for (std::size_t term = 0; term < terms; ++term)
            if (scores.said[order[next] * terms + term] > 0) weights[term] *= kPartsDecay;
    }
    for (std::size_t at = 0; at < order.size(); ++at) score[order[at]] = sorted[at];
}

ResultLanguage language_of(const Gathered& pool, std::span<const std::size_t> order, const Request& request) {
    std::vector<std::size_t> starts(pool.size());
    std::exclusive_scan(pool.lengths.begin(), pool.lengths.end(), starts.begin(), std::size_t{0});
    double english = 0, function_words = 0, texts = 0;
    std::set<std::size_t> kinds;
    for (const std::size_t i : order.first(std::min(order.size(), kFirst))) {
        const auto length = static_cast<std::size_t>(pool.lengths[i]);
        const std::size_t read = std::min(kRead, length - std::min(length, kDateTerms));
        if (read == 0) continue;
        double known = 0, foreign = 0;
        for (const std::uint32_t term : std::span(pool.terms).subspan(starts[i], read)) {
            const auto found = std::lower_bound(request.language.terms.begin(), request.language.terms.end(), term);
            if (found == request.language.terms.end() || *found != term) continue;
            const auto at = static_cast<std::size_t>(found - request.language.terms.begin());
            known += static_cast<double>(request.language.values[2 * at]);
            foreign += static_cast<double>(request.language.values[2 * at + 1]);
            if (request.language.values[2 * at + 1] != 0) kinds.insert(at);
        }
        english += known / static_cast<double>(read), function_words += foreign / static_cast<double>(read), ++texts;
    }
    if (texts == 0) return ResultLanguage::kEnglish;
    if (english / texts < kKnownOfCode) return ResultLanguage::kOther;
    if (function_words / texts >= kFunctionWordsFrom && kinds.size() >= kKindsFrom) return ResultLanguage::kOther;
    return english / texts >= kKnownOfEnglish ? ResultLanguage::kEnglish : ResultLanguage::kCode;
}

// (n,) 0..1, where no word of the question has a vector: half of them are enough, and all its numbers are needed. So a
// ticket, a version or an address that was never mentioned has no result, however similar others are.
Column by_words(const Column& near, const Request& request, const Column& idf, std::size_t size) {
    Column answerable(size);
    const std::size_t terms = idf.size();
    const double total = std::accumulate(idf.begin(), idf.end(), 0.0);
    for (std::size_t i = 0; i < size; ++i) {
        double said = 0;
        bool numbers = true;
        for (std::size_t term = 0; term < terms; ++term) {
            const bool says = near[i * terms + term] > 0;
            said += says ? idf[term] : 0.0;
            numbers &= says || !request.numbers[term];
        }
        answerable[i] = numbers ? std::min(1.0, 2 * said / total) : 0.0;
    }
    return answerable;
}

// How likely the question has an answer, as far as each document tells; empty if unknown. If the question or the first
// results are in code or a language without static vectors, the best cosine tells, and the words that they share: a word
// without a static vector is not one that was never said. Unknown: without vectors, for an English question about texts
// in another language, which the default model cannot compare, or if the model knows other languages than the static
// vectors, because its cosines have another scale.
Column answerable_of(const Gathered& pool, const Request& request, const Results& results, const Column& near,
                     const Column& idf) {
    if (!request.language.known) return {};
    Column answerable(pool.size());
    // a question without words, such as punctuation
    if (std::accumulate(idf.begin(), idf.end(), 0.0) == 0) return answerable;
    if (results.language == ResultLanguage::kEnglish && request.language.english) {
        // not with the lifts of a named time and of identifiers: what they pass would seem impossible
        for (std::size_t i = 0; i < pool.size(); ++i)
            answerable[i] = probability(std::inner_product(request.answerable.begin(), request.answerable.end(),
                                                           results.evidence.begin() + static_cast<std::ptrdiff_t>(i * kAnswerable), 0.0));
        return answerable;
    }
    const bool are_other = results.language == ResultLanguage::kOther;
    if (!request.language.of_model || (are_other && request.language.surely_english)) return {};
    double nearest = -1;
    bool embedded = false;
    for (const double cosine : pool.cosine) {
        embedded |= !std::isnan(cosine);
        nearest = std::fmax(nearest, cosine);
    }
    if (std::none_of(request.rarity.in_table.begin(), request.rarity.in_table.end(), [](bool known) { return known; }))
        answerable = by_words(near, request, idf, pool.size());
    else if (!embedded)
        return {};
    if (!request.language.is_name)
        for (double& value : answerable) value = std::max(value, probability(kByCosine * nearest + kByCosineFrom));
    return answerable;
}

// How likely each document with these scores is the answer, if there is one.
Column share_of(const Column& final, const Request& request) {
    const double most = *std::max_element(final.begin(), final.end());
    double total = 0;
    for (const double value : final) total += std::exp(value - most);
    Column share;
    for (const double value : final)
        share.push_back(probability(request.share[0] * (value - most - std::log(total)) + request.share[1]));
    return share;
}

// A summary says all that its sources do, and would take their share of the answer.
Column competing_of(const Rows& rows, std::span<const std::int64_t> documents, const Column& final) {
    const double least = *std::min_element(final.begin(), final.end());
    Column competing = final;
    for (std::size_t i = 0; i < final.size(); ++i)
        if (rows.id_key[static_cast<std::size_t>(documents[i])] >> 56 == kSummary)
            competing[i] = least + kSummaryWeight * (final[i] - least);
    return competing;
}

void copy_lift(const Column& lift, double* part) {
    const bool any = std::any_of(lift.begin(), lift.end(), [](double value) { return value != 0; });
    if (any) std::copy(lift.begin(), lift.end(), part);
}

}  // namespace

Results results_of(const Rows& rows, std::span<const std::int64_t> documents, std::span<const double> confidence,
                   const Request& request) {
    const Gathered pool = gathered(rows, documents, request);
    const std::size_t size = pool.size(), terms = request.asked.terms.size();
    const std::span inside(reinterpret_cast<const bool*>(pool.inside.data()), size);
    Results results;
    results.scores = score({size, pool.terms, pool.lengths, pool.cosine,
                            pool.static_cosine, pool.episode, pool.sequence, pool.occurred_ms, pool.importance, pool.author, pool.other_author, inside,
                            pool.authors},
                           request.asked, request.weights);
    const Scores& scores = results.scores;

    // Documents of the time that the question names count as saying the words that name it; without any, those words
    // do not count.
    Column said = scores.said, near = scores.near, idf(request.rarity.idf.begin(), request.rarity.idf.end());
    const bool any_inside = std::find(inside.begin(), inside.end(), true) != inside.end();
    for (std::size_t term = 0; term < terms; ++term) {
        if (request.counted[term]) continue;
        if (!any_inside) idf[term] = 0;
        for (std::size_t i = 0; i < size; ++i)
            if (inside[i]) said[i * terms + term] = std::max(1.0, said[i * terms + term]), near[i * terms + term] = 1;
    }
    if (request.asked.mode == Mode::kHybrid)
        results.evidence = evidence(said, near, {idf, request.rarity.in_table, request.rarity.trust}, pool.static_cosine, pool.cosine);
    const Column first_of_time = time_lift(pool, scores, request.counted, terms);
    results.whole = whole_lift(pool, scores, request);
    Column final = scores.final;
    for (std::size_t i = 0; i < size; ++i) final[i] += first_of_time[i] + results.whole[i];

    Parts parts(size);
    const Column relevance = stretched(final);
    std::copy(relevance.begin(), relevance.end(), parts[kRelevancePart]);
    std::copy(pool.cosine.begin(), pool.cosine.end(), parts[kCosinePart]);
    std::copy(pool.static_cosine.begin(), pool.static_cosine.end(), parts[kStaticPart]);
    std::copy(pool.importance.begin(), pool.importance.end(), parts[kImportancePart]);
    std::copy(confidence.begin(), confidence.end(), parts[kConfidencePart]);
    copy_lift(first_of_time, parts[kFirstOfTimePart]);
    copy_lift(results.whole, parts[kWholePart]);
    weigh(rows, documents, pool, scores, request, parts);

    Column ordered(parts[kScorePart], parts[kScorePart] + size);
    for (double& value : ordered) value = rounded(value, kDigits);
    const Mask matches = matching(pool, scores, request);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < size; ++i)
        if (matches[i]) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) { return ordered[left] > ordered[right]; });
    if (request.lists_parts)
        cover(std::span(order).first(std::min(order.size(), kPartsFrom * request.limit)), scores, idf, parts[kScorePart]);
    if (!request.fold) order.resize(std::min(order.size(), request.limit));

    if (request.language.known) results.language = language_of(pool, order, request);
    const Column answerable = answerable_of(pool, request, results, near, idf);
    if (!answerable.empty()) {
        const Column share = share_of(competing_of(rows, documents, scores.final), request);
        for (std::size_t i = 0; i < size; ++i) {
            parts[kAnswerablePart][i] = rounded(answerable[i], kConfidenceDigits);
            parts[kAnswersPart][i] = rounded(answerable[i] * share[i], kConfidenceDigits);
        }
    }
    const std::vector<std::int64_t> places(order.begin(), order.end());
    results.numbers.resize(places.size());
    std::iota(results.numbers.begin(), results.numbers.end(), std::int64_t{0});
    if (request.fold) results.numbers = distinct(pool.documents(), places, request.limit, kRepeats);
    results.places.assign(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(results.numbers.size()));
    for (const std::int64_t i : results.places)
        for (std::size_t part = 0; part < kParts; ++part)
            results.parts.push_back(rounded(parts[static_cast<Part>(part)][i], kDigits));
    return results;
}

}  // namespace mnemolog
