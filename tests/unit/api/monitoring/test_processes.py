from api.monitoring.ops import merged

FIRST = """# HELP mnemolog_http_requests_total Requests answered.
# TYPE mnemolog_http_requests_total counter
mnemolog_http_requests_total{door="native",status="200"} 3.0
# HELP mnemolog_index_ready 1 when the index is caught up.
# TYPE mnemolog_index_ready gauge
mnemolog_index_ready 1.0
# HELP mnemolog_workers Workers that are alive.
# TYPE mnemolog_workers gauge
mnemolog_workers 2.0
"""
SECOND = FIRST.replace("3.0", "5.0").replace("ready 1.0", "ready 0.0").replace("workers 2.0", "workers 1.0")


def test_own_figures_are_told_of_each_process_and_those_of_the_log_once():
    text = merged({0: FIRST, 1: SECOND}, asked=1).splitlines()

    assert [line for line in text if not line.startswith("#")] == [
        'mnemolog_http_requests_total{process="0",door="native",status="200"} 3.0',
        'mnemolog_http_requests_total{process="1",door="native",status="200"} 5.0',
        'mnemolog_index_ready{process="0"} 1.0',
        'mnemolog_index_ready{process="1"} 0.0',
        "mnemolog_workers 1.0",
    ]
    assert sum(line.startswith("# TYPE") for line in text) == 3


def test_a_process_that_has_not_counted_something_yet_is_left_out_there():
    without = FIRST.replace('mnemolog_http_requests_total{door="native",status="200"} 3.0\n', "")

    text = merged({0: FIRST, 1: without}, asked=0)

    assert 'mnemolog_http_requests_total{process="0"' in text
    assert 'mnemolog_http_requests_total{process="1"' not in text
    assert 'mnemolog_index_ready{process="1"} 1.0' in text
