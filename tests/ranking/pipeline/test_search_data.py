"""Data are opened by name; unusable data are reported in one sentence, and skipped only on request."""

import csv
import importlib.util
import json
import os

import numpy as np
import pytest
from PIL import Image

from cotenant.errors import DataError
from cotenant.ranking.data import open_data


@pytest.fixture
def photos(tmp_path):
    """Two classes of four images each, in several formats and colour modes."""
    rng = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        folder = tmp_path / "photos" / kind
        folder.mkdir(parents=True)
        for number in range(4):
            pixels = rng.integers(0, 255, (30 + number, 40, 3), np.uint8)
            image = Image.fromarray(pixels).convert(["RGB", "L", "RGBA", "P"][number])
            image.save(folder / f"{number}.{'jpg' if number < 2 else 'png'}")
    return tmp_path / "photos"


@pytest.fixture
def reviews(tmp_path):
    file = tmp_path / "reviews.csv"
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["review", "sentiment", "row id"])
        for number in range(8):
            writer.writerow([f'Film {number}, "quoted"\nwith a second line', "good" if number % 2 else "bad", number])
    return file


class TestImageFolder:
    def test_classes_are_its_folders(self, photos):
        data = open_data(str(photos))
        assert (data.kind, data.classes, data.labels.tolist()) == ("image", ("cat", "dog"), [0] * 4 + [1] * 4)

    def test_images_of_any_form_become_normalised_squares(self, photos):
        pixels = open_data(str(photos)).load([0, 2, 7], {"image": 24})["pixel_values"]
        assert tuple(pixels.shape) == (3, 3, 24, 24)
        assert -2.2 < float(pixels.min()) < float(pixels.max()) < 2.7

    def test_values_are_those_of_the_file_less_the_mean_over_the_spread(self, tmp_path):
        for kind in "ab":
            (tmp_path / kind).mkdir()
            for number in range(2):
                Image.new("RGB", (8, 8), (255, 0, 128)).save(tmp_path / kind / f"{number}.png")
        pixels = open_data(str(tmp_path)).load([0], {"image": 8, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.25, 1)})
        assert pixels["pixel_values"][0, :, 3, 3].tolist() == pytest.approx([1.0, -2.0, 128 / 255 - 0.5], abs=1e-6)

    def test_its_fingerprint_follows_its_files(self, photos):
        before = open_data(str(photos)).fingerprint
        assert open_data(str(photos)).fingerprint == before
        os.utime(photos / "cat" / "0.jpg", (1, 1))
        assert open_data(str(photos)).fingerprint != before

    def test_an_unreadable_image_is_named(self, photos):
        (photos / "dog" / "0.jpg").write_bytes(b"no image at all")
        with pytest.raises(DataError, match=r"dog/0\.jpg is not a readable image"):
            open_data(str(photos)).load([4], {"image": 8})

    def test_a_truncated_image_is_named(self, photos):
        file = photos / "dog" / "0.jpg"
        file.write_bytes(file.read_bytes()[:-200])
        with pytest.raises(DataError, match=r"dog/0\.jpg can't be read"):
            open_data(str(photos)).load([4], {"image": 8})

    def test_bad_images_are_counted_and_skipped_only_on_request(self, photos):
        file = photos / "dog" / "0.jpg"
        file.write_bytes(file.read_bytes()[:-200])
        assert len(open_data(str(photos))) == 8
        data = open_data(str(photos), skip_bad=True)
        assert (len(data), data.skipped) == (7, 1)

    def test_an_empty_class_is_named(self, photos):
        (photos / "emu").mkdir()
        with pytest.raises(DataError, match="'emu'"):
            open_data(str(photos))
        data = open_data(str(photos), skip_bad=True)
        assert (data.classes, data.skipped) == (("cat", "dog"), 1)

    def test_a_class_with_one_item_is_named(self, photos):
        (photos / "emu").mkdir()
        Image.new("L", (9, 9)).save(photos / "emu" / "x.png")
        with pytest.raises(DataError, match="'emu' has only one item"):
            open_data(str(photos))
        assert open_data(str(photos), skip_bad=True).classes == ("cat", "dog")

    def test_an_empty_folder_is_reported_as_such(self, tmp_path):
        with pytest.raises(DataError, match="no subfolders"):
            open_data(str(tmp_path))

    def test_a_single_class_ranks_nothing(self, photos):
        for file in (photos / "dog").iterdir():
            file.unlink()
        (photos / "dog").rmdir()
        with pytest.raises(DataError, match="one usable class"):
            open_data(str(photos))


