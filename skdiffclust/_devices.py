"""The device that an estimator trains on, and the error if torch is missing.

torch is an extra: without it "auto" is the CPU. Importing this module does not load it.
"""

import functools
import sys
from importlib.util import find_spec
from typing import cast

from skdiffclust._types import Function


def require_torch(what):
    """Raise ImportError if torch is not installed.

    Parameters
    ----------
    what : str
        What needs it, which begins the sentence.
    """
    if find_spec("torch") is None:
        raise ImportError(
            f"{what} needs torch, which is not installed: run 'pip install torch'.",
            name="torch",
        )


def resolve_device(device, owner):
    """Return the name of the device that a 'device' parameter stands for.

    Parameters
    ----------
    device : str or torch.device
        "auto" is CUDA if there is one, else the CPU; torch is imported
        only if `device` is not "cpu", and only if it is installed.
    owner : str
        Class that the parameter belongs to, for the message.

    Returns
    -------
    str
        "cpu", "cuda" or "cuda:" with a number.

    Raises
    ------
    ValueError
        If there is no such device, with those that are present; or if it is neither
        the CPU nor a CUDA device.
    ImportError
        If a CUDA device is requested and torch is not installed.
    """
    if isinstance(device, str) and device == "cpu":
        return "cpu"
    present = ["cpu"]
    if find_spec("torch"):
        import torch

        present += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    elif isinstance(device, str) and device.partition(":")[0] == "cuda":
        require_torch(f"{owner} with device={device!r}")
    best = "cuda" if len(present) > 1 else "cpu"
    name = str(device)
    if name == "auto":
        return best
    if name not in (best, *present):
        raise ValueError(
            f"The 'device' parameter of {owner} must be 'auto' or one of the devices "
            f"present: {', '.join(present)}. Got {device!r} instead. Use "
            "device='auto', which takes the best of them; devices other than the CPU "
            "and CUDA are not supported."
        )
    return name


def refuse_other_devices(tensor, owner):
    """Refuse a tensor that is neither on the CPU nor on a CUDA device.

    Tensors without data, on torch's "meta" device, pass.
    """
    if tensor.device.type not in ("cpu", "cuda", "meta"):
        raise ValueError(
            f"The input of {owner} must be on the CPU or on a CUDA device. Got a "
            f"tensor on {str(tensor.device)!r} instead. Move it with .cpu()."
        )


def outside_torch_modes(method: Function) -> Function:
    """Run a method with the gradients of torch on, inference mode and autocast off.

    For a ``fit`` that is called inside ``torch.no_grad()``, ``torch.inference_mode()``
    or ``torch.autocast(...)``: it then does the same as outside. Nothing happens if
    torch was not imported, because no mode can have been set then.
    """

    @functools.wraps(method)
    def run(*args, **kwargs):
        torch = sys.modules.get("torch")
        # No mode can be set while another thread is importing torch either.
        spec = getattr(torch, "__spec__", None)
        if torch is None or getattr(spec, "_initializing", False):
            return method(*args, **kwargs)
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
        ):
            return method(*args, **kwargs)

    return cast(Function, run)
