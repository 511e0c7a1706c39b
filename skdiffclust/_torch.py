"""Shared by all torch modules: arrays, random streams, encoders, the loop."""

import copy
import functools
import os
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from skdiffclust._checkpoint import without_prefix
from skdiffclust._devices import refuse_other_devices
from skdiffclust._encoder import ACTIVATIONS, Encoder
from skdiffclust._history import call_with
from skdiffclust._threads import largest_product, small_products
from skdiffclust._types import Function

# Largest number of parts of a batch if CUDA is out of memory.
MOST_PARTS = 4
# Held while the global streams of torch are in use, see `isolated_streams`.
_STREAMS = threading.RLock()


def to_tensor(array, device="cpu", dtype=None):
    """Return a NumPy array as a tensor that shares its memory where that is safe.

    A read-only array (a memory map from joblib, for instance) is copied, since an
    in-place operation on a tensor over it ends the process; so are negative strides
    and byte orders that torch has no name for.
    """
    array = np.asarray(array)
    native = array.dtype.newbyteorder("=")
    strided = any(stride < 0 for stride in array.strides)
    if not array.flags.writeable or strided or array.dtype != native:
        array = array.astype(native, order="C", copy=True)
    return torch.from_numpy(array).to(device=device, dtype=dtype)


def to_numpy(tensor):
    """Return a tensor of any device as a NumPy array that owns its memory.

    A tensor of bfloat16, which NumPy does not have, becomes float32.
    """
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.numpy().copy()


@contextmanager
def isolated_streams(random_state, device="cpu", *, needed=True):
    """Seed torch's global streams inside the block, and restore them after it.

    What takes no Generator needs this, as the dropout and the initialisation of a
    user's module do. The streams belong to the whole process, so that only one thread
    at a time is inside: concurrent fits of modules take turns. If nothing inside can
    draw from them, and they are not `needed`, only the seed is drawn, and no thread
    waits.
    """
    device = torch.device(device)
    cuda = [device] if device.type == "cuda" else []
    seed = int(random_state.randint(np.iinfo(np.int32).max))
    if not needed:
        yield
        return
    with _STREAMS, torch.random.fork_rng(devices=cuda, device_type="cuda"):
        torch.random.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def _renew_lock():
    """Replace the lock in a child process, since it may have been held at the fork."""
    global _STREAMS
    _STREAMS = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def in_full_precision(function: Function) -> Function:
    """Run a method of a module, or a function, with the autocast of torch off.

    The affinities and sums over samples inside need full precision; convert the
    arguments by `at_least_float32`.
    """

    @functools.wraps(function)
    def run(*args, **kwargs):
        with (
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
        ):
            return function(*args, **kwargs)

    return cast(Function, run)


def outside_compiler(function: Function) -> Function:
    """Run a function, or a method of a module, outside of what torch.compile compiles.

    It does what ``torch.compiler.disable`` does, but only if the compiler was imported
    before, since that import takes seconds.
    """

    @functools.wraps(function)
    def run(*args, **kwargs):
        if "torch._dynamo" in sys.modules:
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return cast(Function, run)


def is_traced(tensor):
    """Whether the values of a tensor cannot be read: in compiled code or torch.func."""
    if torch.compiler.is_compiling():
        return True
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def refuse_transforms(tensor, name):
    """Refuse a tensor of a transform of torch.func, which `name` cannot follow."""
    if not torch.compiler.is_compiling() and is_traced(tensor):
        raise ValueError(
            f"{name} cannot be used inside a transform of torch.func, such as grad or "
            "vmap, because it needs the values of its arguments. Call backward() or "
            "torch.autograd.grad on its result instead, and in place of vmap pass a "
            "batch with leading dimensions where these are allowed."
        )


def differentiated_once(backward):
    """Refuse second derivatives in the backward pass of a Function."""

    @functools.wraps(backward)
    def run(ctx, *cotangents):
        if torch.is_grad_enabled():
            raise ValueError(
                "The gradients of forests and trees cannot be differentiated again, "
                "since these are found outside torch. Got create_graph=True instead "
                "of False. Use create_graph=False, or detach() this loss from what is "
                "differentiated twice."
            )
        return backward(ctx, *cotangents)

    return run


