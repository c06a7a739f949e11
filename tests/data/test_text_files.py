"""Texts on disk are read as they are, or refused in one sentence that names the file."""

import os

import pytest

from ostrakon.data.text_files import LONGEST, holds_texts, is_lines, read_texts, require_apart, require_pictures
from ostrakon.validation import InvalidInput


def written(place, content):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return place


def test_folders_name_the_classes(tmp_path):
    for name in ("good/2.txt", "good/deep/1.TXT", "bad/notes.md", "ant/9.txt"):
        written(tmp_path / name, f"in {name}")
    written(tmp_path / "good" / "picture.pdf", b"%PDF")
    written(tmp_path / ".git" / "good.txt", "hidden")
    written(tmp_path / "good" / ".draft.txt", "hidden")
    assert holds_texts(tmp_path)
    found = read_texts(tmp_path)
    assert found.labels.tolist() == ["ant", "bad", "good", "good"]
    assert found.texts == ("in ant/9.txt", "in bad/notes.md", "in good/2.txt", "in good/deep/1.TXT")
    assert found.others == 1


def test_loose_files_have_no_labels(tmp_path):
    for name in ("b.txt", "a.txt"):
        written(tmp_path / name, name)
    found = read_texts(tmp_path)
    assert found.labels is None
    assert found.texts == ("a.txt", "b.txt")
    written(tmp_path / "c" / "c.txt", "c")
    with pytest.raises(InvalidInput, match=r"in folders of classes, or none; a\.txt is loose"):
        read_texts(tmp_path)


def test_what_is_a_folder_of_texts(tmp_path):
    assert not holds_texts(tmp_path)
    assert not holds_texts(tmp_path / "absent")
    assert not holds_texts(written(tmp_path / "lines.txt", "a\nb\n"))
    table = written(tmp_path / "table" / "part.parquet", b"PAR1").parent
    written(table / "README.md", "about it")
    assert not holds_texts(table)
    pictures = written(tmp_path / "pictures" / "1.png", b"").parent
    written(pictures / "notes.txt", "about them")
    assert not holds_texts(pictures)
    with pytest.raises(InvalidInput, match=r"must hold texts \(\.txt, \.md\), got none"):
        read_texts(written(tmp_path / "other" / "a.pdf", b"").parent)


def test_pictures_among_many_texts_are_strays(tmp_path):
    written(tmp_path / "a" / "1.png", b"")
    for number in range(2):
        written(tmp_path / "a" / f"{number}.txt", "a caption")
    written(tmp_path / ".git" / "x.txt", "hidden")
    require_pictures(tmp_path)
    written(tmp_path / "a" / "3.md", "one more")
    with pytest.raises(InvalidInput, match="must hold pictures or texts, got 3 files of text and 1 of pictures"):
        require_pictures(tmp_path)
    require_pictures(written(tmp_path / "images.npz", b""))


def test_a_byte_order_mark_and_an_empty_file_are_no_content(tmp_path):
    written(tmp_path / "a.txt", b"\xef\xbb\xbfna\xc3\xafve")
    written(tmp_path / "b.txt", b"")
    assert read_texts(tmp_path).texts == ("na\u00efve", "")


@pytest.mark.parametrize(
    "content",
    [b"na\xefve", "text".encode("utf-16"), "text".encode("utf-16-le"), b"cut \xc3", b"\xff\xfe", b"\xef", b"\xef\xbb"],
)
def test_other_encodings_are_refused_by_name(tmp_path, content):
    written(tmp_path / "fine.txt", "fine")
    written(tmp_path / "other.txt", content)
    with pytest.raises(InvalidInput, match=r"other\.txt must be text in UTF-8"):
        read_texts(tmp_path)
    with pytest.raises(InvalidInput, match=r"other\.txt must be text in UTF-8"):
        read_texts(tmp_path / "other.txt")


def test_of_a_long_file_the_beginning_is_read_and_no_sign_is_cut(tmp_path):
    written(tmp_path / "a.txt", "x" * LONGEST)
    written(tmp_path / "b.txt", "x" * (LONGEST - 1) + "ä and more")
    first, second = read_texts(tmp_path).texts
    assert (len(first), set(first)) == (LONGEST, {"x"})
    assert (len(second), set(second)) == (LONGEST - 1, {"x"})


def test_links_are_refused_and_not_followed(tmp_path):
    secret = written(tmp_path / "secret" / "s.txt", "secret")
    public = written(tmp_path / "public" / "a.txt", "open").parent
    (public / "b.txt").symlink_to(secret)
    with pytest.raises(InvalidInput, match=r"b\.txt must be no symbolic link"):
        read_texts(public)
    (public / "b.txt").unlink()
    (public / "c").symlink_to(secret.parent)
    with pytest.raises(InvalidInput, match=r"c must be no symbolic link"):
        read_texts(public)
    (public / "c").unlink()
    (public / "d.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match=r"d\.txt must be no symbolic link"):
        read_texts(public)


def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(InvalidInput, match=r"a\.txt must be a plain file"):
        read_texts(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    written(tmp_path / "a.txt", "x").chmod(0)
    with pytest.raises(InvalidInput, match=r"a\.txt cannot be read: permission denied"):
        read_texts(tmp_path)


def test_a_class_whose_name_cannot_leave_is_refused(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(folder)
    with open(os.path.join(folder, "a.txt"), "w") as file:
        file.write("x")
    with pytest.raises(InvalidInput, match="must have a name in UTF-8") as refused:
        read_texts(tmp_path)
    str(refused.value).encode()


def test_one_text_a_line(tmp_path):
    assert not is_lines(tmp_path)
    place = written(tmp_path / "lines.txt", "\ufefffirst\r\nsecond line\u2028here\r\nthird")
    found = read_texts(place)
    assert found.texts == ("first", "second line\u2028here", "third")
    assert found.labels is None
    assert is_lines(place)
    assert not is_lines(written(tmp_path / "table.csv", "a\n"))
    with pytest.raises(InvalidInput, match=r"one text a line, and line 2 is empty"):
        read_texts(written(place, "first\n \nthird\n"))
    with pytest.raises(InvalidInput, match="is empty"):
        read_texts(written(place, ""))
    with pytest.raises(InvalidInput, match=r"lines\.csv must be a folder of texts, or a \.txt file"):
        read_texts(written(tmp_path / "lines.csv", "a,b\n"))
    with pytest.raises(InvalidInput, match="cannot be read: no such file"):
        read_texts(tmp_path / "absent.txt")


def test_texts_have_no_users(tmp_path):
    written(tmp_path / "a.txt", "x")
    with pytest.raises(InvalidInput, match="--by needs a table"):
        read_texts(tmp_path, by="who")


def test_folders_must_lie_apart(tmp_path):
    require_apart(tmp_path / "a", tmp_path / "b")
    for first, second in (("a", "a"), ("a", "a/b"), ("a/b/c", "a")):
        with pytest.raises(InvalidInput, match="must lie apart"):
            require_apart(tmp_path / first, tmp_path / second)
