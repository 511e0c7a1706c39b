"""Forged checkpoints with valid digests: ValueError, in bounded memory."""

import functools
import hashlib
import io
import json
import os
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
import torch

from skdiffclust import SparseGEMINI, _checkpoint
from skdiffclust._checkpoint import identify
from skdiffclust._history import EpochLoop
from skdiffclust._loop_checkpoint import LoopCheckpoint
from skdiffclust._torch import train_module
from skdiffclust.gemini._resume import PathCheckpoint


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Do not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


def walk_path(folder, resume=False):
    """Write, or continue with, the checkpoint of a path of some steps."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(30, 6))
    X[:10, 0] += 6
    X[10:20, 1] += 6
    sparse = SparseGEMINI(3, mode="ova", max_iter=10, random_state=0, n_init=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse.path(
            X, alpha_multiplier=1.5, alpha_init=1e-4, checkpoint=folder, resume=resume
        )


def write_checkpoint(folder, resume=False):
    """Write, or continue with, the checkpoint of some epochs of a module in torch."""
    rng = np.random.RandomState(0)
    X = torch.from_numpy(rng.normal(size=(20, 3)))
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 2, dtype=torch.float64), torch.nn.Dropout(0.1)
    )
    with torch.no_grad():
        module[0].weight.copy_(torch.arange(6.0).reshape(2, 3))
        module[0].bias.zero_()
    loop = EpochLoop(object(), max_iter=4, learning_rate=0.1)
    checkpoint = LoopCheckpoint(
        folder, "toy", identify({}, {}), rng, columns=["loss"], resume=resume
    )
    with torch.random.fork_rng(devices=[]):
        train_module(
            loop,
            module,
            lambda size: np.array_split(rng.permutation(20), 4),
            lambda chosen: (module(X[chosen]) ** 2).mean(),
            torch.optim.Adam(module.parameters(), lr=0.1),
            batch_size=5,
            close=lambda loop, loss: loop.record(
                loss,
                state=lambda: {
                    name: value.numpy().copy()
                    for name, value in module.state_dict().items()
                },
            ),
            checkpoint=checkpoint,
        )


COMPUTATIONS = {"path": walk_path, "loop": write_checkpoint}


class Forge:
    """A checkpoint that was written, and ways to write others like it."""

    def __init__(self, folder, compute):
        self.folder = folder
        compute(folder)
        self.original = {file.name: file.read_bytes() for file in folder.iterdir()}
        self.n_steps = sum(name.startswith("step") for name in self.original)
        self.archives = {
            name: self.arrays_of(content)
            for name, content in self.original.items()
            if name.endswith(".npz")
        }

    @staticmethod
    def arrays_of(content):
        """Return the arrays of an archive, and its header."""
        with np.load(io.BytesIO(content)) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return arrays, json.loads(arrays.pop("header").tobytes())

    def restore(self):
        """Put back what was written."""
        for file in self.folder.iterdir():
            if file.is_dir() and not file.is_symlink():
                file.rmdir()
            elif file.name not in self.original or not file.is_file():
                file.unlink()
        for name, content in self.original.items():
            file = self.folder / name
            if file.is_symlink() or not file.exists():
                file.unlink(missing_ok=True)
                file.write_bytes(content)
            elif file.stat().st_size != len(content) or file.read_bytes() != content:
                file.write_bytes(content)

    def last(self, role):
        """Return the name of the last file of a role."""
        return f"{role}-{self.n_steps - 1:06d}.npz"

    def write(self, changed):
        """Write archives with these arrays and headers, and right digests all along."""
        previous = hashlib.sha256(self.original["manifest.json"]).hexdigest()
        for step in range(self.n_steps):
            state, name = f"state-{step:06d}.npz", f"step-{step:06d}.npz"
            arrays, header = changed.get(name, self.archives[name])
            links = {"previous": previous}
            if state in changed:
                links["state"] = self.sign(state, *changed[state])
            if name in changed or links.items() - header.items():
                previous = self.sign(name, arrays, {**header, **links})
            else:
                previous = header["digest"]

    def sign(self, name, arrays, header):
        """Write an archive with a right digest; return that."""
        digest = digest_of(header, arrays)
        save(self.folder / name, arrays, {**header, "digest": digest})
        return digest

    def refuses(self, compute, match=""):
        """Tell whether a computation is refused, and nothing but ValueError comes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=match):
                compute(self.folder, resume=True)


