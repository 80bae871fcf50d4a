#include "candidates.h"

#include <algorithm>
#include <functional>

namespace mnemolog {
namespace {

// The documents with the `most` highest scores; of equal scores at the end those with the smallest keys.
void take_best(const Rows& rows, Scored scored, std::size_t most, std::vector<std::int64_t>& taken) {
    std::vector<std::size_t> order(scored.documents.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto before = [&](std::size_t left, std::size_t right) {
        if (scored.scores[left] != scored.scores[right]) return scored.scores[left] > scored.scores[right];
        return rows.id_key[static_cast<std::size_t>(scored.documents[left])] <
               rows.id_key[static_cast<std::size_t>(scored.documents[right])];
    };
    const std::size_t count = std::min(most, order.size());
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), before);
    for (std::size_t i = 0; i < count; ++i) taken.push_back(scored.documents[order[i]]);
}

// As `Postings::best`, of documents that are all read: then those of others cost no time.
Scored best_of_few(const Rows& rows, const Leg& leg, std::span<const std::uint32_t> terms) {
    Scored scored;
    for (const std::int64_t document : leg.documents) {
        const auto row = rows.terms[static_cast<std::size_t>(document)];
        const double norm = leg.bm25.norm(static_cast<double>(row.size()));
        double score = 0;
        for (std::size_t i = 0; i < terms.size(); ++i) score += leg.bm25.score(i, times_said(row, terms[i]), norm);
        if (score == 0) continue;
        scored.documents.push_back(document);
        scored.scores.push_back(score);
    }
    return scored;
}

void take_nearest(const Rows& rows, const Vectors& vectors, std::span<const std::int64_t> documents, std::span<const float> query,
                  std::size_t most, std::vector<std::int64_t>& taken) {
    if (query.empty() || documents.empty()) return;
    std::vector<float> products(documents.size());
    best_products(vectors, documents, quantized_query(query), products.data());
    Scored scored;
    for (const std::size_t at : largest(products, most)) {
        scored.documents.push_back(documents[at]);
        scored.scores.push_back(products[at]);
    }
    take_best(rows, std::move(scored), most, taken);
}

bool is_allowed(std::span<const Leg> legs, std::int32_t document) {
    const auto at = static_cast<std::size_t>(document);
    return document >= 0 && at < legs[0].allowed.size() && legs[0].allowed[at];
}

}  // namespace

std::vector<std::int64_t> candidates(const Rows& rows, Postings& postings, const Neighbors& neighbors,
                                     std::span<const Leg> legs, const Wanted& wanted) {
    std::vector<std::int64_t> found;
    for (const Leg& leg : legs) {
        if (!wanted.terms.empty() && wanted.by_words > 0 && leg.documents.empty())
            take_best(rows, postings.best_of_rarest({wanted.terms, leg.allowed, rows.terms.lengths}, leg.bm25, rows.terms,
                                              wanted.by_words),
                      wanted.by_words, found);
        else if (!wanted.terms.empty())
            take_best(rows, best_of_few(rows, leg, wanted.terms), wanted.by_words, found);
        take_nearest(rows, rows.model, leg.near_model, wanted.vector, wanted.by_meaning, found);
        take_nearest(rows, rows.static_vectors, leg.near_static, wanted.static_vector, wanted.by_meaning, found);
    }
    for (std::size_t i = 0, count = found.size(); i < count; ++i)
        for (const std::int32_t beside : {neighbors.earlier[static_cast<std::size_t>(found[i])],
                                          neighbors.later[static_cast<std::size_t>(found[i])]})
            if (is_allowed(legs, beside)) found.push_back(beside);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::stable_sort(found.begin(), found.end(), [&](std::int64_t left, std::int64_t right) {
        return rows.id_key[static_cast<std::size_t>(left)] < rows.id_key[static_cast<std::size_t>(right)];
    });
    return found;
}

}  // namespace mnemolog