class TestTable:
    def test_texts_and_labels_are_the_named_columns(self, reviews):
        data = open_data(f"{reviews}?text=review&label=sentiment")
        assert (data.kind, data.classes, len(data)) == ("text", ("bad", "good"), 8)
        assert data.texts[1] == 'Film 1, "quoted"\nwith a second line'
        assert data.labels.tolist() == [0, 1] * 4

    def test_parquet_is_read_too(self, reviews):
        import duckdb

        parquet = reviews.with_suffix(".parquet")
        duckdb.sql(f"COPY (FROM '{reviews}') TO '{parquet}'")
        texts = open_data(f"{reviews}?text=review&label=sentiment")
        assert open_data(f"{parquet}?text=review&label=sentiment").fingerprint == texts.fingerprint

    def test_a_table_of_images_contains_their_bytes(self, photos, tmp_path):
        import duckdb

        file = tmp_path / "pets.parquet"
        con = duckdb.connect()
        con.execute("CREATE TABLE pets (image STRUCT(bytes BLOB, path VARCHAR), breed BIGINT)")
        for row, image in enumerate(sorted(photos.rglob("*.png"))):
            con.execute("INSERT INTO pets VALUES ({'bytes': ?, 'path': ''}, ?)", [image.read_bytes(), row % 2])
        con.execute(f"COPY pets TO '{file}'")
        data = open_data(f"{file}?image=image&label=breed")
        assert (data.kind, data.classes) == ("image", ("0", "1"))
        assert tuple(data.load([0, 1], {"image": 16})["pixel_values"].shape) == (2, 3, 16, 16)

    @pytest.mark.parametrize(
        ("query", "sentence"),
        [
            ("", "label columns were not named"),
            ("?text=review", "label columns were not named"),
            ("?text=review&label=sentimnt", "no column 'sentimnt' to use as label"),
            ("?text=revue&label=sentiment", "no column 'revue' to use as text"),
            ("?txt=review&label=sentiment", "unknown option 'txt'"),
            ("?text=review&label=row id", "has only one item, and so have 7 others"),
        ],
    )
    def test_a_bad_name_is_explained(self, reviews, query, sentence):
        with pytest.raises(DataError, match=sentence):
            open_data(f"{reviews}{query}")

    def test_a_row_without_text_is_bad(self, reviews):
        with reviews.open("a", newline="") as handle:
            csv.writer(handle).writerow(["", "good", 99])
        with pytest.raises(DataError, match="row 9 has no text or no label"):
            open_data(f"{reviews}?text=review&label=sentiment")
        assert open_data(f"{reviews}?text=review&label=sentiment", skip_bad=True).skipped == 1

    def test_an_invalid_table_is_refused(self, tmp_path):
        file = tmp_path / "x.parquet"
        file.write_bytes(b"PAR1 is how it begins")
        with pytest.raises(DataError, match="can't be read"):
            open_data(f"{file}?text=a&label=b")

    def test_columns_can_have_any_name(self, tmp_path):
        file = tmp_path / "odd.csv"
        file.write_text('"a ""b""; DROP","label"\nx,1\ny,2\nz,1\nw,2\n')
        assert open_data(f'{file}?text=a+"b"; DROP&label=label'.replace("; ", "%3B ")).texts == ("x", "y", "z", "w")


