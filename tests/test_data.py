"""Canonical datasets: made, checked, refused, described; the real loaders of torchvision on small files."""

import gzip
import hashlib
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import torch
from conftest import REPO, bench

from bench.core import registry
from bench.core.errors import UserError
from bench.learn import data


def arrays(train=6, test=4, shape=(1, 28, 28), classes=10):
    rng = np.random.default_rng(0)
    x = [rng.integers(0, 256, (n, *shape), dtype=np.uint8) for n in (train, test)]
    y = [rng.integers(0, classes, n, dtype=np.uint8) for n in (train, test)]
    return {"x_train": x[0], "y_train": y[0], "x_test": x[1], "y_test": y[1]}


@pytest.fixture
def mnist(tmp_path):
    np.savez(tmp_path / "mnist.npz", **arrays())
    return tmp_path


def test_digits_are_complete_and_the_same_every_time(root, tmp_path):
    again = data.prepare("digits", tmp_path)
    assert data.checksum(data.read(again, "digits")) == data.load("digits", root).checksum
    digits = data.load("digits", root)
    assert (digits.size("train"), digits.size("test"), digits.partial) == (1300, 497, False)
    assert digits.images("test").max() == 1.0
    assert sorted(digits.labels("train").unique().tolist()) == list(range(10))


def test_a_smaller_file_is_partial(mnist):
    facts = data.load("mnist", mnist).describe()
    assert facts["partial"] is True
    assert (facts["train"], facts["test"]) == (6, 4)


def test_images_are_pooled_and_normalised(tmp_path):
    raw = arrays(shape=(3, 32, 32), classes=100)
    np.savez(tmp_path / "cifar100.npz", **raw)
    loaded = data.load("cifar100", tmp_path, average_pool=2)
    assert loaded.shape == (3, 16, 16)
    pixel = raw["x_train"][1, 2, 4:6, 6:8].mean() / 255
    expected = (pixel - 0.4408) / 0.2761
    assert loaded.images("train", np.array([1]))[0, 2, 2, 3].item() == pytest.approx(expected, abs=1e-6)
    released = data.load("cifar100", tmp_path, statistics="released")
    expected = (raw["x_test"][0, 1, 5, 5] / 255 - 0.4822) / 0.1994
    assert released.images("test")[0, 1, 5, 5].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((6, 28, 28), np.uint8)}, "has shape"),
        ({"x_test": np.zeros((4, 1, 28, 28), np.float32)}, "not uint8"),
        ({"y_train": np.zeros(5, np.uint8)}, "for 6 images"),
        ({"y_test": np.full(4, 10, np.uint8)}, "the label 10"),
        (
            {"x_train": np.zeros((60_001, 1, 28, 28), np.uint8), "y_train": np.zeros(60_001, np.uint8)},
            "more than the 60000",
        ),
        ({"x_train": np.array([{}], dtype=object)}, "damaged or no canonical file"),
    ],
)
def test_wrong_files_are_refused_with_their_name_and_a_remedy(tmp_path, change, message):
    np.savez(tmp_path / "mnist.npz", **(arrays() | change))
    with pytest.raises(UserError, match=message) as error:
        data.load("mnist", tmp_path)
    assert "mnist.npz" in str(error.value)
    assert "python -m bench data mnist" in str(error.value)


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.01, 0])
def test_truncated_files_are_refused(mnist, kept):
    path = mnist / "mnist.npz"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(UserError, match="damaged"):
        data.load("mnist", mnist)


def test_a_missing_array_is_named(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=arrays()["x_train"])
    with pytest.raises(UserError, match="y_train"):
        data.load("mnist", tmp_path)


def test_missing_data_says_what_to_type(tmp_path):
    with pytest.raises(UserError, match="python -m bench data svhn --root"):
        data.load("svhn", tmp_path)


def test_pooling_away_the_image_is_refused(root):
    with pytest.raises(UserError, match="cannot be average-pooled by 9"):
        data.load("digits", root, average_pool=9)


def test_from_a_file_on_disk(mnist, tmp_path):
    target = tmp_path / "elsewhere"
    assert data.prepare("mnist", target, mnist / "mnist.npz") == target / "mnist.npz"
    assert data.load("mnist", target).checksum == data.load("mnist", mnist).checksum
    assert [path.name for path in target.iterdir()] == ["mnist.npz"]
    with pytest.raises(UserError, match="no such file"):
        data.prepare("svhn", target, mnist / "nothing.npz")


