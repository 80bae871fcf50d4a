// The Python module. Here arrays are checked; behind it every index is within bounds. All work is done without the
// interpreter's lock. A function raises ValueError for arrays that do not fit together.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "arrays.h"
#include "documents.h"
#include "postings.h"
#include "ranking.h"
#include "vectors.h"

namespace nb = nanobind;
using namespace mnemolog;

namespace {

std::vector<float> products(const Vectors& vectors, const Column<std::int64_t>& documents, const Column<float>& query) {
    require(query.shape(0) == vectors.width, "the query has another width");
    std::vector<float> out(documents.shape(0));
    nb::gil_scoped_release released;
    require(best_products(vectors, span_of(documents), quantized_query(span_of(query)), out.data()),
            "a document's vectors are not in the matrix");
    return out;
}

NewColumn<float> cosines(Matrix<std::int8_t> matrix, Column<float> scale, Column<std::int64_t> first,
                         Column<std::int32_t> count, Column<std::int64_t> documents, Column<float> query) {
    return to_python(products(vectors_of(matrix, scale, first, count), documents, query));
}

std::pair<NewMatrix<std::int8_t>, NewColumn<float>> quantized(Matrix<float> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) require(std::isfinite(rows.data()[i]), "a component is not finite");
    std::vector<std::int8_t> packed(rows.size());
    std::vector<float> scale(rows.shape(0));
    {
        nb::gil_scoped_release released;
        quantize({rows.data(), rows.size()}, rows.shape(1), packed.data(), scale.data());
    }
    return {to_python(std::move(packed), rows.shape(1), rows.shape(0)), to_python(std::move(scale))};
}

NewMatrix<float> sums_of_terms(Column<std::uint32_t> table_terms, Column<std::int64_t> table_rows,
                               Matrix<float> vectors, Column<std::uint32_t> terms, Column<std::int64_t> lengths,
                               std::size_t most) {
    const TermVectors table{span_of(table_terms), span_of(table_rows), vectors.data(), vectors.shape(1)};
    require(table.row.size() == table.terms.size(), "every term needs a row");
    require_below(table.row, vectors.shape(0));
    const Documents documents = documents_of(terms, lengths);
    std::vector<float> sums(documents.lengths.size() * table.width);
    {
        nb::gil_scoped_release released;
        std::size_t start = 0;
        for (std::size_t i = 0; i < documents.lengths.size(); ++i) {
            const auto length = static_cast<std::size_t>(documents.lengths[i]);
            sum_of_terms(table, documents.terms.subspan(start, std::min(length, most)), sums.data() + i * table.width);
            start += length;
        }
    }
    return to_python(std::move(sums), table.width, documents.lengths.size());
}

NewMatrix<std::uint64_t> codes_of(Matrix<std::int8_t> matrix, Column<float> mean) {
    require(mean.shape(0) == matrix.shape(1), "the mean has another width");
    const std::size_t words = (mean.shape(0) + 63) / 64;
    std::vector<std::uint64_t> codes(matrix.shape(0) * words);
    {
        nb::gil_scoped_release released;
        sign_codes({matrix.data(), matrix.shape(0) * matrix.shape(1)}, span_of(mean), codes.data());
    }
    return to_python(std::move(codes), words);
}

NewColumn<std::int64_t> nearest(Matrix<std::uint64_t> codes, Column<std::int64_t> document, Column<bool> allowed,
                                Column<std::uint64_t> query, std::size_t most) {
    require(codes.shape(1) <= kMaxWidth / 64 && query.shape(0) == codes.shape(1), "the query has another width");
    require(document.shape(0) == codes.shape(0), "every code needs a document");
    std::vector<std::int64_t> rows;
    {
        nb::gil_scoped_release released;
        rows = nearest_codes({codes.data(), codes.shape(1), span_of(document)}, span_of(allowed), query.data(), most);
    }
    return to_python(std::move(rows));
}

NewMatrix<double> counts(Column<std::uint32_t> terms, Column<std::int64_t> lengths, Column<std::uint32_t> wanted) {
    const Documents documents = documents_of(terms, lengths);
    std::vector<double> counts;
    {
        nb::gil_scoped_release released;
        counts = count_terms(documents, span_of(wanted));
    }
    return to_python(std::move(counts), wanted.shape(0), lengths.shape(0));
}