class TestArrowFolder:
    def test_without_pyarrow_it_is_refused_in_one_sentence(self, tmp_path):
        if importlib.util.find_spec("pyarrow"):
            pytest.skip("pyarrow is here")
        (tmp_path / "data-00000-of-00001.arrow").write_bytes(b"")
        with pytest.raises(DataError, match="need pyarrow"):
            open_data(f"{tmp_path}?text=text&label=label")

    def test_with_pyarrow_its_rows_and_class_names_are_read(self, tmp_path):
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed here")
        table = arrow.table({"text": ["a", "b", "c", "d"], "label": [1, 0, 1, 0]})
        (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
        part = tmp_path / "train"
        part.mkdir()
        (part / "dataset_info.json").write_text(json.dumps({"features": {"label": {"names": ["neg", "pos"]}}}))
        file = str(part / "data-00000-of-00001.arrow")
        with arrow.OSFile(file, "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = open_data(f"{tmp_path}?text=text&label=label")
        assert (data.classes, data.labels.tolist()) == (("neg", "pos"), [1, 0, 1, 0])


class TestEmbedded:
    @pytest.mark.parametrize("name", ["embedded:fashion", "embedded:glosses"])
    def test_it_has_ten_classes_of_two_hundred_real_items(self, name):
        data = open_data(name)
        assert len(data.classes) == 10
        assert np.bincount(data.labels).tolist() == [200] * 10

    def test_its_images_are_available_as_jpeg_files_of_a_size(self):
        data = open_data("embedded:fashion@48")
        for item in (0, 1999):
            with Image.open(data.sources[item]) as image:
                assert (image.format, image.size) == ("JPEG", (48, 48))
        assert sorted(data.classes) == sorted(open_data("embedded:fashion").classes)
        again = open_data("embedded:fashion@48")
        assert again.fingerprint == data.fingerprint

    def test_a_jpeg_shows_what_the_embedded_image_shows(self):
        small, files = open_data("embedded:fashion"), open_data("embedded:fashion@64")
        bag = small.classes.index("bag")
        mine = small.load([int(np.flatnonzero(small.labels == bag)[0])], {"image": 64})["pixel_values"]
        theirs = files.load([int(np.flatnonzero(files.labels == files.classes.index("bag"))[0])], {"image": 64})
        assert float((mine - theirs["pixel_values"]).abs().mean()) < 0.15

    @pytest.mark.parametrize(
        "name", ["embedded:fasion", "embedded:fashion@", "embedded:fashion@4", "embedded:glosses@3"]
    )
    def test_unknown_embedded_data_are_refused(self, name):
        with pytest.raises(DataError):
            open_data(name)

    def test_a_cache_that_cannot_be_written_is_named(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(DataError, match="can't be written"):
            open_data("embedded:fashion@32")


class TestTokens:
    def test_without_a_vocabulary_words_become_the_same_numbers_each_time(self):
        data = open_data("embedded:glosses")
        batch = data.load([0, 1], {"tokens": 12, "vocabulary": None, "size": 100})
        assert tuple(batch["input_ids"].shape) == (2, 12)
        assert 0 <= int(batch["input_ids"].min()) <= int(batch["input_ids"].max()) < 100
        again = data.load([1], {"tokens": 12, "vocabulary": None, "size": 100})
        assert batch["input_ids"][1].tolist() == again["input_ids"][0].tolist()

    def test_a_vocabulary_is_read_from_the_models_directory(self, tmp_path):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "good", "##s"]
        (tmp_path / "vocab.txt").write_text("\n".join(words))
        table = tmp_path / "t.csv"
        table.write_text("text,label\nGood films,a\nfilm,b\ngood,a\nfilm good film good,b\n")
        data = open_data(f"{table}?text=text&label=label")
        batch = data.load([0, 3], {"tokens": 5, "vocabulary": str(tmp_path)})
        assert batch["input_ids"].tolist() == [[2, 6, 5, 7, 3], [2, 5, 6, 5, 3]]
        assert data.load([1], {"tokens": 5, "vocabulary": tmp_path})["attention_mask"].tolist() == [[1, 1, 1, 0, 0]]

    def test_a_directory_without_one_is_named(self, tmp_path):
        with pytest.raises(DataError, match="has no vocabulary"):
            open_data("embedded:glosses").load([0], {"tokens": 5, "vocabulary": str(tmp_path)})


def test_missing_data_are_named(tmp_path):
    with pytest.raises(DataError, match="there is no data"):
        open_data(str(tmp_path / "nowhere"))
