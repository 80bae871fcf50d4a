// What Python calls for the results of a question. Arrays are checked here; behind it every index is within bounds.
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arrays.h"
#include "candidates.h"
#include "results.h"

using namespace mnemolog;

namespace {

// An attribute of an object, as what it is needed as. An array is not converted, or a span would be of a copy; the object
// keeps it alive.
class Field {
public:
    Field(nb::handle owner, const char* name) : value_(owner.attr(name)), name_(name) {}

    Field operator()(const char* name) const { return {value_, name}; }

    template <typename T>
    operator T() const requires std::is_arithmetic_v<T> { return nb::cast<T>(value_); }

    template <typename T>
    operator std::span<const T>() const { return span_of(array<Column<T>>()); }

    operator TermColumn() const { return {(*this)("hashes"), (*this)("first"), (*this)("lengths")}; }

    operator Documents() const {
        return documents_of((*this)("hashes").array<Column<std::uint32_t>>(), (*this)("lengths").array<Column<std::int64_t>>());
    }

    operator Vectors() const {
        const Field columns = (*this)("columns");
        return vectors_of(columns("matrix").array<Matrix<std::int8_t>>(), columns("scale").array<Column<float>>(),
                          columns("first").array<Column<std::int64_t>>(), columns("counts").array<Column<std::int32_t>>());
    }

    template <typename Array>
    Array array() const {
        Array values;
        if (!nb::try_cast(value_, values, false)) throw nb::type_error(name_);
        return values;
    }

private:
    nb::object value_;
    const char* name_;
};

bool within(const TermColumn& column, std::size_t number) {
    if (number >= column.first.size() || number >= column.lengths.size()) return false;
    const std::int64_t first = column.first[number], length = column.lengths[number];
    return first >= 0 && length >= 0 && static_cast<std::size_t>(first) + static_cast<std::size_t>(length) <= column.terms.size();
}

bool within(const Vectors& vectors, std::size_t document) {
    if (document >= vectors.count.size() || vectors.count[document] <= 0) return true;
    return vectors.first[document] >= 0 &&
           static_cast<std::size_t>(vectors.first[document]) + static_cast<std::size_t>(vectors.count[document]) <= vectors.row_count;
}

Rows columns_of(nb::handle rows) {
    const auto of = [&](const char* name) { return Field(rows, name); };
    const auto grown = [&](const char* name) { return Field(rows, name)("values"); };
    return {of("terms"), of("vectors"), of("static"), grown("id_key"), grown("episode"), grown("sequence"),
            grown("author"), grown("occurred_ms"), grown("importance"), of("names")};
}

void require_within(const Rows& rows, std::span<const std::int64_t> documents) {
    const std::size_t size = std::min({rows.id_key.size(), rows.episode.size(), rows.sequence.size(), rows.author.size(),
                                       rows.occurred_ms.size(), rows.importance.size()});
    require_below(documents, size);
    for (const std::int64_t document : documents) {
        const auto at = static_cast<std::size_t>(document);
        require(within(rows.terms, at), "a document's terms are not in the column");
        require(within(rows.model, at) && within(rows.static_vectors, at), "a document's vectors are not in the matrix");
        require(rows.author[at] >= 0 && within(rows.names, static_cast<std::size_t>(rows.author[at])), "an author has no name");
    }
}

Request request_of(nb::handle criteria, const Rows& rows) {
    const auto at = [&](const char* name) { return Field(criteria, name); };
    const int mode = at("mode");
    const std::span<const double> cue = at("cues");
    const auto weights = at("features").array<Matrix<double>>();
    require(mode >= 0 && mode <= 2, "the mode is 0, 1 or 2");
    require(cue.size() == 9, "there are nine cues");
    require(weights.shape(0) == 2 && weights.shape(1) == kFeatures, "the features need two weights");
    const Request of{
        {static_cast<Mode>(mode), at("terms"), at("times"), at("months"), at("words"),
         {cue[0], cue[1], cue[2], cue[3], cue[4], cue[5], cue[6], cue[7], cue[8]}, at("traits")},
        {{weights.data(), 2 * kFeatures}, at("kind")},
        at("answerable"), at("share"), at("vector"), at("static_vector"), {at("idf"), at("in_table"), at("trust")},
        at("counted"), at("numbers"), at("from_ms"), at("to_ms"), at("dates"), at("identifiers"), at("identifiers_share"),
        at("names"), at("exact"), at("lookup"), at("word_or_two"), at("remark"), at("lists_parts"), at("fold"), at("limit"),
        at("half_life_ms"), at("alpha"), at("now_ms"),
        {at("confidence_known"), at("english"), at("surely_english"), at("of_model"), at("is_name"), at("language_terms"),
         at("language_values")},
    };
    require(of.asked.times.size() == of.asked.terms.size(), "every term needs its number of times");
    require(of.asked.traits.size() == kTraits, "there are nine traits");
    const std::size_t terms = of.asked.terms.size();
    require(of.rarity.idf.size() == terms && of.rarity.in_table.size() == terms && of.rarity.trust.size() == terms &&
                of.counted.size() == terms && of.numbers.size() == terms,
            "every term needs a weight");
    require(of.weights.kind.size() == kKinds && of.answerable.size() == kAnswerable && of.share.size() == 2,
            "a weight is missing");
    require(of.vector.empty() || of.vector.size() == rows.model.width, "the query has another width");
    require(of.static_vector.empty() || of.static_vector.size() == rows.static_vectors.width, "the query has another width");
    require(of.language.values.size() == 2 * of.language.terms.size(), "every term of a language needs two values");
    require(!of.language.known || of.asked.mode == Mode::kHybrid, "confidence is known in the hybrid mode only");
    return of;
}

Results results_for(nb::handle rows, Column<std::int64_t> documents, Column<double> confidence, nb::handle criteria) {
    require(documents.shape(0) > 0, "the pool is empty");
    require(confidence.shape(0) == documents.shape(0), "every document needs a confidence");
    const Rows columns = columns_of(rows);
    require_within(columns, span_of(documents));
    const Request request = request_of(criteria, columns);
    nb::gil_scoped_release released;
    return results_of(columns, span_of(documents), span_of(confidence), request);
}

// The documents of a leg are checked only where they are read, which `require_within` would take too long for.
Leg leg_of(nb::handle leg, const Rows& rows) {
    const auto at = [&](const char* name) { return Field(leg, name); };
    const Leg of{at("allowed"), at("documents"), {at("idf"), at("k1"), at("b"), at("average_length")}, at("near_model"),
                 at("near_static")};
    require(of.allowed.size() <= rows.terms.lengths.size(), "every allowed document needs terms");
    for (const auto documents : {of.documents, of.near_model, of.near_static}) require_below(documents, rows.id_key.size());
    for (const std::int64_t document : of.documents)
        require(within(rows.terms, static_cast<std::size_t>(document)), "a document's terms are not in the column");
    for (const std::int64_t document : of.near_model)
        require(within(rows.model, static_cast<std::size_t>(document)), "a document's vectors are not in the matrix");
    for (const std::int64_t document : of.near_static)
        require(within(rows.static_vectors, static_cast<std::size_t>(document)), "a document's vectors are not in the matrix");
    return of;
}

NewColumn<std::int64_t> candidates_of(nb::handle rows, Postings& postings, const std::vector<nb::object>& legs,
                                      Column<std::uint32_t> terms, Column<float> vector, Column<float> static_vector,
                                      std::size_t by_words, std::size_t by_meaning) {
    const Rows columns = columns_of(rows);
    const Neighbors neighbors{Field(rows, "earlier")("values"), Field(rows, "later")("values")};
    const std::size_t size = columns.id_key.size();
    require(columns.terms.lengths.size() == size && neighbors.earlier.size() == size && neighbors.later.size() == size,
            "the columns are of different lengths");
    require(vector.shape(0) == 0 || vector.shape(0) == columns.model.width, "the query has another width");
    require(static_vector.shape(0) == 0 || static_vector.shape(0) == columns.static_vectors.width, "the query has another width");
    require(!legs.empty() && terms.shape(0) < 0xffff, "there is no leg, or too many terms");
    std::vector<Leg> wanted;
    for (const nb::object& leg : legs) {
        wanted.push_back(leg_of(leg, columns));
        require(wanted.back().bm25.idf.size() == terms.shape(0), "every term needs a weight");
    }
    std::vector<std::int64_t> found;
    {
        nb::gil_scoped_release released;
        found = candidates(columns, postings, neighbors, wanted,
                           {span_of(terms), span_of(vector), span_of(static_vector), by_words, by_meaning});
    }
    return to_python(std::move(found));
}

using Returned = nb::class_<Results>;

// Copies: few of these are read, and most only to explain or to fit.
template <typename Get>
void column(Returned& results, const char* name, Get get) {
    results.def_prop_ro(name, [get](const Results& it) { return to_python(std::vector(get(it))); }, nb::rv_policy::move);
}

template <typename Get>
void matrix(Returned& results, const char* name, Get get) {
    const auto copied = [get](const Results& it) {
        const auto& [values, width] = get(it);
        return to_python(std::vector<double>(values.begin(), values.end()), width);
    };
    results.def_prop_ro(name, copied, nb::rv_policy::move);
}

}  // namespace

