"""The fused kernel: interpreted beside other programs, and compiled for a device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="The extra triton is not installed.")
HERE = Path(__file__).parent


def test_interpreted_forests_are_right():
    """In a process of its own: the interpreter is chosen at import."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-q", HERE / "fused_forests.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]


KERNELS = """
import re, subprocess, tempfile, triton
from pathlib import Path
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from skdiffclust.forests._perturbed import _triton

tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
forests = dict(affinities="*fp32", sizes="*i32", seeds="*i64", scale="fp32",
               first_of_class="*i32", n_classes="*i32", counts="*i32",
               totals="*fp64", edges="*i32", n="i32", n_samples="i32")
scores = dict(seeds="*i64", coefficients="*fp32", sums="*fp32", n="i32",
              n_samples="i32")
variants = [(_triton.scores_kernel, scores, dict(BLOCK=256, GUMBEL=False), 4)]
for n in (64, 256, 1024, 4096):
    padded, tile, _, warps = _triton._grid(n, 100)
    for labelled in (False, True):
        constants = dict(N=padded, TILE=tile, GUMBEL=False, FREE=True,
                         LABELLED=labelled)
        variants.append((_triton.forests_kernel, forests, constants, warps))
for kernel, arguments, constants, warps in variants:
    signature = arguments | dict.fromkeys(constants, "constexpr")
    source = ASTSource(kernel, signature=signature, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32),
                          options={"num_warps": warps})
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(made.asm["cubin"])
        code = subprocess.run([tools / "cuobjdump", "-sass", binary], text=True,
                              capture_output=True, check=True).stdout
    # Instructions that store to local memory, and load from it.
    spills = re.findall("(?:STL|LDL)[^;]*;", code)
    print(constants, warps, len(code.splitlines()), spills, flush=True)
    assert "EXIT" in code and not spills
"""


def test_kernels_compile_for_a_device_without_spills(tmp_path):
    """Without a device: the compiler has its own assembler."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-c", KERNELS], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
