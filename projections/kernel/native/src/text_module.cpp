// What Python calls of the readers of texts. Texts are checked here: behind it every one is ASCII. The interpreter's lock
// is held, as texts are short; it keeps two threads from using one reader at once.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "text.h"

namespace nb = nanobind;
using namespace mnemolog;

namespace {

// The characters of an ASCII string, which has to stay alive; ValueError for another.
std::string_view ascii(const nb::str& text) {
    if (!PyUnicode_IS_ASCII(text.ptr())) throw std::invalid_argument("the text is not ASCII");
    return {static_cast<const char*>(PyUnicode_DATA(text.ptr())),
            static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr()))};
}

nb::str to_python(std::string_view text) {
    PyObject* made = PyUnicode_New(static_cast<Py_ssize_t>(text.size()), 127);
    if (!made) nb::raise_python_error();
    std::copy(text.begin(), text.end(), static_cast<char*>(PyUnicode_DATA(made)));
    return nb::steal<nb::str>(made);
}

nb::list to_python(const Strings& strings) {
    nb::list made = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(strings.size())));
    if (!made.is_valid()) nb::raise_python_error();
    for (std::size_t place = 0; place < strings.size(); ++place)
        PyList_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(place), to_python(strings[place]).release().ptr());
    return made;
}

WordSet to_set(const std::vector<std::string>& words) { return {words.begin(), words.end()}; }

}  // namespace

void bind_texts(nb::module_& m) {
    using Words = std::vector<std::string>;
    nb::class_<Terms>(m, "Terms", "Index terms of ASCII texts.")
        .def(
            "__init__",
            [](Terms* made, const Words& stop_words, const Words& operators) {
                new (made) Terms(to_set(stop_words), to_set(operators));
            },
            nb::arg("stop_words"), nb::arg("operators"))
        .def(
            "of", [](Terms& terms, nb::str text) { return to_python(terms.of(ascii(text))); }, nb::arg("text"),
            nb::sig("def of(self, text: str) -> list[str]"), "The index terms of a text, in reading order.");
    m.def(
        "snippet",
        [](nb::str text, const Words& query_terms, std::size_t limit) {
            return snippet(ascii(text), query_terms, limit);
        },
        nb::arg("text"), nb::arg("query_terms"), nb::arg("limit"),
        "The part of a text, on one line, of at most `limit` characters, where most of a query's terms are said.");
}