void bind_results(nb::module_& m) {
    Returned results(m, "Results", "The results of a question, and the features of its pool: see `results.h`.");
    column(results, "places", [](const Results& it) { return it.places; });
    column(results, "numbers", [](const Results& it) { return it.numbers; });
    column(results, "final", [](const Results& it) { return it.scores.final; });
    column(results, "whole", [](const Results& it) { return it.whole; });
    matrix(results, "parts", [](const Results& it) { return std::pair(std::span(it.parts), kParts); });
    matrix(results, "features", [](const Results& it) { return std::pair(std::span(it.scores.features), it.scores.final.size()); });
    matrix(results, "weights", [](const Results& it) { return std::pair(std::span(it.scores.weights), kFeatures); });
    matrix(results, "kind", [](const Results& it) { return std::pair(std::span(it.scores.kind), kKinds); });
    matrix(results, "evidence", [](const Results& it) { return std::pair(std::span(it.evidence), kAnswerable); });
    results.def_prop_ro("language", [](const Results& it) { return static_cast<int>(it.language); }, "0 English, 1 code, 2 other.");
    m.def("candidates", &candidates_of, nb::arg("rows"), nb::arg("postings"), nb::arg("legs"), nb::arg("terms"),
          nb::arg("vector"), nb::arg("static_vector"), nb::arg("by_words"), nb::arg("by_meaning"),
          "The best documents by words and by meaning of each leg, and their neighbors: (n,) int64, by `id_key`.");
    m.def("results", &results_for, nb::arg("rows"), nb::arg("documents"), nb::arg("confidence"), nb::arg("criteria"),
          "The documents of a pool, which must not be empty and be in the order of their ids, best first.");
}