NewColumn<bool> in_order(Column<std::uint32_t> terms, Column<std::int64_t> lengths, Column<std::uint32_t> wanted,
                         std::size_t without_last) {
    const Documents documents = documents_of(terms, lengths);
    std::vector<std::uint8_t> say;
    {
        nb::gil_scoped_release released;
        say = say_in_order(documents, span_of(wanted), without_last);
    }
    auto* kept = new std::vector<std::uint8_t>(std::move(say));
    return NewColumn<bool>(reinterpret_cast<bool*>(kept->data()), {kept->size()}, owner_of(kept));
}

// The terms of some documents of a column of terms, one after the other, and how many each has.
std::pair<NewColumn<std::uint32_t>, NewColumn<std::int64_t>> rows_of(Column<std::uint32_t> terms,
                                                                    Column<std::int64_t> first,
                                                                    Column<std::int64_t> lengths,
                                                                    Column<std::int64_t> documents) {
    require(first.shape(0) == lengths.shape(0), "`first` and `lengths` are of the same documents");
    require_below(span_of(documents), first.shape(0));
    std::vector<std::int64_t> of_documents;
    std::size_t total = 0;
    for (const std::int64_t document : span_of(documents)) {
        const std::int64_t begin = first.data()[document], length = lengths.data()[document];
        require(begin >= 0 && length >= 0 && static_cast<std::size_t>(begin) + static_cast<std::size_t>(length) <= terms.size(),
                "a document's terms are not in the column");
        of_documents.push_back(length);
        total += static_cast<std::size_t>(length);
    }
    std::vector<std::uint32_t> rows;
    rows.reserve(total);
    for (const std::int64_t document : span_of(documents)) {
        const std::uint32_t* begin = terms.data() + first.data()[document];
        rows.insert(rows.end(), begin, begin + lengths.data()[document]);
    }
    return {to_python(std::move(rows)), to_python(std::move(of_documents))};
}

NewColumn<std::int64_t> distinct_results(Column<std::uint32_t> terms, Column<std::int64_t> lengths,
                                         Column<std::int64_t> places, std::size_t limit, double same_from,
                                         std::size_t without_last, std::size_t most_terms, std::size_t smallest) {
    const Documents documents = documents_of(terms, lengths);
    for (const std::int64_t place : span_of(places))
        require(place >= 0 && static_cast<std::size_t>(place) < lengths.shape(0), "a place is not in the pool");
    std::vector<std::int64_t> results;
    {
        nb::gil_scoped_release released;
        results = distinct(documents, span_of(places), limit, {same_from, without_last, most_terms, smallest});
    }
    return to_python(std::move(results));
}

Question question_of(const Column<std::uint32_t>& terms, const Column<bool>& allowed,
                     const Column<std::int64_t>& lengths) {
    require(lengths.shape(0) >= allowed.shape(0), "every allowed document needs a length");
    require(terms.shape(0) < 0xffff, "the question has too many terms");
    return {span_of(terms), span_of(allowed), span_of(lengths)};
}

void add_document(Postings& postings, std::uint32_t document, Column<std::uint32_t> terms, std::string_view words) {
    nb::gil_scoped_release released;
    postings.add(document, span_of(terms), words);
}

// Documents as they are stored in a column of terms: `lengths` terms each, one document after the other. `words` are
// theirs, separated by spaces, or none for any.
void add_documents(Postings& postings, std::uint32_t first, Column<std::uint32_t> terms, Column<std::int64_t> lengths,
                   const std::vector<std::string>& words) {
    const Documents documents = documents_of(terms, lengths);
    require(words.empty() || words.size() == lengths.shape(0), "the words are of other documents");
    nb::gil_scoped_release released;
    std::size_t start = 0;
    for (std::size_t i = 0; i < documents.lengths.size(); ++i) {
        const auto length = static_cast<std::size_t>(documents.lengths[i]);
        const std::string_view own = words.empty() ? std::string_view() : words[i];
        postings.add(first + static_cast<std::uint32_t>(i), documents.terms.subspan(start, length), own);
        start += length;
    }
}