def digest_of(header, arrays):
    """Return the digest of what is written."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    return _checkpoint._digest(header, arrays)


def save(file, arrays, header, compression=zipfile.ZIP_STORED):
    """Write an archive as `Checkpoint` does."""
    coded = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in {"header": coded, **arrays}.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array), version=(1, 0))
            archive.writestr(f"{name}.npy", content.getvalue())


@pytest.fixture(scope="module", params=COMPUTATIONS)
def forge(request, tmp_path_factory):
    """A path, and the loop in torch."""
    compute = COMPUTATIONS[request.param]
    forge = Forge(tmp_path_factory.mktemp("forge") / "c", compute)
    forge.compute = compute
    return forge


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return Forge(tmp_path_factory.mktemp("forge") / "c", walk_path)


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    return Forge(tmp_path_factory.mktemp("forge") / "c", write_checkpoint)


def test_what_is_written_again_is_read(forge):
    forge.restore()
    forge.write({})
    forge.compute(forge.folder, resume=True)
    assert forge.n_steps >= 4


def changed(forge, role, name, value):
    """Return the last archive of a role with another array."""
    file = forge.last(role)
    arrays, header = forge.archives[file]
    assert name in arrays, sorted(arrays)
    value = value(arrays[name].copy()) if callable(value) else value
    return {file: ({**arrays, name: value}, header)}


def put(value):
    """Return a function that puts a value into the first entry of an array."""

    def of(array):
        array.reshape(-1)[0] = value
        return array

    return of


def raw(byte):
    """Return a function that puts a byte into an array as its first one."""

    def of(array):
        array.view(np.uint8).reshape(-1)[0] = byte
        return array

    return of


@pytest.mark.parametrize(
    "role, name, value, match",
    [
        ("step", "labels", lambda a: a[:-1], r"has int64 \(29,\) in 'labels"),
        ("step", "labels", put(10**12), r"values beyond \[0, 2\] in 'labels'"),
        ("step", "labels", put(-1), "values beyond"),
        ("step", "labels", put(3), "values beyond"),
        ("step", "labels", lambda a: a.astype(np.float64), "has float64"),
        ("step", "labels", lambda a: a.astype(object), "has object"),
        ("step", "alpha", np.float64(-1), "values beyond"),
        ("step", "alpha", np.float64(0), "penalties do not grow"),
        ("step", "alpha", np.float64(np.inf), "NaN or infinity"),
        ("step", "alpha", np.array([0.5]), r"has float64 \(1,\)"),
        ("step", "objective", np.float64(np.nan), "NaN or infinity in 'objective'"),
        ("step", "n_iter", np.int64(-1), "values beyond"),
        ("step", "support", raw(3), "bytes for booleans in 'support'"),
        ("step", "support", np.ones(6, bool), "weights of other features"),
        ("step", "support", np.ones(7, bool), "has bool"),
        ("step", "model.weights.0", put(np.nan), "NaN or infinity"),
        ("step", "model.weights.0", lambda a: np.zeros((7, 3)), "has float64"),
        ("step", "model.weights.0", lambda a: np.zeros((0, 3)), "other features"),
        ("state", "previous.weights.0", put(np.nan), "NaN or infinity in 'previous"),
        ("state", "model.biases.0", put(np.inf), "NaN or infinity"),
        ("state", "model.weights.0", lambda a: a.astype("f4"), "has float32"),
        ("state", "model.weights.0", lambda a: a.astype(">f8"), "has >f8"),
        ("state", "model.weights.0", lambda a: a.T.copy(), "has float64"),
        ("state", "model.weights.0", np.asfortranarray, "has float64"),
        ("state", "stream.position", np.int64(10**6), "values beyond"),
        ("state", "stream.position", np.int64(-1), "values beyond"),
        ("state", "stream.keys", np.zeros(624, np.uint32), "stream of zeros"),
        ("state", "stream.keys", lambda a: a[1:], "has uint32"),
    ],
)
def test_a_forged_path_is_refused(role, name, value, match, path):
    path.restore()
    path.write(changed(path, role, name, value))
    path.refuses(walk_path, match)


@pytest.mark.parametrize(
    "role, name, value, match",
    [
        ("step", "loss", np.float64(np.nan), "NaN or infinity in 'loss'"),
        ("state", "module.0.weight", put(np.nan), "NaN or infinity"),
        ("state", "best.0.weight", lambda a: a[:1], "has float64"),
        ("state", "adam.0.weight.exp_avg", put(np.nan), "NaN or infinity"),
        ("state", "adam.0.weight.exp_avg_sq", put(-1), "values beyond"),
        ("state", "adam.0.weight.step", np.float32(-1), "values beyond"),
        ("state", "loop.best_epoch", np.int64(4), "state is of no epoch"),
        ("state", "loop.best_epoch", np.int64(-1), "values beyond"),
        ("state", "loop.best_loss", np.float64(np.inf), "NaN or infinity"),
        ("state", "loop.stop_reason", np.array(b"why", "S16"), "out of place"),
        ("state", "batch_size", np.int64(0), "values beyond"),
        ("state", "batch_size", np.int64(10**12), "values beyond"),
        ("state", "torch_stream", lambda a: a + 1, "state is none of the model"),
        ("state", "torch_stream", lambda a: a[1:], "has uint8"),
    ],
)
def test_a_forged_loop_is_refused(role, name, value, match, loop):
    loop.restore()
    loop.write(changed(loop, role, name, value))
    loop.refuses(write_checkpoint, match)


def test_numbers_of_a_module_that_would_never_end(tmp_path):
    # What ClAM carries between epochs: so many stalls would be counted down for ever.
    from skdiffclust.memories._optimise import Plateau

    plateau = Plateau(0.1, 1e-3, 10)
    for state in (
        (0.1, np.inf, 1e300),
        (0.1, np.inf, -1.0),
        (0.1, np.inf, np.nan),
        (0.1, np.nan, 0.0),
        (0.2, np.inf, 0.0),
        (0.0, np.inf, 0.0),
        (np.nan, np.inf, 0.0),
    ):
        with pytest.raises(ValueError):
            plateau.state = state
    plateau.state = 0.05, -3.0, 9.0
    assert plateau.state == (0.05, -3.0, 9)


def test_no_steps_begin_again(path):
    path.restore()
    for name in path.archives:
        os.remove(path.folder / name)
    walk_path(path.folder, resume=True)
    assert {file.name for file in path.folder.iterdir()} == set(path.original)


def bomb(file, name):
    """Put two gigabytes of zeros, compressed, in place of an array."""
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(
                member, {"descr": "<f8", "fortran_order": False, "shape": (2**28,)}
            )
            for _ in range(64):
                member.write(bytes(2**21))
            # Two gigabytes take a while; what counts is what the header says.
        archive.filelist[-1].file_size = 2**31


def claims(file, arrays, header, name, shape):
    """Write an archive, one array of which says to have a shape that it has not."""
    save(file, {k: a for k, a in arrays.items() if k != name}, header)
    with zipfile.ZipFile(file, "a") as archive:
        content = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            content, {"descr": "<i8", "fortran_order": False, "shape": shape}
        )
        archive.writestr(f"{name}.npy", content.getvalue())


def large_forgeries(forge):
    """Yield after each large thing that was put in the place of the last step."""
    name = forge.last("step")
    file, (arrays, header) = forge.folder / name, forge.archives[name]
    first = next(iter(arrays))
    others = {key: array for key, array in arrays.items() if key != first}
    forge.restore()
    save(file, others, header)
    bomb(file, first)
    yield
    forge.restore()
    save(file, {**others, first: np.zeros(10**6)}, header, zipfile.ZIP_DEFLATED)
    yield
    for shape in ((10**12,), (2**62, 2**62), (-1,), (10**12, 0)):
        forge.restore()
        claims(file, arrays, header, first, shape)
        yield
    forge.restore()
    with open(file, "r+b") as sparse:
        sparse.truncate(2**40)
    yield
    forge.restore()
    save(file, {f"x{i}": np.zeros(0) for i in range(30)}, header)
    yield
    forge.restore()
    save(file, arrays, {**header, "digest": "0" * 10**6})
    yield
    forge.restore()
    save(file, arrays, json.loads("[" * 400 + "]" * 400))
    yield


@pytest.mark.parametrize("n_steps", [1])
def test_large_forgeries_take_no_memory(n_steps, forge):
    tracemalloc.start()
    try:
        for _ in large_forgeries(forge):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    forge.compute(forge.folder, resume=True)
                except ValueError as error:
                    assert str(error).startswith("The checkpoint")
            # Nothing came of it: it was refused, or dropped as torn.
            assert tracemalloc.get_traced_memory()[1] - before < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="There are no pipes here.")
def test_what_is_no_file_is_refused(forge):
    for name in (forge.last("step"), forge.last("state"), "manifest.json"):
        file = forge.folder / name
        for make in (os.mkfifo, os.mkdir, lambda f: os.symlink("/dev/zero", f)):
            forge.restore()
            os.remove(file)
            make(file)
            forge.refuses(forge.compute, "is no regular file|cannot be read")
        forge.restore()
        os.remove(file)
        os.symlink(file, file)
        forge.refuses(forge.compute, "cannot be read")


# Anything at all.

ODD = [np.nan, np.inf, -np.inf, -1, 0, 1, 10**12, -(2**63), 2**63 - 1, 1e-320, 1e308]


def mutate_array(array, rng):
    """Return another array: other values, another shape, another dtype."""
    array, kind = np.array(array), rng.randint(8)
    if kind < 3 and array.size:
        odd, place = ODD[rng.randint(len(ODD))], rng.randint(array.size)
        with np.errstate(all="ignore"):
            try:
                array.reshape(-1)[place] = odd
            except (ValueError, OverflowError):
                array.reshape(-1)[place] = 0
        return array
    if kind == 3 and array.size:
        # Any bytes at all, in what stays an array of its dtype and shape.
        content = bytearray(array.tobytes())
        content[rng.randint(len(content))] = rng.randint(256)
        return np.frombuffer(bytes(content), array.dtype).reshape(array.shape)
    if kind == 4:
        dtypes = ["f4", "f8", ">f8", "i4", "i8", "u1", "?", "S3", "U2", "c16", "O"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.zeros(array.shape, dtypes[rng.randint(len(dtypes))])
    if kind == 5:
        return array[None] if rng.randint(2) else array.reshape(-1)
    if kind == 6 and array.ndim:
        return array[: len(array) // 2] if rng.randint(2) else np.repeat(array, 2, 0)
    return np.asfortranarray(array) if array.ndim > 1 else np.full(3, array.flat[0])


def mutate(forge, rng):
    """Write a forgery; digests are right in nine of ten."""
    names = sorted(forge.archives)
    name = names[rng.randint(len(names))]
    arrays, header = forge.archives[name]
    arrays, header, kind = dict(arrays), dict(header), rng.randint(10)
    keys = sorted(arrays)
    key = keys[rng.randint(len(keys))]
    if kind < 6:
        arrays[key] = mutate_array(arrays[key], rng)
    elif kind == 6:
        value = arrays.pop(key)
        if rng.randint(2):
            arrays[key + "x"] = value
    elif kind == 7:
        entries = sorted(header)
        values = [None, -1, 10**30, "x", [], {}, True, 1.5, "0" * 64]
        entry = entries[rng.randint(len(entries))]
        header[entry] = values[rng.randint(len(values))]
    elif kind == 8:
        other = names[rng.randint(len(names))]
        arrays, header = forge.archives[other]
    if kind < 9:
        forge.write({name: (arrays, header)})
        return
    content = bytearray(forge.original[name])
    for _ in range(rng.randint(1, 4)):
        place = rng.randint(len(content))
        if rng.randint(2):
            content[place] = rng.randint(256)
        else:
            del content[place : place + rng.randint(1, 50)]
    (forge.folder / name).write_bytes(content)


def reader_of(forge, monkeypatch):
    """Return what reads a checkpoint, and the list of what `Checkpoint.open` gave."""
    owner = PathCheckpoint if forge.compute is walk_path else LoopCheckpoint
    name = "open" if owner is PathCheckpoint else "load"
    calls, found = [], []
    read, open_ = getattr(owner, name), _checkpoint.Checkpoint.open

    def noted(*args, **kwargs):
        calls.append(functools.partial(read, *args, **kwargs))
        return read(*args, **kwargs)

    def opened(checkpoint, *, resume):
        found.append((checkpoint, *open_(checkpoint, resume=resume)))
        return found[-1][1:]

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, noted)
        forge.restore()
        forge.compute(forge.folder, resume=True)
    monkeypatch.setattr(_checkpoint.Checkpoint, "open", opened)
    return calls[0], found


def test_nothing_but_value_errors_comes_of_forgeries(
    forge, monkeypatch, global_random_seed
):
    """A thousand forgeries of each kind; a hundred thousand with ``-m long``."""
    rng, n_forgeries, n_refused = np.random.RandomState(global_random_seed), 1000, 0
    read, found = reader_of(forge, monkeypatch)
    stream = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a torn step is dropped
        for _ in range(n_forgeries):
            mutate(forge, rng)
            try:
                read()
            except ValueError as error:
                assert str(error).startswith("The checkpoint ")
                n_refused += 1
            else:
                assert_lawful(*found[-1])
            forge.restore()
    torch.set_rng_state(stream)
    assert 0.5 * n_forgeries < n_refused < n_forgeries


def assert_lawful(checkpoint, records, state):
    """What was read is what may be written."""
    for role, arrays in [("step", record) for record in records] + [("state", state)]:
        for name, array in (arrays or {}).items():
            field = checkpoint._fields[role][name]
            assert array.dtype == field.dtype
            assert field.admits(array.shape)
            assert field.fault(array) is None