def at_least_float32(tensor):
    """Return a tensor of half precision as float32, and any other as it is."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def trained_tensor(tensor, argument, owner, shape, known=None):
    """Return the argument that a loss trains, in float32 at least, after checks.

    Raises TypeError or ValueError, which names it, if it is no tensor of real numbers,
    has fewer axes than `shape` names or is on a device that is not supported. `known`
    is the argument after it: if that one alone requires gradients, the two were
    exchanged.
    """
    if torch.is_tensor(tensor) and tensor.is_floating_point():
        is_known = getattr(known, "requires_grad", False) and not tensor.requires_grad
        least = 1 + shape.replace("...,", "").count(",")
        if tensor.layout == torch.strided and tensor.ndim >= least and not is_known:
            refuse_other_devices(tensor, owner)
            return at_least_float32(tensor)
        got = f"one of shape {tuple(tensor.shape)}"
        got += ", and gradients are tracked for the next argument only" * is_known
        error = ValueError
    else:
        got = str(getattr(tensor, "dtype", "")) + f" {type(tensor).__name__}"
        error = TypeError
    raise error(
        f"The {argument!r} argument of {owner} must be a dense tensor of float32 or "
        f"float64, or in half precision, of shape {shape}. Got {got.strip()} instead. "
        "What is trained comes first, and then what is known."
    )


def parameters_text(**parameters):
    """Return the text of parameters in the representation of a module."""
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def encoder_module(encoder):
    """Return an `Encoder` as an nn.Sequential of Linear layers and activations.

    The module has copies, in the dtype of the arrays, so training does not change
    these.
    """
    activation = getattr(nn, ACTIVATIONS[encoder.activation].module)
    layers = []
    for weight, bias in zip(encoder.weights, encoder.biases, strict=True):
        dtype = to_tensor(weight).dtype
        linear = nn.utils.skip_init(nn.Linear, *weight.shape, dtype=dtype)
        load_module_state(linear, {"weight": weight.T, "bias": bias})
        layers += [linear, activation()]
    return nn.Sequential(*layers[:-1])


def module_encoder(module, activation="relu"):
    """Return the `Encoder` of a module of `encoder_module`, with copies of arrays."""
    layers = [layer for layer in module if isinstance(layer, nn.Linear)]
    weights = [np.ascontiguousarray(to_numpy(layer.weight).T) for layer in layers]
    biases = [to_numpy(layer.bias) for layer in layers]
    return Encoder(weights, biases, activation)


def module_state(module):
    """Return a copy of the parameters and buffers of a module as a dict of arrays."""
    return {name: to_numpy(value) for name, value in module.state_dict().items()}


def load_module_state(module, state):
    """Restore what `module_state` copied."""
    module.load_state_dict({name: to_tensor(value) for name, value in state.items()})


@in_full_precision
def module_outputs(module, X, check, *, block_samples=1):
    """Return the outputs (n, ...), an array, of a module for samples X (n, ...).

    In evaluation mode and without gradient, on the device of its first parameter.

    ``predict`` takes one sample at a time, at one place in memory: rounding of products
    of a block depends on the position of a sample, so that equal samples would get
    different outputs and chunks would disagree. Larger blocks are for training.

    Parameters
    ----------
    module : nn.Module
        The dtype and the device are those of its first parameter.
    X : ndarray of shape (n_samples, ...)
    check : callable
        ``check(output, n_samples)`` raises if the output of one block is not valid.
    block_samples : int, default=1

    Raises
    ------
    TypeError
        If the module does not return a tensor.
    """
    samples = to_tensor(X)
    like = next(module.parameters(), samples)
    block = like.new_empty((block_samples, *X.shape[1:]))
    was_training = module.training
    module.eval()
    outputs = []
    with torch.no_grad():
        for part in samples.split(block_samples):
            entering = block[: len(part)].copy_(part)
            output = module(entering)
            if not torch.is_tensor(output):
                raise TypeError(
                    f"A module must return a tensor. Got {type(output).__name__} from "
                    f"{type(module).__name__} instead. Wrap it in a module that "
                    "returns the tensor that is needed."
                )
            check(output, len(part))
            outputs.append(to_numpy(output))
    module.train(was_training)
    return np.concatenate(outputs)


def own_module(module, parameter, others):
    """Return a deep copy of a user's module; TypeError if it is not a module.

    `parameter` is "'encoder' parameter of PRCut", say, and `others` names what else it
    can be, for the message.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"The {parameter} must be {others} or a torch nn.Module. Got "
            f"{type(module).__name__} instead."
        )
    return copy.deepcopy(module)


def module_on_cpu(module, state):
    """Return a copy of a module on the CPU, with the arrays of a state."""
    copied = copy.deepcopy(module).cpu()
    load_module_state(copied, state)
    return copied.eval()


