// Arrays of Python as spans, and the other way around. What does not fit together raises ValueError.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "documents.h"
#include "vectors.h"

namespace nb = nanobind;

namespace mnemolog {

template <typename T>
using Column = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Matrix = nb::ndarray<const T, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using NewColumn = nb::ndarray<nb::numpy, T, nb::shape<-1>>;
template <typename T>
using NewMatrix = nb::ndarray<nb::numpy, T, nb::shape<-1, -1>>;

template <typename T>
std::span<const T> span_of(const Column<T>& column) {
    return {column.data(), column.shape(0)};
}

template <typename T>
nb::capsule owner_of(std::vector<T>* values) {
    return nb::capsule(values, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
}

template <typename T>
NewColumn<T> to_python(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    return NewColumn<T>(kept->data(), {kept->size()}, owner_of(kept));
}

// `rows` is needed where the width may be 0.
template <typename T>
NewMatrix<T> to_python(std::vector<T>&& values, std::size_t width, std::size_t rows = 0) {
    auto* kept = new std::vector<T>(std::move(values));
    return NewMatrix<T>(kept->data(), {width == 0 ? rows : kept->size() / width, width}, owner_of(kept));
}

inline void require(bool holds, const char* otherwise) {
    if (!holds) throw std::invalid_argument(otherwise);
}

inline void require_below(std::span<const std::int64_t> places, std::size_t limit) {
    for (const std::int64_t place : places)
        require(place >= 0 && static_cast<std::size_t>(place) < limit, "a row is not in the matrix");
}

inline Documents documents_of(const Column<std::uint32_t>& terms, const Column<std::int64_t>& lengths) {
    std::size_t left = terms.shape(0);
    for (const std::int64_t length : span_of(lengths)) {
        require(length >= 0 && static_cast<std::size_t>(length) <= left, "there are too few terms");
        left -= static_cast<std::size_t>(length);
    }
    return {span_of(terms), span_of(lengths)};
}

inline Vectors vectors_of(const Matrix<std::int8_t>& matrix, const Column<float>& scale, const Column<std::int64_t>& first,
                   const Column<std::int32_t>& count) {
    require(matrix.shape(1) <= kMaxWidth, "the vectors have too many components");
    require(scale.shape(0) == matrix.shape(0), "every vector needs a scale");
    require(first.shape(0) == count.shape(0), "`first` and `count` are of the same documents");
    return {matrix.data(), scale.data(), matrix.shape(0), matrix.shape(1), span_of(first), span_of(count)};
}

}  // namespace mnemolog
