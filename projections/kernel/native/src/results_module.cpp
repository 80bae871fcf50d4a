// What Python calls for the results of a question. Arrays are checked here; behind it every index is within bounds.
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arrays.h"
#include "candidates.h"
#include "results.h"

using namespace mnemolog;

namespace {

// An array that is an attribute of an object, which keeps it alive: it is not converted, or a span would be of a copy.
template <typename Array>
Array array(nb::handle owner, const char* name) {
    Array values;
    if (!nb::try_cast(nb::object(owner.attr(name)), values, false)) throw nb::type_error(name);
    return values;
}

template <typename T>
std::span<const T> column(nb::handle owner, const char* name) {
    return span_of(array<Column<T>>(owner, name));
}

template <typename T>
T value(nb::handle owner, const char* name) {
    return nb::cast<T>(owner.attr(name));
}

// A column of an index: an array that grows.
template <typename T>
std::span<const T> grown(nb::handle rows, const char* name) {
    return column<T>(nb::object(rows.attr(name)), "values");
}

Documents phrases(nb::handle owner, const char* name) {
    const nb::object rows = owner.attr(name);
    return documents_of(array<Column<std::uint32_t>>(rows, "hashes"), array<Column<std::int64_t>>(rows, "lengths"));
}

TermColumn terms(nb::handle owner, const char* name) {
    const nb::object rows = owner.attr(name);
    return {column<std::uint32_t>(rows, "hashes"), column<std::int64_t>(rows, "first"), column<std::int64_t>(rows, "lengths")};
}

Vectors vectors(nb::handle owner, const char* name) {
    const nb::object rows = nb::object(owner.attr(name)).attr("columns");
    return vectors_of(array<Matrix<std::int8_t>>(rows, "matrix"), array<Column<float>>(rows, "scale"),
                      array<Column<std::int64_t>>(rows, "first"), array<Column<std::int32_t>>(rows, "count"));
}

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
    return {terms(rows, "terms"), vectors(rows, "vectors"), vectors(rows, "static"),
            grown<std::uint64_t>(rows, "id_key"), grown<std::int32_t>(rows, "episode"),
            grown<std::int32_t>(rows, "sequence"), grown<std::int32_t>(rows, "author"),
            grown<std::int64_t>(rows, "occurred_ms"), grown<float>(rows, "importance"), terms(rows, "names")};
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

Asked asked_of(nb::handle criteria) {
    const auto cue = column<double>(criteria, "cues");
    require(cue.size() == 9, "there are nine cues");
    const Asked of{static_cast<Mode>(value<int>(criteria, "mode")), column<std::uint32_t>(criteria, "terms"),
                   column<double>(criteria, "times"), column<std::uint32_t>(criteria, "months"), value<double>(criteria, "words"),
                   {cue[0], cue[1], cue[2], cue[3], cue[4], cue[5], cue[6], cue[7], cue[8]},
                   column<std::uint32_t>(criteria, "traits")};
    require(of.mode >= Mode::kHybrid && of.mode <= Mode::kVector, "the mode is 0, 1 or 2");
    require(of.times.size() == of.terms.size(), "every term needs its number of times");
    require(of.traits.size() == kTraits, "there are nine traits");
    return of;
}

Request request_of(nb::handle criteria, const Rows& rows) {
    const auto weights = array<Matrix<double>>(criteria, "features");
    require(weights.shape(0) == 2 && weights.shape(1) == kFeatures, "the features need two weights");
    const Request of{
        asked_of(criteria),
        {{weights.data(), 2 * kFeatures}, column<double>(criteria, "kind")},
        column<double>(criteria, "answerable"), column<double>(criteria, "share"),
        column<float>(criteria, "vector"), column<float>(criteria, "static_vector"),
        {column<double>(criteria, "idf"), column<bool>(criteria, "in_table"), column<double>(criteria, "trust")},
        column<bool>(criteria, "counted"), column<bool>(criteria, "numbers"),
        value<std::int64_t>(criteria, "from_ms"), value<std::int64_t>(criteria, "to_ms"), phrases(criteria, "dates"),
        phrases(criteria, "identifiers"), value<double>(criteria, "identifiers_share"), phrases(criteria, "names"),
        value<bool>(criteria, "exact"), value<bool>(criteria, "lookup"), value<bool>(criteria, "word_or_two"),
        value<bool>(criteria, "remark"), value<bool>(criteria, "lists_parts"), value<bool>(criteria, "fold"),
        value<std::size_t>(criteria, "limit"), value<double>(criteria, "half_life_ms"), value<double>(criteria, "alpha"),
        value<std::int64_t>(criteria, "now_ms"),
        {value<bool>(criteria, "confidence_known"), value<bool>(criteria, "english"), value<bool>(criteria, "surely_english"),
         value<bool>(criteria, "of_model"), value<bool>(criteria, "is_name"), column<std::uint32_t>(criteria, "language_terms"),
         column<std::int64_t>(criteria, "language_values")},
    };
    const std::size_t terms = of.asked.terms.size();
    require(of.rarity.idf.size() == terms && of.rarity.in_table.size() == terms && of.rarity.trust.size() == terms &&
                of.counted.size() == terms && of.numbers.size() == terms,
            "every term needs a weight");
    require(of.weights.kind.size() == kKinds && of.answerable.size() == kAnswerable && of.share.size() == 2,
            "a weight is missing");
    require(of.vector.empty() || of.vector.size() == rows.model.width, "the query has another width");
    require(of.static_vector.empty() || of.static_vector.size() == rows.static_vectors.width, "the query has another width");
    require(of.language.values.size() == 2 * of.language.terms.size(), "every term of a language needs two values");
    return of;
}

Results results(nb::handle rows, Column<std::int64_t> documents, Column<double> confidence, nb::handle criteria) {
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
    const Leg of{column<bool>(leg, "allowed"), column<std::int64_t>(leg, "documents"),
                 {column<double>(leg, "idf"), value<double>(leg, "k1"), value<double>(leg, "b"), value<double>(leg, "average_length")},
                 column<std::int64_t>(leg, "near_model"), column<std::int64_t>(leg, "near_static")};
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
    const Neighbors neighbors{grown<std::int32_t>(rows, "earlier"), grown<std::int32_t>(rows, "later")};
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

// A copy: few of these are read, and only to explain or to fit.
template <typename Values>
NewMatrix<double> matrix(const Values& values, std::size_t width) {
    return to_python(std::vector<double>(values.begin(), values.end()), width);
}

}  // namespace

void bind_results(nb::module_& m) {
    nb::class_<Results>(m, "Results", "The results of a question, and the features of its pool: see `results.h`.")
        .def_prop_ro("places", [](const Results& it) { return to_python(std::vector(it.places)); }, nb::rv_policy::move)
        .def_prop_ro("numbers", [](const Results& it) { return to_python(std::vector(it.numbers)); }, nb::rv_policy::move)
        .def_prop_ro("parts", [](const Results& it) { return matrix(it.parts, kParts); }, nb::rv_policy::move)
        .def_prop_ro("features", [](const Results& it) { return matrix(it.scores.features, it.scores.final.size()); }, nb::rv_policy::move)
        .def_prop_ro("weights", [](const Results& it) { return matrix(it.scores.weights, kFeatures); }, nb::rv_policy::move)
        .def_prop_ro("kind", [](const Results& it) { return matrix(it.scores.kind, kKinds); }, nb::rv_policy::move)
        .def_prop_ro("final", [](const Results& it) { return to_python(std::vector(it.scores.final)); }, nb::rv_policy::move)
        .def_prop_ro("whole", [](const Results& it) { return to_python(std::vector(it.whole)); }, nb::rv_policy::move)
        .def_prop_ro("evidence", [](const Results& it) { return matrix(it.evidence, kAnswerable); }, nb::rv_policy::move);
    m.def("candidates", &candidates_of, nb::arg("rows"), nb::arg("postings"), nb::arg("legs"), nb::arg("terms"),
          nb::arg("vector"), nb::arg("static_vector"), nb::arg("by_words"), nb::arg("by_meaning"),
          "The best documents by words and by meaning of each leg, and their neighbors: (n,) int64, by `id_key`.");
    m.def("results", &results, nb::arg("rows"), nb::arg("documents"), nb::arg("confidence"), nb::arg("criteria"),
          "The documents of a pool, which must not be empty and be in the order of their ids, best first.");
}