def cluster_logits(module, X, n_clusters, parameter, owner, *, block_samples=1):
    """Return the outputs (n, k) of a module in evaluation mode, as a NumPy array.

    One sample at a time, so that an output does not depend on other samples.

    Parameters
    ----------
    module : nn.Module
    X : ndarray of shape (n_samples, n_features)
    n_clusters : int
    parameter, owner : str
        The parameter that the module was given as, and its class, for messages.
    block_samples : int, default=1
        See `module_outputs`.

    Raises
    ------
    ValueError
        If X does not fit the dtype of the module, or if it does not map samples to
        `n_clusters` outputs.
    TypeError
        If the module does not return a tensor.
    """
    dtype = next(module.parameters()).dtype
    largest = float(np.abs(X).max(initial=0.0))
    if largest > torch.finfo(dtype).max:
        raise ValueError(
            f"The 'X' parameter of {owner} must fit {str(dtype)[6:]}, the dtype of the "
            f"{parameter}. Got values up to {largest:.3g} instead. Rescale X."
        )

    def check(output, n_rows):
        if output.shape != (n_rows, n_clusters):
            raise ValueError(
                f"The '{parameter}' parameter of {owner} must map samples to one "
                f"output for each of {n_clusters} clusters. Got shape "
                f"{tuple(output.shape)} for {n_rows} samples instead. Set the width of "
                "its last layer to n_clusters."
            )

    return module_outputs(module, X, check, block_samples=block_samples)


class Parts:
    """The number of parts in which a batch fits the memory of a CUDA device.

    It is doubled, at most twice, when CUDA is out of memory, and never reduced.

    Parameters
    ----------
    remedy : str
        Parameters to lower, for the message.
    """

    def __init__(self, remedy):
        self.n_parts = 1
        self._remedy = remedy

    def run(self, work, n_samples, *, release=lambda: None):
        """Return ``work(n_parts)``, tried again in more parts if memory runs out.

        `n_samples` is the size of a batch; ``release()`` frees what a failed trial
        left. OutOfMemoryError, with advice, if the smallest parts are still too large.
        """
        while True:
            try:
                return work(self.n_parts)
            except torch.cuda.OutOfMemoryError as error:
                release()
                torch.cuda.empty_cache()
                if self.n_parts == MOST_PARTS:
                    raise torch.cuda.OutOfMemoryError(
                        f"CUDA is out of memory with batches of {n_samples} samples in "
                        f"{self.n_parts} parts. Lower {self._remedy}, or set "
                        "device='cpu'."
                    ) from error
            self.n_parts *= 2