std::pair<NewColumn<std::uint32_t>, NewColumn<std::int64_t>> hashed(const std::vector<std::string>& documents) {
    std::vector<std::uint32_t> hashes;
    std::vector<std::int64_t> lengths;
    for (const std::string& words : documents) {
        const std::size_t before = hashes.size();
        hash_words(words, hashes);
        lengths.push_back(static_cast<std::int64_t>(hashes.size() - before));
    }
    return {to_python(std::move(hashes)), to_python(std::move(lengths))};
}

NewColumn<std::int64_t> frequencies(const Postings& postings, Column<std::uint32_t> terms, Column<bool> allowed) {
    std::vector<std::int64_t> counts;
    {
        nb::gil_scoped_release released;
        counts = postings.frequencies({span_of(terms), span_of(allowed), {}});
    }
    return to_python(std::move(counts));
}

std::pair<NewColumn<std::int64_t>, NewColumn<double>> best(Postings& postings, Column<std::uint32_t> terms,
                                                           Column<double> idf, Column<bool> allowed,
                                                           Column<std::int64_t> lengths, double k1, double b,
                                                           double average_length, std::size_t least,
                                                           std::size_t most) {
    const Question question = question_of(terms, allowed, lengths);
    require(idf.shape(0) == terms.shape(0), "every term needs a weight");
    Scored scored;
    {
        nb::gil_scoped_release released;
        scored = postings.best(question, {span_of(idf), k1, b, average_length}, least, most);
    }
    return {to_python(std::move(scored.documents)), to_python(std::move(scored.scores))};
}

NewColumn<std::int64_t> mostly(Postings& postings, Column<std::uint32_t> terms, Column<bool> allowed,
                               Column<std::int64_t> lengths, std::size_t least, std::int64_t times,
                               std::int64_t beside) {
    const Question question = question_of(terms, allowed, lengths);
    std::vector<std::int64_t> documents;
    {
        nb::gil_scoped_release released;
        documents = postings.mostly(question, least, times, beside);
    }
    return to_python(std::move(documents));
}

Pool pool_of(const Column<std::uint32_t>& terms, const Column<std::int64_t>& lengths, const Column<double>& cosine,
             const Column<double>& static_cosine, const Column<std::int32_t>& episode,
             const Column<std::int32_t>& sequence, const Column<std::int64_t>& occurred_ms,
             const Column<double>& importance, const Column<double>& author, const Column<double>& other_author,
             const Column<bool>& inside, double authors) {
    const Pool pool{lengths.shape(0), span_of(terms), span_of(lengths), span_of(cosine), span_of(static_cosine),
                    span_of(episode), span_of(sequence), span_of(occurred_ms), span_of(importance), span_of(author),
                    span_of(other_author), span_of(inside), authors};
    const auto fits = [&](const auto& column) { return column.size() == pool.size; };
    const auto fits_or_empty = [&](const auto& column) { return column.empty() || column.size() == pool.size; };
    require(pool.size > 0, "the pool is empty");
    require(fits(pool.cosine) && fits(pool.episode) && fits(pool.sequence) && fits(pool.author) &&
                fits(pool.other_author) && fits_or_empty(pool.static_cosine) && fits_or_empty(pool.occurred_ms) &&
                fits_or_empty(pool.importance) && fits_or_empty(pool.inside),
            "the columns of the pool are of different lengths");
    documents_of(terms, lengths);
    return pool;
}

Asked asked_of(int mode, const Column<std::uint32_t>& terms, const Column<double>& times,
               const Column<std::uint32_t>& months, double words, const Column<double>& cues,
               const Column<std::uint32_t>& traits) {
    require(mode >= 0 && mode <= 2, "the mode is 0, 1 or 2");
    require(times.shape(0) == terms.shape(0), "every term needs its number of times");
    require(cues.shape(0) == 9 && traits.shape(0) == kTraits, "there are nine cues and nine traits");
    const double* cue = cues.data();
    return {static_cast<Mode>(mode), span_of(terms), span_of(times), span_of(months), words,
            {cue[0], cue[1], cue[2], cue[3], cue[4], cue[5], cue[6], cue[7], cue[8]}, span_of(traits)};
}

