// The Python module. Here arrays are checked; behind it every index is within bounds. All work is done without the
// interpreter's lock. A function raises ValueError for arrays that do not fit together.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <stdexcept>

#include "vectors.h"

namespace nb = nanobind;
using namespace mnemolog;

namespace {

template <typename T>
using Column = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Matrix = nb::ndarray<const T, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using NewColumn = nb::ndarray<nb::numpy, T, nb::shape<-1>>;

template <typename T>
std::span<const T> span_of(const Column<T>& column) {
    return {column.data(), column.shape(0)};
}

template <typename T>
NewColumn<T> to_python(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
    return NewColumn<T>(kept->data(), {kept->size()}, owner);
}

void require(bool holds, const char* otherwise) {
    if (!holds) throw std::invalid_argument(otherwise);
}

void require_below(std::span<const std::int64_t> places, std::size_t limit) {
    for (const std::int64_t place : places)
        require(place >= 0 && static_cast<std::size_t>(place) < limit, "a row is not in the matrix");
}

NewColumn<std::int64_t> products_of(Matrix<std::int8_t> matrix, Column<std::int64_t> rows,
                                    Column<std::int16_t> query) {
    const Rows vectors{matrix.data(), matrix.shape(0), matrix.shape(1)};
    require(vectors.width <= kMaxWidth && query.shape(0) == vectors.width, "the query has another width");
    std::vector<std::int64_t> out(rows.shape(0));
    {
        nb::gil_scoped_release released;
        require_below(span_of(rows), vectors.count);
        products(vectors, span_of(rows), query.data(), out.data());
    }
    return to_python(std::move(out));
}

NewColumn<std::int64_t> nearest_by_code(Matrix<std::uint64_t> codes, Column<std::int64_t> rows,
                                        Column<std::uint64_t> query, std::size_t count) {
    const std::size_t words = codes.shape(1);
    require(words <= kMaxWidth / 64 && query.shape(0) == words, "the query has another width");
    std::vector<std::int64_t> nearest;
    {
        nb::gil_scoped_release released;
        require_below(span_of(rows), codes.shape(0));
        nearest = nearest_codes(codes.data(), words, span_of(rows), query.data(), count);
    }
    return to_python(std::move(nearest));
}

}  // namespace

void bind_texts(nb::module_& m);  // text_module.cpp

NB_MODULE(mnemolog_kernel, m) {
    bind_texts(m);
    m.attr("VERSION") = 2;  // `projections/kernel/module.py` names the version that it calls
    m.def("products", &products_of, nb::arg("matrix"), nb::arg("rows"), nb::arg("query"),
          "The product of each of these rows of a matrix (int8) with a query (int16): (n,) int64.");
    m.def("nearest_codes", &nearest_by_code, nb::arg("codes"), nb::arg("rows"), nb::arg("query"), nb::arg("count"),
          "The `count` of these rows whose codes differ from the query's in the fewest bits, in their order; of equals "
          "the first.");
}