def train_module(
    loop, module, batches, loss_of, optimizer, *, batch_size, close, checkpoint=None
):
    """Run the epochs of `loop`: draw batches, take steps, end each epoch.

    Parameters
    ----------
    loop : EpochLoop
        Decides when to stop.
    module : nn.Module
        In training mode during the steps, in evaluation mode when `close` is called.
    batches : callable
        ``batches(batch_size)`` yields the batches of one epoch.
    loss_of : callable
        ``loss_of(batch)`` is a scalar tensor, or None for a batch without any
        information.
    optimizer : torch.optim.Optimizer
    batch_size : int
        Halved, at most twice, when CUDA is out of memory; the epoch then starts again.
    close : callable
        ``close(loop, mean_loss)`` calls ``loop.record``; `mean_loss` is the mean over
        the batches that had a loss, 0 if none had one.
    checkpoint : LoopCheckpoint or None, default=None
        Checkpoint that the loop continues from and writes after each epoch.

    Raises
    ------
    torch.cuda.OutOfMemoryError
        When halving twice was not enough, with advice.
    """
    parts = Parts("batch_size")
    trained = ModuleState(module, optimizer, parts)
    if checkpoint is not None:
        checkpoint.load(loop, trained)

    def run_epoch(n_parts):
        epoch = batches(max(batch_size // n_parts, 1))
        return call_with(_alone, _epoch, module, epoch, loss_of, optimizer)

    with small_products(largest_product(batch_size, module.parameters())):
        for _ in loop:
            mean_loss = parts.run(run_epoch, batch_size, release=optimizer.zero_grad)
            module.eval()
            close(loop, mean_loss)
            if checkpoint is not None:
                checkpoint.save(loop, trained)


def _epoch(module, batches, loss_of, optimizer):
    """Take one step per batch; return the mean loss as a float."""
    module.train()
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(batch)
        if loss is None:
            continue
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean()) if losses else 0.0


class ModuleState:
    """A module and its Adam, with the random streams of torch, for a `LoopCheckpoint`.

    Parameters
    ----------
    module : nn.Module
    optimizer : torch.optim.Optimizer
        Adam or AdamW, of parameters of the module.
    parts : Parts
        In which a batch is processed.
    """

    def __init__(self, module, optimizer, parts):
        self._module = module
        self._optimizer = optimizer
        self._parts = parts

    def state(self):
        """Return copies of the parameters and buffers by name."""
        return module_state(self._module)

    def arrays(self):
        """Return all state that a step changes, by name."""
        arrays = {
            "torch_stream": to_numpy(torch.get_rng_state()),
            "n_parts": self._parts.n_parts,
        }
        # On a GPU, dropout has a random stream of its own.
        if any(parameter.is_cuda for parameter in self._module.parameters()):
            arrays["cuda_stream"] = to_numpy(torch.cuda.get_rng_state())
        arrays |= {f"module.{name}": array for name, array in self.state().items()}
        for name, parameter in _parameters(self._module, self._optimizer).items():
            # None yet for parameters without a gradient.
            zeros = dict.fromkeys(_ADAM, torch.zeros_like(parameter))
            zeros["step"] = torch.zeros(())
            slots = self._optimizer.state.get(parameter) or zeros
            arrays |= {f"adam.{name}.{slot}": to_numpy(slots[slot]) for slot in _ADAM}
        return arrays

    def load(self, arrays):
        """Write back what `arrays` returned."""
        torch.set_rng_state(to_tensor(arrays["torch_stream"]))
        if "cuda_stream" in arrays:
            torch.cuda.set_rng_state(to_tensor(arrays["cuda_stream"]))
        self._parts.n_parts = arrays["n_parts"].item()
        load_module_state(self._module, without_prefix("module.", arrays))
        slots = {
            i: {slot: to_tensor(arrays[f"adam.{name}.{slot}"]) for slot in _ADAM}
            for i, name in enumerate(_parameters(self._module, self._optimizer))
        }
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": slots, "param_groups": groups})


# State of Adam for each parameter.
_ADAM = ("step", "exp_avg", "exp_avg_sq")


def _parameters(module, optimizer):
    """Return the parameters (dict) of an optimizer by their names in the module."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    return {
        names[parameter]: parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def module_identity(module, outputs):
    """Return the identity of a module, for `identify`: classes, state and outputs.

    `outputs` are those of fixed samples, in evaluation mode.
    """
    parts = [
        [name, type(part).__qualname__, part.extra_repr()]
        for name, part in module.named_modules()
    ]
    state = [[name, array] for name, array in module_state(module).items()]
    return [parts, state, outputs]


# Set while a fit runs, which uses its own process only: others may end sooner.
_alone = ContextVar("alone", default=False)


def _has_others():
    """Whether there are processes of ``torchrun`` to work with."""
    return dist.is_available() and dist.is_initialized() and not _alone.get()


class _SumOverProcesses(torch.autograd.Function):
    """All-reduced sum; its backward pass sums the gradients of all processes."""

    @staticmethod
    def forward(ctx, tensor):
        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return _SumOverProcesses.apply(gradient)


def sum_over_processes(tensor):
    """Sum a tensor over the processes of ``torchrun``; without them, return it.

    The `reduce` hook of losses with global statistics. Every process then holds the
    same loss, and the averaged gradients of DistributedDataParallel are the gradients
    of that loss, exactly.
    """
    return _SumOverProcesses.apply(tensor) if _has_others() else tensor


def gather_over_processes(tensor) -> torch.Tensor:
    """Concatenate the samples of all processes of ``torchrun``.

    Use it for losses between all samples, such as :class:`PartialFenchelYoungLoss`:
    gather the outputs of the encoder, and compute the loss of the joint batch in every
    process with the same `seed`. The gradients averaged by DistributedDataParallel are
    then exactly those of this loss.

    Parameters
    ----------
    tensor : tensor of shape (n_samples, ...)
        Samples of this process. Their number may differ between processes.

    Returns
    -------
    tensor of shape (n_samples of all processes, ...)
        Samples in the order of the ranks. With one process, the tensor itself.

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import gather_over_processes
    >>> gather_over_processes(torch.arange(3))
    tensor([0, 1, 2])
    """
    if not _has_others():
        return tensor
    rank = dist.get_rank()
    counts = torch.zeros(dist.get_world_size(), dtype=torch.long)
    counts[rank] = len(tensor)
    counts = sum_over_processes(counts.to(tensor.device)).tolist()
    # Each process writes its samples into zeros, and the sum has all of them.
    of_others = [sum(counts[:rank]), sum(counts[rank + 1 :])]
    padding = [0, 0] * (tensor.ndim - 1) + of_others  # from the last axis to the first
    return sum_over_processes(nn.functional.pad(tensor, padding))
