"""What every torch twin needs: devices, arrays, random streams, encoders, the loop."""

from contextlib import contextmanager

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

_OUT_OF_MEMORY_TRIES = 2
_ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}


def resolve_device(device, owner):
    """Return the torch device that a 'device' parameter names.

    Parameters
    ----------
    device : str or torch.device
        "auto" is CUDA if there is one, else the CPU.
    owner : str
        Class that the parameter belongs to, for the message.

    Returns
    -------
    torch.device

    Raises
    ------
    ValueError
        If there is no such device; the message lists those present.
    """
    present = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if len(present) > 1 else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    known = found is not None and (
        str(found) in present or (str(found) == "cuda" and len(present) > 1)
    )
    if not known:
        raise ValueError(
            f"The 'device' parameter of {owner} must be 'auto' or one of the devices "
            f"present: {', '.join(present)}. Got {device!r} instead. Use "
            "device='auto', which takes the best of them."
        )
    return found


def to_tensor(array, device="cpu", dtype=None):
    """Return a NumPy array as a tensor that shares its memory where that is safe.

    A read-only array (a memory map that joblib hands out, say) is copied, since an
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
    """Return a tensor of any device as a NumPy array that owns its memory."""
    return tensor.detach().cpu().numpy().copy()


def seeded_generator(random_state, device="cpu"):
    """Return a torch Generator on `device`, seeded by one draw of a RandomState."""
    generator = torch.Generator(device=device)
    generator.manual_seed(int(random_state.randint(np.iinfo(np.int32).max)))
    return generator


@contextmanager
def isolated_streams(random_state, device="cpu"):
    """Seed torch's global streams inside the block, and put them back after it.

    For what takes no Generator: the dropout and initialisation of a user's module.
    """
    device = torch.device(device)
    cuda = [device] if device.type == "cuda" else []
    seed = int(random_state.randint(np.iinfo(np.int32).max))
    with torch.random.fork_rng(devices=cuda, device_type="cuda"):
        torch.random.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def encoder_module(weights, biases, *, activation="relu", device="cpu"):
    """Return the linear model or network of two lists of arrays as an nn.Sequential.

    The form is that of `skdiffclust._encoder`: ``weights[l]`` has shape (n_in, n_out).
    The module has copies, in the dtype of the arrays, so training leaves them alone.
    """
    layers = []
    for weight, bias in zip(weights, biases, strict=True):
        weight, bias = to_tensor(weight), to_tensor(bias)
        linear = nn.utils.skip_init(nn.Linear, *weight.shape, dtype=weight.dtype)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        layers += [linear, _ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1]).to(device)


def encoder_arrays(module):
    """Return the weights and biases of such a network as they are now, two lists."""
    layers = [layer for layer in module if isinstance(layer, nn.Linear)]
    weights = [np.ascontiguousarray(to_numpy(layer.weight).T) for layer in layers]
    return weights, [to_numpy(layer.bias) for layer in layers]


def module_state(module):
    """Return a copy of the parameters and buffers of a module as a dict of arrays."""
    return {name: to_numpy(value) for name, value in module.state_dict().items()}


def load_module_state(module, state):
    """Put back what `module_state` copied."""
    module.load_state_dict({name: to_tensor(value) for name, value in state.items()})


def train(loop, module, batches, loss_of, optimizer, *, batch_size, close):
    """Run the epochs of `loop`: draw batches, take steps, close each epoch.

    Parameters
    ----------
    loop : EpochLoop
        Decides when to stop.
    module : nn.Module
        In training mode during the steps, in evaluation mode when `close` is called.
    batches : callable
        ``batches(batch_size)`` yields the batches of one epoch.
    loss_of : callable
        ``loss_of(batch)`` is a scalar tensor, or None for a batch that teaches nothing.
    optimizer : torch.optim.Optimizer
    batch_size : int
        Halved, at most twice, when CUDA is out of memory; the epoch then starts again.
    close : callable
        ``close(loop, mean_loss)`` calls ``loop.record``; `mean_loss` is the mean over
        the batches that had a loss, 0 if none had one.

    Returns
    -------
    int
        The batch size at the end.

    Raises
    ------
    torch.cuda.OutOfMemoryError
        When halving twice was not enough, with advice.
    """
    n_tries = 0
    for _ in loop:
        while True:
            try:
                mean_loss = _epoch(module, batches(batch_size), loss_of, optimizer)
                break
            except torch.cuda.OutOfMemoryError as error:
                optimizer.zero_grad(set_to_none=True)
                torch.cuda.empty_cache()
                if n_tries == _OUT_OF_MEMORY_TRIES or batch_size == 1:
                    raise torch.cuda.OutOfMemoryError(
                        f"CUDA is out of memory with batches of {batch_size} rows. "
                        "Lower batch_size, or set device='cpu'."
                    ) from error
            n_tries += 1
            batch_size = max(batch_size // 2, 1)
        module.eval()
        close(loop, mean_loss)
    return batch_size


def _epoch(module, batches, loss_of, optimizer):
    """Take one step a batch; return the mean loss as a float."""
    module.train()
    losses = []
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(batch)
        if loss is None:
            continue
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean()) if losses else 0.0


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
    if dist.is_available() and dist.is_initialized():
        return _SumOverProcesses.apply(tensor)
    return tensor