// Features, kind, weights, lexical, final, said, near, traits: see `projections.search.ranking.Scores`.
using Ranked = std::tuple<NewMatrix<double>, NewColumn<double>, NewColumn<double>, NewColumn<double>, NewColumn<double>,
                          NewMatrix<double>, NewMatrix<double>, NewMatrix<double>>;

Ranked ranked(Column<std::uint32_t> terms, Column<std::int64_t> lengths, Column<double> cosine,
              Column<double> static_cosine, Column<std::int32_t> episode, Column<std::int32_t> sequence,
              Column<std::int64_t> occurred_ms, Column<double> importance, Column<double> author,
              Column<double> other_author, Column<bool> inside, double authors, int mode,
              Column<std::uint32_t> query_terms, Column<double> times, Column<std::uint32_t> months, double words,
              Column<double> cues, Column<std::uint32_t> traits, Matrix<double> feature_weights,
              Column<double> kind_weights) {
    const Pool pool = pool_of(terms, lengths, cosine, static_cosine, episode, sequence, occurred_ms, importance, author,
                              other_author, inside, authors);
    const Asked asked = asked_of(mode, query_terms, times, months, words, cues, traits);
    require(feature_weights.shape(0) == 2 && feature_weights.shape(1) == kFeatures, "the features need two weights");
    require(kind_weights.shape(0) == kKinds, "the kinds need a weight each");
    Scores scores;
    {
        nb::gil_scoped_release released;
        scores = score(pool, asked, {{feature_weights.data(), 2 * kFeatures}, span_of(kind_weights)});
    }
    const std::size_t said = query_terms.shape(0);
    return {to_python(std::move(scores.features), pool.size),
            to_python(std::vector<double>(scores.kind.begin(), scores.kind.end())),
            to_python(std::vector<double>(scores.weights.begin(), scores.weights.end())),
            to_python(std::move(scores.lexical)),
            to_python(std::move(scores.final)),
            to_python(std::move(scores.said), said, pool.size),
            to_python(std::move(scores.near), said, pool.size),
            to_python(std::move(scores.traits), pool.size)};
}

NewMatrix<double> evidence_of(Matrix<double> said, Matrix<double> near, Column<double> idf, Column<bool> in_table,
                              Column<double> trust, Column<double> static_cosine, Column<double> cosine) {
    const std::size_t size = cosine.shape(0), terms = idf.shape(0);
    require(in_table.shape(0) == terms && trust.shape(0) == terms, "every term needs a weight");
    require(static_cosine.shape(0) == size && said.shape(0) == size && near.shape(0) == size, "a column is too short");
    require(said.shape(1) == terms && near.shape(1) == terms, "every term needs a column");
    std::vector<double> columns;
    {
        nb::gil_scoped_release released;
        columns = evidence({said.data(), size * terms}, {near.data(), size * terms},
                           {span_of(idf), span_of(in_table), span_of(trust)}, span_of(static_cosine), span_of(cosine));
    }
    return to_python(std::move(columns), kAnswerable);
}

}  // namespace

void bind_texts(nb::module_& m);    // text_module.cpp
void bind_results(nb::module_& m);  // results_module.cpp

