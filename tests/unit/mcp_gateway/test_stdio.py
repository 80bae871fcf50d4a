import subprocess
import sys


def test_the_bridge_loads_no_model_and_no_index():
    """It runs beside every agent: importing it must stay cheap."""
    heavy = {
        "projections",
        "numpy",
        "onnxruntime",
        "hnswlib",
        "torch",
        "redis",
        "api.http",
        "mcp_gateway.server",
    }
    code = f"import sys, mcp_gateway.__main__; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
