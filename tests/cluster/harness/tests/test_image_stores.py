"""Images that nodes start with: unpacked once, and shared as long as no node changes anything."""

import os
from pathlib import Path

import pytest

from clusterkit import Cluster, image_stores
from clusterkit.archives import program_image
from clusterkit.own_cluster import OwnCluster
from clusterkit.toolchain import install_packages
from testkit.on_cluster.cluster_images import TAG

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An image of one file, and an empty cache."""
    install_packages()
    monkeypatch.setenv("CLAIMQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CLAIMQ_CLUSTERS", str(tmp_path / "clusters"))
    (tmp_path / "program").write_text("content")
    return program_image(tmp_path / "program", "claimq.dev/program:1", tmp_path / "program.tar")


def placed(store: Path, folder: Path) -> dict[str, Path]:
    """The files of a node that starts with the store, by name."""
    image_stores.place(store, folder)
    return {path.name: path for path in folder.rglob("*") if path.is_file()}


def test_nodes_share_the_files_of_an_image_and_not_the_databases(archive: Path, tmp_path: Path) -> None:
    store = image_stores.image_store([archive])
    one, two = placed(store, tmp_path / "one"), placed(store, tmp_path / "two")
    assert one["program"].read_text() == "content"
    assert one["program"].samefile(two["program"])
    for database in ("meta.db", "metadata.db"):
        assert not one[database].samefile(two[database])
        one[database].write_text("changed")
        assert two[database].read_bytes() == next(store.glob(f"*/{database}")).read_bytes() != b"changed"


def test_the_same_images_are_unpacked_once_and_others_again(archive: Path, tmp_path: Path) -> None:
    store = image_stores.image_store([archive])
    seen = store.stat().st_ino
    assert image_stores.image_store([archive]) == store
    assert store.stat().st_ino == seen
    other = program_image(tmp_path / "program", "claimq.dev/other:1", tmp_path / "other.tar")
    assert image_stores.image_store([archive, other]) != store


def test_the_stores_that_were_used_last_stay(archive: Path, tmp_path: Path) -> None:
    stores = tmp_path / "cache" / "cluster" / "stores"
    for age in range(9):
        (stores / f"old-{age}").mkdir(parents=True)
        os.utime(stores / f"old-{age}", (0, 1000 - age))
    made = image_stores.image_store([archive])
    assert sorted(found.name for found in stores.iterdir() if found.is_dir()) == sorted(
        [made.name, *(f"old-{age}" for age in range(5))]
    )


def test_nodes_have_the_images_of_this_repository_from_the_start(kubernetes: Cluster) -> None:
    assert isinstance(kubernetes, OwnCluster)
    for node in kubernetes.nodes:
        known = kubernetes.run_on_node(node, "ctr", "--namespace=k8s.io", "images", "ls", "-q").splitlines()
        assert f"docker.io/library/claimq-sidecar:{TAG}" in known