NB_MODULE(mnemolog_kernel, m) {
    // readers of texts live as long as the process; without this, its end prints a list of them
    nb::set_leak_warnings(false);
    bind_texts(m);
    bind_results(m);
    m.attr("VERSION") = 8;  // `projections/kernel/module.py` names the version that it calls
    m.def("cosines", &cosines, nb::arg("matrix"), nb::arg("scale"), nb::arg("first"), nb::arg("count"),
          nb::arg("documents"), nb::arg("query"),
          "The cosine of each document's best vector with the query: (n,) float32, nan without one.");
    m.def("quantize", &quantized, nb::arg("rows"),
          "Rows as int8, and the scale that makes each of unit length: (n, width) int8, (n,) float32.");
    m.def("sums_of_terms", &sums_of_terms, nb::arg("table_terms"), nb::arg("table_rows"), nb::arg("vectors"),
          nb::arg("terms"), nb::arg("lengths"), nb::arg("most"),
          "The sum of the vectors of each document's first `most` terms: (n, width) float32.");
    m.def("sign_codes", &codes_of, nb::arg("matrix"), nb::arg("mean"),
          "Which components of each row exceed the mean, as bits: (n, words) uint64.");
    m.def("nearest_codes", &nearest, nb::arg("codes"), nb::arg("document"), nb::arg("allowed"), nb::arg("query"),
          nb::arg("most"),
          "Up to `most` rows of allowed documents whose codes differ in the fewest bits: (n,) int64, ascending.");
    nb::class_<Postings>(m, "Postings", "Which documents say which terms, as hashes, and the words near a misspelled one: see `postings.h`.")
        .def(nb::init<>())
        .def("add", &add_document, nb::arg("document"), nb::arg("terms"), nb::arg("words"))
        .def("add_each", &add_documents, nb::arg("first"), nb::arg("terms"), nb::arg("lengths"),
             nb::arg("words") = std::vector<std::string>())
        .def("add_word", &Postings::add_word, nb::arg("term"), nb::arg("word"))
        .def("words", &Postings::words)
        .def("frequencies", &frequencies, nb::arg("terms"), nb::arg("allowed"))
        .def("best", &best, nb::arg("terms"), nb::arg("idf"), nb::arg("allowed"), nb::arg("lengths"), nb::arg("k1"),
             nb::arg("b"), nb::arg("average_length"), nb::arg("least"), nb::arg("most"))
        .def("mostly", &mostly, nb::arg("terms"), nb::arg("allowed"), nb::arg("lengths"), nb::arg("least"),
             nb::arg("times"), nb::arg("beside"))
        .def("similar", &Postings::similar, nb::arg("word"), nb::arg("edits"));
    m.def("score", &ranked, nb::arg("terms"), nb::arg("lengths"), nb::arg("cosine"), nb::arg("static_cosine"),
          nb::arg("episode"), nb::arg("sequence"), nb::arg("occurred_ms"), nb::arg("importance"), nb::arg("author"),
          nb::arg("other_author"), nb::arg("inside"), nb::arg("authors"), nb::arg("mode"), nb::arg("query_terms"),
          nb::arg("times"), nb::arg("months"), nb::arg("words"), nb::arg("cues"), nb::arg("traits"),
          nb::arg("feature_weights"), nb::arg("kind_weights"),
          "The features of a pool, which must not be empty, and their sums; an empty column is missing.");
    m.def("evidence", &evidence_of, nb::arg("said"), nb::arg("near"), nb::arg("idf"), nb::arg("in_table"),
          nb::arg("trust"), nb::arg("static_cosine"), nb::arg("cosine"),
          "What speaks for each document of a pool: (n, 6) float64.");
    m.def("hashed", &hashed, nb::arg("documents"),
          "The hashes of documents, each as terms joined by spaces: (terms of all,) uint32, (n,) int64, how many each has.");
    m.def("rows_of", &rows_of, nb::arg("terms"), nb::arg("first"), nb::arg("lengths"), nb::arg("documents"),
          "The terms of documents, one after the other, and how many each has: (terms,) uint32, (n,) int64.");
    m.def("in_order", &in_order, nb::arg("terms"), nb::arg("lengths"), nb::arg("wanted"), nb::arg("without_last"),
          "Which documents say the wanted terms one right after the other, before their last ones: (n,) bool.");
    m.def("count_terms", &counts, nb::arg("terms"), nb::arg("lengths"), nb::arg("wanted"),
          "How often each document says each of the wanted terms: (n, wanted) float64.");
    m.def("distinct", &distinct_results, nb::arg("terms"), nb::arg("lengths"), nb::arg("places"), nb::arg("limit"),
          nb::arg("same_from"), nb::arg("without_last"), nb::arg("most_terms"), nb::arg("smallest"),
          "Of each place, the number of the result that it is, or repeats: (n,) int64.");
}
