"""Archives are read in place; what leads outside, is damaged or is too large is refused."""

import io
import re
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.benchmarks import archives
from rankledger.benchmarks.archives import contents
from rankledger.tables import InputError

XML = re.compile(r".*\.xml")
FILES = {"2013/a.xml": b"first" * 300, "b.xml": b"second" * 200, "notes.txt": b"not asked for"}


def pack_zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def pack_tar(files, mode="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


PACKERS = {".zip": pack_zip, ".tar": pack_tar, ".tar.gz": lambda files: pack_tar(files, "w:gz")}
PACKERS[".tgz"] = PACKERS[".tar.gz"]


def read(folder):
    return dict(contents(folder, XML))


@pytest.mark.parametrize("suffix", archives.SUFFIXES)
def test_members_and_loose_files_are_found_at_any_depth(tmp_path, suffix):
    deep = tmp_path / "deep" / "down"
    deep.mkdir(parents=True)
    (deep / f"all{suffix}").write_bytes(PACKERS[suffix](FILES))
    (deep / "c.xml").write_bytes(b"third")
    assert read(tmp_path) == {
        f"deep/down/all{suffix}/2013/a.xml": FILES["2013/a.xml"],
        f"deep/down/all{suffix}/b.xml": FILES["b.xml"],
        "deep/down/c.xml": b"third",
    }
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [f"all{suffix}", "c.xml"]


def test_folders_in_archives_are_no_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("folder.xml/", b"")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("folder.xml")
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    assert read(tmp_path) == {}


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tgz"])
@pytest.mark.parametrize(
    "name", ["../a.xml", "/etc/a.xml", "2013/../../a.xml", "..\\a.xml", "C:\\a.xml", "x/..", "../unasked.txt"]
)
def test_a_path_that_leads_outside_is_refused(tmp_path, suffix, name):
    (tmp_path / f"all{suffix}").write_bytes(PACKERS[suffix]({"good.xml": b"", name: b"content"}))
    with pytest.raises(InputError, match=r"leads outside the archive"):
        read(tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        info = tarfile.TarInfo("a.xml")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(InputError, match=r"'a.xml' is a link or a device"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tgz"])
def test_a_member_that_grows_without_end_is_refused(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(archives, "LIMIT", 1 << 20)
    (tmp_path / f"all{suffix}").write_bytes(PACKERS[suffix]({"a.xml": bytes(1 << 20)}))
    assert len(read(tmp_path)[f"all{suffix}/a.xml"]) == 1 << 20
    (tmp_path / f"all{suffix}").write_bytes(PACKERS[suffix]({"a.xml": bytes((1 << 20) + 1)}))
    with pytest.raises(InputError, match=r"'a.xml' is larger than 1 MiB"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tgz"])
def test_an_archive_cut_off_anywhere_is_refused(tmp_path, suffix):
    whole = PACKERS[suffix](FILES)
    end = len(whole.rstrip(b"\0")) if suffix == ".tar" else len(whole)  # a tar's end is padded with zeros
    for cut in [*range(0, end, 97), *range(0, end, 512), end - 1]:
        (tmp_path / f"all{suffix}").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"no whole archive"):
            read(tmp_path)


def test_a_tar_with_a_spoilt_header_in_its_middle_does_not_end_there(tmp_path):
    whole = bytearray(pack_tar(FILES))
    second = whole.index(b"b.xml")
    whole[second] ^= 1  # the header's checksum is now wrong
    (tmp_path / "all.tar").write_bytes(whole)
    with pytest.raises(InputError, match=r"no whole archive"):
        read(tmp_path)


def test_a_locked_zip_is_refused(tmp_path):
    locked = bytearray(pack_zip({"a.xml": b"secret"}))
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        locked[locked.index(signature) + flags] |= 1
    (tmp_path / "all.zip").write_bytes(locked)
    with pytest.raises(InputError, match=r"no whole archive that can be read .*encrypted"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", archives.SUFFIXES)
def test_what_is_no_archive_is_refused(tmp_path, suffix):
    (tmp_path / f"all{suffix}").write_text("<html>please log in</html>")
    with pytest.raises(InputError, match=r"no whole archive"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", [".zip", ".tgz"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_changed_byte_never_changes_a_file(tmp_path_factory, suffix, data):
    folder = tmp_path_factory.mktemp("changed")
    spoilt = bytearray(PACKERS[suffix](FILES))
    spoilt[data.draw(st.integers(0, len(spoilt) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (folder / f"all{suffix}").write_bytes(spoilt)
    try:
        found = read(folder)
    except InputError:
        return
    assert set(found.values()) <= {FILES["2013/a.xml"], FILES["b.xml"]}