@pytest.mark.slow
def test_no_network_shows_both_ways_out(tmp_path):
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    result = bench("data", "cifar10", "--root", tmp_path, env=nowhere)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "--from FILE" in result.stderr
    assert "where there is internet" in result.stderr
    assert not (tmp_path / "cifar10.npz").exists()


@pytest.mark.slow
def test_torchvision_imports_and_is_patched_only_if_it_must_be():
    code = """
import importlib, sys
try:
    import torchvision; plain = True
except RuntimeError:
    plain = False
for name in [name for name in sys.modules if name.startswith("torchvision")]: del sys.modules[name]
from bench.learn import vision
assert vision.torchvision.datasets.MNIST
sys.exit(plain == hasattr(vision, "_library"))
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=REPO).returncode == 0


def idx(array):
    header = struct.pack(">I", 0x0800 + array.ndim) + b"".join(struct.pack(">I", n) for n in array.shape)
    return header + array.tobytes()


def test_mnist_through_torchvision(tmp_path):
    raw = arrays()
    folder = tmp_path / "raw/MNIST/raw"
    folder.mkdir(parents=True)
    names = {
        "x_train": "train-images-idx3",
        "y_train": "train-labels-idx1",
        "x_test": "t10k-images-idx3",
        "y_test": "t10k-labels-idx1",
    }
    for key, name in names.items():
        content = idx(raw[key].squeeze(1) if raw[key].ndim == 4 else raw[key])
        (folder / f"{name}-ubyte").write_bytes(content)
        with gzip.open(folder / f"{name}-ubyte.gz", "wb") as file:
            file.write(content)
    data.prepare("mnist", tmp_path)
    assert data.checksum(data.read(tmp_path / "mnist.npz", "mnist")) == data.checksum(raw)


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_cifar_through_torchvision(tmp_path, monkeypatch, name):
    from bench.learn.vision import torchvision

    classes = registry.components("datasets")[name].constants["CLASSES"]
    raw = arrays(shape=(3, 32, 32), classes=classes)
    reader = {"cifar10": torchvision.datasets.CIFAR10, "cifar100": torchvision.datasets.CIFAR100}[name]
    folder = tmp_path / "raw" / reader.base_folder
    folder.mkdir(parents=True)
    for split, list_name in (("train", "train_list"), ("test", "test_list")):
        content = {"data": raw[f"x_{split}"].reshape(-1, 3072), "labels": raw[f"y_{split}"].tolist()}
        content["fine_labels"] = content["labels"] if name == "cifar100" else None
        (folder / split).write_bytes(pickle.dumps({k: v for k, v in content.items() if v is not None}))
        monkeypatch.setattr(reader, list_name, [[split, md5(folder / split)]])
    (folder / "meta").write_bytes(pickle.dumps({reader.meta["key"]: [str(c) for c in range(classes)]}))
    monkeypatch.setattr(reader, "meta", reader.meta | {"filename": "meta", "md5": md5(folder / "meta")})
    data.prepare(name, tmp_path)
    assert data.checksum(data.read(tmp_path / f"{name}.npz", name)) == data.checksum(raw)


def test_svhn_through_torchvision(tmp_path, monkeypatch):
    from bench.learn.vision import torchvision

    raw = arrays(shape=(3, 32, 32))
    folder = tmp_path / "raw"
    folder.mkdir()
    entries = {}
    for split in ("train", "test"):
        path = folder / f"{split}_32x32.mat"
        stored = np.where(raw[f"y_{split}"] == 0, 10, raw[f"y_{split}"])  # the files write the digit 0 as 10
        scipy.io.savemat(path, {"X": raw[f"x_{split}"].transpose(2, 3, 1, 0), "y": stored[:, None]})
        entries[split] = ["none", path.name, md5(path)]
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", entries)
    data.prepare("svhn", tmp_path)
    assert data.checksum(data.read(tmp_path / "svhn.npz", "svhn")) == data.checksum(raw)


@pytest.mark.parametrize("name", sorted(registry.components("datasets")))
def test_contract(name):
    facts = registry.components("datasets")[name].constants
    channels, height, width = facts["SHAPE"]
    assert height == width
    assert len(facts["MEAN"]) == len(facts["STD"]) == channels
    assert all(std > 0 for std in facts["STD"])
    assert callable(registry.load("datasets", name)[0].fetch)
    assert torch.tensor(facts["SIZES"]).min() > 0
